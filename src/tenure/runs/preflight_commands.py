"""What do a node's tools, a benchmark and a short training say? Commands, run within their time.

A command that is not there or does not come to an end answers unknown; one that ends otherwise than with 0 is
read all the same, since diagnoses do so to say that they found something.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tenure.runs.gloo_loop import gloo_all_reduce
from tenure.runs.heartbeats import read_beats
from tenure.runs.hook import Hook
from tenure.runs.pilot import NoPilot, Pilot, read_pilot
from tenure.runs.preflight import FAIL, PASS, UNKNOWN, Outcome
from tenure.runs.preflight_gang import gate, read_nccl
from tenure.runs.preflight_nodes import dcgm_health, nvlink_health, smi_health
from tenure.trainer.words import DRAINED_STATE, FINISHED, HOOK

MOST_OUTPUT = 4 << 20
LOOK_S = 0.2


class Said(NamedTuple):
    """What a command printed; `trouble` where it did not run to its end."""

    text: str
    code: int | None = None
    trouble: str = ""


def ask(words: Sequence[str], bound_s: float, folder: Path, env: Mapping[str, str] | None = None) -> Said:
    """Run it in `folder`, for so long at most; all its processes are gone afterwards."""
    with tempfile.TemporaryFile() as out:
        try:
            process = subprocess.Popen(
                list(words), cwd=folder, env=None if env is None else dict(env), stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as no:
            return Said("", trouble=f"{words[0]} cannot be run: {no.strerror}")
        trouble = ""
        try:
            process.wait(bound_s)
        except subprocess.TimeoutExpired:
            trouble = f"{words[0]} was not done within {bound_s:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        return Said(out.read(MOST_OUTPUT).decode("utf-8", "replace"), process.returncode, trouble)


def image(words: Sequence[str], digest: str, bound_s: float, folder: Path) -> Outcome:
    """Whether the digest is among what the command prints."""
    said = ask(words, bound_s, folder)
    if said.trouble:
        return Outcome(UNKNOWN, said.trouble)
    if digest in said.text:
        return Outcome(PASS, f"{digest[:30]} is there")
    found = (said.text.strip().splitlines() or ["nothing"])[0][:80]
    return Outcome(FAIL, f"{digest[:30]} is wanted, found: {found}")


def health(
    commands: Mapping[str, Sequence[str] | None],
    nodes: Sequence[str],
    *,
    gpus: int | None,
    links: int | None,
    bound_s: float,
    folder: Path,
) -> Outcome:
    """All nodes, by each of `smi`, `nvlink`, `dcgm` that has a command. The worst answer names its node."""
    readers: dict[str, Callable[[str], Outcome]] = {
        "smi": lambda text: smi_health(text, gpus),
        "nvlink": lambda text: nvlink_health(text, links),
        "dcgm": dcgm_health,
    }
    until = time.monotonic() + bound_s
    found: dict[str, list[str]] = {PASS: [], FAIL: [], UNKNOWN: []}
    bad: list[str] = []
    for tool, words in commands.items():
        if words is None:
            continue
        each: Sequence[str] = nodes if any("{node}" in word for word in words) else ("",)
        for node in each:
            left = max(1.0, until - time.monotonic())
            said = ask([word.replace("{node}", node) for word in words], left, folder)
            outcome = Outcome(UNKNOWN, said.trouble) if said.trouble else readers[tool](said.text)
            found[outcome.state].append(f"{node}: {outcome.text}" if node else outcome.text)
            if outcome.state == FAIL and node:
                bad.append(node)
    state = next((one for one in (FAIL, UNKNOWN, PASS) if found[one]), UNKNOWN)
    text = "; ".join(found[state][:3]) or "no tool was named"
    if state == PASS and len(found[PASS]) > 1:
        text = f"{len(found[PASS])} answers, all well: {found[PASS][0]}"
    numbers = {"bad_nodes": sorted(set(bad)), **{one: len(lines) for one, lines in found.items()}}
    return Outcome(state, text, numbers)


def all_reduce(
    words: Sequence[str] | None,
    output: Path | None,
    *,
    expected: float | None,
    share: float,
    ranks: int | None,
    bound_s: float,
    folder: Path,
) -> Outcome:
    """nccl-tests where there is a command for it, else the loop over gloo on this machine."""
    if words is None:
        found = gloo_all_reduce(ranks or 2, bound_s)
        if found is None:
            return Outcome(UNKNOWN, "no command is named, and gloo cannot be tried here")
        outcome = gate(found, expected, share)
        text = f"gloo on this machine, which is no measure of the network: {outcome.text}"
        # right sums are shown; how fast the gang's network is, is not
        return Outcome(outcome.state if outcome.state == FAIL else UNKNOWN, text, outcome.numbers)
    said = ask(words, bound_s, folder)
    if said.trouble:
        return Outcome(UNKNOWN, said.trouble)
    text = said.text
    if output is not None:
        try:
            text = output.read_text(encoding="utf-8")
        except OSError as no:
            return Outcome(UNKNOWN, f"it wrote no {output.name}: {no.strerror}")
    return gate(read_nccl(text), expected, share, ranks)


def probe(
    words: Sequence[str],
    *,
    steps: int,
    nodes: int | None,
    planned: float | None,
    share: float,
    bound_s: float,
    folder: Path,
) -> tuple[Outcome, Pilot | None]:
    """Train so many steps, drain, and read the speed. `planned`: tokens per second per GPU of the plan."""
    with tempfile.TemporaryDirectory(prefix="tenure-probe-") as place:
        hook = Hook(Path(place) / "hook")
        env = {**os.environ, HOOK: str(hook.folder), "TENURE_RUN_ATTEMPT": "0", "TENURE_BEAT_S": "0.5"}
        with (Path(place) / "log").open("wb") as log:
            try:
                process = subprocess.Popen(
                    list(words), cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
            except OSError as no:
                return Outcome(UNKNOWN, f"{words[0]} cannot be run: {no.strerror}"), None
            trouble = _until_drained(process, hook, steps, bound_s)
        said = (Path(place) / "log").read_text("utf-8", "replace").strip().splitlines()[-1:]
        beats = read_beats(hook.folder)
        try:
            pilot = read_pilot(hook.folder, nodes)
        except NoPilot as no:
            return Outcome(UNKNOWN, trouble or f"{no}; it said: {said[0][:120] if said else 'nothing'}"), None
    return _speed(pilot, planned, share, trouble, [beat.state for beat in beats.values()]), pilot


def _until_drained(process: subprocess.Popen[bytes], hook: Hook, steps: int, bound_s: float) -> str:
    """Ask for the drain once the steps are done; end it where it takes too long. What was wrong, or ""."""
    until, asked = time.monotonic() + bound_s, False
    try:
        while process.poll() is None:
            beats = read_beats(hook.folder)
            if (
                not asked
                and beats
                and min(beat.step for beat in beats.values()) >= _begun(hook.folder) + steps
            ):
                asked = True
                body: dict[str, Any] = {"id": "probe", "kind": "drain", "reason": "enough steps for a probe"}
                hook.ask({**body, "deadline": time.time() + bound_s, "attempt": 0})
            if time.monotonic() > until:
                return f"it was not done within {bound_s:g} s"
            time.sleep(LOOK_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return "" if process.returncode == 0 else f"it ended with {process.returncode}"


def _begun(folder: Path) -> int:
    """The step from which it went on: a probe that resumes does not begin at 0."""
    from tenure.runs.heartbeats import read_lines

    return next((beat.step for beat in read_lines(folder) if beat.step >= 0), 0)


def _speed(pilot: Pilot, planned: float | None, share: float, trouble: str, states: list[str]) -> Outcome:
    numbers: dict[str, Any] = {"mean": pilot.mean, "sd": pilot.sd, "plan": pilot.fragment()}
    text = f"{pilot.mean:.4g} tokens/s a GPU (± {pilot.sd:.2g})"
    if planned is not None:
        text += f", {pilot.mean / planned:.0%} of the plan's {planned:.4g}"
        numbers["of_plan"] = pilot.mean / planned
    if trouble:
        return Outcome(UNKNOWN, f"{text}; but {trouble}", numbers)
    if any(state not in (DRAINED_STATE, FINISHED) for state in states):
        return Outcome(FAIL, f"{text}; but it did not drain: {', '.join(sorted(set(states)))}", numbers)
    if planned is not None and pilot.mean < share * planned:
        return Outcome(FAIL, f"{text}: plan again with what it shows", numbers)
    return Outcome(PASS, text, numbers)
