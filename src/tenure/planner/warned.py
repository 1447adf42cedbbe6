"""What goes wrong with plans like this one, with this plan's own numbers: the five failure modes, and others.

Median trap, the pilot that lied, the late start, the lost final checkpoint, the phantom gang.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.planner.of_file import failures_seen, final_save_s, lead_s
from tenure.planner.on_sale import against_record
from tenure.planner.pilots import LEAST_SHARE
from tenure.planner.plan_window import Plan, within_budget
from tenure.planner.run_model import FASTEST_BRED, HOURS
from tenure.planner.window import Offer, judge

FEW_EVENTS = 3.0  #: fewer failures seen say little about their rate
CLOSE = 0.01  #: offers within so much of the best are as good
BRED_MUCH = 0.2  #: failures in lost time lengthen the run by a quarter


class Warned(NamedTuple):
    """`mode`: its name, the same in table, JSON and docs."""

    mode: str
    text: str

    def __str__(self) -> str:
        return f"{self.mode}: {self.text}"


def warnings(plan: Plan) -> list[Warned]:
    """All that hold, the gravest first."""
    found = [
        _never(plan),
        _median_trap(plan),
        _pilot_that_lied(plan),
        _few_failures(plan),
        _late_start(plan),
        _lost_final_checkpoint(plan),
        _phantom_gang(plan),
        _over_budget(plan),
        _unbuyable(plan),
        _level(plan),
    ]
    told = [one for one in found if one is not None]
    return told + [Warned("not as recorded", text) for text in against_record(plan.file)]


def _never(plan: Plan) -> Warned | None:
    run = plan.run
    if run is None:
        return None
    bred = run.bred()
    if run.model != "compounding":
        if bred < BRED_MUCH:
            return None
        truly = "never ends" if bred >= 1 else f"takes {1 / (1 - bred):.2f} times as much lost time"
        return Warned(
            "first-order failures",
            f"each failure brings {bred:.2f} more in the time it costs, which this model leaves "
            f"out: with them "
            f"the run {truly} (model: compounding)",
        )
    if run.rate.shape is not None:
        speeds, weights = run.rate.points()
        left_out = float(weights[speeds * run.nodes / HOURS * run.hours_a_failure >= FASTEST_BRED].sum())
        if left_out > 1e-4:
            return Warned(
                "may never end",
                f"with chance {left_out:.1%} the failure rate is so high that the run never ends (λL near "
                f"1); "
                "those rates are left out of every figure here",
            )
    if bred > BRED_MUCH:
        return Warned(
            "compounding failures",
            f"each failure brings {bred:.2f} more in the time it costs: lost time is {1 / (1 - bred):.2f} "
            f"times "
            "what a first-order sum says, and from λL = 1 on the run never ends",
        )
    return None


def _median_trap(plan: Plan) -> Warned | None:
    """A window of the plan without failures, or of the median, is overrun more often than people think."""
    if plan.run is not None:
        planned = plan.run.without_failures().length().mean
        name = "failure-free length"
    else:
        planned, name = float(plan.length.quantile(np.array(0.5))), "median"
    net = planned + plan.terms.lead_days
    row = judge(plan.length, plan.terms, [Offer(net, plan.chosen.offer.fee and net * _day(plan))])[0]
    if row.p_overrun < 0.3:
        return None
    dearer = row.cost - plan.chosen.cost
    more = f" and costs {dearer:,.0f} more in expectation than the best window here" if dearer > 0 else ""
    return Warned(
        "median trap",
        f"a window of the {name}, {net:.1f} days, is overrun with chance {row.p_overrun:.0%}{more}",
    )


def _day(plan: Plan) -> float:
    offer = plan.chosen.offer
    return (offer.fee or 0.0) / offer.days


def _pilot_that_lied(plan: Plan) -> Warned | None:
    fitted = plan.fitted
    if fitted is None or plan.run is None:
        return None
    if fitted.share < LEAST_SHARE:
        return Warned(
            "pilot that lied",
            f"the largest pilot ran on {fitted.share:.0%} of the target's nodes, below a quarter: its "
            f"speed is "
            f"carried {1 / fitted.share:.0f} times beyond what was seen (spread widened {fitted.widened:.1f} "
            "times); measure on a quarter, or replace it by the whole gang's probe before the window starts",
        )
    return None


def _few_failures(plan: Plan) -> Warned | None:
    run = plan.run
    if run is None or run.rate.shape is None:
        return None
    seen, prior = failures_seen(plan.file)
    if seen.events >= FEW_EVENTS:
        return None
    tail = float(plan.length.quantile(np.array(0.95)))
    return Warned(
        "few failures seen",
        f"{seen.events:g} in {seen.node_days:g} node-days leave the rate at "
        f"{run.rate.per_node_day:.3g} ± {(run.rate.shape or 1) ** 0.5 / run.rate.node_days:.2g} per node-day "
        f"(prior: {prior.shape:g} in {prior.node_days:g}); the 95 % length is "
        f"{tail:.1f} days",
    )


def _late_start(plan: Plan) -> Warned | None:
    """What an hour lost at the start changes; a whole day where nothing was planned for it."""
    if lead_s(plan.file)["startup"] > 0:
        return None
    later = [
        Offer(o.days, o.fee, o.id, o.extra, o.lost_days + hours / HOURS)
        for hours in (3.0, 24.0)
        for o in [plan.chosen.offer]
    ]
    three, day = judge(plan.length, plan.terms, later)
    return Warned(
        "late start",
        "no time is planned between the window's start and the first step: 3 hours lost there move the "
        "chance "
        f"of an overrun from {plan.chosen.p_overrun:.1%} to {three.p_overrun:.1%}, a day to "
        f"{day.p_overrun:.1%} "
        f"(+{day.cost - plan.chosen.cost:,.0f})",
    )


def _lost_final_checkpoint(plan: Plan) -> Warned | None:
    lead, save = lead_s(plan.file), final_save_s(plan.file)
    if lead["drain"] == 0:
        known = f" (it takes {save:.0f} s)" if save else ""
        return Warned(
            "lost final checkpoint",
            f"no time is planned for the last save before the end{known}: give lead.drain, or params and "
            f"store",
        )
    if save is not None and save > 600:
        return Warned(
            "lost final checkpoint",
            f"the last save takes {save / 60:.0f} minutes, more than the ten a provider's warning leaves: "
            f"it must "
            "be begun by the clock, not by the warning",
        )
    return None


def _phantom_gang(plan: Plan) -> Warned | None:
    told = plan.file.overrun
    if told.per_day is None and told.p_fallback is None and plan.file.extension is None:
        return Warned(
            "phantom gang",
            "after the window the whole gang is assumed to be there on demand at once: give p_fallback and "
            "stall_per_day, or work out its wait and its bill with `tenure plan gang`",
        )
    extension = plan.file.extension
    if extension is not None and extension.p and not extension.states:
        return Warned(
            "phantom gang",
            "the extension's chance is taken apart from tightness, but both fail together in a tight market: "
            "give extension.states",
        )
    return None


def _over_budget(plan: Plan) -> Warned | None:
    risk = plan.file.budget
    if risk is None or risk.probability is None:
        return None
    if within_budget(plan.file, plan.length, plan.terms, plan.rows):
        return None
    return Warned(
        "over budget",
        f"every window passes {risk.amount:,.0f} with a chance above {risk.probability:.0%}: the cheapest "
        f"is shown",
    )


def _unbuyable(plan: Plan) -> Warned | None:
    if plan.anywhere is None or plan.file.lattice is None:
        return None
    regret = plan.chosen.cost - plan.anywhere.cost
    return Warned(
        "cannot be bought",
        f"the best length, {plan.anywhere.days:.2f} days, is not for sale: {plan.chosen.days:g} days cost "
        f"{regret:,.0f} more",
    )


def _level(plan: Plan) -> Warned | None:
    near = [row for row in plan.rows if row is not plan.chosen and row.cost <= plan.chosen.cost * (1 + CLOSE)]
    if not near:
        return None
    others = ", ".join(f"{row.days:g} d (+{row.cost - plan.chosen.cost:,.0f})" for row in near[:4])
    return Warned("level", f"within {CLOSE:.0%} of the best: {others}")


#: The six steps after a plan, as a list to tick off.
NEXT_STEPS = (
    "Run a pilot on at least a quarter of the nodes: speed, failures per node-day, restart time.",
    "Feed the pilot into this plan; look at what the tornado says would change the answer.",
    "Choose among real offers, and keep the money of the overrun beside the fee.",
    "Before the start: image, data, latest checkpoint in the region, one node launched into the window.",
    "Every day: tokens kept per paid GPU-hour; at 50 and 75 % of the window forecast again, extend or not.",
    "Begin the last save by the clock, well before termination; verify it before the window ends.",
)
