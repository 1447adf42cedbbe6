"""Where in a lab a job may run: its account's row, and the clusters that may and can hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenure.settings.errors import BadInput, dotted, nearest
from tenure.settings.job import JobFile
from tenure.settings.lab_tables import Holder


def account_row(rows: Mapping[str, int], path: str, file: str, where: str) -> int:
    """Row of the account of that path, or BadInput with the nearest ones."""
    if path not in rows:
        raise BadInput(file, where, f"the unknown account '{path}'", nearest(path, [p for p in rows if p]))
    return rows[path]


def clusters_for(job: JobFile, holder: Holder, file: str, at: Sequence[Any] = ()) -> int:
    """
    Bits of the clusters that may and can hold the job. `at`: where the job stands in `file`.

    Raises BadInput for an unknown cluster or GPU type, or a size that nothing can hold.
    """
    lab = holder.lab
    asked: Sequence[int] = range(len(lab.clusters))
    if job.clusters is not None:
        for name in job.clusters:
            if name not in lab.clusters:
                found = f"the unknown cluster '{name}'"
                raise BadInput(file, dotted([*at, "clusters"]), found, nearest(name, lab.clusters))
        asked = [lab.clusters.index(name) for name in dict.fromkeys(job.clusters)]
    types = list(dict.fromkeys(node.gpu for node in lab.nodes if node.gpu is not None))
    if job.gpu is not None and job.gpu not in types:
        found = f"the unknown GPU type '{job.gpu}'"
        raise BadInput(file, dotted([*at, "gpu"]), found, nearest(job.gpu, types))
    bits = holder.clusters(job.gpus, gpu=job.gpu, same_rack=job.same_rack)
    bits &= sum(1 << cluster for cluster in asked)
    if not bits:
        allowed = holder.allowed(list(asked), gpu=job.gpu, same_rack=job.same_rack)
        raise BadInput(file, dotted([*at, "gpus"]), f"{job.gpus}, which no cluster can hold", allowed)
    return bits
