"""A recorded turn decided again, wherever a copy of the record lies: does today's code do the same?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tenure.daemon.recover import replay as decide_again
from tenure.daemon.run import LAB_META
from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import LedgerError
from tenure.service.outputs import plain
from tenure.settings.errors import BadInput
from tenure.settings.lab import Lab, lab_of, read_lab
from tenure.settings.yaml_file import read_yaml

RECORD_FILE = "record.db"  #: in the folder of a server
OLD_LAB = "lab_file"  #: key of `ledger.meta` where older records have the lab's file


class CannotServe(OSError):
    """The record or the place of a server cannot be used here and now; the text says why."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "the server cannot start"


def lab_file(path: Path) -> dict[str, Any]:
    """The lab's file as a leader keeps it in the record, so that turns can be decided again without it."""
    return {"file": path.name, "lab": plain(read_yaml(path))}


def replay(turn: int, *, db: str | None, data: Path, lab: Path | None = None) -> dict[str, Any]:
    """Decide a turn of the record again: {turn, t, same, same_state, same_code, recorded, decided}.

    `lab`: the lab's file as it was then; default: the newest that the record has.
    Raises BadInput where there is no such record or turn, CannotServe where the database does not answer.
    """
    try:
        ledger = open_ledger(db if db is not None else data / RECORD_FILE, create=False)
        try:
            return _replayed(ledger, turn, lab)
        finally:
            ledger.close()
    except LedgerError as problem:
        raise CannotServe(f"the record cannot be read: {problem}") from problem


def _replayed(ledger: Ledger, turn: int, lab: Path | None) -> dict[str, Any]:
    found = read_lab(lab) if lab is not None else _kept_lab(ledger)
    newest = ledger.last_turn()
    if not 0 < turn <= newest:
        raise BadInput(
            "replay", "turn", str(turn), f"a turn of the record: 1 to {newest}" if newest else "none yet"
        )
    try:
        told = decide_again(ledger, turn, found, found.knobs())
    except ValueError as wrong:
        raise BadInput(
            "replay", "turn", f"{turn}, and {wrong}", "a newer one: those from a while ago are events only"
        ) from None
    except KeyError:
        raise BadInput("replay", "turn", str(turn), "a turn that is in the record") from None
    answer = told._asdict()
    for side in ("recorded", "decided"):
        answer[side] = [json.loads(line) for line in answer[side]]
    return answer


def _kept_lab(ledger: Ledger) -> Lab:
    kept = ledger.meta(LAB_META) or {}
    kept = kept if "lab" in kept else ledger.meta(OLD_LAB)
    if kept is None:
        raise BadInput("replay", "--lab", "nothing", "the lab's file: this record does not hold it")
    return lab_of(kept["lab"], file=str(kept["file"]))
