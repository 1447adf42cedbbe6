"""What a file offers to buy, as windows of their real lengths: given lengths, real offers, a lattice.

An offer's length is its end less its start, whatever was asked for. Of it are lost: what passes between
segments, and the data's way to its region where that cannot be over before it starts. Besides its fee it
costs the data's way there. An offer outranks the provider's record.
"""

from __future__ import annotations

from datetime import datetime

from tenure.planner.lengths import Length
from tenure.planner.of_file import lead_s
from tenure.planner.offers import Segment, lattice, lost_between
from tenure.planner.window import Offer
from tenure.providers.capability import Capability, capability
from tenure.settings.plan_units import DAY_S
from tenure.settings.window_file import DataFile, OfferFile, WindowFile

GB_A_TB = 1000.0


def on_sale(file: WindowFile, length: Length) -> list[Offer]:
    """The windows among which the plan chooses, in the order of the file."""
    if file.windows is not None:
        return [Offer(days) for days in file.windows.days]
    if file.offers:
        return [_offer(file, told, place) for place, told in enumerate(file.offers, start=1)]
    assert file.lattice is not None
    return lattice(capability(file.lattice).durations.in_days(), length)


def _offer(file: WindowFile, told: OfferFile, place: int) -> Offer:
    assert told.whole_fee is not None
    moved_s = data_s(file.data, told)
    before_s = None if file.now is None else (told.start - file.now).total_seconds()
    late_s = max(0.0, moved_s - before_s) if before_s is not None else 0.0
    gaps = _gaps(file, told) if told.segments else 0.0
    return Offer(
        days=_days(told.start, told.end),
        fee=told.whole_fee,
        id=told.id or f"offer {place}",
        extra=data_cost(file.data, told),
        lost_days=late_s / DAY_S + gaps,
    )


def _gaps(file: WindowFile, told: OfferFile) -> float:
    """Days that no segment covers, and for every move from one to the next a start-up and a last save."""
    parts = [
        Segment(_days(told.start, part.start), _days(told.start, part.end), part.az or told.az or "")
        for part in told.segments
    ]
    outside = parts[0].begins_days + _days(told.start, told.end) - parts[-1].ends_days
    return outside + lost_between(parts, sum(lead_s(file).values()) / DAY_S)


def _days(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds() / DAY_S


def data_s(data: DataFile | None, offer: OfferFile) -> float:
    """Seconds to bring the data to the offer's region; 0 where it is there."""
    if data is None or offer.region == data.region:
        return 0.0
    return data.tb * GB_A_TB / data.gb_per_s


def data_cost(data: DataFile | None, offer: OfferFile) -> float:
    """What bringing it there costs."""
    if data is None or offer.region == data.region:
        return 0.0
    return data.tb * GB_A_TB * data.egress_per_gb


def against_record(file: WindowFile) -> list[str]:
    """Where the file and the provider's record disagree: the file stands, and it is said."""
    if file.lattice is None:
        return []
    record = capability(file.lattice)
    return [*_of_start(file, record), *_of_nodes(file, record), *_of_offers(file, record)]


def _of_start(file: WindowFile, record: Capability) -> list[str]:
    if file.now is None or file.start is None:
        return []
    ahead_s = (file.start - file.now).total_seconds()
    earliest, latest = record.earliest_start_s or 0.0, record.latest_start_s
    if ahead_s < earliest:
        return [
            f"a start in {ahead_s / 3600:.2g} h is sooner than {record.provider} sells "
            f"({earliest / 3600:g} h)"
        ]
    if latest is not None and ahead_s > latest:
        days = f"{latest / DAY_S:g} days"
        return [
            f"a start in {ahead_s / DAY_S:.0f} days is further ahead than {record.provider} sells ({days})"
        ]
    return []


def _of_nodes(file: WindowFile, record: Capability) -> list[str]:
    most = record.most_nodes
    if most is None or file.nodes is None or file.nodes <= most:
        return []
    text = f"{file.nodes} nodes are more than one window of {record.provider} holds ({most}, by its record)"
    whole = record.most_nodes_a_date
    if whole is not None and file.nodes > whole:
        return [f"{text}, and more than all of a date may ({whole}): this cannot be bought there"]
    return [f"{text}: {-(-file.nodes // most)} windows of one date and zone must be had at once"]


def _of_offers(file: WindowFile, record: Capability) -> list[str]:
    if not file.offers:
        return []
    known = record.durations.in_days()
    longest = max(_days(offer.start, offer.end) for offer in file.offers)
    found = []
    if longest > known[-1] + 1:
        found.append(f"an offer of {longest:g} days is longer than any {record.provider} is known to sell")
    if file.now is not None and record.latest_start_s is not None:
        latest = max((offer.start - file.now).total_seconds() for offer in file.offers)
        if latest > record.latest_start_s:
            found.append(
                f"an offer starts in {latest / DAY_S:.0f} days; by its record {record.provider} sells "
                f"{record.latest_start_s / DAY_S:.0f} days ahead"
            )
    return found
