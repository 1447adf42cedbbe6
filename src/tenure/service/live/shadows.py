"""Shadow mode's question: what did they do, and what would Tenure have done with the same jobs?

Both stories are measured by the same code. Once a day the comparison of the day before is written to the
server's folder.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any

import structlog

from tenure.core.words import End, Happened
from tenure.engines.shadow import THEIRS_FILE
from tenure.engines.theirs import facts_of, kept_from
from tenure.service import audits
from tenure.service.live.desk import Desk
from tenure.service.live.errors import NotNow, NotReady
from tenure.service.live.people import Who
from tenure.service.live.record import since_of
from tenure.service.live.their_story import THEIRS, Run, their_story
from tenure.service.outputs import placed, write_json
from tenure.service.side_by_side import text_of
from tenure.settings.errors import BadInput
from tenure.story.columns import Story

MOST_JOBS = 10  #: each way
HOUR_S = 3600
DAY = timedelta(days=1)
FOLDER = "shadow"
LIMITS = (
    "a job's run time is the one it really had; one that Tenure starts sooner goes on until it ends there,"
    " because nobody knows its run time before: it holds its GPUs for too long (counted), and others wait",
    "users would have behaved differently: they see their own scheduler, and answer to it",
    "jobs that ran when the server first looked are in both, with what was left of them",
    "work lost at a stop there is not known, but for jobs that cannot be resumed, which lose all",
)


def compared(desk: Desk, who: Who | None, since: str | None) -> dict[str, Any]:
    """Both sides of the record, or of the last `since` of it. Raises BadInput, NotReady, NotNow."""
    return _compared(desk, since_of(desk, since), desk.t())


def _compared(desk: Desk, since_t: int | None, until_t: int) -> dict[str, Any]:
    """{from, until, runs (measures: theirs, then tenure), jobs {sooner, later}, too_long_gpu_h, left_out,
    limits}."""
    if not desk.shadow or desk.data is None:
        raise NotNow("this server decides itself: only one started with --shadow has another to compare with")
    file = desk.data / THEIRS_FILE
    kept = kept_from(file)
    if kept is not None:  # of what was before, little is known of their side
        since_t = max(since_t or 0, min(until_t, ceil(kept - desk.start)))
    try:
        ours = list(desk.ledger.story_lines(since_t, until_t))
    except ValueError:
        raise NotReady("the record has no story yet: no turn was recorded") from None
    theirs = their_story(ours, facts_of(file), desk.start, until_t)
    told = {THEIRS: _measured(theirs.lines), "tenure": _measured(ours)}
    return {
        "from": desk.date(since_t or 0),
        "until": desk.date(until_t),
        "runs": [
            {**one.measures, "policy": name, "seed": 0, "set": {}, "heading": one.heading}
            for name, one in told.items()
        ],
        "jobs": _moved(desk, told[THEIRS].story, told["tenure"].story, since_t or 0, until_t),
        "too_long_gpu_h": _too_long(told[THEIRS].story, told["tenure"].story, since_t or 0),
        "left_out": _left_out(theirs.unknown, since_t or 0, until_t),
        "limits": list(LIMITS),
    }


def _measured(lines: Sequence[str]) -> audits.Audited:
    with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
        path = Path(folder) / "story.jsonl"
        path.write_text("".join(lines), encoding="utf-8")
        return audits.audit(path)


def _too_long(theirs: Story, ours: Story, since_t: int) -> float:
    """GPU-hours that jobs held in Tenure's story beyond what they needed there, of those that ended in it."""
    needed, held = Counter[str](), Counter[str]()
    over: set[str] = set()
    for story, sums in ((theirs, needed), (ours, held)):
        stops = story.events[story.events["event"] == Happened.STOPPED]
        for row, t, gpu_s, end in stops[["job", "t", "x", "code"]].tolist():
            job = str(story.job_ids[row])
            sums[job] += gpu_s
            if story is ours and t >= since_t and end in (End.FINISHED, End.FAILED):
                over.add(job)
    return sum(max(0, held[job] - needed[job]) for job in over if job in needed) / HOUR_S


def _first_starts(story: Story) -> dict[str, int]:
    events = story.events[story.events["event"] == Happened.STARTED]
    found: dict[str, int] = {}
    for row, t in zip(events["job"].tolist(), events["t"].tolist(), strict=True):
        found.setdefault(str(story.job_ids[row]), t)
    return found


def _left(story: Story) -> set[str]:
    rows = story.events["job"][story.events["event"] == Happened.CANCELLED].tolist()
    return {str(story.job_ids[row]) for row in rows}


def _moved(desk: Desk, theirs: Story, ours: Story, since_t: int, until_t: int) -> dict[str, Any]:
    """The jobs whose first start differs most, each way; one that still waits counts as it is at the end."""
    there, here = _first_starts(theirs), _first_starts(ours)
    gone = _left(theirs) | _left(ours)
    found: list[dict[str, Any]] = []
    for row, job in enumerate(map(str, ours.job_ids)):
        starts = (there.get(job), here.get(job))
        if starts == (None, None) or (None in starts and job in gone):
            continue
        their_t, our_t = (until_t if t is None else t for t in starts)
        if max(their_t, our_t) < since_t:
            continue
        found.append(
            {
                "job": job,
                "account": ours.account_path(int(ours.jobs["account"][row])),
                "gpus": int(ours.jobs["gpus"][row]),
                "theirs": desk.date(starts[0]),
                "tenure": desk.date(starts[1]),
                "sooner_s": their_t - our_t,
            }
        )
    sooner = sorted((-one["sooner_s"], one["job"], one) for one in found if one["sooner_s"] > 0)
    later = sorted((one["sooner_s"], one["job"], one) for one in found if one["sooner_s"] < 0)
    return {
        way: [one for *_, one in jobs[:MOST_JOBS]] for way, jobs in (("sooner", sooner), ("later", later))
    }


def _left_out(unknown: Sequence[Run], since_t: int, until_t: int) -> Mapping[str, Any]:
    """What ran there and is on neither side."""
    jobs, gpu_s = set(), 0.0
    for run in unknown:
        ran_s = min(until_t, until_t if run.ended is None else run.ended) - max(since_t, run.started)
        if ran_s > 0:
            jobs.add(run.job)
            gpu_s += ran_s * sum(run.nodes.values())
    return {"jobs": len(jobs), "gpu_h": gpu_s / HOUR_S}


class Daily:
    """Writes yesterday's comparison, once: `shadow/2026-12-01.json` and `.txt` in the server's folder."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._log = structlog.get_logger("tenure.shadow")
        self._done = ""  #: the newest day that is written, or has nothing to write

    def look(self) -> None:
        """Write it, where it is not written yet and this server leads."""
        desk = self._desk
        midnight = datetime.fromtimestamp(desk.now(), UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        day = f"{midnight - DAY:%Y-%m-%d}"
        if day == self._done or desk.data is None or desk.daemon.view() is None:
            return
        if not desk.daemon.health().leader:
            return
        until_t = int(midnight.timestamp() - desk.start)
        folder = desk.data / FOLDER
        if until_t > 0 and not (folder / f"{day}.txt").exists():
            try:
                told = _compared(desk, max(0, until_t - int(DAY.total_seconds())), until_t)
            except BadInput as wrong:  # what was seen there contradicts itself: it will tomorrow as well
                self._log.warning("day not compared", day=day, why=str(wrong))
                self._done = day
                return
            folder.mkdir(mode=0o700, exist_ok=True)
            write_json(told, folder / f"{day}.json")
            with placed(folder / f"{day}.txt") as draft:
                draft.write_text(text_of(told), encoding="utf-8")
            theirs, ours = told["runs"]
            self._log.info(
                "day compared",
                day=day,
                file=str(folder / f"{day}.txt"),
                delivered_theirs=theirs["delivered"]["total"],
                delivered_tenure=ours["delivered"]["total"],
            )
        self._done = day
