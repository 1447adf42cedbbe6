from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.policy import Order, Policy
from tenure.core.words import NEVER_S
from tenure.settings.errors import BadInput
from tenure.settings.policy_file import KNOBS, NAMED, Knob, as_mapping, describe, named, policy_of


def test_every_field_of_the_policy_is_a_knob_and_every_knob_a_field() -> None:
    assert [knob.field for knob in KNOBS if knob.field not in Policy._fields] == []
    assert [field for field in Policy._fields if field not in {knob.field for knob in KNOBS}] == []
    assert len({knob.key for knob in KNOBS}) == len({knob.field for knob in KNOBS}) == len(KNOBS)
    assert all(len(knob.meaning) > 10 for knob in KNOBS)


def test_a_knob_is_read_in_the_unit_its_field_is_named_by() -> None:
    kinds = {"_s": {"duration", "off"}, "pm": {"part"}}
    for knob in KNOBS:
        assert knob.kind in kinds.get(knob.field[-2:], {"count", "auto", "order", "flag"}), knob.key


def test_defaults_are_in_range_and_read_back() -> None:
    assert policy_of({}) == Policy() == policy_of(None)
    assert policy_of(as_mapping(Policy())) == Policy()
    assert [row.value for row in describe()] == [row.default for row in describe()]


def values(knob: Knob) -> st.SearchStrategy[int]:
    inside = st.integers(knob.low, knob.high)
    special = {"auto": [-1], "off": [NEVER_S]}.get(knob.kind, [])
    return inside | st.sampled_from(special) if special else inside


@given(st.fixed_dictionaries({knob.field: values(knob) for knob in KNOBS}))
def test_what_is_shown_is_read_back(fields: dict[str, int]) -> None:
    policy = Policy(**fields)
    assert policy_of(as_mapping(policy)) == policy
    assert policy_of({row.key: row.value for row in describe(policy)}) == policy


def test_levels_dots_and_overrides() -> None:
    policy = policy_of(
        {"grace": {"budgeted": "1m"}, "grace.unbudgeted": 5, "order": "window", "half_life": "off"},
        {"policy.grace.budgeted": "3m", "repay.part": "12.5%", "pool.nodes": "auto"},
    )
    assert (policy.grace_budgeted_s, policy.grace_unbudgeted_s) == (180, 5)
    assert (policy.order, policy.repay_bound_pm, policy.pool_nodes) == (Order.WINDOW, 125, -1)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"lookbak": "7d"}, "policy.lookbak: found the unknown key 'lookbak'; allowed: did you mean look"),
        ({"lookback": 0}, "leave the key out for 7d"),
        ({"lookback": "0d"}, "leave the key out for 7d"),
        ({"lookback": "1s"}, "allowed: a duration from 1m to 366d"),
        ({"order": "lottery"}, "policy.order: found 'lottery'; allowed: targets | window"),
        ({"order": ["targets"]}, "allowed: targets | window"),
        ({"repay": {"part": "250%"}}, "policy.repay.part: found '250%'; allowed: a part from 0% to 100%"),
        ({"repay": {"part": "0.25001"}}, "in steps of 0.1%"),
        ({"grace": "2m"}, "policy.grace: found '2m'; allowed: a mapping"),
        ({"grace": {"budgeted": "1m"}, "grace.budgeted": "1m"}, "the same key again"),
        ({"pool": {"nodes": "some"}}, "allowed: auto, or a whole number from 0"),
        ({"half_life": "never"}, "allowed: off, or a duration"),
        ({"depth": 0}, "allowed: a whole number from 1"),
        ({"tick": 1e300}, "allowed: a duration from 1s to 1d"),
        (["lookback"], "policy: found ['lookback']; allowed: a mapping"),
        ({3: 4}, "the unknown key '3'"),
    ],
)  # fmt: skip
def test_each_knob_says_what_is_allowed(written: Any, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        policy_of(written, file="lab.yaml", at=("policy",))
    assert message in str(caught.value)


def test_a_wrong_override_names_the_flag() -> None:
    with pytest.raises(BadInput, match=r"^--set: policy\.lookback: found 'x'"):
        policy_of({}, {"policy.lookback": "x"})


def test_policies_by_name() -> None:
    assert list(NAMED) == ["budget", "window", "fifo", "fifo-backfill", "priority"]
    assert policy_of({"order": "targets"}, named("window").changes).order == Order.WINDOW
    with pytest.raises(BadInput, match=r"found 'budgte'; allowed: did you mean budget\?"):
        named("budgte")
