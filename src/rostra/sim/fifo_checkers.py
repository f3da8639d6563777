"""Were the promises of FIFO groups kept? Checkers like those of `checkers.py`, of the same histories.

fifo-gap-free      each stream in order, each number once, with its sender's content
fifo-live          in peace no stream stands still: its next message comes, or a `Gap`
smooth-join        others that join and leave delay no stream between two that stay

In agreed groups views say who is there; what else is promised of messages there is in `spoken_checkers.py`.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable

from rostra.names import Domain, Endpoint, Group, host_of, parent
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.fifo import events as fifo
from rostra.protocols.fifo.context import is_aggregate
from rostra.protocols.flow.runs import payloads
from rostra.sim.checkers import Broken, CheckVerdict, verdict_of
from rostra.sim.history import (
    AnyRecord,
    DataChanged,
    DeliveryRecord,
    Detected,
    FifoStateChanged,
    LineChanged,
    ServerChanged,
    SubmissionRecord,
)


class _Speaker:
    """What one sender sent in one group. Its numbers go on from one membership to the next."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        self.ends: list[int] = []  # the last number of each membership before the present one
        self.leaves = False  # the present one too

    def joins(self) -> None:
        self.ends.append(len(self.said))
        self.leaves = False

    def owed_with(self, number: int) -> int:
        """The last number of the membership in which this one was said; 0 if that goes on. A receiver may be
        told of an end when its sender has joined again and speaks (X-048)."""
        place = bisect_left(self.ends, number)
        if place < len(self.ends):
            return self.ends[place]
        return len(self.said) if self.leaves else 0


_Spoken = defaultdict[tuple[Endpoint, Group], _Speaker]


class _Stream:
    """What one receiver was given of one sender, while the sender is in its view."""

    def __init__(self, next: int | None) -> None:
        self.next = next  # None until its first message says where it starts
        self.first = next
        self.is_here = True  # in an agreed group: it is in the last view


class _Listener:
    """One receiver in one group, from its list on until it has parted."""

    def __init__(self) -> None:
        self.ready = False
        self.streams: dict[Endpoint, _Stream] = {}
        self.last: dict[Endpoint, int] = {}  # of every sender heard in this membership
        self.origins: dict[Endpoint, int] = {}  # of those who speak through aggregates: what comes next
        self.lost: set[Domain] = set()  # LANs whose aggregate was lost from sight
        self.view = 0  # of an agreed group: the number of the last one

    def _viewed(self, me: Endpoint, item: MemberView) -> None:
        """A stream goes on after the view that removes its sender; it may begin anew if that comes back."""
        self.ready, self.view = True, item.number
        here = {who for who, _ in item.members or ()}
        if item.members is None:
            gone = {*item.left, *item.failed}
            here = {who for who, each in self.streams.items() if each.is_here and who not in gone}
            here.update([who for who, _ in item.joined])
        for who in here - {me}:
            if who not in self.streams or not self.streams[who].is_here:
                self.streams[who] = _Stream(None)
        for who, stream in self.streams.items():
            stream.is_here = who in here

    def _gap_between_views(self, record: DeliveryRecord, gap: fifo.Gap, calm: bool) -> None:
        me, who, stream = record.endpoint, gap.endpoint, self.streams.get(gap.endpoint)
        if calm or stream is None:
            raise Broken(f"{me} has a gap in {who}, and nothing failed", record)
        if gap.last < gap.first or gap.first != (stream.next or gap.first):
            raise Broken(f"{me} has a gap in {who} from {gap.first}, not from where it was", record)
        stream.next = gap.last + 1
        self.last[who] = gap.last

    def _joined(self, record: DeliveryRecord, who: Endpoint) -> None:
        if not self.ready:
            raise Broken(f"{record.endpoint} was told that {who} joined before it had a list", record)
        if who in self.streams:
            raise Broken(f"{record.endpoint} was told twice running that {who} joined", record)

    def take(self, record: DeliveryRecord, spoken: _Spoken, calm: bool) -> int:
        """How many messages it was given; raises at the first that it should not have been."""
        me, item = record.endpoint, record.item
        match item:
            case fifo.Ready(members):
                self.ready = True
                self.streams = {who: _Stream(None) for who, _, _ in members if who != me}
            case fifo.Joined(who, resumed=resumed):
                self._joined(record, who)
                self.streams[who] = _Stream(self.last[who] + 1 if resumed and who in self.last else None)
            case fifo.JoinedTogether(members):
                for who, _, _ in members:
                    self._joined(record, who)
                    self.streams[who] = _Stream(None)
            case MemberView():
                self._viewed(me, item)
            case fifo.Gap(who, first, last) if self.view:
                self._gap_between_views(record, item, calm)
            case fifo.Gap(who, first, last) if who in self.origins:
                if parent(host_of(who)) not in self.lost:
                    raise Broken(f"{me} has a gap in {who}, whose LAN it never lost from sight", record)
                if last < first or first != self.origins[who]:
                    raise Broken(f"{me} has a gap in {who} from {first}, not from where it was", record)
                self.origins[who] = last + 1
            case fifo.Gap(who, first, last):
                if who in self.streams:
                    raise Broken(f"{me} has a gap in {who}, which it never lost from sight", record)
                if last < first or first != self.last.get(who, first - 1) + 1:
                    raise Broken(f"{me} has a gap in {who} from {first}, not from where it was", record)
                self.last[who] = last
            case fifo.Left(who, why, last):
                stream = self.streams.pop(who, None)
                if stream is None:
                    raise Broken(f"{me} was told that {who} left, and not that it had joined", record)
                if stream.next is not None and last != stream.next - 1:
                    raise Broken(
                        f"{me} was told that {who} ended at {last}, and had {stream.next - 1}", record
                    )
                if stream.next is None and last is not None:
                    self.last[who] = max(
                        last, self.last.get(who, 0)
                    )  # nothing of it came: it ends where it began
                if is_aggregate(who):
                    if why == "disconnected":
                        self.lost.add(parent(host_of(who)))
                elif why == "left" and calm and stream.first is not None and last is not None:
                    owed = spoken[who, record.group].owed_with(stream.first)
                    if last < owed:
                        raise Broken(f"{me} heard {who} up to {last} of {owed} when it left", record)
            case fifo.Delivered(who, run):
                self._messages(record, who, run.first, payloads(run), spoken)
                return run.count
            case fifo.Aggregated(who, run, by):
                if by not in self.streams:
                    raise Broken(f"{me} got {who} {run.first} by {by}, which is not in its view", record)
                due = self.origins.get(who, run.first)
                if run.first != due:
                    raise Broken(f"{me} got {who} {run.first} where {due} was due", record)
                self._are_said(record, who, run.first, payloads(run), spoken)
                self.origins[who] = run.end
                return run.count
        return 0

    def _messages(
        self,
        record: DeliveryRecord,
        who: Endpoint,
        first: int,
        bodies: list[bytes],
        spoken: _Spoken,
    ) -> None:
        me = record.endpoint
        stream = self.streams.get(who)
        if stream is None:
            raise Broken(f"{me} got {who} {first} while that was not in its view", record)
        if stream.next is not None and first != stream.next:
            raise Broken(f"{me} got {who} {first} where {stream.next} was due", record)
        if stream.next is None and first <= self.last.get(who, 0):
            raise Broken(f"{me} got {who} {first} once more", record)
        self._are_said(record, who, first, bodies, spoken)
        if stream.first is None:
            stream.first = first
        stream.next = first + len(bodies)
        self.last[who] = stream.next - 1

    def _are_said(
        self,
        record: DeliveryRecord,
        who: Endpoint,
        first: int,
        bodies: list[bytes],
        spoken: _Spoken,
    ) -> None:
        me = record.endpoint
        said = spoken[who, record.group].said
        for number, body in enumerate(bodies, first):
            if number > len(said):
                raise Broken(f"{me} got {who} {number}, which nobody said", record)
            if body != said[number - 1]:
                raise Broken(f"{me} got {who} {number} with other bytes than were said", record)


def fifo_gap_free(history: Iterable[AnyRecord], *, complete: bool = False) -> CheckVerdict:
    """X-004..X-006, IX-1..IX-3: what a receiver is given of a stream has consecutive numbers and the bytes
    that were said; nothing before `Joined`, nothing after `Left`; and a `Gap` only in a stream that was lost
    from sight. One that leaves in calm weather is heard to the end (X-048). With `complete`, the history ends
    in peace and long after the last word: then each has everything of the senders that it sees (IX-7)."""

    def check() -> str:
        listeners: dict[tuple[Endpoint, Group], _Listener] = {}
        spoken: _Spoken = defaultdict(_Speaker)
        given = 0
        calm = True
        record: AnyRecord | None = None
        for record in history:
            match record:
                case SubmissionRecord(endpoint=who, group=group, run=run):
                    said = spoken[who, group].said
                    if run.first != len(said) + 1:
                        return "the history lacks some of what was said"
                    said += payloads(run)
                case DeliveryRecord(endpoint=me, group=group, item=item):
                    listener = listeners.get((me, group))
                    if listener is None:
                        raise Broken(f"{me} was given {type(item).__name__} and is not in {group}", record)
                    given += listener.take(record, spoken, calm)
                    if isinstance(item, fifo.Parted):
                        del listeners[me, group]
                        if item.unsent:  # these never got a number: the next ones will have theirs
                            del spoken[me, group].said[-item.unsent :]
                    elif isinstance(item, fifo.Excluded):
                        spoken[me, group].leaves = True
                case FifoStateChanged(endpoint=me, group=group, change="joined"):
                    listeners[me, group] = _Listener()
                    spoken[me, group].joins()
                case FifoStateChanged(endpoint=me, group=group, change="left"):
                    spoken[me, group].leaves = True
                case FifoStateChanged(endpoint=me, group=group, change="crashed"):
                    listeners.pop((me, group), None)
                    calm = False
                case ServerChanged(server=server, change="crashed"):
                    calm = False
                    listeners = {key: each for key, each in listeners.items() if host_of(key[0]) != server}
                case LineChanged(change="cut"):
                    calm = False
        if complete and record is not None:
            for (me, group), listener in sorted(listeners.items()):
                for who, stream in sorted(listener.streams.items()):
                    if is_aggregate(who) or not stream.is_here:
                        continue
                    said_in_all = len(spoken[who, group].said)
                    if stream.next is not None and stream.next != said_in_all + 1:
                        last = stream.next - 1
                        raise Broken(f"{me} has {who} up to {last} of {said_in_all}", record)
                for who, next in sorted(listener.origins.items()):
                    said_in_all = len(spoken[who, group].said)
                    if next != said_in_all + 1:
                        raise Broken(f"{me} has {who} up to {next - 1} of {said_in_all}", record)
        return "" if given else "nobody was given a message"

    return verdict_of("fifo-gap-free", check)


class _Peace:
    """Since when nothing fails, and all programs read: only then is a stream owed progress."""

    def __init__(self) -> None:
        self._broken: set[tuple[str, ...]] = set()
        self.since: float | None = 0.0

    def take(self, record: AnyRecord) -> bool:
        """Did this record end it, or begin it anew?"""
        match record:
            case ServerChanged(server=server, change=change):
                self._set(("server", server), change in ("crashed", "paused"))
            case LineChanged(sender=sender, to=to, change=change):
                self._set(("line", sender, to), change == "cut")
            case DataChanged(where="", what=what, bad=False):
                self._broken = {each for each in self._broken if each[:2] != ("data", what)}
            case DataChanged(where=where, what=what, bad=bad):
                self._set(("data", what, where), bad)
            case FifoStateChanged(endpoint=who, group=group, change=change):
                self._set(("reader", who, str(group)), change == "paused")
                if change not in ("paused", "resumed", "crashed"):
                    return False
            case Detected(change="up" | "down" | "moved"):
                pass  # servers find out what happened, and tell
            case _:
                return False
        self.since = None if self._broken else record.at
        return True

    def _set(self, what: tuple[str, ...], is_broken: bool) -> None:
        (self._broken.add if is_broken else self._broken.discard)(what)


class _Owed:
    """One receiver's view of one sender: what it was given, and since when it waits for more."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.since: float | None = None


def fifo_live(history: Iterable[AnyRecord], *, within_s: float, until: float = 0.0) -> CheckVerdict:
    """X-005, X-084: while nothing fails and all programs read, a receiver that is owed a message is given the
    next one, a `Gap`, or the end of the stream, within this time. A stream that goes on slowly goes on; one
    that stands still is broken, however much of it came before. Of a sender that is new to it a receiver is
    owed what is said from then on. `until`: when the world ended, if that was after its last record."""

    def check() -> str:
        peace = _Peace()
        said: dict[tuple[Endpoint, Group], int] = {}
        deaf: set[tuple[Endpoint, Group]] = set()  # members that only speak
        owed: dict[tuple[Group, Endpoint], dict[Endpoint, _Owed]] = {}  # by sender, then by receiver
        judged = 0
        record: AnyRecord | None = None

        def judge(where: AnyRecord, at: float, me: Endpoint, who: Endpoint, stream: _Owed) -> None:
            nonlocal judged
            if stream.since is None or peace.since is None:
                return
            judged += 1
            waited_s = at - max(stream.since, peace.since)
            if waited_s > within_s:
                raise Broken(f"{me} waited {waited_s:.1f} s for {who} {stream.last + 1}, in peace", where)

        def judge_all(where: AnyRecord, at: float) -> None:
            for (_, who), receivers in sorted(owed.items()):
                for me, stream in sorted(receivers.items()):
                    judge(where, at, me, who, stream)

        def end(me: Endpoint, group: Group) -> None:
            for (of, _), receivers in owed.items():
                if of == group:
                    receivers.pop(me, None)

        for record in history:
            if isinstance(record, DeliveryRecord) and isinstance(record.item, fifo.Delivered):
                who, run = record.item.stream, record.item.run
                stream = owed.get((record.group, who), {}).get(record.endpoint)
                if stream is not None:
                    judge(record, record.at, record.endpoint, who, stream)
                    stream.last = max(stream.last, run.end - 1)
                    stream.since = record.at if said.get((who, record.group), 0) > stream.last else None
                continue
            before = peace.since
            if peace.take(record) and before is not None:
                after, peace.since = peace.since, before
                judge_all(record, record.at)
                peace.since = after
            match record:
                case SubmissionRecord(endpoint=who, group=group, run=run):
                    said[who, group] = run.end - 1
                    for stream in owed.get((group, who), {}).values():
                        if stream.since is None:
                            stream.since = record.at
                case DeliveryRecord(endpoint=me, group=group, item=item):
                    if isinstance(item, fifo.Ready):
                        end(me, group)
                        if any(each == me and not role.receives for each, role, _ in item.members):
                            deaf.add((me, group))
                    for who in _begun(item, me) if (me, group) not in deaf else ():
                        owed.setdefault((group, who), {})[me] = _Owed(said.get((who, group), 0))
                    if isinstance(item, fifo.Left):
                        stream = owed.get((group, item.endpoint), {}).pop(me, None)
                        if stream is not None:
                            judge(record, record.at, me, item.endpoint, stream)
                    if isinstance(item, fifo.Excluded | fifo.Parted):
                        end(me, group)
                    if isinstance(item, fifo.Parted):
                        said[me, group] = said.get((me, group), 0) - item.unsent
                case FifoStateChanged(endpoint=me, group=group, change="joined" | "left" | "crashed"):
                    deaf.discard((me, group))
                    end(me, group)
                case ServerChanged(server=server, change="crashed"):
                    for receivers in owed.values():
                        for me in [each for each in receivers if host_of(each) == server]:
                            del receivers[me]
        if record is not None:
            judge_all(record, max(record.at, until))
        return "" if judged else "nobody waited for anything in peace"

    return verdict_of("fifo-live", check)


def _begun(item: fifo.Item, me: Endpoint) -> list[Endpoint]:
    """The senders whose streams begin for a receiver with this item."""
    match item:
        case fifo.Ready(members) | fifo.JoinedTogether(members):
            return [who for who, role, _ in members if who != me and role.sends and not is_aggregate(who)]
        case fifo.Joined(who, role=role) if role.sends and not is_aggregate(who):
            return [who]
    return []


def smooth_join(
    history: Iterable[AnyRecord], undisturbed: Iterable[AnyRecord], *, within_s: float = 0.005
) -> CheckVerdict:
    """X-002, of two runs with one seed: in `history` others join and leave, in `undisturbed` they do not. No
    time between two messages, from a sender in both to a receiver in both, grows by more than
    `within_s`."""

    def check() -> str:
        alone = _arrivals(undisturbed)
        disturbed = list(history)
        among = _arrivals(disturbed)
        stayers = {key[0] for key in alone} | {key[2] for key in alone}
        if not any(isinstance(r, FifoStateChanged) and r.endpoint not in stayers for r in disturbed):
            return "nobody else joined or left"
        compared = 0
        for key in sorted(alone):
            me, _, who = key
            before, after = alone[key], among.get(key, {})
            if not after:
                raise Broken(f"{me} got nothing of {who}", disturbed[-1])
            for number in sorted(before):
                if number not in after:
                    if number - 1 not in after:
                        continue  # told of once already, or from before its start
                    raise Broken(f"{me} never got {who} {number}", after[number - 1])
                if number - 1 in before and number - 1 in after:
                    compared += 1
                    was = before[number].at - before[number - 1].at
                    grown = after[number].at - after[number - 1].at - was
                    if grown > within_s:
                        raise Broken(
                            f"{me} waited {grown * 1e3:.1f} ms more for {who} {number}", after[number]
                        )
        return "" if compared else "no stream is in both histories"

    return verdict_of("smooth-join", check)


def _arrivals(
    history: Iterable[AnyRecord],
) -> dict[tuple[Endpoint, Group, Endpoint], dict[int, DeliveryRecord]]:
    """Per receiver, group and sender: what brought each number."""
    found: dict[tuple[Endpoint, Group, Endpoint], dict[int, DeliveryRecord]] = {}
    for record in history:
        if isinstance(record, DeliveryRecord) and isinstance(record.item, fifo.Delivered):
            run = record.item.run
            numbers = found.setdefault((record.endpoint, record.group, record.item.stream), {})
            numbers.update(dict.fromkeys(range(run.first, run.end), record))
    return found
