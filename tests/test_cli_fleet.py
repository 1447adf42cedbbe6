"""`tenure plan spares|goodput|power|published`: table, JSON alone, a page; one message when wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tenure.cli.main import app

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "fleet"
ASKED = [("spares", "spares"), ("goodput", "goodput"), ("goodput", "groups"), ("power", "power")]
KEYS = {
    "spares": {"p_rack", "rack_unavailability", "racks", "gpus", "p_ok", "mission", "optimum", "table"},
    "goodput": {"mtbf_s", "ettr", "interval_s", "every_s", "groups", "warnings"},
    "power": {"optimum", "at", "warnings"},
}


def ask(*words):
    return CliRunner().invoke(app, ["plan", *map(str, words)])


@pytest.mark.slow
@pytest.mark.parametrize(("command", "name"), ASKED)
def test_an_example_answers_in_a_table_in_json_and_on_a_page(command: str, name: str, tmp_path: Path):
    file = EXAMPLES / f"{name}.yaml"
    shown = ask(command, file)
    assert shown.exit_code == 0, shown.output
    assert "conventions" not in shown.output
    told = ask(command, file, "--json", "-", "--report", tmp_path / "page.html")
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    assert KEYS[command] <= set(answer)
    assert answer["conventions"]
    page = (tmp_path / "page.html").read_text()
    assert "What each figure means" in page
    assert all(warning.split("'")[0][:20] in page for warning in answer["warnings"])


def test_the_groups_example_gives_the_published_44_and_80_percent():
    answer = json.loads(ask("goodput", EXAMPLES / "groups.yaml", "--json", "-").stdout)
    assert answer["groups"]["wall"] == pytest.approx(0.8009, abs=1e-4)
    assert answer["ettr"]["wall"] == pytest.approx(0.4444, abs=1e-4)


def test_published_numbers_are_told_with_their_verdicts():
    rows = json.loads(ask("published", "--json", "-").stdout)["rows"]
    assert {row["verdict"] for row in rows} == {"reproduced", "partly", "not", "fit"}
    assert ask("published").exit_code == 0


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("goodput", "failures: {per_1000_node_days: 6.5}\nrecovery: 10m\n", "denominator"),
        ("spares", "confidence: 1\n", "confidence"),
        (
            "spares",
            "job: {gpus: 64, per_rack: 64}\nrack: {gpus: 72, tray_gpus: 4, held: 80}\n"
            "unavailability: {tray: 0, rack: 0}\nconfidence: 99%\n",
            "rack.held",
        ),
        (
            "power",
            "site_mw: -1\nmultiplier: 1.3\noverhead_w: 300\nrated_w: 700\ncurve: h100_mayr\n",
            "site_mw",
        ),
        (
            "power",
            "site_mw: 1\nmultiplier: 1.3\noverhead_w: 300\nrated_w: 700\ncurve: [[500, 0.8], [500, 0.9]]\n",
            "500 W",
        ),
        ("power", "[1, 2]\n", "mapping"),
    ],
)
def test_a_wrong_file_is_one_message_and_status_2(command: str, text: str, words: str, tmp_path: Path):
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    refused = ask(command, file, "--json", tmp_path / "out.json", "--report", tmp_path / "page.html")
    assert refused.exit_code == 2
    assert words in refused.output
    assert refused.output.strip().count("\n") == 0
    assert list(tmp_path.iterdir()) == [file]
