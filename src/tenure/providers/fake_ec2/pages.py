"""Answers in pages, and filters: what all describes have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tenure.providers.fake_ec2.faults import Ec2Error

FIRST = "from-"  #: how a token begins


def page(asked: Mapping[str, Any], key: str, rows: Sequence[Any]) -> dict[str, Any]:
    """The part of the rows that `NextToken` and `MaxResults` ask for."""
    token, most = asked.get("NextToken"), asked.get("MaxResults")
    start = 0
    if token is not None:
        if not token.startswith(FIRST) or not token[len(FIRST) :].isdigit():
            raise Ec2Error("InvalidPaginationToken", f"The token '{token}' is not valid")
        start = int(token[len(FIRST) :])
    end = len(rows) if most is None else start + int(most)
    told: dict[str, Any] = {key: list(rows[start:end])}
    if end < len(rows):
        told["NextToken"] = f"{FIRST}{end}"
    return told


def filtered(
    asked: Mapping[str, Any], shapes: Sequence[dict[str, Any]], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Those that pass all `Filters`: tags, and the members that `names` gives."""
    kept = list(shapes)
    for told in asked.get("Filters", ()):
        name, wanted = told["Name"], told.get("Values", [])
        kept = [shape for shape in kept if _passes(shape, name, wanted, names)]
    return kept


def _passes(shape: dict[str, Any], name: str, wanted: Sequence[str], names: Mapping[str, str]) -> bool:
    if name.startswith("tag:"):
        values = [tag["Value"] for tag in shape.get("Tags", ()) if tag["Key"] == name[4:]]
    elif name == "tag-key":
        values = [tag["Key"] for tag in shape.get("Tags", ())]
    elif name in names:
        values = [_member(shape, names[name])]
    else:
        raise Ec2Error("InvalidParameterValue", f"The filter '{name}' is invalid")
    return any(fnmatchcase(value, pattern) for value in values for pattern in wanted)


def _member(shape: dict[str, Any], path: str) -> str:
    found: Any = shape
    for part in path.split("."):
        found = found.get(part, "") if isinstance(found, dict) else ""
    return str(found)
