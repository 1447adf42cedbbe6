"""The knobs of the deciding core, as one NamedTuple of whole numbers that kernels can hold.

Defaults are for the policy `budget`. Values that scale with the cluster are resolved by `for_cluster`
(`order.py` reads them from the board), so one set of knobs serves every size.
"""

from __future__ import annotations

from typing import NamedTuple

from tenure.core.words import NEVER_S

HOUR_S = 3600
DAY_S = 86400


class Order:
    TARGETS, WINDOW = 0, 1


class Policy(NamedTuple):
    """All knobs. Seconds, GPUs or parts per thousand (`_pm`), as the name's end says."""

    order: int = Order.TARGETS
    lookback_s: int = 7 * DAY_S
    half_life_s: int = NEVER_S  #: S5: age at which use counts half, instead of the lookback; NEVER_S = off
    max_protected_s: int = 8 * HOUR_S
    grace_budgeted_s: int = 120
    grace_unbudgeted_s: int = 15
    notice_s: int = 300
    hold_s: int = 600  #: S14: cleared GPUs are held this long after the last grace
    repay_s: int = 48 * HOUR_S  #: a debt is repaid over so long
    repay_bound_pm: int = 250  #: … at most this part of the entitlement
    repay_bound_gpus: int = -1  #: … or so many GPUs; -1 = two nodes from 512 GPUs on, else one
    round_pm: int = 500  #: a job may exceed its target by this part of itself
    round_bound_gpus: int = (
        -1
    )  #: … and by at most so many GPUs (or a tenth of the entitlement); -1 = as above
    quick_runtime_s: int = 900
    quick_gpus: int = 8
    quick_bound_gpus: int = -1  #: quick GPUs an account may run beyond its target; -1 = as above
    pool_nodes: int = -1  #: nodes for quick and unbudgeted work only; -1 = one in 64, rounded down
    plan_above_gpus: int = -1  #: jobs larger than this get a plan; -1 = a sixteenth of the cluster
    max_plans: int = 8
    plan_debt_pm: int = (
        10  #: … and any job its account has room for, once the account is owed this part of a lookback
    )
    saved_pm: int = 250  #: part of what a job will hold beyond its due that must be saved up
    wait_for_own: int = 1  #: a promise also waits for enough of its account's own work (0: by nodes alone)
    patience_s: int = 1800
    patience_loss_s: int = 600  #: lost work for each claimed GPU that makes a claim wait
    session_patience_s: int = 7200  #: a session past protection is taken only by who waited so long
    depth: int = 40  #: waiting jobs of an account that a turn looks at
    restart_penalty_s: int = 300  #: victim cost, budgeted: for each GPU and stay so far
    back_off_s: int = 1800  #: an unbudgeted job stopped k times rests k times so long
    lengthen_weight: int = 3  #: placement: GPUs' worth of one hour by which a node's protection grows
    window_margin_pm: int = 20  #: order window: the victim's ratio must exceed the taker's by so much
    loans: int = (
        1  #: what nobody else can use goes to any budgeted job that fits (0: only to unbudgeted work)
    )
    tick_s: int = 300
