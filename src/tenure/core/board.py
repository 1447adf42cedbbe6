"""The board: what a turn keeps up and changes. Everything on it can be rebuilt from the record.

`decide` works on a copy of it; a simulation keeps one up to date between turns (the kept-up and the
rebuilt board must be equal: a test). Rows are those of `columns.py`: a stay for each job, a post for each
node, a standing for each account *in each cluster* (row = cluster * number of accounts + account).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.columns import UGPU
from tenure.core.kernel import bundle
from tenure.core.places import WAYS, WORD
from tenure.core.policy import Policy
from tenure.core.tables import B1, F8, I1, I2, I4, I8, Table, columns, empty, table_type
from tenure.core.words import NEVER_S, NONE

#: The three waiting lists of an account in a cluster.
QUICK, BUDGETED, UNBUDGETED, LANES = 0, 1, 2, 3
PLANS = 64  #: rows of plans a cluster
#: Kinds of nodes that rooms are counted for: ordinary, of the pool, and under each promise.
PLAIN, POOL, PROMISED = 0, 1, 2
KINDS = PROMISED + PLANS

#: First what is read of every attempt that is weighed: it lies together.
STAY = table_type(
    gpus=I8,  #: as in JOB, kept here too: it is read with the rest
    plan=I8,  #: row of its plan, or NONE
    phase=I8,
    budgeted=B1,
    quick=B1,  #: short and small (QUICK lane)
    soft=B1,  #: running and past its protection, or unbudgeted
    noticed=B1,
    evicted=B1,  #: was preempted: it has no quick right to evict
    at_head=B1,
    saved=B1,  #: saved up
    timed_out=B1,
    account=I8,  #: as in JOB
    submit_s=I8,  #: first submission: its place in order, kept over requeues
    started_s=I8,
    protected_until_s=I8,
    cluster=I8,  #: where it runs or is claimed; where it counts as demand while it waits
    node=I8,  #: its node, or the first of its nodes (chain: posts.next_of_gang)
    n_nodes=I8,
    attempt=I8,  #: attempts so far
    preempted=I8,  #: times it was preempted
    next_soft=I8,  #: chain of its owner's budgeted attempts past protection
    prev_soft=I8,
    stop_s=I8,  #: STOPPING: end of its grace
    since_s=I8,  #: since when it is in its phase (WAITING, RESTING, CLAIMING …)
    patient_s=I8,  #: since when it waits for a cheaper moment; NEVER_S = it does not
    rest_until_s=I8,
    taker=I8,
    rule=I8,  #: by which rule its claim was made
    cause=I8,
)

#: A job's place in one waiting list, with what is read of every job that is passed over.
ENTRY = table_type(
    gpus=I8,  #: as in JOB, since it entered the list
    next=I8,
    min_runtime_s=I8,  #: as in JOB
    job=I8,
    prev=I8,
    queue=I8,  #: NONE = in no list
    typed=B1,  #: it asks for a type of GPU
)
QUEUE = table_type(
    gpus=I8,
    head=I8,
    tail=I8,
    n=I8,
    least=I8,  #: fewest GPUs of one node that any job so deep would need; 0 = not known, nor what follows
    nodes=I8,  #: UNBUDGETED, whose `least` leaves gangs out: fewest nodes of one; 0 = it needs the pool's too
    few=I8,  #: GPUs of the smallest job so deep
    many=I8,  #: … of the largest
    least_s=I8,  #: the shortest protection so deep
    fitting=I8,  #: GPUs of the largest job so deep that its account's target could hold; 0 = none
    beyond=I8,  #: … of the smallest that it could not
    gang=I8,  #: the first job so deep of more than one node, or NONE
    saved=B1,  #: one so deep has saved up
    pooled=B1,  #: one so deep is a gang that fits nowhere without the pool (`fit.needs_pool`)
    deeper=B1,  #: more jobs wait behind those
)  # row = standing * LANES + lane

POST = table_type(
    plan_s=I8,  #: the promise that this node is kept for; NEVER_S = none
    closed_s=I8,  #: from when on it is to be out of service, as somebody has announced; NEVER_S = not
    free=I8,
    pledged=I8,  #: GPUs that claims will take here
    freeing=I8,  #: GPUs of stopping attempts
    avail=I8,  #: free GPUs that no claim keeps (core/pledges.py): what others may take now
    soft=I8,  #: GPUs of attempts past protection or unbudgeted
    n_jobs=I8,
    lax=I8,  #: … of unbudgeted ones
    ripe=I8,  #: … of those that their owners can spare one by one
    lax_room=I8,  #: what is free or comes free, and lax
    ripe_room=I8,  #: … and ripe
    plan=I8,  #: row of the plan that marked it, or NONE
    next_of_gang=I8,  #: chain of the nodes of the gang that runs here
    next_of_claim=I8,  #: … that claims this node
    next_of_plan=I8,
    state=I8,  #: words.NodeState
    pool=B1,
    counted=B1,  #: its room is in `rooms`
    kind=I8,  #: … under this kind
)

STANDING = table_type(
    entitled_ugpu=I8,
    due_ugpu=I8,
    demand=I8,  #: GPUs asked for by budgeted jobs that run or wait here
    charged=I8,  #: GPUs of budgeted attempts, stopping ones included
    used_gpu_s=I8,  #: integrals since the record began, up to since_s
    owed_ugpu_s=I8,  #: … of due
    titled_ugpu_s=I8,  #: … of entitled
    since_s=I8,
    past_charged=I8,  #: the same as they were one lookback ago
    past_due_ugpu=I8,
    past_entitled_ugpu=I8,
    past_used_gpu_s=I8,
    past_owed_ugpu_s=I8,
    past_titled_ugpu_s=I8,
    past_since_s=I8,
    debt=F8,  #: GPU-seconds that the lookback still owes it; negative = credit
    target=F8,  #: GPUs
    base=F8,  #: max(entitlement, due), GPUs
    bound=F8,  #: most that debt may add, GPUs
    ratio=F8,  #: used / entitled over the lookback
    called=F8,  #: credit called back, GPU-seconds
    decayed_used=F8,
    decayed_owed=F8,
    decayed_titled=F8,
    running=I8,  #: charged - stopping + claimed, GPUs
    protected=I8,  #: GPUs of attempts within their protection
    quick=I8,  #: GPUs of running or claimed quick jobs
    oldest_s=I8,  #: submission of its oldest waiting job (ties)
    first_sorted=I8,  #: children in order of ratio
    next_sorted=I8,
    plan=I8,  #: row of its open plan, or NONE
    first_soft=I8,  #: its budgeted attempts past protection, a chain
    gives=I8,  #: GPUs of the largest attempt it can spare, as `ripe` has it
    largest=I8,  #: GPUs of its largest budgeted attempt; 0 = not known, nor how many are so large
    n_largest=I8,
    after=I8,  #: one more than the GPUs of its attempts still protected when its plan is due; 0 = not known
    open=B1,
)

PURSE = table_type(
    held=I8, unbudgeted=I8, waiting_on_limit=B1
)  #: GPUs held by an account over all clusters, for hard limits

SCENE = table_type(
    healthy=I8,  #: GPUs of nodes in service
    free=I8,
    pool_first=I8,  #: first node of the pool
    pool_nodes=I8,
    n_plans=I8,
    plan_rows=I8,  #: plans are in the first so many rows
    n_waiting=I8,  #: waiting jobs over all lists
    n_sick=I8,  #: nodes that drain and still run something
    n_closing=I8,  #: nodes that are going to close
    plan_above=I8,
    bound_gpus=I8,  #: two nodes from 512 GPUs on, else one
    dirty=B1,  #: demand or entitlement changed: flows must be settled again
    stirred=B1,  #: targets or what accounts run have changed: what they can spare is not known
)

PLAN = table_type(at_s=I8, target=F8, job=I8, cluster=I8, first_node=I8, n_nodes=I8, rule=I8, open=B1)

LOG = table_type(t=I8, charged=I8, due_ugpu=I8, entitled_ugpu=I8, standing=I8)  #: changes of rates, a ring

COUNTS = table_type(
    log_head=I8,  #: next row to write (never wrapped: modulo the ring's length)
    log_tail=I8,  #: next row to fall out of the lookback
    n_out=I8,
    n_placed=I8,
    n_claims=I8,
    stamp=I8,
    looked=I8,  #: jobs looked at, a measure of work
    searched=I8,  #: attempts weighed as victims
    tried=I8,  #: times that free nodes were looked for
    turns=I8,
    more=B1,  #: the turn started work and looked no deeper: another one at its instant may start more (S16)
    thorough=B1,  #: no bound is believed, all is looked at: an oracle for tests, the same decisions
    by_arrival=B1,  #: lists ignore priority (first come, first served)
    one_list=B1,  #: all jobs of a cluster wait in one list, that of the root
)

#: What a turn says: one row an event, the same as in a story (story/columns.py tells what x, y, code mean).
EVENT = table_type(
    t=I8,  #: seconds since the start
    x=I8,
    y=I8,
    nodes_at=I8,  #: first of its rows of placements
    job=I4,  #: row of the job, or NONE
    attempt=I4,  #: 1, 2 …; 0 where none
    by=I4,  #: row of the job for which; NODE: the node's row
    n_nodes=I4,  #: rows of placements
    event=I1,  #: words.Happened
    code=I1,
    rule=I2,  #: words.Rule; WAITING: words.Reason
)
PLACEMENT = table_type(node=I4, gpus=I4)

SCRATCH_ACCOUNT = table_type(
    taken=I8,  #: GPUs that the set of victims under trial takes from it
    next_entry=I8,  #: its next unbudgeted job, and how much that was disturbed (`waiting.disturbance`)
    next_stops=I8,
    next_submit_s=I8,
    next_job=I8,
    ranked=I8,  #: accounts in the order of their next unbudgeted jobs
    fail_gpus=I8,  #: a job so large, protected so long, found no victims in this pass
    fail_s=I8,
    full_gpus=I8,  #: … fits on no free node
    full_s=I8,
    gang_gpus=I8,  #: for a gang so large too few nodes are free whole, …
    gang_size=I8,  #: … of so many GPUs each
    kept_gpus=I8,  #: a gang of just so many GPUs, of any type, found none that are open to it
    kept_s=I8,
)
SCRATCH_NODE = table_type(cost=F8, clear_s=I8)
SCRATCH_JOB = table_type(stamp=I8)


bundle(Policy)  # every kernel is handed one too; policy.py itself needs no compiler


@bundle
class Lab(NamedTuple):
    """What was asked for and what there is; never written by a turn."""

    jobs: Any
    accounts: Any
    nodes: Any
    clusters: Any
    sizes: NDArray[np.int64]  #: (clusters, most GPUs + 1): nodes of so many GPUs


@bundle
class Board(NamedTuple):
    stays: Any
    entries: Any
    queues: Any
    posts: Any
    on_node: NDArray[np.int64]  #: (nodes, most GPUs of a node): the jobs on it, n_jobs of them
    standings: Any
    purses: Any
    scenes: Any
    plans: Any
    claims: NDArray[np.int64]  #: jobs whose place is being cleared, oldest first
    log: Any
    rooms: NDArray[np.int64]  #: (clusters * KINDS, most GPUs + 1): nodes with so many GPUs to take
    clearable: NDArray[np.int64]  #: (words of nodes, WAYS * (most GPUs + 1)): … if what may be stopped was
    levels: NDArray[np.int64]  #: (most GPUs + 1, words of nodes): who in service has so many (places.py)
    clears: NDArray[np.int64]  #: (clusters * KINDS * WAYS, most GPUs + 1): … if what may be stopped was
    counts: Any  #: one row
    out: Any  #: EVENT rows, `n_out` of them: what this turn (and those before it, not yet fetched) said
    placed: Any  #: PLACEMENT rows
    shares: NDArray[np.int64]  #: (clusters, accounts), millionths of the parent's
    walk: NDArray[np.int64]  #: leaf standings in the order of this turn
    by_account: Any  #: scratch
    by_node: Any  #: scratch
    by_job: Any  #: scratch
    picked: NDArray[np.int64]  #: scratch: victims or nodes chosen
    order: NDArray[np.int64]  #: scratch: nodes sorted
    chosen: NDArray[np.int64]  #: scratch: nodes chosen
    racks: NDArray[np.int64]  #: scratch: by rack


def new_board(
    lab: Lab, shares: NDArray[np.int64], *, log_rows: int = 1 << 14, out_rows: int | None = None
) -> Board:
    """A board of a lab at second 0: nothing submitted, every node up and free. `lab` holds arrays."""
    jobs, nodes, clusters = lab.jobs, lab.nodes, lab.clusters
    n_jobs, n_nodes, n_clusters, n_accounts = len(jobs), len(nodes), len(clusters), len(lab.accounts)
    rows = n_clusters * n_accounts
    most = int(nodes["gpus"].max(initial=1))
    total = int(nodes["gpus"].sum())
    n_entries = int((jobs["first_entry"] + _bit_count(jobs["clusters"])).max(initial=0))
    n_racks = int(nodes["rack"].max(initial=0)) + 1
    if out_rows is None:
        out_rows = max(1 << 15, 16 * total + 4 * n_nodes)
    stays = empty(n_jobs, STAY, node=NONE, taker=NONE, plan=NONE, patient_s=NEVER_S)
    stays["account"], stays["gpus"] = jobs["account"], jobs["gpus"]
    stays["budgeted"] = jobs["min_runtime_s"] > 0
    entries = empty(n_entries, ENTRY, next=NONE, prev=NONE, queue=NONE)
    entries["job"] = np.searchsorted(jobs["first_entry"], np.arange(n_entries), side="right") - 1
    posts = empty(n_nodes, POST, plan_s=NEVER_S, closed_s=NEVER_S, plan=NONE, next_of_gang=NONE)
    posts["next_of_plan"] = posts["next_of_claim"] = NONE
    posts["free"] = nodes["gpus"]
    scenes = empty(n_clusters, SCENE, dirty=True, stirred=True)
    scenes["healthy"] = scenes["free"] = clusters["gpus"]
    counts = empty(1, COUNTS)
    return Board(
        stays=stays,
        entries=entries,
        queues=empty(rows * LANES, QUEUE, head=NONE, tail=NONE),
        posts=posts,
        on_node=np.full((n_nodes, most), NONE, np.int64),
        standings=_standings(lab),
        purses=empty(n_accounts, PURSE),
        scenes=scenes,
        plans=empty(n_clusters * PLANS, PLAN, job=NONE),
        claims=np.full(total + 1, NONE, np.int64),
        log=empty(max(log_rows, 8 * total + 8 * rows), LOG),
        rooms=np.zeros((n_clusters * KINDS, most + 1), np.int64),
        clearable=np.zeros((n_nodes // WORD + 1, WAYS * (most + 1)), np.int64),
        levels=np.zeros((most + 1, n_nodes // WORD + 1), np.int64),
        clears=np.zeros((n_clusters * KINDS * WAYS, most + 1), np.int64),
        counts=counts,
        out=empty(out_rows, EVENT),
        placed=empty(out_rows, PLACEMENT),
        shares=np.array(shares, np.int64),
        walk=np.full(rows, NONE, np.int64),
        by_account=empty(rows, SCRATCH_ACCOUNT),
        by_node=empty(n_nodes, SCRATCH_NODE),
        by_job=empty(n_jobs, SCRATCH_JOB),
        picked=np.full(total + 8, NONE, np.int64),
        order=np.full(n_nodes, NONE, np.int64),
        chosen=np.full(n_nodes, NONE, np.int64),
        racks=np.zeros(n_racks, np.int64),
    )


def _bit_count(masks: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bitwise_count(masks.astype(np.uint64)).astype(np.int64)


def _standings(lab: Lab) -> Table:
    """Children of every account in a chain, in the order of the lab."""
    n_accounts = len(lab.accounts)
    standings = empty(
        len(lab.clusters) * n_accounts, STANDING, first_sorted=NONE, next_sorted=NONE, plan=NONE
    )
    standings["oldest_s"], standings["first_soft"] = NEVER_S, NONE
    for cluster in range(len(lab.clusters)):
        base = cluster * n_accounts
        for account in range(n_accounts):
            child, sibling = lab.accounts["first_child"][account], lab.accounts["next_sibling"][account]
            standings["first_sorted"][base + account] = NONE if child == NONE else base + child
            standings["next_sorted"][base + account] = NONE if sibling == NONE else base + sibling
    return standings


def as_kernels_want(record: Any) -> Any:
    """A Lab or Board of arrays, its tables as kernels want them here (see tables.columns)."""
    return type(record)(*[columns(table) for table in record])


def gpus_of(ugpu: int) -> float:
    """Micro-GPUs as GPUs, for people."""
    return ugpu / UGPU
