"""What can be wrong with a story's file.

StoryError
"""

from __future__ import annotations


class StoryError(ValueError):
    """The file cannot be read as a story; the message names the file, the line and what was found."""
