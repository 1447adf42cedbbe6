"""Whatever is written, the door opens or gives one sentence: no other exception, no long wait."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure.settings.errors import BadInput
from tenure.settings.lab import lab_of
from tenure.settings.lab_tables import lab_tables
from tenure.settings.policy_file import policy_of
from tenure.settings.yaml_file import parse_yaml
from tenure.simulator.scenario import build_world, load_scenario

LAB: dict[str, Any] = {
    "lab": "example",
    "clusters": {
        "jupiter": {
            "nodes": 4,
            "gpus_per_node": 8,
            "gpu": "H100",
            "nodes_per_rack": 2,
            "price_per_gpu_hour": "2.49",
            "shares": {"vision": "20%"},
        },
        "saturn": {"nodes": [{"name": "s1", "gpus": 4, "rack": "a", "gpu": "L40"}]},
    },
    "accounts": {
        "language": {
            "share": "60%",
            "managers": ["pia"],
            "accounts": {
                "olmo": {"share": "70%", "researchers": ["ann", "bo"]},
                "post": {"share": "30%", "max_gpus": 64},
            },
        },
        "vision": {"share": "40%"},
    },
    "policy": {"lookback": "7d", "grace": {"budgeted": "2m"}, "order": "targets", "repay": {"part": "25%"}},
}
SCENARIO: dict[str, Any] = {
    "lab": LAB,
    "start": "2026-01-05T00:00:00Z",
    "until": "2d",
    "warmup": "1d",
    "seed": 1,
    "jobs": [
        {
            "id": "a",
            "account": "vision",
            "gpus": 8,
            "min_runtime": "2h",
            "runtime": "10h",
            "count": 3,
            "every": "10m",
        },
        {
            "account": "language",
            "gpus": 16,
            "runtime": 60,
            "max_runtime": "1h",
            "kind": "session",
            "clusters": ["jupiter"],
        },
    ],
    "events": [
        {"at": "1h", "node": "jupiter-0003", "state": "down", "for": "2h"},
        {"at": "1d", "account": "vision", "share": "10%", "by": "pia", "reason": "review"},
        {"at": "2h", "job": "a-1", "do": "cancel"},
    ],
}
DRAWN: dict[str, Any] = {
    "workload": {
        "shape": "small",
        "debug_per_hour": 1,
        "unbudgeted_median_h": "2.5",
        "classes": {"large": {"part": 0.015}},
    },
    "until": "6h",
}

ODD_NUMBERS = [-1, 0, 1, 2, 7.5, 10**9, 10**40, float("nan"), float("inf"), -0.0, True, False, None]
ODD_UNITS = ["", " ", "0", "-1", "1e999", "35%", "101%", "7d", "1h30m", "999999999d", ".nan", "inf", "~"]
ODD_NAMES = ["a/b", "\x00", "\u202e", "x" * 5000, "vision", "(own)", "language/olmo/ann", "jupiter"]
ODD_WORDS = ["window", "auto", "off", "2026-13-01"]
ODD_TREES: list[Any] = [[], {}, [[]], {"a": {}}, [None]]
ODD = st.sampled_from([*ODD_NUMBERS, *ODD_UNITS, *ODD_NAMES, *ODD_WORDS, *ODD_TREES])
KEYS = st.sampled_from(
    [
        "share",
        "shares",
        "accounts",
        "researchers",
        "nodes",
        "gpus",
        "rack",
        "id",
        "at",
        "for",
        "job",
        "do",
        "count",
    ]
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at] + [place for key, inner in inside for place in places(inner, (*at, key))]


@st.composite
def mutated(draw: st.DrawFn, original: dict[str, Any]) -> Any:
    """The mapping with a few of its values replaced, removed, doubled, moved or joined by odd keys."""
    value: Any = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(places(value)[1:] or [(None,)]))
        if last is None:
            return value
        parent = value
        for key in above:
            parent = parent[key]
        how = draw(st.sampled_from(["odd", "odd", "odd", "remove", "copy", "key"]))
        if how == "odd":
            parent[last] = copy.deepcopy(draw(ODD))
        elif how == "remove":
            parent.pop(last)
        elif how == "copy":
            source: Any = value
            for key in draw(st.sampled_from(places(value))):
                source = source[key]
            parent[last] = copy.deepcopy(source)
        elif isinstance(parent, dict):
            parent[draw(KEYS | st.text(max_size=5))] = copy.deepcopy(draw(ODD))
    return value


def one_sentence(wrong: BadInput) -> None:
    text = str(wrong)
    assert "\n" not in text
    assert 10 < len(text) < 1200
    assert ": found " in text
    assert "; allowed: " in text
    assert "pydantic" not in text.lower()


MANY = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow
@MANY
@given(mutated(LAB))
def test_any_lab_loads_or_is_refused_in_one_sentence(raw: Any) -> None:
    before = copy.deepcopy(raw)
    try:
        lab = lab_of(raw, file="lab.yaml")
    except BadInput as wrong:
        one_sentence(wrong)
    else:
        tables = lab_tables(lab)
        assert tables.shares.min() >= 0
        assert tables.shares.max() <= 1_000_000
        assert (tables.nodes["gpus"] > 0).all()
    assert repr(raw) == repr(before)


@MANY
@given(mutated(SCENARIO))
def test_any_scenario_becomes_a_world_or_is_refused_in_one_sentence(raw: Any) -> None:
    before = copy.deepcopy(raw)
    try:
        loaded = load_scenario(raw)
        loaded.policy("window")
        world, names = build_world(loaded)
    except BadInput as wrong:
        one_sentence(wrong)
    else:
        assert len(world.jobs) == len(world.hidden) == len(names.jobs) == len(set(names.jobs))
        assert (world.jobs["clusters"] > 0).all()
        assert (world.jobs["gpus"] > 0).all()
        assert (world.hidden["work_s"] > 0).all()
        assert (world.happenings["t"] >= 0).all()
    assert repr(raw) == repr(before)


@settings(MANY, max_examples=60)
@given(mutated(DRAWN))
def test_any_workload_is_drawn_or_refused_in_one_sentence(raw: Any) -> None:
    if isinstance(raw.get("until"), (int, float)):
        raw["until"] = "6h"  # a span of years is legal, and long to draw
    try:
        loaded = load_scenario(raw)
        if loaded.until_s < 10 * 86400:
            build_world(loaded)
    except BadInput as wrong:
        one_sentence(wrong)


TRACED: dict[str, Any] = {
    "lab": LAB,
    "trace": {
        "file": "jobs.csv",
        "format": "csv",
        "columns": {"job": "id", "submit": "at", "runtime": "long", "gpus": "size", "account": "who"},
        "accounts": {"a": "vision", "*": "language"},
        "min_runtime": "30%",
        "sizes": "round-up",
        "timezone": "UTC",
        "shares": "equal",
    },
    "until": "1d",
}


@pytest.mark.slow
@settings(MANY, suppress_health_check=[*HealthCheck])
@given(raw=mutated(TRACED))
def test_any_trace_is_played_or_refused_in_one_sentence(raw: Any, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("id,at,long,size,who\n1,0,60,1,a\n2,9,1e3,12,b\n3,1e9,5,64,(own)\n")
    try:
        world, names = build_world(load_scenario(raw, folder=tmp_path))
    except BadInput as wrong:
        one_sentence(wrong)
    else:
        report = names.import_report
        assert (world.jobs["clusters"] > 0).all()
        if report is not None:
            assert report.read == report.kept + sum(found.count for found in report.dropped.values())


@MANY
@given(
    st.dictionaries(st.text(max_size=12) | st.sampled_from(["lookback", "grace", "order"]), ODD, max_size=4)
)
def test_any_policy_is_read_or_refused_in_one_sentence(raw: dict[str, Any]) -> None:
    try:
        policy = policy_of(raw, file="lab.yaml", at=("policy",))
    except BadInput as wrong:
        one_sentence(wrong)
    else:
        assert all(isinstance(value, int) for value in policy)


@MANY
@given(st.text(alphabet="lab:custernodgpa 0123456789%{}[],\n-&*!'\"", max_size=120))
def test_any_text_of_a_lab_loads_or_is_refused(text: str) -> None:
    with contextlib.suppress(BadInput):
        lab_of(parse_yaml(text, file="lab.yaml"), file="lab.yaml")
