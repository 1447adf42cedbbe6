"""Documentation that cannot rot: generated pages are as generated, everything is documented, commands run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from typer.main import get_command

from tenure.cli.main import app
from tenure.core.words import Cause, End, Happened, Rule
from tenure.service import policies
from tenure.settings.job import HiddenJobFile
from tenure.settings.lab import AccountFile, ClusterFile, LabFile, lab_of
from tenure.settings.scenario_file import EventFile, ScenarioFile, ScenarioJob, TraceFile, scenario_file
from tenure.simulator.workload_shapes import SHAPES, Shape

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.M | re.S)


class Block(NamedTuple):
    page: Path
    line: int
    info: str
    body: str


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> Iterator[Block]:
    for found in FENCE.finditer(text_of(page)):
        yield Block(
            page, text_of(page)[: found.start()].count("\n") + 1, found["info"].strip(), found["body"]
        )


def all_blocks(info: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.info == info]


def named(block: Block) -> str:
    return f"{block.page.relative_to(ROOT)}:{block.line}"


def prompts(body: str) -> list[str]:
    """The commands of a console block: lines after `$ `, with those a backslash joins to them."""
    return [found.replace("\\\n", " ") for found in re.findall(r"^\$ ((?:.*\\\n)*.*)$", body, flags=re.M)]


def words_of(page: str) -> str:
    return text_of(DOCS / page)


def undocumented(names: Iterator[str] | list[str], page: str) -> list[str]:
    return [name for name in names if f"`{name}`" not in words_of(page)]


# --- generated pages --------------------------------------------------------------------------------


def test_generated_pages_are_as_generated() -> None:
    checked = subprocess.run(
        [sys.executable, DOCS / "generate.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert checked.returncode == 0, f"run `make docs`:\n{checked.stdout[-3000:]}{checked.stderr[-2000:]}"


# --- links and pictures -------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """GitHub's anchors of a page's headings."""
    plain = FENCE.sub("", text_of(page))
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", plain, flags=re.M):
        kept = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
        found.add(kept.strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", FENCE.sub("", text_of(page))):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists():
            broken.append(link)
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            broken.append(f"{link} (no such heading)")
    assert not broken, f"{page.relative_to(ROOT)}: {broken}"


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        for link in re.findall(r"\]\(([^)\s#]+)", FENCE.sub("", text_of(page))):
            if not link.startswith("http"):
                todo.append((page.parent / link).resolve())
    lost = sorted(page.relative_to(ROOT).as_posix() for page in PAGES if page not in reached)
    assert not lost, f"no page links to {lost}: add them to docs/index.md"


# --- everything is documented ------------------------------------------------------------------


def commands() -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name, below in getattr(command, "commands", {}).items():
            found[(*words, name)] = below
            walk(below, (*words, name))

    walk(get_command(app), ())
    return found


@pytest.mark.parametrize("words", sorted(w for w, c in commands().items() if not hasattr(c, "commands")))
def test_every_command_is_shown_in_use(words: tuple[str, ...]) -> None:
    call = "tenure " + " ".join(words)
    prose = [page for page in PAGES if "reference" not in page.parts]
    assert any(call in text_of(page) for page in prose), (
        f"`{call}` is in no tutorial, how-to or README: show it in use"
    )


def calls_in(block: Block) -> Iterator[list[str]]:
    for line in prompts(block.body):
        for part in re.split(r"&&|\||>", line):
            words = shlex.split(part, comments=True)
            if words and words[0] == "tenure":
                yield words[1 : words.index("--") if "--" in words else None]  # the rest is a job's own


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands_on_pages_exist_with_their_options(page: Path) -> None:
    known, wrong = commands(), []
    for block in blocks(page):
        if not block.info.startswith("console"):
            continue
        for words in calls_in(block):
            name = next((tuple(words[:n]) for n in (2, 1) if tuple(words[:n]) in known), None)
            if name is None:
                wrong.append(f"{named(block)}: no command `tenure {' '.join(words[:2])}`")
                continue
            options = {flag for param in known[name].params for flag in param.opts} | {"--help"}
            wrong += [
                f"{named(block)}: `tenure {' '.join(name)}` has no option {word}"
                for word in words
                if word.startswith("--") and word.split("=")[0] not in options
            ]
    assert not wrong, "\n".join(wrong)


def test_every_key_of_the_files_is_documented() -> None:
    def keys(model: Any) -> list[str]:
        return ["for" if name == "lasts" else name for name in model.model_fields]

    missing = {
        "reference/lab.md": [k for m in (LabFile, ClusterFile, AccountFile) for k in keys(m)],
        "reference/scenario.md": [
            *(k for m in (ScenarioFile, ScenarioJob, HiddenJobFile, TraceFile) for k in keys(m)),
            *(name for name in Shape.__dataclass_fields__ if name != "name"),
            *(name for name in SHAPES),
        ],
    }
    found = {page: undocumented(names, page) for page, names in missing.items()}
    events = [
        key for key in keys(EventFile) if not re.search(rf"\b{key}\b", words_of("reference/scenario.md"))
    ]
    assert not any(found.values()), f"no `key` on its page: {found}"
    assert not events, f"docs/reference/scenario.md lacks the keys of events {events}"


def test_every_word_of_a_story_is_documented() -> None:
    wanted = [
        *(member.name.lower() for member in Happened),
        *(member.name.lower() for member in End if member is not End.NOT_YET),
        *(member.name.lower() for member in Cause if member is not Cause.NONE),
        *(member.name.lower() for member in Rule if member not in (Rule.NONE, Rule.SHARE_CUT)),
    ]
    missing = undocumented(wanted, "reference/story.md")
    assert not missing, f"docs/reference/story.md lacks {missing}"


def test_every_policy_by_name_is_documented() -> None:
    names = list(policies.show("budget")["policies"])
    assert not undocumented(names, "reference/policy-knobs.md")
    assert all(f"`{name}`" in text_of(ROOT / "README.md") for name in names)


# --- examples are valid, commands run -----------------------------------------------------------


@pytest.mark.parametrize("block", all_blocks("yaml lab"), ids=named)
def test_labs_on_pages_are_valid(block: Block) -> None:
    lab_of(yaml.safe_load(block.body), file=named(block))


@pytest.mark.parametrize("block", all_blocks("yaml scenario"), ids=named)
def test_scenarios_on_pages_are_valid(block: Block) -> None:
    scenario_file(yaml.safe_load(block.body), file=named(block))


RUNNABLE = sorted({block.page for block in all_blocks("console run")})


def test_there_are_commands_to_run() -> None:
    assert len(RUNNABLE) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands_on_pages_run(page: Path, tmp_path: Path) -> None:
    """A page's runnable commands, one after the other, in a folder that holds `examples/`."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "100"}
    for block in blocks(page):
        if block.info != "console run":
            continue
        for command in prompts(block.body):
            ran = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=600,  # the first of them may compile, on a busy machine
            )
            assert ran.returncode == 0, (
                f"{named(block)}: $ {command}\n{ran.stdout[-1500:]}{ran.stderr[-1500:]}"
            )
            assert ran.stdout.strip(), f"{named(block)}: $ {command}\nprinted nothing"
