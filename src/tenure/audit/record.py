"""A story made ready to be measured: who could run where, and every step function of interest.

Rows of accounts are the story's; a row of (cluster, account) is `cluster * n_accounts + account`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tenure.audit.capacity import WHOLE, Shares, Steps, down_steps, shares_of, steps_between
from tenure.audit.sorting import distinct, numbered
from tenure.audit.span import AuditError, span_of
from tenure.audit.stays import WAITS, among, attempts_of, events_of_jobs, phases_of
from tenure.core.words import NEVER_S, NONE, Happened
from tenure.story.columns import Story, StoryAccount

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Record:
    """The parts of a story that measures are made of, each worked out once, when first asked for."""

    def __init__(self, story: Story, *, since_s: int | None = None) -> None:
        if not story.nodes:
            raise AuditError("the story names no nodes: what was owed of them cannot be said")
        self.story = story = with_own_leaves(story)
        self.span = span_of(story, since_s=since_s)
        self.edges = self.span.hour_edges()
        self.n_hours = len(self.edges) - 1
        self.n_clusters, self.n_accounts = len(story.clusters), len(story.accounts)
        self.attempts = attempts_of(story)
        self.phases = phases_of(story)
        self.parent = np.array([a.parent for a in story.accounts], np.int64)
        self.budgeted: Bools = story.jobs["min_runtime_s"] > 0
        self.gpus: Ints = story.jobs["gpus"].astype(np.int64)
        self.account: Ints = story.jobs["account"].astype(np.int64)

    # --- the lab ------------------------------------------------------------------------------------
    @cached_property
    def leaves(self) -> Ints:
        """Rows with nobody below them, the root apart."""
        inner = set(self.parent.tolist())
        return np.array([row for row in range(1, self.n_accounts) if row not in inner], np.int64)

    @cached_property
    def limits(self) -> dict[int, int]:
        """{account: max_gpus} where there is one."""
        return {row: a.max_gpus for row, a in enumerate(self.story.accounts) if a.max_gpus is not None}

    @cached_property
    def capacity(self) -> Ints:
        """(clusters,) GPUs of all nodes."""
        total = np.zeros(self.n_clusters, np.int64)
        for node in self.story.nodes:
            total[node.cluster] += node.gpus
        return total

    def line(self, account: int) -> list[int]:
        """The account and those above it."""
        rows = []
        while account != NONE:
            rows.append(account)
            account = int(self.parent[account])
        return rows

    @cached_property
    def may_run(self) -> Ints:
        """(jobs,) bits of the clusters that could hold the job, were they empty and whole."""
        everywhere = (1 << self.n_clusters) - 1
        sizes, which = numbered(self.gpus)
        able = np.array([self._holders(gpus) for gpus in sizes.tolist()], np.int64)
        bits = self.story.jobs["clusters"]
        return able[which] & np.where(bits == 0, everywhere, bits)

    @cached_property
    def _sizes(self) -> list[dict[int, int]]:
        """For each cluster {GPUs of a node: number of such nodes}."""
        sizes: list[dict[int, int]] = [{} for _ in range(self.n_clusters)]
        for node in self.story.nodes:
            sizes[node.cluster][node.gpus] = sizes[node.cluster].get(node.gpus, 0) + 1
        return sizes

    def _holders(self, gpus: int) -> int:
        bits = 0
        for cluster, sizes in enumerate(self._sizes):
            gang = any(gpus % size == 0 and gpus <= size * number for size, number in sizes.items())
            if gang or gpus <= max(sizes, default=0):
                bits |= 1 << cluster
        return bits

    @cached_property
    def is_gang(self) -> Bools:
        """(jobs,) whether it takes more than one node: as it ran, or as its size says if it never did."""
        largest = max(node.gpus for node in self.story.nodes)
        gang = self.gpus > largest
        attempts = self.attempts
        gang[attempts.job] = False
        gang[attempts.job[attempts.n_nodes > 1]] = True
        return gang

    @cached_property
    def is_large(self) -> Bools:
        """(jobs,) whether it asks for a quarter or more of the largest cluster it may run on."""
        most = np.zeros(len(self.gpus), np.int64)
        for cluster, gpus in enumerate(self.capacity.tolist()):
            most = np.maximum(most, np.where(self.may_run >> cluster & 1, gpus, 0))
        return 4 * self.gpus >= most

    # --- step functions -----------------------------------------------------------------------------
    @cached_property
    def shares(self) -> Shares:
        return shares_of(self.story)

    @cached_property
    def down(self) -> Steps:
        """GPUs out of service; row: cluster."""
        return down_steps(self.story, self.attempts)

    def standing(self, cluster: Ints, job: Ints) -> Ints:
        return cluster * self.n_accounts + self.account[job]

    @cached_property
    def held(self) -> Steps:
        """GPUs of budgeted attempts, grace included; row: cluster and account."""
        return self.held_between(self.attempts.start_s, self.attempts.stop_s)

    def held_between(self, from_s: Ints, to_s: Ints) -> Steps:
        """GPUs of each budgeted attempt between two instants of its own; row: cluster and account."""
        a = self.attempts
        charged = self.budgeted[a.job]
        job = a.job[charged]
        row = self.standing(a.cluster[charged], job)
        return steps_between(from_s[charged], to_s[charged], row, self.gpus[job])

    @cached_property
    def unbudgeted(self) -> Steps:
        """GPUs of unbudgeted attempts; row: cluster."""
        a = self.attempts
        free = ~self.budgeted[a.job]
        job = a.job[free]
        return steps_between(a.start_s[free], a.stop_s[free], a.cluster[free], self.gpus[job])

    @cached_property
    def asking(self) -> Bools:
        """(phases,) stretches in which a budgeted job waits, is not held, and could run somewhere."""
        p = self.phases
        return (p.phase == WAITS) & ~p.held & self.budgeted[p.job] & (self.may_run[p.job] != 0)

    @cached_property
    def masks(self) -> list[int]:
        """Sets of several clusters (bits) that waiting jobs may run on, small sets first."""
        bits = distinct(self.may_run[self.phases.job[self.asking]])
        return sorted((b for b in bits.tolist() if b & (b - 1)), key=lambda b: (b.bit_count(), b))

    @cached_property
    def waiting(self) -> Steps:
        """GPUs of asking jobs that may run on one cluster only; row: cluster and account."""
        only = self.asking & (self.may_run[self.phases.job] & (self.may_run[self.phases.job] - 1) == 0)
        job = self.phases.job[only]
        cluster = np.log2(self.may_run[job]).astype(np.int64)
        return self._stretches(only, self.standing(cluster, job))

    @cached_property
    def waiting_anywhere(self) -> Steps:
        """GPUs of asking jobs that may run on several clusters; row: mask * n_accounts + account."""
        bits = self.may_run[self.phases.job]
        several = self.asking & (bits & (bits - 1) != 0)
        job = self.phases.job[several]
        by_number = np.argsort(self.masks)  # `masks` has small sets first
        place = by_number[np.searchsorted(np.sort(self.masks), bits[several])]
        return self._stretches(several, place * self.n_accounts + self.account[job])

    @cached_property
    def waiting_after_failure(self) -> Steps:
        """GPUs of asking jobs whose last attempt ended with its node; row: cluster and account."""
        hit = self.asking & self.phases.after_node_failure & (self.phases.cluster >= 0)
        return self._stretches(hit, self.standing(self.phases.cluster[hit], self.phases.job[hit]))

    def waiting_by_size(self, sizes: Ints) -> Steps:
        """Number of asking jobs of accounts under a limit; row: size * n_accounts + account."""
        limited = np.array([any(r in self.limits for r in self.line(a)) for a in range(self.n_accounts)])
        wanted = self.asking & limited[self.account[self.phases.job]]
        job = self.phases.job[wanted]
        row = np.searchsorted(sizes, self.gpus[job]) * self.n_accounts + self.account[job]
        p = self.phases
        return steps_between(p.from_s[wanted], p.to_s[wanted], row, np.ones(len(job), np.int64))

    def _stretches(self, wanted: Bools, row: Ints) -> Steps:
        p = self.phases
        return steps_between(p.from_s[wanted], p.to_s[wanted], row, self.gpus[p.job[wanted]])

    @cached_property
    def protected(self) -> Steps:
        """GPUs that nobody may take: within protection, or within the grace of a stop."""
        a = self.attempts
        whole = self.held_between(a.start_s, np.minimum(a.stop_s, a.protected_until_s))
        grace = self.held_between(np.maximum(a.stopping_s, a.protected_until_s), a.stop_s)
        return Steps(*(np.concatenate(pair) for pair in zip(whole, grace, strict=True)))

    @cached_property
    def pledged(self) -> Steps:
        """GPUs of jobs with a promise or a claim, until they start or lose it; row: cluster.

        A claim counts where its nodes are; a promise does not say where: it counts on the first cluster that
        could hold its job.
        """
        story = self.story
        opens = (Happened.PLANNED, Happened.CLAIMED)
        ends = (Happened.UNPLANNED, Happened.UNCLAIMED, Happened.STARTED, Happened.CANCELLED)
        rows = events_of_jobs(story, (*opens, *ends))
        job, t = story.events["job"][rows], story.events["t"][rows]
        open_ = among(story.events["event"][rows], opens)
        to_s = np.full(len(rows), NEVER_S)
        to_s[:-1] = np.where(job[1:] == job[:-1], t[1:], NEVER_S)
        job, t, to_s = job[open_], t[open_], to_s[open_]
        bits = self.may_run[job]
        lowest = np.log2(np.maximum(bits & -bits, 1)).astype(np.int64)
        told = story.events[rows[open_]]
        claims = told["n_nodes"] > 0
        if claims.any():
            node = story.placements["node"][told["nodes_at"][claims]]
            lowest[claims] = np.array([n.cluster for n in story.nodes])[node]
        return steps_between(t, to_s, lowest, np.where(bits != 0, self.gpus[job], 0))


def with_own_leaves(story: Story) -> Story:
    """The story with a leaf for the work given to each inner account itself, where it lacks one.

    The leaf's share is what its siblings leave; it goes by the inner account's path and `(own)`.
    """
    inner = {account.parent for account in story.accounts} - {NONE}
    given = [row for row in np.unique(story.jobs["account"]).tolist() if row in inner]
    if not given:
        return story
    accounts, moved = list(story.accounts), np.arange(len(story.accounts))
    for row in given:
        siblings = [a.shares for a in story.accounts if a.parent == row]
        left = tuple(max(0, WHOLE - sum(parts)) for parts in zip(*siblings, strict=True))
        moved[row] = len(accounts)
        path = f"{accounts[row].path}/(own)".lstrip("/")
        accounts.append(StoryAccount(path, row, left, own_leaf_of=row))
    jobs = story.jobs.copy()
    jobs["account"] = moved[jobs["account"]]
    return replace(story, accounts=accounts, jobs=jobs)
