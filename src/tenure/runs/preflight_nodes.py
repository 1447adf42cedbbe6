"""Is a node healthy? Read from what its tools print: nvidia-smi's CSV and NVLink status, DCGM's diagnosis.

The layouts are those of the tools' documentation (`nvidia-smi --help-query-gpu`, `nvidia-smi nvlink
--status`, `dcgmi diag -j`); what was not understood is unknown, not healthy. A test that DCGM skipped has
tested nothing.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from typing import Any

from tenure.runs.preflight import FAIL, PASS, UNKNOWN, Outcome

#: Asked of `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`, or with a head.
SMI_FIELDS = (
    "index",
    "name",
    "uuid",
    "pci.bus_id",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "clocks_event_reasons.hw_slowdown",
    "pcie.link.width.current",
    "pcie.link.width.max",
)
SMI_COMMAND = ("nvidia-smi", f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv")
NOT_TOLD = ("N/A", "[N/A]", "[NOT SUPPORTED]", "[NOT FOUND]", "[UNKNOWN ERROR]", "")
#: What DCGM calls a failure of its software check though nothing is broken.
SETTING = re.compile(r"persistence mode", re.IGNORECASE)


def smi_health(text: str, gpus: int | None = None) -> Outcome:
    """Of the CSV with its head that SMI_COMMAND prints. `gpus`: how many there should be."""
    rows = list(csv.reader(io.StringIO(text.strip()), skipinitialspace=True))
    if not rows or "index" not in [_field(name) for name in rows[0]]:
        return Outcome(UNKNOWN, "nvidia-smi printed no table of GPUs")
    names = [_field(name) for name in rows[0]]
    found = [dict(zip(names, row)) for row in rows[1:] if row]
    wrong: list[str] = []
    if gpus is not None and len(found) != gpus:
        wrong.append(f"{len(found)} GPUs, {gpus} expected")
    unknown = 0
    for gpu in found:
        who = f"GPU {gpu.get('index', '?')}"
        wrong += [f"{who}: {what}" for what in _of_gpu(gpu)]
        ecc = gpu.get("ecc.errors.uncorrected.volatile.total", "")
        unknown += ecc.upper() in NOT_TOLD
    kinds = {gpu["name"] for gpu in found if "name" in gpu}
    if len(kinds) > 1:
        wrong.append(f"GPUs of different kinds: {', '.join(sorted(kinds))}")
    if wrong:
        return Outcome(FAIL, "; ".join(wrong[:6]), {"gpus": len(found), "wrong": wrong})
    if not found or unknown:
        what = "no GPU" if not found else f"{unknown} GPUs do not tell their ECC errors"
        return Outcome(UNKNOWN, what, {"gpus": len(found)})
    return Outcome(PASS, f"{len(found)} GPUs, no uncorrected ECC errors", {"gpus": len(found)})


def nvlink_health(text: str, links: int | None = None) -> Outcome:
    """Of `nvidia-smi nvlink --status`. `links`: how many each GPU should have up."""
    per_gpu: dict[str, list[bool]] = {}
    gpu = ""
    for line in text.splitlines():
        if named := re.match(r"GPU (\d+):", line.strip()):
            gpu = named[1]
            per_gpu[gpu] = []
        elif gpu and (link := re.match(r"Link (\d+): (.+)", line.strip())):
            per_gpu[gpu].append("inactive" not in link[2].lower() and "GB/s" in link[2])
    if not per_gpu:
        return Outcome(UNKNOWN, "nvidia-smi printed no links")
    wrong = []
    most = max(len(up) for up in per_gpu.values())
    for which, up in per_gpu.items():
        expected = most if links is None else links
        if sum(up) < expected:
            wrong.append(f"GPU {which}: {sum(up)} of {expected} links up")
    if wrong:
        return Outcome(FAIL, "; ".join(wrong[:6]), {"wrong": wrong})
    return Outcome(PASS, f"{len(per_gpu)} GPUs with {links or most} links up each")


def dcgm_health(text: str) -> Outcome:
    """Of `dcgmi diag -r LEVEL -j`, DCGM 3 ("DCGM GPU Diagnostic") or 4 ("DCGM Diagnostic")."""
    try:
        told = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError:
        return Outcome(UNKNOWN, "dcgmi printed no JSON")
    body = next((told[key] for key in ("DCGM Diagnostic", "DCGM GPU Diagnostic") if key in told), None)
    categories = body.get("test_categories") if isinstance(body, dict) else None
    if not isinstance(categories, list):
        return Outcome(UNKNOWN, "dcgmi's JSON has no test_categories")
    passed, failed, skipped, notes = 0, [], [], []
    for category in categories:
        for test in category.get("tests", ()):
            for result in test.get("results", ()):
                name = f"{category.get('category')}/{test.get('name')}"
                status, why = str(result.get("status", "")).lower(), _warnings(result)
                who = result.get("gpu_id", result.get("gpu_ids", result.get("entity_id")))
                said = f"{name}{'' if who is None else f' on GPU {who}'}{f': {why}' if why else ''}"
                if status == "pass":
                    passed += 1
                elif status in ("fail", "warn") and why and SETTING.search(why):
                    notes.append(said)
                elif status in ("fail", "warn"):
                    failed.append(said)
                else:
                    skipped.append(name)
    numbers = {"passed": passed, "failed": failed, "skipped": sorted(set(skipped)), "notes": notes}
    if failed:
        return Outcome(FAIL, "; ".join(failed[:4]), numbers)
    if skipped or not passed:
        what = f"{', '.join(sorted(set(skipped))[:4])} not tested" if skipped else "nothing was tested"
        return Outcome(UNKNOWN, what, numbers)
    noted = f"; but {notes[0]}" if notes else ""
    return Outcome(PASS, f"{passed} tests passed{noted}", numbers)


def _field(name: str) -> str:
    """`clocks.gr [MHz]` without its unit."""
    return re.sub(r"\s*\[.*\]$", "", name.strip())


def _of_gpu(gpu: Mapping[str, str]) -> list[str]:
    wrong = []
    errors = gpu.get("ecc.errors.uncorrected.volatile.total", "")
    if errors.isdigit() and int(errors) > 0:
        wrong.append(f"{errors} uncorrected ECC errors")
    for key, what in (
        ("remapped_rows.pending", "rows wait to be remapped (reset it)"),
        ("remapped_rows.failure", "remapping rows failed (replace it)"),
        ("clocks_event_reasons.hw_slowdown", "slowed down by its hardware"),
        ("clocks_throttle_reasons.hw_slowdown", "slowed down by its hardware"),
    ):
        if gpu.get(key, "").strip().lower() in ("yes", "1", "active"):
            wrong.append(what)
    width, most = gpu.get("pcie.link.width.current", ""), gpu.get("pcie.link.width.max", "")
    if width.isdigit() and most.isdigit() and int(width) < int(most):
        wrong.append(f"PCIe at {width} of {most} lanes")
    if gpu.get("ecc.mode.current", "").lower() == "disabled":
        wrong.append("ECC is off")
    return wrong


def _warnings(result: Mapping[str, Any]) -> str:
    """Its warnings as one line; a text, a list of texts, or of mappings, by version."""
    told = result.get("warnings", "")
    if isinstance(told, list):
        told = "; ".join(str(one.get("warning", one)) if isinstance(one, dict) else str(one) for one in told)
    return " ".join(str(told).split())[:200]
