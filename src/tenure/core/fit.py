"""Where a job fits on what is free: one node's best fit, or a gang's whole nodes by racks.

Ordinary work keeps out of the pool and breaks no promise; gangs prefer one rack, then few racks.
"""

from __future__ import annotations

from tenure.core.board import UNBUDGETED
from tenure.core.contract import protection_s, safe_from_start_s
from tenure.core.kernel import kernel
from tenure.core.places import next_at_level
from tenure.core.room import count_whole, most_free
from tenure.core.waiting import lane_of
from tenure.core.words import NONE, NodeState, Phase

UP, RUNNING = int(NodeState.UP), int(Phase.RUNNING)
HOUR_S = 3600
NO_SCORE = 1e300
POOL_FIRST = 1e6  #: more than any best-fit score: unbudgeted and quick work fills the pool first


@kernel
def node_size_for(lab, cluster, gpus):
    """GPUs of the nodes a job is put on: 0 = one node holds it; else whole nodes of that size.

    NONE: no nodes of this cluster can hold it.
    """
    largest = lab.clusters.node_gpus[cluster]
    if gpus <= largest:
        return 0
    for size in range(largest, 0, -1):
        if gpus % size == 0 and lab.sizes[cluster, size] >= gpus // size:
            return size
    return NONE


@kernel
def room_needed(lab, cluster, gpus):
    """GPUs that each node it is put on must have free; more than any node has if no nodes can hold it."""
    size = node_size_for(lab, cluster, gpus)
    if size == NONE:
        return lab.clusters.node_gpus[cluster] + 1
    return gpus if size == 0 else size


@kernel
def keeps_promise(lab, board, policy, node, job, start_s):
    """S17: a node under another job's promise takes only what is gone, or can be stopped, by then."""
    if board.posts.plan[node] == NONE or board.plans.job[board.posts.plan[node]] == job:
        return True
    if not board.stays.budgeted[job]:
        return True
    gang = board.plans.job[board.posts.plan[node]]
    return safe_from_start_s(lab, board, policy, job, gang, start_s) <= board.posts.plan_s[node]


@kernel
def ends_before_closing(lab, board, policy, node, job, start_s):
    """S19: a node that is going to close takes nothing whose protection would reach past that instant."""
    if board.scenes.n_closing[lab.nodes.cluster[node]] == 0 or not board.stays.budgeted[job]:
        return True
    return start_s + protection_s(policy, lab.jobs.min_runtime_s[job]) <= board.posts.closed_s[node]


@kernel
def suits(lab, board, policy, node, job, now_s):
    """In service, of the right type; started there now the job breaks no promise and outlasts no closing."""
    if board.posts.state[node] != UP:
        return False
    if lab.jobs.gpu_type[job] != NONE and lab.jobs.gpu_type[job] != lab.nodes.gpu_type[node]:
        return False
    if not ends_before_closing(lab, board, policy, node, job, now_s):
        return False
    return keeps_promise(lab, board, policy, node, job, now_s)


@kernel
def whole_pool_nodes(lab, board, cluster):
    """Pool nodes with every GPU free."""
    count = 0
    first = board.scenes.pool_first[cluster]
    for node in range(first, first + board.scenes.pool_nodes[cluster]):
        if board.posts.state[node] == UP and board.posts.avail[node] == lab.nodes.gpus[node]:
            count += 1
    return count


@kernel
def _spares_one(lab, board, cluster):
    """Whether the last pool node with every GPU free is kept from unbudgeted work."""
    return board.scenes.pool_nodes[cluster] > 0 and whole_pool_nodes(lab, board, cluster) <= 1


@kernel
def most_unbudgeted(lab, board, cluster):
    """GPUs of one node, at most, that unbudgeted work may take now."""
    most = most_free(board, cluster, False, 0)
    spared, first = _spares_one(lab, board, cluster), board.scenes.pool_first[cluster]
    for node in range(first, first + board.scenes.pool_nodes[cluster]):
        if board.posts.counted[node] and board.posts.avail[node] > most:
            if not spared or board.posts.avail[node] < lab.nodes.gpus[node]:
                most = board.posts.avail[node]
    return most


@kernel
def _lengthens_h(board, node, until_s, now_s):
    """Hours by which a protection up to `until_s` would outlast all that is on the node."""
    latest_s = now_s
    for k in range(board.posts.n_jobs[node]):
        job = board.on_node[node, k]
        if board.stays.phase[job] == RUNNING:
            latest_s = max(latest_s, board.stays.protected_until_s[job])
    return max(0, until_s - latest_s) / HOUR_S


@kernel
def _beside_size(board, node, unbudgeted, use_pool, spared):
    """What the pool and promises add to a node's score; NO_SCORE = not for it. `spared`: if of the pool."""
    if board.posts.pool[node]:
        if not use_pool or spared:
            return NO_SCORE
        return -POOL_FIRST if unbudgeted else POOL_FIRST
    return -POOL_FIRST if unbudgeted and board.posts.plan[node] != NONE else 0.0


@kernel
def find_node(lab, board, policy, cluster, job, now_s):
    """Best fit of a job of at most one node on free GPUs: its node, or NONE.

    Protections are kept together: a node counts as fuller the less the job would lengthen its protection.
    """
    gpus = board.stays.gpus[job]
    lane = lane_of(board, job)
    unbudgeted = lane == UNBUDGETED
    use_pool = unbudgeted or board.stays.quick[job]
    until_s = now_s + protection_s(policy, lab.jobs.min_runtime_s[job])
    gone_s = 0 if unbudgeted or board.stays.plan[job] != NONE else until_s
    if most_free(board, cluster, use_pool, gone_s) < gpus:
        return NONE
    spare_one = unbudgeted and _spares_one(lab, board, cluster)
    best, best_score = NONE, NO_SCORE
    first = lab.clusters.first_node[cluster]
    last, largest = first + lab.clusters.n_nodes[cluster], lab.clusters.node_gpus[cluster]
    alike = not unbudgeted or (board.scenes.pool_nodes[cluster] == 0 and board.scenes.n_plans[cluster] == 0)
    for level in range(gpus, largest + 1):
        if not unbudgeted and level - gpus > best_score:  # whatever has so much to spare fits worse
            break
        node = next_at_level(board, level, first, last)
        while node != NONE:
            spared = spare_one and level == lab.nodes.gpus[node]
            score = level - gpus + _beside_size(board, node, unbudgeted, use_pool, spared)
            if score < best_score or (score == best_score and node < best):
                if suits(lab, board, policy, node, job, now_s):
                    if not unbudgeted and gpus < lab.nodes.gpus[node]:
                        score += policy.lengthen_weight * _lengthens_h(board, node, until_s, now_s)
                    if score < best_score or (score == best_score and node < best):
                        best, best_score = node, score
                    if level == largest and alike and not board.posts.pool[node]:
                        break  # all others here are as empty, and later in order
            node = next_at_level(board, level, node + 1, last)
        if best_score == 0.0 and not unbudgeted:
            break
    return best


@kernel
def _best_rack(lab, board, n, need):
    """The rack with the fewest but enough candidates of `order[:n]`, or NONE. Counts all racks in `racks`."""
    racks = board.racks
    for k in range(n):
        racks[lab.nodes.rack[board.order[k]]] = 0
    for k in range(n):
        racks[lab.nodes.rack[board.order[k]]] += 1
    best = NONE
    for k in range(n):
        rack = lab.nodes.rack[board.order[k]]
        if racks[rack] >= need and (best == NONE or racks[rack] < racks[best]):
            best = rack
    return best


@kernel
def rack_filled_first(lab, board, n, need):
    """Going through `order[:n]`, the place at which some rack first has `need` candidates; or NONE."""
    for k in range(n):
        board.racks[lab.nodes.rack[board.order[k]]] = 0
    for k in range(n):
        rack = lab.nodes.rack[board.order[k]]
        board.racks[rack] += 1
        if board.racks[rack] == need:
            return k
    return NONE


@kernel
def choose_by_rack(lab, board, n, need, same_rack):
    """Choose `need` of the candidates `order[:n]`: one rack if it can be, else the fullest racks first.

    Writes `chosen[:need]`; False if it cannot be (too few, or same_rack asked and no rack has enough).
    """
    if n < need:
        return False
    rack = _best_rack(lab, board, n, need)
    if rack == NONE and same_rack:
        return False
    count = 0
    while count < need:
        if rack == NONE:  # the rack with most candidates left
            for k in range(n):
                other = lab.nodes.rack[board.order[k]]
                if board.racks[other] > 0 and (rack == NONE or board.racks[other] > board.racks[rack]):
                    rack = other
        for k in range(n):
            if count < need and lab.nodes.rack[board.order[k]] == rack:
                board.chosen[count] = board.order[k]
                count += 1
        board.racks[rack] = 0
        rack = NONE
    return True


@kernel
def needs_pool(lab, board, cluster, job, size, need):
    """Whether a gang could not have enough nodes outside the pool even if every one of them were empty."""
    if board.scenes.pool_nodes[cluster] == 0:
        return False
    count = 0
    for node in range(lab.clusters.first_node[cluster], board.scenes.pool_first[cluster]):
        wrong_type = lab.jobs.gpu_type[job] != NONE and lab.jobs.gpu_type[job] != lab.nodes.gpu_type[node]
        if board.posts.state[node] == UP and lab.nodes.gpus[node] == size and not wrong_type:
            count += 1
            if count >= need:
                return False
    return True


@kernel
def find_gang(lab, board, policy, cluster, job, now_s):
    """S18: whole free nodes for a gang, in `board.chosen`; gives how many, 0 = they are not there.

    The pool is taken only by a gang that no cluster without it could hold (and by unbudgeted work).
    """
    gpus = board.stays.gpus[job]
    size = node_size_for(lab, cluster, gpus)
    if size <= 0:
        return 0
    need = gpus // size
    if board.scenes.free[cluster] < gpus or count_whole(board, cluster, size, True) < need:
        return 0
    first = lab.clusters.first_node[cluster]
    last = first + lab.clusters.n_nodes[cluster]
    if not needs_pool(lab, board, cluster, job, size, need):
        last = board.scenes.pool_first[cluster]
    n = 0
    node = next_at_level(board, size, first, last)
    while node != NONE:
        if lab.nodes.gpus[node] == size and suits(lab, board, policy, node, job, now_s):
            board.order[n] = node
            n += 1
        node = next_at_level(board, size, node + 1, last)
    return need if choose_by_rack(lab, board, n, need, lab.jobs.same_rack[job]) else 0


@kernel
def find_place(lab, board, policy, cluster, job, now_s):
    """Set `stays.node` and `n_nodes` (and `chosen`) to a free place for the job; False if there is none."""
    stays = board.stays
    board.counts.tried[0] += 1
    if stays.gpus[job] <= lab.clusters.node_gpus[cluster]:
        node = find_node(lab, board, policy, cluster, job, now_s)
        if node == NONE:
            return False
        stays.node[job], stays.n_nodes[job] = node, 1
        return True
    need = find_gang(lab, board, policy, cluster, job, now_s)
    if need == 0:
        return False
    stays.node[job], stays.n_nodes[job] = board.chosen[0], need
    return True


@kernel
def could_ever_fit(lab, board, cluster, job):
    """Whether the nodes in service could hold the job if they were empty."""
    gpus = board.stays.gpus[job]
    size = node_size_for(lab, cluster, gpus)
    if size == NONE:
        return False
    first = lab.clusters.first_node[cluster]
    count = 0
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        wrong_type = lab.jobs.gpu_type[job] != NONE and lab.jobs.gpu_type[job] != lab.nodes.gpu_type[node]
        if board.posts.state[node] != UP or wrong_type:
            continue
        if size == 0 and lab.nodes.gpus[node] >= gpus:
            return True
        if size > 0 and lab.nodes.gpus[node] == size:
            count += 1
            if count >= gpus // size:
                return True
    return False
