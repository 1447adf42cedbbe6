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

from stories import HOUR_S, Teller, random_story
from tenure.audit.measures import measure
from tenure.audit.span import Span, span_of
from tenure.core.words import NEVER_S, End, Happened, Reason, Rule
from tenure.report.page import write_report
from tenure.report.preemptions import MOST_STOPS
from tenure.report.sections import knob_text
from tenure.report.waiting import waited_by_reason
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


@pytest.mark.parametrize("warmup_s", [0, HOUR_S])
def test_a_record_of_no_length_becomes_a_page(warmup_s: int, tmp_path: Path) -> None:
    story = Teller({"a": 1.0}, warmup_s=warmup_s, until_s=warmup_s).story()
    assert "The cluster as a picture" in page_of(story, tmp_path)


def test_a_record_without_an_end_is_drawn_to_its_last_event(tmp_path: Path) -> None:
    story = replace(random_story(3), until_s=NEVER_S)
    seen = Tags(page_of(story, tmp_path))
    data = json.loads(next(text for attrs, text in seen.scripts if attrs.get("id") == "picture-data"))
    assert data["until_s"] == story.events["t"][-1]


def test_the_span_is_that_of_the_measures(tmp_path: Path) -> None:
    story = random_story(4)
    measures = measure(story, since_s=2 * HOUR_S).to_dict()
    file = tmp_path / "page.html"
    write_report(story, measures, file)
    seen = Tags(file.read_text(encoding="utf-8"))
    data = json.loads(next(text for attrs, text in seen.scripts if attrs.get("id") == "picture-data"))
    assert data["warmup_s"] == 2 * HOUR_S


def test_reasons_are_weighed_by_gpus_and_time(tmp_path: Path) -> None:
    tell = Teller({"a": 1.0}, until_s=4 * HOUR_S)
    tell.submit(0, "j", "a", 4)
    tell.waiting(0, "j", Reason.SHAPE, 4, 2)
    tell.waiting(HOUR_S, "j", Reason.ORDER, 4, 2)
    tell.start(3 * HOUR_S, "j")
    story = tell.story()
    span = span_of(story)
    assert waited_by_reason(story, span) == {"a": {"shape": 4.0, "order": 8.0}}
    assert waited_by_reason(story, Span(2 * HOUR_S, span.end_s)) == {"a": {"order": 4.0}}
    assert "order, 8 GPU-h" in page_of(story, tmp_path)


def test_the_ledger_has_every_preemption_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    tell = Teller({"a": 0.5, "b": 0.5}, until_s=20 * HOUR_S)
    tell.submit(0, "victim", "a", 1, 0)
    tell.submit(0, "taker", "b", 8)
    for i in range(MOST_STOPS + 20):
        tell.start(100 * i, "victim")
        tell.stopping(100 * i + 50, "victim", 100 * i + 60, by="taker", rule=Rule.FREE_WORK)
        tell.stop(100 * i + 60, "victim", End.PREEMPTED, lost_gpu_s=i)
        tell.requeue(100 * i + 60, "victim")
    text = page_of(tell.story(), tmp_path)
    assert text.count('<td class="text">free work</td>') == MOST_STOPS
    assert f"{MOST_STOPS + 20} attempts were preempted" in text
    assert f"the {MOST_STOPS} with the largest loss" in text


def test_what_the_trace_held_is_told_row_by_row(tmp_path: Path) -> None:
    dropped = {"no GPUs": {"count": 25, "first_line": 7}}
    report = {"file": "jobs.csv.gz", "format": "csv", "read": 1000, "kept": 975, "dropped": dropped}
    text = page_of(random_story(2), tmp_path, import_report=report)
    assert "<dd>jobs.csv.gz</dd>" in text
    row = text[text.index("no GPUs") : text.index("</tr>", text.index("no GPUs"))]
    assert re.findall(r">([^<]+)</td>", row) == ["25", "2.50 %", "7"]
    assert "What the trace held" not in page_of(random_story(2), tmp_path)


def test_knobs_are_told_as_people_write_them() -> None:
    knobs = {
        "lookback_s": 604800,
        "half_life_s": NEVER_S,
        "repay_bound_pm": 250,
        "pool_nodes": -1,
        "order": 1,
    }
    told = [knob_text(key, value) for key, value in knobs.items()]
    assert told == ["7 d", "off", "25.0 %", "follows the size of the cluster", "window"]
    assert knob_text("lookback_given", True) == "True"
    assert knob_text("max_plans", 8) == "8"


def test_prices_bring_costs(tmp_path: Path) -> None:
    assert "At the lab" not in page_of(random_story(3), tmp_path)
    tell = Teller({"a": 1.0}, until_s=10 * HOUR_S)
    tell.price = (2.5,)
    tell.submit(0, "j", "a", 8)
    tell.start(0, "j")
    tell.stop(4 * HOUR_S, "j")
    text = page_of(tell.story(), tmp_path)
    assert "At the lab&#39;s prices: 200 = budgeted 80 + unbudgeted 0 + idle 120 + down 0." in text
    assert '<td data-v="80.0">80</td>' in text


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    story = hostile(random_story(3))
    found = {HOSTILE: {"count": 3, "first_line": 2}, "short": 1}
    report = {"file": HOSTILE, "read": 5, "kept": 1, HOSTILE: found, "notes": [HOSTILE]}
    seen = Tags(page_of(story, tmp_path, import_report=report, title=HOSTILE, scenario=HOSTILE))
    own = [(attrs, text) for attrs, text in seen.scripts if attrs.get("type") != "application/json"]
    assert len(own) == 3, "a name has become a script"
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
