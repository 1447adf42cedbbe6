"""Example plans changed key by key, and the command asked about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from typer.testing import CliRunner

from tenure.cli.main import app

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "plans"
DAY = 53_760


def asked(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def answer(kind: str, file: Path) -> dict[str, Any]:
    ran = asked(*kind.split(), str(file), "--json", "-")
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def example(name: str = "window", **changes: Any) -> dict[str, Any]:
    """An example's mapping with some keys changed; None takes a key away."""
    raw = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    raw |= changes
    return {key: value for key, value in raw.items() if value is not None}


def planned(folder: Path, name: str = "window", kind: str = "plan window", **changes: Any) -> dict[str, Any]:
    file = folder / "plan.yaml"
    file.write_text(yaml.safe_dump(example(name, **changes)))
    return answer(kind, file)


def row(told: dict[str, Any], days: float) -> dict[str, Any]:
    return next(one for one in told["windows"] if one["days"] == days)


def offer(id_: str, days: float, fee: float, **more: Any) -> dict[str, Any]:
    start = np.datetime64("2027-03-01T11:30:00")
    end = start + np.timedelta64(round(days * 86_400), "s")
    return {"id": id_, "start": f"{start}Z", "end": f"{end}Z", "fee": fee, **more}
