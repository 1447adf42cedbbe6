"""Turns for tests of the record: each writes a bit of everything, and all of it tells its number."""

from __future__ import annotations

import json
from typing import Any

from tenure.ledger.records import AttemptRow, JobRow, OrderRow, TurnRow

LAB = "a lab"


def event(t: int, job: str, kind: str = "submitted", **more: Any) -> str:
    return json.dumps({"event": kind, "t": t, "job": job, "account": "vision", **more})


def job_row(job: str, **over: Any) -> JobRow:
    row = JobRow(
        job=job,
        account="vision",
        user="ann",
        phase="waiting",
        end="",
        submitted_t=1,
        ended_t=None,
        gpus=8,
        min_runtime_s=3600,
        spec={"gpus": 8, "command": ["python", "train.py"], "env": {"A": "b"}},
    )
    return row._replace(**over)


def attempt_row(job: str, attempt: int, **over: Any) -> AttemptRow:
    row = AttemptRow(
        job=job,
        attempt=attempt,
        nodes={"n0": 8},
        started_t=5,
        protected_until_t=3605,
        stopped_t=None,
        end="",
        reason="owed",
    )
    return row._replace(**over)


def order_row(id_: str, turn: int, **over: Any) -> OrderRow:
    return OrderRow(id=id_, turn=turn, kind="start", job="j", body={"nodes": {"n0": 8}})._replace(**over)


def turn_row(turn: int, **over: Any) -> TurnRow:
    """A turn that writes two events, a job, an attempt and an order; a keyframe every fifth."""
    row = TurnRow(
        turn=turn,
        t=turn,
        at=1000.5 + turn,
        news=[["submitted", f"j{turn}"]],
        patch={"stays": {"phase": [[turn, 2]]}},
        digest=f"digest {turn}",
        code="code 1",
        keyframe=b"state after %d" % turn if turn % 5 == 0 else None,
        events=[event(turn, f"j{turn}"), event(turn, f"j{turn}", "started", attempt=1)],
        jobs=[job_row(f"j{turn}", submitted_t=turn)],
        attempts=[attempt_row(f"j{turn}", 1, started_t=turn)],
        orders=[order_row(f"o{turn}", turn, job=f"j{turn}")],
        answers=[],
    )
    return row._replace(**over)


def bare_turn(turn: int, **over: Any) -> TurnRow:
    """A turn that writes nothing but itself and what is given."""
    return turn_row(turn, keyframe=None, events=[], jobs=[], attempts=[], orders=[])._replace(**over)
