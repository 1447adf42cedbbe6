"""How many GPUs a text of Slurm names: trackable resources, or the older generic resources."""

from __future__ import annotations

import re

#: gres/gpu=8, gres/gpu:a100=8; not gres/gpumem, gres/gpuutil, gres/shard.
TRES = re.compile(r"^gres/gpu(?P<type>:[^=]*)?=(?P<count>\d+)$")
#: gpu, gpu:8, gpu:a100:8, gres:gpu:2, gres/gpu:a100:2, gpu:8(S:0-1), gpu(S:0).
GRES = re.compile(
    r"^(?:PER_\w+:)?(?:gres[:/])?gpu(?::(?P<type>[^:=()]+?))??(?:[:=](?P<count>\d+))?(?:\(.*\))?$"
)
AFTER_BRACKETS = re.compile(r",(?![^(]*\))")


def gpus_of(text: str) -> float:
    """GPUs in a text like `billing=64,cpu=64,gres/gpu=8,gres/gpu:a100=8` or `gpu:a100:4`; 0 where none.

    A total and its parts by type are not added: the total counts where it is there.
    """
    total, by_type = None, 0
    for item in AFTER_BRACKETS.split(text.strip()):
        match = TRES.match(item.strip()) or GRES.match(item.strip())
        if match is None:
            continue
        count = 1 if match["count"] is None else int(match["count"][:12])
        if match["type"]:
            by_type += count
        else:
            total = (total or 0) + count
    return float(by_type if total is None else total)
