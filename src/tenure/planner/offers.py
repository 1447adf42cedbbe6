"""Offers on which a plan can be made: real ones, a provider's lattice, and what is put together from parts.

Block and extension: a window and more of it bought at once, worth it only where the extension is offered
surely enough. Chained short windows: every hop waits and restarts. Segments: parts in other zones or with
gaps are separate windows with a move between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tenure.planner.lengths import Length
from tenure.planner.terms import Terms
from tenure.planner.window import Offer, Row, judge


def lattice(lengths_days: Sequence[float], length: Length, *, around: float = 8.0) -> list[Offer]:
    """The lengths of a lattice that could matter: a few below the run's bulk and all up to its far tail."""
    low = float(length.quantile(np.array(0.001)))
    high = float(length.quantile(np.array(0.9999)))
    shown = [days for days in lengths_days if low - around <= days <= high]
    above = [days for days in lengths_days if days > high]
    return [Offer(days) for days in shown + above[:1]] or [Offer(lengths_days[-1])]


class Composite(NamedTuple):
    """A block and an extension bought at once: `p_needed` of its being offered makes it worth it."""

    block_days: float
    extension_days: float
    cost: float  #: where the extension is offered
    cost_without: float  #: where it is not
    p_needed: float  #: to be as cheap as the best single window; above 1: never
    p_overrun: float


def composites(
    length: Length, terms: Terms, blocks: Sequence[float], steps: Sequence[float], single: Row
) -> list[Composite]:
    """Blocks with extensions whose sum lies near the best length, the likeliest first."""
    found = []
    totals = sorted({(block, step) for block in blocks for step in steps})
    alone = {row.days: row.cost for row in judge(length, terms, [Offer(block) for block in set(blocks)])}
    rows = judge(length, terms, [Offer(block + step) for block, step in totals])
    for (block, step), row in zip(totals, rows, strict=True):
        if row.cost >= single.cost or block >= single.days:
            continue
        without = alone[block]
        needed = (without - single.cost) / (without - row.cost) if without > row.cost else 2.0
        found.append(Composite(block, step, row.cost, without, needed, row.p_overrun))
    return sorted(found, key=lambda one: (one.p_needed, one.cost))


class Chain(NamedTuple):
    """Short windows one after the other, each paid and used whole up to the last."""

    hops: float  #: mean number
    elapsed_days: float  #: mean time from the first start to the run's end
    cost: float


def chained(
    length: Length, day_price: float, hop_days: float, wait_days: float, restart_days: float
) -> Chain:
    """The run in hops of at most `hop_days`: elapsed = D + (k - 1)(wait + restart), k hops.

    Every restart is paid; what of the last hop is not needed is not (flex-start ends when it is ended).
    ValueError where a restart takes a whole hop.
    """
    usable = hop_days - restart_days
    if usable <= 0:
        raise ValueError("a hop shorter than its restart")
    far = float(length.quantile(np.array(1 - 1e-9)))
    ends = hop_days + usable * np.arange(max(1, int(np.ceil(far / usable))))  # of useful work, hop by hop
    more = float(length.above(ends).sum())
    elapsed = length.mean + more * (wait_days + restart_days)
    cost = day_price * (length.mean + more * restart_days)
    return Chain(more + 1, elapsed, cost)


class Segment(NamedTuple):
    """A part of an offer: days from the offer's start, in a zone."""

    begins_days: float
    ends_days: float
    zone: str


def lost_between(segments: Sequence[Segment], move_days: float) -> float:
    """Days of an offer of several segments that no gang can use: gaps, and a move between zones."""
    parts = sorted(segments)
    lost = 0.0
    for before, after in pairwise(parts):
        lost += max(0.0, after.begins_days - before.ends_days)
        lost += move_days if after.zone != before.zone or after.begins_days > before.ends_days else 0.0
    return lost
