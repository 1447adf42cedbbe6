"""SenseTime Helios, `cluster_log.csv` (Hu et al., SC '21): jobs of a Slurm cluster with virtual clusters.

Columns: job_id, user, vc, gpu_num, cpu_num, node_num, state, submit_time, start_time, end_time, duration,
queue. Times name no zone. Jobs of 0 GPUs are CPU jobs. https://github.com/S-Lab-System-Group/HeliosData
"""

from __future__ import annotations

from pathlib import Path

from tenure.simulator.traces.accounting import Layout, read_accounting
from tenure.simulator.traces.options import Options
from tenure.simulator.traces.trace import Trace

LAYOUT = Layout("helios", tenants=("vc", "user"))


def read(file: Path, options: Options) -> Trace:
    """Jobs of a `cluster_log.csv`; the tenant is the virtual cluster (options.tenant: `user`)."""
    return read_accounting(file, options, LAYOUT)
