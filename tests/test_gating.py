"""The gate before an attempt: tools and an all-reduce on the gang's own nodes, slow ones named."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from run_world import run_of
from tenure.providers.protocol import RESERVED, RUNNING, Node
from tenure.runs import gating
from tenure.runs.gating import Clockwork, OutOfTime, gate_of
from test_preflight import output

#: Stands in for nccl-tests under its launcher: the last word names nodes, some of which are slow.
BENCH = """
import json, sys
slow, nodes, ranks = sys.argv[1].split(","), sys.argv[2].split(","), int(sys.argv[3])
speed = 90.0 if set(slow) & set(nodes) else 360.0
size = 1 << 30
row = {"size": size, "count": 1, "type": "float", "redop": "sum", "root": "-1"}
row["out_of_place"] = {"time": 1000.0, "alg_bw": 1.0, "bus_bw": speed, "nwrong": 0.0}
devices = [{"rank": n, "hostname": "n"} for n in range(ranks)]
print(json.dumps({"version": 1, "config": {"devices": devices}, "results": [row]}))
"""


def nodes(count: int) -> list[Node]:
    return [
        Node(f"i-{n}", RUNNING, "a", "w", RESERVED, "t", 0.0, address=f"10.0.0.{n}") for n in range(count)
    ]


def gate(folder: Path, slow: str = "-", **keys: Any) -> Any:
    (folder / "bench.py").write_text(BENCH)
    command = [sys.executable, "bench.py", slow, "{nodes}", "{ranks}"]
    told = {"all_reduce": {"command": command, "expected": 370, "ranks": 64}, **keys}
    return gate_of(run_of(folder, {"nodes": 8, "gpus_per_node": 8}, preflight=told))


def test_a_run_that_names_no_tool_has_no_gate(tmp_path: Path) -> None:
    assert gate_of(run_of(tmp_path)) is None


def test_a_fast_gang_passes(tmp_path: Path) -> None:
    gated = gate(tmp_path)(nodes(8), [])
    assert gated.passed
    assert "97% of the 370" in gated.text


def test_the_slow_node_of_a_gang_is_named_by_its_id(tmp_path: Path) -> None:
    gated = gate(tmp_path, slow="10.0.0.5")(nodes(8), [])
    assert not gated.passed
    assert gated.slow == ("i-5",)
    assert "slow: 10.0.0.5" in gated.text


def test_a_node_that_its_tools_call_sick_is_replaced_before_anything_is_measured(tmp_path: Path) -> None:
    for name in ("smi_good.csv", "smi_bad.csv"):
        (tmp_path / name).write_text(output(name))
    script = 'if [ "{node}" = 10.0.0.3 ]; then cat smi_bad.csv; else cat smi_good.csv; fi'
    asked = gate(tmp_path, nodes="placeholder", health={"smi": ["sh", "-c", script]})
    ready = run_of(
        tmp_path,
        {"nodes": 8, "gpus_per_node": 4},
        preflight={"nodes": "placeholder", "health": {"smi": ["sh", "-c", script]}},
    )
    gated = gate_of(ready)(nodes(8), [])  # type: ignore[misc]
    assert (gated.passed, gated.slow) == (False, ("i-3",))
    assert "uncorrected ECC" in gated.text
    assert not asked(nodes(8), []).passed, "eight GPUs were expected, the tool shows four"


def test_what_is_unknown_is_told_and_lets_the_gang_through(tmp_path: Path) -> None:
    asked = gate_of(run_of(tmp_path, preflight={"health": {"dcgm": ["no-such-tool"]}}))
    assert asked is not None
    gated = asked(nodes(4), [])
    assert gated.passed
    assert "cannot be run" in gated.text
    assert json.dumps(gated.text)


def test_the_search_for_the_slow_node_ends_with_the_gates_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ForThree(Clockwork):
        """Its time is over once three measurements were made."""

        made = 0

        def left_s(self) -> float:
            if self.made == 3:
                raise OutOfTime
            self.made += 1
            return super().left_s()

    clocks: list[ForThree] = []
    monkeypatch.setattr(gating, "Clockwork", lambda bound_s: clocks.append(ForThree(bound_s)) or clocks[-1])
    gated = gate(tmp_path, slow="10.0.0.5")(nodes(8), [])
    assert (gated.passed, gated.slow) == (False, ())
    assert "not found in time" in gated.text
    assert [clock.made for clock in clocks] == [3]


def test_a_gate_has_its_time_and_no_more() -> None:
    assert 1.0 <= Clockwork(600.0).left_s() <= 600.0
    with pytest.raises(OutOfTime):
        Clockwork(0.9).left_s()
