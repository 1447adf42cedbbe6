"""Published numbers of fleets, each worked out anew: reproduced, partly, or not, with the convention used.

`reproduced`: within `CLOSE` of what was published. `partly`: only under assumptions of ours, or only as a
bound. `not`: the published inputs do not lead to the published number. `fit`: went into a curve, so no test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tenure.planner.failures import (
    GPUS_A_NODE,
    LLAMA_3,
    LLAMA_3_DAYS,
    LLAMA_3_NOT_HARDWARE,
    LLAMA_3_OF_GPU,
    LLAMA_3_PLANNED,
    mttf_h,
)
from tenure.planner.goodput import EXACT, FIRST_ORDER, Run, Saves
from tenure.planner.groups import Groups, synchronous
from tenure.planner.power import Reference, Site, cluster, optimum_w
from tenure.planner.power_curves import gb200_fit, h100_mayr
from tenure.planner.racks import Rack, Zone, unavailability
from tenure.planner.save_interval import young
from tenure.planner.spares import Fleet, covered, share_of_work, spares_at_instant, spares_for_mission

REPRODUCED, PARTLY, NOT, FIT = "reproduced", "partly", "not", "fit"
CLOSE = 0.03  #: relative
RSC_1, RSC_2 = 6.50, 2.34
META = Site(150e6, 1.37208, 357.143)


class Row(NamedTuple):
    """`published` and `ours` in `unit`; `how`: the convention and whatever was assumed."""

    what: str
    source: str
    published: float
    ours: float
    unit: str
    verdict: str
    how: str

    @property
    def error(self) -> float:
        """Relative to the published number."""
        return self.ours / self.published - 1.0


def rows() -> list[Row]:
    """All of them."""
    return [*_groups(), *_rates(), *_ettr(), *_spares(), *_power()]


def _groups() -> Sequence[Row]:
    source, assumed = "FT-HSDP, arXiv:2602.00277", "12 groups; away 10 min is assumed"
    return (
        Row("whole job stops", source, 0.44, synchronous(10).wall(18), "", REPRODUCED, "wall: 1 - 10/18"),
        Row("groups recover apart", source, 0.80, Groups(12, 3, 10).wall(18), "", REPRODUCED,
            f"wall; {assumed}"),
        Row("torchft, a failure every 60 s", "PyTorch blog, 2025", 0.823, 1 - 10.5 / 60, "", REPRODUCED,
            "wall; 10.5 s lost each, failures at fixed intervals"),
        Row("torchft, a failure every 15 s", "PyTorch blog, 2025", 0.302, 1 - 10.5 / 15, "", REPRODUCED,
            "wall; the same 10.5 s"),
    )  # fmt: skip


def _rates() -> Sequence[Row]:
    def minutes(gpus: float, rate: float) -> float:
        return 60 * mttf_h(rate, gpus / GPUS_A_NODE)

    kokolis, llama = "Kokolis et al., arXiv:2410.21680", "Llama 3, arXiv:2407.21783"
    events = sum(LLAMA_3.values())
    hardware = sum(n for cause, n in LLAMA_3.items() if cause not in LLAMA_3_NOT_HARDWARE)
    at_rsc_1 = "6.50 per 1,000 node-days"
    return (
        Row("MTTF of 98,304 GPUs", "FT-HSDP, arXiv:2602.00277", 18, minutes(98_304, RSC_1), "min", REPRODUCED,
            at_rsc_1 + ", another cluster's rate"),
        Row("MTTF of 98,304 GPUs at 2.3 per 1,000 servers a day", "FT-HSDP, arXiv:2602.00277", 18,
            minutes(98_304, 2.3), "min", NOT, "the two statements do not agree"),
        Row("MTTF of 16,384 GPUs", kokolis, 1.8, minutes(16_384, RSC_1) / 60, "h", REPRODUCED, at_rsc_1),
        Row("MTTF of 131,072 GPUs", kokolis, 0.23, minutes(131_072, RSC_1) / 60, "h", REPRODUCED, at_rsc_1),
        Row("MTTF of 1,024 GPUs", kokolis, 7.9, minutes(1024, RSC_1) / 60, "h", NOT,
            at_rsc_1 + ": small jobs fail otherwise"),
        Row("MTTF of 100,000 GPUs", kokolis, 15, minutes(100_000, RSC_1), "min", NOT, at_rsc_1),
        Row("hardware's part of interruptions", llama, 0.78, hardware / events, "", REPRODUCED,
            "counts; without software, dependency, watchdog, host maintenance"),
        Row("faulty GPUs' part, as printed", llama, 0.301, LLAMA_3["faulty GPU"] / events, "", NOT,
            "counts: 148 of 419; printed shares sum to 94.9 %"),
        Row("GPU-caused part, as printed", llama, 0.587, sum(LLAMA_3[c] for c in LLAMA_3_OF_GPU) / events, "",
            NOT, "counts: 268 of 419"),
    )  # fmt: skip


def _kokolis(gpus: float, rate: float, recovery: float, blocking: float, every: float | None) -> Run:
    mtbf = 60 * mttf_h(rate, gpus / GPUS_A_NODE)
    return Run(mtbf, recovery, Saves(blocking, young(mtbf, blocking) if every is None else every))


def _ettr() -> Sequence[Row]:
    source, first = "Kokolis et al., arXiv:2410.21680", "first order; exact {:.3f}"

    def row(what: str, published: float, run: Run) -> Row:
        return Row(
            what, source, published, run.ettr(FIRST_ORDER), "", REPRODUCED, first.format(run.ettr(EXACT))
        )

    events = sum(LLAMA_3.values())
    day_min = 1440 * LLAMA_3_DAYS
    long_saves = _interval_of_half(RSC_2)
    return (
        row("ETTR of 16,000 GPUs, saves every 60 min", 0.70, _kokolis(16_000, RSC_1, 5, 0, 60)),
        row("ETTR of 16,000 GPUs, saves every 5 min", 0.93, _kokolis(16_000, RSC_1, 5, 0, 5)),
        row("ETTR of 8,000 GPUs, a minute's queue, 30 min", 0.90, _kokolis(8_000, RSC_1, 6, 0, 30)),
        row("ETTR of 12,000 GPUs, 10 s saves", 0.90, _kokolis(12_000, RSC_1, 5, 10 / 60, None)),
        row("ETTR of 12,000 GPUs at 1.0, 5 min saves", 0.90, _kokolis(12_000, 1.0, 5, 5, None)),
        Row("interval for ETTR 0.5 at 100,000 GPUs, 2.34", source, 21, long_saves, "min", NOT,
            "first order, 5 min recovery"),
        Row("effective time, 419 interruptions", "Llama 3, arXiv:2407.21783", 0.90,
            Run(day_min / events, 5, Saves(1 / 3)).ettr(), "", PARTLY,
            "exact; 20 s saves and 5 min recovery are assumed, published only as above 90 %"),
        Row("effective time, all 466", "Llama 3, arXiv:2407.21783", 0.90,
            Run(day_min / (events + LLAMA_3_PLANNED), 5, Saves(1 / 3)).ettr(), "", PARTLY,
            "exact; the same assumptions"),
    )  # fmt: skip


def _interval_of_half(rate: float) -> float:
    mtbf = 60 * mttf_h(rate, 100_000 / GPUS_A_NODE)
    return 2 * (0.5 * mtbf - 5)  # 1 - (5 + t/2)/M = 1/2


def _spares() -> Sequence[Row]:
    sc25 = Fleet(Zone(152, unavailability(1.9 * 152, 2.2)))
    least = 4 * spares_at_instant(sc25, 0.999)
    most = 4 * spares_for_mission(sc25, 0.999, 720, 2.2)
    racks = 512 + 11
    q = covered(Fleet(Zone(512, 0.5)), 11, 0.999)
    ratio = share_of_work(4, 256, Rack(18, 16, 0.0049, 0.002))[0]
    ratio /= share_of_work(4, 256, Rack(18, 18, 0.0049, 0.002))[0]
    return (
        Row("GPUs bought for a job of 32,768", "Meta, provisioning", 37_656, racks * 72, "GPUs", REPRODUCED,
            f"512 racks of 64 + 8, 11 spare: what q = {q:.4f} needs at 99.9 %; the 11 is an inference"),
        Row("work with 8 of 72 held against none", "Quirk et al., MLSys 2026", 1.024, ratio, "", PARTLY,
            "availability only, trays down 0.49 %, racks 0.2 %: inputs are not published"),
        Row("spare GPUs of 608, 2.2 h recovery", "SC'25, arXiv:2503.11901", 31, most, "GPUs", NOT,
            f"{least} at an instant, {most} for 30 days without a shortage, 99.9 %"),
    )  # fmt: skip


def _power() -> Sequence[Row]:
    meta, nvidia = "Meta, arXiv:2605.24461", "NVIDIA power profiles"
    fit, measured = gb200_fit(), h100_mayr(1200.0)
    of_fit, of_measured = Reference.of(fit, 1200), Reference.of(measured, 1200)
    return (
        Row("accelerators in 150 MW at 960 W", meta, 83_000, META.gpus(960), "", FIT,
            "used for overhead and multiplier"),
        Row("cluster at 1,000 W against 1,200 W", meta, 1.09, cluster(META, fit, of_fit, 1000), "", FIT,
            "used for gb200_fit"),
        Row("cluster at 960 W against 1,200 W (1.9/1.7)", meta, 1.9 / 1.7,
            cluster(META, measured, of_measured, 960), "", REPRODUCED, "h100_mayr over cap/rated"),
        Row("the same by the made curve", meta, 1.9 / 1.7, cluster(META, fit, of_fit, 960), "", PARTLY,
            "gb200_fit"),
        Row("what a 9 % higher limit is worth", "Quirk et al., MLSys 2026", 1.034,
            fit(1.09 * 1020) / fit(1020), "", PARTLY,
            f"gb200_fit from 1,020 W; {fit(1090) / fit(1000):.4f} from 1,000 W"),
        Row("throughput of a power-limited site", nvidia, 1.13, 0.97 / 0.85, "", PARTLY,
            "97 % of speed at 85 % of power: an upper bound, all power follows"),
        Row("best limit by a measured curve", meta, 1000, optimum_w(META, measured), "W", NOT,
            "h100_mayr, power alone; 2,477 W of capital would move it to 1,000"),
    )  # fmt: skip
