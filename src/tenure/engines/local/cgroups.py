"""What can this machine's cgroups do for us? v2, v1 or none: each is enough.

Where a cgroup can be made, all processes of an attempt are killed as one, and memory and processes can be
bounded. Without one, the shepherd finds them by descent.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

LIMITS = {  # by controller: its file in v2, its file in v1
    "memory": ("memory.max", "memory.limit_in_bytes"),
    "pids": ("pids.max", "pids.max"),
}


class Cgroups(NamedTuple):
    """Folders under which one can be made for each attempt; the first is that by which it is killed."""

    kind: str  #: v2, v1 or none
    parents: tuple[str, ...] = ()
    limited: tuple[str, ...] = ()  #: controllers that can bound

    def make(self, name: str, bounds: dict[str, int]) -> list[str]:
        """Cgroups for one attempt, with its bounds; those that could not be made are left out."""
        made = []
        for parent in self.parents:
            folder = Path(parent) / name
            try:
                folder.mkdir(parents=True, exist_ok=True)
                for controller, value in bounds.items():
                    for file in LIMITS[controller]:
                        if (folder / file).exists():
                            (folder / file).write_text(str(value))
            except OSError:
                continue
            made.append(str(folder))
        return made

    def close(self) -> None:
        """Take away the folders, where nothing is in them."""
        for parent in self.parents:
            try:
                os.rmdir(parent)
            except OSError:
                continue


NONE = Cgroups("none")


def find_cgroups(
    data: Path, bounds: frozenset[str] = frozenset(), mounts: str = "/proc/self/mounts"
) -> Cgroups:
    """What this machine has and lets us make. `bounds`: controllers that are wanted."""
    ours = "tenure-" + hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:12]
    unified, by_controller = _mounted(Path(mounts))
    parents: list[str] = []
    limited: set[str] = set()
    kind = "none"
    if unified and (parent := _made(unified / ours)) and (parent / "cgroup.kill").exists():
        kind = "v2"
        parents.append(str(parent))
        for controller in bounds:
            if _delegated(parent, controller):
                limited.add(controller)
    elif "freezer" in by_controller and (parent := _made(by_controller["freezer"] / ours)):
        kind = "v1"
        parents.append(str(parent))
    for controller in sorted(bounds - limited):
        if controller in by_controller and (parent := _made(by_controller[controller] / ours)):
            parents.append(str(parent))
            limited.add(controller)
    return Cgroups(kind, tuple(parents), tuple(sorted(limited)))


def _mounted(mounts: Path) -> tuple[Path | None, dict[str, Path]]:
    """Our own cgroup in the v2 hierarchy, and in that of each v1 controller."""
    unified, by_controller = None, {}
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None, {}
    inside = {names: path for _, names, path in (line.split(":", 2) for line in own)}
    for line in lines:
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2":
            unified = _inside(point, inside.get("", "/"))
        elif kind == "cgroup":
            for controller in options.split(","):
                path = next((path for names, path in inside.items() if controller in names.split(",")), "/")
                by_controller[controller] = _inside(point, path)
    return unified, by_controller


def _inside(point: str, path: str) -> Path:
    """Our own place below a mount point, or the mount point where that is not shown here."""
    folder = Path(point + path)
    return folder if folder.is_dir() else Path(point)


def _made(folder: Path) -> Path | None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def _delegated(parent: Path, controller: str) -> bool:
    """Whether cgroups below this one can be bounded by a controller, having tried to make it so."""
    for folder in (parent.parent, parent):
        try:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            continue
    try:
        return controller in (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
