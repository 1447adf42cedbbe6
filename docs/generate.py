"""Writes the generated pages of docs/reference anew; with --check only says whether they are as generated.

    python docs/generate.py [--check]

Help pages come from the commands themselves, the knobs from the table that reads them.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# before anything of typer or rich is imported: they read these once
os.environ.update(TERMINAL_WIDTH="100", COLUMNS="100", NO_COLOR="1", TERM="dumb")

from typer.main import get_command
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.service import policies

HERE = Path(__file__).resolve().parent
NOTE = "<!-- Written by docs/generate.py (make docs). Do not edit by hand. -->"


def commands() -> Iterator[tuple[str, ...]]:
    """Every command and group, by its words: ("simulate",), ("trace",), ("trace", "describe") …"""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, below in getattr(command, "commands", {}).items():
            yield (*words, name)
            yield from walk(below, (*words, name))

    return walk(get_command(app), ())


def help_page(words: tuple[str, ...]) -> str:
    """What `tenure WORDS --help` prints, 100 columns wide."""
    asked = CliRunner().invoke(app, [*words, "--help"], prog_name="tenure", color=False)
    assert asked.exit_code == 0, asked.output
    return "\n".join(line.rstrip() for line in asked.output.strip("\n").splitlines())


def cli_page() -> str:
    """docs/reference/cli.md."""
    parts = [
        "# Commands",
        NOTE,
        "Exit status: 0 done; 1 the asked thing failed; 2 the question was wrong (message on stderr); 130\n"
        "stopped by Ctrl-C. `--json -` prints JSON alone on stdout. Progress and notes go to stderr.",
        "## `tenure`",
        f"```text\n{help_page(())}\n```",
    ]
    for words in commands():
        parts += [f"## `tenure {' '.join(words)}`", f"```text\n{help_page(words)}\n```"]
    return "\n\n".join(parts) + "\n"


def knobs_page() -> str:
    """docs/reference/policy-knobs.md."""
    shown = policies.show("budget")
    parts = [
        "# Policies and their knobs",
        NOTE,
        "`tenure policy show` prints the same. A knob is set under `policy:` in a lab's file (a dot is a\n"
        "level: `grace: {budgeted: 5m}`) or with `--set policy.KEY=VALUE` for one play; `tenure sweep`\n"
        "takes lists of values. Durations are written `90s`, `15m`, `8h`, `7d` or as plain seconds, parts\n"
        "as `25%` or `0.25`; `auto` follows the size of the cluster.",
        "## Policies",
        "| `--policy` | what it does |\n| --- | --- |\n"
        + "\n".join(f"| `{name}` | {meaning} |" for name, meaning in shown["policies"].items()),
        "## Knobs",
        "| `policy.` | default | meaning |\n| --- | --- | --- |\n"
        + "\n".join(f"| `{row['key']}` | `{row['value']}` | {row['meaning']} |" for row in shown["knobs"]),
    ]
    return "\n\n".join(parts) + "\n"


PAGES = {"reference/cli.md": cli_page, "reference/policy-knobs.md": knobs_page}


def main(check: bool) -> int:
    """Write the pages, or print how they differ from what they should be."""
    differing = 0
    for name, page in PAGES.items():
        path = HERE / name
        wanted, found = page(), path.read_text(encoding="utf-8") if path.exists() else ""
        if wanted == found:
            continue
        differing += 1
        if check:
            lines = found.splitlines(True), wanted.splitlines(True)
            sys.stdout.writelines(difflib.unified_diff(*lines, f"docs/{name}", "as generated"))
        else:
            path.write_text(wanted, encoding="utf-8")
            sys.stdout.write(f"wrote docs/{name}\n")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
