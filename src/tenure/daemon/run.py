"""The live loop: wake, look, take a turn, record it, carry out its orders, sleep. One leader at a time.

    starting ──lease──► standby ◄──lost── leading ──stop──► stopped

Nothing is decided while the engine is silent or the record cannot be written; nothing is kept in memory that
is not in the record. A turn that could not be written has not happened.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from tenure.core.board import as_kernels_want
from tenure.core.live import take_stock_entry
from tenure.core.policy import Policy
from tenure.core.words import NEVER_S
from tenure.daemon.book import Book, new_book
from tenure.daemon.ends import Ends
from tenure.daemon.eye import Eye
from tenure.daemon.lab_change import carry_over, written_lab
from tenure.daemon.orders import OpenOrders, Settled
from tenure.daemon.patch import apply as apply_patch
from tenure.daemon.patch import digest_of, dropping, ended_rows, keyframe, keyframe_of
from tenure.daemon.recover import state_before
from tenure.daemon.state import State, book_of, state_of
from tenure.daemon.story_head import file_lines, story_head
from tenure.daemon.tell import Teller
from tenure.daemon.timekeeper import Timekeeper
from tenure.daemon.turn import Inputs, Look, code_digest, look, next_turn, take_turn, warm_up
from tenure.daemon.view import Counters, Health, View, view_of
from tenure.engines.clock import Clock
from tenure.engines.protocol import Engine
from tenure.ledger.events import STORY_HEAD
from tenure.ledger.holders import own_name
from tenure.ledger.ledger import Ledger
from tenure.ledger.records import (
    Asked,
    Command,
    Lease,
    LedgerError,
    LedgerTooNew,
    LedgerUnavailable,
    NotTheLeader,
    TurnRow,
    TurnTaken,
    WrongLab,
)
from tenure.settings.errors import BadInput
from tenure.settings.lab import Lab

LAB_META = "lab"  #: key of `ledger.meta`: what the lab's file said when a leader last began
POLL_S = 1.0  #: how often an engine is asked that says nothing by itself
LEAST_S = 0.2  #: between two turns, whatever comes
RETRY_S = 1.0  #: after an engine or a record did not answer
KEYFRAME_EVERY = 1000  #: turns
MOST_COMMANDS = 2000  #: in one turn
DROP_FROM = 2000  #: so many ended jobs are left behind at once …


class Daemon:
    """See the module. `start` runs it in a thread of its own; `turn_now` takes one step in the caller's."""

    def __init__(
        self,
        lab: Lab,
        ledger: Ledger,
        engine: Engine,
        clock: Clock,
        *,
        name: str = "",
        shadow: bool = False,
        lease_s: float = 15.0,
        keyframe_every: int = KEYFRAME_EVERY,
        policy: Policy | None = None,
        lab_file: Mapping[str, Any] | None = None,
        log: Any = None,
    ) -> None:
        """`lab_file`: {file, lab}, the lab's file as a mapping, kept in the record beside what it means."""
        self.lab = lab
        self._written_lab = written_lab(lab) | dict(lab_file or {})
        self.ledger = ledger
        self.engine = engine
        self.clock = clock
        self.name = name or own_name()
        self.shadow = shadow
        self.counters = Counters()
        self._lease_s = lease_s
        self._keyframe_every = keyframe_every
        self._policy = policy if policy is not None else lab.knobs()
        self._log = log if log is not None else structlog.get_logger("tenure.daemon")
        self._wake = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._state = "starting"
        self._lease: Lease | None = None
        self._book: Book | None = None
        self._teller: Teller | None = None
        self._orders = OpenOrders()
        self._unsettled: list[Settled] = []  #: orders that are done, and not yet so in the record
        self._missing: Mapping[str, float] = {}
        self._ghosts: frozenset[str] | None = None  #: jobs of which an attempt may run on; None: not seen yet
        self._ends = Ends(ledger)
        self._again = False
        self._most_commands = MOST_COMMANDS
        self._poison: set[int] = set()  #: commands on which turns broke
        self._fatal = self._broken = ""  #: why this server will never decide; why it fails to for now
        self._since_keyframe = 0
        self._eye = Eye(engine, clock, self._log)
        self._time, self._clock_doubt = Timekeeper(clock), ""
        self._ledger_error: str | None = None
        self._view: View | None = None
        self._last_turn_at: float | None = None
        engine.on_change(self.wake)

    # --- for everybody ------------------------------------------------------------------------------------

    def start(self, before: Callable[[Callable[[], bool]], None] | None = None) -> None:
        """Begin, in a thread of its own; returns at once.

        `before` is done there first; it is given what says whether the daemon was told to stop.
        """
        self._thread = threading.Thread(target=self._run, args=(before,), name="tenure-daemon", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Let the turn under way end, and give the lead away. What runs goes on running.

        A turn that takes longer than `timeout_s` keeps the lead: nobody else may decide beside it. It gives
        the lead away when it is over, or the lease runs out.
        """
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                self._log.warning("turn_goes_on", after_s=timeout_s)
                return
        self._yield()
        self._state = "stopped"

    def wake(self) -> None:
        """Something has changed: look soon. From any thread."""
        self._wake.set()

    def view(self) -> View | None:
        """How things stood after the newest recorded turn; None until the record has been read."""
        return self._view

    def health(self) -> Health:
        """How the loop is."""
        silent_s = self._eye.silent_s()
        sentence = {
            "starting": "reading the record, and compiling what decides where this machine has not yet",
            "standby": "another server leads; this one stands by",
            "stopped": "stopped",
        }.get(self._state, "deciding")
        if self._fatal or self._broken:
            sentence = self._fatal or self._broken
        elif self._clock_doubt:
            sentence = self._clock_doubt
        elif self._ledger_error is not None:
            sentence = f"the record does not answer, so nothing is decided: {self._ledger_error}"
        elif silent_s is not None:
            sentence = f"the engine does not answer, so nothing is decided: {self._eye.state.error}"
        elif self._book is not None and self._state == "leading":
            sentence = self._time.behind(self._book.start + self._book.t) or sentence
        return Health(
            leader=self._state == "leading",
            state=self._state,
            engine_silent_s=silent_s,
            ledger_error=self._ledger_error,
            last_turn_at=self._last_turn_at,
            sentence=sentence,
            clock_doubt=self._clock_doubt,
            broken=self._broken,
        )

    # --- the loop -----------------------------------------------------------------------------------------

    def _run(self, before: Callable[[Callable[[], bool]], None] | None) -> None:
        if before is not None:
            before(self._over.is_set)
        while not self._over.is_set():
            began = time.monotonic()
            try:
                turned = self.turn_now()
            except (BadInput, WrongLab, LedgerTooNew) as error:
                self._log.error("cannot_lead", why=str(error))
                self._fatal = str(error)
                break
            except Exception as error:  # one that stops for ever is worse than one that says so and goes on
                self._log.exception("turn_failed")
                self._broken = f"turns fail, so nothing is decided ({error!r}): the server's log says where"
                self._forget()
                turned = False
                self._over.wait(RETRY_S)
            self._sleep(turned, began)
        self._yield()
        self._state = "stopped"

    def _sleep(self, turned: bool, began: float) -> None:
        if turned:
            self._over.wait(max(0.0, LEAST_S - (time.monotonic() - began)))
            if self._again:
                return
        wait_s = RETRY_S if self._book is None or self._ledger_error is not None else POLL_S
        if self._book is not None and self._view is not None and self._view.next_t < NEVER_S:
            wait_s = min(wait_s, max(0.0, self._book.start + self._view.next_t - self.clock.now()))
        self._wake.wait(max(0.01, wait_s))
        self._wake.clear()

    def turn_now(self) -> bool:
        """One step: whatever is due. True if a turn was taken and recorded."""
        doubt = self._time.doubt()
        if bool(doubt) != bool(self._clock_doubt):
            self._log.warning("clock_jumped" if doubt else "clock_believed", why=doubt)
        self._clock_doubt = doubt
        if doubt:  # neither is the lead kept: by such a clock it would be kept for ever
            return False
        try:
            if not self._leads():
                return False
            return self._step()
        except NotTheLeader as error:
            self._log.warning("lead_lost", why=str(error))
            self._forget()
            self._state = "standby"
        except TurnTaken as error:
            self._log.warning("turn_was_written", why=str(error))
            self._forget()
        except LedgerUnavailable as error:
            self._no_ledger(error)
        return False

    def _leads(self) -> bool:
        """Take or keep the lead, and know what is recorded; False while another leads."""
        now = self.clock.now()
        if self._lease is None:
            self._lease = self.ledger.lead(self.name, now, self._lease_s)
            self._ledger_error = None
            if self._lease is None:
                self._state = "standby"
                return False
            self._log.info("leading", epoch=self._lease.epoch)
        elif self._lease.until - now < self._lease_s * 2 / 3:
            self._lease = self.ledger.renew(self._lease, now, self._lease_s)
            self._ledger_error = None
        if self._book is None:
            try:
                self._begin()
            except LedgerError:  # begun by half: what was still to be done is done with the whole again
                self._book = None
                raise
        self._state = "leading"
        return True

    def _begin(self) -> None:
        """Read the record, or begin one."""
        identity = self.ledger.begin(self.lab.name, float(int(self.clock.now())))
        state = state_before(self.ledger, self.ledger.last_turn() + 1)
        self._orders = OpenOrders(self.ledger.open_orders())
        self._ends.clear()
        warm_up(self.lab, self._policy)
        if state is None:
            book = new_book(self.lab, self._policy, identity.start)
            self._teller = self._teller_of(book)
            self.ledger.set_meta(STORY_HEAD, story_head(book))
            self.ledger.set_meta(LAB_META, self._written_lab)
            self._open(book, state_of(book), "opened")
            return
        change = carry_over(state, self.lab, self.ledger.meta(LAB_META) or self._written_lab)
        book = book_of(change.state, self.lab, self._policy, identity.start)
        self._teller = self._teller_of(book)
        if change.told:
            self._log.info("lab_changed", changes=list(change.told))
        self.ledger.set_meta(STORY_HEAD, story_head(book, self.ledger.meta(STORY_HEAD)))
        if change.is_new:
            take_stock_entry(as_kernels_want(book.core), as_kernels_want(book.board), book.policy, book.t)
            self._open(book, state_of(book), "the lab is another", file_lines(state, change.state))
        else:
            self._keep(book)
        if change.shares:
            self._ask_for_shares(change.shares)
        self.ledger.set_meta(LAB_META, self._written_lab)
        self.engine.expect(book.alive())
        self._log.info("recovered", turn=book.turn, jobs=book.n_jobs, orders=len(self._orders))

    def _ask_for_shares(self, shares: Sequence[Mapping[str, Any]]) -> None:
        """What the lab's file says anew is asked for as a person would ask, once."""
        assert self._book is not None
        key = hashlib.sha256(json.dumps([self._book.turn, list(shares)]).encode()).hexdigest()[:32]
        body = {"changes": list(shares), "reason": "the lab's file says so"}
        self.ledger.ask([Asked("lab file", "shares", "", body, self.clock.now(), key)])

    def _teller_of(self, book: Book) -> Teller:
        return Teller(book.lab, book.policy, book.gpu_types, book.start)

    def _open(self, book: Book, state: State, why: str, events: Sequence[str] = ()) -> None:
        """A turn that is a whole state and nothing else."""
        assert self._lease is not None
        book.turn = state.turn = book.turn + 1
        at = book.start + book.t
        patch = {"t": book.t, "turn": book.turn, "opened": why}
        row = TurnRow(
            book.turn, book.t, at, [], patch, digest_of(book), code_digest(), keyframe_of(state), events,
            [], [], [], [],
        )  # fmt: skip
        self.ledger.record(row, self._lease)
        self._since_keyframe = 0
        self._keep(book)

    def _step(self) -> bool:
        """Look; if anything is to be done, take a turn, record it, keep it, and carry out what it orders."""
        assert self._book is not None
        book, began, worked = self._book, time.perf_counter(), time.thread_time()
        was_silent = self._eye.state.silent_since is not None
        seen = self._eye.see()
        self._again = self._again or (was_silent and seen is not None)
        commands = self.ledger.unanswered(self._most_commands + len(book.enrolled))
        self._ledger_error = None
        commands = [one for one in commands if book.enrolment(one.number) not in book.enrolled]
        commands = commands[: self._most_commands]
        inputs = Inputs(
            now=self._eye.asked_at if seen is not None else self.clock.now(),
            seen=seen,
            commands=commands,
            unstarted=self._orders.unstarted(),
            refused=dict(self._orders.refused),
            ordered=self._orders.open(),
            unset=self._orders.nodes(),
            missing=self._missing,
            unenrolled=dict(self._orders.unenrolled),
            poison=frozenset(self._poison),
            end_of=self._ends,
            keeps_queue=self.engine.keeps_queue,
        )
        looked = look(book, inputs)
        self._notice(looked)
        self._show()
        due = seen is not None and (next_turn(book) <= looked.t or self._again)
        if not (commands or looked.has_news or due):
            self._carry_out()
            return False
        try:
            self._turn(book, inputs, looked, commands)
        except LedgerError:
            raise
        except Exception:  # whatever it is: fewer commands, down to the one on which turns break
            if {one.number for one in commands} <= self._poison:  # it breaks on something else
                raise
            self._log.exception("turn_broke", commands=[one.number for one in commands[:10]])
            self._most_commands = max(1, len(commands) // 2)
            if len(commands) == 1:
                self._poison.add(commands[0].number)
            self._wake.set()
            return False
        self.counters.turn_s.add(time.perf_counter() - began)
        self.counters.turn_cpu_s.add(time.thread_time() - worked)
        self._carry_out()
        return True

    def _turn(self, book: Book, inputs: Inputs, looked: Look, commands: Sequence[Command]) -> None:
        assert self._lease is not None
        assert self._teller is not None
        outcome = take_turn(book, self._teller, inputs, looked)
        row = outcome.row
        self._since_keyframe += 1
        if self._since_keyframe >= self._keyframe_every:
            row = row._replace(keyframe=keyframe(outcome.book))
        self.ledger.record(row, self._lease)
        self._most_commands, self._broken = MOST_COMMANDS, ""
        if row.keyframe is not None:
            self._since_keyframe = 0
        self._again = outcome.again or inputs.seen is None  # what was only taken in is decided on next
        self._ghosts = (self._ghosts or frozenset()) | outcome.ghosts
        self._orders.add(row.orders)
        over = [(one.job, one.attempt) for one in row.attempts if one.stopped_t is not None]
        self._unsettled += self._orders.ended(over) + self._orders.answered(inputs.unenrolled)
        self._ends.add(row.jobs)
        self.counters.turns += 1
        self.counters.commands += len(row.answers)
        self._keep(outcome.book, looked.at)
        self._log.info(
            "turn",
            turn=row.turn,
            t=row.t,
            events=len(row.events),
            orders=len(row.orders),
            commands=len(commands),
        )
        if len(ended_rows(outcome.book)) >= DROP_FROM:
            self._drop(outcome.book)

    def _drop(self, book: Book) -> None:
        """Leave ended jobs behind: their rows are in the record."""
        assert self._lease is not None
        patch = dropping(book)
        state = state_of(book)
        apply_patch(state, patch)
        row = TurnRow(
            state.turn, state.t, book.start + state.t, [], patch, digest_of(book), code_digest(),
            keyframe_of(state), [], [], [], [], [],
        )  # fmt: skip
        self.ledger.record(row, self._lease)
        self._since_keyframe = 0
        self._keep(book_of(state, self.lab, book.policy, book.start))

    def _keep(self, book: Book, at: float | None = None) -> None:
        """This is how things stand now."""
        self._book = book
        self._last_turn_at = self.clock.now()
        self.counters.orders_open = len(self._orders)
        at = book.start + book.t if at is None else at
        self._view = view_of(book, at, self._eye.state, sorted(self._missing), next_turn(book))

    def _carry_out(self) -> None:
        """Whatever is open; what the engine does not take now stays open."""
        if not len(self._orders) or self._ghosts is None:
            self._settle()
            return
        carried = self._orders.carry_out(self.engine, self._is_wanted, self._ghosts, self._still_leads)
        if carried.settled and self._ghosts:
            self._wake.set()  # what was told to leave may be gone, and its job may start
        for row, why in carried.refused:
            self.counters.orders_refused += 1
            self._log.warning("order_refused", id=row.id, kind=row.kind, job=row.job, why=why)
            self._again = self._again or row.kind in ("start", "enrol")
        if carried.silent:
            self._eye.silent(carried.silent)
            self._show()
        self.counters.orders_done += len(carried.settled)
        self.counters.orders_open = len(self._orders)
        self._unsettled += carried.settled
        self._settle()

    def _still_leads(self) -> bool:
        """Not where it stopped, or an engine took, for so long that another may lead by now."""
        return self._lease is not None and self.clock.now() < self._lease.until

    def _settle(self) -> None:
        """Write down which orders are done. What could not be written is written with the next ones."""
        if self._unsettled:
            self.ledger.settle_orders(self._unsettled)
            self._unsettled = []

    def _is_wanted(self, key: tuple[str, int]) -> bool:
        """Whether an attempt that is to be started is still one that the record has on nodes."""
        assert self._book is not None
        row = self._book.row_of(key[0])
        return row in self._book.places and int(self._book.board.stays["attempt"][row]) == key[1]

    # --- the engine and the record, when they do not answer -------------------------------------------------

    def _notice(self, looked: Look) -> None:
        """What is odd, though nothing is to be recorded of it."""
        if looked.found is None:
            return
        self._missing = looked.missing
        self._ghosts = looked.ghosts
        self._eye.remark(looked.remarks)

    def _show(self) -> None:
        """The view, with what is known of the engine now."""
        self.counters.engine_errors = self._eye.errors
        if self._view is not None and self._view.engine is not self._eye.state:
            self._view = self._view._replace(engine=self._eye.state, missing=tuple(sorted(self._missing)))

    def _no_ledger(self, error: LedgerError) -> None:
        self.counters.ledger_errors += 1
        if self._ledger_error is None:
            self._log.warning("ledger_unavailable", why=str(error))
        self._ledger_error = str(error) or "no answer"

    def _forget(self) -> None:
        """What is in memory may not be what is recorded: read it again, as a leader chosen anew."""
        self._lease = None
        self._book = None
        self._orders = OpenOrders()
        self._unsettled = []
        self._ghosts = None

    def _yield(self) -> None:
        if self._lease is not None:
            try:
                self.ledger.yield_lease(self._lease)
            except LedgerError as error:
                self._log.warning("lead_not_given_away", why=str(error))
            self._lease = None


__all__ = ["Daemon"]
