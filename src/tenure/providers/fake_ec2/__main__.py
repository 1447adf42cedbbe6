"""`python -m tenure.providers.fake_ec2`: an EC2 of one's own on a loopback port, to rehearse on."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from decimal import Decimal

from tenure.providers.fake_ec2 import Behaviour, Kind, Server, World, Zone


class Quick:
    """The machine's clock, so many times as fast from now on."""

    def __init__(self, times: float) -> None:
        self._times, self._began = times, time.time()

    def now(self) -> float:
        """Epoch seconds, as if time passed so fast."""
        return self._began + (time.time() - self._began) * self._times


def main(words: Sequence[str] | None = None) -> None:
    """Serve until it is interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m tenure.providers.fake_ec2",
        description="Capacity blocks, launches and their bill, invented, by EC2's own protocol on loopback.",
    )
    parser.add_argument("--port", type=int, default=0, help="default: a free one, which is printed")
    parser.add_argument("--speed", type=float, default=1.0, help="times as fast as the wall's clock")
    parser.add_argument("--zones", default="us-east-1a,us-east-1b", help="availability zones, by commas")
    parser.add_argument("--type", default="p5.48xlarge", help="the instance type it has")
    parser.add_argument("--nodes", type=int, default=64, help="of that type, that may be in blocks at once")
    parser.add_argument("--price", default="70.00", help="of a block's node-hour")
    parser.add_argument("--on-demand", default="100.00", help="of a node-hour on demand")
    parser.add_argument("--success", type=float, default=1.0, help="chance of one node in one launch")
    parser.add_argument("--failures", type=float, default=0.0, help="of a node in a day")
    parser.add_argument("--payment", type=float, default=60.0, help="seconds until a payment is through")
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args(words)
    block = Decimal(told.price)
    behaviour = Behaviour(
        zones=tuple(
            Zone(name, block_nodes=told.nodes, success=told.success) for name in told.zones.split(",")
        ),
        kinds={told.type: Kind(8, block, block, Decimal(told.on_demand))},
        payment_s=told.payment,
        failures_per_node_day=told.failures,
        seed=told.seed,
    )
    server = Server(World(behaviour, Quick(told.speed)), told.port)
    subnets = ", ".join(f"{zone.name}: {zone.subnet_id}" for zone in behaviour.zones)
    sys.stdout.write(f"endpoint: {server.url}\nsubnets: {{{subnets}}}\n")
    sys.stdout.flush()
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        server.close()


if __name__ == "__main__":
    main()
