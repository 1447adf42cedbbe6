"""What speaks to a server: the typed client that the commands use, and the words of its messages."""
