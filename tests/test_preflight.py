"""Pre-flight: outputs of tools read, gates, a node launched into a window and let go, a probe that trains."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from buying_world import KIND, Town
from gangs import needs_torch
from run_world import PLAN
from tenure.checkpoints.store import Store
from tenure.cli.main import app
from tenure.engines.clock import ChosenClock
from tenure.providers.fake_ec2 import Behaviour, Direct
from tenure.providers.protocol import STOPPING, ProviderError
from tenure.runs.gloo_loop import gloo_all_reduce
from tenure.runs.preflight import FAIL, PASS, UNKNOWN, Check, Outcome, run_checks, verdict
from tenure.runs.preflight_capacity import PREFLIGHT_TAG, launch_one, reservation
from tenure.runs.preflight_commands import probe
from tenure.runs.preflight_gang import gate, read_nccl, slow_nodes
from tenure.runs.preflight_nodes import dcgm_health, nvlink_health, smi_health
from tenure.runs.preflight_stores import gone_with_the_window
from tenure.service.preflight import Ask, preflight
from tenure.settings.errors import BadInput
from tenure.settings.run_file import run_file_of

OUTPUTS = Path(__file__).parent / "preflight_outputs"
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "train" / "train.py"


def output(name: str) -> str:
    return (OUTPUTS / name).read_text()


# --- the runner -------------------------------------------------------------------------------------


def test_a_check_that_raises_hangs_or_answers_nonsense_is_unknown_and_the_next_is_asked() -> None:
    hang, late = threading.Event(), list[bool]()

    def hangs() -> Outcome:
        hang.wait(120)
        late.append(True)
        return Outcome(PASS, "late")

    def raises() -> Outcome:
        raise OSError("no such tool")

    checks = [
        Check("a", "?", hangs, bound_s=0.05),
        Check("b", "?", raises),
        Check("c", "?", lambda: Outcome("maybe", "")),
        Check("d", "?", lambda: Outcome(PASS, "yes")),
    ]
    results = run_checks(checks, ChosenClock(1000.0), None)
    assert late == [], "it was not waited for"
    hang.set()
    assert [result.state for result in results] == [UNKNOWN, UNKNOWN, UNKNOWN, PASS]
    assert "no answer within" in results[0].text
    assert "no such tool" in results[1].text
    assert verdict(results) == UNKNOWN
    assert verdict(results, accepted=("a", "b", "c")) == PASS


def test_what_can_no_longer_be_mended_is_told_as_late() -> None:
    fails = Check("x", "?", lambda: Outcome(FAIL, "no"), lead_s=3600)
    passes = Check("y", "?", lambda: Outcome(PASS, "yes"), lead_s=3600)
    early, _ = run_checks([fails, passes], ChosenClock(1000.0), start=10_000.0)
    late, ready = run_checks([fails, passes], ChosenClock(7000.0), start=10_000.0)
    assert (early.deadline, early.late, late.late, ready.late) == (6400.0, False, True, False)


# --- tools' outputs ---------------------------------------------------------------------------------


def test_smi_tells_ecc_errors_rows_and_lanes_by_gpu() -> None:
    assert smi_health(output("smi_good.csv"), 4).state == PASS
    bad = smi_health(output("smi_bad.csv"), 4)
    assert bad.state == FAIL
    assert "GPU 2: 3 uncorrected ECC errors" in bad.text
    assert "GPU 2: rows wait to be remapped" in bad.text
    assert "GPU 3: PCIe at 8 of 16 lanes" in bad.text
    assert smi_health(output("smi_good.csv"), 8).text == "4 GPUs, 8 expected"
    assert smi_health(output("smi_untold.csv"), 4).state == UNKNOWN, "not told is not healthy"
    assert (
        smi_health("NVIDIA-SMI has failed because it couldn't communicate with the driver").state == UNKNOWN
    )
    assert smi_health("").state == UNKNOWN


def test_a_link_that_is_down_is_found() -> None:
    assert nvlink_health(output("nvlink_good.txt")).state == PASS
    assert nvlink_health(output("nvlink_bad.txt")).text == "GPU 1: 2 of 3 links up"
    assert nvlink_health(output("nvlink_good.txt"), links=18).state == FAIL
    assert nvlink_health("").state == UNKNOWN


def test_dcgm_of_both_versions_and_a_skipped_test_has_tested_nothing() -> None:
    assert dcgm_health(output("dcgm3_good.json")).state == PASS
    bad = dcgm_health(output("dcgm3_bad.json"))
    assert bad.state == FAIL
    assert (
        bad.text == "Hardware/GPU Memory on GPU 1: Double bit ECC errors detected: ecc_dbe_volatile_total 2"
    )
    skipped = dcgm_health(output("dcgm4_skipped.json"))
    assert (skipped.state, skipped.text) == (UNKNOWN, "Hardware/memory not tested")
    setting = dcgm_health(output("dcgm4_setting.json"))
    assert setting.state == PASS, "persistence mode that is off breaks nothing"
    assert "Persistence" in setting.text
    assert dcgm_health("Error: unable to connect to the host engine").state == UNKNOWN
    assert dcgm_health('{"DCGM Diagnostic": {}}').state == UNKNOWN


def test_nccl_tests_table_and_json_say_the_same() -> None:
    table, told = read_nccl(output("nccl_good.txt")), read_nccl(output("nccl_good.json"))
    assert table is not None
    assert told is not None
    assert table.ranks == told.ranks == 16
    assert table.hosts == told.hosts == ("node-0", "node-1")
    assert len(table.rows) == len(told.rows) == 31
    assert table.bus_gb_s() == pytest.approx(told.bus_gb_s(), abs=0.01)
    assert 350 < (told.bus_gb_s() or 0) < 370
    for row in told.rows:  # busbw = algbw · 2(n−1)/n
        assert row.bus_gb_s == pytest.approx(row.bytes / row.seconds / 1e9 * 30 / 16, rel=1e-6)


def test_the_gate_wants_speed_right_sums_and_everybody() -> None:
    good = read_nccl(output("nccl_good.txt"))
    assert gate(good, 370, 0.9, ranks=16).state == PASS
    assert gate(good, 480, 0.9).state == FAIL
    assert "16 ranks took part, 32 should" in gate(good, 370, 0.9, ranks=32).text
    assert gate(good, None, 0.9).state == UNKNOWN
    unchecked = read_nccl(output("nccl_good.json").replace('"nwrong": 0.0', '"nwrong": null'))
    assert gate(unchecked, 370, 0.9).state == UNKNOWN
    altered = read_nccl(output("nccl_good.json").replace('"nwrong": 0.0', '"nwrong": 3.0', 1))
    assert "3 elements" in gate(altered, 370, 0.9).text
    assert gate(read_nccl("mpirun was unable to launch"), 370, 0.9).state == UNKNOWN
    assert read_nccl('{"version": 1, "results": "none"}') is None


@pytest.mark.parametrize("bad", [(), ("n5",), ("n0", "n9"), ("n14", "n15"), ("n3", "n4", "n11")])
def test_the_slow_nodes_are_named_by_halving(bad: tuple[str, ...]) -> None:
    nodes = [f"n{i}" for i in range(16)]
    asked: list[Sequence[str]] = []

    def measure(some: Sequence[str]) -> float:
        asked.append(some)
        return 100.0 if set(some) & set(bad) else 300.0

    assert set(slow_nodes(nodes, measure, 270.0)) == set(bad)
    assert len(asked) <= 1 + 2 * len(bad) * 6, "not all against all"


def test_where_all_are_slow_nobody_is_blamed() -> None:
    assert slow_nodes(["a", "b", "c", "d"], lambda some: 10.0, 270.0) == ()


@pytest.mark.slow
def test_the_loop_over_gloo_is_real_and_adds_up_right() -> None:
    needs_torch()
    found = gloo_all_reduce(2)
    assert found is not None
    assert (found.ranks, found.wrong, found.checked, len(found.rows)) == (2, 0, True, 3)
    assert (found.bus_gb_s() or 0) > 0.01


# --- a window, a node -------------------------------------------------------------------------------


def bought(town: Town, nodes: int = 4) -> Any:
    return town.aws().buy(town.offer(nodes), "intent-1")


def test_a_node_is_launched_into_the_window_read_back_and_let_go() -> None:
    town = Town()
    window = bought(town, 4)
    town.clock.set(window.start + 60)
    provider = town.aws()
    (window,) = provider.windows(ids=[window.id])
    outcome = launch_one(provider, window, "run-1", "preflight-1", town.clock.wait, 300)
    assert outcome.state == PASS, outcome.text
    assert outcome.numbers["reservation"] == window.reservations[0]
    left = provider.nodes((PREFLIGHT_TAG, "preflight-1"))
    assert all(node.state in (STOPPING, "gone") for node in left)


def test_a_launch_that_misses_its_window_fails_and_leaves_nothing_behind() -> None:
    town = Town(Behaviour(misses=1))
    window = bought(town, 4)
    town.clock.set(window.start + 60)
    provider = town.aws()
    (window,) = provider.windows(ids=[window.id])
    outcome = launch_one(provider, window, "run-1", "preflight-1", town.clock.wait, 300)
    assert outcome.state == FAIL
    assert all(node.state in (STOPPING, "gone") for node in provider.nodes((PREFLIGHT_TAG, "preflight-1")))


def test_a_test_node_that_cannot_be_let_go_is_told_with_its_id() -> None:
    town = Town()
    window = bought(town, 4)
    town.clock.set(window.start + 60)
    provider = town.aws()
    (window,) = provider.windows(ids=[window.id])

    class Stuck:
        def __getattr__(self, name: str) -> Any:
            return getattr(provider, name)

        def terminate(self, ids: Sequence[str]) -> None:
            raise ProviderError("no answer")

    outcome = launch_one(Stuck(), window, "run-1", "preflight-1", town.clock.wait, 60)  # type: ignore[arg-type]
    assert outcome.state == FAIL
    assert "bills on" in outcome.text
    assert outcome.numbers["nodes"][0] in outcome.text


def test_a_window_too_small_elsewhere_or_over_is_found_before_it_begins() -> None:
    town = Town()
    window = bought(town, 4)
    town.clock.wait(120)
    provider = town.aws()
    windows = provider.windows(ids=[window.id])
    assert reservation(provider, windows, 4, town.clock.now()).state == PASS
    small = reservation(provider, windows, 8, town.clock.now())
    assert "holds 4 nodes, 8 are wanted" in small.text
    elsewhere = Town.aws(town)
    elsewhere.settings.subnets.clear()  # type: ignore[attr-defined]
    assert "no subnet" in reservation(elsewhere, windows, 4, town.clock.now()).text
    assert reservation(provider, windows, 4, window.end + 1).state == FAIL
    assert reservation(provider, [], 4, town.clock.now()).text == "no window is bought or named"


# --- the whole --------------------------------------------------------------------------------------


class Flight:
    """A run's file with everything ready, and a cloud."""

    def __init__(self, folder: Path, **keys: Any) -> None:
        self.folder, self.town = folder, Town()
        self.window = bought(self.town)
        (folder / "data").mkdir()
        listed = []
        for shard in range(5):
            data = bytes([shard]) * 1000
            (folder / "data" / f"shard-{shard}").write_bytes(data)
            listed.append(
                {"name": f"shard-{shard}", "bytes": 1000, "sha256": hashlib.sha256(data).hexdigest()}
            )
        (folder / "shards.json").write_text(json.dumps(listed))
        for name in ("smi_good.csv", "dcgm3_good.json", "nccl_good.json"):
            (folder / name).write_text(output(name))
        zones = self.town.world.zones.values()
        self.raw: dict[str, Any] = {
            "run": "example",
            "plan": {**PLAN, "nodes": 4, "gpus_per_node": 4},
            "provider": {
                "name": "aws", "region": "us-east-1", "instance_type": KIND, "gpus_per_node": 8,
                "subnets": {zone.name: zone.subnet_id for zone in zones},
            },
            "store": "checkpoints", "hook": "hook", "launch": {"command": ["true"]},
            "windows": [self.window.id],
            "preflight": {
                "quota": {"nodes": 16}, "launch": True, "nodes": "n[1-4]",
                "image": {"digest": "sha256:abc", "command": ["echo", "registry/image@sha256:abc"]},
                "data": {"at": "data", "list": "shards.json"},
                "health": {
                    "smi": ["sh", "-c", "cat smi_good.csv # {node}"], "dcgm": ["cat", "dcgm3_good.json"],
                },
                "all_reduce": {"command": ["true"], "output": "nccl_good.json", "expected": 370, "ranks": 16},
                **keys,
            },
        }  # fmt: skip
        self.save(1)

    def save(self, step: int) -> None:
        saving = Store(str(self.folder / "checkpoints"), "example").begin(step, 1)
        saving.add_bytes("model", b"x" * 1000)
        saving.commit(tokens=step)

    def ask(self, **more: Any) -> dict[str, Any]:
        file = self.folder / "run.yaml"
        file.write_text(yaml.safe_dump(self.raw))
        ask = Ask(clock=self.town.clock, client=Direct(self.town.world), data=self.folder / "book", **more)
        told = preflight(file, ask)
        self.states = {one["check"]: one["state"] for one in told["checks"]}
        self.texts = {one["check"]: one["text"] for one in told["checks"]}
        return told


def test_everything_ready_passes_but_for_what_only_an_active_window_can_show(tmp_path: Path) -> None:
    flight = Flight(tmp_path)
    flight.town.clock.wait(120)
    told = flight.ask(accept=("probe",))
    assert flight.states == {
        "quota": PASS, "window": PASS, "launch": UNKNOWN, "image": PASS, "data": PASS, "checkpoint": PASS,
        "store": PASS, "health": PASS, "all-reduce": PASS, "probe": UNKNOWN,
    }, flight.texts  # fmt: skip
    assert told["verdict"] == UNKNOWN
    assert told["start"] is not None
    flight.town.clock.set(flight.window.start + 10)
    told = flight.ask(accept=("probe",))
    assert (told["verdict"], flight.states["launch"]) == (PASS, PASS), flight.texts
    launch = next(one for one in told["checks"] if one["check"] == "launch")
    assert launch["cost_at_most"] > 0


def test_a_store_that_goes_with_the_window_fails_its_check(tmp_path: Path) -> None:
    flight = Flight(tmp_path)
    flight.raw["store"] = "/dev/shm/checkpoints"
    flight.raw["provider"]["endpoint"] = "https://elsewhere.invalid"
    run = run_file_of(flight.raw, tmp_path)
    assert "is in memory" in str(gone_with_the_window(run))
    assert gone_with_the_window(run, in_rehearsal=True) is None
    flight.raw["provider"]["endpoint"] = "http://127.0.0.1:9"
    assert gone_with_the_window(run_file_of(flight.raw, tmp_path)) is None


@pytest.mark.parametrize(
    ("what", "check", "says"),
    [
        ("shard gone", "data", "1 of 5 shards missing: shard-2"),
        ("shard cut", "data", "1 of 5 shards cut off: shard-2"),
        ("shard altered", "data", "1 of 5 shards altered: shard-2"),
        ("another image", "image", "is wanted, found: registry/image@sha256:abc"),
        ("checkpoint spoilt", "checkpoint", "cannot|can be used"),
        ("store is a file", "store", "takes no checkpoint"),
        ("too few allowed", "quota", "1 short"),
        ("slow network", "all-reduce", "at least 90% are wanted"),
    ],
)
def test_each_thing_that_is_not_ready_fails_its_own_check(
    tmp_path: Path, what: str, check: str, says: str
) -> None:
    flight = Flight(tmp_path)
    told = flight.raw["preflight"]
    shard = tmp_path / "data" / "shard-2"
    if what == "shard gone":
        shard.unlink()
    elif what == "shard cut":
        shard.write_bytes(b"x")
    elif what == "shard altered":
        shard.write_bytes(b"y" * 1000)
    elif what == "another image":
        told["image"]["digest"] = "sha256:def"
    elif what == "checkpoint spoilt":
        next((tmp_path / "checkpoints").rglob("model")).write_bytes(b"x")
    elif what == "store is a file":
        (tmp_path / "file").write_text("")
        flight.raw["store"] = "file/checkpoints"
    elif what == "too few allowed":
        told["quota"]["nodes"] = 3
    elif what == "slow network":
        told["all_reduce"]["expected"] = 480
    answer = flight.ask(only=(check,))
    assert flight.states == {check: FAIL}, flight.texts
    assert any(part in flight.texts[check] for part in says.split("|")), flight.texts
    assert answer["verdict"] == FAIL


def test_a_checkpoint_that_is_not_near_the_window_yet_is_told_with_its_bytes(tmp_path: Path) -> None:
    flight = Flight(tmp_path, near="near")
    flight.ask(only=("checkpoint",))
    assert flight.states == {"checkpoint": FAIL}
    store = Store(str(tmp_path / "checkpoints"), "example")
    newest = store.newest_verified()
    assert newest is not None
    store.copy(newest, Store(str(tmp_path / "near"), "example"))
    flight.ask(only=("checkpoint",))
    assert flight.states == {"checkpoint": PASS}, flight.texts


@pytest.mark.slow
def test_tools_that_are_not_there_or_hang_are_unknown(tmp_path: Path) -> None:
    flight = Flight(tmp_path, bound=3)
    flight.raw["preflight"]["health"] = {"smi": ["no-such-tool"]}
    flight.raw["preflight"]["all_reduce"] = {"command": ["sleep", "30"], "expected": 1}
    flight.ask(only=("health", "all-reduce"))
    assert flight.states == {"health": UNKNOWN, "all-reduce": UNKNOWN}
    assert "cannot be run" in flight.texts["health"]
    assert "not done within 3 s" in flight.texts["all-reduce"]


def test_a_check_of_ones_own_is_asked_with_the_others(tmp_path: Path) -> None:
    flight = Flight(tmp_path)
    licence = Check("licence", "is it valid?", lambda: Outcome(FAIL, "it ended yesterday"))
    flight.ask(only=("licence",), more=(licence,))
    assert flight.texts == {"licence": "it ended yesterday"}
    with pytest.raises(BadInput, match="did you mean"):
        flight.ask(only=("quoat",))


def test_the_command_prints_a_table_or_json_and_its_status_tells(tmp_path: Path) -> None:
    flight = Flight(tmp_path)
    flight.raw["provider"] = {"name": "manual", "file": "agreed.yaml"}
    flight.raw["windows"] = ["w"]
    window = {"id": "w", "start": "2020-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z", "fee": 1000,
              "currency": "USD", "nodes": "n[1-4]", "gpus_per_node": 8}  # fmt: skip
    (tmp_path / "agreed.yaml").write_text(yaml.safe_dump({"windows": [window]}))
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(flight.raw))
    words = ["preflight", str(tmp_path / "run.yaml"), "--data", str(tmp_path / "book")]
    some = [word for name in ("quota", "image", "data", "store") for word in ("--only", name)]
    ready = CliRunner().invoke(app, [*words, *some], env={"TENURE_PLAIN": "1"})
    assert ready.exit_code == 0, ready.output
    assert "Ready." in ready.stdout
    assert "5 shards" in ready.stdout
    unknown = CliRunner().invoke(app, [*words, "--only", "probe", "--json", "-"])
    assert unknown.exit_code == 1
    assert json.loads(unknown.stdout)["checks"][0]["state"] == UNKNOWN
    accepted = CliRunner().invoke(app, [*words, "--only", "probe", "--accept", "probe"])
    assert accepted.exit_code == 0
    wrong = CliRunner().invoke(app, [*words, "--only", "prob"])
    assert wrong.exit_code == 2
    assert not (tmp_path / "book").exists(), "asking writes nothing"


# --- a probe that trains ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_probe_trains_drains_and_updates_the_plan(tmp_path: Path) -> None:
    needs_torch()
    flight = Flight(tmp_path)
    command = [sys.executable, str(EXAMPLE), "--store", "probe-store", "--steps", "100000", "--pace", "0.02"]
    flight.raw["preflight"]["probe"] = {"command": command, "steps": 30, "nodes": 1}
    flight.raw["plan"]["throughput"] = {"mean": 1e9, "sd": 1e6}
    told = flight.ask(only=("probe",), write_plan=tmp_path / "updated.yaml")
    assert flight.states == {"probe": FAIL}, f"far below the plan, but {flight.texts}"
    assert "plan again with what it shows" in flight.texts["probe"]
    updated = yaml.safe_load((tmp_path / "updated.yaml").read_text())
    assert "throughput" not in updated
    assert updated["pilots"][0]["mean"] == told["plan"]["pilots"][0]["mean"]
    assert 1000 < updated["pilots"][0]["mean"] < 128 / 0.02
    flight.raw["plan"] = {**updated, "tokens": 1e9}
    flight.ask(only=("probe",))
    assert flight.states["probe"] == PASS or "of the plan's" in flight.texts["probe"]


def test_a_probe_that_does_not_train_is_unknown(tmp_path: Path) -> None:
    outcome, pilot = probe(
        ["sh", "-c", "echo out of memory; exit 1"],
        steps=5, nodes=1, planned=None, share=0.9, bound_s=20, folder=tmp_path,
    )  # fmt: skip
    assert (outcome.state, pilot) == (UNKNOWN, None)
    assert "ended with 1" in outcome.text
