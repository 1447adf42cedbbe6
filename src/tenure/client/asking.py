"""The typed client: a method for everything that can be asked of a server.

from tenure.client import Client

with Client() as lab:
    job = lab.submit(account="vision/ann", gpus=8, min_runtime="2h", command=["python", "train.py"]).job
    print(lab.why(job).sentence)
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from tenure.client.errors import NotAllowed, Refused, ServerUnavailable
from tenure.client.messages import (
    Accounts,
    Done,
    Finding,
    Happening,
    Health,
    Job,
    Log,
    Message,
    NewToken,
    Node,
    Queue,
    QueueRow,
    Reservation,
    Server,
    Submitted,
    Token,
    Why,
)
from tenure.client.place import place_of

M = TypeVar("M", bound=Message)

TIMEOUT_S = 30.0
RETRIES_S = (0.2, 0.5, 1.0, 2.0)  #: pauses between tries of what may be asked twice
POLL_S = 1.0  #: between two looks at a log that grows
AGAIN = (502, 503, 504)


class Client:
    """A server, asked on behalf of the bearer of a token.

    Reads, and submissions (each carries an idempotency key), are tried again a few times when the server
    does not answer. Raises ServerUnavailable, NotAllowed or Refused, each with one sentence.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.place = place_of(url, token)
        self._wait = wait
        headers = {"User-Agent": "tenure"}
        if self.place.token:
            headers["Authorization"] = f"Bearer {self.place.token}"
        try:
            self._http = httpx.Client(
                base_url=f"{self.place.url}/", headers=headers, timeout=timeout_s, trust_env=False
            )
        except (httpx.InvalidURL, UnicodeEncodeError) as wrong:
            raise Refused(
                f"{self.place.url!r} is no address of a server, or the token no text: {wrong}"
            ) from None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    # --- a researcher's day ----------------------------------------------------------------------------

    def submit(self, *, key: str | None = None, receipt: bool = True, **job: Any) -> Submitted:
        """Submit a job: its keys as in a lab's files, and `array` ("0-9%2"), `after` (["12:ok"]), `name`.

        `key`: asked twice with one key is submitted once. `receipt=False` is quicker.
        """
        key = key or uuid.uuid4().hex
        params = None if receipt else {"receipt": "no"}
        try:
            headers = {"Idempotency-Key": key}
            return self._post(Submitted, "jobs", job, headers=headers, params=params, again=True)
        except ServerUnavailable as lost:
            if not lost.sent:
                raise
            raise ServerUnavailable(
                f"{lost}\nThe job had been sent and may be in the record: `tenure queue` shows it when a"
                f" server is up. Submitted again with the key {key} (--key) it is there once.",
                sent=True,
            ) from None

    def queue(
        self,
        *,
        state: str | None = None,
        user: str | None = None,
        account: str | None = None,
        cluster: str | None = None,
        limit: int = 1000,
        offset: int = 0,
    ) -> Queue:
        """What waits and runs. `state`: waiting, running, stopping, ended or all; default: all but ended."""
        asked = {"state": state, "user": user, "account": account, "cluster": cluster}
        return self._get(Queue, "jobs", {**asked, "limit": limit, "offset": offset})

    def every_row(self, *, state: str | None = None, account: str | None = None) -> Iterator[QueueRow]:
        """All rows of the queue, page after page."""
        seen = 0
        while True:
            page = self.queue(state=state, account=account, offset=seen)
            yield from page.jobs
            seen += len(page.jobs)
            if not page.jobs or seen >= page.total:
                return

    def show(self, job: str) -> Job:
        """All that may be seen of a job."""
        return self._get(Job, f"jobs/{_part(job)}")

    def why(self, job: str) -> Why:
        """Why the job waits, or by which rule it runs."""
        return self._get(Why, f"jobs/{_part(job)}/why")

    def why_if(self, **job: Any) -> Why:
        """The same for a job that is not submitted: its keys as for `submit`; with its receipt."""
        return self._post(Why, "why", job, again=True)

    def cancel(self, job: str, reason: str = "") -> Done:
        """End the job, or all jobs of an array."""
        return self._act(job, "cancel", reason)

    def hold(self, job: str, reason: str = "") -> Done:
        """Do not consider a waiting job."""
        return self._act(job, "hold", reason)

    def release(self, job: str, reason: str = "") -> Done:
        """Consider it again."""
        return self._act(job, "release", reason)

    def stop(self, job: str, reason: str) -> Done:
        """Stop a running attempt against the contract: managers and administrators only, with a reason."""
        return self._act(job, "stop", reason)

    def _act(self, job: str, verb: str, reason: str) -> Done:
        return self._post(Done, f"jobs/{_part(job)}/{verb}", {"reason": reason})

    def events(self, job: str) -> list[Happening]:
        """The job's story."""
        return self._list(Happening, f"jobs/{_part(job)}/events")

    def log(self, job: str, *, attempt: int | None = None, last_bytes: int = 1 << 16) -> Log:
        """The end of what the job wrote."""
        return self._get(Log, f"jobs/{_part(job)}/log", {"attempt": attempt, "bytes": last_bytes})

    def follow(self, job: str, *, attempt: int | None = None, poll_s: float = POLL_S) -> Iterator[str]:
        """What the job writes, as it writes it, until the attempt is over."""
        seen: Log | None = None
        while True:
            log = self.log(job, attempt=attempt, last_bytes=1 << 20)
            if seen is None or log.attempt != seen.attempt:
                fresh = log.text
            else:
                fresh = _beyond(seen.text, log.text)
            if fresh:
                yield fresh
            if not log.running:
                return
            seen = log
            self._wait(poll_s)

    # --- the lab ---------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """All nodes and what runs on them."""
        return self._list(Node, "nodes")

    def set_node(self, node: str, state: str, reason: str = "") -> Done:
        """`state`: drain, down, up, repair or test."""
        return self._post(Done, f"nodes/{_part(node)}", {"state": state, "reason": reason})

    def reserve(self, nodes: Sequence[str], begins: str, length: str, reason: str) -> Reservation:
        """Take nodes out of service from an instant on, for so long. `nodes`: names or patterns."""
        asked = {"nodes": list(nodes), "from": begins, "for": length, "reason": reason}
        return self._post(Reservation, "reservations", asked)

    def reservations(self) -> list[Reservation]:
        """Those that are open or to come."""
        return self._list(Reservation, "reservations")

    def unreserve(self, reservation: str) -> Done:
        """Take one back."""
        return self._post(Done, f"reservations/{_part(reservation)}/cancel", {})

    def accounts(self) -> Accounts:
        """How each account stands: held, owed, left in the lookback, foreseen."""
        return self._get(Accounts, "accounts")

    @contextmanager
    def story(self, since: str | None = None) -> Iterator[Path]:
        """The server's story, as a file that goes when the block ends; measures are of its last `since`."""
        with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
            path = Path(folder) / "story.jsonl"
            try:
                with self._http.stream(
                    "GET", "api/v1/story", params={} if since is None else {"since": since}
                ) as answer:
                    if answer.status_code != 200:
                        answer.read()
                        raise (
                            _refusal(answer)
                            if answer.status_code < 500
                            else ServerUnavailable(_message(answer))
                        )
                    with path.open("wb") as out:
                        for part in answer.iter_bytes():
                            out.write(part)
            except httpx.HTTPError as lost:
                raise self._lost(lost) from None
            yield path

    def audit(self, since: str | None = None) -> dict[str, Any]:
        """The measures of the record: what each account was owed and got."""
        return self._json("GET", "audit", params={"since": since})

    def audit_shadow(self, since: str | None = None) -> dict[str, Any]:
        """What the real scheduler did beside what Tenure would have done. In shadow mode only."""
        return self._json("GET", "audit/shadow", params={"since": since})

    def turn(self, turn: int) -> dict[str, Any]:
        """A recorded turn, to be decided again elsewhere."""
        return self._json("GET", f"turns/{turn}")

    def doctor(self) -> list[Finding]:
        """What a site must still configure."""
        return self._list(Finding, "doctor")

    def server(self) -> Server:
        """Which server this is, and who asks."""
        return self._get(Server, "server")

    def health(self) -> Health:
        """Whether the server can be relied on; needs no token, and answers where it is not healthy too."""
        answer = self._send("GET", "/healthz", again=False, ill=True)
        return _read(Health, answer)

    # --- tokens ----------------------------------------------------------------------------------------

    def create_token(
        self, user: str, *, admin: bool = False, expires: str | None = None, note: str = ""
    ) -> NewToken:
        """A new token, shown once. `expires`: a duration from now; default: never."""
        asked = {"user": user, "admin": admin, "expires": expires, "note": note}
        return self._post(NewToken, "tokens", asked)

    def tokens(self) -> list[Token]:
        """All tokens for an administrator, else one's own."""
        return self._list(Token, "tokens")

    def revoke_token(self, id: str) -> Done:
        """It opens nothing any more."""
        return self._post(Done, f"tokens/{_part(id)}/revoke", {})

    # --- how it is asked -------------------------------------------------------------------------------

    def _get(self, model: type[M], path: str, params: Mapping[str, Any] | None = None) -> M:
        return _read(model, self._send("GET", path, params=params, again=True))

    def _list(self, model: type[M], path: str) -> list[M]:
        answer = self._send("GET", path, again=True)
        try:
            return TypeAdapter(list[model]).validate_json(answer.content)  # type: ignore[valid-type]
        except ValidationError:
            raise _not_ours(answer) from None

    def _post(self, model: type[M], path: str, body: Mapping[str, Any], **how: Any) -> M:
        told = {key: value for key, value in body.items() if value is not None}
        return _read(model, self._send("POST", path, body=told, **how))

    def _json(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        answer = self._send(method, path, again=True, **how)
        try:
            return dict(answer.json())
        except ValueError:
            raise _not_ours(answer) from None

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        again: bool = False,
        ill: bool = False,
    ) -> httpx.Response:
        """Ask, and ask again where that does no harm. `ill`: an answer of 503 is one too."""
        asked = {key: value for key, value in (params or {}).items() if value is not None}
        pauses: Sequence[float] = RETRIES_S if again else ()
        sent = False
        address = path[1:] if path.startswith("/") else f"api/v1/{path}"
        for pause_s in (*pauses, None):
            try:
                answer = self._http.request(method, address, params=asked, json=body, headers=headers)
            except httpx.HTTPError as lost:
                sent = sent or not isinstance(lost, (httpx.ConnectError, httpx.ConnectTimeout))
                problem = self._lost(lost, sent)
            except (ValueError, RecursionError) as wrong:  # what is no JSON: nan, a text of half a character
                raise Refused(f"the question is no JSON: {wrong}") from None
            else:
                if answer.status_code < 400 or (ill and answer.status_code == 503):
                    return answer
                if answer.status_code not in AGAIN and answer.status_code != 429:
                    raise _refusal(answer)
                problem = ServerUnavailable(_message(answer), sent=sent)
            if pause_s is None:
                raise problem
            self._wait(pause_s)
        raise AssertionError("unreachable")

    def _lost(self, lost: httpx.HTTPError, sent: bool = False) -> ServerUnavailable:
        text = f"no answer from {self.place.url} ({_words(lost)}); is `tenure serve` up?"
        return ServerUnavailable(text, sent=sent)


def _beyond(before: str, now: str) -> str:
    """What `now` says after `before`, both ends of a growing text."""
    if now.startswith(before):
        return now[len(before) :]
    tail = before[-4096:]
    at = now.rfind(tail) if tail else -1
    return now if at < 0 else now[at + len(tail) :]


def _part(name: str) -> str:
    """A name as a part of a path."""
    from urllib.parse import quote

    if not name or name in (".", ".."):
        raise Refused(f"{name!r} is no name", 404)
    return quote(name, safe="", errors="replace")


def _read(model: type[M], answer: httpx.Response) -> M:
    try:
        return model.model_validate_json(answer.content)
    except ValidationError:
        raise _not_ours(answer) from None


def _not_ours(answer: httpx.Response) -> ServerUnavailable:
    return ServerUnavailable(f"{answer.url} answers, but not as a Tenure server does")


def _refusal(answer: httpx.Response) -> NotAllowed | Refused:
    message = _message(answer)
    if answer.status_code in (401, 403):
        return NotAllowed(message)
    return Refused(message, answer.status_code)


def _message(answer: httpx.Response) -> str:
    """The server's sentence."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    if isinstance(found, dict) and isinstance(found.get("error"), str):
        return str(found["error"])
    return f"{answer.url} answered {answer.status_code}"


def _words(lost: httpx.HTTPError) -> str:
    if isinstance(lost, httpx.TimeoutException):
        return "it took too long"
    return str(lost) or type(lost).__name__
