"""What only a running scheduler is told (`live:` in a lab's file): health checks, messages to owners.

A simulation reads and ignores it, so that one file serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, model_validator

from tenure.settings.errors import Checked, checked
from tenure.settings.units import Flag, Name, Share, Text, one_of, whole, within

DAY_S = 86400
#: What a message may be about; `docs/how-to/watch-a-lab.md` says when each is sent.
SUBJECTS = ("notice", "stopping", "preempted", "failed", "timed_out", "node_failed", "finished")
SUBJECTS_BY_DEFAULT = ("notice", "stopping", "preempted", "failed", "timed_out", "node_failed")
LONGEST_COMMAND = 100


def _command(value: Any) -> list[str]:
    allowed = "a command as a list of words, such as [/opt/lab/check, --quick], or one program"
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not 0 < len(words) <= LONGEST_COMMAND:
        raise ValueError(allowed)
    if any(not isinstance(word, str) or "\0" in word or len(word) > 4096 for word in words) or not words[0]:
        raise ValueError(allowed)
    return words


def web_address(value: Any) -> str:
    """An address that something can be posted to."""
    allowed = "an address such as https://chat.example/hooks/lab"
    if not isinstance(value, str) or len(value) > 4096 or not value.isprintable():
        raise ValueError(allowed)
    try:
        parts = urlsplit(value.strip())
        port_is_a_number = parts.port is None or parts.port > 0
    except ValueError:
        raise ValueError(allowed) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_a_number:
        raise ValueError(allowed)
    return value.strip()


def mail_address(value: Any) -> str:
    """One address, plain: `ann@lab.example`. `{user}` stands for the user's name."""
    allowed = "a mail address such as ann@lab.example"
    if not isinstance(value, str) or len(value) > 320 or not value.isprintable():
        raise ValueError(allowed)
    name, at, host = value.strip().rpartition("@")
    if not (name and at and host) or any(letter in value for letter in " ,;<>\"'\\"):
        raise ValueError(allowed)
    return value.strip()


def _mail_template(value: Any) -> str:
    address = mail_address(value)
    if "{user}" not in address:
        raise ValueError("an address with {user} in it, such as {user}@lab.example")
    return address


def _server(value: Any) -> tuple[str, int]:
    allowed = "a mail server such as mail.lab.example or mail.lab.example:587"
    if not isinstance(value, str) or len(value) > 300 or not value.isprintable() or " " in value:
        raise ValueError(allowed)
    host, colon, port = value.strip().rpartition(":")
    if not colon:
        host, port = value.strip(), "25"
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(allowed)
    return host, int(port)


def _subjects(value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or any(word not in SUBJECTS for word in listed):
        raise ValueError("a list of " + " | ".join(SUBJECTS))
    return tuple(dict.fromkeys(listed))


Command = Annotated[list[str], BeforeValidator(_command)]
WebAddress = Annotated[str, BeforeValidator(web_address)]
MailAddress = Annotated[str, BeforeValidator(mail_address)]


class HealthCheckFile(Checked):
    """A site's script, asked how a node is. It is run with the node's name as its last argument."""

    command: Command
    every: Annotated[int, BeforeValidator(within(1, 7 * DAY_S))] = 300
    timeout: Annotated[int, BeforeValidator(within(1, 3600))] = 30
    when: Annotated[str, BeforeValidator(one_of("idle", "always"))] = "idle"
    failures: Annotated[int, BeforeValidator(whole(1, 100, "a number of failures in a row"))] = 2
    most_drained: Share = 100_000  #: millionths of the fleet that checks may take out of service
    at_once: Annotated[int, BeforeValidator(whole(1, 64, "a number of checks at one time"))] = 4


class MailFile(Checked):
    """How mail leaves."""

    server: Annotated[Any, BeforeValidator(_server)]
    sender: MailAddress = "tenure@localhost"
    to: Annotated[str, BeforeValidator(_mail_template)] | None = None
    tls: Annotated[str, BeforeValidator(one_of("none", "starttls", "tls"))] = "none"
    login: Text | None = None
    password_file: Text | None = None

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.login is None) != (self.password_file is None):
            raise ValueError("login and password_file together, or neither")
        if self.login is not None and self.tls == "none":
            raise ValueError(
                "tls: starttls or tls where there is a login: a password is not sent in the clear"
            )
        return self


class PersonFile(Checked):
    """Where one person is reached, instead of what holds for all."""

    mail: MailAddress | None = None
    webhook: WebAddress | None = None
    quiet: Flag = False  #: no messages at all


class MessagesFile(Checked):
    """What owners are told, and how."""

    webhook: WebAddress | None = None  #: all people's messages, each with its person's name
    mail: MailFile | None = None
    every: Annotated[int, BeforeValidator(within(0, DAY_S))] = 300
    about: Annotated[tuple[str, ...], BeforeValidator(_subjects)] = SUBJECTS_BY_DEFAULT
    people: dict[Name, PersonFile] = {}
    keep: Annotated[int, BeforeValidator(within(60, 30 * DAY_S))] = 3 * DAY_S  #: then a message is given up

    @model_validator(mode="after")
    def _mail_leaves_somehow(self) -> Self:
        if self.mail is None and any(person.mail for person in self.people.values()):
            raise ValueError("mail: {server: …} where people have mail addresses")
        return self


class LimitsFile(Checked):
    """How much one researcher may have waiting and running at once; managers and administrators likewise."""

    max_jobs: Annotated[int, BeforeValidator(whole(1, 1_000_000, "a number of jobs"))] | None = None
    max_gpus: Annotated[int, BeforeValidator(whole(1, 1_000_000, "a number of GPUs"))] | None = None


class LocalFile(Checked):
    """The engine `local`: jobs as processes of this machine."""

    log_bytes: Annotated[int, BeforeValidator(whole(1 << 16, 1 << 50, "a number of bytes"))] = 256 << 20
    users: Annotated[str, BeforeValidator(one_of("daemon", "switch", "require"))] = "switch"
    cgroups: Flag = True
    memory_bytes_per_gpu: (
        Annotated[int, BeforeValidator(whole(1 << 20, 1 << 50, "a number of bytes"))] | None
    ) = None
    most_processes: Annotated[int, BeforeValidator(whole(1, 1 << 22, "a number of processes"))] | None = None
    keep: Annotated[int, BeforeValidator(within(0, 3650 * DAY_S))] = 30 * DAY_S


class LiveFile(Checked):
    """Everything under `live:`."""

    limits: LimitsFile | None = None  #: for each researcher
    engine: dict[Name, dict[str, Any]] = {}  #: by engine: its own keys, which it checks itself
    health_check: HealthCheckFile | None = None
    messages: MessagesFile | None = None
    keep: Annotated[int, BeforeValidator(within(DAY_S, 3650 * DAY_S))] | None = None  #: the record, whole


def live_of(raw: Mapping[str, Any], *, file: str) -> LiveFile:
    """The settings of a mapping; BadInput where one is wrong."""
    return checked(LiveFile, raw, file=file, at=("live",))


__all__ = [
    "SUBJECTS",
    "HealthCheckFile",
    "LiveFile",
    "MailFile",
    "MessagesFile",
    "PersonFile",
    "live_of",
]
