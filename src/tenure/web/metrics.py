"""`GET /metrics`: the running scheduler in Prometheus' words. `docs/how-to/watch-a-lab.md` explains each.

Gauges are read off the newest view at each scrape, so they are as old as the newest turn and say so
(`tenure_turn_age_seconds`); how accounts stand is told as of the scrape. Labels hold names of the lab's file
and words of fixed lists, never job ids or users, and of accounts at most MOST_ACCOUNTS: what a page of
metrics costs is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tenure import __version__
from tenure.core.columns import UGPU
from tenure.core.order import FAR
from tenure.core.words import NodeState, Phase
from tenure.daemon.tallies import Distribution, Tallies
from tenure.daemon.view import View
from tenure.ledger.records import LedgerError
from tenure.service.live.aides import Aides
from tenure.service.live.desk import Desk
from tenure.service.live.standings import leaves_below

CONTENT_TYPE = CONTENT_TYPE_LATEST
MOST_ACCOUNTS = 400  #: by name; the rest are summed as `(others)`
OTHERS = "(others)"
ALL = "(all)"  #: the root; its ratio means nothing
PHASES = ("waiting", "held", "resting", "claiming", "running", "stopping")
REPAIRS_FOR_S = 60.0  #: a question to the database that a scrape need not ask each time

Numbers = NDArray[Any]


class Metrics(Collector):
    """The page of one running scheduler."""

    def __init__(self, desk: Desk, aides: Aides) -> None:
        self.desk, self.aides = desk, aides
        self._repairs, self._repairs_at = 0, -REPAIRS_FOR_S
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def page(self) -> bytes:
        """As CONTENT_TYPE says. Answers also while nothing leads and nothing is recovered yet."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Everything, as of now."""
        desk, now = self.desk, self.desk.now()
        yield InfoMetricFamily("tenure_build", "The release that runs.", {"version": __version__})
        yield from of_the_loop(desk, now)
        yield from of_what_turns_did(self.aides.tallies)
        yield self.repairs(now)
        yield from of_aides(self.aides)
        view = desk.daemon.view()
        if view is not None:
            yield from of_jobs(view)
            yield from of_nodes(view)
            yield from of_accounts(view, int(now - view.start))

    def repairs(self, now: float) -> Metric:
        """Asked of the record once a minute; the last answer while it does not answer."""
        if now - self._repairs_at >= REPAIRS_FOR_S:
            with suppress(LedgerError):
                self._repairs = self.desk.ledger.repairs_by_people(0.0, now + 1)
                self._repairs_at = now
        return CounterMetricFamily(
            "tenure_repairs_by_person",
            "Repairs that needed a person, in the whole record.",
            value=self._repairs,
        )


def of_the_loop(desk: Desk, now: float) -> Iterator[Metric]:
    """Whether turns are made, how old the newest is, and what does not answer."""
    health, counters, view = desk.daemon.health(), desk.daemon.counters, desk.daemon.view()
    yield _gauge("tenure_leader", "1 where this server leads and decides.", float(health.leader))
    if view is not None:
        yield _gauge("tenure_turn", "Number of the newest recorded turn.", view.turn)
    if health.last_turn_at is not None:
        age = max(0.0, now - health.last_turn_at)
        yield _gauge("tenure_turn_age_seconds", "Since the newest recorded turn.", age)
    silent = health.engine_silent_s or 0.0
    yield _gauge("tenure_engine_silent_seconds", "How long the engine has not answered; 0: it does.", silent)
    yield _gauge(
        "tenure_ledger_failing",
        "1 while the record cannot be written.",
        float(health.ledger_error is not None),
    )
    for name, words, value in (
        ("tenure_ledger_errors", "Times the record did not answer.", counters.ledger_errors),
        ("tenure_engine_errors", "Times the engine did not answer.", counters.engine_errors),
        ("tenure_orders_refused", "Orders the engine will never carry out.", counters.orders_refused),
    ):
        yield CounterMetricFamily(name, words, value=value)
    turn = HistogramMetricFamily("tenure_turn_seconds", "From what was seen to what was recorded.")
    _add(turn, [], counters.turn_s)
    work = HistogramMetricFamily("tenure_turn_cpu_seconds", "The same, in processor time of the loop alone.")
    _add(work, [], counters.turn_cpu_s)
    yield from (turn, work)
    yield _gauge("tenure_orders_open", "Orders recorded and not yet carried out.", counters.orders_open)


def of_what_turns_did(tallies: Tallies) -> Iterator[Metric]:
    """Counts since this process began."""
    waits = HistogramMetricFamily(
        "tenure_wait_seconds", "Submission or requeue to start, by group of jobs.", labels=["group"]
    )
    for group, values in tallies.wait_s.items():
        _add(waits, [group], values)
    yield waits
    stops = CounterMetricFamily("tenure_stops", "Attempts told to stop.", labels=["cause", "rule"])
    for (cause, rule), count in sorted(tallies.stops.items()):
        stops.add_metric([cause, rule], count)
    yield stops
    ends = CounterMetricFamily("tenure_attempts_ended", "Attempts that ended.", labels=["end"])
    for end, count in sorted(tallies.ends.items()):
        ends.add_metric([end], count)
    yield ends
    yield CounterMetricFamily(
        "tenure_lost_gpu_seconds", "Work lost by stops and dead nodes.", value=tallies.lost_gpu_s
    )
    yield CounterMetricFamily(
        "tenure_held_gpu_seconds", "GPU-time held by attempts that ended.", value=tallies.held_gpu_s
    )
    steps = CounterMetricFamily("tenure_node_steps", "Nodes that came into a state.", labels=["state"])
    for state, count in sorted(tallies.node_steps.items()):
        steps.add_metric([state], count)
    yield steps


def of_aides(aides: Aides) -> Iterator[Metric]:
    """Health checks and messages, where the lab has them."""
    watch, courier = aides.watch, aides.courier
    if watch is not None:
        told = watch.told()
        yield _gauge(
            "tenure_health_nodes_held_back",
            "Nodes whose check fails and that stay in service: checks took out as many as they may.",
            len(told.held_back),
        )
        tallies = list(told.tallies.values())
        nodes = GaugeMetricFamily(
            "tenure_health_nodes", "Nodes by what their newest check said.", labels=["said"]
        )
        nodes.add_metric(["passed"], sum(t.passed > 0 and not t.unknown for t in tallies))
        nodes.add_metric(["failed"], sum(t.failed > 0 and not t.unknown for t in tallies))
        nodes.add_metric(["unknown"], sum(t.unknown > 0 for t in tallies))
        yield nodes
    if courier is not None:
        sent = courier.told()
        yield _gauge("tenure_messages_waiting", "Notes to owners that have not left.", sent.waiting)
        yield CounterMetricFamily("tenure_messages_sent", "Notes to owners that left.", value=sent.sent)
        yield CounterMetricFamily(
            "tenure_messages_failed", "Notes to owners that were given up.", value=sent.failed
        )


def of_jobs(view: View) -> Iterator[Metric]:
    """Jobs by phase."""
    phases = np.bincount(view.board.stays["phase"][: len(view.ids)], minlength=len(Phase))
    jobs = GaugeMetricFamily("tenure_jobs", "Jobs by phase.", labels=["phase"])
    for phase in PHASES:
        jobs.add_metric([phase], int(phases[Phase[phase.upper()]]))
    yield jobs


def of_nodes(view: View) -> Iterator[Metric]:
    """GPUs and nodes by state: the parts sum to what the clusters have."""
    nodes, posts, clusters = view.core.nodes, view.board.posts, view.lab.clusters
    stays = view.board.stays[: len(view.ids)]
    held = np.isin(stays["phase"], (Phase.RUNNING, Phase.STOPPING))
    gpus = GaugeMetricFamily("tenure_gpus", "GPUs by what they do.", labels=["cluster", "state"])
    count = GaugeMetricFamily("tenure_nodes", "Nodes by state.", labels=["cluster", "state"])
    for cluster, name in enumerate(clusters):
        here = nodes["cluster"] == cluster
        mine = held & (stays["cluster"] == cluster)
        budgeted = int(stays["gpus"][mine & stays["budgeted"]].sum())
        unbudgeted = int(stays["gpus"][mine & ~stays["budgeted"]].sum())
        idle = int(posts["free"][here & (posts["state"] == NodeState.UP)].sum())
        whole = int(nodes["gpus"][here].sum())
        gpus.add_metric([name, "budgeted"], budgeted)
        gpus.add_metric([name, "unbudgeted"], unbudgeted)
        gpus.add_metric([name, "idle"], idle)
        gpus.add_metric([name, "out_of_service"], max(0, whole - budgeted - unbudgeted - idle))
        states = np.bincount(posts["state"][here], minlength=len(NodeState))
        for state in NodeState:
            count.add_metric([name, state.name.lower()], int(states[state]))
    yield gpus
    yield count


def of_accounts(view: View, now_s: int) -> Iterator[Metric]:
    """What each account holds, waits for, is owed and aims at, by cluster; inner accounts with all below."""
    table = account_table(view, now_s)
    for name, words, values in table:
        family = GaugeMetricFamily(name, words, labels=["cluster", "account"])
        for cluster, by_account in enumerate(values):
            for account, value in by_account:
                family.add_metric([view.lab.clusters[cluster], account], value)
        yield family


Rows = list[list[tuple[str, float]]]  #: by cluster: (account, value)


def account_table(view: View, now_s: int) -> list[tuple[str, str, Rows]]:
    """(metric, help, values) of accounts."""
    accounts, n = view.lab.accounts, len(view.lab.accounts)
    clusters = range(len(view.lab.clusters))
    stays = view.board.stays[: len(view.ids)]
    held = np.isin(stays["phase"], (Phase.RUNNING, Phase.STOPPING))
    waits = np.isin(stays["phase"], (Phase.WAITING, Phase.RESTING, Phase.CLAIMING))
    parents = np.array([account.parent for account in accounts])

    def summed(chosen: Numbers) -> list[Numbers]:
        """GPUs of these jobs by account and all above, for each cluster."""
        found = []
        for cluster in clusters:
            mine = chosen & (stays["cluster"] == cluster)
            total = np.bincount(stays["account"][mine], stays["gpus"][mine], n)
            for row in range(n - 1, 0, -1):
                total[parents[row]] += total[row]
            found.append(total)
        return found

    standings = view.standing_at(now_s).standings.reshape(len(view.lab.clusters), n)
    named, rest = named_accounts(view)

    def rows(by_cluster: Iterable[Numbers], *, others: bool) -> Rows:
        found: Rows = []
        for values in by_cluster:
            pairs = [(accounts[row].path or ALL, float(values[row])) for row in named]
            if others and rest:
                pairs.append((OTHERS, float(np.asarray(values)[rest].sum())))
            found.append(pairs)
        return found

    def of_leaves(name: str) -> list[Numbers]:
        return [leaves_below(view.core.accounts, values) for values in standings[name]]

    gpu = 1.0 / UGPU
    return [
        ("tenure_account_budgeted_gpus", "GPUs held by budgeted work.",
         rows(summed(held & stays["budgeted"]), others=True)),
        ("tenure_account_unbudgeted_gpus", "GPUs held by unbudgeted work.",
         rows(summed(held & ~stays["budgeted"]), others=True)),
        ("tenure_account_waiting_gpus", "GPUs of budgeted jobs that wait.",
         rows(summed(waits & stays["budgeted"]), others=True)),
        ("tenure_account_waiting_unbudgeted_gpus", "GPUs of unbudgeted jobs that wait.",
         rows(summed(waits & ~stays["budgeted"]), others=True)),
        ("tenure_account_entitled_gpus", "Its share of the healthy GPUs.",
         rows(standings["entitled_ugpu"] * gpu, others=True)),
        ("tenure_account_due_gpus", "What it is due now: its entitlement, flowed and capped at its demand.",
         rows(standings["due_ugpu"] * gpu, others=True)),
        ("tenure_account_target_gpus", "What the scheduler aims at giving it now.",
         rows(of_leaves("target"), others=True)),
        ("tenure_account_ratio", "Used over entitled, over the lookback.",
         [[one for one in told if one[0] != ALL and one[1] < FAR] for told in
          rows(standings["ratio"], others=False)]),
        ("tenure_account_owed_gpu_seconds", "What the lookback still owes it; negative: it is in credit.",
         rows(of_leaves("debt"), others=True)),
    ]  # fmt: skip


def named_accounts(view: View) -> tuple[list[int], list[int]]:
    """Rows told by name, and leaves told together: the upper levels first, then in the lab's order."""
    accounts = view.lab.accounts
    inner = {account.parent for account in accounts}
    own = [row for row, account in enumerate(accounts) if account.own_leaf_of is None]
    depth = [0] * len(accounts)
    for row, account in enumerate(accounts):
        depth[row] = depth[account.parent] + 1 if row else 0
    first = sorted(own, key=lambda row: (depth[row], row))
    named, rest = sorted(first[:MOST_ACCOUNTS]), first[MOST_ACCOUNTS:]
    return named, [row for row in rest if row not in inner]


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=value)


def _add(family: HistogramMetricFamily, labels: list[str], values: Distribution) -> None:
    family.add_metric(labels, values.cumulative(), values.total)
