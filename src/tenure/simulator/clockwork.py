"""The clockwork: everything that happens at its instant, then one turn, then the next instant.

Sources of one instant go in a fixed order: what ends, what happens from outside, what arrives. A turn sees
all that happened at its instant (S16). The loop can be left and entered again at any event, so that Python
can fetch what was said, make room, and show progress.
"""

from __future__ import annotations

import numpy as np

from tenure.core.closing import set_closing
from tenure.core.contract import protection_s
from tenure.core.decide import decide_into
from tenure.core.kernel import entry, kernel
from tenure.core.lifecycle import set_node_state, unprotect
from tenure.core.outside import arrive as submit_now
from tenure.core.outside import cancel, hold_or_release, kept_s, say_abrupt, set_share
from tenure.core.outside import end_stay as end_here
from tenure.core.tables import B1, I8, table_type
from tenure.core.usage import let_fall
from tenure.core.waiting import wait
from tenure.core.words import NEVER_S, NONE, Cause, End, Happened, NodeState, Phase
from tenure.simulator.rivals.backfill import backfill_turn
from tenure.simulator.rivals.fifo import fifo_turn
from tenure.simulator.rivals.priority import priority_turn
from tenure.simulator.world import What

BUDGET, FIFO, BACKFILL, PRIORITY = 0, 1, 2, 3
RULES = {"budget": BUDGET, "fifo": FIFO, "fifo-backfill": BACKFILL, "priority": PRIORITY}

#: Kinds of alarms, in the order in which those of one instant go off.
ENDS, GRACE_OVER, PROTECTION_OVER, RESTED, WAKE, PROMISE = range(6)
#: Why `run` came back.
DONE, MAKE_ROOM, PAUSE = 0, 1, 2

RESTING, RUNNING, STOPPING, ENDED = (
    int(Phase.RESTING),
    int(Phase.RUNNING),
    int(Phase.STOPPING),
    int(Phase.ENDED),
)
FINISHED, FAILED, PREEMPTED = int(End.FINISHED), int(End.FAILED), int(End.PREEMPTED)
NODE_FAILED, CANCELLED, TIMED_OUT = int(End.NODE_FAILED), int(End.CANCELLED), int(End.TIMED_OUT)
BY_CANCEL = int(Cause.CANCELLED)
SAY_STARTED, SAY_STOPPING = int(Happened.STARTED), int(Happened.STOPPING)
SAY_PLANNED, SAY_REQUEUED = int(Happened.PLANNED), int(Happened.REQUEUED)
DOWN = int(NodeState.DOWN)
PHASE, NODE, SHARE, CANCEL, HOLD = What.PHASE, What.NODE, What.SHARE, What.CANCEL, What.HOLD
CLOSE = What.CLOSE
STALE_S = 9 * 86400  #: nothing running, nothing to come, nothing started for so long: the rest waits for ever

ALARM = table_type(t=I8, order=I8, job=I8, attempt=I8, kind=I8)
LOOP = table_type(target=I8, outstanding=I8, next=I8, dirty=B1, woken=B1)  #: a closed loop as it stands
WORK = table_type(done_s=I8)  #: useful work saved, by job
CLOCK = table_type(
    now_s=I8,
    until_s=I8,
    n_alarms=I8,
    order=I8,
    next_arrival=I8,
    next_happening=I8,
    n_seen=I8,  #: rows of `out` whose consequences are wound up already
    last_start_s=I8,
    n_running=I8,
    n_left=I8,  #: jobs submitted and not ended
    n_ended=I8,
    dirty_loops=I8,
    pending=B1,  #: something happened at `now_s`: a turn is due
)


@kernel
def _earlier(alarms, one, other):
    if alarms.t[one] != alarms.t[other]:
        return alarms.t[one] < alarms.t[other]
    return alarms.order[one] < alarms.order[other]


@kernel
def _move(alarms, place, to):
    """Write the alarm at `place` over the one at `to`."""
    alarms.t[to], alarms.order[to] = alarms.t[place], alarms.order[place]
    alarms.job[to], alarms.attempt[to] = alarms.job[place], alarms.attempt[place]
    alarms.kind[to] = alarms.kind[place]


@kernel
def set_alarm(clock, alarms, t_s, kind, job, attempt):
    """Put an alarm on the heap; of one instant they go off by kind, then in the order set."""
    place, order = clock.n_alarms[0], (kind << 48) | clock.order[0]
    clock.order[0] += 1
    clock.n_alarms[0] = place + 1
    while place > 0:
        above = (place - 1) // 2
        if alarms.t[above] < t_s or (alarms.t[above] == t_s and alarms.order[above] < order):
            break
        _move(alarms, above, place)
        place = above
    alarms.t[place], alarms.kind[place], alarms.order[place] = t_s, kind, order
    alarms.job[place], alarms.attempt[place] = job, attempt


@kernel
def _drop_first(clock, alarms):
    """The last alarm sinks from the top to its place; those that are earlier rise."""
    last = clock.n_alarms[0] - 1
    clock.n_alarms[0] = last
    place = 0
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        if child + 1 < last and _earlier(alarms, child + 1, child):
            child += 1
        if not _earlier(alarms, child, last):
            break
        _move(alarms, child, place)
        place = child
    _move(alarms, last, place)


@kernel
def end_stay(lab, board, policy, world, job, end, now_s):
    """An attempt ends: what it saved is kept for the next one, its loop may submit again."""
    world.work.done_s[job] += kept_s(lab, board, job, end, NONE, now_s)
    end_here(lab, board, policy, job, end, NONE, now_s)
    world.clock.n_running[0] -= 1
    if board.stays.phase[job] == ENDED:
        leave_loop(board, world, job)


@kernel
def leave_loop(board, world, job):
    """The job is outstanding no more."""
    world.clock.n_left[0] -= 1
    world.clock.n_ended[0] += 1
    loop = world.hidden.stream[job]
    if loop != NONE:
        world.loops.outstanding[loop] -= board.stays.gpus[job]
        _stir(world, loop)


@kernel
def _stir(world, loop):
    if not world.loops.dirty[loop]:
        world.loops.dirty[loop] = True
        world.clock.dirty_loops[0] += 1


@kernel
def arrive(lab, board, policy, world, job, now_s):
    """A job is submitted."""
    submit_now(lab, board, policy, job, now_s)
    world.clock.n_left[0] += 1


@kernel
def serve_loops(lab, board, policy, world, now_s):
    """Closed loops below their target submit their next jobs; False if there was no room to say so."""
    loops, streams = world.loops, world.streams
    for loop in range(len(loops)):
        if not loops.dirty[loop]:
            continue
        while loops.outstanding[loop] < loops.target[loop] and loops.next[loop] < streams.n_jobs[loop]:
            if len(board.out) - board.counts.n_out[0] < 64:
                return False
            job = streams.first_job[loop] + loops.next[loop]
            if world.hidden.arrive_s[job] > now_s:
                if not loops.woken[loop]:
                    set_alarm(world.clock, world.alarms, world.hidden.arrive_s[job], WAKE, loop, 0)
                    loops.woken[loop] = True
                break
            loops.next[loop] += 1
            loops.outstanding[loop] += board.stays.gpus[job]
            arrive(lab, board, policy, world, job, now_s)
        loops.dirty[loop] = False
        world.clock.dirty_loops[0] -= 1
    return True


@kernel
def _abrupt(lab, board, policy, world, job, end, now_s):
    """Stopped and ended at one instant, without grace: its node died, or its own limit is reached."""
    say_abrupt(board, job, end, now_s)
    end_stay(lab, board, policy, world, job, end, now_s)


@kernel
def _fail_node(lab, board, policy, world, node, now_s):
    """S20: a dead node ends its attempts at once, on all their nodes; nobody else is touched."""
    while board.posts.n_jobs[node] > 0:
        _abrupt(lab, board, policy, world, board.on_node[node, 0], NODE_FAILED, now_s)


@kernel
def happen(lab, board, policy, world, row, now_s):
    """One happening from outside."""
    what, subject = world.happenings.what[row], world.happenings.row[row]
    value, note = world.happenings.value[row], world.happenings.note[row]
    if what == PHASE:
        world.loops.target[subject] = value
        _stir(world, subject)
    elif what == NODE:
        set_node_state(lab, board, policy, subject, value, note, now_s)
        if value == DOWN:
            _fail_node(lab, board, policy, world, subject, now_s)
    elif what == CLOSE:
        set_closing(lab, board, subject, value, note, now_s)
    elif what == SHARE:
        set_share(lab, board, policy, subject, world.happenings.cluster[row], value, note, now_s)
    elif what == CANCEL:
        if cancel(lab, board, policy, subject, note, now_s):
            leave_loop(board, world, subject)
    else:
        hold_or_release(lab, board, subject, what == HOLD, note, now_s)


@kernel
def _told_end(stays, job):
    """How an attempt that was told to stop ends, unless its work is done before (S15)."""
    return CANCELLED if stays.cause[job] == BY_CANCEL else PREEMPTED


@kernel
def go_off(lab, board, policy, world, now_s):
    """The first alarm goes off; True if a turn is due because of it."""
    alarms = world.alarms
    job, attempt, kind = alarms.job[0], alarms.attempt[0], alarms.kind[0]
    _drop_first(world.clock, alarms)
    stays = board.stays
    if kind == WAKE:
        world.loops.woken[job] = False
        _stir(world, job)
        return True
    if kind == PROMISE:
        return stays.plan[job] != NONE
    if stays.attempt[job] != attempt:
        return False
    phase = stays.phase[job]
    if kind == ENDS and (phase == RUNNING or phase == STOPPING):
        if stays.timed_out[job] and phase == RUNNING:
            _abrupt(lab, board, policy, world, job, TIMED_OUT, now_s)
        elif stays.timed_out[job]:  # told to stop before its limit came: the first word counts
            end_stay(lab, board, policy, world, job, _told_end(stays, job), now_s)
        else:
            end_stay(lab, board, policy, world, job, FAILED if world.hidden.fails[job] else FINISHED, now_s)
        return True
    if kind == GRACE_OVER and phase == STOPPING:
        end_stay(lab, board, policy, world, job, _told_end(stays, job), now_s)
        return True
    if kind == PROTECTION_OVER and phase == RUNNING:
        if stays.protected_until_s[job] > now_s:  # kept by its quota: only a sick node it leaves now
            return board.scenes.n_sick[stays.cluster[job]] > 0
        unprotect(lab, board, job)
        return True
    if kind == RESTED and phase == RESTING:
        wait(lab, board, job, now_s)
        return True
    return False


@kernel
def _wind_up_start(lab, board, policy, world, job, now_s):
    """An attempt has started: when will it end by itself, and when does its protection?"""
    jobs, stays = lab.jobs, board.stays
    left_s = world.hidden.work_s[job] - world.work.done_s[job]
    if stays.attempt[job] > 1:
        left_s += jobs.restart_s[job]
    stays.timed_out[job] = left_s > jobs.max_runtime_s[job]
    ends_s = now_s + min(left_s, jobs.max_runtime_s[job])
    set_alarm(world.clock, world.alarms, ends_s, ENDS, job, stays.attempt[job])
    over_s = min(stays.protected_until_s[job], now_s + protection_s(policy, jobs.min_runtime_s[job]))
    if now_s < over_s < ends_s:
        set_alarm(world.clock, world.alarms, over_s, PROTECTION_OVER, job, stays.attempt[job])
    world.clock.last_start_s[0] = now_s
    world.clock.n_running[0] += 1


@kernel
def wind_up(lab, board, policy, world, now_s):
    """Set the alarms that follow from what was said since the last call."""
    out = board.out
    for row in range(world.clock.n_seen[0], board.counts.n_out[0]):
        event, job = out.event[row], np.int64(out.job[row])
        if event == SAY_STARTED:
            _wind_up_start(lab, board, policy, world, job, now_s)
        elif event == SAY_STOPPING and board.stays.phase[job] == STOPPING:
            set_alarm(world.clock, world.alarms, out.x[row], GRACE_OVER, job, board.stays.attempt[job])
        elif event == SAY_PLANNED:
            set_alarm(world.clock, world.alarms, out.x[row], PROMISE, job, 0)
        elif event == SAY_REQUEUED and board.stays.phase[job] == RESTING:
            set_alarm(
                world.clock,
                world.alarms,
                board.stays.rest_until_s[job],
                RESTED,
                job,
                board.stays.attempt[job],
            )
    world.clock.n_seen[0] = board.counts.n_out[0]


@kernel
def turn(lab, board, policy, rule, now_s):
    """One turn of whichever scheduler plays."""
    if rule == BUDGET:
        decide_into(lab, board, policy, now_s)
        return
    let_fall(board, now_s - policy.lookback_s)
    board.counts.turns[0] += 1
    if rule == FIFO:
        fifo_turn(lab, board, policy, now_s)
    elif rule == BACKFILL:
        backfill_turn(lab, board, policy, now_s)
    else:
        priority_turn(lab, board, policy, now_s)


@kernel
def _next_instant(lab, board, policy, world, rule):
    """When the next thing happens: an alarm, a happening, an arrival, or a tick while somebody waits."""
    clock = world.clock
    t_s = NEVER_S
    if clock.n_alarms[0] > 0:
        t_s = world.alarms.t[0]
    if clock.next_happening[0] < len(world.happenings):
        t_s = min(t_s, world.happenings.t[clock.next_happening[0]])
    if clock.next_arrival[0] < len(world.arrivals):
        t_s = min(t_s, world.hidden.arrive_s[world.arrivals[clock.next_arrival[0]]])
    nothing_to_come = t_s == NEVER_S and clock.now_s[0] > clock.last_start_s[0] + STALE_S
    if rule != FIFO and rule != BACKFILL and not nothing_to_come:
        for cluster in range(len(lab.clusters)):
            if (
                board.scenes.n_waiting[cluster] > 0
                or board.counts.n_claims[0] > 0
                or board.scenes.n_sick[cluster] > 0
                or board.scenes.n_closing[cluster] > 0
            ):
                return min(t_s, (clock.now_s[0] // policy.tick_s + 1) * policy.tick_s)
    return t_s


@kernel
def _step(lab, board, policy, world, now_s):
    """One thing that happens at this instant: alarms first, then happenings, then arrivals."""
    clock = world.clock
    if clock.n_alarms[0] > 0 and world.alarms.t[0] == now_s:
        return go_off(lab, board, policy, world, now_s)
    row = clock.next_happening[0]
    if row < len(world.happenings) and world.happenings.t[row] == now_s:
        clock.next_happening[0] += 1
        happen(lab, board, policy, world, row, now_s)
        return True
    place = clock.next_arrival[0]
    if place < len(world.arrivals) and world.hidden.arrive_s[world.arrivals[place]] == now_s:
        clock.next_arrival[0] += 1
        arrive(lab, board, policy, world, world.arrivals[place], now_s)
        return True
    return now_s % policy.tick_s == 0


@kernel
def room_needed(board):
    """Rows that one instant and its turn may write, of each table that grows."""
    return 4 * len(board.claims) + 4 * len(board.posts) + 4 * len(board.standings) + 64


@kernel
def _is_short_of_room(board, world, needed):
    free_log = len(board.log) - (board.counts.log_head[0] - board.counts.log_tail[0])
    free_alarms = len(world.alarms) - world.clock.n_alarms[0]
    free_out = min(len(board.out) - board.counts.n_out[0], len(board.placed) - board.counts.n_placed[0])
    return min(free_out, free_log, free_alarms) < needed


@kernel
def run(lab, board, policy, world, rule, turns):
    """Play on until the end, so many turns, or until there is no room to say more."""
    clock = world.clock
    needed = room_needed(board)
    played = 0
    while True:
        if _is_short_of_room(board, world, needed):
            return MAKE_ROOM
        t_s = _next_instant(lab, board, policy, world, rule)
        if clock.pending[0] and t_s > clock.now_s[0]:
            now_s = clock.now_s[0]
            if clock.dirty_loops[0] > 0 and not serve_loops(lab, board, policy, world, now_s):
                return MAKE_ROOM
            turn(lab, board, policy, rule, now_s)
            wind_up(lab, board, policy, world, now_s)
            clock.pending[0] = board.counts.more[0]
            played += 1
            if played >= turns:
                return PAUSE
            continue
        if t_s > clock.until_s[0] or t_s == NEVER_S:
            return DONE
        clock.now_s[0] = t_s
        if _step(lab, board, policy, world, t_s):
            clock.pending[0] = True
        wind_up(lab, board, policy, world, t_s)


run_entry = entry(getattr(run, "py_func", run))
rows_needed = getattr(room_needed, "py_func", room_needed)
