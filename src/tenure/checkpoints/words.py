"""What is a checkpoint, and what can be wrong with one or with its store?

StoreError
├── StoreUnavailable   the store does not answer, or is full: ask again; what was committed stands
│   ├── StoreFull      there is no room left
│   └── ClockOff       this machine's clock and the store's are too far apart: nothing is taken
├── Incomplete         files are missing, cut off or altered: this checkpoint is not to be used
├── Fenced             a newer attempt has taken over: what this one saved does not count
├── AlreadyCommitted   this step is committed already, by another save
└── NothingUsable      the store holds checkpoints, and none of them can be used: never step 0 by itself
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

FORMAT = 1  #: of MANIFEST.json; a reader refuses a newer one


class StoreError(Exception):
    """The store could not do what it was asked; nothing that was committed is touched."""


class StoreUnavailable(StoreError):
    """No answer: the store may be asked again."""


class StoreFull(StoreUnavailable):
    """There is no room left in the store."""


class ClockOff(StoreUnavailable):
    """This machine's clock and the store's are too far apart: nothing is taken until it is set right."""


class Incomplete(StoreError):
    """Files are missing, cut off or altered: this checkpoint is not to be used."""


class Fenced(StoreError):
    """A newer attempt has taken over: what this one saved does not count."""


class AlreadyCommitted(StoreError):
    """This step is committed already, by another save."""


class NothingUsable(StoreError):
    """The store holds something of this run, and nothing that can be resumed from.

    To begin at step 0 all the same is a decision of a person, never a default.
    """


class File(NamedTuple):
    """One file of a checkpoint. `name` is relative to it, with forward slashes."""

    name: str
    bytes: int
    sha256: str


class Manifest(NamedTuple):
    """All that a checkpoint is, as its MANIFEST.json says it."""

    run: str
    step: int
    attempt: int
    tokens: int
    files: tuple[File, ...]
    at: float  #: epoch seconds, by the writer's clock
    writer: str = ""  #: machine and process
    framework: str = ""
    parent: int | None = None  #: the step it was resumed from
    window: str = ""  #: id of the capacity window it was saved in
    final: bool = False  #: the last of a window or of the run: never pruned
    world: Mapping[str, Any] = {}  #: shape: ranks, and how the model lies on them
    loader: Mapping[str, Any] = {}  #: position of the data loader

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.bytes for file in self.files)


class Checkpoint(NamedTuple):
    """A committed checkpoint. `path` is its folder, relative to the run's."""

    step: int
    attempt: int
    tokens: int
    bytes: int
    files: int
    at: float
    final: bool
    path: str
    manifest_sha256: str  #: what the commit says of its MANIFEST.json

    @property
    def name(self) -> str:
        """As people say it: step-attempt, and which try again where it was not the first."""
        return self.path.rsplit("/", 1)[-1]
