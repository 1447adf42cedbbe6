"""What waits and runs, job by job: the queue, filtered, with the reason of those that are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.client.messages import ClusterUse, Queue, QueueRow
from tenure.core.board import as_kernels_want
from tenure.core.outlook import LOOK, look_entry
from tenure.core.tables import columns, empty
from tenure.core.words import NONE, NodeState, Phase, Reason
from tenure.daemon.asked import AFTER, ARRAY, THROTTLED
from tenure.daemon.book import JobCard
from tenure.daemon.view import View
from tenure.ledger.records import JobRow
from tenure.service.live.desk import Desk, called
from tenure.service.live.people import Who
from tenure.settings.errors import BadInput, nearest, shown

MOST_ROWS = 100_000
MOST_REASONS = 500  #: rows of a page for which a reason is worked out
STATES = ("waiting", "running", "stopping", "ended", "all")
WAITS = (Phase.WAITING, Phase.RESTING, Phase.HELD, Phase.CLAIMING)
WORD = {
    Phase.ABSENT: "waiting",
    Phase.WAITING: "waiting",
    Phase.RESTING: "waiting",
    Phase.HELD: "waiting",
    Phase.CLAIMING: "waiting",
    Phase.RUNNING: "running",
    Phase.STOPPING: "stopping",
    Phase.ENDED: "ended",
}


class Wanted(NamedTuple):
    """Which jobs: None lets all pass."""

    state: str | None = None
    user: str | None = None
    account: str | None = None
    cluster: str | None = None
    limit: int = 1000
    offset: int = 0


def queue(desk: Desk, who: Who, wanted: Wanted) -> Queue:
    """The jobs that match, running ones first, then by submission. Anybody in the lab may see it.

    Raises BadInput for a state, account or cluster that is none.
    """
    view = desk.view()
    _check(desk, wanted)
    if wanted.state in ("ended", "all"):
        return _with_ended(desk, view, wanted)
    rows = _matching(view, wanted)
    page = rows[wanted.offset : wanted.offset + wanted.limit]
    return _queue(desk, view, len(rows), rows_of(desk, view, page.tolist()))


def _queue(desk: Desk, view: View, total: int, jobs: Sequence[QueueRow]) -> Queue:
    use = cluster_use(view)
    return Queue(
        at=desk.date(max(view.t, desk.t())) or "",
        turn=view.turn,
        clusters=use,
        total=total,
        waiting=_count(view, WAITS),
        held=_count(view, (Phase.HELD,)),
        resting=_count(view, (Phase.RESTING,)),
        running=sum(one.running for one in use),
        jobs=list(jobs),
    )


def _check(desk: Desk, wanted: Wanted) -> None:
    if wanted.state is not None and wanted.state not in STATES:
        raise BadInput("queue", "state", shown(wanted.state), " | ".join(STATES))
    if wanted.cluster is not None and wanted.cluster not in desk.lab.clusters:
        raise BadInput("queue", "cluster", shown(wanted.cluster), nearest(wanted.cluster, desk.lab.clusters))
    paths = [path for path in desk.lab.rows() if path]
    if wanted.account is not None and wanted.account not in paths:
        raise BadInput("queue", "account", shown(wanted.account), nearest(wanted.account, paths))
    if not 0 <= wanted.limit <= MOST_ROWS or wanted.offset < 0:
        raise BadInput("queue", "limit", str(wanted.limit), f"a number of jobs from 0 to {MOST_ROWS}")


def _count(view: View, phases: Iterable[Phase]) -> int:
    return int(np.isin(view.board.stays["phase"][: len(view.ids)], [int(one) for one in phases]).sum())


def _matching(view: View, wanted: Wanted) -> NDArray[np.int64]:
    """Rows of the board in the order in which they are shown: stopping, running, waiting; then submission."""
    n = len(view.ids)
    stays = view.board.stays[:n]
    phase = stays["phase"]
    rank = np.select(
        [phase == Phase.STOPPING, phase == Phase.RUNNING, np.isin(phase, [int(one) for one in WAITS])],
        [0, 1, 2],
        -1,
    )
    keep = rank >= 0
    if wanted.state is not None:
        keep &= rank == ("stopping", "running", "waiting").index(wanted.state)
    if wanted.cluster is not None:
        cluster = view.lab.clusters.index(wanted.cluster)
        able = (view.core.jobs["clusters"][:n] >> cluster) & 1 == 1
        keep &= np.where(rank == 2, able, stays["cluster"] == cluster)
    if wanted.account is not None:
        paths = called(view).accounts
        inside = [one == wanted.account or one.startswith(f"{wanted.account}/") for one in paths]
        keep &= np.array(inside)[stays["account"]]
    if wanted.user is not None:
        cards = view.cards
        keep &= np.array([cards[name].user == wanted.user if name in cards else False for name in view.ids])
    rows = np.flatnonzero(keep)
    when = np.where(rank[rows] == 2, stays["submit_s"][rows], stays["started_s"][rows])
    return rows[np.lexsort((rows, when, rank[rows]))]


def rows_of(desk: Desk, view: View, rows: Sequence[int]) -> list[QueueRow]:
    """Lines of the queue for rows of the board."""
    stays, start = view.board.stays, view.start
    paths = called(view).accounts
    reasons = reasons_of(view, rows)
    now_t, told = max(view.t, desk.t()), []
    for row in rows:
        stay, name = stays[row], view.ids[row]
        card, phase = view.cards[name], Phase(int(stay["phase"]))
        runs = phase in (Phase.RUNNING, Phase.STOPPING)
        told.append(
            QueueRow.model_construct(  # thousands of them, made of what is checked already
                job=name,
                account=str(paths[int(stay["account"])]),
                user=card.user,
                phase=WORD[phase],
                gpus=int(stay["gpus"]),
                min_runtime_s=int(view.core.jobs["min_runtime_s"][row]),
                cluster=view.lab.clusters[int(stay["cluster"])] if runs else None,
                name=str(card.spec.get("name", "")),
                submitted=desk.date(int(card.submitted_t), start) or "",
                since=desk.date(int(stay["started_s"] if runs else stay["since_s"]), start),
                waited_s=None if runs else max(0, now_t - int(stay["since_s"])),
                attempt=int(stay["attempt"]),
                nodes=int(stay["n_nodes"]) if runs else 0,
                protected_until=desk.date(int(stay["protected_until_s"]), start)
                if phase == Phase.RUNNING and stay["budgeted"]
                else None,
                leaves_by=desk.date(int(stay["stop_s"]), start) if phase == Phase.STOPPING else None,
                reason=reasons.get(row),
                held_by=_held_by(card) if phase == Phase.HELD else None,
                after=[one.text for one in card.after] if card.held_by == AFTER else [],
                array=card.array or None,
            )
        )
    return told


def _held_by(card: JobCard) -> str | None:
    return (ARRAY if card.detail == THROTTLED else card.held_by) or None


def reasons_of(view: View, rows: Sequence[int]) -> dict[int, str]:
    """Why each of these waits, as codes; the first `MOST_REASONS` of them."""
    phase = view.board.stays["phase"]
    asked = [row for row in rows if phase[row] in WAITS][:MOST_REASONS]
    if not asked:
        return {}
    board, look = view.standing_at(view.t), empty(1, LOOK, evidence=NONE)
    lab, boards, seen = as_kernels_want(view.core), as_kernels_want(board), columns(look)
    told = {}
    for row in asked:
        look_entry(lab, boards, view.policy, row, view.t, seen)
        told[row] = Reason(int(look["reason"][0])).name.lower()
    return told


def cluster_use(view: View) -> list[ClusterUse]:
    """Each cluster in one line."""
    told = []
    stays = view.board.stays[: len(view.ids)]
    for cluster, name in enumerate(view.lab.clusters):
        scene = view.board.scenes[cluster]
        runs = np.isin(stays["phase"], [int(Phase.RUNNING), int(Phase.STOPPING)])
        told.append(
            ClusterUse(
                cluster=name,
                gpus=int(view.core.clusters["gpus"][cluster]),
                healthy=int(scene["healthy"]),
                free=free_in_service(view, cluster),
                running=int((runs & (stays["cluster"] == cluster)).sum()),
                waiting=int(scene["n_waiting"]),
            )
        )
    return told


def free_in_service(view: View, cluster: int) -> int:
    """GPUs free on the nodes of a cluster that take work."""
    posts = view.board.posts
    takes = (view.core.nodes["cluster"] == cluster) & (posts["state"] == NodeState.UP)
    return int(posts["free"][takes].sum())


def _with_ended(desk: Desk, view: View, wanted: Wanted) -> Queue:
    """Ended jobs are in the record alone; the newest first."""
    phase = "ended" if wanted.state == "ended" else None
    found = desk.ledger.jobs(
        phase=phase,
        account=wanted.account,
        user=wanted.user,
        limit=min(wanted.limit, MOST_ROWS),
        offset=wanted.offset,
        newest=True,
    )
    jobs = lines_of(desk, view, found)
    return _queue(desk, view, wanted.offset + len(jobs), jobs)


def lines_of(desk: Desk, view: View, jobs: Sequence[JobRow]) -> list[QueueRow]:
    """Lines of the queue for these jobs, in their order, whether they live or have ended."""
    on_board = [view.row_of(one.job) for one in jobs if one.phase != "ended"]
    living = {row.job: row for row in rows_of(desk, view, [row for row in on_board if row >= 0])}
    return [living.get(one.job) or recorded(desk, one) for one in jobs]


def recorded(desk: Desk, job: JobRow) -> QueueRow:
    """A line of the queue for a job that is in the record alone."""
    spec: Mapping[str, Any] = job.spec
    return QueueRow(
        job=job.job,
        account=job.account,
        user=job.user,
        phase=job.phase,
        end=job.end or None,
        gpus=job.gpus,
        min_runtime_s=job.min_runtime_s,
        name=str(spec.get("name", "")),
        submitted=desk.date(job.submitted_t) or "",
        since=desk.date(job.ended_t),
        array=job.array or None,
    )
