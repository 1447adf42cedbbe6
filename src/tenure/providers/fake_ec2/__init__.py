"""A small EC2 on this machine: capacity blocks, launches, a clock one chooses, and everything that fails.

It speaks the real query protocol to a real client (`endpoint_url`), so a run can be rehearsed whole:

    world = World(Behaviour(), ChosenClock(0.0))
    with Server(world) as server:
        boto3.client("ec2", endpoint_url=server.url, …)

`python -m tenure.providers.fake_ec2` serves one by itself. What is for sale and what it costs is invented.
"""

from tenure.providers.fake_ec2.behaviour import Behaviour, Kind, Listing, Regime, Zone, drawn_regimes
from tenure.providers.fake_ec2.faults import Faults
from tenure.providers.fake_ec2.server import Direct, Server
from tenure.providers.fake_ec2.world import Bill, World

__all__ = [
    "Behaviour",
    "Bill",
    "Direct",
    "Faults",
    "Kind",
    "Listing",
    "Regime",
    "Server",
    "World",
    "Zone",
    "drawn_regimes",
]
