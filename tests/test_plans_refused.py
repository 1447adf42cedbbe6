"""Wrong plan files: one message with the key, what was found and what is allowed; exit status 2."""

from __future__ import annotations

import pytest
import yaml

from plan_files import DAY, EXAMPLES, asked, example, offer, planned

# --- refused -----------------------------------------------------------------------------------------


def test_800_nodes_never_end_and_it_is_said_why():
    ran = asked("plan", "window", str(EXAMPLES / "too-many-nodes.yaml"))
    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert "never ends: λL = 1 " in ran.stderr
    assert "fewer nodes" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("2027-06-01T00:00:00Z", "further ahead than aws sells (56 days)"),
        ("2027-02-01T00:10:00Z", "sooner than"),
    ],
)
def test_a_start_the_provider_does_not_sell_is_said(tmp_path, start, words):
    told = planned(tmp_path, "aws", now="2027-02-01T00:00:00Z", start=start)
    assert any(words in text for text in told["warnings"])
    right = planned(tmp_path, "aws", now="2027-02-01T00:00:00Z", start="2027-03-01T00:00:00Z")
    assert not any(text.startswith("not as recorded") for text in right["warnings"])


PAST = [offer("a", 20, 20 * DAY)]
BAD = {
    "no prices": ({"prices": None}, "prices.reserved_per_day"),
    "no on-demand price": (
        {"prices": {"reserved_per_day": 1}, "overrun": {"on_demand": True}},
        "on_demand_per_day",
    ),
    "an offer in the past": ({"windows": None, "offers": PAST, "now": "2027-04-01T00:00:00Z"}, "in the past"),
    "a start in the past": ({"now": "2027-04-01T00:00:00Z", "start": "2027-03-01T00:00:00Z"}, "in the past"),
    "an offer without a fee": ({"windows": None, "offers": [PAST[0] | {"fee": None}]}, "offers[0].fee"),
    "an offer that ends first": (
        {"windows": None, "offers": [PAST[0] | {"end": "2027-02-01T00:00:00Z"}]},
        "an end after the start",
    ),
    "an offer too small": ({"windows": None, "offers": [PAST[0] | {"nodes": 31}]}, "1 are missing"),
    "an offer in no region": (
        {"windows": None, "offers": PAST, "data": {"tb": 1, "region": "x"}},
        "offers[0].region",
    ),
    "mean 0": ({"throughput": {"mean": 0, "sd": 1}}, "throughput.mean"),
    "mean below 0": ({"throughput": {"mean": -3000, "sd": 1}}, "throughput.mean"),
    "a mean of nothing": ({"throughput": {"mean": "nan", "sd": 1}}, "throughput.mean"),
    "a speed that reaches 0": ({"throughput": {"mean": 3000, "sd": 600}}, "lognormal"),
    "failures every second": ({"failures": {"per_node_day": 1e30}}, "failures.per_node_day"),
    "no tokens": ({"tokens": 0}, "tokens"),
    "tokens without end": ({"tokens": "inf"}, "tokens"),
    "too many nodes": ({"nodes": 1_000_000}, "nodes"),
    "half a node": ({"nodes": 1.5}, "nodes"),
    "an unknown key": ({"windos": {"days": 20}}, "did you mean windows"),
    "an unknown provider": ({"windows": None, "lattice": "awz"}, "did you mean aws"),
    "two kinds of windows": ({"lattice": "aws"}, "one of windows"),
    "no windows": ({"windows": None}, "one of windows"),
    "no lengths": ({"windows": {"days": []}}, "1 to 4000 windows"),
    "windows backwards": ({"windows": {"days": "23-18"}}, "days such as 18-23"),
    "no overrun": ({"overrun": None}, "overrun"),
    "a fallback without a stall": ({"overrun": {"on_demand": True, "p_fallback": 0.5}}, "stall_per_day too"),
    "both and no chance": ({"overrun": {"on_demand": True, "stall_per_day": 1}}, "p_fallback too"),
    "states that do not sum": ({"extension": {"states": [{"p": 0.5}]}}, "sum to 1"),
    "salvage above the price": ({"salvage_per_day": 60_000}, "less than a reserved day"),
    "a rate and a count": (
        {"failures": {"per_node_day": 1, "seen": {"events": 1, "node_days": 1}}},
        "either",
    ),
    "nothing lost": ({"recovery": {}}, "either hours_lost"),
    "a length beside a run": ({"duration": {"distribution": "normal", "mean": "1d", "sd": "1h"}}, "beside"),
    "chances above 1": ({"budget": {"amount": 5, "probability": 1.5}}, "budget.probability"),
    "a list": ({"prices": [1]}, "a mapping"),
    "too few draws": ({"draws": 10}, "draws"),
}  # fmt: skip


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
def test_a_wrong_plan_is_one_message(tmp_path, changes):
    made, words = changes
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(example(**made)))
    ran = asked("plan", "window", str(file), "--json", str(tmp_path / "out.json"))
    assert ran.exit_code == 2, ran.output
    assert ran.stdout == ""
    assert len(ran.stderr.strip().splitlines()) == 1
    assert words in ran.stderr, ran.stderr
    assert not (tmp_path / "out.json").exists()


WRONG_GANGS = {
    "no nodes": ({"nodes": 0}, "nodes"),
    "a million nodes": ({"nodes": 1_000_000}, "nodes"),
    "never a node": ({"success": 0}, "success"),
    "too likely": ({"success": 1.2}, "success"),
    "no trickle": ({"arrivals": {"kind": "trickle", "days": 3}}, "have and per_day"),
    "more than all": ({"zone": None, "arrivals": {"kind": "trickle", "have": 40, "per_day": 1}}, "at most"),
    "an unknown key": ({"sucess": 1}, "did you mean success"),
}


@pytest.mark.parametrize("changes", WRONG_GANGS.values(), ids=WRONG_GANGS)
def test_a_wrong_gang_is_one_message(tmp_path, changes):
    made, words = changes
    file = tmp_path / "gang.yaml"
    file.write_text(yaml.safe_dump(example("gang", **made)))
    ran = asked("plan", "gang", str(file))
    assert ran.exit_code == 2, ran.output
    assert words in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


WRONG_OBSERVATIONS = {
    "a plan that is not there": ({"plan": "none.yaml"}, "none.yaml"),
    "more lost than passed": (
        {"plan": example(), "seen": {"hours": 5, "failures": 9, "speed": 3000}},
        "have passed",
    ),
    "neither tokens nor speed": ({"plan": example(), "seen": {"hours": 240, "failures": 1}}, "either tokens"),
    "no window": ({"plan": example(), "window": None}, "window"),
    "a length of its own": (
        {
            "plan": {
                "duration": {"distribution": "normal", "mean": "1d", "sd": "1h"},
                "prices": {"reserved_per_day": 1},
                "overrun": {"per_day": 2},
                "windows": {"days": 3},
            }
        },
        "plan.duration",
    ),
    "an unknown key": ({"plan": example(), "sen": 1}, "did you mean seen"),
    "a rate of nothing": ({"plan": example(), "rate": {"shape": 2, "node_days": 0}}, "rate.node_days"),
}  # fmt: skip


@pytest.mark.parametrize("changes", WRONG_OBSERVATIONS.values(), ids=WRONG_OBSERVATIONS)
def test_a_wrong_observation_is_one_message(tmp_path, changes):
    made, words = changes
    file = tmp_path / "seen.yaml"
    file.write_text(yaml.safe_dump(example("forecast", **made)))
    ran = asked("run", "forecast", str(file))
    assert ran.exit_code == 2, ran.output
    assert words in ran.stderr, ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1
