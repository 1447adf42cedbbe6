"""The first line of a story's file, `began`: all an auditor needs to know besides what happened.

Keys besides the fixed ones: `start`, `clusters` [name], `prices` {cluster: price of a GPU-hour},
`nodes` [{name, cluster, gpus, rack, gpu}], `accounts` [{path, parent, shares {cluster: part of the
parent's}, max_gpus, own_leaf_of}]; the root's path is "". Instead of them, `lab` may be the lab's mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tenure.core.board import EVENT, PLACEMENT
from tenure.core.tables import empty
from tenure.core.words import NEVER_S, NONE
from tenure.story.columns import STORY_JOB, Story, StoryAccount, StoryNode
from tenure.story.errors import StoryError
from tenure.story.lab_mapping import rows_of_lab

WHOLE = 1_000_000
FIXED = ("lab", "policy", "seed", "warmup_s", "until_s")
AUDITED = ("clusters", "nodes", "accounts")


def head_of(story: Story) -> dict[str, Any]:
    """The `began` line of a story as a mapping."""
    return {
        "event": "began",
        "t": 0,
        "n": 1,
        "lab": story.lab,
        "policy": story.policy,
        "seed": story.seed,
        "warmup_s": story.warmup_s,
        "until_s": None if story.until_s >= NEVER_S else story.until_s,
        "start": story.start,
        "clusters": list(story.clusters),
        "prices": dict(zip(story.clusters, story.prices, strict=False)),
        "nodes": [
            {
                "name": node.name,
                "cluster": story.clusters[node.cluster],
                "gpus": node.gpus,
                "rack": node.rack,
                "gpu": node.gpu,
            }
            for node in story.nodes
        ],
        "accounts": [_account_entry(story, account) for account in story.accounts],
    }


def _account_entry(story: Story, account: StoryAccount) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "path": account.path,
        "parent": None if account.parent == NONE else story.accounts[account.parent].path,
        "shares": {c: share / WHOLE for c, share in zip(story.clusters, account.shares, strict=True)},
        "max_gpus": account.max_gpus,
    }
    if account.own_leaf_of is not None:
        entry["own_leaf_of"] = story.accounts[account.own_leaf_of].path
    return entry


def story_of_head(head: dict[str, Any]) -> Story:
    """An empty story of a `began` line.

    Raises StoryError where a key is missing or names what the line does not hold.
    """
    try:
        if isinstance(head.get("lab"), Mapping):
            head = head | rows_of_lab(head["lab"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoryError(f"`began`: `lab` is no lab: {error!r}") from error
    for key in FIXED + AUDITED:
        if key not in head:
            raise StoryError(f"`began` lacks `{key}`, without which a story cannot be audited alone")
    try:
        clusters = [str(name) for name in head["clusters"]]
        cluster_row = {name: row for row, name in enumerate(clusters)}
        prices = head.get("prices") or {}
        nodes = [
            StoryNode(
                node["name"],
                cluster_row[node["cluster"]],
                int(node["gpus"]),
                node.get("rack", 0),
                node.get("gpu"),
            )
            for node in head["nodes"]
        ]
        accounts = _accounts(head["accounts"], clusters)
        return Story(
            lab=head["lab"],
            policy={"name": head["policy"]} if isinstance(head["policy"], str) else dict(head["policy"]),
            seed=int(head["seed"]),
            warmup_s=int(head["warmup_s"]),
            until_s=NEVER_S if head["until_s"] is None else int(head["until_s"]),
            clusters=clusters,
            nodes=nodes,
            accounts=accounts,
            job_ids=[],
            jobs=empty(0, STORY_JOB),
            events=empty(0, EVENT),
            placements=np.zeros(0, PLACEMENT),
            start=head.get("start"),
            prices=tuple(prices.get(name) for name in clusters) if prices else (),
        )
    except KeyError as error:
        raise StoryError(f"`began`: {error.args[0]!r} is missing or not named in it") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise StoryError(f"`began`: {error}") from error


def _accounts(entries: list[dict[str, Any]], clusters: list[str]) -> list[StoryAccount]:
    inner = {entry["path"]: row for row, entry in enumerate(entries) if entry.get("own_leaf_of") is None}
    return [
        StoryAccount(
            path=entry["path"],
            parent=NONE if entry["parent"] is None else inner[entry["parent"]],
            shares=tuple(round(entry["shares"][name] * WHOLE) for name in clusters),
            max_gpus=entry.get("max_gpus"),
            own_leaf_of=None if entry.get("own_leaf_of") is None else inner[entry["own_leaf_of"]],
        )
        for entry in entries
    ]
