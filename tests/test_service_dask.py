"""A sweep on the workers of a Dask scheduler gives what one process gives (needs the extra `dask`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.service.sweep import sweep
from tenure.settings.errors import BadInput

QUICK = Path(__file__).resolve().parent.parent / "examples" / "quick.yaml"
VALUES = {"policy.max_protected": ["2h", "8h"]}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the library's own sockets and loops
def test_a_sweep_is_the_same_on_dask_workers() -> None:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        afar = sweep(QUICK, VALUES, dask=cluster.scheduler_address)
    here = sweep(QUICK, VALUES, workers=1)
    for run in (*afar.runs, *here.runs):
        run.pop("speed")
    assert afar.runs == here.runs
    with pytest.raises(BadInput, match="no answer"):
        sweep(QUICK, VALUES, dask="tcp://127.0.0.1:9")
