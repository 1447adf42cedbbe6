"""One exception for all that is wrong in what people write, and one sentence for each.

BadInput (ValueError)
    a file, a mapping or a flag says something that cannot be: the command ends with exit status 2
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

SHOWN_CHARACTERS = 60
LONGEST_WORDS = 300

#: What is allowed where pydantic itself refuses, by the kind of its error.
ALLOWED = {
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "mapping_type": "a mapping (key: value)",
    "list_type": "a list",
    "recursion_loop": "a value that does not hold itself",
}

Model = TypeVar("Model", bound=BaseModel)


class BadInput(ValueError):
    """The input is wrong: names the file, the path of the key, what was found and what is allowed."""

    def __init__(self, file: str, key_path: str, found: str, allowed: str, *, more: int = 0) -> None:
        self.file = str(file)
        self.key_path = key_path
        self.found = found
        self.allowed = allowed
        where = ": ".join(_short(part) for part in (self.file, key_path) if part)
        rest = f" (and {more} more)" if more else ""
        message = f"{where}: found {_short(found)}; allowed: {allowed}{rest}"
        super().__init__(" ".join(message.split()))


def _short(words: str) -> str:
    """Names may be thousands of letters long; a sentence is not."""
    return words if len(words) <= LONGEST_WORDS else f"{words[:150]}…{words[-100:]}"


class Checked(BaseModel):
    """A mapping whose keys are all known. Frozen: what was checked stays as it was."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def shown(value: Any) -> str:
    """The value as a person wrote it, on one line and not too long."""
    try:
        text = f"'{value}'" if isinstance(value, str) and value.isprintable() else repr(value)
    except Exception:  # a foreign object may have any repr
        text = type(value).__name__
    if isinstance(value, (Mapping, list)) and len(text) > SHOWN_CHARACTERS:
        noun = "mapping" if isinstance(value, Mapping) else "list"
        return f"a {noun} of {len(value)}"
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def nearest(word: str, known: Iterable[str], *, most: int = 8) -> str:
    """What to offer for an unknown word: the likeliest of the known ones first, a few in all."""
    names = list(known)
    if not names:
        return "none is known here"
    close = difflib.get_close_matches(word[:100], names[:5000], n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    listed = ", ".join(names[:most])
    return listed if len(names) <= most else f"{listed} … ({len(names)} in all)"


def dotted(parts: Sequence[Any]) -> str:
    """`jobs[3].gpus`: the path of a key as it would be looked for in the file."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else f"{part}"
    return text


def checked(model: type[Model], raw: Any, *, file: str, at: Sequence[Any] = ()) -> Model:
    """`raw` as a `model`; BadInput about the first thing wrong in it, in the order it was written."""
    try:
        return model.model_validate(raw)
    except ValidationError as refused:
        raise _one_sentence(model, raw, refused, file=file, at=at) from None
    except RecursionError:
        raise BadInput(file, dotted(at), "a value nested too deeply", "a tree of at most 60 levels") from None


def _one_sentence(
    model: type[BaseModel], raw: Any, refused: ValidationError, *, file: str, at: Sequence[Any]
) -> BadInput:
    errors = refused.errors(include_url=False)
    errors.sort(key=lambda error: _position(raw, error["loc"]))
    first = errors[0]
    loc = [part for part in first["loc"] if part != "[key]"]
    kind, found = first["type"], shown(first["input"])
    if kind == "extra_forbidden":
        found = f"the unknown key {shown(str(loc[-1]))}"
        allowed = nearest(str(loc[-1]), _keys_of(_model_at(model, loc[:-1])))
    elif kind == "missing":
        found, allowed = "nothing", "a value: this key is required"
    elif kind in ("value_error", "assertion_error"):
        allowed = str(first.get("ctx", {}).get("error", first["msg"]))
    else:
        allowed = ALLOWED.get(kind, first["msg"])
    return BadInput(file, dotted([*at, *loc]), found, allowed, more=len(errors) - 1)


def _position(raw: Any, loc: Sequence[Any]) -> tuple[int, ...]:
    """Where the key stands in the file, so that the first thing wrong is told first."""
    places: list[int] = []
    for part in loc:
        if isinstance(raw, Mapping) and part in raw:
            places.append(list(raw).index(part))
            raw = raw[part]
        elif isinstance(raw, list) and isinstance(part, int) and part < len(raw):
            places.append(part)
            raw = raw[part]
        else:
            places.append(len(raw) if isinstance(raw, (Mapping, list)) else 0)
            break
    return tuple(places)


def _keys_of(model: Any) -> list[str]:
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [field.alias or name for name, field in model.model_fields.items()]
    return []


def _model_at(model: Any, loc: Sequence[Any]) -> Any:
    """The type that stands at `loc` below a model, as far as annotations tell."""
    for part in loc:
        model = _plain(model)
        if isinstance(model, type) and issubclass(model, BaseModel):
            by_key = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
            model = by_key.get(str(part))
        elif typing.get_origin(model) in (dict, list):
            model = typing.get_args(model)[-1]
        else:
            return None
    return _plain(model)


def _plain(annotation: Any) -> Any:
    """Without `Annotated` and `| None`."""
    while typing.get_origin(annotation) in (typing.Annotated, typing.Union, types.UnionType):
        inner = [a for a in typing.get_args(annotation) if a is not type(None)]
        annotation = inner[0]
    return annotation
