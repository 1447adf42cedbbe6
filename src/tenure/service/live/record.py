"""What the record says: owed and delivered, a turn as it was decided, and whether the server is well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tenure import __version__
from tenure.client.messages import Finding, Health, Server
from tenure.service.live.desk import Desk
from tenure.service.live.errors import NotKnown, NotReady
from tenure.service.live.people import Who, check_admin
from tenure.settings.errors import BadInput, shown
from tenure.settings.units import duration_s, duration_text


def story_lines(desk: Desk, who: Who, since: str | None) -> Any:
    """The lines of the story, so that whoever asks can measure it: it names no commands.

    Raises BadInput, NotReady.
    """
    since_t = since_of(desk, since)
    lines = desk.ledger.story_lines(since_t, desk.t())
    try:
        first = next(lines)
    except (ValueError, StopIteration):
        raise NotReady("the record has no story yet: no turn was recorded") from None
    return first, lines


def since_of(desk: Desk, since: str | None) -> int | None:
    """The second from which the last `since` of the record counts; None for all of it. Raises BadInput."""
    if since is None:
        return None
    try:
        length_s = duration_s(since)
    except ValueError as wrong:
        raise BadInput("--since", "", shown(since), str(wrong)) from None
    if length_s == 0:
        raise BadInput("--since", "", shown(since), "a duration above 0, such as 30d")
    return max(0, desk.t() - length_s)


def turn(desk: Desk, who: Who, number: int) -> Mapping[str, Any]:
    """A recorded turn: what had happened, what was decided. Raises NotKnown."""
    check_admin(who, "a turn's news")
    found = desk.ledger.turn(number) if 0 < number < 1 << 60 else None
    if found is None:
        raise NotKnown(f"there is no turn {number}: the newest is {desk.view().turn}")
    return {
        "turn": found.turn,
        "t": found.t,
        "at": desk.date(found.t),
        "news": found.news,
        "digest": found.digest,
        "code": found.code,
        "events": [json.loads(line) for line in found.events],
    }


def health(desk: Desk) -> Health:
    """Whether the server can be relied on: it answers, a turn is not overdue, the engine speaks."""
    told = desk.daemon.health()
    view = desk.daemon.view()
    silent = told.engine_silent_s is not None
    age_s = -1.0 if told.last_turn_at is None else max(0.0, desk.now() - told.last_turn_at)
    ready = told.state == "standby" or (view is not None and told.state == "leading")
    fine = not (told.clock_doubt or told.broken)
    ok = desk.ready and ready and not silent and told.ledger_error is None and fine
    return Health(
        ok=ok,
        leader=told.leader,
        engine=desk.engine.name,
        silent=silent,
        turn=0 if view is None else view.turn,
        turn_age_s=age_s,
        shadow=desk.shadow,
        text=told.sentence if desk.ready else f"getting ready (compiling, once): {told.sentence}",
    )


def server(desk: Desk, who: Who) -> Server:
    """Which server this is, and who asks."""
    view = desk.view()
    return Server(
        lab=desk.lab.name,
        version=__version__,
        user=who.user,
        admin=who.admin,
        engine=desk.engine.name,
        shadow=desk.shadow,
        leader=desk.daemon.health().leader,
        start=desk.date(0) or "",
        turn=view.turn,
        clusters=list(desk.lab.clusters),
        accounts=[path for path in desk.lab.rows() if path],
    )


def doctor(desk: Desk, who: Who) -> list[Finding]:
    """What a site must still configure, of the server and of its engine. Administrators only."""
    check_admin(who, "doctor")
    told = health(desk)
    view = desk.view()
    findings = [
        Finding(subject="server", ok=told.ok, text=told.text),
        Finding(
            subject="engine",
            ok=not told.silent,
            text=f"{told.engine} answers" if not told.silent else f"{told.engine}: {view.engine.error}",
            remedy="" if not told.silent else "nothing is decided until it answers",
        ),
    ]
    findings += [Finding(subject="engine", ok=None, text=str(remark)) for remark in view.engine.remarks]
    findings += [
        Finding(subject=f"engine: {subject}", ok=ok, text=text, remedy=remedy)
        for subject, ok, text, remedy in _of_engine(desk)
    ]
    if "lookback" not in desk.lab.policy:
        lookback = duration_text(view.policy.lookback_s)
        findings.append(
            Finding(
                subject="policy",
                ok=None,
                text=f"no lookback is given: use counts for {lookback}",
                remedy="policy: {lookback: 7d} in the lab's file says so",
            )
        )
    findings += _unmanaged(desk)
    return findings


def _of_engine(desk: Desk) -> list[tuple[str, bool | None, str, str]]:
    """What the engine itself finds, where it can look: (subject, ok, text, remedy)."""
    look = getattr(desk.engine, "doctor", None)
    return [] if look is None else [tuple(one) for one in look()]


def _unmanaged(desk: Desk) -> list[Finding]:
    """Accounts that nobody manages: nobody but an administrator could change what is below them."""
    alone = [one.path for one in desk.lab.accounts[1:] if one.parent == 0 and not one.managers]
    if not alone:
        return []
    names = ", ".join(alone[:5]) + ("" if len(alone) <= 5 else f" and {len(alone) - 5} more")
    return [
        Finding(
            subject="accounts",
            ok=None,
            text=f"nobody manages {names}",
            remedy="managers: [NAME] lets somebody hold and stop jobs there",
        )
    ]
