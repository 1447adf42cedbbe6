"""Windows by somebody else's newsvendor: `stockpyl_windows.json`, and how it is made.

    python -m venv peer && peer/bin/pip install stockpyl==1.0.2
    peer/bin/python tests/stockpyl_windows.py        # writes tests/stockpyl_windows.json

stockpyl (MIT licence) is not installed for the tests: it brings a documentation tool chain along. Its holding
cost h stands for the reserved day b, its stockout cost p for o - b: a day reserved and not used costs b, one
not reserved o - b more than it would have. Its cost leaves out what the run costs in any case, b·E[D].
"""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")
PRICES = [(53_760, 116_800), (53_760, 400_000), (20_000, 25_000), (1.0, 1.5), (90_000, 91_000)]
NORMALS = [(19.4, 1.0), (19.4, 3.0), (100.0, 7.5)]
ATOMS = {
    "three": {18: 0.5, 20: 0.3, 22: 0.2},
    "even": dict.fromkeys(range(15, 25), 0.1),
    "tail": {10: 0.7, 11: 0.2, 30: 0.1},
}


def main() -> None:
    from stockpyl.newsvendor import newsvendor_discrete, newsvendor_normal

    made: dict[str, list[dict[str, object]]] = {"normal": [], "atoms": []}
    for b, o in PRICES:
        for mean, sd in NORMALS:
            days, cost = newsvendor_normal(
                holding_cost=b, stockout_cost=o - b, demand_mean=mean, demand_sd=sd
            )
            made["normal"].append(
                {"b": b, "o": o, "mean": mean, "sd": sd, "days": days, "cost": cost + b * mean}
            )
        for name, atoms in ATOMS.items():
            days, cost = newsvendor_discrete(holding_cost=b, stockout_cost=o - b, demand_pmf=atoms)
            mean = sum(day * chance for day, chance in atoms.items())
            made["atoms"].append({"b": b, "o": o, "atoms": name, "days": days, "cost": cost + b * mean})
    FILE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
