"""`harm-stays-below`: a hostile node changes nothing outside its subtree, and a hostile program nothing for
other programs.

    history ── without everything inside the subtree ──▶ per-source-order, stable-truth, watch-complete,
                                                         fifo-gap-free, and no link or stream between others
                                                         is lost

A hostile node is believed about its own subtree: no other node could know better. When all of that is taken
out of a history, the rest must be a history without a hostile node.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from rostra.names import Domain, Endpoint, inside
from rostra.protocols.fifo import events as fifo
from rostra.protocols.relaxed import requests as told
from rostra.sim.checkers import CheckVerdict, per_source_order, stable_truth, watch_complete
from rostra.sim.fifo_checkers import fifo_gap_free
from rostra.sim.history import (
    AnswerRecord,
    AnyRecord,
    DeliveryRecord,
    Detected,
    History,
    LineChanged,
    NoticeRecord,
    ServerChanged,
)

PROMISE: Final = "harm-stays-below"

Below = Callable[[str], bool]
"""Is this endpoint or domain of the hostile one?"""


def harm_stays_below(
    history: Iterable[AnyRecord], below: Domain | Below, *, complete: bool = False
) -> CheckVerdict:
    """`complete`: the history ends in peace, and long after the last word, as for `fifo_gap_free`."""
    rest = outside(history, partial(inside, below) if isinstance(below, str) else below)
    for record in rest:
        if why := _loss(record):
            return CheckVerdict(PROMISE, "no", why, record)
    verdicts = (
        per_source_order(rest),
        stable_truth(rest),
        watch_complete(rest),
        fifo_gap_free(rest, complete=complete),
    )
    for verdict in verdicts:
        if verdict.broken:
            return CheckVerdict(PROMISE, "no", str(verdict), verdict.where)
    if any(verdict.ok for verdict in verdicts):
        return CheckVerdict(PROMISE, "yes")
    return CheckVerdict(PROMISE, "cannot tell", "nothing happened outside")


def outside(history: Iterable[AnyRecord], below: Below) -> History:
    """What happened to others, as if this subtree were empty."""
    return [record for each in history if (record := _outside(each, below)) is not None]


def _loss(record: AnyRecord) -> str:
    """Others lost sight of each other, or of messages between them, without a fault of their own."""
    match record:
        case Detected(server=server, peer=peer, change="down"):
            return f"{server} gave {peer} up"
        case DeliveryRecord(endpoint=me, item=fifo.Gap(endpoint=who)):
            return f"{me} missed something of {who}"
        case DeliveryRecord(endpoint=me, item=fifo.Excluded(reason=reason)):
            return f"{me} was put out of its group: {reason}"
        case DeliveryRecord(endpoint=me, item=fifo.Left(endpoint=who, why="disconnected")):
            return f"{me} lost {who}"
    return ""


def _outside(record: AnyRecord, below: Below) -> AnyRecord | None:
    match record:
        case ServerChanged(server=path):
            return None if below(path) else record
        case LineChanged(sender=a, to=b) | Detected(server=a, peer=b):
            return None if below(a) or below(b) else record
        case NoticeRecord(endpoint=endpoint, notice=notice):
            rest = None if below(endpoint) else _notice(notice, below)
            return None if rest is None else replace(record, notice=rest)
        case AnswerRecord(endpoint=endpoint, result=result):
            rest = None if below(endpoint) else _notice(result, below)
            return None if rest is None else replace(record, result=rest)
        case DeliveryRecord(endpoint=endpoint, item=item):
            rest = None if below(endpoint) else _item(item, below)
            return None if rest is None else replace(record, item=rest)
    whose: Endpoint | None = getattr(record, "endpoint", None)
    return record if whose is None or not below(whose) else None


def _notice(notice: Any, below: Below) -> Any:
    match notice:
        case told.Absolute(members=members) | told.Joined(members=members):
            rest = tuple([each for each in members if not below(each.endpoint)])
            # A list that names only some of those inside says nothing about others; an empty baseline does.
            spoke_of_inside = isinstance(notice, told.Joined) and members and not rest
            part = getattr(notice, "complete_for", None)
            if spoke_of_inside and (part is None or below(part.domain)):
                return None
            return replace(notice, members=rest)
        case told.Snapshot(members=members):
            return replace(notice, members=tuple([each for each in members if not below(each.endpoint)]))
        case told.Changed(members=members, left=left):
            # Its number counts, also if nothing in it concerns those outside.
            return replace(
                notice,
                members=tuple([each for each in members if not below(each.endpoint)]),
                left=tuple([each for each in left if not below(each)]),
            )
        case told.Left(endpoint=endpoint) | told.Life(endpoint=endpoint) | told.Message(source=endpoint):
            return None if below(endpoint) else notice
        case told.Without(domain=domain):
            return None if below(domain) else notice
        case told.NotDelivered(destinations=destinations):
            others = tuple([each for each in destinations if not below(each)])
            return replace(notice, destinations=others) if others else None
        case told.Resolved(parts=parts):
            return replace(
                notice,
                parts=tuple(
                    [
                        (scope, tuple([m for m in members if not below(m.endpoint)]))
                        for scope, members in parts
                    ]
                ),
            )
    return notice


def _item(item: fifo.Item, below: Below) -> fifo.Item | None:
    match item:
        case fifo.Ready(members=members):
            return fifo.Ready(tuple([each for each in members if not below(each[0])]))
        case fifo.JoinedTogether(members=members):
            seen = tuple([each for each in members if not below(each[0])])
            return fifo.JoinedTogether(seen) if seen else None
        case (
            fifo.Joined(endpoint=who)
            | fifo.Left(endpoint=who)
            | fifo.Gap(endpoint=who)
            | fifo.Delivered(stream=who)
            | fifo.Aggregated(origin=who)
        ):
            return None if below(who) else item
        case fifo.Without(domain=domain):
            return None if below(domain) else item
    return item
