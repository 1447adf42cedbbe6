from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenure.core.words import NEVER_S
from tenure.settings.errors import BadInput
from tenure.settings.lab import lab_of, leaf_paths, read_lab, with_own_leaves
from tenure.settings.lab_tables import Holder, lab_tables

LAB = """
lab: example
clusters:
  jupiter:
    nodes: 128
    gpus_per_node: 8
    gpu: H100
    nodes_per_rack: 16
    price_per_gpu_hour: 2.49
  saturn:
    nodes: [{name: s1, gpus: 4, rack: a}, {name: s2, gpus: 4, rack: b, gpu: L40}]
    shares: {vision: 20%}
accounts:
  language:
    share: 60%
    managers: [pia]
    accounts:
      olmo:
        share: 70%
        managers: [lee]
        researchers: [ann, bo]
      post: {share: 30%, max_gpus: 64}
  vision: {share: 40%}
policy:
  lookback: 3d
  grace: {budgeted: 1m}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    return path


def test_the_lab_of_the_documentation_loads(tmp_path: Path) -> None:
    lab = read_lab(write(tmp_path, LAB))
    assert lab.name == "example"
    assert lab.prices == (2.49, None)
    assert [account.path for account in lab.accounts] == [
        "", "language", "language/olmo", "language/olmo/ann", "language/olmo/bo", "language/post", "vision",
    ]  # fmt: skip
    assert [account.shares for account in lab.accounts][2:] == [
        (700_000, 700_000), (500_000, 500_000), (500_000, 500_000), (300_000, 300_000), (400_000, 200_000),
    ]  # fmt: skip
    assert leaf_paths(lab) == ["language/olmo/ann", "language/olmo/bo", "language/post", "vision"]
    assert (lab.nodes[0].name, lab.nodes[127].name) == ("jupiter-0000", "jupiter-0127")
    assert lab.nodes[127].rack == 7
    assert len({lab.nodes[-1].rack, lab.nodes[-2].rack, lab.nodes[0].rack}) == 3
    assert (lab.knobs().lookback_s, lab.knobs().grace_budgeted_s) == (3 * 86400, 60)
    assert lab.knobs({"policy.lookback": "5d"}).lookback_s == 5 * 86400


def test_tables_tell_the_tree_and_the_nodes(tmp_path: Path) -> None:
    lab = read_lab(write(tmp_path, LAB))
    tables = lab_tables(lab)
    accounts = tables.accounts
    assert accounts["parent"].tolist() == [-1, 0, 1, 2, 2, 1, 0]
    assert accounts["first_child"].tolist() == [1, 2, 3, -1, -1, -1, -1]
    assert accounts["next_sibling"].tolist() == [-1, 6, 5, 4, -1, -1, -1]
    assert accounts["n_below"].tolist() == [6, 4, 2, 0, 0, 0, 0]
    assert accounts["depth"].tolist() == [0, 1, 2, 3, 3, 2, 1]
    assert accounts["max_gpus"].tolist()[5] == 64
    assert set(accounts["max_gpus"].tolist()) == {64, NEVER_S}
    assert tables.shares.shape == (2, 7)
    assert tables.shares[1, 6] == 200_000
    assert tables.clusters.tolist() == [(0, 128, 1024, 8), (128, 2, 8, 4)]
    assert tables.gpu_types == ["H100", "L40"]
    assert tables.nodes["gpu_type"].tolist()[-3:] == [0, -1, 1]


def test_work_given_to_an_inner_account_runs_under_what_its_children_leave() -> None:
    raw = {
        "clusters": {"c": {"nodes": 1, "gpus_per_node": 8}},
        "accounts": {
            "p": {"share": "50%", "accounts": {"x": {"share": "30%"}, "y": {"share": "50%"}}},
            "q": {"share": "50%"},
        },
    }
    lab = lab_of(raw)
    rows = with_own_leaves(lab.accounts, {"p", "q"})
    assert [(row.path, row.parent, row.shares[0], row.own_leaf_of) for row in rows] == [
        ("", -1, 1_000_000, None),
        ("p", 0, 500_000, None),
        ("p/(own)", 1, 200_000, 1),
        ("p/x", 1, 300_000, None),
        ("p/y", 1, 500_000, None),
        ("q", 0, 500_000, None),
    ]
    tables = lab_tables(lab._replace(accounts=rows))
    assert tables.accounts["own_leaf"].tolist() == [False, False, True, False, False, False]
    assert np.array_equal(tables.accounts["n_below"], [5, 3, 0, 0, 0, 0])


def test_researchers_share_equally_what_accounts_beside_them_leave() -> None:
    raw = {
        "clusters": {"c": {"nodes": 1, "gpus_per_node": 8}},
        "accounts": {"p": {"share": 1, "researchers": list("abc"), "accounts": {"x": {"share": "40%"}}}},
    }
    assert [row.shares[0] for row in lab_of(raw).accounts[2:]] == [400_000, 200_000, 200_000, 200_000]


def test_what_an_empty_cluster_could_hold() -> None:
    raw = {
        "clusters": {
            "big": {"nodes": 8, "gpus_per_node": 8, "nodes_per_rack": 2, "gpu": "H100"},
            "old": {
                "nodes": [{"name": "o1", "gpus": 4}, {"name": "o2", "gpus": 4}, {"name": "o3", "gpus": 2}]
            },
        }
    }
    holder = Holder(lab_of(raw))
    assert [holder.clusters(gpus) for gpus in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64, 72)] == [
        3, 3, 3, 3, 1, 1, 1, 3, 0, 1, 1, 0,
    ]  # fmt: skip
    assert holder.clusters(4, gpu="H100") == 1
    assert [holder.clusters(gpus, same_rack=True) for gpus in (8, 16, 24)] == [3, 1, 0]
    assert [holder.rounded_up(gpus) for gpus in (3, 9, 12, 60, 64, 65)] == [3, 16, 16, 64, 64, None]


#: What is changed in LAB, and what is said about it.
WRONG = r"""
share: 60% -> shaer: 60%
    accounts.language.shaer: found the unknown key 'shaer'; allowed: did you mean share?

share: 60% -> share: 61%
    accounts: found shares that sum to 101%; allowed: shares of siblings that sum to at most 100%

share: 60% -> share: 60
    accounts.language.share: found 60; allowed: a part such as 35% or 0.35, from 0% to 100% (write
    60%)

share: 60% -> max_gpus: 3
    accounts.language.share: found nothing; allowed: its part of its parent's, such as 35%

vision: 20% -> vision: 41%
    clusters.saturn.shares: found shares that sum to 101%; allowed: shares of siblings that sum to
    at most 100%

{vision: 20%} -> {visoin: 20%}
    clusters.saturn.shares.visoin: found an unknown account; allowed: did you mean vision?

  vision: {share ->   language: {share
    accounts.language: found the same key again (line 23); allowed: each key once

[ann, bo] -> [ann, ann]
    accounts.language.accounts.olmo.researchers[1]: found 'ann' again; allowed: a name used once
    below an account

nodes: 128 -> nodes: 0
    clusters.jupiter.nodes: found 0; allowed: a list of {name, gpus, rack, gpu}, or a whole number
    of nodes from 1 to 100000

nodes: 128 -> nodes: 1.5
    clusters.jupiter.nodes: found '1.5'; allowed: a list of

    gpus_per_node: 8\n ->
    clusters.jupiter.gpus_per_node: found nothing; allowed: the GPUs of a node

name: s2 -> name: s1
    clusters.saturn.nodes[1].name: found 's1' again; allowed: a name used once in the lab

name: s1, gpus -> name: s1, gpu_s
    clusters.saturn.nodes[0].gpu_s: found the unknown key 'gpu_s'; allowed: did you mean gpus or
    gpu?

2.49 -> -1
    clusters.jupiter.price_per_gpu_hour: found -1; allowed: a price from 0 to 1e9

lookback: 3d -> lookback: 0
    policy.lookback: found 0; allowed: a duration from 60s to 366d: with no lookback

lookback: 3d -> lookback: 3 days
    policy.lookback: found '3 days'; allowed: a duration from 1m to 366d

budgeted: 1m -> budgetted: 1m
    policy.grace.budgetted: found the unknown key 'grace.budgetted'; allowed: did you mean
    grace.budgeted

clusters:\n -> clusters: {}\nx:\n
    clusters: found {}; allowed:

max_gpus: 64 -> max_gpus: -1
    accounts.language.accounts.post.max_gpus: found -1; allowed: a whole number of GPUs from 0

olmo: -> ol/mo:
    accounts.language.accounts.ol/mo: found 'ol/mo'; allowed: a name without a slash
"""


def wrong_rows() -> list[tuple[str, str, str]]:
    rows = []
    for paragraph in WRONG.strip().split("\n\n"):
        change, *message = paragraph.splitlines()
        before, after = change.replace("\\n", "\n").split(" ->")
        rows.append((before, after.removeprefix(" "), " ".join(line.strip() for line in message)))
    return rows


@pytest.mark.parametrize(("before", "after", "message"), wrong_rows())
def test_each_thing_wrong_is_one_clear_message(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert before in LAB
    path = write(tmp_path, LAB.replace(before, after, 1))
    with pytest.raises(BadInput) as caught:
        read_lab(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_the_first_of_several_things_wrong_is_told_and_the_rest_counted(tmp_path: Path) -> None:
    text = (
        LAB.replace("share: 70%", "share: much").replace("share: 30%", "shares: 30%").replace("2.49", "dear")
    )
    with pytest.raises(BadInput, match=r"price_per_gpu_hour: found 'dear'.*\(and 2 more\)$"):
        read_lab(write(tmp_path, text))


@pytest.mark.parametrize(
    ("parts", "fits"),
    [
        (["33.34%"] * 3, False),
        (["33.33%"] * 3, True),
        (["33.333333%"] * 3, True),
        (["50.0001%", "50%"], False),
        ([0.1] * 10, True),
        (["16.666666%"] * 6, True),
        (["0%", "100%"], True),
    ],
)
def test_siblings_sum_exactly(parts: list[Any], fits: bool) -> None:
    raw = {
        "clusters": {"c": {"nodes": 1, "gpus_per_node": 8}},
        "accounts": {f"a{row}": {"share": part} for row, part in enumerate(parts)},
    }
    kept = copy.deepcopy(raw)
    if fits:
        lab_of(raw)
    else:
        with pytest.raises(BadInput, match="sum to at most 100%"):
            lab_of(raw)
    assert raw == kept


def test_a_bottomless_mapping_is_refused() -> None:
    account: dict[str, Any] = {"share": "1%"}
    account["accounts"] = {"again": account}
    with pytest.raises(BadInput):
        lab_of({"clusters": {"c": {"nodes": 1, "gpus_per_node": 8}}, "accounts": {"a": account}})
    deep: dict[str, Any] = {"share": "1%"}
    for _ in range(5000):
        deep = {"share": "1%", "accounts": {"a": deep}}
    with pytest.raises(BadInput):
        lab_of({"clusters": {"c": {"nodes": 1, "gpus_per_node": 8}}, "accounts": {"a": deep}})


def test_a_lab_has_a_cluster() -> None:
    with pytest.raises(
        BadInput, match=r"lab: clusters: found \{\}; allowed: at least one cluster and at most 62"
    ):
        lab_of({"clusters": {}}, file="lab")
