"""Delivers notes to owners by webhook and mail, beside the loop of turns and never in its way.

Notes are written in the turn that made them, so none is lost; they are delivered at least once. What a person
is owed within a period leaves as one message, however often the server is started anew. A message has an id
made of the notes it holds, the same when it is sent again. A server that does not answer is left alone for a
while, longer each time; a note nobody would take for days is given up, and says why.
"""

from __future__ import annotations

import smtplib
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.message import EmailMessage
from email.utils import formatdate
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import NamedTuple, Protocol

from tenure.ledger.records import Note
from tenure.settings.live_file import MailFile, MessagesFile, PersonFile, mail_address

MOST_LINES = 40  #: of notes written out in one message
MOST_AT_ONCE = (
    1000  #: notes looked at in one round; more where those of nobody reachable stand before others'
)
MOST_OF_ALL = 64_000
ANSWER_S = 10.0  #: a server has so long to answer
FIRST_RETRY_S, LONGEST_RETRY_S = 5.0, 900.0
PACE_S = 1.0


class Outbox(Protocol):
    """Where notes are kept: a ledger."""

    def outbox(self, limit: int) -> Sequence[Note]:
        """Those that have not left, oldest first."""
        ...

    def settle_notes(self, settled: Sequence[tuple[int, str, str]]) -> None:
        """(number, `sent` or `failed` for good, detail)."""
        ...

    def quiet_until(self) -> Mapping[str, float]:
        """By person: the epoch second before which nothing more leaves, as last kept."""
        ...

    def keep_quiet_until(self, quiet_until: Mapping[str, float]) -> None:
        """Keep it, for whoever delivers next."""
        ...


class Refused(Exception):
    """This message cannot be delivered now; others may be."""


class Message(NamedTuple):
    """What one person is told at once."""

    id: str
    user: str
    subject: str
    text: str
    numbers: tuple[int, ...]


class Ways(NamedTuple):
    """How one person is reached; both where both are given."""

    webhook: str | None
    mail: str | None

    def named(self) -> Iterator[tuple[str, str]]:
        if self.webhook:
            yield "webhook", self.webhook
        if self.mail:
            yield "mail", self.mail


class Told(NamedTuple):
    """What the courier says of itself, for metrics and logs."""

    sent: int
    failed: int
    waiting: int
    error: str  #: of the newest try that went wrong; "" after one that did not


def ways_to(user: str, settings: MessagesFile) -> Ways:
    """Where this person's messages go; nothing where they want none or nobody knows an address."""
    person = settings.people.get(user, PersonFile())
    if person.quiet:
        return Ways(None, None)
    mail = person.mail
    if mail is None and settings.mail and settings.mail.to:
        try:  # a user's name may hold what no address can
            mail = mail_address(settings.mail.to.replace("{user}", user))
        except ValueError:
            mail = None
    return Ways(person.webhook or settings.webhook, mail if settings.mail else None)


def message_of(lab: str, user: str, notes: Sequence[Note]) -> Message:
    """One message of a person's notes, in their order."""
    numbers = tuple(note.number for note in notes)
    digest = sha256(" ".join(map(str, (lab, user, *numbers))).encode()).hexdigest()[:20]
    texts = [str(note.body.get("text", "")) for note in notes]
    if len(notes) == 1:
        body, kind = notes[0].body, str(notes[0].body.get("kind", ""))
        subject = f"{lab}: job {body.get('job', '')}: {kind.replace('_', ' ')}"
        text = texts[0]
    else:
        subject = f"{lab}: {len(notes)} notes about your jobs"
        text = "\n".join(f"- {line}" for line in texts[:MOST_LINES])
        if len(texts) > MOST_LINES:
            text += f"\n… and {len(texts) - MOST_LINES} more: `tenure queue` and `tenure show JOB` have all."
    return Message(digest, user, " ".join(subject.split())[:200], text, numbers)


class Courier:
    """Delivers what lies in the outbox. `deliver` maps a way's name to who takes it there."""

    def __init__(
        self,
        lab: str,
        settings: MessagesFile,
        outbox: Outbox,
        now: Callable[[], float],
        deliver: Mapping[str, Callable[[Message, str], None]] | None = None,
    ) -> None:
        self._lab, self._settings, self._outbox, self._now = lab, settings, outbox, now
        self._deliver = deliver or {"webhook": post, "mail": Mailer(settings.mail)}
        self._tries: dict[str, tuple[int, float]] = {}  # by person and way: failures in a row, next try
        self._held: dict[str, tuple[Message, set[str]]] = {}  # tried, and the ways by which it left
        self._limit = MOST_AT_ONCE
        self._told = Told(0, 0, 0, "")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Deliver from a thread of its own until `close`."""
        self._thread = threading.Thread(target=self._loop, name="messages", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the message under way; the rest leaves after the next start."""
        self._stop.set()
        if self._thread:
            self._thread.join(timeout=2 * ANSWER_S)

    def told(self) -> Told:
        """What became of messages since the start; safe from any thread."""
        return self._told

    def _loop(self) -> None:
        while not self._stop.wait(PACE_S):
            try:
                self.round()
            except Exception as wrong:  # a database that is away for a while: nothing is lost, ask again
                self._told = self._told._replace(error=f"{type(wrong).__name__}: {wrong}")

    def round(self) -> None:
        """Deliver what is due now."""
        now, settled = self._now(), self._told.sent + self._told.failed
        by_person: dict[str, list[Note]] = {}
        notes = self._outbox.outbox(self._limit)
        full = len(notes) >= self._limit
        self._told = self._told._replace(waiting=len(notes))
        for note in notes:
            by_person.setdefault(note.user, []).append(note)
        quiet_until = dict(self._outbox.quiet_until()) if by_person else {}
        for user, theirs in by_person.items():
            if self._stop.is_set():
                return
            if self._to_person(user, theirs, now, quiet_until.get(user, 0.0)):
                quiet_until[user] = now + self._settings.every
                self._outbox.keep_quiet_until({who: at for who, at in quiet_until.items() if at > now})
        if not full:
            self._limit = MOST_AT_ONCE
        elif settled == self._told.sent + self._told.failed:
            self._limit = min(MOST_OF_ALL, 4 * self._limit)

    def _to_person(self, user: str, notes: list[Note], now: float, quiet_until: float) -> bool:
        """Whether a message left."""
        ways = ways_to(user, self._settings)
        old = [note.number for note in notes if note.at < now - self._settings.keep]
        if not any(ways):
            self._close([note.number for note in notes], "failed", "nobody knows where to send it")
        elif old:
            self._held.pop(user, None)
            self._close(old, "failed", f"not delivered in time: {self._told.error or 'no reason known'}")
        elif now >= quiet_until or user in self._held:
            message, done = self._held.get(user) or (message_of(self._lab, user, notes), set())
            for way, where in ways.named():
                if way not in done and self._try(way, where, message, now):
                    done.add(way)
            if done.issuperset(way for way, _ in ways.named()):
                self._held.pop(user, None)
                self._close(message.numbers, "sent", message.id)
                return True
            self._held[user] = message, done  # who got it and could not say so gets it again, same id
        return False

    def _close(self, numbers: Sequence[int], state: str, detail: str) -> None:
        self._outbox.settle_notes([(number, state, detail) for number in numbers])
        count = len(numbers)
        told = self._told
        self._told = told._replace(
            sent=told.sent + count * (state == "sent"),
            failed=told.failed + count * (state == "failed"),
            waiting=max(0, told.waiting - count),
        )

    def _try(self, way: str, where: str, message: Message, now: float) -> bool:
        """Whether it was taken. A server that is away holds up all of its way, a refusal one person only."""
        server = way if way == "mail" else f"{way} {where}"
        person = f"{way} to {message.user}"
        if any(now < self._tries.get(key, (0, 0.0))[1] for key in (server, person)):
            return False
        try:
            self._deliver[way](message, where)
        except Refused as refused:
            return self._again_later(person, f"{person}: {refused}", now)
        except Exception as wrong:
            return self._again_later(server, f"{way}: {type(wrong).__name__}: {wrong}", now)
        self._tries.pop(server, None)
        self._tries.pop(person, None)
        self._told = self._told._replace(error="")
        return True

    def _again_later(self, key: str, error: str, now: float) -> bool:
        failures = self._tries.get(key, (0, 0.0))[0] + 1
        wait_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(failures - 1, 20))
        self._tries[key] = failures, now + wait_s
        self._told = self._told._replace(error=" ".join(error.split())[:500])
        return False


def post(message: Message, address: str) -> None:
    """POST it as JSON with a `text`, as chat services want it. Raises where it is not taken."""
    text = f"{message.user}: {message.text}"
    for sign, code in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
    ):  # or a job's name could call a whole channel
        text = text.replace(sign, code)
    body = {"text": text, "user": message.user, "id": message.id}
    request = urllib.request.Request(
        address,
        data=dumps(body | {"notes": message.numbers, "subject": message.subject}).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": message.id, "User-Agent": "tenure"},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S):
            return
    except urllib.error.HTTPError as answer:
        answer.close()
        if 400 <= answer.code < 500 and answer.code not in (408, 429):
            raise Refused(f"HTTP {answer.code}") from None
        raise ConnectionError(f"HTTP {answer.code}") from None


class Mailer:
    """Sends by SMTP, one connection a message."""

    def __init__(self, settings: MailFile | None) -> None:
        self._settings = settings

    def __call__(self, message: Message, address: str) -> None:
        settings = self._settings
        if settings is None:
            raise Refused("no mail server is set")
        try:
            mail = _as_mail(message, address, settings.sender)
        except ValueError as wrong:  # an address no header can hold
            raise Refused(str(wrong)) from None
        host, port = settings.server
        secure = ssl.create_default_context()
        if settings.tls == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=ANSWER_S, context=secure)
        else:
            server = smtplib.SMTP(host, port, timeout=ANSWER_S)
        with server:
            if settings.tls == "starttls":
                server.starttls(context=secure)
            if settings.login and settings.password_file:
                server.login(settings.login, Path(settings.password_file).read_text("utf-8").strip())
            try:
                server.send_message(mail)
            except (
                smtplib.SMTPRecipientsRefused,
                smtplib.SMTPDataError,
                smtplib.SMTPNotSupportedError,
            ) as no:
                raise Refused(str(no)) from None


def _as_mail(message: Message, address: str, sender: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, address, message.subject
    mail["Date"] = formatdate()
    mail["Message-ID"] = f"<{message.id}@tenure.{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text + "\n")
    return mail
