"""What speaks to a server: the typed client that the commands use, and the words of its messages."""

from tenure.client.asking import Client
from tenure.client.errors import ClientError, NotAllowed, Refused, ServerUnavailable

__all__ = ["Client", "ClientError", "NotAllowed", "Refused", "ServerUnavailable"]
