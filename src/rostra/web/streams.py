"""Which members send in which group, how fast, and which do not keep up: from the documents of their hosts.

A host's document has the numbers of its members' streams. Two documents of one host make a rate. A receiver
is **behind** by the messages that it knows to be sent and that were not delivered: lost and requested again,
or not read by its program. Clocks and numbers of two hosts are never compared.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from rostra.names import Domain

RATE_S: Final = 1.5
"""The least time between two documents that make a rate. Raising it: calmer numbers, later ones."""

RECEIVERS_MAX: Final = 500
"""Pairs of receiver and sender that one place shows: those that are furthest behind, then the busiest."""


class StreamSender(Struct, frozen=True):
    """A member that may send, or a submitter, as its own host reports it."""

    group: str
    member: str
    sent: int
    rate: float | None  # messages each second; None: not known yet
    unconfirmed: int  # some receiver is not known to have them
    waiting: int  # handed over by its program, and not sent: the group does not keep up
    blocked: bool
    submits: bool = False  # is no member: the delegate of its cluster sends for it


class StreamReceiver(Struct, frozen=True):
    """One receiver of one sender, as the receiver's host knows it."""

    group: str
    member: str
    sender: str
    heard: int  # messages delivered, since it joined
    rate: float | None
    behind: int
    missing: int  # of those, not here yet
    repaired: int  # lost on their way, and here all the same
    paused: bool  # its program does not read


class HostStreams(Struct, frozen=True):
    place: Domain
    at: float
    senders: tuple[StreamSender, ...] = ()
    receivers: tuple[StreamReceiver, ...] = ()
    more: int = 0  # pairs that are not shown


class StreamReader:
    """Makes `HostStreams` of one place's documents, one after the other."""

    def __init__(self, place: Domain) -> None:
        self._place = place
        self._before: tuple[float, dict[tuple[str, ...], int]] | None = None
        self._rates: dict[tuple[str, ...], float] = {}

    def hear(self, at: float, members: list[Mapping[str, Any]]) -> HostStreams:
        self._measure(at, _counts(members))
        senders = [
            StreamSender(
                each["group"],
                each["member"],
                each["sent"],
                self._rates.get((each["group"], each["member"])),
                each["sent"] - each["confirmed"],
                each["waiting"],
                each["blocked"],
                each["role"] == "submit",
            )
            for each in members
            if each["role"] != "receive"
        ]
        receivers = [
            StreamReceiver(
                each["group"],
                each["member"],
                sender,
                heard["next"] - heard["first"],
                self._rates.get((each["group"], each["member"], sender)),
                max(0, heard["emitted"] + 1 - heard["next"]),
                heard["missing"],
                heard["repaired"],
                each["paused"],
            )
            for each in members
            for sender, heard in each["hears"].items()
        ]
        receivers.sort(
            key=lambda each: (-each.behind, -(each.rate or 0.0), each.group, each.member, each.sender)
        )
        more = max(0, len(receivers) - RECEIVERS_MAX)
        return HostStreams(self._place, at, tuple(senders), tuple(receivers[:RECEIVERS_MAX]), more)

    def _measure(self, at: float, counts: dict[tuple[str, ...], int]) -> None:
        if self._before is None:
            self._before = (at, counts)
            return
        since, before = self._before
        if at - since >= RATE_S:
            self._rates = {
                key: max(0, count - before[key]) / (at - since)
                for key, count in counts.items()
                if key in before
            }
            self._before = (at, counts)


def _counts(members: list[Mapping[str, Any]]) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for each in members:
        found[each["group"], each["member"]] = each["sent"]
        for sender, heard in each["hears"].items():
            found[each["group"], each["member"], sender] = heard["next"]
    return found
