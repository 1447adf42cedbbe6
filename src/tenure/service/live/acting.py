"""What a person may do to a job or a node that is there: cancel, hold, release, stop; drain and repair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.client.messages import Done, Node
from tenure.core.explain import jobs_text
from tenure.core.words import NodeState
from tenure.daemon.health import WORDS, asked_state
from tenure.service.live.desk import Desk, reason_text
from tenure.service.live.errors import NotKnown, NotNow
from tenure.service.live.people import Who, check_act, check_admin, check_force
from tenure.settings.errors import BadInput, nearest, shown

NEEDS_REASON = ("drain", "down", "repair")
SAID = {"cancel": "cancelled", "hold": "on hold", "release": "released", "stop": "told to stop"}


def act(desk: Desk, who: Who, verb: str, job: str, body: Mapping[str, Any]) -> Done:
    """`verb`: cancel, hold, release or stop; of a job, or of all jobs of an array.

    Raises NotKnown, Forbidden, BadInput, NotNow or NotReady.
    """
    reason = reason_text(body.get("reason"))
    for owner, account in _owners(desk, job):
        if verb == "stop":
            check_force(desk.lab, who, account, job)
        else:
            check_act(desk.lab, who, owner, account, job=job, verb=verb)
    if verb == "stop" and not reason:
        raise BadInput(
            "stop", "reason", "nothing", "why the contract is broken, in a few words: it is recorded"
        )
    answer = desk.obey(who, verb, job, {"reason": reason})
    phase = str(answer.get("phase", ""))
    return Done(subject=job, text=f"job {job} is {SAID[verb]}" + (f" ({phase})" if phase else ""))


def _owners(desk: Desk, name: str) -> list[tuple[str, str]]:
    """(user, account) of the job, or of the jobs of the array. Raises NotKnown."""
    elements = desk.elements(name)
    if elements:
        return sorted({(one.user, one.account) for one in elements})
    job = desk.job(name)
    return [(job.user, job.account)]


# --- nodes ------------------------------------------------------------------------------------------------


def nodes(desk: Desk, who: Who) -> list[Node]:
    """All nodes, how they are and what runs on them. Anybody in the lab may see it."""
    view = desk.view()
    board, told = view.board, []
    said = desk.ledger.node_states()
    unseen = set(view.missing)
    stays = board.stays
    for row, node in enumerate(view.lab.nodes):
        post = board.posts[row]
        here = board.on_node[row, : int(post["n_jobs"])].tolist()
        state = NodeState(int(post["state"]))
        ends = [int(stays["protected_until_s"][job]) for job in here if stays["budgeted"][job]]
        entry = said.get(node.name)
        told.append(
            Node(
                node=node.name,
                cluster=view.lab.clusters[node.cluster],
                gpus=node.gpus,
                gpu=node.gpu,
                state=state.name.lower(),
                free=int(post["free"]),
                jobs=[view.ids[job] for job in here],
                reason=f"{entry.by}: {entry.reason}" if entry is not None and entry.reason else "",
                seen=node.name not in unseen,
                empty_by=desk.date(max(ends, default=view.t)) if state == NodeState.DRAINING else None,
            )
        )
    return told


def set_node(desk: Desk, who: Who, name: str, body: Mapping[str, Any]) -> Done:
    """Administrators only. Raises NotKnown, Forbidden, BadInput, NotNow or NotReady."""
    check_admin(who, "the state of a node")
    names = [node.name for node in desk.lab.nodes]
    if name not in names:
        raise NotKnown(f"there is no node {name[:60]!r}: {nearest(name, names)}")
    word, reason = body.get("state"), reason_text(body.get("reason"))
    if not isinstance(word, str) or word not in WORDS:
        raise BadInput("node", "state", shown(word), " | ".join(WORDS))
    if word in NEEDS_REASON and not reason:
        raise BadInput("node", "reason", "nothing", "why, in a few words: it is recorded")
    now = NodeState(int(desk.view().board.posts["state"][names.index(name)])).name.lower()
    try:
        state = asked_state(now, word, checked=desk.lab.live.health_check is not None)
    except ValueError as wrong:
        raise NotNow(str(wrong)) from None
    desk.obey(who, "node", name, {"state": state, "reason": reason})
    busy = next(one for one in nodes(desk, who) if one.node == name)
    text = f"node {name} is {busy.state}"
    if busy.jobs:
        text += f"; {jobs_text(len(busy.jobs))} on it"
        text += f", until {busy.empty_by} at the latest" if busy.empty_by else ""
    return Done(subject=name, text=text)
