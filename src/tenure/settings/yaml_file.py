"""YAML files, read with care: what was meant, quickly, or one message.

A smaller YAML than the library's: keys are always text as written, so that an account may be called `no`
or `007`; of plain values only null, true, false and decimal integers are more than text (times, shares
and fractions are read by `units`, exactly). A key given twice, a file too large or too deep and
aliases that unfold to more than the file itself could hold are refused before anything is built.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tenure.settings.errors import BadInput, dotted, shown

LARGEST_BYTES = 16 * 1024 * 1024
DEEPEST = 60
MOST_UNFOLDED = 100_000  #: values a file with aliases may unfold to (or three times what it holds)

_Parser: Any = getattr(yaml, "CParser", None)
_Base: Any = yaml.CSafeLoader if _Parser is not None else yaml.SafeLoader
_TAG = "tag:yaml.org,2002:"


class _SmallYaml(_Base):  # type: ignore[misc]
    """The library's parser with a shorter list of plain values that are not text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


for _kind, _pattern, _starts in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"-?(0|[1-9][0-9]{0,17})", list("-0123456789")),
    ("merge", r"<<", ["<"]),
):
    _SmallYaml.add_implicit_resolver(_TAG + _kind, re.compile(rf"^(?:{_pattern})$"), _starts)


def read_yaml(path: Path) -> Any:
    """The value a file holds: mappings with text keys, lists, text, integers, booleans, None."""
    file = str(path)
    try:
        with path.open("rb") as opened:
            content = opened.read(LARGEST_BYTES + 1)
    except OSError as refused:
        why = refused.strerror or type(refused).__name__
        raise BadInput(file, "", why.lower(), "a YAML file that can be read") from None
    except ValueError:  # a NUL in the name
        raise BadInput(shown(file), "", "a name no file can have", "a YAML file that can be read") from None
    if len(content) > LARGEST_BYTES:
        raise BadInput(file, "", "a larger file", f"at most {LARGEST_BYTES // 2**20} MiB of YAML")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as refused:
        line = content[: refused.start].count(b"\n") + 1
        raise BadInput(file, f"line {line}", "bytes that are not UTF-8", "text in UTF-8") from None
    return parse_yaml(text, file=file)


def parse_yaml(text: str, *, file: str = "") -> Any:
    """As `read_yaml`, of text; `file` names it in messages."""
    try:
        _check_depth(text, file)
        node = yaml.compose(text, Loader=_SmallYaml)
    except yaml.YAMLError as refused:
        mark = getattr(refused, "problem_mark", None) or getattr(refused, "context_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(refused, "problem", None) or getattr(refused, "reason", None) or "bad YAML"
        raise BadInput(file, where, f"something that is not YAML ({problem})", "valid YAML") from None
    except (UnicodeError, ValueError, RecursionError) as refused:
        raise BadInput(file, "", f"something that is not YAML ({refused})", "valid YAML") from None
    if node is None:
        return None
    _check_unfolded(node, file)
    return _built(node, [], file)


def _check_depth(text: str, file: str) -> None:
    """By the stream of events, which needs no recursion."""
    depth = 0
    for event in yaml.parse(text, Loader=_SmallYaml):
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > DEEPEST:
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise BadInput(file, f"line {line}", "a deeper nesting", f"at most {DEEPEST} levels")
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1


def _check_unfolded(root: yaml.Node, file: str) -> None:
    """Count what the aliases unfold to, each node once; a node that holds itself is refused too."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in open_nodes:
            raise BadInput(file, _line(node), "an alias inside what it names", "aliases of whole values")
        if isinstance(node, yaml.ScalarNode):
            return 1
        open_nodes.add(id(node))
        inside = (
            node.value if isinstance(node, yaml.SequenceNode) else [n for pair in node.value for n in pair]
        )
        total = 1 + sum(size(child) for child in inside)
        open_nodes.discard(id(node))
        sizes[id(node)] = total
        if total > most:
            raise BadInput(file, _line(node), "aliases that unfold to far too much", f"at most {most} values")
        return total

    most = max(MOST_UNFOLDED, 3 * _nodes(root))
    size(root)


def _nodes(root: yaml.Node) -> int:
    """Nodes that are really there, each counted once."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            todo.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            for pair in node.value:
                todo.extend(pair)
    return len(seen)


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"


def _built(node: yaml.Node, at: list[Any], file: str) -> Any:
    if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
        return _mapping(node, at, file)
    if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
        return [_built(child, [*at, row], file) for row, child in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, at, file)
    raise _refused_tag(node, at, file)


def _scalar(node: yaml.ScalarNode, at: list[Any], file: str) -> Any:
    kind, value = node.tag.removeprefix(_TAG), str(node.value)
    if kind == "null":
        return None
    if kind == "bool" and value in ("true", "false"):
        return value == "true"
    if kind == "int" and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    if kind in ("str", "merge"):
        return value
    raise _refused_tag(node, at, file)


def _refused_tag(node: yaml.Node, at: list[Any], file: str) -> BadInput:
    found = f"the YAML tag {shown(node.tag.removeprefix(_TAG))}"
    return BadInput(file, dotted(at) or _line(node), found, "plain values, without a tag")


def _mapping(node: yaml.MappingNode, at: list[Any], file: str) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    merged: list[dict[str, Any]] = []
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise BadInput(file, dotted(at) or _line(key_node), "a key that is not text", "text as key")
        key = str(key_node.value)
        value = _built(value_node, [*at, key], file)
        if key_node.tag == _TAG + "merge":
            parts = value if isinstance(value, list) else [value]
            if not all(isinstance(part, dict) for part in parts):
                raise BadInput(file, dotted([*at, key]), shown(value), "a mapping, or a list of them")
            merged += parts
            continue
        if key in mapping:
            line = _line(key_node)
            raise BadInput(file, dotted([*at, key]), f"the same key again ({line})", "each key once")
        mapping[key] = value
    for part in merged:
        for key, value in part.items():
            mapping.setdefault(key, value)
    return mapping


def yaml_text(value: Any) -> str:
    """A file of these keys, in their order."""
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text
