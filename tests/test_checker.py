"""The checker itself: legal stories pass, and each rule has a story that breaks it and is told so."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from checker import check_story
from checker_sums import check_measures, gpu_seconds
from checker_targets import books_of, check_swaps, note, poured

HOUR = 3600
Story = list[dict[str, Any]]


class Tale:
    """A story written by hand: two nodes of 8, accounts a, b and p/x, p/y (at most 12 GPUs below p)."""

    def __init__(self, until_s: int = 24 * HOUR) -> None:
        self.accounts: dict[str, str] = {}
        self.lines: Story = []
        self.tell(
            "began",
            0,
            lab="tale",
            policy={"max_protected_s": 8 * HOUR, "grace": {"budgeted": "2m", "unbudgeted": "15s"}},
            seed=1,
            warmup_s=0,
            until_s=until_s,
            clusters=["c", "d"],
            nodes=[
                {"name": "c-0", "cluster": "c", "gpus": 8, "rack": 0, "gpu": "H100"},
                {"name": "c-1", "cluster": "c", "gpus": 8, "rack": 1, "gpu": "H100"},
                {"name": "d-0", "cluster": "d", "gpus": 4, "rack": 2, "gpu": "A100"},
            ],
            accounts=[
                {"path": "", "parent": -1, "shares": [1000000, 1000000]},
                {"path": "a", "parent": 0, "shares": [300000, 300000]},
                {"path": "b", "parent": 0, "shares": [300000, 300000]},
                {"path": "p", "parent": 0, "shares": [400000, 400000], "max_gpus": 12},
                {"path": "p/x", "parent": 3, "shares": [500000, 500000]},
                {"path": "p/y", "parent": 3, "shares": [500000, 500000]},
            ],
        )

    def tell(self, event: str, t: int, **keys: Any) -> Tale:
        if "job" in keys:
            keys["account"] = self.accounts.setdefault(keys["job"], keys.get("account", "a"))
        self.lines.append({"n": len(self.lines) + 1, "t": t, "event": event, **keys})
        return self

    def submit(self, t: int, job: str, account: str, gpus: int, hours: float = 2, **keys: Any) -> Tale:
        keys = {"resumable": True, "min_runtime_s": round(hours * HOUR), **keys}
        return self.tell("submitted", t, job=job, account=account, gpus=gpus, **keys)

    def start(self, t: int, job: str, nodes: dict[str, int], until_s: int, attempt: int = 1) -> Tale:
        keys = {"attempt": attempt, "cluster": next(iter(nodes))[0], "nodes": nodes, "reason": "owed"}
        return self.tell("started", t, job=job, protected_until_s=until_s, **keys)

    def notice(self, t: int, job: str, at_s: int, attempt: int = 1) -> Tale:
        return self.tell("notice", t, job=job, attempt=attempt, interruptible_at_s=at_s)

    def stopping(self, t: int, job: str, by: str | None, grace_s: int = 120, **keys: Any) -> Tale:
        told = {
            "attempt": 1,
            "cause": "preempted",
            "rule": "above_target",
            "mine": 0.5,
            "theirs": 1.5,
            **keys,
        }
        return self.tell("stopping", t, job=job, by=by, grace_until_s=t + grace_s, **told)

    def stopped(
        self, t: int, job: str, held: int, end: str = "preempted", lost: int = 0, attempt: int = 1
    ) -> Tale:
        return self.tell("stopped", t, job=job, attempt=attempt, end=end, held_gpu_s=held, lost_gpu_s=lost)

    def requeue(self, t: int, job: str, attempt: int = 1) -> Tale:
        return self.tell("requeued", t, job=job, attempt=attempt)

    def leave(self, t: int, job: str) -> Tale:
        return self.tell("cancelled", t, job=job, by="bo", reason="no")

    def node(self, t: int, node: str, state: str) -> Tale:
        return self.tell("node", t, node=node, state=state, reason="test")


def swap() -> Tale:
    """b's job takes the place of a's, which is past its protection, and a's comes back afterwards."""
    tale = Tale().submit(0, "old", "a", 8).start(0, "old", {"c-0": 8}, 2 * HOUR)
    tale.submit(HOUR, "new", "b", 8)
    tale.notice(2 * HOUR - 300, "old", 2 * HOUR).stopping(2 * HOUR, "old", "new")
    tale.stopped(7320, "old", 8 * 7320, lost=480).requeue(7320, "old")
    tale.start(7320, "new", {"c-0": 8}, 7320 + 2 * HOUR)
    tale.stopped(20000, "new", 8 * (20000 - 7320), "finished")
    tale.start(20000, "old", {"c-1": 8}, 20000 + 2 * HOUR, attempt=2)
    return tale.stopped(30000, "old", 80000, "finished", attempt=2)


def gang() -> Tale:
    """A promise to a gang of two nodes; an own small job and an unbudgeted one make way for it."""
    tale = Tale().submit(0, "small", "a", 1).start(0, "small", {"c-0": 1}, 2 * HOUR)
    tale.submit(0, "free", "b", 8, 0).start(0, "free", {"c-1": 8}, 0)
    tale.submit(60, "gang", "a", 16).tell("planned", 60, job="gang", at_s=2 * HOUR)
    tale.notice(2 * HOUR - 300, "small", 2 * HOUR)
    tale.stopping(2 * HOUR, "small", "gang", rule="own_gang").stopping(2 * HOUR, "free", "gang", 15)
    tale.stopped(7215, "free", 8 * 7215, lost=480).requeue(7215, "free")
    tale.stopped(7320, "small", 7320, lost=60).requeue(7320, "small")
    return tale.start(7320, "gang", {"c-0": 8, "c-1": 8}, 7320 + 2 * HOUR)


def sick() -> Tale:
    """A gang loses a node and restarts once; another node is drained; a job is cancelled while it runs."""
    tale = Tale().submit(0, "gang", "a", 16).start(0, "gang", {"c-0": 8, "c-1": 8}, 2 * HOUR)
    tale.submit(5, "waits", "b", 1).tell("held", 6, job="waits", by="bo", reason="later")
    tale.tell("released", 7, job="waits", by="bo", reason="now").tell(
        "cancelled", 8, job="waits", by="bo", reason="no"
    )
    tale.node(1000, "c-0", "down").stopped(1000, "gang", 16000, "node_failed", lost=16000).requeue(
        1000, "gang"
    )
    tale.node(2000, "c-0", "up").start(2000, "gang", {"c-0": 8, "c-1": 8}, 9200, attempt=2)
    tale.submit(2000, "one", "b", 4).start(2000, "one", {"d-0": 4}, 9200).node(2000, "d-0", "draining")
    tale.notice(8900, "one", 9200).stopping(9200, "one", None, cause="drain", mine=None, theirs=None)
    tale.stopping(9000 + 300, "gang", "ann", cause="cancelled", attempt=2)
    tale.stopped(9320, "one", 4 * 7320).requeue(9320, "one")
    return tale.stopped(9400, "gang", 16 * 7400, "cancelled", attempt=2)


LEGAL = {"swap": swap, "gang": gang, "sick": sick}


@pytest.mark.parametrize("name", LEGAL)
def test_legal_stories_pass(name: str) -> None:
    assert check_story(LEGAL[name]().lines) == []


def change(tale: Callable[[], Tale], event: str, which: int = 0, **keys: Any) -> Story:
    """The tale with the `which`-th line of an event changed; a callable gets the old value."""
    lines = copy.deepcopy(tale().lines)
    line = [x for x in lines if x["event"] == event][which]
    for key, value in keys.items():
        line[key] = value(line[key]) if callable(value) else value
    return sorted(lines, key=lambda x: x["t"]) if "t" in keys else lines


def drop(tale: Callable[[], Tale], event: str, which: int = 0) -> Story:
    lines = tale().lines
    lines.remove([x for x in lines if x["event"] == event][which])
    return renumbered(lines)


def without(tale: Callable[[], Tale], key: str) -> Story:
    return [{k: v for k, v in line.items() if k != key} for line in tale().lines]


def renumbered(lines: Story) -> Story:
    for n, line in enumerate(lines, 1):
        line["n"] = n
    return lines


def with_policy(tale: Callable[[], Tale], **knobs: Any) -> Story:
    lines = tale().lines
    lines[0]["policy"].update(knobs)
    return lines


def quick_takes_quick() -> Tale:
    tale = (
        Tale().submit(0, "old", "a", 4, 0.25).start(0, "old", {"c-0": 4}, 900).submit(60, "new", "b", 4, 0.25)
    )
    tale.notice(600, "old", 900).stopping(900, "old", "new").stopped(1020, "old", 4080).requeue(1020, "old")
    return tale.start(1020, "new", {"c-0": 4}, 1920)


def own_account() -> Tale:
    tale = swap()
    for line in tale.lines:
        line.update({"account": "a"} if line.get("job") == "new" else {})
    return tale


def equal_gang() -> Tale:
    """A planned gang takes one of its own account that is as large as itself."""
    tale = Tale().submit(0, "one", "a", 16).start(0, "one", {"c-0": 8, "c-1": 8}, 7200)
    tale.submit(0, "two", "a", 16).tell("planned", 0, job="two", at_s=7200).notice(6900, "one", 7200)
    tale.stopping(7200, "one", "two").stopped(7320, "one", 16 * 7320).requeue(7320, "one")
    return tale.start(7320, "two", {"c-0": 8, "c-1": 8}, 14520)


def limit(gpus: int, hours: float) -> Tale:
    """x and y of p, which may hold 12, start in one turn."""
    tale = Tale().submit(0, "x", "p/x", 8).submit(0, "y", "p/y", gpus, hours)
    return tale.start(0, "x", {"c-0": 8}, 7200).start(0, "y", {"c-1": gpus}, round(hours * HOUR))


def overcommitted(node: str = "c-0") -> Tale:
    tale = Tale().submit(0, "j", "a", 8).start(0, "j", {node: 8}, 7200)
    return tale.submit(1, "k", "b", 1).start(1, "k", {node: 1}, 7201)


def reason_while_running() -> Tale:
    return gang().tell("waiting", 9000, job="gang", reason="order", need=1, have=0)


def held_start() -> Tale:
    tale = Tale().submit(0, "j", "a", 8).tell("held", 1, job="j", by="ann", reason="wait")
    return tale.start(2, "j", {"c-0": 8}, 7202)


def thief() -> Tale:
    """Somebody starts on the GPUs cleared for the taker, who then starts elsewhere."""
    lines = swap()
    at = next(i for i, x in enumerate(lines.lines) if x["event"] == "started" and x["job"] == "new")
    tale = Tale()
    tale.lines, tale.accounts = lines.lines[:at], lines.accounts
    tale.submit(7320, "thief", "p/x", 8).start(7320, "thief", {"c-0": 8}, 7320 + 7200)
    return tale.start(7320, "new", {"c-1": 8}, 7320 + 7200)


def moved_promise(failure: bool) -> Story:
    tale = Tale().submit(0, "g", "a", 16).tell("planned", 0, job="g", at_s=3600)
    if failure:
        tale.node(100, "c-0", "down").node(200, "c-0", "up")
    return tale.tell("planned", 300, job="g", at_s=7200).start(7200, "g", {"c-0": 8, "c-1": 8}, 14400).lines


def late_promise(at_s: int, start_s: int) -> Story:
    tale = Tale().submit(0, "g", "a", 16).tell("planned", 0, job="g", at_s=at_s)
    return tale.start(start_s, "g", {"c-0": 8, "c-1": 8}, start_s + 7200).lines


def drained_late(after_s: int) -> Story:
    tale = Tale().submit(0, "j", "a", 8).start(0, "j", {"c-0": 8}, 7200).node(10, "c-0", "draining")
    t = 7200 + after_s
    return tale.notice(6900, "j", 7200).stopping(t, "j", None, cause="drain").lines


def rerun(wait_s: int) -> Story:
    """An unbudgeted job, stopped at 1,000, comes back so long afterwards."""
    tale = Tale().submit(0, "f", "a", 8, 0).start(0, "f", {"c-0": 8}, 0).submit(1000, "j", "b", 8)
    tale.stopping(1000, "f", "j", 15).stopped(1015, "f", 8120).requeue(1015, "f")
    back_s = 1000 + wait_s
    return tale.start(1015, "j", {"c-0": 8}, 8215).start(back_s, "f", {"c-1": 8}, back_s, attempt=2).lines


def shares(new: float, old: float = 0.3) -> Story:
    tale = Tale().tell("share", 5, account="a", cluster="c", old=old, new=new, by="pia", reason="review")
    return tale.tell("share", 5, account="b", old=0.3, new=0.1, by="pia", reason="review").lines


BROKEN: dict[str, tuple[str, Callable[[], Story]]] = {
    "time runs backwards": ("file", lambda: [*swap().lines[:-1], {**swap().lines[-1], "t": 19000}]),
    "lines are not counted": ("file", lambda: change(swap, "notice", n=17)),
    "no first line": ("file", lambda: renumbered(swap().lines[1:])),
    "a second first line": ("file", lambda: renumbered([*swap().lines, {**swap().lines[0], "t": 30000}])),
    "a key is missing": ("file", lambda: without(swap, "lost_gpu_s")),
    "past the end": ("file", lambda: change(swap, "began", until_s=25000)),
    "half a second": ("file", lambda: change(swap, "notice", t=6900.5)),
    "another account": ("file", lambda: change(swap, "requeued", account="b")),
    "an unknown account": ("job", lambda: Tale().submit(0, "j", "nobody", 1).lines),
    "never submitted": ("life", lambda: drop(swap, "submitted")),
    "submitted twice": ("life", lambda: swap().submit(40000, "old", "a", 8).lines),
    "started twice": ("life", lambda: swap().start(40000, "old", {"c-0": 8}, 47200, attempt=3).lines),
    "attempt number skipped": ("life", lambda: change(swap, "started", 2, attempt=3)),
    "stopped without a start": ("life", lambda: drop(swap, "started", 1)),
    "leaves while running": ("life", lambda: gang().leave(8000, "gang").lines),
    "starts while held": ("life", lambda: held_start().lines),
    "released, not held": ("life", lambda: drop(sick, "held")),
    "stopped twice over": ("life", lambda: gang().stopping(7320, "small", "gang").lines),
    "not queued again": ("S15", lambda: drop(swap, "requeued")),
    "queued again, not resumable": ("S15", lambda: change(swap, "submitted", resumable=False)),
    "queued again, timed out": ("S15", lambda: change(sick, "stopped", 1, end="timed_out")),
    "overcommitted": ("S4", lambda: overcommitted().lines),
    "too many for a node": ("S4", lambda: overcommitted("d-0").lines[:3]),
    "on a dead node": ("S19", lambda: drop(sick, "node", 1)),
    "on a draining node": ("S19", lambda: change(sick, "node", 1, state="draining")),
    "part of a gang": ("S18", lambda: change(gang, "started", 2, nodes={"c-0": 8})),
    "a gang on parts of nodes": ("S18", lambda: change(gang, "started", 2, nodes={"c-0": 8, "c-1": 4})),
    "one job, two nodes": ("S18", lambda: change(swap, "started", 1, nodes={"c-0": 4, "c-1": 4})),
    "two clusters": ("S1", lambda: change(gang, "started", 2, nodes={"c-0": 8, "d-0": 4})),
    "an unknown node": ("file", lambda: change(swap, "started", 1, nodes={"z": 8})),
    "protection too short": ("S10", lambda: change(swap, "started", protected_until_s=7000)),
    "protection over the cap": ("S10", lambda: with_policy(swap, max_protected_s=3600)),
    "unbudgeted, protected": ("S10", lambda: change(gang, "started", 1, protected_until_s=10)),
    "stopped while protected": ("S10", lambda: change(swap, "stopping", t=7000, grace_until_s=7120)),
    "drained while protected": ("S10", lambda: change(sick, "stopping", t=9100, grace_until_s=9220)),
    "forced, no name": ("S11", lambda: change(swap, "stopping", cause="forced", by=None)),
    "forced, no reason": ("S11", lambda: change(swap, "stopping", cause="forced")),
    "dies with a healthy node": ("S20", lambda: change(sick, "node", 0, node="d-0")),
    "outlives its node": ("S20", lambda: drop(sick, "stopped")),
    "drained from a healthy node": ("S11", lambda: drop(sick, "node", 2)),
    "stops by us are told": ("S15", lambda: drop(swap, "stopping")),
    "longer than its grace": ("S15", lambda: with_policy(swap, grace={"budgeted": 60})),
    "grace outlived": ("S15", lambda: change(swap, "stopping", t=7199, grace_until_s=7319)),
    "never stopped": ("S15", lambda: gang().lines[:-5]),
    "wrong end": ("S15", lambda: change(swap, "stopped", end="cancelled")),
    "no notice": ("S15", lambda: drop(swap, "notice")),
    "notice inside protection": ("S15", lambda: change(swap, "notice", interruptible_at_s=7000)),
    "stopped before the notice says": ("S15", lambda: change(swap, "notice", interruptible_at_s=7300)),
    "held is wrong": ("S2", lambda: change(swap, "stopped", held_gpu_s=lambda x: x + 1)),
    "lost is negative": ("S13", lambda: change(swap, "stopped", lost_gpu_s=-1)),
    "lost more than held": ("S13", lambda: change(swap, "stopped", lost_gpu_s=8 * 7320 + 481)),
    "finished and lost": ("S13", lambda: change(swap, "stopped", 1, lost_gpu_s=1)),
    "no taker": ("S22", lambda: change(swap, "stopping", by=None)),
    "its own taker": ("S22", lambda: change(swap, "stopping", by="old")),
    "no ratios": ("S22", lambda: change(swap, "stopping", mine=None)),
    "taker is not waiting": ("S13", lambda: change(gang, "stopping", by="free")),
    "taker starts elsewhere": ("S13", lambda: change(swap, "started", 1, nodes={"c-1": 8})),
    "taker never starts": ("S14", lambda: swap().lines[:-4]),
    "somebody else takes the place": ("S14", lambda: thief().lines),
    "quick takes quick": ("S12", lambda: quick_takes_quick().lines),
    "taker is unbudgeted": ("S12", lambda: change(swap, "submitted", 1, min_runtime_s=0)),
    "own account, for order": ("S12", lambda: own_account().lines),
    "own gang, not planned": ("S12", lambda: drop(gang, "planned")),
    "own gang takes its equal": ("S12", lambda: equal_gang().lines),
    "limit of the parent": ("S9", lambda: limit(5, 2).lines),
    "limit, unbudgeted counted": ("S9", lambda: limit(5, 0).lines),
    "promise moves": ("S17", lambda: moved_promise(failure=False)),
    "promise is late": ("S17", lambda: late_promise(3600, 4021)),
    "promise beyond protections": ("S17", lambda: late_promise(9 * HOUR, 9 * HOUR)),
    "promise in the past": ("S17", lambda: change(gang, "planned", at_s=59)),
    "promise to a running job": ("S17", lambda: gang().tell("planned", 8000, job="gang", at_s=9000).lines),
    "drain waits": ("S19", lambda: drained_late(301)),
    "back too soon": ("S8", lambda: rerun(1799)),
    "shares over the whole": ("S1", lambda: shares(0.6)),
    "an old share nobody had": ("S3", lambda: shares(0.4, 0.2)),
    "a reason while running": ("S21", lambda: reason_while_running().lines),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_told(name: str) -> None:
    rule, story = BROKEN[name]
    told = check_story(story())
    assert any(f": {rule}: " in violation for violation in told), told


ALMOST = {
    "limit met": lambda: limit(4, 2).lines,
    "promise moves after a failure": lambda: moved_promise(failure=True),
    "promise kept at the last moment": lambda: late_promise(3600, 4020),
    "drain leaves in time": lambda: drained_late(0),
    "back in time": lambda: rerun(1800),
    "shares meet the whole": lambda: shares(0.5),
}


@pytest.mark.parametrize("name", ALMOST)
def test_the_edge_of_a_rule_is_legal(name: str) -> None:
    lines = ALMOST[name]()
    lines[0]["until_s"] = lines[-1]["t"]
    assert check_story(lines) == []


def test_wishes_the_story_does_not_carry() -> None:
    tale = swap().lines
    for wish in ({"clusters": ["d"]}, {"gpu": "A100"}):
        assert ": job: " in check_story(tale, asked={"old": wish})[0]
    assert ": job: " in check_story(gang().lines, asked={"gang": {"same_rack": True}})[0]
    assert ": S11: " in check_story(tale, asked={"new": {"max_runtime": "1h"}})[0]
    lasting = {"new": {"runtime": 12680}, "old": {"runtime": 17200}}
    assert check_story(tale, asked=lasting) == []
    assert ": S15: " in check_story(tale, asked={"old": {"runtime": 20000}})[0]


def test_a_lab_stands_in_for_the_first_line() -> None:
    lines = swap().lines
    del lines[0]["nodes"], lines[0]["accounts"], lines[0]["clusters"]
    lab = {"clusters": {"c": {"nodes": [{"name": "c-0"}, {"name": "c-1"}], "gpus_per_node": 8}},
           "accounts": {"a": {"share": "30%", "max_gpus": 7}, "b": {"share": 0.3}}}  # fmt: skip
    told = check_story(lines, lab)
    assert len(told) == 2
    assert all(": S9: a holds 8" in x for x in told)


def test_gpu_seconds_add_up() -> None:
    sums = gpu_seconds(sick().lines)
    assert sums["capacity"] == 20 * 24 * HOUR
    assert sums["budgeted"] == 16000 + 16 * 7400 + 4 * 7320
    assert sums["down"] == 8 * 1000 + 4 * (24 * HOUR - 9320)
    assert sums["capacity"] == sums["down"] + sums["idle"] + sums["budgeted"] + sums["unbudgeted"]


def right_measures(lines: Story) -> dict[str, Any]:
    sums = gpu_seconds(lines)
    held, up = sums["budgeted"] + sums["unbudgeted"], sums["capacity"] - sums["down"]
    return {
        "span_s": 24 * HOUR,
        "gpu_hours": {key: value / 3600 for key, value in sums.items()},
        "occupancy": held / up,
        "availability": up / sums["capacity"],
        "unbudgeted_share": sums["unbudgeted"] / held,
        "preemptions": {"count": 2, "max_per_job": 1},
    }


def test_measures_are_held_to_the_story() -> None:
    lines = gang().lines
    assert check_measures(lines, right_measures(lines)) == []
    for path, wrong in (("span_s", 1), ("occupancy", 0.5), ("availability", 0.9), ("unbudgeted_share", 0.1)):
        assert check_measures(lines, {**right_measures(lines), path: wrong})
    for key in ("capacity", "down", "idle", "budgeted", "unbudgeted", "lost"):
        measures = right_measures(lines)
        measures["gpu_hours"][key] += 0.001
        assert any(key in told for told in check_measures(lines, measures))


def halves(jobs_of_a: int) -> Story:
    """One cluster of 16 GPUs, halved; b takes the place of one of so many 8-GPU jobs of a."""
    tale = Tale()
    tale.lines[0].update(
        clusters=["c"],
        nodes=tale.lines[0]["nodes"][:2],
        accounts=[
            {"path": "", "parent": -1, "shares": [1000000]},
            {"path": "a", "parent": 0, "shares": [500000]},
            {"path": "b", "parent": 0, "shares": [500000]},
        ],
    )
    for i in range(jobs_of_a):
        tale.submit(0, f"old{i}", "a", 8).start(0, f"old{i}", {f"c-{i}": 8}, 2 * HOUR)
    tale.submit(HOUR, "new", "b", 8).notice(2 * HOUR - 300, "old0", 2 * HOUR)
    tale.stopping(2 * HOUR, "old0", "new").stopped(7320, "old0", 8 * 7320).requeue(7320, "old0")
    return tale.start(7320, "new", {"c-0": 8}, 7320 + 2 * HOUR).lines


def test_a_swap_leaves_the_victims_account_at_its_target() -> None:
    assert check_swaps(halves(2)) == []
    assert [": S12: a would hold 0 GPUs" in told for told in check_swaps(halves(1))] == [True]


def test_a_saver_takes_only_from_an_account_in_credit() -> None:
    for count, told in ((2, 0), (1, 0)):
        lines = [{**x, "rule": "saved_up"} if x["event"] == "stopping" else x for x in halves(count)]
        assert len(check_swaps(lines)) == told
    owed = [x for x in halves(1) if x.get("job") != "old0" or x["event"] == "submitted" or x["t"] >= 2 * HOUR]
    lines = [{**x, "rule": "saved_up"} if x["event"] == "stopping" else x for x in owed]
    assert [": S12: old0 goes for a saver" in told for told in check_swaps(lines)] == [True]


def test_targets_by_hand() -> None:
    """Two hours of 16 GPUs in halves: a holds all, b asks for 8 in the second hour."""
    lines = halves(2)
    books = books_of(lines[0])
    assert books is not None
    for line in lines[1:]:
        if line["event"] == "stopping":
            break
        books.pass_time(line["t"])
        note(books, line)
    books.pass_time(2 * HOUR)
    standing = books.standing()
    assert standing["b"].debt_gpu_s == 8 * HOUR
    assert standing["a"].debt_gpu_s == 2 * 8 * HOUR - 2 * 16 * HOUR
    assert standing["b"].target == pytest.approx(8 + 8 / 48)
    assert standing["a"].target == pytest.approx(8 - 8 / 48)  # called back only as far as b is in debt


def test_dues_flow_to_siblings() -> None:
    assert poured(48, {"x": 24, "y": 24}, {"x": 0, "y": 80}) == {"x": 0, "y": 48}
    assert poured(48, {"x": 24, "y": 24}, {"x": 80, "y": 80}) == {"x": 24, "y": 24}
    assert poured(48, {"x": 36, "y": 12}, {"x": 40, "y": 4}) == {"x": 40, "y": 4}
    assert poured(48, {"x": 12, "y": 12, "z": 24}, {"x": 4, "y": 80, "z": 80}) == {
        "x": 4,
        "y": pytest.approx(44 / 3),
        "z": pytest.approx(88 / 3),
    }
