"""The first line of the record's story, kept true while the lab's file changes: it names all that ever was.

What is taken out of the file stays named, since older lines speak of it: its nodes are down from then on, and
its accounts' shares are 0. What is new in the file was not there before: its nodes are down until then, and
its shares 0 until the file's are obeyed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tenure.core.policy import Order
from tenure.daemon.book import Book
from tenure.daemon.state import State
from tenure.daemon.tell import empty_story
from tenure.ledger.events import FROM_THE_START
from tenure.settings.lab import OWN
from tenure.story.head import head_of

WHOLE = 1_000_000
BY = "lab file"
GONE, CAME, NOT_YET = "taken out of the lab", "new in the lab", "not in the lab yet"


def story_head(book: Book, last: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The first line as a mapping. `last`: the one told so far."""
    story = empty_story(book.lab, book.policy, book.gpu_types, book.start)
    name = "window" if book.policy.order == Order.WINDOW else "budget"
    story.policy.update(name=name, lookback_given="lookback" in book.lab.policy)
    head = head_of(story)
    return head if last is None else _merged(last, head)


def file_lines(old: State, new: State) -> list[str]:
    """What another file makes happen at once, as lines without their number: nodes and accounts that left
    it, and nodes that came."""
    t = new.t
    lines = [_node_line(name, "down", GONE, t) for name in old.nodes if name not in set(new.nodes)]
    lines += [_node_line(name, "up", CAME, t) for name in new.nodes if name not in set(old.nodes)]
    return lines + [_told(line) for line in _shares_gone(old, new, t)]


def _shares_gone(old: State, new: State, t: int) -> Iterator[dict[str, Any]]:
    there = set(new.accounts)
    for row, path in enumerate(old.accounts):
        if path in there or path.rpartition("/")[2] == OWN:
            continue
        for c, cluster in enumerate(old.clusters):
            share = int(old.shares[c, row])
            if share:
                yield {
                    "event": "share", "t": t, "account": path, "old": share / WHOLE, "new": 0.0, "by": BY,
                    "reason": GONE, "cluster": cluster,
                }  # fmt: skip


def _merged(last: Mapping[str, Any], head: dict[str, Any]) -> dict[str, Any]:
    nodes = {node["name"]: node for node in last["nodes"]}
    not_yet = [node["name"] for node in head["nodes"] if node["name"] not in nodes]
    for node in head["nodes"]:
        before = nodes.get(node["name"], node)
        nodes[node["name"]] = node | {"gpus": max(node["gpus"], before["gpus"])}  # older lines hold so many
    clusters = list(dict.fromkeys([*last["clusters"], *head["clusters"]]))
    accounts = {account["path"]: account for account in last["accounts"]}
    for account in head["accounts"]:
        before = accounts.get(account["path"], {"shares": {}})
        accounts[account["path"]] = account | {"shares": before["shares"]}
    opening = [*last.get(FROM_THE_START, ()), *(_node_line(name, "down", NOT_YET, 0) for name in not_yet)]
    return head | {
        "clusters": clusters,
        "prices": {**last["prices"], **head["prices"]},
        "nodes": list(nodes.values()),
        "accounts": [account | {"shares": _first_shares(account, clusters)} for account in accounts.values()],
        FROM_THE_START: opening,
    }


def _first_shares(account: Mapping[str, Any], clusters: list[str]) -> dict[str, float]:
    """At the record's beginning. Of what came later nothing, but the whole to the root and to own leaves."""
    first = 1.0 if account["parent"] is None or account.get("own_leaf_of") is not None else 0.0
    return {name: account["shares"].get(name, first) for name in clusters}


def _node_line(node: str, state: str, reason: str, t: int) -> str:
    return _told({"event": "node", "t": t, "node": node, "state": state, "reason": reason, "by": BY})


def _told(line: Mapping[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":"))


__all__ = ["file_lines", "story_head"]
