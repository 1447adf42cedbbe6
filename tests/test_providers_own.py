"""Windows on one's own cluster, by a real Slurm and a real Tenure server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from live_server import serving, wait_for
from slurm_site import SlurmSite, slurm
from tenure.engines.clock import RealClock
from tenure.providers.own import Own
from tenure.providers.own_reserving import SlurmReserving, TenureReserving
from tenure.providers.protections import Protections
from tenure.providers.protocol import ACTIVE, Ask, Expired, NotSent, Refused
from tenure.runs.buying import buy
from tenure.runs.signing import Plan, Rules, sign
from tenure.service.run_place import AskedBook, database

TAG = ("tenure:run", "run-1")
RULES = Rules(b"key", settle_s=5.0, look_s=0.2)
__all__ = ["slurm"]


def taken(own: Own, folder: Path, nodes: int) -> str:
    """Buy the soonest window of one's own; its id."""
    (offer,) = own.offers(Ask("", nodes, 1))
    with database(folder) as db:
        book = AskedBook(db, "run-1", RealClock())
        plan_id = sign(book, Plan("run-1", offer, offer.fee, nodes), "ann", RULES, time.time())
        bought = buy(book, own, plan_id, RULES, RealClock())
        assert buy(book, own, plan_id, RULES, RealClock()) == bought
    return bought.window


@pytest.mark.slow
def test_slurm_reserves_nodes_for_a_run_once_and_gives_them_by_name(slurm: SlurmSite, tmp_path: Path) -> None:
    by = SlurmReserving("root", env={"SLURM_CONF": str(slurm.conf)})
    assert by.held() == []
    assert set(slurm.nodes) <= set(by.usable())
    own = Own(by, slurm.nodes[:8], 8, tmp_path / "own.json", RealClock())
    before = time.time()
    window = taken(own, tmp_path, 6)
    after = time.time()
    try:
        (held,) = by.held()
        assert (held.name, held.nodes) == (window, tuple(slurm.nodes[:6]))
        assert held.end - held.start == 3600
        assert held.start % 900 == 0, "at a quarter of an hour"
        assert before + 60 <= held.start <= after + 60 + 900
        assert [one.id for one in own.windows(tag=("tenure:intent", window))] == [window]
        (later,) = own.offers(Ask("", 8, 1))
        assert later.start == held.end
        with pytest.raises(Refused, match="scontrol"):
            by.reserve(window, slurm.nodes[:6], held.start, held.end)
        with pytest.raises(Expired):
            own.launch("t", 6, 6, own.windows()[0], dict([TAG]))
    finally:
        slurm.run("scontrol", "delete", f"ReservationName={window}")
    assert own.windows() == []


@pytest.mark.slow
def test_a_slurm_that_is_not_there_is_no_answer() -> None:
    by = SlurmReserving("root", env={"SLURM_CONF": "/nowhere/slurm.conf"}, timeout_s=2.0)
    with pytest.raises(NotSent, match="scontrol"):
        by.held()


@pytest.mark.slow
def test_a_tenure_server_takes_nodes_out_of_service_for_a_run_and_protects_a_job_of_one(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as served, served.client() as lab, served.client("ann") as ann:
        names = sorted(node.node for node in lab.nodes())
        own = Own(TenureReserving(lab), names, 8, tmp_path / "own.json", RealClock())
        window = taken(own, tmp_path / "book", 2)
        (held,) = own.windows([window])
        assert (held.nodes, held.end - held.start) == (2, 3600.0)
        assert [one.reason for one in lab.reservations()] == [f"run {held.tags['tenure:intent']}"]
        guarded = Protections(ann, "big-run", 2, 8, tmp_path / "lab.json", RealClock())
        (before,) = guarded.windows()
        assert (before.state, before.said, before.promised) == (ACTIVE, "no job runs", False)
        job = ann.submit(
            account="language/olmo", gpus=8, min_runtime="20m", name="big-run-1", command=["sleep", "3600"]
        ).job
        wait_for("the job runs", lambda: ann.show(job).phase == "running")
        (now,) = guarded.windows(["lab"])
        assert (now.said, now.soft, now.end - now.start) == ("protected", True, 1200.0)
        assert len(guarded.launch("t", 2, 2, now, dict([TAG]))) == 2
        assert guarded.health(now).free == 0
        guarded.terminate([node.id for node in guarded.nodes(TAG)])
        assert guarded.nodes(TAG) == []
        with pytest.raises(Refused, match="sells no windows"):
            guarded.buy(own._offer(2, "", 0.0, 1.0), "intent")
