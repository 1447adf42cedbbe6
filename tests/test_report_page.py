"""The page about one story: whole, safe with hostile names, and alone in the world."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stories import random_story
from tenure.audit.measures import measure
from tenure.core.words import Happened
from tenure.report.page import write_report
from tenure.story.columns import Story

HOSTILE = "</script><script>alert('x')</script>\"'><img src=x onerror=alert(1)>&amp;"


class Tags(HTMLParser):
    """What a browser would see: elements with their attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.scripts:
            attrs, text = self.scripts[-1]
            self.scripts[-1] = (attrs, text + data)

    def handle_endtag(self, tag: str) -> None:
        self.lasttag = ""


def page_of(story: Story, folder: Path, **more: Any) -> str:
    file = folder / "page.html"
    write_report(story, measure(story).to_dict(), file, **more)
    return file.read_text(encoding="utf-8")


def hostile(story: Story) -> Story:
    ids = [f"{HOSTILE}{i}" for i in range(len(story.job_ids))]

    def renamed(path: str) -> str:
        return path and path + HOSTILE.replace("/", "|")

    accounts = [replace(account, path=renamed(account.path)) for account in story.accounts]
    notes = [
        note | {"account": renamed(note["account"])} if "account" in note else note for note in story.notes
    ]
    policy = {"name": HOSTILE, HOSTILE: HOSTILE}
    return replace(story, job_ids=ids, accounts=accounts, notes=notes, lab=HOSTILE, policy=policy)


@pytest.mark.parametrize("seed", range(8))
def test_any_story_becomes_a_page(seed: int, tmp_path: Path) -> None:
    story = random_story(seed, clusters=1 + seed % 2)
    text = page_of(story, tmp_path)
    for heading in (
        "Owed and delivered",
        "Waits",
        "Occupancy",
        "The cluster as a picture",
        "To play it again",
    ):
        assert heading in text
    assert not re.search(r">\s*(nan|None|inf|undefined)\b", text)


def test_a_story_in_which_nothing_happened_becomes_a_page(tmp_path: Path) -> None:
    story = random_story(1, turns=0)
    assert "none in the span" in page_of(story, tmp_path)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    story = hostile(random_story(3))
    report = {"rows_read": 5, HOSTILE: {HOSTILE: 3}, "notes": [HOSTILE]}
    seen = Tags(page_of(story, tmp_path, import_report=report, title=HOSTILE, scenario=HOSTILE))
    own = [(attrs, text) for attrs, text in seen.scripts if attrs.get("type") != "application/json"]
    assert len(own) == 2, "a name has become a script"
    assert not [tag for tag, _ in seen.tags if tag == "img"]
    assert not [name for _, attrs in seen.tags for name in attrs if name.startswith("on")]
    data = json.loads(next(text for attrs, text in seen.scripts if attrs.get("id") == "picture-data"))
    assert all(job in story.job_ids for job in data["jobs"])


def test_the_page_asks_nothing_of_the_network(tmp_path: Path) -> None:
    seen = Tags(page_of(random_story(4), tmp_path))
    for tag, attrs in seen.tags:
        assert not attrs.get("src"), f"<{tag} src> would be fetched"
        assert (attrs.get("href") or "#").startswith(("#", "data:")), f"<{tag} href={attrs.get('href')}>"
    policy = next(a["content"] for _, a in seen.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    for attrs, text in seen.scripts:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert attrs.get("type") == "application/json" or f"'sha256-{digest}'" in policy


def test_the_headline_is_that_of_the_measures(tmp_path: Path) -> None:
    story = random_story(5)
    measures = measure(story).to_dict()
    measures["delivered"]["total"], measures["occupancy"] = 0.98765, 0.12345
    file = tmp_path / "page.html"
    write_report(story, measures, file)
    text = file.read_text(encoding="utf-8")
    assert "98.8 %" in text
    assert "12.3 %" in text
    assert "published, another load: 98 %" in text


def test_the_same_story_gives_the_same_page(tmp_path: Path) -> None:
    assert page_of(random_story(6), tmp_path) == page_of(random_story(6), tmp_path)


def test_the_picture_on_the_page_holds_every_attempt(tmp_path: Path) -> None:
    story = random_story(7)
    seen = Tags(page_of(story, tmp_path))
    data = json.loads(next(text for attrs, text in seen.scripts if attrs.get("id") == "picture-data"))
    kind, packed = data["columns"]["start"]
    starts = np.frombuffer(base64.b64decode(packed), "<" + kind)
    assert starts.tolist() == story.events["t"][story.events["event"] == Happened.STARTED].tolist()
