"""How fast do processes here all-reduce over gloo? The fall-back where there are no GPUs or nccl-tests.

Real, and no measure of a gang's network: it says that processes meet, agree and add up right.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tenure.runs.preflight_gang import AllReduce, Row

PROGRAM = """
import json, sys, time
import torch, torch.distributed as dist
rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
rows = []
for size in (1 << 20, 4 << 20, 16 << 20):
    told = torch.full((size // 4,), float(rank + 1))
    dist.all_reduce(told.clone())
    times = []
    for _ in range(5):
        mine = told.clone()
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(mine)
        times.append(time.perf_counter() - began)
    wrong = int((mine != world * (world + 1) / 2).sum())
    took = sorted(times)[2]
    rows.append([size, took, size / took * 2 * (world - 1) / world / 1e9, wrong])
if rank == 0:
    open(f"{folder}/rows", "w").write(json.dumps(rows))
dist.destroy_process_group()
"""


def gloo_all_reduce(ranks: int = 2, bound_s: float = 60.0) -> AllReduce | None:
    """Measure it with so many processes; None where torch is not installed or they did not come to an end."""
    if importlib.util.find_spec("torch") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="tenure-gloo-") as folder:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(rank), str(ranks), folder],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for rank in range(ranks)
        ]
        try:
            for process in started:
                if process.wait(bound_s):
                    return None
        except subprocess.TimeoutExpired:
            return None
        finally:
            for process in started:
                process.kill()
                process.wait()
        rows = json.loads((Path(folder) / "rows").read_text(encoding="utf-8"))
    return AllReduce(ranks, tuple(Row(*row) for row in rows))
