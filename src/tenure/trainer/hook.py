"""What does a training loop call? `poll` after each step: go on, save, or save and leave by a deadline.

    hook = Hook.from_env(agree=over_torch(), sync=torch.cuda.synchronize)
    for step in …:
        …train one step…
        answer = hook.poll(step, tokens)
        if answer.saves:
            with hook.saving(step, tokens):
                …write and commit a checkpoint…
        if answer.drains:
            sys.exit(hook.leave())
    sys.exit(hook.finish())

All ranks poll at the same steps and get the same answer at the same step. What happens to the hook folder,
the clock or the controller never raises here: it is said (`troubles`, the heartbeat, the log), and training
goes on.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

from tenure.trainer import words
from tenure.trainer.agreement import Agreement, alone, as_answer, as_numbers, mark
from tenure.trainer.place import Place, place_of
from tenure.trainer.progress import Progress, stack_of
from tenure.trainer.signals import Signals
from tenure.trainer.steady_clock import SteadyClock
from tenure.trainer.watcher import USUAL, Times, Watcher, log
from tenure.trainer.wishes import Asked, Rungs, asked_of, covered, rungs_of, wish
from tenure.trainer.words import DRAIN, GO_ON, TRAIN, Answer


class SaveFailed(RuntimeError):
    """A save failed on this or another rank in a way that is no fault of the store: all ranks stop."""


class Saving:
    """One save under way."""

    def __init__(self) -> None:
        self.committed = False  #: after the block: every rank's part succeeded
        self.later = False  #: set it where the save goes on behind the steps; `hook.committed` tells its end
        self.failed = ""  #: why not


class Hook:
    """One process's end of the hook."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        place: Place | None = None,
        *,
        agree: Agreement = alone,
        sync: Callable[[], object] = lambda: None,
        every: int = 1,
        store_errors: tuple[type[Exception], ...] = (OSError,),
        signals: Signals | None = None,
        clock: SteadyClock | None = None,
        times: Times = USUAL,
        env: Mapping[str, str] | None = None,
        thread: bool = True,
    ) -> None:
        """`agree`: over all ranks; `sync`: waits for the device; `every`: steps between agreements.

        `store_errors`: what a save may raise for the store's reasons: training goes on without that save.
        """
        self.env = dict(os.environ if env is None else env)
        self.place = place_of(self.env) if place is None else place
        self.agree, self.sync, self.every = agree, sync, max(1, every)
        self.store_errors = store_errors
        self.clock = SteadyClock() if clock is None else clock
        self.times = times
        self.signals = Signals() if signals is None else signals
        self.progress = Progress(self.place, self.clock.now, self.clock.ticks)
        self.leaving: Answer | None = None
        self.unsafe = self.where = ""
        self._thread = threading.get_ident()
        self._answered: set[int] = set()
        self._pending: float | None = None
        self._begun: dict[int, tuple[float, frozenset[int]]] = {}  #: by step: when, and the marks of what for
        self._asked_for: frozenset[int] = frozenset()
        self._kept: set[int] = set()  #: marks of that for which a committed save was begun
        self._saved = -float("inf")  #: when the newest committed save was begun, by the steady clock
        self._pid, self._closed = os.getpid(), False
        path = None if folder is None else Path(folder)
        self.watcher = Watcher(path, self.place.rank, self.clock, times, self.env)
        self.watcher.body, self.watcher.check = self._body, self._check
        self.watcher._logs_each = self.place.local_rank == 0
        self.signals.install()
        if self.signals.trouble:
            self.watcher.trouble("signals", self.signals.trouble)
        if path is not None:
            with contextlib.suppress(OSError):
                path.mkdir(parents=True, exist_ok=True)
        if thread:
            self.watcher.start()
        else:
            self.watcher.turn()

    @classmethod
    def from_env(
        cls,
        *,
        agree: Agreement = alone,
        sync: Callable[[], object] = lambda: None,
        every: int = 1,
        store_errors: tuple[type[Exception], ...] = (OSError,),
    ) -> Hook:
        """The hook of the folder that TENURE_HOOK names; without it, only signals are heard."""
        folder = os.environ.get(words.HOOK) or None
        beat_s = float(os.environ.get(words.BEAT_S) or USUAL.beat_s)
        times = USUAL._replace(beat_s=beat_s, look_s=min(USUAL.look_s, beat_s), still_s=3 * beat_s)
        return cls(folder, agree=agree, sync=sync, every=every, store_errors=store_errors, times=times)

    # --- each step ----------------------------------------------------------------------------------

    def poll(self, step: int, tokens: float, kind: str = TRAIN) -> Answer:
        """What to do now. Called by every rank, after the same step (or piece of an evaluation).

        `step`, `tokens`: of the whole run, this step included. `kind`: what was just done: train, eval,
        warm-up or data. After a drain was agreed every call says so again.
        """
        self.progress.reached(step, tokens, kind)
        if not self.watcher.own_thread:
            self.watcher.turn()
        if self.leaving is not None:
            return self.leaving
        if kind == TRAIN and step % self.every:
            return GO_ON
        mine = self._wish()
        answer, which = as_answer(self.agree(as_numbers(mine)), mine)
        if answer.saves:
            self._act(answer, which)
        return answer

    def alive(self, kind: str) -> Answer:
        """Still at it, between two polls: what this rank alone has heard. Nothing is agreed, nobody waits.

        For loops that may run differently on each rank (waiting for data, compiling). Where the answer is not
        to go on, come to the next `poll` soon.
        """
        self.progress.reached(self.progress.step, self.progress.tokens, kind)
        if not self.watcher.own_thread:
            self.watcher.turn()
        return self.leaving if self.leaving is not None else self._wish()

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong now, a line each, with what the trainer does about it."""
        return tuple(self.watcher.troubles.values())

    def agreed(self, here: bool) -> bool:
        """Whether it is so on any rank. Called by every rank at the same place."""
        return bool(self.agree([int(here), 0])[0])

    def room_for_save(self) -> bool:
        """Whether a save nobody asked for may begin: on all ranks it is done before the drain is due."""
        return not self.agreed(not self.rungs.leaves_room(self.clock.now()))

    # --- saves --------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def saving(self, step: int, tokens: float | None = None) -> Iterator[Saving]:
        """Around the writing of a checkpoint, on every rank: it is timed, and its success agreed.

        What the store raises (`store_errors`) is swallowed and said: `committed` is False then on all ranks.
        Anything else is raised on, and SaveFailed on the other ranks.
        """
        progress, saving = self.progress, Saving()
        progress.spend(TRAIN)
        before, begun = progress.state, self.clock.ticks()
        asked_for, self._asked_for = self._asked_for, frozenset()
        progress.enter(words.DRAINING if self.leaving else words.SAVING)
        self._soon()
        other: Exception | None = None
        try:
            yield saving
        except self.store_errors as refused:
            saving.failed = str(refused) or type(refused).__name__
        except Exception as problem:
            saving.failed, other = f"{type(problem).__name__}: {problem}", problem
        progress.spend(words.SAVING)
        progress.enter(words.DRAINING if self.leaving else before)
        worst = self.agree([2 if other else 1 if saving.failed else 0, 0])[0]
        if worst:
            self._save_failed(step, saving.failed or "on another rank", worst == 2)
            if other is not None:
                raise other
            if worst == 2:
                raise SaveFailed(f"the save of step {step} failed on another rank")
        else:
            self._begun[step] = (begun, asked_for)
            if not saving.later:
                saving.committed = True
                self.committed(step, tokens)
        self._soon()

    def committed(self, step: int, tokens: float | None = None) -> None:
        """This step's checkpoint is durable and verified. `saving` says so itself unless it is `later`."""
        if step in self._begun:
            begun, asked_for = self._begun.pop(step)
            self.progress.saves.add(self.clock.ticks() - begun)
            self._saved = max(self._saved, begun)
            self._kept |= asked_for
            self._asked(self.clock.now(), self.rungs)
        if step >= self.progress.committed_step:
            self.progress.committed_step = step
            self.progress.committed_tokens = self.progress.tokens if tokens is None else float(tokens)
        self.progress.failed_saves = 0
        self.watcher.trouble("saving", "")
        self._touch(words.SAVED)

    def resumed(self, step: int, tokens: float) -> None:
        """It goes on from this committed checkpoint: nothing up to its step has to be saved again."""
        if step > self.progress.committed_step:
            self.progress.committed_step, self.progress.committed_tokens = step, float(tokens)

    # --- leaving ------------------------------------------------------------------------------------

    def leave(self) -> int:
        """Drained: wait for the device, tell it, and return 0, or 75 where the last save is missing."""
        self.sync()
        whole = self.progress.committed_step >= self.progress.step
        self._end(words.DRAINED_STATE if whole else words.INCOMPLETE_STATE)
        return words.DRAINED if whole else words.INCOMPLETE

    def finish(self) -> int:
        """All work is done: tell it, and return 0."""
        self.sync()
        self._touch(words.DONE)
        self._end(words.FINISHED)
        return 0

    def close(self, failed: str = "") -> None:
        """Stop watching without having drained or finished."""
        if failed:
            self.watcher.trouble("failed", failed)
        self._end(words.FAILED if failed else self.progress.state)

    def __enter__(self) -> Hook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = kind is not None and not (issubclass(kind, SystemExit) and not getattr(problem, "code", 0))
        self.close(f"{kind.__name__}: {problem}"[:300] if kind is not None and failed else "")

    # --- inside -------------------------------------------------------------------------------------

    @property
    def rungs(self) -> Rungs:
        """This rank's own deadlines now."""
        window, progress = self.watcher.heard.window, self.progress
        if window is not None and window.get("attempt") not in (None, self.place.attempt):
            window = None  # of the attempt before; ours is not told yet
        return rungs_of(window, progress.saves.quantile(0.99), progress.step_s)

    def _soon(self) -> None:
        """A heartbeat without delay."""
        self.watcher.hurry()
        if not self.watcher.own_thread:
            self.watcher.turn()

    def _wish(self) -> Answer:
        silent = self.watcher.silent_s()
        if self.watcher.folder is not None and silent > self.times.silent_s:
            held = "the deadlines known before hold" if self.watcher.heard.window else "no deadline is known"
            text = f"the hook folder has not answered for a while: training goes on, {held}"
            self.watcher.trouble("silent", text)
        else:
            self.watcher.trouble("silent", "")
        now, rungs = self.clock.now(), self.rungs
        return wish(self._asked(now, rungs), now, rungs, self._answered)

    def _asked(self, now: float, rungs: Rungs) -> list[Asked]:
        """All that is asked; what a committed save has answered is marked so."""
        heard, ticks = self.watcher.heard._replace(signal=self.signals.heard), self.clock.ticks()
        asked = asked_of(heard, now, ticks, self.place.attempt, rungs)
        for one in asked:
            if mark(one.answer.request) in self._kept or covered(one, ticks - self._saved, self._kept):
                self._answered.add(mark(one.answer.request))
                self._kept.add(mark(one.cause))
        return asked

    def _act(self, answer: Answer, which: int) -> None:
        self._answered.add(which)
        self._asked_for = frozenset([which])
        request = self.watcher.heard.request or {}
        if answer.request:
            self.progress.answered = answer.request
        elif mark(str(request.get("id") or "")) == which:
            self.progress.answered = str(request["id"])
        self._pending, self.unsafe = None, ""
        self.watcher.trouble("unsafe", "")
        log.info("step %d: %s (%s)", self.progress.step, answer.do, answer.reason)
        if answer.do == DRAIN:
            self.leaving = answer
            self.progress.enter(words.DRAINING)
        self._soon()

    def _check(self) -> None:
        """By the watcher: is something asked that no poll takes up? Was another rank's request ours too?"""
        request = self.watcher.heard.request or {}
        if mark(str(request.get("id") or "")) in self._answered:
            self.progress.answered = str(request["id"])
        if self._closed:
            return
        still = max(self.times.still_s, 10 * self.progress.step_s)
        self.where = stack_of(self._thread) if self.progress.still_s() > still else ""
        if self.leaving is not None:
            deadline = self.leaving.deadline
            late = 0.0 if deadline is None else self.clock.now() - deadline
            text = "the drain's deadline is over: the save goes on, and may be cut off" if late > 0 else ""
            self.watcher.trouble("late", text)
            return
        asked = self._wish()
        if not asked.saves:
            self._pending, self.unsafe = None, ""
            return
        now = self.clock.ticks()
        self._pending = now if self._pending is None else self._pending
        waited = now - self._pending
        late = asked.deadline is not None and self.clock.now() > asked.deadline
        if waited > self.times.honour_s or late:
            progress = self.progress
            self.unsafe = (
                f"{asked.do} ({asked.reason}) was asked {waited:.0f} s ago and is not taken up: "
                f"no poll since step {progress.step} ({progress.state})"
            )
            self.watcher.trouble("unsafe", self.unsafe)
        elif not self.unsafe:
            self.watcher.trouble("unsafe", "")

    def _save_failed(self, step: int, why: str, stops: bool) -> None:
        self.progress.failed_saves += 1
        kept = self.progress.committed_step
        newest = f"the newest is of step {kept}" if kept >= 0 else "there is none"
        does = "training stops" if stops else "training goes on"
        self.watcher.trouble("saving", "")
        self.watcher.trouble("saving", f"the save of step {step} failed ({why[:200]}): {does}; {newest}")

    def _body(self) -> dict[str, object]:
        drain = self.rungs.drain
        return self.progress.body() | {
            "unsafe": self.unsafe,
            "where": self.where,
            "drain_at": round(drain, 3) if drain < float("inf") else None,
            "clock_jumped_s": round(self.clock.jumped_s(), 1),
        }

    def _touch(self, which: str) -> None:
        path = self.env.get(which)
        if not path or self.place.rank != 0:
            return
        try:
            Path(path).touch()
            self.watcher.trouble(which, "")
        except OSError as refused:
            self.watcher.trouble(which, f"{which} cannot be touched ({refused.strerror}): training goes on")

    def _end(self, state: str) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self.progress.enter(state)
        self.watcher.stop()
        if state not in (words.DRAINED_STATE, words.INCOMPLETE_STATE):
            self.signals.restore()  # one that drains may be told again: it must still exit with 0
