"""Who holds the lease of a server: its folder, though containers share host name and path."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.ledger.holders import name_in


def test_a_server_that_comes_back_has_its_name_again_and_none_has_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two containers, each with a folder of its own at the same path, and one record in a database."""
    monkeypatch.setattr("socket.gethostname", lambda: "box")
    monkeypatch.setattr(Path, "resolve", lambda self: Path("/data"))
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    name = name_in(one)
    assert name.startswith("box:/data:")
    assert name_in(one) == name
    assert name_in(other) != name
    (other / "holder.id").write_text("")
    assert name_in(other) not in (name, "box:/data:")
