"""With ``stable="disk"``: what a station keeps on disk, and when an order may go on that all hosts have left.

    step ──▶ entries, head ── LogBatch, first of all ──▶ disk ──▶ HubHave, HubReport, what is delivered

**Log.** Each station keeps the entries of the order from some view on, and a head: in which epoch they are,
and how much of them is stable. It equals the log in memory, so a restarted agent's station continues from it
as if it had been frozen. The orderer gives its view a place again after `REMARK_BYTES`, so that logs can be
truncated.

**Quorums.** A quorum of a view is the hosts of more than half of its members, or of half of them with the
most senior one. An entry is stable when a quorum has it on disk. A view is stable when a quorum of itself
*and* a quorum of the view before it have it on disk. So if hosts come back that are a quorum of the last view
that they know, at least one of them knows of every later view. A host whose members have all left, and that
remembers this, is not counted, neither for the next view nor in reports: the others may have gone on without
it.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct, msgpack

from rostra.core.logs import LogBatch
from rostra.errors import UNDECODABLE
from rostra.names import Domain, host_of
from rostra.names.checks import TEXT_LENGTH_MAX, Natural
from rostra.protocols.atomic.logs import majority_has
from rostra.protocols.atomic.messages import (
    CHAIN_MAX,
    Chain,
    Entry,
    HubReport,
    MarkEntry,
    ShownView,
    StationId,
    ViewKey,
)

KEEP_BYTES: Final = 16 << 20
"""What is kept of an order of which no member has said what it needs. Raising it: more is there after all
hosts were lost; more memory and disk for each such group, at each host."""

REMARK_BYTES: Final = 4 << 20
"""After so much the last view gets a place again: logs are cut at views."""

ORDERS_MAX: Final = 128
"""Groups whose orders one host keeps, on its disk and in memory, up to 20 MB of each unless its members need
more; also of those that its programs have left. Raising it: groups that no program uses can take more."""

NAMED_MAX: Final = 8
"""Hosts that are named in one sentence."""

OTHER_ORDER: Final = "this host has another order of this group on its disk"
NO_LOG: Final = "no host is here that has this group's order on disk"
UNRECORDED: Final = "the server of its scope has not recorded yet that this group's order is begun"


class OrderHead(Struct, frozen=True, array_like=True):
    """What a station must know of its log. It is the same after a restart."""

    chain: Chain = ()
    origin: ViewKey | None = None  # the epoch with which the order began: which order it is
    accept: Natural = 0  # below this everything was stable
    left: bool = False  # no member of this host was in the group any more
    managed: bool = False  # members say what they need; else the last `KEEP_BYTES` are kept
    since: Annotated[tuple[ViewKey, ...], Meta(max_length=CHAIN_MAX)] = ()
    """Without a part in the order: views in which it reported that it has none, the last ones. It has
    acknowledged nothing since, and counts as one that says so; a host whose disk is lost does not."""


_encode: Final = msgpack.Encoder().encode
_decoder: Final = msgpack.Decoder(OrderHead)


def encode_head(head: OrderHead) -> bytes:
    return _encode(head)


class OrderDisk:
    """A station's part on disk, and what of it the next batch has to say."""

    __slots__ = (
        *("claims", "deferred", "entries", "failed", "founds", "head", "left", "low", "managed"),
        *("marks", "needed", "origin", "recorded", "since", "total", "wiped"),
    )

    def __init__(self) -> None:
        self.founds = False  # may we begin the order, if no host has one?
        self.recorded = False  # the server of the scope has recorded it: no other one is begun
        self.claims: Chain = ()  # the epochs with whose views our log goes on: what we report
        self.origin: ViewKey | None = None
        self.marks: deque[MarkEntry] = deque()  # the views in the log; a log that was cut begins with one
        self.total: deque[int] = deque([0])  # bytes of all entries before each of them, and at last of all
        self.needed = 0  # if it is managed: entries below are not
        self.left = False
        self.managed = False
        self.head: OrderHead | None = None  # as it was written last
        self.entries: list[tuple[int, bytes]] = []
        self.low = 0  # up to where entries were dropped
        self.wiped = False  # what is on disk is another order's, or old
        self.deferred = False  # and stays there until all of this one is here
        self.failed = False  # it cannot be written any more
        self.since: tuple[ViewKey, ...] = ()

    def load(self, head: OrderHead) -> None:
        self.head = head
        self.claims, self.origin, self.left, self.since = head.chain, head.origin, head.left, head.since
        self.managed = head.managed

    def appended(self, entry: Entry, encoded: bytes, *, written: bool = False) -> None:
        if not written:
            self.entries.append((entry.position, encoded))
        if isinstance(entry, MarkEntry):
            self.marks.append(entry)
            self.total.append(self.total[-1])
        self.total[-1] += len(encoded)

    def reached(self, mark: MarkEntry, chain: Chain) -> None:
        """If an epoch of this chain begins here: from now on our log is one of it."""
        epochs = [key for key, _ in chain]
        if mark.begins and mark.stations and (epoch := epoch_of(mark)) in epochs:
            self.claims = chain[: epochs.index(epoch) + 1]

    @property
    def since_mark(self) -> int:
        """Bytes since the last view."""
        return self.total[-1] - self.total[-2] if self.marks else 0

    def cut_at(self, stable: int) -> int:
        """The position of the view from which on everything is needed. `stable`: everything below is."""
        while len(self.marks) > 1 and self.marks[1].end <= stable:
            rest = self.total[-1] - self.total[1]
            if (self.marks[1].position > self.needed) if self.managed else rest < KEEP_BYTES:
                break
            self.marks.popleft()
            self.total.popleft()
            self.low = self.marks[0].position
        return self.low

    def next(self) -> "OrderDisk":
        """For an order that comes whole, from its beginning. What is on disk stays until it is here."""
        new = OrderDisk()
        new.since, new.head, new.founds = self.since, self.head, self.founds
        new.recorded = self.recorded
        new.wiped = new.deferred = True
        return new

    def vow(self, view: ViewKey) -> None:
        """We are about to report that we have nothing, in this view."""
        if not self.claims and view not in self.since:
            self.since = (*self.since, view)[-CHAIN_MAX:]

    def batch(self, log: str, head: OrderHead) -> LogBatch | None:
        """What was changed since the last one, if anything."""
        changed = self.wiped or head != self.head
        if (
            not self.entries
            and not self.wiped
            and (not changed or (self.head is None and not head.chain and not head.since))
        ):
            return None
        written = LogBatch(
            log, tuple(self.entries), encode_head(head) if changed else None, self.low, self.wiped
        )
        self.head, self.wiped = head, False
        self.entries.clear()
        return written


def decode_head(data: bytes) -> OrderHead | None:
    try:
        return _decoder.decode(data)
    except UNDECODABLE:
        return None


def epoch_of(mark: MarkEntry) -> ViewKey:
    """The name of an epoch that begins with this view (`AgreedNow.key`)."""
    return ViewKey(mark.view.fence or 0, mark.stations[0].life, mark.view.key.pid)


def order_name(origin: ViewKey) -> str:
    """The name of the order that began with this epoch."""
    return f"{origin.number}.{origin.revision}.{origin.pid}"


def is_named(origin: ViewKey | None) -> bool:
    """Is it the name of an order, and one that can be recorded?"""
    return origin is not None and len(order_name(origin)) <= TEXT_LENGTH_MAX


# Quorums


def is_quorum(view: ShownView, hosts: Collection[Domain], without: Collection[Domain] = ()) -> bool:
    """Have these hosts more than half of the view's members, or half of them and the most senior one? Those
    of hosts in `without` do not count."""
    homes = [host_of(each) for each, _ in view.members]
    was = [home for home in homes if home not in without]
    here = len([home for home in was if home in hosts])
    has_first = bool(homes) and homes[0] in hosts and homes[0] not in without
    return 2 * here > len(was) or (2 * here == len(was) and (has_first or not was))


def leavers(before: ShownView, view: ShownView) -> frozenset[Domain]:
    """Hosts all of whose members left on their own between the two."""
    asked = frozenset(view.left)
    stay = {host_of(each) for each, _ in view.members}
    stay |= {host_of(each) for each, _ in before.members if each not in asked}
    return frozenset([host_of(each) for each, _ in before.members]) - stay


def stable_upto(
    base: ShownView | None,
    marks: Iterable[MarkEntry],
    nexts: Mapping[Domain, int],
    accept: int,
) -> int:
    """Up to where everything is stable, by what each host has on disk. `base` is the view in force at
    `accept`, if it is known, `marks` those with places from there on."""
    view = base
    for mark in marks:
        have = [host for host, next in nexts.items() if next >= mark.end]
        follows = view is None or is_quorum(view, have, leavers(view, mark.view))
        if not follows or majority_has(mark.view, nexts) < mark.end:
            return accept if view is None else max(accept, min(mark.position, majority_has(view, nexts)))
        view, accept = mark.view, max(accept, mark.end)
    return accept if view is None else max(accept, majority_has(view, nexts))


# Which log counts


def newest_log(ranked: list[tuple[StationId, HubReport]]) -> tuple[StationId, HubReport] | None:
    """The longest log of the newest epoch, of the order that the most senior station has which has one."""
    old = [(id, each) for id, each in ranked if each.chain]
    if not old:
        return None
    same = [(id, each) for id, each in old if each.origin == old[0][1].origin]
    passed = {key for _, each in same for key, _ in each.chain[:-1]}
    last = [(id, each) for id, each in same if each.epoch not in passed] or same
    return max(last, key=lambda each: (each[1].chain[-1][0], each[1].next))


def is_part(host: Domain, report: HubReport, best: HubReport) -> bool:
    """Is the log of this host a part of the best one, and can that be sent from its end on? As `is_prefix`,
    whatever the life of its agent: what is on disk has not grown since it was reported."""
    epochs = [key for key, _ in best.chain]
    if report.epoch not in epochs or not best.low <= report.next <= best.next:
        return False
    later = best.chain[epochs.index(report.epoch) + 1 :]
    return all(host in [id.host for id in stations] for _, stations in later)


def waits_for(marked: MarkEntry, reports: Iterable[tuple[StationId, HubReport]], best: HubReport) -> str:
    """Why an order, of which this is the best log here, cannot go on yet; empty if it can."""
    epochs = {key for key, _ in best.chain}
    came = {
        id.host: each
        for id, each in reports
        if (each.origin == best.origin if each.chain else not epochs.isdisjoint(each.since))
    }
    left = [host for host, each in came.items() if each.left]
    if is_quorum(marked.view, [host for host in came if host not in left], left):
        return ""
    missing = sorted({host_of(each) for each, _ in marked.view.members} - set(came))
    return f"what was acknowledged may be on the disks of {named(missing)}: waiting for them"


def named(hosts: list[Domain]) -> str:
    """Some of them, and how many more."""
    more = f" and {len(hosts) - NAMED_MAX} more" if len(hosts) > NAMED_MAX else ""
    return f"{', '.join(hosts[:NAMED_MAX])}{more}"[:400]
