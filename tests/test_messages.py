"""Messages to owners: what they say, and how they leave, against a real mail server and a real web server."""

from __future__ import annotations

import email
import email.policy
import json
import socketserver
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tenure.daemon.messages import Courier, Mailer, Message, message_of, post, ways_to
from tenure.daemon.notes import Owner, notes_of
from tenure.ledger.ledger import open_ledger
from tenure.ledger.records import Note, TurnRow
from tenure.settings.errors import BadInput, checked
from tenure.settings.live_file import SUBJECTS, SUBJECTS_BY_DEFAULT, MessagesFile

OWNERS = {
    "7": Owner("ann", "language/ann", "train"),
    "8": Owner("bo", "vision/bo", resumable=False, max_runtime_s=3600),
    "9": Owner("cy", "vision/cy", detail="exit status 3"),
}


def told(*lines: dict[str, Any], about: Sequence[str] = SUBJECTS) -> list[tuple[str, str, str]]:
    notes = notes_of(lines, OWNERS.get, start=1_767_571_200.0, about=about)
    return [(note["user"], note["kind"], note["text"]) for note in notes]


def stopping(job: str, **keys: Any) -> dict[str, Any]:
    line = {"event": "stopping", "t": 60, "job": job, "attempt": 2, "cause": "preempted", "by": "9"}
    line |= {"rule": "above_target", "mine": 0.8, "theirs": 1.25, "grace_until_s": 180}
    return line | keys


def stopped(job: str, end: str, **keys: Any) -> dict[str, Any]:
    line = {"event": "stopped", "t": 90, "job": job, "attempt": 1, "end": end}
    return line | {"held_gpu_s": 7200, "lost_gpu_s": 0} | keys


# --- what they say --------------------------------------------------------------------------------


def test_a_notice_says_from_when_and_for_whom() -> None:
    line = {"event": "notice", "t": 0, "job": "7", "attempt": 1, "interruptible_at_s": 300, "by": "9"}
    text = (
        "Job 7 (train) may be stopped from 2026-01-05 00:05:00 UTC on, because job 9 of vision/cy waits for"
        " its GPUs. Save your work before then."
    )
    assert told(line) == [("ann", "notice", text)]


def test_a_stop_names_the_taker_the_rule_both_ratios_the_grace_and_what_comes_then() -> None:
    text = (
        "Job 7 (train) is being stopped, attempt 2: past its protection, and language/ann stays at its target"
        " without it: stopped for job 9 of vision/cy (ratio 0.80 against 1.25). It has 2 min to save, until"
        " 2026-01-05 00:03:00 UTC. It is queued again by itself."
    )
    assert told(stopping("7")) == [("ann", "stopping", text)]


def test_a_job_that_cannot_resume_is_told_so() -> None:
    (note,) = told(stopping("8", rule="free_work", mine=0.0, theirs=0.0))
    assert note[2].endswith("It is not queued again.")
    assert "ratio" not in note[2]


def test_who_cancels_their_own_job_is_told_nothing_and_of_anothers_cancel_they_are() -> None:
    assert told(stopping("7", cause="cancelled", rule="owner", by="ann")) == []
    (note,) = told(stopping("7", cause="forced", rule="operator", by="pia", reason="disk full"))
    assert ": stopped by pia: disk full." in note[2]


def test_each_end_not_of_its_own_making_is_told_once() -> None:
    lines = [
        stopped("7", "node_failed", lost_gpu_s=3600),
        {"event": "requeued", "t": 90, "job": "7", "attempt": 1},
        stopped("8", "timed_out"),
        stopped("9", "failed"),
    ]
    assert [text for _, _, text in told(*lines)] == [
        "Job 7 (train) lost its node, attempt 1; it held 2.0 GPU-hours, of which 1.0 since its last save are"
        " lost. It is queued again by itself.",
        "Job 8 was ended at its own max_runtime of 1 h; it held 2.0 GPU-hours.",
        "Job 9 failed (exit status 3), attempt 1; it held 2.0 GPU-hours.",
    ]


def test_a_preempted_attempt_is_told_at_its_end_only_where_the_job_ends_with_it() -> None:
    again = [stopped("7", "preempted"), {"event": "requeued", "t": 90, "job": "7", "attempt": 1}]
    assert told(*again) == []
    assert [kind for _, kind, _ in told(stopped("8", "preempted"))] == ["preempted"]


def test_only_what_is_wanted_is_told() -> None:
    lines = [stopped("7", "finished"), stopped("8", "failed")]
    assert [kind for _, kind, _ in told(*lines, about=SUBJECTS_BY_DEFAULT)] == ["failed"]
    assert {kind for _, kind, _ in told(*lines)} == {"finished", "failed"}


# --- how they leave -------------------------------------------------------------------------------


class Chosen:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at


class Drawer:
    """An outbox in memory."""

    def __init__(self) -> None:
        self.notes: dict[int, Note] = {}
        self.closed: list[tuple[tuple[int, ...], str, str]] = []
        self.quiet: dict[str, float] = {}

    def put(self, user: str, text: str, at: float = 1000.0, kind: str = "failed") -> None:
        number = len(self.notes) + sum(len(numbers) for numbers, _, _ in self.closed) + 1
        self.notes[number] = Note(number, 0, at, user, {"job": "7", "kind": kind, "text": text}, "open")

    def outbox(self, limit: int) -> list[Note]:
        return list(self.notes.values())[:limit]

    def settle_notes(self, settled: Sequence[tuple[int, str, str]]) -> None:
        for number, _, _ in settled:
            del self.notes[number]
        self.closed.append((tuple(row[0] for row in settled), *settled[0][1:]))

    def quiet_until(self) -> dict[str, float]:
        return self.quiet

    def keep_quiet_until(self, quiet_until: Mapping[str, float]) -> None:
        self.quiet = dict(quiet_until)


class Web(ThreadingHTTPServer):
    """A chat service: keeps what is posted, answers with `status`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.posted: list[dict[str, Any]] = []
        self.status, self.delay_s = 200, 0.0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class Asked(BaseHTTPRequestHandler):
    server: Web

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posted.append(body | {"key": self.headers["Idempotency-Key"]})
        time.sleep(self.server.delay_s)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


class Post(socketserver.ThreadingTCPServer):
    """A mail server: the few words of SMTP that a message needs."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Letter)
        self.letters: list[tuple[str, bytes]] = []
        self.refused: set[str] = set()


class Letter(socketserver.StreamRequestHandler):
    server: Post

    def say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")

    def handle(self) -> None:
        to = ""
        self.say("220 here")
        while line := self.rfile.readline().decode().strip():
            word = line[:4].upper()
            if word == "RCPT":
                to = line.partition("<")[2].partition(">")[0]
                self.say("550 no such person" if to in self.server.refused else "250 ok")
            elif word == "DATA":
                self.say("354 go on")
                data = b""
                while (part := self.rfile.readline()) not in (b".\r\n", b""):
                    data += part
                self.server.letters.append((to, data))
                self.say("250 kept")
            elif word == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 ok")


Server = TypeVar("Server", bound=socketserver.TCPServer)


@contextmanager
def listening(server: Server) -> Iterator[Server]:
    """The server answers, from a thread of its own, for the length of a block."""
    with server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def web() -> Iterator[Web]:
    with listening(Web()) as server:
        yield server


@pytest.fixture
def mail() -> Iterator[Post]:
    with listening(Post()) as server:
        yield server


def settings(**keys: Any) -> MessagesFile:
    return MessagesFile.model_validate(keys)


def mail_to(server: Post, **keys: Any) -> dict[str, Any]:
    return {"server": f"127.0.0.1:{server.server_address[1]}", "to": "{user}@lab.example"} | keys


def test_a_note_is_posted_as_json_with_its_text_and_its_id(web: Web) -> None:
    drawer = Drawer()
    drawer.put("ann", "Job 7 failed.")
    Courier("lab", settings(webhook=web.address), drawer, Chosen().now).round()
    (posted,) = web.posted
    assert posted["text"] == "ann: Job 7 failed."
    assert posted["id"] == posted["key"] == drawer.closed[0][2]
    assert drawer.closed[0][:2] == ((1,), "sent")


def test_a_note_is_mailed_with_headers_that_say_a_program_wrote_it(mail: Post) -> None:
    drawer = Drawer()
    drawer.put("ann", "Job 7 (Prüfung ✓) failed.")
    Courier("lab", settings(mail=mail_to(mail)), drawer, Chosen().now).round()
    ((to, data),) = mail.letters
    letter = email.message_from_bytes(data, policy=email.policy.default)
    assert (to, letter["To"], letter["Subject"]) == ("ann@lab.example",) * 2 + ("lab: job 7: failed",)
    assert letter["Auto-Submitted"] == "auto-generated"
    assert letter["Message-ID"] == f"<{drawer.closed[0][2]}@tenure.localhost>"
    assert letter.get_content().strip() == "Job 7 (Prüfung ✓) failed."


def test_a_server_that_starts_anew_knows_who_had_a_message_within_the_period(web: Web) -> None:
    drawer, clock = Drawer(), Chosen()
    wants = settings(webhook=web.address, every="5m")
    drawer.put("ann", "one")
    drawer.put("bo", "two")
    Courier("lab", wants, drawer, clock.now).round()
    assert drawer.quiet == {"ann": clock.at + 300, "bo": clock.at + 300}
    drawer.put("ann", "three")
    clock.at += 299
    Courier("lab", wants, drawer, clock.now).round()
    assert len(drawer.notes) == 1
    clock.at += 1
    Courier("lab", wants, drawer, clock.now).round()
    assert not drawer.notes
    assert drawer.quiet == {"ann": clock.at + 300}  # what is over is not kept


def test_what_comes_within_a_period_leaves_as_one_message(web: Web) -> None:
    drawer, clock = Drawer(), Chosen()
    courier = Courier("lab", settings(webhook=web.address, every="5m"), drawer, clock.now)
    drawer.put("ann", "one")
    courier.round()
    for text in ("two", "three"):
        drawer.put("ann", text)
        clock.at += 60
        courier.round()
    drawer.put("bo", "bo's own")  # another person waits for nobody
    courier.round()
    assert [p["text"] for p in web.posted] == ["ann: one", "bo: bo's own"]
    clock.at += 200
    courier.round()
    assert web.posted[-1]["text"] == "ann: - two\n- three"
    assert drawer.notes == {}


def test_a_flood_is_one_message_of_bounded_length() -> None:
    notes = [Note(n, 0, 0.0, "ann", {"text": f"line {n}"}, "open") for n in range(500)]
    message = message_of("lab", "ann", notes)
    assert message.text.count("\n") == 40
    assert message.text.endswith("and 460 more: `tenure queue` and `tenure show JOB` have all.")
    assert message == message_of("lab", "ann", notes)


def test_a_server_that_is_away_is_asked_again_ever_later_and_gets_the_same_id(web: Web) -> None:
    drawer, clock = Drawer(), Chosen()
    courier = Courier("lab", settings(webhook=web.address), drawer, clock.now)
    drawer.put("ann", "one")
    web.status = 503
    for _ in range(100):
        courier.round()
        clock.at += 1
    assert 4 <= len(web.posted) <= 6  # after 5, 10, 20 and 40 seconds
    assert "HTTP 503" in courier.told().error
    drawer.put("ann", "two")
    web.status = 200
    clock.at += 100
    courier.round()
    assert len({posted["id"] for posted in web.posted}) == 1
    assert (list(drawer.notes), courier.told().error) == ([2], "")


def test_who_was_reached_by_one_way_is_not_told_again_by_it_while_the_other_is_away(
    web: Web, mail: Post
) -> None:
    drawer, clock = Drawer(), Chosen()
    courier = Courier("lab", settings(webhook=web.address, mail=mail_to(mail)), drawer, clock.now)
    drawer.put("ann", "one")
    mail.refused.add("ann@lab.example")
    courier.round()
    assert (len(web.posted), len(mail.letters), len(drawer.notes)) == (1, 0, 1)
    mail.refused.clear()
    clock.at += 60
    courier.round()
    assert (len(web.posted), len(mail.letters), len(drawer.notes)) == (1, 1, 0)


def test_an_address_that_is_refused_holds_up_nobody_else(mail: Post) -> None:
    drawer = Drawer()
    drawer.put("ann", "one")
    drawer.put("bo", "two")
    mail.refused.add("ann@lab.example")
    courier = Courier("lab", settings(mail=mail_to(mail)), drawer, Chosen().now)
    courier.round()
    assert [to for to, _ in mail.letters] == ["bo@lab.example"]
    assert "no such person" in courier.told().error or courier.told().sent == 1


def test_a_flood_for_one_who_cannot_be_reached_keeps_no_message_from_others(mail: Post) -> None:
    drawer, clock = Drawer(), Chosen()
    for n in range(2500):
        drawer.put("ann", f"line {n}")
    drawer.put("bo", "two")
    mail.refused.add("ann@lab.example")
    courier = Courier("lab", settings(mail=mail_to(mail)), drawer, clock.now)
    for _ in range(3):
        courier.round()
        clock.at += 1
    assert [to for to, _ in mail.letters] == ["bo@lab.example"]


def test_a_note_nobody_takes_for_days_is_given_up_with_the_reason(web: Web) -> None:
    drawer, clock = Drawer(), Chosen()
    courier = Courier("lab", settings(webhook=web.address, keep="1h"), drawer, clock.now)
    drawer.put("ann", "one")
    web.status = 500
    courier.round()
    clock.at += 3601
    courier.round()
    assert drawer.closed == [((1,), "failed", "not delivered in time: webhook: ConnectionError: HTTP 500")]
    assert courier.told().failed == 1


def test_who_wants_none_or_has_no_address_keeps_nothing_waiting(web: Web) -> None:
    drawer = Drawer()
    drawer.put("ann", "one")
    drawer.put("a b", "two")
    people = {"ann": {"quiet": True}}
    Courier(
        "lab",
        settings(mail={"server": "127.0.0.1:1", "to": "{user}@x.example"}, people=people),
        drawer,
        Chosen().now,
    ).round()
    assert [state for _, state, _ in drawer.closed] == ["failed", "failed"]


def test_a_person_may_have_ways_of_their_own() -> None:
    found = settings(
        webhook="http://chat.example/all",
        mail={"server": "mail.example", "to": "{user}@x.example"},
        people={"ann": {"mail": "ann@home.example"}, "bo": {"webhook": "http://chat.example/bo"}},
    )
    assert tuple(ways_to("ann", found)) == ("http://chat.example/all", "ann@home.example")
    assert tuple(ways_to("bo", found)) == ("http://chat.example/bo", "bo@x.example")
    assert tuple(ways_to("x,y", found)) == ("http://chat.example/all", None)


def test_a_jobs_name_cannot_call_a_whole_channel(web: Web) -> None:
    post(Message("1", "ann", "s", "Job 7 (<!channel>) failed.", (1,)), web.address)
    assert web.posted[0]["text"] == "ann: Job 7 (&lt;!channel&gt;) failed."


def test_no_name_can_add_a_header_to_a_mail(mail: Post) -> None:
    notes = [
        Note(
            1, 0, 0.0, "ann", {"job": "7\nBcc: all@lab.example", "kind": "failed", "text": "x\n.\ny"}, "open"
        )
    ]
    mailer = Mailer(settings(mail=mail_to(mail)).mail)
    mailer(message_of("lab", "ann", notes), "ann@lab.example")
    letter = email.message_from_bytes(mail.letters[0][1], policy=email.policy.default)
    assert letter["Bcc"] is None
    assert "Bcc: all@lab.example" in letter["Subject"]


@pytest.mark.slow
def test_messages_leave_from_a_thread_of_their_own(web: Web) -> None:
    drawer = Drawer()
    drawer.put("ann", "one")
    courier = Courier("lab", settings(webhook=web.address), drawer, Chosen().now)
    courier.start()
    deadline = time.monotonic() + 120
    while drawer.notes and time.monotonic() < deadline:
        time.sleep(0.02)
    courier.close()
    assert len(web.posted) == 1


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"webhook": "ftp://x"}, "messages.webhook: found 'ftp://x'; allowed: an address such as"),
        ({"mail": {"server": "x:0"}}, "messages.mail.server: found 'x:0'; allowed: a mail server"),
        ({"mail": {"server": "x", "to": "a@b"}}, "allowed: an address with {user} in it"),
        ({"mail": {"server": "x", "login": "a"}}, "allowed: login and password_file together, or neither"),
        ({"about": ["all"]}, "messages.about: found ['all']; allowed: a list of notice | stopping"),
        ({"people": {"ann": {"mail": "ann@x"}}}, "allowed: mail: {server: …}"),
        ({"every": "2d"}, "messages.every: found '2d'; allowed: a duration from 0s to 1d"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_the_door(raw: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        checked(MessagesFile, raw, file="lab.yaml", at=("live", "messages"))
    assert words in str(refused.value)


def turn_with(*notes: dict[str, Any]) -> TurnRow:
    return TurnRow(1, 0, 1000.0, [], {}, "d", "c", None, [], [], [], [], [], notes=notes)


def test_what_a_turn_wrote_down_leaves_after_a_restart_and_only_once(web: Web, tmp_path: Path) -> None:
    web.status = 503
    clock = Chosen()
    for restart in range(3):
        ledger = open_ledger(tmp_path / "record.db")
        if restart == 0:
            ledger.begin("lab", 1000.0)
            lease = ledger.lead("here", 1000.0, 60.0)
            assert lease is not None
            ledger.record(
                turn_with({"user": "ann", "job": "7", "kind": "failed", "text": "one", "t": 0}), lease
            )
        Courier("lab", settings(webhook=web.address), ledger, clock.now).round()
        ledger.close()
        web.status = 200
    assert [posted["text"] for posted in web.posted] == ["ann: one", "ann: one"]  # refused, then taken
    assert len({posted["id"] for posted in web.posted}) == 1
