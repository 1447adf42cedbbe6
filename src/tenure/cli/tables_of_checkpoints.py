"""Tables of a run's checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from tenure.cli.figures import NOTHING, duration, minute
from tenure.cli.fitting import Column, fitted

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
MEANING = {
    "committed": "",
    "final": "committed, and never pruned",
    "void": "late, by an attempt that was taken over from: never resumed from",
    "whole": "not committed, though all is there: `tenure checkpoint commit` makes it one",
    "partial": "not committed: being written, or cut off",
    "going": "half pruned",
    "unreadable": "its commit is damaged: a person should look",
}


def size(count: float) -> str:
    """Bytes, as people say them (powers of 1000)."""
    for unit in UNITS[:-1]:
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {UNITS[-1]}"


def listed(console: Console, answer: Mapping[str, Any]) -> None:
    """All saves, oldest first; what a state means is said once, below."""
    rows = answer["checkpoints"]
    if not rows:
        console.print(f"Nothing of {answer['run']} lies in {answer['store']}.")
        return
    columns = [
        Column("checkpoint", least=8),
        Column("state"),
        Column("size", right=True),
        Column("tokens", right=True),
        Column("saved", least=10),
    ]
    cells = [
        [
            row["name"],
            _state(row),
            size(row["bytes"]),
            NOTHING if row["tokens"] is None else f"{row['tokens']:.4g}",
            _minute(row["at"]),
        ]
        for row in rows
    ]
    console.print(f"{answer['run']} in {answer['store']}\n")
    console.print(fitted(console, columns, cells))
    shown = {_state(row) for row in rows}
    states = [state for state in MEANING if MEANING[state] and state in shown]
    if states:
        console.print()
    for state in states:
        console.print(f"{state}: {MEANING[state]}")
    if answer["newest"] is not None:
        console.print(f"\nResume from {answer['newest']}, the newest whose files are all there.")
    else:
        console.print("\nNone of them can be resumed from. To begin at step 0 all the same must be said.")


def _state(row: Mapping[str, Any]) -> str:
    return "final" if row["final"] else str(row["state"])


def _minute(at: str | None) -> str:
    """An instant to the minute, which is enough to know a checkpoint by; --json has the second."""
    return NOTHING if at is None else f"{minute(at)}Z"


def verified(console: Console, answer: Mapping[str, Any]) -> None:
    """Each with what is wrong."""
    rows = answer["checkpoints"]
    if not rows and answer["due"] is not None:
        console.print(
            f"Nothing is due: all checkpoints of {answer['run']} in {answer['store']} were found sound in "
            f"full within {answer['due']}."
        )
        return
    if not rows:
        console.print(f"No checkpoint of {answer['run']} is committed in {answer['store']}.")
        return
    how = "every byte" if answer["deep"] else "sizes; --deep reads every byte"
    console.print(f"{answer['run']}, compared with its manifests ({how})\n")
    columns = [Column("checkpoint", least=8), Column("size", right=True), Column("")]
    sound = [[row["name"], size(row["bytes"]), "sound" if row["sound"] else "NOT SOUND"] for row in rows]
    console.print(fitted(console, columns, sound))
    for row in rows:
        more = [f"and {len(row['wrong']) - 3} more"] if len(row["wrong"]) > 3 else []
        if row["wrong"]:
            console.print(f"\n{row['name']}: {'; '.join(row['wrong'][:3] + more)}")


def copied(console: Console, answer: Mapping[str, Any]) -> None:
    """How far it was, or is."""
    takes = "" if answer["expected_s"] is None else f", about {duration(answer['expected_s'])}"
    if answer["copied"]:
        console.print(
            f"{answer['name']} is committed in {answer['to']} ({size(answer['bytes'])}, verified there)"
        )
    else:
        console.print(
            f"{answer['name']}: {size(answer['bytes_to_go'])} of {size(answer['bytes'])} to go "
            f"to {answer['to']}{takes}"
        )


def pruned(console: Console, answer: Mapping[str, Any]) -> None:
    """What went, what stayed and why."""
    word = "would go" if answer["dry_run"] else "gone"
    cells = [[row["name"], "kept" if row["kept"] else word, row["why"]] for row in answer["checkpoints"]]
    cells += [[name, word, "never became a checkpoint"] for name in answer["cut_off"]]
    console.print(f"{answer['run']} in {answer['store']}\n")
    console.print(
        fitted(console, [Column("checkpoint", least=8), Column(""), Column("why", least=12)], cells)
    )
    console.print(f"\n{size(answer['bytes'])} {'would be' if answer['dry_run'] else 'are'} free.")
