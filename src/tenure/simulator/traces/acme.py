"""Shanghai AI Laboratory's Acme, `trace_seren.csv` and `trace_kalos.csv` (Hu et al., NSDI '24).

Seren: job_id, user, node_num, gpu_num, cpu_num, type, state, submit_time, start_time, end_time, duration,
queue, gpu_time. Kalos has mem_per_pod_GB, shared_mem_per_pod, fail_time and stop_time besides. Times name
their zone (+08:00 or +00:00). The `duration` of Kalos holds the time in the queue too (18 s where start
and end are 8 s apart, in the example of its own description), so end − start is taken.
https://github.com/InternLM/AcmeTrace
"""

from __future__ import annotations

from pathlib import Path

from tenure.simulator.traces.accounting import Layout, read_accounting
from tenure.simulator.traces.options import Options
from tenure.simulator.traces.trace import Trace

LAYOUT = Layout("acme", tenants=("user", "type"))


def read(file: Path, options: Options) -> Trace:
    """Jobs of either file; the tenant is the `user` (options.tenant: `type`, the kind of work)."""
    return read_accounting(file, options, LAYOUT)
