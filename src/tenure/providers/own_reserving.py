"""Who reserves nodes of one's own cluster? Slurm, by `scontrol`, or a Tenure server, by its client."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from tenure.providers.protocol import NotSent, Refused, Unclear
from tenure.settings.provider_access import node_names

ASK_S = 20.0
BROKEN = ("down", "repairing")  #: states of a Tenure node that does not work; ours are drained on purpose


class Held(NamedTuple):
    """A reservation. Instants are epoch seconds."""

    id: str
    name: str
    nodes: tuple[str, ...]
    start: float
    end: float


class Reserving(Protocol):
    """Who keeps the reservations. Every call may raise NotSent; `reserve` Refused and Unclear."""

    def reserve(self, name: str, nodes: Sequence[str], start: float, end: float) -> None:
        """Keep the nodes for us; of one name there is one."""
        ...

    def held(self) -> Sequence[Held]:
        """All that are open or to come."""
        ...

    def usable(self) -> Sequence[str]:
        """Names of nodes that are up."""
        ...


class SlurmReserving:
    """By `scontrol`: a reservation of the intent's name for one user."""

    def __init__(self, user: str, env: Mapping[str, str] | None = None, *, timeout_s: float = ASK_S) -> None:
        self._user, self._timeout_s = user, timeout_s
        self._env = {**os.environ, **(env or {}), "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}

    def reserve(self, name: str, nodes: Sequence[str], start: float, end: float) -> None:
        """`scontrol create reservation`. Slurm refuses a name that is there."""
        minutes = max(1, round((end - start) / 60))
        begins = datetime.fromtimestamp(start).strftime("%Y-%m-%dT%H:%M:%S")  # scontrol reads local time
        self._ask(
            "create",
            "reservation",
            f"ReservationName={name}",
            f"StartTime={begins}",
            f"Duration={minutes}",
            f"Users={self._user}",
            f"Nodes={','.join(nodes)}",
            spends=True,
        )

    def held(self) -> Sequence[Held]:
        """`scontrol show reservation`."""
        found = []
        for line in self._ask("-o", "show", "reservation").splitlines():
            told = dict(re.findall(r"(\w+)=(\S+)", line))
            if "ReservationName" in told and told.get("Nodes", "(null)") != "(null)":
                name = told["ReservationName"]
                start, end = float(told["StartTime"]), float(told["EndTime"])
                found.append(Held(name, name, _expanded(told["Nodes"]), start, end))
        return found

    def usable(self) -> Sequence[str]:
        """`scontrol show node`: neither down nor drained."""
        names = []
        for line in self._ask("-o", "show", "node").splitlines():
            told = dict(re.findall(r"(\w+)=(\S+)", line))
            if "NodeName" in told and not re.search("DOWN|DRAIN|FAIL|UNKNOWN", told.get("State", "DOWN")):
                names.append(told["NodeName"])
        return names

    def _ask(self, *words: str, spends: bool = False) -> str:
        try:
            done = subprocess.run(
                ["scontrol", *words], env=self._env, capture_output=True, text=True, timeout=self._timeout_s
            )
        except subprocess.TimeoutExpired:
            raise (Unclear if spends else NotSent)("scontrol did not answer") from None
        except OSError as wrong:
            raise NotSent(f"scontrol cannot be run: {wrong.strerror}") from None
        said = " ".join((done.stderr or done.stdout).split())[:300]
        if done.returncode and spends:
            raise Refused("scontrol", said)
        if done.returncode:
            raise NotSent(f"scontrol: {said}")
        return "" if said.startswith("No reservations") else done.stdout


def _expanded(text: str) -> tuple[str, ...]:
    """`a[1-2,5],b` as names."""
    parts = re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)?", text)
    names: list[str] = []
    for part in parts:
        found = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
        if found is None:
            names.append(part)
            continue
        for piece in found[2].split(","):
            short = f"{found[1]}[{piece}]{found[3]}" if "-" in piece else f"{found[1]}{piece}{found[3]}"
            names += node_names([short])
    return tuple(names)


class TenureReserving:
    """By a Tenure server: nodes out of its service for everybody else. `client`: a `tenure.client.Client`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def reserve(self, name: str, nodes: Sequence[str], start: float, end: float) -> None:
        """The reason carries the name, by which it is found."""
        from tenure.client.errors import NotAllowed, ServerUnavailable
        from tenure.client.errors import Refused as No

        begins = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            self._client.reserve(list(nodes), begins, f"{end - start:.0f}s", f"run {name}")
        except (NotAllowed, No) as no:
            raise Refused("tenure", str(no)) from no
        except ServerUnavailable as silent:
            raise Unclear(str(silent)) from silent

    def held(self) -> Sequence[Held]:
        """Those of the server."""
        found = []
        for one in self._ask(self._client.reservations):
            words = one.reason.split()
            name = words[1] if words[:1] == ["run"] and len(words) > 1 else one.reason
            told = [datetime.fromisoformat(text).timestamp() for text in (one.begins, one.ends)]
            found.append(Held(one.id, name, tuple(one.nodes), *told))
        return found

    def usable(self) -> Sequence[str]:
        """All it knows but those that are broken; ours are out of its service on purpose."""
        return [one.node for one in self._ask(self._client.nodes) if one.state not in BROKEN]

    def _ask(self, what: Any) -> Any:
        from tenure.client.errors import NotAllowed, ServerUnavailable
        from tenure.client.errors import Refused as No

        try:
            return what()
        except (NotAllowed, No, ServerUnavailable) as silent:
            raise NotSent(str(silent)) from silent
