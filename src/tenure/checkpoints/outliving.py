"""Does a store outlive the window? One on the window's own disks is gone with it, and is refused.

A bucket outlives every window, and so does a network mount. A disk of the machine itself does only where the
machine stays: on a provider's machines it is wiped with the reservation, whatever the disk is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from tenure.checkpoints.words import StoreError

STAYING = ("own", "local", "slurm")  #: providers whose machines are still ours when a window is over
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")
OF_A_CONTAINER = ("overlay", "aufs")
OVER_THE_NETWORK = tuple(
    "nfs nfs4 cifs smb3 lustre ceph gpfs beegfs wekafs glusterfs 9p virtiofs afs".split()
)
BUCKETS_MOUNTED = ("fuse.",)  #: s3fs, gcsfuse, rclone, JuiceFS …
MOUNTS = Path("/proc/mounts")


class Provider(Protocol):
    """What is asked of a provider's capability record."""

    @property
    def provider(self) -> str:
        """Its name."""
        ...


class Mount(NamedTuple):
    """A line of /proc/mounts."""

    device: str
    at: str
    kind: str


def refuse_unless_it_outlives(url: str, provider: Provider | None, mounts: str | None = None) -> None:
    """StoreError with the reason where a store at `url` would be gone with the window."""
    reason = dies_with_the_window(url, provider, mounts)
    if reason is not None:
        raise StoreError(f"{url} {reason}; keep checkpoints in a bucket or on a network file system")


def dies_with_the_window(url: str, provider: Provider | None, mounts: str | None = None) -> str | None:
    """
    Why a store at `url` would not outlive a window of `provider` (None: our own machines); None if it does.

    `mounts`: the text of /proc/mounts on a machine that trains; this machine's where it is not given.
    """
    scheme, rest = url.split("://", 1) if "://" in url else ("file", url)
    if scheme == "memory":
        return "is in the memory of one process"
    if scheme not in ("file", "local"):
        return None
    text = MOUNTS.read_text() if mounts is None and MOUNTS.exists() else mounts or ""
    mount = _mount_of(str(Path(rest).absolute()), text)
    rented = provider is not None and provider.provider not in STAYING
    if mount is None:
        return "is on a disk of the machine, which goes back to the provider" if rented else None
    if mount.kind in IN_MEMORY:
        return f"is in memory ({mount.kind} at {mount.at})"
    if mount.kind in OVER_THE_NETWORK or mount.kind.startswith(BUCKETS_MOUNTED):
        return None
    if mount.kind in OF_A_CONTAINER:
        return f"is in a container's own layer ({mount.kind} at {mount.at}), which goes with it"
    if rented:
        return (
            f"is on a disk of the machine ({mount.device} at {mount.at}), which is wiped when the window ends"
        )
    return None


def _mount_of(path: str, mounts: str) -> Mount | None:
    """The mount a path lies on: the longest that contains it, the last of those at one place."""
    best: Mount | None = None
    for mount in _read(mounts):
        inside = PurePosixPath(path).is_relative_to(mount.at)
        if inside and (best is None or len(mount.at) >= len(best.at)):
            best = mount
    return best


def _read(mounts: str) -> Iterator[Mount]:
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) >= 3:
            at = parts[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
            yield Mount(parts[0], at, parts[2])
