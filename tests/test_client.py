"""The typed client as a library: what it asks, what it tries again, how it says what went wrong."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from live_server import Served, serving, wait_for
from tenure.client import Client, NotAllowed, Refused, ServerUnavailable
from tenure.client.asking import RETRIES_S
from tenure.client.place import place_of

JOB: dict[str, Any] = {"account": "vision", "gpus": 1, "min_runtime": "1h", "command": ["sleep", "36000"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("client")) as served:
        yield served


@pytest.fixture
def lab(server: Served) -> Iterator[Client]:
    with server.client() as client:
        yield client


@pytest.mark.slow
def test_a_job_is_submitted_shown_and_ended(lab: Client) -> None:
    told = lab.submit(**JOB, name="first", priority=3, env={"A": "1"})
    wait_for("it runs", lambda: lab.show(told.job).phase == "running")
    job = lab.show(told.job)
    assert (job.account, job.user, job.gpus, job.min_runtime_s) == ("vision", "admin", 1, 3600)
    assert (job.name, job.priority, job.command, job.env) == ("first", 3, ["sleep", "36000"], {"A": "1"})
    assert [one.attempt for one in job.attempts] == [1]
    assert sum(job.attempts[0].nodes.values()) == 1
    lab.cancel(told.job)
    wait_for("it is over", lambda: lab.show(told.job).phase == "ended")
    assert lab.show(told.job).end == "cancelled"
    assert [one.event for one in lab.events(told.job)][:2] == ["submitted", "started"]
    with pytest.raises(Refused, match="has ended") as refused:
        lab.cancel(told.job)
    assert refused.value.status == 409


def test_one_key_is_one_submission_however_often_it_is_asked(lab: Client) -> None:
    first = lab.submit(**JOB, key="night-1", hold=True)
    with ThreadPoolExecutor(8) as pool:
        again = list(pool.map(lambda _: lab.submit(**JOB, key="night-1", hold=True).job, range(16)))
    assert set(again) == {first.job}
    assert lab.submit(**JOB, key="night-2", hold=True).job != first.job
    assert lab.submit(**JOB, hold=True).job != first.job


def test_one_key_of_two_people_is_two_submissions(server: Served) -> None:
    with server.client("ann") as ann, server.client("bo") as bo:
        keys = {"account": "vision", "gpus": 1, "command": ["true"], "hold": True}
        assert ann.submit(**keys, key="k").job != bo.submit(**keys, key="k").job


def test_the_receipt_says_what_the_minimum_costs_and_buys(lab: Client) -> None:
    receipt = lab.submit(**JOB | {"gpus": 2, "min_runtime": "3h"}).receipt
    assert receipt is not None
    assert receipt.cost_gpu_h == 6.0
    assert receipt.protected_s == 3 * 3600
    assert "3h" in receipt.buys
    assert receipt.wait is not None
    assert receipt.wait.latest_s == 0
    longer = lab.why_if(**JOB | {"min_runtime": "20h"}).receipt
    assert longer is not None
    assert longer.protected_s == 8 * 3600
    assert "20h was asked for" in longer.buys
    unbudgeted = lab.why_if(**JOB | {"min_runtime": 0}).receipt
    assert unbudgeted is not None
    assert unbudgeted.cost_gpu_h == 0
    assert "may be stopped at any moment" in unbudgeted.buys
    assert lab.submit(**JOB, receipt=False, hold=True).receipt is None


def test_why_is_the_same_before_a_submission_and_after_it(lab: Client) -> None:
    keys = {"account": "language/olmo/bo", "gpus": 32, "min_runtime": "2h"}
    wait_for("something runs", lambda: lab.queue(state="running").total > 0)
    before = lab.why_if(**keys)
    assert not before.starts_now
    job = lab.submit(**keys, command=["true"]).job
    after = lab.why(job)
    assert (after.reason, after.need, after.have) == (before.reason, before.need, before.have)
    assert after.evidence == before.evidence
    told = after.sentence.replace(f"job {job}", "this job")
    assert told == before.sentence
    for key in (
        "account",
        "cluster",
        "target",
        "running",
        "entitlement",
        "rank",
        "own_jobs_before",
        "jobs_before",
    ):
        assert after.numbers[key] == before.numbers[key], key
    assert after.earliest_start.latest_s == pytest.approx(before.earliest_start.latest_s or 0, abs=600) or (
        after.earliest_start.latest_s is before.earliest_start.latest_s is None
    )
    assert lab.queue(state="waiting", user="admin", account="language").jobs[-1].reason == after.reason
    lab.cancel(job)


def test_asking_about_a_job_submits_nothing(lab: Client) -> None:
    before = lab.queue(state="all").total
    for gpus in (1, 8, 32):
        lab.why_if(**JOB | {"gpus": gpus})
    assert lab.queue(state="all").total == before


@pytest.mark.slow
def test_jobs_wait_for_those_they_come_after(lab: Client) -> None:
    quick = {"account": "vision", "gpus": 1, "min_runtime": "1m"}
    first = lab.submit(**quick, command=["sleep", "1"]).job
    then = lab.submit(**quick, command=["true"], after=[f"{first}:ok"]).job
    never = lab.submit(**quick, command=["true"], after=[first], hold=False).job
    assert lab.why(then).reason == "held"
    assert first in lab.why(then).sentence
    wait_for("both ran", lambda: lab.show(then).end == "finished" and lab.show(never).end == "finished")


def test_the_queue_can_be_cut_down_to_what_is_asked_for(lab: Client) -> None:
    mine = lab.submit(**JOB, hold=True).job
    assert mine in {one.job for one in lab.queue(state="waiting", user="admin").jobs}
    assert mine not in {one.job for one in lab.queue(user="zoe").jobs}
    assert mine not in {one.job for one in lab.queue(account="language").jobs}
    assert mine not in {one.job for one in lab.queue(state="running").jobs}
    first, second = lab.queue(state="waiting", limit=1), lab.queue(state="waiting", limit=1, offset=1)
    assert len(first.jobs) == len(second.jobs) == 1
    assert first.jobs[0].job != second.jobs[0].job
    lab.cancel(mine)
    assert mine in {one.job for one in lab.queue(state="ended").jobs}


def test_accounts_sum_up_what_is_below_them(lab: Client) -> None:
    told = {one.account: one for one in lab.accounts().accounts}
    olmo = [told[f"language/olmo/{name}"] for name in ("ann", "bo")]
    assert told["language/olmo"].running == sum(one.running for one in olmo)
    assert told["language"].entitlement == pytest.approx(0.6 * 32)
    assert told["vision"].share == 0.4
    assert told["vision"].left_gpu_h == pytest.approx(0.4 * 32 * 168 - told["vision"].used_gpu_h, rel=1e-6)
    assert 0 <= told["vision"].forecast_gpu_h <= 32 * 168


def test_the_record_is_audited_by_anyone_who_may_read(lab: Client) -> None:
    measures = lab.audit()
    hours = measures["gpu_hours"]
    parts = hours["down"] + hours["idle"] + hours["budgeted"] + hours["unbudgeted"]
    assert parts == pytest.approx(hours["capacity"])
    assert measures["jobs"]["submitted"] > 0
    with pytest.raises(Refused, match="since"):
        lab.audit(since="yesterday")
    with lab.story() as path:
        assert path.read_text().splitlines()[0].startswith("{")
        assert '"event":"began"' in path.read_text().splitlines()[0].replace(" ", "")


# --- when nobody answers ------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_unavailable_after_a_few_tries() -> None:
    pauses: list[float] = []
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with Client(url, "t", wait=pauses.append) as lab:
            with pytest.raises(ServerUnavailable, match="no answer from"):
                lab.queue()
            assert pauses == list(RETRIES_S)
            pauses.clear()
            with pytest.raises(ServerUnavailable):
                lab.cancel("1")  # not repeated: nobody knows whether it was done
            assert not pauses


class _Flaky(BaseHTTPRequestHandler):
    """Answers 503 twice, then as told."""

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.rfile.read(length)
        asked: list[tuple[str, str]] = self.server.asked  # type: ignore[attr-defined]
        asked.append((self.path, self.headers.get("Idempotency-Key", "")))
        status, body = (503, b'{"error": "compacting"}') if len(asked) < 3 else (201, b'{"job": "7"}')
        if self.path.endswith("/healthz"):
            status, body = 200, b"<html>hello</html>"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, *_: Any) -> None:
        pass


def test_a_submission_is_tried_again_under_one_key() -> None:
    httpd = HTTPServer(("127.0.0.1", 0), _Flaky)
    httpd.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        with Client(f"http://127.0.0.1:{httpd.server_port}", "t", wait=lambda _: None) as lab:
            assert lab.submit(account="a", gpus=1, command=["true"]).job == "7"
            keys = {key for _, key in httpd.asked}  # type: ignore[attr-defined]
            assert len(httpd.asked) == 3  # type: ignore[attr-defined]
            assert len(keys) == 1
            assert keys != {""}
            with pytest.raises(ServerUnavailable, match="not as a Tenure server does"):
                lab.health()
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def test_of_a_server_that_dies_with_a_submission_in_hand_it_is_said_that_it_may_be_there() -> None:
    asked: list[bytes] = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def die() -> None:
            heard, _ = listening.accept()
            asked.append(heard.recv(1 << 16))
            heard.close()
            listening.close()

        thread = threading.Thread(target=die)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with (
            Client(url, "t", wait=lambda _: thread.join()) as lab,
            pytest.raises(ServerUnavailable, match="may be in the record") as told,
        ):
            lab.submit(key="mine", account="a", gpus=1, command=["true"])
    assert "key mine" in str(told.value)
    assert told.value.sent
    assert b"idempotency-key: mine" in asked[0].lower()
    with Client(url, "t", wait=lambda _: None) as lab, pytest.raises(ServerUnavailable) as told:
        lab.submit(account="a", gpus=1, command=["true"])
    assert not told.value.sent  # nobody was there: nothing was sent
    assert "record" not in str(told.value)


def test_a_wrong_token_is_not_allowed(server: Served) -> None:
    with (
        Client(server.url, "tenure_wrong") as lab,
        pytest.raises(NotAllowed, match="unknown, expired or revoked"),
    ):
        lab.queue()


@pytest.mark.parametrize("url", ["http://[::1", "http://exa mple:99999999", "\ud800"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises((Refused, ServerUnavailable)):
        with Client(url, "t", wait=lambda _: None) as lab:
            lab.queue()


def test_the_place_comes_from_arguments_then_the_environment_then_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TENURE_URL", "TENURE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert place_of() == ("http://127.0.0.1:8400", "")
    (tmp_path / ".tenure").mkdir()
    (tmp_path / ".tenure" / "admin.token").write_text("of-the-folder\n")
    assert place_of().token == "of-the-folder"
    monkeypatch.setenv("TENURE_URL", "lab.example:99/")
    monkeypatch.setenv("TENURE_TOKEN", "of-the-environment")
    assert place_of() == ("http://lab.example:99", "of-the-environment")
    assert place_of("https://other", "mine") == ("https://other", "mine")


def test_a_hold_says_who_put_it_and_why(lab: Client) -> None:
    job = lab.submit(**JOB, hold=True).job
    assert lab.why(job).sentence.startswith("waits: admin put it on hold")
    assert lab.show(job).held
    lab.release(job)
    wait_for("it runs", lambda: lab.show(job).phase == "running")
    lab.cancel(job)
