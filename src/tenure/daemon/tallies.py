"""Counts of what turns did since this process began, for whoever watches: plain numbers, no library.

Made from the story lines of each recorded turn, so that they say what the record says. They begin anew with
the process, as counters of a monitoring system may.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WAIT_S = (1, 2, 5, 15, 30, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400)
TURN_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
DEBUG_GPUS, DEBUG_S = 8, 900
GROUPS = ("debug", "session", "gang", "budgeted", "unbudgeted")
MOST_WAITING = 1_000_000  #: jobs whose waits are kept in mind; more are not measured


class Distribution:
    """Values in buckets of given upper bounds, and one for all above."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def n(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, int]]:
        """(upper bound as text, values up to it), the last for all."""
        found, so_far = [], 0
        for bound, count in zip((*map(float, self.bounds), None), self.counts, strict=True):
            so_far += count
            found.append(("+Inf" if bound is None else repr(bound), so_far))
        return found


class Tallies:
    """`add` after each turn that is recorded; read the fields at any time."""

    def __init__(self) -> None:
        self.wait_s = {group: Distribution(WAIT_S) for group in GROUPS}
        self.stops: Counter[tuple[str, str]] = Counter()  #: (cause, rule) of attempts told to stop
        self.ends: Counter[str] = Counter()  #: attempts that ended, by end
        self.lost_gpu_s = 0
        self.held_gpu_s = 0
        self.node_steps: Counter[str] = Counter()  #: nodes that came into a state
        self._asked: dict[str, str] = {}  #: group of each job on the board
        self._since: dict[str, int] = {}  #: since when it waits

    def knows(self, job: str, line: Mapping[str, Any], since_t: int | None, *, gang: bool = False) -> None:
        """A job the process found in the record when it began. `line`: as a `submitted` line."""
        if len(self._asked) < MOST_WAITING:
            self._asked[job] = group_of(line, gang)
            if since_t is not None:
                self._since[job] = since_t

    def add(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """The story lines of one turn, as they were recorded."""
        ended: dict[str, None] = {}
        for line in lines:
            if line["event"] == "stopped":
                ended[line["job"]] = None
            elif line["event"] == "requeued":
                ended.pop(line["job"], None)
            count = getattr(self, f"_{line['event']}", None)
            if count is not None:
                count(line)
        for job in ended:
            self.forget(job)

    def _submitted(self, line: Mapping[str, Any]) -> None:
        self.knows(line["job"], line, line["t"])

    def _started(self, line: Mapping[str, Any]) -> None:
        job = line["job"]
        group, since = self._asked.get(job), self._since.pop(job, None)
        if group == "budgeted" and len(line["nodes"]) > 1:
            group = self._asked[job] = "gang"
        if group is not None and since is not None:
            self.wait_s[group].add(max(0, line["t"] - since))

    def _stopping(self, line: Mapping[str, Any]) -> None:
        self.stops[line["cause"], line["rule"]] += 1

    def _stopped(self, line: Mapping[str, Any]) -> None:
        self.ends[line["end"]] += 1
        self.lost_gpu_s += line["lost_gpu_s"] or 0
        self.held_gpu_s += line["held_gpu_s"] or 0

    def _requeued(self, line: Mapping[str, Any]) -> None:
        self._since[line["job"]] = line["t"]

    def _cancelled(self, line: Mapping[str, Any]) -> None:
        self.forget(line["job"])

    def _node(self, line: Mapping[str, Any]) -> None:
        self.node_steps[line["state"]] += 1

    def forget(self, job: str) -> None:
        """The job has ended."""
        self._asked.pop(job, None)
        self._since.pop(job, None)


def group_of(line: Mapping[str, Any], gang: bool = False) -> str:
    """The one group a job is counted in. A debug job is small and short, whatever it says it is."""
    if not line["min_runtime_s"]:
        return "unbudgeted"
    if line.get("kind") == "session":
        return "session"
    if line["gpus"] <= DEBUG_GPUS and line["min_runtime_s"] <= DEBUG_S:
        return "debug"
    return "gang" if gang else "budgeted"
