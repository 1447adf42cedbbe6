"""Tables of a run's checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from tenure.cli.figures import NOTHING, duration
from tenure.cli.tables import put, simple_table

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
MEANING = {
    "committed": "",
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
    """All saves, oldest first."""
    rows = answer["checkpoints"]
    if not rows:
        console.print(f"Nothing of {answer['run']} lies in {answer['store']}.")
        return
    table = simple_table(
        f"{answer['run']} in {answer['store']}", "checkpoint", ["state", "size", "tokens", "saved", ""]
    )
    for row in rows:
        notes = [MEANING[row["state"]]] + ["final"] * row["final"]
        notes += ["← resume here"] * (row["name"] == answer["newest"])
        table.add_row(
            row["name"],
            row["state"],
            size(row["bytes"]),
            NOTHING if row["tokens"] is None else f"{row['tokens']:.4g}",
            row["at"] or NOTHING,
            "; ".join(note for note in notes if note),
        )
    put(console, table)
    if answer["newest"] is None:
        console.print("None of them can be resumed from. To begin at step 0 all the same must be said.")


def verified(console: Console, answer: Mapping[str, Any]) -> None:
    """Each with what is wrong."""
    rows = answer["checkpoints"]
    if not rows:
        console.print(f"No checkpoint of {answer['run']} is committed in {answer['store']}.")
        return
    how = "every byte" if answer["deep"] else "sizes; --deep reads every byte"
    table = simple_table(
        f"{answer['run']}, compared with its manifests ({how})", "checkpoint", ["size", "", "wrong"]
    )
    for row in rows:
        more = f" (and {len(row['wrong']) - 3} more)" if len(row["wrong"]) > 3 else ""
        table.add_row(
            row["name"],
            size(row["bytes"]),
            "sound" if row["sound"] else "NOT SOUND",
            "; ".join(row["wrong"][:3]) + more,
        )
    put(console, table)


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
    table = simple_table(f"{answer['run']} in {answer['store']}", "checkpoint", ["", "why"])
    word = "would go" if answer["dry_run"] else "gone"
    for row in answer["checkpoints"]:
        table.add_row(row["name"], "kept" if row["kept"] else word, row["why"])
    for name in answer["cut_off"]:
        table.add_row(name, word, "never became a checkpoint")
    put(console, table)
    console.print(f"{size(answer['bytes'])} {'would be' if answer['dry_run'] else 'are'} free.")
