"""Files that are whole or absent, and refused before the work when they could not be written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tenure.settings.errors import BadInput


def check_writable(*paths: Path | None, inputs: tuple[Path, ...] = ()) -> None:
    """Refuse, before hours of play, what could not be written or would write over an input or twice.

    Raises BadInput with the path and what is wrong with it.
    """
    taken = {path.resolve(): "a file this command reads" for path in inputs}
    for path in paths:
        if path is None:
            continue
        allowed = "the name of a file that can be written"
        if str(path) == "-":
            raise BadInput("-", "", "stdout", f"{allowed}; only --json takes -")
        folder = path.resolve().parent
        if path.is_dir():
            raise BadInput(str(path), "", "a folder", allowed)
        if _is_device(path):
            continue
        if not folder.is_dir():
            raise BadInput(str(path), "", f"no folder {folder}", "a file in a folder that is there")
        if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
            raise BadInput(str(path), "", "no permission to write there", allowed)
        if path.resolve() in taken:
            raise BadInput(str(path), "", taken[path.resolve()], "a file of its own for each output")
        taken[path.resolve()] = "the same file for two outputs"


@contextmanager
def placed(path: Path) -> Iterator[Path]:
    """Gives a temporary name beside `path`; when all went well the file gets its own name, else it goes."""
    target = path.resolve()  # through a symbolic link, not over it
    if _is_device(target):
        yield target
        return
    whole_suffix = "".join(target.suffixes)
    draft = target.with_name(f".{target.name.removesuffix(whole_suffix)}.{os.getpid()}{whole_suffix}")
    try:
        yield draft
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _is_device(path: Path) -> bool:
    """/dev/null, a pipe: written as it is, never replaced."""
    return path.exists() and not path.is_file()


def write_json(content: Mapping[str, Any], path: Path) -> None:
    """Write `content` as JSON; numbers that are none (nan, infinity) become null."""
    with placed(path) as draft:
        draft.write_text(json_text(content), encoding="utf-8")


def json_text(content: Any) -> str:
    """The JSON text of measures: two spaces, keys as given, a line end last."""
    return json.dumps(plain(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def plain(content: Any) -> Any:
    """Ordinary Python values: numpy's own numbers and arrays unwrapped, nan and infinity as None."""
    if isinstance(content, Mapping):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple | set | frozenset):
        return [plain(value) for value in content]
    if hasattr(content, "tolist"):
        return plain(content.tolist())
    if isinstance(content, float) and not (abs(content) < float("inf")):
        return None
    if content is None or isinstance(content, str | int | float | bool):
        return content
    return str(content)
