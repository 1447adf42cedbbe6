"""Whatever is sent to a server is answered with one sentence and harms nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from live_server import Served, serving
from tenure.client import Client, Refused
from tenure.settings.live_job import elements

JOB: dict[str, Any] = {"account": "vision", "gpus": 1, "min_runtime": "1h", "command": ["true"], "hold": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("hostile")) as served:
        yield served


@pytest.fixture
def http(server: Served) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def sentence_of(answer: httpx.Response) -> str:
    told = answer.json()
    assert list(told) == ["error"], told
    assert "Traceback" not in told["error"]
    assert 0 < len(told["error"]) < 2000
    assert "\n" not in told["error"]
    return str(told["error"])


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"gpus": -1}, "gpus"),
        ({"gpus": 0}, "gpus"),
        ({"gpus": 1.5}, "gpus"),
        ({"gpus": "many"}, "gpus"),
        ({"gpus": True}, "gpus"),
        ({"gpus": None}, "gpus"),
        ({"gpus": 10**40}, "gpus"),
        ({"gpus": 9}, "up to 8 GPUs on one node, or a multiple of 8 up to 32"),
        ({"gpus": 40}, "no cluster can hold"),
        ({"gpu": "H200"}, "did you mean H100?"),
        ({"clusters": ["jupitr"]}, "did you mean jupiter?"),
        ({"account": "visoin"}, "did you mean vision?"),
        ({"account": "語/ann"}, "the unknown account '語/ann'"),
        ({"account": ""}, "account"),
        ({"account": "a" * 100_000}, "account"),
        ({"account": ["vision"]}, "account"),
        ({"minruntime": "2h"}, "did you mean min_runtime"),
        ({"min_runtime": "2 parsecs"}, "min_runtime"),
        ({"min_runtime": -5}, "min_runtime"),
        ({"min_runtime": "1e99"}, "min_runtime"),
        ({"priority": 1e300}, "priority"),
        ({"kind": "urgent"}, "batch | debug | session"),
        ({"command": []}, "command"),
        ({"command": ["echo", "a\0b"]}, "no NUL"),
        ({"command": ["x" * 200_000]}, "128 kB"),
        ({"command": ["x"] * 20_000}, "10,000 words"),
        ({"command": [["true"]]}, "command"),
        ({"command": {"a": 1}}, "command"),
        ({"env": {"A=B": "1"}}, "no = in them"),
        ({"env": {"A": "x\0y"}}, "no NUL"),
        ({"env": {"": "1"}}, "env"),
        ({"env": ["A=1"]}, "env"),
        ({"env": {"A": {"deep": 1}}}, "env"),
        ({"env": {f"V{k}": "1" for k in range(1001)}}, "1,000 variables"),
        ({"env": {"BIG": "x" * 300_000}}, "256 kB"),
        ({"workdir": "relative"}, "absolute path"),
        ({"workdir": "/a\0b"}, "absolute path"),
        ({"name": "two\nlines"}, "printable"),
        ({"name": "n" * 300}, "printable"),
        ({"array": "0-10000"}, "at most 10,000"),
        ({"array": "5-1"}, "elements"),
        ({"array": "0-9%0"}, "elements"),
        ({"array": 0}, "elements"),
        ({"array": "0-9;rm -rf /"}, "elements"),
        ({"after": ["no-such-job"]}, "there is no job no-such-job"),
        ({"after": ["1:maybe"]}, "12:any"),
        ({"after": [f"{k}" for k in range(200)]}, "at most 100"),
    ],
)
def test_a_wrong_submission_is_one_sentence_and_nothing_is_submitted(
    http: httpx.Client, keys: dict[str, Any], said: str
) -> None:
    before = http.get("/api/v1/jobs").json()["total"]
    answer = http.post("/api/v1/jobs", json=JOB | keys)
    assert answer.status_code == 422, answer.text[:500]
    assert said in sentence_of(answer)
    assert http.get("/api/v1/jobs").json()["total"] == before


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"12",
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"gpus": NaN, "account": "vision"}',
        b'{"gpus": 1' + b"0" * 5000 + b"}",
        b'{"command": ["\\ud800"], "account": "vision", "gpus": 1}',
        b'{"account": "\\ud800", "gpus": 1, "command": ["true"]}',
        b'{"\\ud800": 1}',
    ],
    ids=lambda body: repr(body[:14]),
)
def test_what_is_no_question_is_refused_in_a_sentence(http: httpx.Client, body: bytes) -> None:
    for path in ("/api/v1/jobs", "/api/v1/why"):
        answer = http.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, answer.text[:300]
        sentence_of(answer)


def test_an_environment_of_ten_megabytes_gets_one_clear_answer(server: Served, http: httpx.Client) -> None:
    answer = http.post("/api/v1/jobs", json=JOB | {"env": {"BIG": "x" * 10_000_000}})
    assert answer.status_code == 413
    assert "put what is large into a file" in sentence_of(answer)
    with server.client() as lab, pytest.raises(Refused, match="1,048,576"):
        lab.submit(**JOB | {"env": {"BIG": "x" * 10_000_000}})


def test_an_environment_of_many_lines_is_as_good_as_any(server: Served) -> None:
    env = {"SCRIPT": "one\ntwo\n\tthree", "日本": "🚀", "PATH": "/bin:" * 1000}
    with server.client() as lab:
        job = lab.submit(**JOB | {"env": env, "name": "訓練 🚀"}).job
        told = lab.show(job)
        assert told.env == env
        assert told.name == "訓練 🚀"
        lab.cancel(job, "schöner Grund")
        assert lab.events(job)[-1].details["reason"] == "schöner Grund"


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    [
        "../../etc",
        "%00",
        "a%0Ab",
        "x" * 5000,
        "1;DROP TABLE jobs",
        "' OR 1=1 --",
        "日本",
        "%F0%9F",
        "-1",
    ],
)
def test_no_such_job_is_what_any_strange_name_is_told(http: httpx.Client, job: str) -> None:
    for path in ("", "/why", "/events", "/log"):
        answer = http.get(f"/api/v1/jobs/{job}{path}")
        assert answer.status_code in (404, 422), (path, answer.text[:200])
        sentence_of(answer)
    for verb in ("cancel", "hold", "release"):
        answer = http.post(f"/api/v1/jobs/{job}/{verb}", json={})
        assert answer.status_code in (404, 405), answer.text[:200]


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["x" * 501, "a\0b", 5, ["a"], {"a": 1}])
def test_a_reason_is_words(http: httpx.Client, reason: Any) -> None:
    job = http.post("/api/v1/jobs", json=JOB).json()["job"]
    answer = http.post(f"/api/v1/jobs/{job}/cancel", json={"reason": reason})
    assert answer.status_code == 422
    assert "reason" in sentence_of(answer)
    assert http.post(f"/api/v1/jobs/{job}/cancel", json={}).status_code == 200


@pytest.mark.parametrize(
    "asked",
    [
        "limit=-1",
        "limit=abc",
        "limit=1000000",
        "offset=-1",
        "state=gone",
        "cluster=mars",
        "account=nobody",
        "limit=9" + "9" * 30,
    ],
)
def test_a_wrong_filter_of_the_queue_is_refused(http: httpx.Client, asked: str) -> None:
    answer = http.get(f"/api/v1/jobs?{asked}")
    assert answer.status_code == 422
    sentence_of(answer)


def test_a_key_that_was_used_for_another_job_is_refused(http: httpx.Client) -> None:
    headers = {"Idempotency-Key": "used-once"}
    first, again = (http.post("/api/v1/jobs", json=JOB, headers=headers) for _ in range(2))
    assert (first.status_code, again.json()["job"]) == (201, first.json()["job"])
    other = http.post("/api/v1/jobs", json=JOB | {"gpus": JOB["gpus"] + 1}, headers=headers)
    assert other.status_code == 409
    assert "used-once" in sentence_of(other)


def test_a_key_that_is_too_long_is_refused(http: httpx.Client) -> None:
    answer = http.post("/api/v1/jobs", json=JOB, headers={"Idempotency-Key": "k" * 300})
    assert answer.status_code == 422
    assert "Idempotency-Key" in sentence_of(answer)


@pytest.mark.parametrize(
    "keys",
    [
        {"user": ""},
        {"user": "a/b"},
        {"user": None},
        {"user": "ann", "expires": "soon"},
        {"user": "ann", "expires": 0},
        {"user": "ann", "admin": "yes"},
        {"user": "a\0"},
    ],
)
def test_a_token_for_nobody_is_refused(http: httpx.Client, keys: dict[str, Any]) -> None:
    answer = http.post("/api/v1/tokens", json=keys)
    assert answer.status_code == 422, answer.text
    sentence_of(answer)


@pytest.mark.parametrize(
    ("node", "keys", "status"),
    [
        ("jupiter-9999", {"state": "drain", "reason": "x"}, 404),
        ("jupiter-0001", {"state": "explode", "reason": "x"}, 422),
        ("jupiter-0001", {"state": ["drain"]}, 422),
        ("jupiter-0001", {"state": "drain"}, 422),
    ],
)
def test_a_wrong_word_about_a_node_is_refused(http: httpx.Client, node: str, keys: Any, status: int) -> None:
    answer = http.post(f"/api/v1/nodes/{node}", json=keys)
    assert answer.status_code == status
    sentence_of(answer)


@pytest.mark.slow
def test_an_array_of_ten_thousand_is_taken_and_cancelled_whole(server: Served) -> None:
    with server.client() as lab:
        told = lab.submit(**JOB | {"array": "0-9999%100"})
        assert len(told.jobs) == 10_000
        assert told.jobs[7] == f"{told.job}_7"
        page = lab.queue(state="waiting", limit=50)
        assert len(page.jobs) == 50
        assert page.total >= 10_000
        lab.cancel(told.job)
        assert lab.show(told.jobs[9_999]).end == "cancelled"


def test_elements_of_an_array_are_written_as_a_range_or_a_number() -> None:
    assert elements("0-9%2") == (0, 9, 2)
    assert elements("3-3") == (3, 3, None)
    assert elements(8) == elements("8") == (0, 7, None)


def test_what_leads_nowhere_says_where_to_look(http: httpx.Client) -> None:
    answer = http.get("/api/v1/nothing")
    assert answer.status_code == 404
    assert "/api/docs" in sentence_of(answer)
    assert http.put("/api/v1/jobs", json={}).status_code == 405


def test_after_all_that_the_server_is_well(server: Served, http: httpx.Client) -> None:
    health = httpx.get(f"{server.url}/healthz")
    assert health.status_code == 200
    assert health.json()["ok"]
    assert "tenure_http_requests_total" in httpx.get(f"{server.url}/metrics").text
    errors = [line for line in server.said if '"level": "error"' in line]
    assert not errors, errors[:3]
    assert json.loads(http.get("/api/v1/server").text)["lab"] == "test"


@pytest.mark.slow
def test_limits_of_a_researcher_hold(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab_file = {
        "lab": "test",
        "clusters": {"c": {"nodes": 1, "gpus_per_node": 8}},
        "accounts": {"a": {"share": "100%"}},
        "live": {"limits": {"max_jobs": 3, "max_gpus": 8}},
    }
    keys: dict[str, Any] = {"account": "a", "min_runtime": "1h", "command": ["true"], "hold": True}
    with serving(tmp_path_factory.mktemp("limits"), lab_file) as served, served.client() as lab:
        first = lab.submit(gpus=4, **keys).job
        with pytest.raises(Exception, match="ask for 4 GPUs and may ask for 8: 5 more"):
            lab.submit(gpus=5, **keys)
        with pytest.raises(Exception, match="1 job that waits or runs and may have 3: 3 more"):
            lab.submit(gpus=1, array=3, **keys)
        lab.submit(gpus=1, array=2, **keys)
        with pytest.raises(Exception, match="max_jobs"):
            lab.submit(gpus=1, **keys)
        lab.cancel(first)
        lab.submit(gpus=4, **keys)
        assert isinstance(lab, Client)
