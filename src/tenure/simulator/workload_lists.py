"""The lists of drawn work: an account's budgeted jobs and phases, the lab's unbudgeted jobs, debug arrivals.

Generators: `default_rng([seed, account, stream])`, one for each account and purpose. Draws are made in blocks
of fixed size, so a longer simulation has the same list, only longer. Durations are rounded to whole seconds.
Targets are rounded up: so many whole GPUs are below one just when they are below it rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.simulator.workload_shapes import JobClass, Shape

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
HOUR_S, DAY_S = 3600, 86400

BLOCK = 1024  #: jobs drawn at a time; part of what a seed means
SLACK = 1e-5  #: a part of an entitlement: shares are kept in millionths, and thirds do not sum to a whole

#: The third number of a generator's seed. Never used for anything else.
WORK, PHASES, DEBUG, UNBUDGETED, TRACE, OFFSET = range(6)


class Draw(NamedTuple):
    """What is being drawn."""

    shape: Shape
    seed: int
    until_s: int
    cluster_gpus: int


class Seat(NamedTuple):
    """A leaf as the generators know it."""

    account: int  #: row in the world's accounts
    name: str  #: its jobs are called by it; the same for all researchers of one account
    number: int  #: of its account: the second number of the generators' seeds
    part: int  #: which of its account's researchers, 0 where it is not split
    parts: int
    account_gpus: float  #: entitlement of the whole account: what its jobs are sized by
    gpus: float  #: entitlement of the leaf


class Jobs(NamedTuple):
    """A run of jobs, one array entry each."""

    gpus: Ints
    min_runtime_s: Ints
    work_s: Ints
    session: NDArray[np.bool_]
    arrive_s: Ints

    def take(self, rows: slice | Ints) -> Jobs:
        """These rows, in this order."""
        return Jobs(
            gpus=self.gpus[rows],
            min_runtime_s=self.min_runtime_s[rows],
            work_s=self.work_s[rows],
            session=self.session[rows],
            arrive_s=self.arrive_s[rows],
        )


class JobList(NamedTuple):
    """Jobs with their accounts and names: a closed loop; debug jobs are open arrivals without target."""

    jobs: Jobs
    account: Ints  #: row of each job's account
    ids: list[str]
    target: int = 0  #: GPUs outstanding it wants at second 0
    phases: tuple[tuple[int, int], ...] = ()  #: (t, new target)
    saves: bool = False  #: resumable jobs save when told to stop


def generator(seed: int, account: int, stream: int, part: int = 0) -> np.random.Generator:
    """A researcher's own generator has a fourth number; a trailing 0 is the same as none."""
    return np.random.default_rng([seed, account, stream, part] if part else [seed, account, stream])


def target_gpus(times: float, entitled_gpus: float) -> int:
    """`times` entitlements in whole GPUs, rounded up."""
    return math.ceil(times * entitled_gpus * (1 - SLACK))


def cap_gpus(entitled_gpus: float, draw: Draw) -> int:
    """Size of an account's largest job: its entitlement or `cap_gpus`, on whole nodes or a power of two."""
    node = draw.shape.gpus_per_node
    most = int(min(max(float(draw.shape.cap_gpus), entitled_gpus * (1 + SLACK)), draw.cluster_gpus))
    return most // node * node if most >= node else 1 << (max(most, 1).bit_length() - 1)


def joined(runs: Sequence[Jobs]) -> Jobs:
    """One run after the other."""
    return Jobs(*(np.concatenate(columns) for columns in zip(*runs, strict=True)))


def no_jobs() -> Jobs:
    """A run of none."""
    none = np.zeros(0, np.int64)
    return Jobs(none, none, none, np.zeros(0, np.bool_), none)


def whole_s(seconds: Floats) -> Ints:
    """Seconds, rounded (halves to even)."""
    return np.rint(seconds).astype(np.int64)


def between(bounds: tuple[float, float], uniform: Floats) -> Floats:
    """Uniform between the bounds."""
    return bounds[0] + (bounds[1] - bounds[0]) * uniform


def chosen(choices: Sequence[int], uniform: Floats) -> Ints:
    """One of the choices, each as likely as the others."""
    places = np.minimum((uniform * len(choices)).astype(np.int64), len(choices) - 1)
    return np.array(choices, np.int64)[places]


# budgeted lists


def work_list(draw: Draw, seat: Seat) -> JobList:
    """One account's list of budgeted jobs, and its phases. A researcher has each `parts`-th job of it."""
    shape = draw.shape
    busy, quiet = (target_gpus(times, seat.gpus) for times in (shape.busy_target, shape.quiet_target))
    cap = cap_gpus(seat.account_gpus, draw)
    rng = generator(draw.seed, seat.number, WORK)
    most = max(busy, quiet)
    jobs = long_enough(
        draw,
        lambda: draw_block(shape, rng, cap),
        keep=slice(seat.part, None, seat.parts),
        bound_gpus=most - 1 + cap if most else 0,
    )
    start, phases = _phases(draw, seat, targets=(busy, quiet))
    rows = len(jobs.gpus)
    return JobList(
        jobs=jobs,
        account=np.full(rows, seat.account, np.int64),
        ids=[f"{seat.name}-{seat.part + seat.parts * place}" for place in range(rows)],
        target=start,
        phases=phases,
        saves=shape.save_on_notice,
    )


def draw_block(shape: Shape, rng: np.random.Generator, cap: int) -> Jobs:
    """The next `BLOCK` jobs of a list. Every job takes the same draws, whatever its class or the cap."""
    which, size, long, lasting = rng.random((4, BLOCK))
    normal = rng.standard_normal(BLOCK)
    parts = np.cumsum([one.part for one in shape.classes])
    kind = np.minimum(np.searchsorted(parts, which, side="right"), len(parts) - 1)
    gpus = np.zeros(BLOCK, np.int64)
    protection_h, work_h = np.zeros(BLOCK), np.zeros(BLOCK)
    for row, one in enumerate(shape.classes):
        mine = kind == row
        gpus[mine] = chosen(one.gpus, size[mine])
        protection_h[mine] = between(one.protection_h, long[mine])
        work_h[mine] = _work_h(one, lasting[mine], normal[mine])
    work_s = whole_s(work_h * HOUR_S)
    return Jobs(
        gpus=np.minimum(gpus, cap),
        min_runtime_s=np.clip(whole_s(protection_h * HOUR_S), 1, shape.protection_most_s),
        work_s=np.clip(work_s, max(1, shape.work_least_s), shape.work_most_s),
        session=np.array([one.session for one in shape.classes])[kind],
        arrive_s=np.zeros(BLOCK, np.int64),
    )


def _work_h(one: JobClass, uniform: Floats, normal: Floats) -> Floats:
    if one.work_between_h is not None:
        return between(one.work_between_h, uniform)
    return np.asarray(one.work_median_h * np.exp(one.work_sigma * normal))


def long_enough(draw: Draw, block: Callable[[], Jobs], *, keep: slice, bound_gpus: int) -> Jobs:
    """Draw blocks until the list, of which `keep` is ours, cannot run dry; cut it there."""
    blocks: list[Jobs] = []
    while bound_gpus > 0:
        blocks.append(block())
        jobs = joined(blocks).take(keep)
        length = enough(draw, jobs, bound_gpus=bound_gpus)
        if length is not None:
            return jobs.take(slice(length))
    return no_jobs()


def enough(draw: Draw, jobs: Jobs, *, bound_gpus: int) -> int | None:
    """
    How many jobs are enough, or None if there are too few.

    Never more than `bound_gpus` (target - 1 + the largest job) are outstanding, nor more than the cluster
    runs, so what has ended by `until_s` held at most that rate for that long. A job that ends has held its
    work before, or a session at least its protection. What is outstanding is at most `bound_gpus` times the
    longest job. So a list with more work than both together cannot run dry, whoever schedules.
    """
    surely_s = np.where(jobs.session, np.minimum(jobs.work_s, jobs.min_runtime_s), jobs.work_s)
    longest_s = np.maximum.accumulate(jobs.work_s)
    needed = min(draw.cluster_gpus, bound_gpus) * draw.until_s + bound_gpus * longest_s
    reached = np.cumsum(jobs.gpus * surely_s) > needed
    return int(np.argmax(reached)) + 1 if reached.any() else None


def _phases(draw: Draw, seat: Seat, *, targets: tuple[int, int]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The target at second 0 and its changes: busy and quiet in turn, lengths exponential."""
    shape = draw.shape
    if not shape.quiet_days:
        return targets[0], ()
    rng = generator(draw.seed, seat.number, PHASES, seat.part)
    mean_s = (shape.busy_days * DAY_S, shape.quiet_days * DAY_S)
    quiet = int(rng.random() >= mean_s[0] / (mean_s[0] + mean_s[1]))
    start, now_s = targets[quiet], 0.0
    changes: list[tuple[int, int]] = []
    while True:
        now_s += float(rng.standard_exponential()) * mean_s[quiet]
        if round(now_s) >= draw.until_s:
            return start, tuple(changes)
        quiet = 1 - quiet
        changes.append((round(now_s), targets[quiet]))


# unbudgeted and debug


def unbudgeted_list(draw: Draw, seats: Sequence[Seat]) -> JobList:
    """One list for the whole lab; each job's account is drawn evenly, then one of its researchers."""
    shape = draw.shape
    target = target_gpus(shape.unbudgeted_target, draw.cluster_gpus)
    rng = generator(draw.seed, 0, UNBUDGETED)
    cap = min(max(shape.unbudgeted_gpus), draw.cluster_gpus)
    choices: list[Floats] = []

    def block() -> Jobs:
        size, who, researcher = rng.random((3, BLOCK))
        choices.append(np.stack([who, researcher]))
        work_s = (
            shape.unbudgeted_median_h * HOUR_S * np.exp(shape.unbudgeted_sigma * rng.standard_normal(BLOCK))
        )
        zeros = np.zeros(BLOCK, np.int64)
        return Jobs(
            gpus=np.minimum(chosen(shape.unbudgeted_gpus, size), cap),
            min_runtime_s=zeros,
            work_s=np.clip(whole_s(work_s), max(1, shape.work_least_s), shape.unbudgeted_most_s),
            session=np.zeros(BLOCK, np.bool_),
            arrive_s=zeros,
        )

    jobs = long_enough(draw, block, keep=slice(None), bound_gpus=target - 1 + cap if target else 0)
    rows = len(jobs.gpus)
    return JobList(
        jobs=jobs,
        account=_drawn_accounts(seats, np.hstack(choices)[:, :rows]) if rows else np.zeros(0, np.int64),
        ids=[f"unbudgeted-{place}" for place in range(rows)],
        target=target,
    )


def _drawn_accounts(seats: Sequence[Seat], uniforms: Floats) -> Ints:
    """Row of an account for each column of `uniforms`: (which account, which of its researchers)."""
    numbers = sorted({seat.number for seat in seats})
    row_of = np.zeros((len(numbers), max(seat.parts for seat in seats)), np.int64)
    parts = np.ones(len(numbers), np.int64)
    for seat in seats:
        place = numbers.index(seat.number)
        row_of[place, seat.part] = seat.account
        parts[place] = seat.parts
    place_of = np.minimum((uniforms[0] * len(numbers)).astype(np.int64), len(numbers) - 1)
    part_of = np.minimum((uniforms[1] * parts[place_of]).astype(np.int64), parts[place_of] - 1)
    return row_of[place_of, part_of]


def debug_list(draw: Draw, seats: Sequence[Seat]) -> JobList:
    """
    Open arrivals, sorted by time. Each account has a Poisson stream of its own, with the rate of its weight.

    Together these are one Poisson stream whose jobs draw their account by weight; apart, one account's share
    moves nobody else's jobs. Where shares leave a part to nobody, its part of the jobs does not come.
    """
    n_accounts = len({seat.number for seat in seats})
    own: list[JobList] = []
    for seat in seats:
        share = seat.gpus / draw.cluster_gpus
        weight = draw.shape.debug_by_share * share + (1 - draw.shape.debug_by_share) / n_accounts / seat.parts
        rng = generator(draw.seed, seat.number, DEBUG, seat.part)
        jobs = _debug_of_one(draw, rng, rate_per_s=draw.shape.debug_per_hour * weight / HOUR_S)
        rows = len(jobs.gpus)
        name = f"{seat.name}-r{seat.part}-debug" if seat.parts > 1 else f"{seat.name}-debug"
        ids = [f"{name}-{place}" for place in range(rows)]
        own.append(JobList(jobs, np.full(rows, seat.account, np.int64), ids))
    jobs = joined([one.jobs for one in own])
    ids = [name for one in own for name in one.ids]
    order = np.argsort(jobs.arrive_s, kind="stable")
    account = np.concatenate([one.account for one in own])
    return JobList(jobs.take(order), account[order], [ids[row] for row in order.tolist()])


def _debug_of_one(draw: Draw, rng: np.random.Generator, *, rate_per_s: float) -> Jobs:
    shape = draw.shape
    cap = min(shape.gpus_per_node, draw.cluster_gpus)
    blocks = [no_jobs()]
    now_s = 0.0
    while rate_per_s > 0 and now_s < draw.until_s:
        gap, lasting = rng.standard_exponential((2, BLOCK))
        size, long = rng.random((2, BLOCK))
        arrive = now_s + np.cumsum(gap) / rate_per_s
        now_s = float(arrive[-1])
        work_s = np.minimum(lasting * shape.debug_mean_s + shape.debug_least_s, shape.debug_most_s)
        blocks.append(
            Jobs(
                gpus=np.minimum(chosen(shape.debug_gpus, size), cap),
                min_runtime_s=chosen(shape.debug_protection_s, long),
                work_s=np.maximum(whole_s(work_s), 1),
                session=np.zeros(BLOCK, np.bool_),
                arrive_s=whole_s(arrive),
            )
        )
    jobs = joined(blocks)
    return jobs.take(np.flatnonzero(jobs.arrive_s < draw.until_s))
