"""Does the gang's network carry what it must? nccl-tests read, or a loop over gloo; and which node is slow.

Bandwidths are bus bandwidths in GB/s, as nccl-tests means them: an all-reduce of S bytes over n ranks in t
seconds is S/t · 2(n−1)/n. The gate compares the median of the large sizes with what is expected. Where it is
too low, halves of the gang are measured until a node is named.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tenure.runs.preflight import FAIL, PASS, UNKNOWN, Outcome

LARGE_BYTES = 64 << 20  #: smaller messages measure latency
COLUMNS = 13  #: of a row: size count type redop root, then time algbw busbw #wrong twice


class Row(NamedTuple):
    """One size. GB/s; seconds."""

    bytes: int
    seconds: float
    bus_gb_s: float
    wrong: int | None  #: elements that came out wrong; None: not checked


class AllReduce(NamedTuple):
    """A whole benchmark."""

    ranks: int
    rows: tuple[Row, ...]
    hosts: tuple[str, ...] = ()

    @property
    def wrong(self) -> int:
        """Elements that came out wrong, over all sizes."""
        return sum(row.wrong or 0 for row in self.rows)

    @property
    def checked(self) -> bool:
        """Whether results were compared at all."""
        return any(row.wrong is not None for row in self.rows)

    def bus_gb_s(self, from_bytes: int = LARGE_BYTES) -> float | None:
        """Median over the large sizes; over the largest where none is; None where nothing was measured."""
        large = [row.bus_gb_s for row in self.rows if row.bytes >= from_bytes]
        if not large and self.rows:
            large = [max(self.rows).bus_gb_s]
        return statistics.median(large) if large else None


def read_nccl(text: str) -> AllReduce | None:
    """Of `all_reduce_perf`, its JSON (`-J`) or its table; None where it is neither."""
    stripped = text.lstrip()
    return _of_json(stripped) if stripped.startswith("{") else _of_table(text)


def _of_json(text: str) -> AllReduce | None:
    try:
        told = json.loads(text)
    except ValueError:
        return None
    rows, devices = told.get("results"), told.get("config", {}).get("devices", [])
    if not isinstance(rows, list):
        return None
    found = []
    for one in rows:
        side = one.get("out_of_place") or one.get("in_place")
        if isinstance(side, dict):
            micro = side["time"] if "time" in side else side["cpu_time"]
            wrong = side.get("nwrong")
            checked = None if wrong in (None, "nan") else int(float(wrong))
            found.append(Row(int(one["size"]), float(micro) / 1e6, float(side["bus_bw"]), checked))
    hosts = tuple(dict.fromkeys(str(device.get("hostname")) for device in devices))
    return AllReduce(len(devices), tuple(found), hosts) if found else None


def _of_table(text: str) -> AllReduce | None:
    rows, ranks, hosts = [], set(), []
    for line in text.splitlines():
        parts = line.split()
        if parts[:2] == ["#", "Rank"] and len(parts) > 8:
            ranks.add(parts[2])
            hosts.append(parts[parts.index("on") + 1])
        elif len(parts) >= COLUMNS - 1 and parts[0].isdigit() and parts[1].isdigit():
            try:
                wrong = None if parts[8] == "N/A" else int(float(parts[8]))
                rows.append(Row(int(parts[0]), float(parts[5]) / 1e6, float(parts[7]), wrong))
            except ValueError:
                continue  # a node's own message in between
    return AllReduce(len(ranks), tuple(rows), tuple(dict.fromkeys(hosts))) if rows else None


def gate(
    found: AllReduce | None, expected_gb_s: float | None, share: float, ranks: int | None = None
) -> Outcome:
    """Whether it is fast and right enough: `share` of what is expected; `ranks` that must have taken part."""
    speed = None if found is None else found.bus_gb_s()
    if found is None or speed is None:
        return Outcome(UNKNOWN, "no all-reduce was measured")
    numbers: dict[str, Any] = {"bus_gb_s": speed, "ranks": found.ranks, "wrong": found.wrong}
    if found.wrong:
        return Outcome(FAIL, f"{found.wrong} elements of an all-reduce came out wrong", numbers)
    if ranks is not None and found.ranks and found.ranks != ranks:
        return Outcome(FAIL, f"{found.ranks} ranks took part, {ranks} should have", numbers)
    if expected_gb_s is None:
        return Outcome(UNKNOWN, f"{speed:.3g} GB/s; what is expected was not told", numbers)
    part = speed / expected_gb_s
    text = f"{speed:.3g} GB/s bus bandwidth, {part:.0%} of the {expected_gb_s:.3g} expected"
    if part < share:
        return Outcome(FAIL, f"{text}; at least {share:.0%} are wanted", numbers)
    if not found.checked:
        return Outcome(UNKNOWN, f"{text}; results were not checked (-c 1)", numbers)
    return Outcome(PASS, text, numbers)


def slow_nodes(
    nodes: Sequence[str], measure: Callable[[Sequence[str]], float | None], least_gb_s: float
) -> tuple[str, ...]:
    """The nodes with which an all-reduce stays below `least_gb_s`, found by halving.

    `measure` tells the bus bandwidth of some nodes (two at least), None where it cannot. Each suspect is
    measured with a node that was found good, so several slow nodes are found. Where no two nodes are good, or
    all halves are, nobody is named: it is the network between them.
    """
    if len(nodes) < 2:
        return ()
    good: list[str] = []
    suspects: list[Sequence[str]] = []

    def split(part: Sequence[str]) -> None:
        speed = measure(part) if len(part) > 1 else None
        if len(part) > 1 and speed is not None and speed >= least_gb_s:
            good.extend(part)
        elif len(part) <= 2:
            suspects.append(part)
        else:
            middle = len(part) // 2
            split(part[:middle])
            split(part[middle:])

    split(list(nodes))
    if not good:
        return ()  # nobody to be measured with: it is the network, or all
    slow = []
    for part in suspects:
        for node in part:
            speed = measure([good[0], node])
            if speed is None or speed < least_gb_s:
                slow.append(node)
    return tuple(slow)
