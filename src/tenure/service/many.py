"""Many plays at once: on all cores of this machine, or on the workers of a Dask cluster.

Finished plays are kept as they come, so that nothing is lost by Ctrl-C or by one play that fails.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from tenure.service.outputs import write_json
from tenure.service.readiness import kernels_ready
from tenure.settings.errors import BadInput

ProgressCall = Callable[[float, str], None]
SAVE_EVERY_S = 2.0  #: a long sweep's file is large: not after every play
LOOK_S = 0.3  #: how often the plays under way are looked at


class Play(NamedTuple):
    """One world under one policy; what a worker needs and no more."""

    source: str | Mapping[str, Any]
    policy: str | None
    set_: Mapping[str, str]
    seed: int | None
    label: str = ""  #: what its column is called; "": the policy's name


class Missed(NamedTuple):
    """A play that failed, in words that travel between processes. `refused`: the fields of a BadInput."""

    why: str
    refused: tuple[str, str, str, str] | None = None


Played = tuple[dict[str, Any], list[str], dict[str, Any]]  #: run, warnings, heading


@dataclass
class Runs:
    """What was asked for and what has been played; `runs` is in the order asked."""

    plays: list[Play]
    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    heading: dict[str, Any] = field(default_factory=dict)
    interrupted: bool = False
    kept_in: Path | None = None
    _saved_at: float = float("-inf")

    @property
    def asked(self) -> int:
        """Plays asked for."""
        return len(self.plays)

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Measures of the finished plays, with `policy` (a name), `seed` and `set` first."""
        return [self.done[index] for index in sorted(self.done)]

    def as_json(self) -> dict[str, Any]:
        """The content of the file that `--json` names."""
        return {"runs": self.runs, "asked": self.asked, "failures": self.failures}

    def keep(self, index: int, played: Played | Missed) -> None:
        """Note one play that ended, and now and then write all so far where they are to be kept.

        A wrong question is wrong for every play: BadInput.
        """
        if isinstance(played, Missed):
            if played.refused is not None:
                raise BadInput(*played.refused)
            play = self.plays[index]
            chosen = "".join(f" {key}={value}" for key, value in play.set_.items())
            self.failures.append(f"policy {play.policy or 'budget'}, seed {play.seed}{chosen}: {played.why}")
            return
        self.done[index], warnings, heading = played
        if self.plays[index].label:
            self.done[index]["policy"] = self.plays[index].label
        self.warnings += [w for w in warnings if w not in self.warnings]
        self.heading = self.heading or heading
        if time.monotonic() - self._saved_at > SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Write all that is played so far where it is to be kept."""
        if self.kept_in is not None and self.done:
            write_json(self.as_json(), self.kept_in)
        self._saved_at = time.monotonic()


def play_all(
    plays: list[Play],
    *,
    workers: int | None = None,
    dask: str | None = None,
    progress: ProgressCall | None = None,
    keep: Path | None = None,
) -> Runs:
    """Play each; Ctrl-C returns what is finished, with `interrupted` set.

    Raises BadInput where a question is wrong. Other failures of single plays are listed in `failures`.
    """
    runs = Runs(list(plays), kept_in=keep)
    wanted = min(workers or cores(), len(plays))
    try:
        if dask is not None:
            _on_dask(runs, dask, progress)
        elif wanted <= 1:
            _here(runs, progress)
        else:
            _on_cores(runs, wanted, progress)
    except KeyboardInterrupt:
        runs.interrupted = True
    finally:
        runs.save()
    return runs


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def play_one(play: Play, progress: ProgressCall | None = None) -> Played | Missed:
    """(measures led by policy, seed and set; warnings; heading) of one play. Runs in a worker."""
    try:
        return _played(play, progress)
    except BadInput as wrong:
        return Missed(str(wrong), (wrong.file, wrong.key_path, wrong.found, wrong.allowed))
    except Exception as problem:
        if os.environ.get("TENURE_TRACEBACK") == "1":
            traceback.print_exc()
        return Missed(f"{type(problem).__name__}: {problem}")


def _played(play: Play, progress: ProgressCall | None) -> Played:
    from tenure.service import replay

    played = replay.simulate(
        play.source, policy=play.policy, set_=play.set_, seed=play.seed, log_waits=False, progress=progress
    )
    measures = {key: value for key, value in played.measures.items() if key not in ("policy", "seed")}
    run = {
        "policy": played.heading["policy"],
        "seed": played.measures["seed"],
        "set": dict(play.set_),
        "knobs": played.measures["policy"],
        **measures,
    }
    return run, played.warnings, played.heading


def _here(runs: Runs, progress: ProgressCall | None) -> None:
    for index, play in enumerate(runs.plays):

        def moved(part: float, doing: str, index: int = index) -> None:
            assert progress is not None
            progress((index + part) / runs.asked, f"{index + 1} of {runs.asked}: {doing}")

        runs.keep(index, play_one(play, moved if progress else None))


def _on_cores(runs: Runs, workers: int, progress: ProgressCall | None) -> None:
    context = multiprocessing.get_context("spawn")  # numba and fork do not agree on threads
    parts = context.Array("d", runs.asked)
    with _pool(workers, context, parts) as pool:
        waiting: dict[Future[Any], int] = {}
        first = 0
        if not kernels_ready():  # compile once, not once a worker
            waiting[pool.submit(_in_worker, 0, runs.plays[0])] = 0
            _gather(runs, waiting, parts, progress)
            first = 1
        waiting = {pool.submit(_in_worker, i, runs.plays[i]): i for i in range(first, runs.asked)}
        _gather(runs, waiting, parts, progress)


@contextmanager
def _pool(workers: int, context: Any, parts: Any) -> Iterator[ProcessPoolExecutor]:
    """A pool that dies at once, with its plays, when it is left by an exception."""
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker, initargs=(parts,))
    before = set(multiprocessing.active_children())
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    pool.shutdown()


def _gather(runs: Runs, waiting: dict[Future[Any], int], parts: Any, progress: ProgressCall | None) -> None:
    """Keep what ends. `wait` of all futures holds their locks: Ctrl-C inside it, and the pool never ends."""
    ended: SimpleQueue[Future[Any]] = SimpleQueue()
    for future in list(waiting):
        future.add_done_callback(ended.put)
    while waiting:
        finished = []
        with suppress(Empty):
            finished.append(ended.get(timeout=LOOK_S))
            while True:
                finished.append(ended.get_nowait())
        for future in finished:
            index = waiting.pop(future)
            try:
                runs.keep(index, future.result())
            except BrokenProcessPool:
                runs.keep(index, Missed("its process died: out of memory? Ask for fewer --workers"))
        if progress is not None:
            progress(sum(parts) / runs.asked, f"{len(runs.done)} of {runs.asked} plays done")


_parts: Any = None  #: in a worker: how far each play is, shared with the process that asked


def _begin_worker(parts: Any) -> None:
    global _parts
    _parts = parts
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked


def _in_worker(index: int, play: Play) -> Any:
    def moved(part: float, doing: str) -> None:
        _parts[index] = part

    played = play_one(play, moved)
    _parts[index] = 1.0
    return played


def _on_dask(runs: Runs, address: str, progress: ProgressCall | None) -> None:
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise BadInput(
            "--dask", "", "no Dask in this installation", "the extra: pip install 'tenure[dask]'"
        ) from None
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError):
        raise BadInput("--dask", "", f"no answer from {address}", "the address of a Dask scheduler") from None
    with client:
        futures = {client.submit(play_one, play, pure=False): i for i, play in enumerate(runs.plays)}
        try:
            for future in as_completed(futures):
                runs.keep(futures[future], future.result())
                if progress is not None:
                    progress(len(runs.done) / runs.asked, f"{len(runs.done)} of {runs.asked} plays done")
        finally:
            client.cancel(list(futures))
