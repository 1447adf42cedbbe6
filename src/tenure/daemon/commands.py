"""What people ask of a running lab: checked against the book, and turned into news for the core.

Who may ask for what is decided before a command is written down; here it is only whether it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenure.core.columns import WHOLE
from tenure.core.live import News
from tenure.core.words import NEVER_S, NONE, NodeState, Phase
from tenure.daemon.asked import AFTER, ARRAY, HELD_BACK, Dependency, after_text, array_text
from tenure.daemon.book import Book, JobCard, NodeWord, make_room
from tenure.daemon.gather import Gathered
from tenure.daemon.health import needs_person
from tenure.engines.protocol import Enrol
from tenure.ledger.records import Answer, Command
from tenure.settings.errors import BadInput, nearest
from tenure.settings.live_job import Submission, elements, submission
from tenure.settings.units import share as share_of
from tenure.settings.units import share_text

NODE_STATES = {
    "up": NodeState.UP,
    "draining": NodeState.DRAINING,
    "down": NodeState.DOWN,
    "drained": NodeState.DRAINED,
    "repairing": NodeState.REPAIRING,
    "testing": NodeState.TESTING,
}
WAITS = (Phase.WAITING, Phase.RESTING, Phase.CLAIMING)

EndOf = Callable[[str], str | None]  #: how a job ended that is not in the book any more; None = no such job


class Refused(Exception):
    """The command cannot be obeyed."""

    def __init__(self, sentence: str, status: int = 409) -> None:
        super().__init__(sentence)
        self.status = status


class Desk:
    """Takes the commands of one turn, in order. `book` is the turn's own copy."""

    def __init__(
        self,
        book: Book,
        news: Gathered,
        t: int,
        end_of: EndOf,
        haunted: frozenset[str] = frozenset(),
        *,
        keeps_queue: bool = False,
    ) -> None:
        self.book = book
        self.news = news
        self.t = t
        self.answers: dict[int, Answer] = {}
        self.submitted: dict[int, list[int]] = {}  #: rows by the command's number
        self.changed: set[int] = set()  #: rows of jobs whose card is another now
        self.enrols: list[Enrol] = []
        self.shares: list[dict[str, Any]] = []
        self.asked_nodes: dict[int, NodeState] = {}  #: by row: where people put nodes in this turn
        self.node_t: dict[int, int] = {}
        self.repairs: set[int] = set()  #: rows of nodes that need a person from now on, or needed one
        self.closings: dict[int, str] = {}  #: by row of the node: why it is to close
        self.told_nodes: dict[str, tuple[bool, str]] = {}  #: (out of service, why) by people's word
        self.withdrawn: list[tuple[str, str]] = []  #: (job at the engine, why it can never run)
        self.keeps_queue = keeps_queue  #: jobs live in the engine from their submission on
        self.left: frozenset[str] = frozenset()  #: jobs that are gone from its queue already
        self._end_of = end_of
        self._haunted = haunted
        self._shares_now = book.board.shares.copy()
        self._alive: dict[str, int] = {}  #: elements under way, by array
        self._held: dict[int, bool] = {}  #: by row: held or let go in this turn, as the newest word has it

    def take(self, commands: Sequence[Command], poison: frozenset[int] = frozenset()) -> None:
        """All of them; each gets an answer, but for submissions that the engine must see first.

        `poison`: numbers of commands on which turns broke: they are answered and not obeyed.
        """
        for command in commands:
            asked = command.asked
            try:
                if command.number in poison:
                    raise Refused("the scheduler failed at this; its log says how", 500)
                if asked.verb == "submit":
                    body = self._submit(command)
                    if body is None:
                        continue
                elif asked.verb in VERBS:
                    body = VERBS[asked.verb](self, asked.subject, asked.by, asked.body)
                else:
                    raise Refused(f"nobody knows what '{asked.verb}' means", 422)
                self.answers[command.number] = Answer(command.number, True, body)
            except BadInput as error:
                self.answers[command.number] = _refusal(command, str(error), 422)
            except Refused as error:
                self.answers[command.number] = _refusal(command, str(error), error.status)

    # --- jobs -------------------------------------------------------------------------------------------

    def not_enrolled(self, order: str, why: str) -> None:
        """The engine will never take a submission."""
        pending = self.book.enrolled.pop(order, None)
        if pending is not None:
            number = int(pending["number"])
            self.answers[number] = Answer(number, False, {"error": why, "status": 422})

    def _submit(self, command: Command) -> dict[str, Any] | None:
        spec = dict(command.asked.body.get("spec") or {})
        job = submission(spec)
        columns = self.book.door.columns(job)
        for one in job.after:
            self._look_up(Dependency.of(one))
        if self.keeps_queue:
            order = self.book.enrolment(command.number)
            self.enrols.append(Enrol(order, command.asked.by, spec, job.command, job.env, job.workdir or ""))
            self.book.enrolled[order] = {"number": command.number, "by": command.asked.by, "spec": spec}
            return None
        number = self.book.next_id
        self.book.next_id += 1
        told = [""] if job.array is None else [f"_{k}" for k in _numbers(job.array)]
        make_room(self.book, len(told), 2 * len(told) + len(self.news))
        array = str(number) if job.array is not None else ""
        rows = [
            self.add(f"{number}{element}", job, spec, command.asked.by, columns, array) for element in told
        ]
        self.submitted[command.number] = rows
        jobs = [self.book.cards[row].job for row in rows]
        return {"job": str(number), "jobs": jobs, "remarks": self.book.door.remarks(job)}

    def add(
        self,
        name: str,
        job: Submission,
        spec: Mapping[str, Any],
        user: str,
        columns: Mapping[str, int],
        array: str = "",
        *,
        held: tuple[str, str] = ("", ""),
    ) -> int:
        """A job is submitted; held where it was asked to be, by its engine, or until others end. Its row."""
        held_by, why = held
        limit = None if job.array is None or self.keeps_queue else elements(job.array).at_once
        after = tuple(Dependency.of(one) for one in job.after)
        open_ones = [one for one in after if not self.holds(one)[0]]
        if job.hold:
            held_by, why = user, ""
        elif open_ones:
            held_by, why = AFTER, after_text(open_ones)
        elif limit is not None and self._under_way(array) >= limit:
            held_by, why = ARRAY, array_text(limit)
        if array:
            self._alive[array] = self._under_way(array) + (not held_by)
        card = JobCard(name, job.account, user, spec, self.t, array, after, held_by, why)
        row = self.book.add(card, columns)
        self.news.add(self.t, News.SUBMIT, row)
        if held_by:
            note = self.news.note(by=held_by, reason=why or "submitted on hold")
            self.news.add(self.t, News.HOLD_NEW, row, note=note)
        self.changed.add(row)
        return row

    def _under_way(self, array: str) -> int:
        """Elements of an array that are neither on hold nor over, those let go in this turn included."""
        if array not in self._alive:
            over = (Phase.ENDED, Phase.HELD)
            rows = self.book.arrays.get(array, ())
            self._alive[array] = sum(self.book.phase(row) not in over for row in rows)
        return self._alive[array]

    def _is_full(self, row: int) -> int | None:
        """How many elements of its array may be under way at once, where that many are; else None."""
        card = self.book.cards[row]
        counted = card.array and not self.keeps_queue  # an engine that has the queue counts by itself
        limit = elements(str(card.spec["array"])).at_once if counted else None
        return limit if limit is not None and self._under_way(card.array) >= limit else None

    def holds(self, one: Dependency) -> tuple[bool, str]:
        """(whether a dependency holds by now, why it never will or "")."""
        ends = self._look_up(one)
        if any(end == "" for end in ends):
            return False, ""
        bad = next((end for end in ends if end != "finished"), None)
        if one.how == "ok" and bad is not None:
            return False, f"job {one.job} ended {bad}"
        return True, ""

    def _look_up(self, one: Dependency) -> list[str]:
        """How the job, or each element of the array, ended; "" where it has not. Raises Refused."""
        rows = self._rows(one.job)
        if any(self.book.phase(row) != Phase.ENDED for row in rows):
            return [""]
        end = self._end_of(one.job)
        if end is None:
            raise Refused(f"after: there is no job {one.job}", 422)
        return [end]

    def _rows(self, subject: str) -> list[int]:
        """The job of that id, or the elements of the array."""
        row = self.book.row_of(subject)
        if row != NONE:
            return [row]
        first = self.book.arrays.get(subject)
        return [] if first is None else list(first)

    def _named(self, subject: str) -> list[int]:
        rows = self._rows(subject)
        if not rows:
            if self._end_of(subject) is not None:
                raise Refused(f"job {subject} has ended")
            raise Refused(f"there is no job {subject}", 404)
        alive = [row for row in rows if self.book.phase(row) != Phase.ENDED]
        if not alive:
            raise Refused(f"job {subject} has ended")
        return alive

    def cancel(self, subject: str, by: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Its owner takes it back."""
        for row in self._named(subject):
            note = self.news.note(by=by, reason=body.get("reason"))
            self.news.add(self.t, News.CANCEL, row, note=note)
            self.changed.add(row)
        return {"job": subject}

    def hold(self, subject: str, by: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Do not consider it."""
        named = self._named(subject)
        free = [row for row in named if not self._is_held(row)]
        rows = [row for row in free if self.book.phase(row) in (*WAITS, Phase.HELD)]
        kept = [row for row in named if self.book.cards[row].held_by in HELD_BACK]
        for row in kept:  # held back already: now by a person, too
            self._change(row, held_by=by, detail=str(body.get("reason") or ""))
        if not rows and not kept:
            raise Refused(f"job {subject} does not wait: nothing to hold")
        for row in rows:
            note = self.news.note(by=by, reason=body.get("reason"))
            self.news.add(self.t, News.HOLD, row, note=note)
            if array := self.book.cards[row].array:
                self._alive[array] = self._under_way(array) - 1
            self._held[row] = True
            self._change(row, held_by=by, detail=str(body.get("reason") or ""))
        return {"job": subject}

    def release(self, subject: str, by: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Consider it again."""
        rows = [row for row in self._named(subject) if self._is_held(row)]
        if not rows:
            raise Refused(f"job {subject} is not on hold")
        by_people = [row for row in rows if self.book.cards[row].held_by not in HELD_BACK]
        if not by_people:  # told before anything is changed; the others of an array go on waiting
            card = self.book.cards[rows[0]]
            raise Refused(f"job {card.job} {card.detail}")
        for row in by_people:
            card = self.book.cards[row]
            open_ones = [one for one in card.after if not self.holds(one)[0]]
            if open_ones:
                self._change(row, held_by=AFTER, detail=after_text(open_ones))
            else:
                self.let_go(row, by, body.get("reason"))
        return {"job": subject}

    def _is_held(self, row: int) -> bool:
        return self._held.get(row, self.book.phase(row) == Phase.HELD)

    def let_go(self, row: int, by: str, reason: Any) -> None:
        """A job on hold waits again, unless enough of its array are under way."""
        limit, array = self._is_full(row), self.book.cards[row].array
        if limit is not None:
            if self.book.cards[row].held_by != ARRAY:
                self._change(row, held_by=ARRAY, detail=array_text(limit))
            return
        if array:
            self._alive[array] = self._under_way(array) + 1
        note = self.news.note(by=by, reason=reason)
        self.news.add(self.t, News.RELEASE, row, note=note)
        self._held[row] = False
        self._change(row, held_by="", detail="")

    def force(self, subject: str, by: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """A manager stops what the contract would leave running: with name and reason."""
        reason = str(body.get("reason") or "").strip()
        if not reason:
            raise Refused("a forced stop needs a reason: it is written into the record with your name", 422)
        rows = [row for row in self._named(subject) if self.book.phase(row) == Phase.RUNNING]
        if not rows:
            raise Refused(f"job {subject} does not run")
        for row in rows:
            attempt = int(self.book.board.stays["attempt"][row])
            note = self.news.note(by=by, reason=reason)
            self.news.add(self.t, News.STOP, row, attempt=attempt, note=note)
            self.changed.add(row)
        return {"job": subject}

    def _change(self, row: int, **fields: Any) -> None:
        self.book.cards[row] = self.book.cards[row]._replace(**fields)
        self.changed.add(row)

    def settle_dependencies(self) -> None:
        """Jobs whose dependencies hold by now are let go; those of which one never will are cancelled."""
        full: set[str] = set()  #: arrays of which no more elements may be under way
        for row in sorted(self.book.held_after):
            card = self.book.cards[row]
            if self.book.phase(row) != Phase.HELD or card.held_by not in (AFTER, ARRAY):
                continue
            if card.held_by == ARRAY:
                if card.array not in full:
                    self.let_go(row, ARRAY, "another element of its array is over")
                    if self._is_full(row) is not None:
                        full.add(card.array)
                continue
            try:
                found = [self.holds(one) for one in card.after]
            except Refused as gone:  # the record has forgotten a job that this one waits for
                found = [(False, str(gone))]
            never = next((why for _, why in found if why), "")
            if never:
                note = self.news.note(by=AFTER, reason=never)
                self.news.add(self.t, News.CANCEL, row, note=note)
                self._change(row, detail=never)
            elif all(done for done, _ in found):
                self.let_go(row, AFTER, "what it waited for has ended")

    # --- nodes and shares -------------------------------------------------------------------------------

    def node(self, subject: str, by: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """How a node is, by somebody's word."""
        row = self._node_row(subject)
        state = NODE_STATES.get(str(body.get("state")))
        if state is None:
            raise Refused(f"a node is one of {', '.join(NODE_STATES)}", 422)
        reason, old = body.get("reason"), self._state_of(row).name.lower()
        if body.get("from", old) != old:  # whoever asked saw it otherwise
            raise Refused(f"node {subject} is {old} by now")
        if state == NodeState.UP and subject in self._haunted:
            raise Refused(
                f"something of ours that was given up still runs on {subject}: not before it is gone"
            )
        self.set_node(row, state, by, reason)
        self.told_nodes[subject] = (state != NodeState.UP, str(reason or ""))
        return {"node": subject, "state": str(body["state"])}

    def _node_row(self, name: str) -> int:
        names = {node.name: row for row, node in enumerate(self.book.lab.nodes)}
        if name not in names:
            raise Refused(f"there is no node {name}: {nearest(name, names)}", 404)
        return names[name]

    def _state_of(self, row: int) -> NodeState:
        """A node's state, by the newest word in this turn."""
        return self.asked_nodes.get(row, NodeState(int(self.book.board.posts["state"][row])))

    def set_node(self, row: int, state: NodeState, by: str, reason: Any, t: int | None = None) -> None:
        """A node's state is another from now on."""
        note = self.news.note(reason=reason, by=by)
        if needs_person(self._state_of(row).name.lower(), state.name.lower(), by):
            self.repairs.add(row)
        self.node_t[row] = self.t if t is None else t
        self.news.add(self.node_t[row], News.NODE, row, value=int(state), note=note)
        self.asked_nodes[row] = state
        if state == NodeState.UP:
            self.book.words.pop(row, None)
        else:
            self.book.words[row] = NodeWord(by or "somebody", str(reason or ""))

    def close(self, subject: str, by: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """A node is going to be out of service from second `at_t` on, or (None) is not any more."""
        at_t = body.get("at_t")
        if at_t is not None and (isinstance(at_t, bool) or not isinstance(at_t, int) or at_t < self.t):
            raise Refused(f"at_t: found {at_t!r}; allowed: a second of the record from {self.t} on", 422)
        row = self._node_row(subject)
        note = self.news.note(reason=body.get("reason"), by=by)
        value = NEVER_S if at_t is None else at_t
        self.news.add(self.t, News.CLOSE, row, value=value, note=note)
        self.closings[row] = str(body.get("reason") or "")
        return {"node": subject, "at_t": at_t}

    def share(self, subject: str, by: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """An account's part of its parent's is another from now on."""
        change = {"account": subject, "share": body.get("share"), "cluster": body.get("cluster")}
        (told,) = self._change_shares([change], by, body.get("reason"))
        return told

    def shares_at_once(self, subject: str, by: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Several changes, checked together: `changes`, each {account, share, cluster}."""
        return {"changes": self._change_shares(body.get("changes") or (), by, body.get("reason"))}

    def _change_shares(
        self, changes: Sequence[Mapping[str, Any]], by: str, reason: Any
    ) -> list[dict[str, Any]]:
        found = [self._share_change(change) for change in changes]
        lab, then = self.book.lab, self._shares_now.copy()
        for row, clusters, new in found:
            then[clusters, row] = new
        parents = list(dict.fromkeys(lab.accounts[row].parent for row, _, _ in found))
        for parent in parents:
            total = int(then[:, self._siblings(parent)].sum(axis=1).max())
            if total > WHOLE:
                above = f" below {lab.accounts[parent].path}" if parent > 0 else ""
                raise Refused(f"shares{above} would sum to {share_text(total)}; at most 100% are there", 422)
        told = []
        for row, clusters, new in found:
            now = self._shares_now
            old = int(now[clusters[0], row])
            alike = len(clusters) == len(lab.clusters) and len(set(now[:, row].tolist())) == 1
            for c in [NONE] if alike else clusters:
                self._set_share(row, c, new, by=by, reason=reason)
            told.append({"account": lab.accounts[row].path, "old": old / WHOLE, "new": new / WHOLE})
        for parent in parents:
            self._leave_the_rest(parent, self._siblings(parent))
        return told

    def _share_change(self, change: Mapping[str, Any]) -> tuple[int, list[int], int]:
        """(account row, cluster rows, new share). Raises Refused."""
        lab, subject, cluster = self.book.lab, str(change.get("account") or ""), change.get("cluster")
        rows = lab.rows()
        if not subject or subject not in rows:
            raise Refused(f"there is no account {subject!r}: {nearest(subject, [p for p in rows if p])}", 404)
        try:
            new = share_of(change.get("share"))
        except ValueError as error:
            raise Refused(f"share: found {change.get('share')!r}; allowed: {error}", 422) from None
        clusters = range(len(lab.clusters))
        if cluster is None:
            chosen = [c for c in clusters if subject not in lab.own_shares[c]] or list(clusters)
        elif cluster in lab.clusters:
            chosen = [lab.clusters.index(str(cluster))]
        else:
            raise Refused(f"there is no cluster {cluster}: {nearest(str(cluster), lab.clusters)}", 404)
        return rows[subject], chosen, new

    def _siblings(self, parent: int) -> list[int]:
        """The accounts below one, but for its own leaf."""
        accounts = self.book.lab.accounts
        return [k for k, a in enumerate(accounts) if a.parent == parent and a.own_leaf_of is None]

    def _set_share(self, row: int, cluster: int, new: int, **told: Any) -> None:
        lab, now = self.book.lab, self._shares_now
        old = int(now[max(cluster, 0), row])
        note = {"account": lab.accounts[row].path, "old": old / WHOLE, "new": new / WHOLE}
        where = {} if cluster == NONE else {"cluster": lab.clusters[cluster]}
        self.news.notes.append(note | where | {k: v for k, v in told.items() if v not in (None, "")})
        self.news.add(self.t, News.SHARE, row, value=new, cluster=cluster, note=len(self.news.notes) - 1)
        now[slice(None) if cluster == NONE else cluster, row] = new
        self.shares.append(
            {"account": note["account"], "cluster": where.get("cluster"), "old": old, "new": new}
            | {"by": told.get("by", ""), "reason": told.get("reason") or ""}
        )

    def _leave_the_rest(self, parent: int, siblings: Sequence[int]) -> None:
        """The leaf for the parent's own work has what the others leave."""
        lab, now = self.book.lab, self._shares_now
        own = next((k for k, a in enumerate(lab.accounts) if a.own_leaf_of == parent), None)
        if own is None or parent <= 0:
            return
        rest = WHOLE - now[:, list(siblings)].sum(axis=1)
        changed = [c for c in range(len(rest)) if rest[c] != now[c, own]]
        alike = len(changed) == len(rest) and len(set(rest.tolist())) == len(set(now[:, own].tolist())) == 1
        for c in [NONE] if alike else changed:
            why = "what is left beside the other accounts there"
            self._set_share(own, c, int(rest[max(c, 0)]), reason=why)


VERBS: Mapping[str, Callable[[Desk, str, str, Mapping[str, Any]], dict[str, Any]]] = {
    "cancel": Desk.cancel,
    "hold": Desk.hold,
    "release": Desk.release,
    "stop": Desk.force,
    "node": Desk.node,
    "close": Desk.close,
    "share": Desk.share,
    "shares": Desk.shares_at_once,
}


def _numbers(array: str) -> range:
    found = elements(array)
    return range(found.first, found.last + 1)


def command_line(spec: Mapping[str, Any]) -> list[str]:
    """What runs, as words; one text is for the shell."""
    command = spec.get("command") or []
    return ["/bin/sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]


def _refusal(command: Command, sentence: str, status: int) -> Answer:
    return Answer(command.number, False, {"error": sentence, "status": status})


__all__ = ["Desk", "EndOf", "Refused", "command_line"]
