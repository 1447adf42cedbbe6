"""How does every account stand: held, owed, left in the lookback, and what it will get if demand stays so?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.client.messages import Accounts, AccountUse
from tenure.core.board import LANES, Board
from tenure.core.columns import UGPU, WHOLE
from tenure.core.order import FAR
from tenure.daemon.view import View
from tenure.service.live.desk import Desk, called
from tenure.service.live.people import Who

HOUR_S = 3600


def accounts(desk: Desk, who: Who) -> Accounts:
    """All accounts on all clusters, parents first. Anybody in the lab may see it."""
    view = desk.view()
    now_s = max(view.t, desk.t())
    board = view.standing_at(now_s)
    clusters = range(len(view.lab.clusters))
    rows = [one for cluster in clusters for one in _of_cluster(view, board, cluster, now_s)]
    return Accounts(at=desk.date(now_s) or "", lookback_s=view.policy.lookback_s, accounts=rows)


def _of_cluster(view: View, board: Board, cluster: int, now_s: int) -> list[AccountUse]:
    core = view.core
    n = len(core.accounts)
    rows = board.standings[cluster * n : (cluster + 1) * n]
    used, titled = _sums(view, cluster, now_s)
    queues = board.queues[cluster * n * LANES : (cluster + 1) * n * LANES]
    waiting = _with_below(core.accounts, queues["gpus"].reshape(n, LANES).sum(axis=1))
    running = _with_below(core.accounts, rows["running"])
    used = _with_below(core.accounts, used)
    targets, debts = (leaves_below(core.accounts, rows[name]) for name in ("target", "debt"))
    paths, told = called(view).accounts, []
    for account in range(1, n):
        if core.accounts["own_leaf"][account]:
            continue  # part of its parent, as people know it
        row = rows[account]
        target, debt = float(targets[account]), float(debts[account])
        told.append(
            AccountUse(
                account=str(paths[account]),
                cluster=view.lab.clusters[cluster],
                share=float(board.shares[cluster, account]) / WHOLE,
                entitlement=float(row["entitled_ugpu"]) / UGPU,
                running=int(running[account]),
                unbudgeted=int(board.purses["unbudgeted"][account]),
                waiting_gpus=int(waiting[account]),
                target=target,
                ratio=float(row["ratio"]) if row["ratio"] < FAR else None,
                used_gpu_h=float(used[account]) / HOUR_S,
                entitled_gpu_h=float(titled[account]) / HOUR_S,
                left_gpu_h=left_gpu_s(view, row, float(used[account])) / HOUR_S,
                debt_gpu_h=debt / HOUR_S,
                forecast_gpu_h=_forecast(row, debt, view.policy.lookback_s) / HOUR_S,
            )
        )
    return told


def _forecast(row: Any, debt_gpu_s: float, lookback_s: int) -> float:
    """GPU-seconds of the next lookback if demand, shares and nodes stay as they are.

    What is due goes on being due, and what is owed is made good as far as there is demand for it.
    """
    due = float(row["due_ugpu"]) / UGPU
    room = max(0.0, float(row["demand"]) - due) * lookback_s
    return due * lookback_s + min(max(0.0, debt_gpu_s), room)


def leaves_below(accounts: Any, values: Any) -> Any:
    """Each account's sum over the leaves at and below it: what the passes of a turn aim at and owe."""
    return _with_below(accounts, np.where(accounts["first_child"] < 0, values, 0.0))


def left_gpu_s(view: View, standing: Any, used_gpu_s: float) -> float:
    """What an account may still use of a whole lookback at its present entitlement, in GPU-seconds."""
    return max(0.0, float(standing["entitled_ugpu"]) / UGPU * view.policy.lookback_s - used_gpu_s)


def used_gpu_s(view: View, cluster: int, account: int, now_s: int) -> float:
    """What a leaf used over the lookback, in GPU-seconds."""
    return float(_sums(view, cluster, now_s)[0][account])


def _sums(view: View, cluster: int, now_s: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(used, entitled) over the lookback of each account by itself, in GPU-seconds, up to now."""
    n = len(view.core.accounts)
    rows = view.board.standings[cluster * n : (cluster + 1) * n]
    past_s = max(0, now_s - view.policy.lookback_s)
    sums = []
    for total, rate, past, past_rate, unit in (
        ("used_gpu_s", "charged", "past_used_gpu_s", "past_charged", 1),
        ("titled_ugpu_s", "entitled_ugpu", "past_titled_ugpu_s", "past_entitled_ugpu", UGPU),
    ):
        now = rows[total] + rows[rate] * (now_s - rows["since_s"])
        then = rows[past] + rows[past_rate] * np.maximum(0, past_s - rows["past_since_s"])
        sums.append((now - then).astype(np.float64) / unit)
    return sums[0], sums[1]


def _with_below(accounts: Any, values: Any) -> Any:
    """Each account's value with those of all below it."""
    sums = np.concatenate([[0], np.cumsum(values)])
    first = np.arange(len(accounts))
    return sums[first + accounts["n_below"] + 1] - sums[first]
