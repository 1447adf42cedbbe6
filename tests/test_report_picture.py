"""The cluster as a picture: every attempt on lanes of its own, and small enough for a page."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from stories import HOUR_S, Teller, random_story
from tenure.core.words import NONE, Cause, End, Happened, NodeState
from tenure.report.picture import Picture, picture_of, thinned
from tenure.report.picture_data import packed_picture
from tenure.report.raster import painted
from tenure.story.columns import Story


def lanes_in_use(story: Story, picture: Picture) -> np.ndarray:
    """(lanes, seconds) number of attempts on each lane at each second: the naive way."""
    use = np.zeros((picture.lane0[-1], story.until_s), np.int16)
    for bar in picture.bars:
        attempt = picture.attempts[bar["attempt"]]
        use[bar["lane"] : bar["lane"] + bar["lanes"], attempt["start_s"] : attempt["end_s"]] += 1
    return use


@pytest.mark.parametrize("seed", range(6))
def test_no_lane_is_held_twice_and_no_gpu_is_lost(seed: int) -> None:
    story = random_story(seed, turns=120, clusters=1 + seed % 2)
    picture = picture_of(story)
    assert lanes_in_use(story, picture).max(initial=0) <= 1
    held = np.zeros(len(picture.attempts), np.int64)
    np.add.at(held, picture.bars["attempt"], picture.bars["lanes"])
    assert held.tolist() == story.jobs["gpus"][picture.attempts["job"]].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_an_attempt_stays_on_its_nodes(seed: int) -> None:
    story = random_story(seed, turns=120)
    picture = picture_of(story)
    node_of = np.repeat(np.arange(len(story.nodes)), [node.gpus for node in story.nodes])
    for row, attempt in enumerate(picture.attempts):
        told = story.placements[attempt["nodes_at"] : attempt["nodes_at"] + attempt["n_nodes"]]
        bars = picture.bars[picture.bars["attempt"] == row]
        drawn = {int(n) for bar in bars for n in node_of[bar["lane"] : bar["lane"] + bar["lanes"]]}
        assert drawn == set(told["node"].tolist())


def test_lanes_are_the_first_free_ones_together() -> None:
    tell = Teller({"a": 1.0}, nodes=(8,), until_s=HOUR_S)
    for i, gpus in enumerate((2, 2, 4)):
        tell.submit(0, f"j{i}", "a", gpus)
        tell.start(i, f"j{i}")
    tell.stop(10, "j0")
    tell.stop(11, "j2")
    tell.submit(12, "wide", "a", 4)
    tell.start(12, "wide")  # lanes 0, 1 are free, 4 … 7 are free together
    picture = picture_of(tell.story())
    last = picture.bars[picture.bars["attempt"] == 3]
    assert [(int(bar["lane"]), int(bar["lanes"])) for bar in last] == [(4, 4)]


def test_an_attempt_says_how_it_came_and_went() -> None:
    tell = Teller({"a": 0.5, "b": 0.5}, nodes=(8,), until_s=HOUR_S)
    tell.submit(0, "free", "a", 8, 0)
    tell.start(0, "free")
    tell.submit(5, "owed", "b", 8, 600)
    tell.stopping(6, "free", 21, by="owed", mine_ppm=3_000_000, theirs_ppm=500_000)
    tell.stop(21, "free", End.PREEMPTED, lost_gpu_s=168)
    tell.start(21, "owed")
    free, owed = picture_of(tell.story()).attempts
    assert (free["start_s"], free["end_s"], free["end"]) == (0, 21, End.PREEMPTED)
    assert (free["cause"], free["by"], free["lost_gpu_s"]) == (Cause.PREEMPTED, owed["job"], 168)
    assert (int(free["ratios"]) >> 32, int(free["ratios"]) & 0xFFFFFFFF) == (3_000_000, 500_000)
    assert free["unbudgeted"]
    assert free["protected_s"] == 0
    assert (owed["end_s"], owed["end"], owed["protected_s"]) == (HOUR_S, End.NOT_YET, 621)


def test_a_promise_is_the_one_in_force_when_the_gang_starts() -> None:
    tell = Teller({"a": 1.0}, nodes=(8, 8), until_s=HOUR_S)
    tell.submit(0, "gang", "a", 16)
    tell.plan(10, "gang", 500)
    tell.unplan(20, "gang")
    tell.plan(30, "gang", 700)
    tell.plan(40, "gang", 900)  # moved later: given at 30
    tell.start(850, "gang", {"jupiter-0000": 8, "jupiter-0001": 8})
    tell.stop(900, "gang", End.PREEMPTED)
    tell.requeue(900, "gang")
    tell.start(1000, "gang", {"jupiter-0000": 8, "jupiter-0001": 8})
    first, second = picture_of(tell.story()).attempts
    assert (first["planned_s"], first["promised_s"]) == (30, 900)
    assert (second["planned_s"], second["promised_s"]) == (NONE, NONE)


def test_outages_run_from_state_to_state() -> None:
    tell = Teller({"a": 1.0}, nodes=(8, 8), until_s=HOUR_S)
    tell.node(100, "jupiter-0001", NodeState.DRAINING)
    tell.node(200, "jupiter-0001", NodeState.DOWN)
    tell.node(300, "jupiter-0001", NodeState.UP)
    tell.node(400, "jupiter-0000", NodeState.DOWN)
    outages = [tuple(map(int, row)) for row in picture_of(tell.story()).outages]
    assert outages == [
        (100, 200, 1, NodeState.DRAINING),
        (200, 300, 1, NodeState.DOWN),
        (400, HOUR_S, 0, NodeState.DOWN),
    ]


def test_thinning_leaves_out_the_smallest_and_says_so() -> None:
    story = random_story(9, turns=200)
    picture = picture_of(story)
    held = np.zeros(len(picture.attempts), np.int64)
    np.add.at(held, picture.bars["attempt"], picture.bars["lanes"])
    held *= picture.attempts["end_s"] - picture.attempts["start_s"]
    small = thinned(picture, len(picture.bars) // 2)
    assert 0 < len(small.bars) <= len(picture.bars) // 2
    assert small.left_out == len(picture.attempts) - len(small.attempts)
    kept = np.isin(picture.attempts["start_s"] * 1000 + picture.attempts["job"],
                   small.attempts["start_s"] * 1000 + small.attempts["job"])  # fmt: skip
    assert held[kept].min() >= held[~kept].max()
    assert small.left_out_gpu_h == pytest.approx(held[~kept].sum() / 3600)
    assert thinned(picture, len(picture.bars)) is picture


def test_what_the_page_holds_is_the_picture() -> None:
    story = random_story(12, turns=150)
    picture = picture_of(story)
    packed = packed_picture(story, picture, measured_from_s=0)

    def column(name: str) -> list[int]:
        kind, text = packed["columns"][name]
        return [int(v) for v in np.frombuffer(base64.b64decode(text), "<" + kind)]

    assert column("bar_lane") == picture.bars["lane"].tolist()
    assert column("bar_attempt") == picture.bars["attempt"].tolist()
    assert column("end") == picture.attempts["end_s"].tolist()
    assert [packed["jobs"][job] for job in column("job")] == [
        story.job_ids[job] for job in picture.attempts["job"].tolist()
    ]
    paths = [packed["accounts"][row]["path"] for row in column("job_account")]
    gpus = column("job_gpus")
    by_id = dict(zip(story.job_ids, story.jobs, strict=True))
    for name, path, width in zip(packed["jobs"], paths, gpus, strict=True):
        assert story.accounts[by_id[name]["account"]].path == path
        assert by_id[name]["gpus"] == width
    preempted = (story.events["event"] == Happened.STOPPED) & (story.events["code"] == End.PREEMPTED)
    ends = np.array(column("ended"))
    assert int((ends == End.PREEMPTED).sum()) == int(preempted.sum())


def test_the_image_shows_who_ran_where() -> None:
    tell = Teller({"a": 0.5, "b": 0.5}, nodes=(2,), until_s=100)
    tell.submit(0, "one", "a", 1, 3600)
    tell.start(0, "one", protected_until_s=3600)
    tell.submit(0, "two", "b", 1, 3600)
    tell.start(50, "two", protected_until_s=3650)
    story = tell.story()
    image = painted(story, picture_of(story), width=100, height=2, paper="#f4f2ec", until_s=100)
    assert (image[0] == image[0, 0]).all()
    assert image[1, 10].tolist() == [0xF4, 0xF2, 0xEC]
    assert image[1, 60].tolist() != image[0, 60].tolist()
