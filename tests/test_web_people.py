"""Who sees and does what, over HTTP, against a real server with the fake engine."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from live_server import Served, serving, wait_for
from tenure.client import Client, NotAllowed, Refused

USERS = ("ann", "bo", "lee", "pia", "zoe", "admin")
#: may act on a job of ann's in language/olmo/ann: ann herself, managers above (lee, pia), administrators
MAY_ACT = {"ann": True, "bo": False, "lee": True, "pia": True, "zoe": False, "admin": True}
MAY_FORCE = {"ann": False, "bo": False, "lee": True, "pia": True, "zoe": False, "admin": True}
ADMIN_ONLY = {user: user == "admin" for user in USERS}
ANYBODY = dict.fromkeys(USERS, True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("people")) as served:
        yield served


def job_of_ann(server: Served, *, hold: bool = False, gpus: int = 1) -> str:
    with server.client("ann") as lab:
        told = lab.submit(
            account="language/olmo/ann",
            gpus=gpus,
            min_runtime="1h",
            command=["sleep", "36000"],
            env={"SECRET": "x"},
            workdir="/srv/ann",
            hold=hold,
        )
    return told.job


def running(server: Served) -> str:
    job = job_of_ann(server)
    with server.client() as lab:
        wait_for("it runs", lambda: lab.show(job).phase == "running")
    return job


Act = Callable[[Client, str], Any]
VERBS: dict[str, tuple[Act, dict[str, bool], str]] = {
    "cancel": (lambda lab, job: lab.cancel(job), MAY_ACT, "held"),
    "hold": (lambda lab, job: lab.hold(job), MAY_ACT, "waiting"),
    "release": (lambda lab, job: lab.release(job), MAY_ACT, "held"),
    "stop": (lambda lab, job: lab.stop(job, "a demo"), MAY_FORCE, "running"),
    "log": (lambda lab, job: lab.log(job), MAY_ACT, "running"),
    "show": (lambda lab, job: lab.show(job), ANYBODY, "held"),
    "why": (lambda lab, job: lab.why(job), ANYBODY, "held"),
    "events": (lambda lab, job: lab.events(job), ANYBODY, "held"),
    "queue": (lambda lab, job: lab.queue(), ANYBODY, "held"),
    "accounts": (lambda lab, job: lab.accounts(), ANYBODY, "held"),
    "nodes": (lambda lab, job: lab.nodes(), ANYBODY, "held"),
    "audit": (lambda lab, job: lab.audit(), ANYBODY, "held"),
    "drain": (lambda lab, job: lab.set_node("jupiter-0003", "drain", "a fan"), ADMIN_ONLY, "held"),
    "token": (lambda lab, job: lab.create_token("carl"), ADMIN_ONLY, "held"),
    "doctor": (lambda lab, job: lab.doctor(), ADMIN_ONLY, "held"),
    "turn": (lambda lab, job: lab.turn(1), ADMIN_ONLY, "held"),
}


ACTS = ("cancel", "hold", "release", "stop", "log")  #: a job of its own for each user


@pytest.fixture(scope="module")
def a_job(server: Served) -> str:
    return job_of_ann(server, hold=True)


@pytest.mark.slow
@pytest.mark.parametrize("verb", sorted(VERBS.keys() - set(ACTS)))
def test_each_question_is_for_those_who_may_ask_it(server: Served, a_job: str, verb: str) -> None:
    ask, may, _ = VERBS[verb]
    for user in USERS:
        with server.client(user) as lab:
            if may[user]:
                ask(lab, a_job)
                continue
            with pytest.raises(NotAllowed) as refused:
                ask(lab, a_job)
            assert user in str(refused.value) or "administrators" in str(refused.value)
    with server.client() as lab:
        if next(one for one in lab.nodes() if one.node == "jupiter-0003").state != "up":
            lab.set_node("jupiter-0003", "up")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ACTS)
def test_each_verb_is_for_those_who_may_and_refused_to_all_others(server: Served, verb: str) -> None:
    act, may, state = VERBS[verb]
    for user in USERS:
        job = running(server) if state == "running" else job_of_ann(server, hold=state == "held")
        blocker = ""
        if state == "waiting":  # a job of the whole lab waits for one that is protected
            blocker = job
            wait_for("it runs", lambda job=job: phase_of(server, job) == "running")
            job = job_of_ann(server, gpus=32)
        with server.client(user) as lab:
            if may[user]:
                act(lab, job)
            else:
                with pytest.raises(NotAllowed) as refused:
                    act(lab, job)
                assert user in str(refused.value) or "administrators" in str(refused.value)
        with server.client() as lab:
            for one in (job, blocker):
                if one and lab.show(one).phase != "ended":
                    lab.cancel(one)


def phase_of(server: Served, job: str) -> str:
    with server.client() as lab:
        return lab.show(job).phase


@pytest.mark.slow
def test_others_see_a_job_without_what_it_runs(server: Served) -> None:
    job = job_of_ann(server, hold=True)
    for user, may in MAY_ACT.items():
        with server.client(user) as lab:
            told = lab.show(job)
            assert told.user == "ann"
            assert told.gpus == 1
            assert (told.command == ["sleep", "36000"]) is may, user
            assert (told.env == {"SECRET": "x"}) is may, user
            assert (told.workdir == "/srv/ann") is may, user
            raw = httpx.get(
                f"{server.url}/api/v1/jobs", headers={"Authorization": f"Bearer {lab.place.token}"}
            ).text
            assert "SECRET" not in raw
            assert "36000" not in raw
    with server.client() as lab:
        lab.cancel(job)


@pytest.mark.slow
def test_a_researchers_own_account_takes_their_work_and_that_of_managers(server: Served) -> None:
    keys: dict[str, Any] = {"gpus": 1, "min_runtime": "1h", "command": ["true"], "hold": True}
    for user, may in MAY_ACT.items():
        with server.client(user) as lab:
            if may:
                lab.cancel(lab.submit(account="language/olmo/ann", **keys).job)
            else:
                with pytest.raises(NotAllowed, match="ann's own"):
                    lab.submit(account="language/olmo/ann", **keys)
            lab.cancel(lab.submit(account="vision", **keys).job)


def test_what_people_do_is_in_the_record_with_their_name_and_reason(server: Served) -> None:
    job = job_of_ann(server, hold=True)
    with server.client("lee") as lab:
        lab.cancel(job, "not before Monday")
        cancelled = lab.events(job)[-1]
    assert cancelled.event == "cancelled"
    assert cancelled.details["by"] == "lee"
    assert cancelled.details["reason"] == "not before Monday"


# --- tokens -----------------------------------------------------------------------------------------


def test_the_first_token_is_an_administrators_and_for_its_owner_only(server: Served) -> None:
    path = server.data / "admin.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with server.client() as lab:
        assert lab.server().admin


@pytest.mark.parametrize("token", ["0", "tenure_nonsense", "x" * 10_000, "ünïcode", "Bearer", "a b c"])
def test_garbage_opens_nothing(server: Served, token: str) -> None:
    asked = httpx.get(f"{server.url}/api/v1/jobs", headers=[(b"authorization", f"Bearer {token}".encode())])
    assert asked.status_code == 401, asked.text
    assert asked.headers["www-authenticate"] == "Bearer"
    assert "token" in asked.json()["error"]


@pytest.mark.slow
def test_every_address_but_health_and_metrics_needs_a_token(server: Served) -> None:
    spec = httpx.get(f"{server.url}/api/openapi.json").json()
    open_ones = set()
    for path, verbs in spec["paths"].items():
        for verb in verbs:
            asked = httpx.request(verb, f"{server.url}{path}".replace("{", "").replace("}", ""))
            if asked.status_code != 401:
                open_ones.add(path)
    assert open_ones == {"/healthz", "/metrics"}


@pytest.mark.slow
def test_a_token_ends_when_it_expires(server: Served) -> None:
    with server.client() as admin:
        long, short = (admin.create_token("ann", expires=after) for after in ("1h", "1s"))

        def refused() -> str:
            try:
                with Client(server.url, short.token) as lab:
                    assert lab.server().user == "ann"
            except NotAllowed as told:
                return str(told)
            return ""

        wait_for("it opens nothing any more", refused)
        assert "expired" in refused()
        with Client(server.url, long.token) as lab:
            assert lab.server().user == "ann"


def test_a_revoked_token_opens_nothing_any_more(server: Served) -> None:
    with server.client() as admin:
        made = admin.create_token("bo", note="laptop")
        with Client(server.url, made.token) as lab:
            assert lab.server().user == "bo"
            admin.revoke_token(made.id)
            with pytest.raises(NotAllowed, match="revoked"):
                lab.server()
        (told,) = [one for one in admin.tokens() if one.id == made.id]
        assert told.revoked
        assert told.note == "laptop; made by admin; revoked by admin"


def test_people_see_and_revoke_their_own_tokens_only(server: Served) -> None:
    with server.client("ann") as ann, server.client("bo") as bo:
        assert {one.user for one in ann.tokens()} == {"ann"}
        own = bo.create_token("bo")
        with pytest.raises(Refused, match="no token"):
            ann.revoke_token(own.id)
        with pytest.raises(NotAllowed):
            ann.create_token("ann", admin=True)
        bo.revoke_token(own.id)


def test_no_token_is_ever_written_to_the_log(server: Served) -> None:
    with server.client() as admin:
        made = admin.create_token("ann", expires="1h")
    httpx.get(
        f"{server.url}/api/v1/jobs?token={made.token[:10]}", headers={"Authorization": f"Bearer {made.token}"}
    )
    said = "".join(server.said)
    assert made.token not in said
    assert server.admin_token not in said
