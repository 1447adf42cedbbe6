"""The revisions, oldest first. What was released is never edited: a change is a new file."""
