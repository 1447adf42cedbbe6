"""A cluster in memory, for the tests of whoever uses Tenure, and for trying things out.

from tenure.engines.fake import Behaviour, ChosenClock, FakeCluster

clock = ChosenClock(0.0)
cluster = FakeCluster({"n1": 8}, clock, behave=lambda job, attempt, start: Behaviour(3600))
"""

from tenure.engines.clock import ChosenClock, Clock, FileClock, RealClock
from tenure.engines.fake.behaviour import Behave, Behaviour, by_command
from tenure.engines.fake.cluster import FakeCluster
from tenure.engines.fake.faults import CallFault, Faults, Happening, drawn_timetable

__all__ = [
    "Behave",
    "Behaviour",
    "CallFault",
    "ChosenClock",
    "Clock",
    "FakeCluster",
    "Faults",
    "FileClock",
    "Happening",
    "RealClock",
    "by_command",
    "drawn_timetable",
]
