from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.settings import yaml_file
from tenure.settings.errors import BadInput
from tenure.settings.yaml_file import parse_yaml, read_yaml


def refused(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        parse_yaml(text, file="lab.yaml")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("lab.yaml: ")
    return str(caught.value)


def test_plain_values_keep_what_was_written() -> None:
    text = "{a: 1, b: 1.2e12, c: 007, d: no, e: true, f: ~, g: '8', h: 2026-01-05, no: x, 010: y, i: 1:30}"
    assert parse_yaml(text) == {
        "a": 1, "b": "1.2e12", "c": "007", "d": "no", "e": True, "f": None, "g": "8", "h": "2026-01-05",
        "no": "x", "010": "y", "i": "1:30",
    }  # fmt: skip


def test_a_key_given_twice_is_refused() -> None:
    assert "accounts.vision: found the same key again (line 3)" in refused(
        "accounts:\n  vision: 1\n  vision: 2\n"
    )


def test_merges_and_aliases_work() -> None:
    assert parse_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: [*a]\n") == {
        "a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": [{"x": 1, "y": 2}],
    }  # fmt: skip


def laughs(first: str, level: str) -> str:
    """Eleven levels, each naming the one before it nine times."""
    lines = [f"a0: &a0 {first}"]
    for row in range(1, 12):
        names = ",".join([f"*a{row - 1}"] * 9)
        lines.append(f"a{row}: &a{row} " + level.replace("NAMES", names))
    return "\n".join(lines)


BOMBS = {
    "itself": "a: &a [*a]\n",
    "itself twice": "&a [*a, *a]",
    "laughs": laughs("[x, x, x]", "[NAMES]"),
    "merged laughs": laughs("{k: v}", "{<<: [NAMES]}"),
    "brackets": "[" * 100_000,
    "braces": "{a: " * 100_000,
    "dashes": "- " * 50_000,
    "levels": "a: " + "[" * 70 + "]" * 70,
    "indents": "\n".join(" " * row + f"k{row}:" for row in range(2000)),
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_bombs_are_refused_at_once(text: str) -> None:
    began = time.process_time()
    refused(text)
    assert time.process_time() - began < 20  # what is unfolded never ends


def test_tags_and_odd_keys_are_refused() -> None:
    assert "tag" in refused("a: !!python/object:os.system x")
    assert "tag" in refused("a: !!int abc")
    assert "tag" in refused("a: !!set {x, y}")
    assert "not text" in refused("{[a]: b}")
    assert "line 1, column" in refused("a: [1, 2")
    assert "YAML" in refused("a: b\0c")
    assert "YAML" in refused("--- a\n--- b\n")


def test_any_text_file_is_read_alike(tmp_path: Path) -> None:
    text = "lab: x\naccounts:\n  é: 1\n"
    for number, content in enumerate(
        (text.encode(), b"\xef\xbb\xbf" + text.encode(), text.replace("\n", "\r\n").encode())
    ):
        path = tmp_path / f"{number}.yaml"
        path.write_bytes(content)
        assert read_yaml(path) == {"lab": "x", "accounts": {"é": 1}}


def test_what_cannot_be_read_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lab.yaml"
    path.write_bytes("a: é\nb: \xe9".encode("latin-1"))
    with pytest.raises(BadInput, match=r"line 1: found bytes that are not UTF-8"):
        read_yaml(path)
    path.write_bytes("lab: x".encode("utf-16"))
    with pytest.raises(BadInput, match="UTF-8"):
        read_yaml(path)
    for missing in (tmp_path / "none.yaml", tmp_path, Path("a\0b")):
        with pytest.raises(BadInput, match="a YAML file that can be read"):
            read_yaml(missing)
    monkeypatch.setattr(yaml_file, "LARGEST_BYTES", 1000)
    path.write_text("a: " + "x" * 2000)
    with pytest.raises(BadInput, match="a larger file"):
        read_yaml(path)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab01 \n\t:-[]{}&*!<>|'\"%#,?~.é\0", max_size=60) | st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadInput):
        parse_yaml(text, file="lab.yaml")
