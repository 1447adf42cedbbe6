"""S21, S22: one job at one instant, in words with numbers: where it starts, why it waits, whom it stops.

Asked of a board as a turn has left it, played or lived; the board is not written to. Whoever asks says what
rows are called and how an instant is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.board import LANES, QUICK, UNBUDGETED, Board, Lab, as_kernels_want
from tenure.core.columns import UGPU
from tenure.core.decide import copy_of
from tenure.core.explain import explain, explain_start, explain_stop, jobs_text, moment_text, span_text
from tenure.core.order import FAR
from tenure.core.outlook import LOOK, look_entry
from tenure.core.policy import Policy
from tenure.core.tables import columns, empty
from tenure.core.words import NEVER_S, NONE, NodeState, Reason, Rule

PPM = 1_000_000
LOW_HALF = (1 << 32) - 1
ENDING_S = 5  #: most that a machine room takes to end what has had its grace, and to start what comes
BY_ACCOUNT = (Reason.OWN_LIMIT, Reason.SAVING_UP, Reason.OVER_TARGET)  #: their evidence is an account


class Called(NamedTuple):
    """What rows are called. `accounts`: the path people give, so an own leaf is called as its parent."""

    clusters: Sequence[str]
    nodes: Sequence[str]
    accounts: Sequence[str]
    jobs: Any  #: a list, or an array of texts


@dataclass(frozen=True)
class Instant:
    """A lab and its board (arrays) at a second of the record, and the words for both."""

    lab: Lab
    board: Board
    policy: Policy
    called: Called
    at_s: int
    when: Callable[[int], str] = moment_text

    def account_of(self, job: int) -> str:
        """The path of the account that a job runs as."""
        return str(self.called.accounts[int(self.board.stays["account"][job])])

    def standing(self, cluster: int, account: int) -> dict[str, Any]:
        """How an account stands on a cluster."""
        row = self.board.standings[cluster * len(self.lab.accounts) + account]
        return {
            "account": str(self.called.accounts[account]),
            "cluster": self.called.clusters[cluster],
            "ratio": float(row["ratio"]) if row["ratio"] < FAR else None,
            "entitlement": float(row["entitled_ugpu"]) / UGPU,
            "target": float(row["target"]),
            "running": int(row["running"]),
            "debt_gpu_h": float(row["debt"]) / 3600,
        }

    def why_started(self, job: int, rule: int) -> str:
        """The sentence of a start."""
        account = int(self.board.stays["account"][job])
        ratio = self.standing(int(self.board.stays["cluster"][job]), account)["ratio"]
        part = "0 %" if ratio is None else f"{100 * ratio:.0f} %"
        return explain_start(Rule(rule), {"account": self.account_of(job), "mine": part})

    def placed(self, event: Any, placements: Any) -> dict[str, Any]:
        """Where an event puts its job, and by which rule. `placements`: rows that `event.nodes_at` counts."""
        rows = placements[int(event["nodes_at"]) : int(event["nodes_at"]) + int(event["n_nodes"])]
        nodes = {str(self.called.nodes[int(row["node"])]): int(row["gpus"]) for row in rows}
        return {"rule": Rule(int(event["rule"])).name.lower(), "nodes": nodes}

    def stopped(self, event: Any, *, asked: int = NONE) -> dict[str, Any]:
        """A STOPPING event for a taker: by which rule, and both ratios. `asked`: called "this job"."""
        job, rule, taker = int(event["job"]), Rule(int(event["rule"])), int(event["by"])
        mine, theirs = (int(event["y"]) >> 32) / PPM, (int(event["y"]) & LOW_HALF) / PPM
        account = self.account_of(job)
        facts = {
            "taker": "this job" if taker == asked else str(self.called.jobs[taker]),
            "account": account,
            "mine": f"{mine:.2f}",
            "theirs": f"{theirs:.2f}",
        }
        return {
            "job": str(self.called.jobs[job]),
            "account": account,
            "attempt": int(event["attempt"]),
            "gpus": int(self.board.stays["gpus"][job]),
            "rule": rule.name.lower(),
            "mine": mine,
            "theirs": theirs,
            "lost_gpu_s": None,
            "sentence": explain_stop(rule, facts),
        }

    def why_waits(self, job: int) -> dict[str, Any]:
        """Its one reason with numbers, what stands before it, and the earliest start."""
        look = empty(1, LOOK, evidence=NONE)
        after = Instant(self.lab, copy_of(self.board), self.policy, self.called, self.at_s, self.when)
        lab, board = as_kernels_want(after.lab), as_kernels_want(after.board)
        look_entry(lab, board, after.policy, job, self.at_s, columns(look))
        seen, reason = look[0], Reason(int(look["reason"][0]))
        facts = after._facts(job, seen, reason)
        account = int(self.board.stays["account"][job])
        return {
            "reason": reason.name.lower(),
            "need": int(seen["need"]),
            "have": int(seen["have"]),
            "sentence": explain(reason, facts),
            "evidence": facts["limited"] or facts["other"] or facts["closing"],
            "numbers": after.standing(int(seen["cluster"]), account) | after._before(job, seen),
            "earliest_start": after._bounds(reason, int(seen["known_by_s"])),
        }

    def _facts(self, job: int, seen: Any, reason: Reason) -> dict[str, Any]:
        """Everything a sentence may speak of, as text."""
        evidence, known_s = int(seen["evidence"]), int(seen["known_by_s"])
        stays, called = self.board.stays, self.called
        standing = self.standing(int(seen["cluster"]), int(stays["account"][job]))
        limited = evidence if reason in BY_ACCOUNT else NONE
        other = NONE if reason in BY_ACCOUNT else evidence
        need, have = int(seen["need"]), int(seen["have"])
        gpus = int(stays["gpus"][job])
        closing = self._first_to_close(job, int(seen["cluster"])) if reason == Reason.CLOSING else NONE
        closes_s = int(self.board.posts["closed_s"][closing]) if closing != NONE else NEVER_S
        return {
            "need": need,
            "have": have,
            "need_s": span_text(need),
            "have_s": span_text(have),
            "need_gpu_h": f"{need / 3600:,.1f}",
            "have_gpu_h": f"{have / 3600:,.1f}",
            "gpus": gpus,
            "account": standing["account"],
            "running": standing["running"],
            "target": f"{standing['target']:.1f}".removesuffix(".0"),
            "limited": str(called.accounts[limited]) if limited != NONE else None,
            "holds": int(self.board.purses["held"][limited]) if limited != NONE else None,
            "limit": int(self.lab.accounts["max_gpus"][limited]) if limited != NONE else None,
            "other": str(called.jobs[other]) if other != NONE else None,
            "closing": str(called.nodes[closing]) if closing != NONE else None,
            "closes": self.when(closes_s) if closing != NONE else None,
            "before": jobs_text(int(seen["before"]) or int(seen["place"])),
            "before_gpus": need - gpus if reason == Reason.ORDER else None,
            "place": jobs_text(int(seen["place"])),
            "depth": self.policy.depth,
            "at": self.when(known_s) if known_s < NEVER_S else None,
        }

    def _first_to_close(self, job: int, cluster: int) -> int:
        """The node in service, of a type the job may use, that closes first; NONE where none is to close."""
        posts, nodes = self.board.posts, self.lab.nodes
        there = (nodes["cluster"] == cluster) & (posts["state"] == NodeState.UP)
        if self.lab.jobs["gpu_type"][job] != NONE:
            there &= nodes["gpu_type"] == self.lab.jobs["gpu_type"][job]
        closes_s = np.where(there, posts["closed_s"], NEVER_S)
        return int(closes_s.argmin()) if closes_s.min() < NEVER_S else NONE

    def _before(self, job: int, seen: Any) -> dict[str, Any]:
        """Rank of its account, and what stands before the job: of accounts ahead, and of its own."""
        board, cluster = self.board, int(seen["cluster"])
        mine = int(board.stays["account"][job])
        listed = self._ahead_in_list(job, cluster, int(seen["place"]))
        own = listed[board.stays["account"][listed] == mine]
        own_gpus = int(board.stays["gpus"][own].sum())
        ahead = []
        for account, n_jobs, gpus in self._accounts_ahead(job, seen, listed):
            told = self.standing(cluster, account)
            kept = {key: told[key] for key in ("account", "ratio", "target", "running")}
            ahead.append(kept | {"jobs": n_jobs, "gpus": gpus})
        return {
            "rank": len(ahead) + 1,
            "accounts_ahead": ahead,
            "own_jobs_before": len(own),
            "own_gpus_before": own_gpus,
            "jobs_before": len(own) + sum(one["jobs"] for one in ahead),
            "gpus_before": own_gpus + sum(one["gpus"] for one in ahead),
        }

    def _accounts_ahead(
        self, job: int, seen: Any, listed: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, int]]:
        """(account, waiting jobs, their GPUs) of those asked before its own, in order."""
        board, n = self.board, len(self.lab.accounts)
        mine = int(board.stays["account"][job])
        if board.counts["one_list"][0]:  # no accounts are asked: whoever stands before it in the one list
            accounts, gpus = board.stays["account"][listed], board.stays["gpus"][listed]
            for account in dict.fromkeys(accounts.tolist()):
                if account != mine:
                    theirs = accounts == account
                    yield account, int(theirs.sum()), int(gpus[theirs].sum())
            return
        for row in board.walk[: int(seen["leaves"])].tolist():
            if row % n == mine:
                return
            lists = board.queues[row * LANES + QUICK : row * LANES + UNBUDGETED]
            if int(lists["n"].sum()):
                yield row % n, int(lists["n"].sum()), int(lists["gpus"].sum())

    def _ahead_in_list(self, job: int, cluster: int, place: int) -> NDArray[np.int64]:
        """The jobs before it in its own list, first come first."""
        entries = self.board.entries
        first = int(self.lab.jobs["first_entry"][job])
        rows = range(first, first + int(self.lab.jobs["clusters"][job]).bit_count())
        n = len(self.lab.accounts) * LANES
        entry = next((row for row in rows if int(entries["queue"][row]) // n == cluster), NONE)
        jobs: list[int] = []
        while entry != NONE and len(jobs) < place:
            entry = int(entries["prev"][entry])
            jobs.append(int(entries["job"][entry]))
        return np.array(jobs[::-1], np.int64)

    def _bounds(self, reason: Reason, known_s: int) -> dict[str, int | None]:
        """The earliest start as a range, by what is known now.

        Work may end early; protections bound it above. Whoever makes way for a claim has its grace, and a
        turn follows the end.
        """
        if reason == Reason.RESTING:
            return {"earliest_s": known_s, "latest_s": None}
        if known_s >= NEVER_S:
            return {"earliest_s": self.at_s, "latest_s": None}
        if reason == Reason.CLAIMING:
            return {"earliest_s": self.at_s, "latest_s": known_s + ENDING_S}
        grace_s = self.policy.grace_budgeted_s
        late_s = None if reason == Reason.ORDER else known_s + grace_s + self.policy.tick_s
        return {"earliest_s": known_s if reason == Reason.PROMISED else self.at_s, "latest_s": late_s}
