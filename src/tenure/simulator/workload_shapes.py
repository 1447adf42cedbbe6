"""The shapes of drawn work: every number a workload is drawn from, and the lab each was meant for.

A shape describes demand two to three times what the cluster holds, as a lab with many projects has it. The
figures are a demand model, not a measurement; only `philly` takes its arrivals from a real trace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tenure.core.columns import WHOLE
from tenure.settings.errors import BadInput, nearest, shown
from tenure.settings.units import duration_s, flag, number, one_of, share, whole

TREES = ("flat", "programs", "researchers")
PAIRS = ("protection_h", "work_between_h", "trace_protection_part")  #: lists of two: from, to
WHOLES = ("gpus", "unbudgeted_gpus", "debug_gpus", "debug_protection_s", "programs")


@dataclass(frozen=True, kw_only=True)
class JobClass:
    """One kind of budgeted job. Run lengths are lognormal, or uniform where bounds are given."""

    part: float  #: of the account's jobs
    gpus: tuple[int, ...]  #: each as likely as the others
    protection_h: tuple[float, float]  #: uniform between
    work_median_h: float = 0.0
    work_sigma: float = 0.0  #: of the logarithm
    work_between_h: tuple[float, float] | None = None
    session: bool = False  #: a person sits at it: a session, and not resumable


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Everything drawn work depends on besides the seed and the lab's own shares."""

    name: str
    nodes: int = 128
    gpus_per_node: int = 8
    tree: str = "flat"  #: flat | programs | researchers: how `shape_lab` arranges the accounts
    shares_percent: tuple[float, ...] = (37.5, 10, 8, 7, 6, 5, 5, 4, 4, 3.5, 3, 2.5, 2, 1.5, 1)
    programs: tuple[int, ...] = (0, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 0, 0)  #: of each account
    split_accounts: int = 5  #: tree researchers: so many of the largest accounts …
    split_parts: int = 3  #: … are split in so many researchers, each with that part of the jobs

    busy_target: float = 2.6  #: GPUs an account wants outstanding, in entitlements
    quiet_target: float = 0.2
    busy_days: float = 3.0  #: mean lengths, exponential
    quiet_days: float = 4.0  #: 0 = never quiet
    classes: tuple[JobClass, ...] = ()
    work_least_s: int = 60
    work_most_s: int = 10 * 86400
    protection_most_s: int = 8 * 3600
    cap_gpus: int = 8  #: no job is larger than its account's entitlement, or than this if that is more

    unbudgeted_target: float = 0.55  #: GPUs of unbudgeted work outstanding, in clusters
    unbudgeted_gpus: tuple[int, ...] = (1, 2, 4, 8, 8)
    unbudgeted_median_h: float = 2.0
    unbudgeted_sigma: float = 1.0
    unbudgeted_most_s: int = 5 * 86400

    debug_per_hour: float = 30.0  #: of all accounts together, Poisson
    debug_by_share: float = 0.5  #: this part of them by share, the rest evenly
    debug_gpus: tuple[int, ...] = (1, 1, 2, 4, 8)
    debug_protection_s: tuple[int, ...] = (300, 600, 900)
    debug_mean_s: float = 400.0  #: exponential, on top of the least
    debug_least_s: int = 20
    debug_most_s: int = 1800

    save_every_s: int = 1800
    restart_s: int = 60
    save_on_notice: bool = True  #: budgeted resumable jobs save within their grace when told to stop

    arrivals: bool = False  #: budgeted work comes from a trace of arrivals instead of classes
    stretch_days: float = 37.0  #: so much of the trace is played, from an offset the seed chooses; then again
    trace_load: float = 2.0  #: each tenant's load over the stretch, in entitlements
    widen_most: int = 8  #: GPUs are multiplied by a power of two up to this; run lengths take the rest
    least_jobs: int = 100  #: a tenant with fewer jobs in the trace is left out
    trace_protection_part: tuple[float, float] = (0.3, 1.0)  #: of the run length, uniform
    trace_protection_least_s: int = 300

    @property
    def cluster_gpus(self) -> int:
        """GPUs of the cluster the shape was meant for."""
        return self.nodes * self.gpus_per_node

    @property
    def nominal_demand(self) -> float:
        """Mean of all targets over time, in clusters; overshooting jobs and slow endings come on top."""
        cycle_days = self.busy_days + self.quiet_days
        busy = self.busy_days / cycle_days if cycle_days else 1.0
        wanted = busy * self.busy_target + (1 - busy) * self.quiet_target
        return sum(self.shares_percent) / 100 * wanted + self.unbudgeted_target


def _classes(*, medium_gpus: tuple[int, ...], large_gpus: tuple[int, ...]) -> tuple[JobClass, ...]:
    return (
        JobClass(part=0.62, gpus=(1, 1, 2, 4, 8, 8), protection_h=(0.5, 4), work_median_h=3, work_sigma=1),
        JobClass(part=0.28, gpus=medium_gpus, protection_h=(2, 8), work_median_h=8, work_sigma=0.8),
        JobClass(part=0.085, gpus=(1, 1, 2, 4, 8), protection_h=(2, 8), work_between_h=(1, 10), session=True),
        JobClass(part=0.015, gpus=large_gpus, protection_h=(4, 8), work_median_h=30, work_sigma=0.6),
    )


#: Names of the classes, in the order of `Shape.classes`.
CLASS_NAMES = ("small", "medium", "interactive", "large")

_AI2 = Shape(
    name="ai2",
    classes=_classes(medium_gpus=(8, 16, 16, 32, 32, 64), large_gpus=(128, 128, 256, 256, 384)),
)

#: The shapes a scenario may name. `small` has 88 GPUs: its large jobs are those of the others x 11/128, on
#: whole nodes, and there are fewer, smaller filler and debug jobs.
SHAPES: dict[str, Shape] = {
    "ai2": _AI2,
    "sat95": dataclasses.replace(
        _AI2, name="sat95", quiet_target=0.4, quiet_days=1.8, unbudgeted_target=0.25
    ),
    "sat": dataclasses.replace(_AI2, name="sat", quiet_target=0.4, quiet_days=0.8, unbudgeted_target=0.25),
    "small": dataclasses.replace(
        _AI2,
        name="small",
        nodes=11,
        cap_gpus=4,
        classes=_classes(medium_gpus=(8, 16, 16, 16, 16, 16), large_gpus=(8, 8, 16, 16, 32)),
        unbudgeted_gpus=(1, 1, 2, 2, 4),
        debug_per_hour=2.6,
    ),
    "philly": dataclasses.replace(
        _AI2, name="philly", quiet_target=2.6, quiet_days=0.0, debug_per_hour=10.0, arrivals=True
    ),
}


def shape_from(given: Mapping[str, Any], *, file: str = "scenario") -> Shape:
    """
    The shape of a scenario's `workload`, as `{shape: ai2, nodes: 64, classes: {large: {part: 0.01}}}`.

    Every parameter of `Shape` may be given, those of classes below their names; `file` (the trace)
    is for who draws. Keys that end in `_s` take durations. Raises BadInput.
    """
    name = given.get("shape")
    if name not in SHAPES:
        raise BadInput(file, "workload.shape", shown(name), ", ".join(SHAPES))
    shape = SHAPES[name]
    changes: dict[str, Any] = {}
    for key, value in given.items():
        if key == "classes":
            changes[key] = _changed_classes(shape.classes, value, file)
        elif key != "shape" and not (key == "file" and shape.arrivals):
            changes[key] = _read(shape, key, value, file, f"workload.{key}")
    changed = dataclasses.replace(shape, **changes)
    _check(changed, file)
    return changed


def _changed_classes(classes: tuple[JobClass, ...], given: Any, file: str) -> tuple[JobClass, ...]:
    result = dict(zip(CLASS_NAMES, classes, strict=True))
    if not isinstance(given, Mapping):
        raise BadInput(file, "workload.classes", shown(given), f"parameters below {', '.join(CLASS_NAMES)}")
    for name, values in given.items():
        where = f"workload.classes.{name}"
        if name not in result:
            raise BadInput(file, where, "an unknown class", nearest(str(name), CLASS_NAMES))
        if not isinstance(values, Mapping):
            raise BadInput(file, where, shown(values), "a mapping of parameters")
        changes = {k: _read(result[name], k, value, file, f"{where}.{k}") for k, value in values.items()}
        result[name] = dataclasses.replace(result[name], **changes)
    return tuple(result.values())


def _read(old: Shape | JobClass, key: str, value: Any, file: str, where: str) -> Any:
    """`value` in the type the parameter has now."""
    names = [field.name for field in dataclasses.fields(old) if field.name not in ("name", "classes")]
    if key not in names:
        raise BadInput(file, where, "an unknown parameter", nearest(str(key), names))
    now = getattr(old, key)
    try:
        if isinstance(now, bool):
            return flag(value)
        if isinstance(now, str):
            return one_of(*TREES)(value)
        if isinstance(now, int) and key.endswith("_s"):
            return duration_s(value)
        if isinstance(now, int):
            return whole(0, 10**9)(value)
        if isinstance(now, float):
            return _number(value)
        return _numbers(value, how_many=2 if now is None or key in PAIRS else None, whole_only=key in WHOLES)
    except ValueError as error:
        raise BadInput(file, where, shown(value), str(error)) from None


def _number(value: Any) -> float:
    allowed = "a number from 0 to 1e9"
    if isinstance(value, str) and value.rstrip().endswith("%"):
        return share(value) / WHOLE
    exact = number(value, allowed)
    if not 0 <= exact <= 10**9:
        raise ValueError(allowed)
    return float(exact)


def _numbers(value: Any, *, how_many: int | None, whole_only: bool) -> tuple[float, ...]:
    noun = "whole numbers" if whole_only else "numbers"
    allowed = f"a list of {how_many or 'at least one'} {noun}" if how_many != 1 else f"one of {noun}"
    if not isinstance(value, (list, tuple)) or not value or (how_many and len(value) != how_many):
        raise ValueError(allowed)
    return tuple(whole(0, 10**9)(item) if whole_only else _number(item) for item in value)


def _check(shape: Shape, file: str) -> None:
    """What must hold between parameters."""

    def need(holds: bool, key: str, found: Any, allowed: str) -> None:
        if not holds:
            raise BadInput(file, f"workload.{key}", str(found), allowed)

    for key in ("nodes", "gpus_per_node", "busy_days", "stretch_days", "split_parts", "widen_most"):
        need(getattr(shape, key) > 0, key, getattr(shape, key), "more than 0")
    parts = sum(one.part for one in shape.classes)
    need(abs(parts - 1) < 1e-9, "classes", f"parts that sum to {parts:g}", "parts that sum to 1")
    shares = sum(Fraction(str(one)) for one in shape.shares_percent)
    need(shares <= 100, "shares_percent", f"a sum of {float(shares):g}", "a sum of at most 100")
    accounts = len(shape.shares_percent)
    fits = shape.tree == "flat" or len(shape.programs) == accounts
    need(fits, "programs", f"{len(shape.programs)} entries", f"one for each of the {accounts} accounts")
    need(shape.debug_by_share <= 1, "debug_by_share", shape.debug_by_share, "at most 1")
    need(all(shape.debug_protection_s), "debug_protection_s", "0", "more than 0: debug jobs are budgeted")
    node = shape.gpus_per_node
    sizes = {f"classes.{name}.gpus": one.gpus for name, one in zip(CLASS_NAMES, shape.classes, strict=True)}
    sizes |= {"unbudgeted_gpus": shape.unbudgeted_gpus, "debug_gpus": shape.debug_gpus}
    for key, gpus in sizes.items():
        odd = [size for size in gpus if size < 1 or (size > node and size % node)]
        need(not odd, key, f"{odd[:1]} GPUs", f"1 to {node}, or a multiple of {node}")


def account_name(account: int) -> str:
    """Accounts of a shape's lab are a00, a01 …; shares fall with the number."""
    return f"a{account:02d}"


def shape_lab(shape: Shape) -> dict[str, Any]:
    """
    The lab a shape was meant for, as the mapping of a `lab.yaml`.

    `tree: flat` gives accounts a00 … below the root; `programs` puts them under p0, p1 …; `researchers` also
    splits the largest accounts into researchers r0, r1 … of equal shares.
    """
    accounts = {number: Fraction(str(share)) for number, share in enumerate(shape.shares_percent)}
    lab: dict[str, Any] = {
        "lab": shape.name,
        "clusters": {"main": {"nodes": shape.nodes, "gpus_per_node": shape.gpus_per_node}},
    }
    if shape.tree == "flat":
        lab["accounts"] = _siblings(shape, accounts, Fraction(100), researchers=False)
        return lab
    programs: dict[str, Any] = {}
    totals = {
        program: sum((accounts[a] for a in accounts if shape.programs[a] == program), Fraction(0))
        for program in sorted(set(shape.programs))
    }
    for program, total in totals.items():
        below = {a: share for a, share in accounts.items() if shape.programs[a] == program}
        programs[f"p{program}"] = {
            "share": _percent(int(total * WHOLE / 100)),
            "accounts": _siblings(shape, below, total, researchers=shape.tree == "researchers"),
        }
    lab["accounts"] = programs
    return lab


def _siblings(
    shape: Shape, shares: dict[int, Fraction], total: Fraction, *, researchers: bool
) -> dict[str, Any]:
    """Siblings with their parts of `total`, rounded to millionths so that the sum stays what it was."""
    largest = sorted(range(len(shape.shares_percent)), key=lambda a: -shape.shares_percent[a])
    split = set(largest[: shape.split_accounts]) if researchers else set()
    given = Fraction(0)
    given_ppm = 0
    result: dict[str, Any] = {}
    for account, part in shares.items():
        given += part
        part_ppm = round(given / total * WHOLE) - given_ppm if total else 0
        given_ppm += part_ppm
        result[account_name(account)] = {"share": _percent(part_ppm)}
        if account in split:
            result[account_name(account)]["researchers"] = [f"r{row}" for row in range(shape.split_parts)]
    return result


def _percent(millionths: int) -> str:
    return f"{millionths / 10_000:.4f}".rstrip("0").rstrip(".") + "%"
