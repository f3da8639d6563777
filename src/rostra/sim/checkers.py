"""Were the promises kept? Each checker reads a history and answers yes, no, or cannot tell.

    per-source-order   two events about one source are reported everywhere in the order they happened
    stable-truth       once changes stop, every observer in one component reports the true membership
    watch-complete     a snapshot, then every later change once and in order, or a `Gap` and a new snapshot
    both-sides-told    each side of a partition is told, once per domain, within the detection bound
    heals-alone        a healed partition merges again without an operator, within the heal bound
    fifo-gap-free      of groups that speak: each stream in order, each number once, and as it was said
    fifo-live          in peace no stream stands still: its next message comes, or the word that it is missing
    smooth-join        others that join and leave delay no stream between two that stay

*No* points at the first record that broke the promise. *Cannot tell* means that the history gave the
promise no chance to be broken, or lacks what is needed to judge: it is not a yes.

The checkers share nothing with the servers and the library that they judge: the truth is the `Twin`'s, and
what an observer was told is folded here, by the plain words of C-139.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from msgspec import Struct

from rostra.groups.members import Cause, Members, Stamp
from rostra.names import Domain, Endpoint, Group, host_of, inside, parent
from rostra.protocols.fifo import events as talk
from rostra.protocols.fifo.voice import is_aggregate
from rostra.protocols.flow.runs import payloads
from rostra.protocols.relaxed.requests import Absolute, AnyNotice, Gap, Joined, Left, Only, Resolve, Without
from rostra.sim.history import (
    AnswerRecord,
    AnyRecord,
    DataChanged,
    DeliveryRecord,
    Detected,
    FollowingChanged,
    LineChanged,
    MembershipChanged,
    NoticeRecord,
    ServerChanged,
    Settled,
    SubmissionRecord,
    TalkChanged,
    WorldMade,
)
from rostra.sim.twin import Twin


class CheckVerdict(Struct, frozen=True):
    promise: str
    answer: Literal["yes", "no", "cannot tell"]
    why: str = ""
    where: AnyRecord | None = None  # the first record that broke the promise

    @property
    def ok(self) -> bool:
        return self.answer == "yes"

    @property
    def broken(self) -> bool:
        return self.answer == "no"

    def __str__(self) -> str:
        return " ".join(filter(None, (f"{self.promise}: {self.answer}", self.why and f"({self.why})")))


class _Broken(Exception):
    def __init__(self, why: str, where: AnyRecord) -> None:
        super().__init__(why)
        self.why, self.where = why, where


def _judge(promise: str, check: Callable[[], str]) -> CheckVerdict:
    """Run a check that raises at the first offence, and otherwise says why it cannot tell, or nothing."""
    try:
        why_not = check()
    except _Broken as broken:
        return CheckVerdict(promise, "no", broken.why, broken.where)
    return CheckVerdict(promise, "cannot tell", why_not) if why_not else CheckVerdict(promise, "yes")


class CheckReport:
    """What one observer was told about one group, folded into a list, in the plain words of C-139."""

    def __init__(self) -> None:
        self.based = False  # was there a snapshot yet?
        self.members: dict[Endpoint, Stamp] = {}

    def fold(self, notice: AnyNotice) -> None:
        match notice:
            case Absolute(members=members):
                self.based = True
                self.members = _stamps(members)
            case Joined(members=members, complete_for=part):
                if part is not None:
                    kept = {x: s for x, s in self.members.items() if inside(part.domain, x) != part.within}
                    self.members = kept
                self.members.update(_stamps(members))
            case Left(endpoint=endpoint):
                self.members.pop(endpoint, None)
            case Only(domain=domain):
                self.members = {x: s for x, s in self.members.items() if inside(domain, x)}
            case Without(domain=domain):
                self.members = {x: s for x, s in self.members.items() if not inside(domain, x)}


class _Reports:
    """Every observer's reports; who follows what comes from the history itself."""

    def __init__(self, *, answers: bool = True) -> None:
        self._answers = answers  # do those to questions count?
        self.of: dict[Endpoint, dict[Group, CheckReport]] = {}
        self._since: dict[tuple[Endpoint, Group], float] = {}

    def take(self, record: AnyRecord) -> None:
        match record:
            case FollowingChanged(endpoint=endpoint, group=group, follows=True):
                self.of.setdefault(endpoint, {})[group] = CheckReport()
                self._since[endpoint, group] = record.at
            case FollowingChanged(endpoint=endpoint, group=group):
                self.of.get(endpoint, {}).pop(group, None)
            case ServerChanged(server=server, change="crashed"):
                for endpoint in [x for x in self.of if host_of(x) == server]:
                    del self.of[endpoint]
            case NoticeRecord(
                endpoint=endpoint,
                notice=Absolute(group=group) | Joined(group=group) | Left(group=group) as notice,
            ):
                if (report := self.of.get(endpoint, {}).get(group)) is not None:
                    report.fold(notice)
            case NoticeRecord(endpoint=endpoint, notice=Only() | Without() as notice):
                for report in self.of.get(endpoint, {}).values():
                    report.fold(notice)
            case AnswerRecord(
                endpoint=endpoint, request=Resolve(), result=Absolute(group=group) as notice
            ) if self._answers:
                # An answer counts as a snapshot only for one who followed already when asking.
                report = self.of.get(endpoint, {}).get(group)
                if report is not None and record.asked_at >= self._since[endpoint, group]:
                    report.fold(notice)

    def __iter__(self) -> Iterator[tuple[Endpoint, Group, CheckReport]]:
        for endpoint, groups in self.of.items():
            for group, report in groups.items():
                yield endpoint, group, report


def per_source_order(history: Iterable[AnyRecord], *, answers: bool = True) -> CheckVerdict:
    """C-067: stamps about one source never go back in what one observer is told, nor in what it is answered;
    and what a detector says of one neighbour alternates (C-027). Without `answers` those to questions are
    passed over, as by whoever has only the journal."""

    def check() -> str:
        latest: dict[tuple[str, Endpoint, Group, Endpoint], Stamp] = {}
        up: set[tuple[str, str]] = set()
        compared = 0
        for record in history:
            match record:
                case NoticeRecord(endpoint=observer, notice=Absolute() | Joined() | Left() as notice):
                    stream = "told"
                case AnswerRecord(endpoint=observer, request=Resolve(), result=Absolute() as notice) if (
                    answers
                ):
                    stream = "answered"
                case Detected(server=server, peer=peer, change="up" | "down" as change):
                    if ((server, peer) in up) == (change == "up"):
                        raise _Broken(f"{server} reported {peer} {change} twice running", record)
                    up ^= {(server, peer)}
                    continue
                case ServerChanged(server=server, change="crashed"):
                    up = {(a, b) for a, b in up if a != server}
                    continue
                case _:
                    continue
            news = {notice.endpoint: notice.stamp} if isinstance(notice, Left) else _stamps(notice.members)
            for source, stamp in news.items():
                key = (stream, observer, notice.group, source)
                before = latest.get(key)
                if before is not None:
                    compared += 1
                    if stamp < before:
                        raise _Broken(f"{observer} was {stream} of {source} {stamp} after {before}", record)
                latest[key] = stamp
        return "" if compared else "nobody heard of one source twice"

    return _judge("per-source-order", check)


def stable_truth(history: Iterable[AnyRecord], *, answers: bool = True) -> CheckVerdict:
    """C-070..C-073: at every `Settled`, whoever follows a group has been told its true membership; and so is
    whoever asks between a `Settled` and the next change, unless `answers` are passed over."""

    def check() -> str:
        twin: Twin | None = None
        reports = _Reports(answers=answers)
        settled_at: float | None = None
        compared = 0
        for record in history:
            reports.take(record)
            if isinstance(record, WorldMade):
                twin = Twin(record.hosts)
                continue
            if twin is None:
                return "the history does not begin with its world"
            twin.take(record)
            match record:
                case Settled():
                    settled_at = record.at
                    for observer, group, report in reports:
                        if not twin.works(host_of(observer)):
                            continue
                        compared += 1
                        truth = twin.seen_from(host_of(observer), group)
                        if not report.based:
                            raise _Broken(f"{observer} never got a snapshot of {group}", record)
                        if tuple(sorted(report.members)) != truth:
                            told = _difference(report.members, truth)
                            raise _Broken(f"{observer} was told a wrong {group}: {told}", record)
                case ServerChanged() | LineChanged() | MembershipChanged():
                    settled_at = None
                case AnswerRecord(endpoint=observer, request=Resolve(), result=Absolute() as answer) if (
                    answers
                ):
                    if settled_at is not None and record.asked_at >= settled_at:
                        compared += 1
                        truth = twin.seen_from(host_of(observer), answer.group)
                        if tuple(x.endpoint for x in answer.members) != truth:
                            said = _difference(_stamps(answer.members), truth)
                            raise _Broken(f"{observer} was answered a wrong {answer.group}: {said}", record)
        return "" if compared else "the world never settled with an observer in it"

    return _judge("stable-truth", check)


def watch_complete(history: Iterable[AnyRecord]) -> CheckVerdict:
    """While no server or line fails between two `Settled`, whoever follows is told each change of each
    source once and in order; whoever got a `Gap` gets a new snapshot before the world settles again."""

    def check() -> str:
        twin: Twin | None = None
        following: set[tuple[Endpoint, Group]] = set()
        reports = _Reports()
        changes: dict[Group, dict[Endpoint, list[str]]] = {}
        told: dict[tuple[Endpoint, Group], dict[Endpoint, list[str]]] = {}
        owed: dict[tuple[Endpoint, Group], AnyRecord] = {}
        gapped: set[tuple[Endpoint, Group]] = set()
        calm = False
        compared = 0
        for record in history:
            if isinstance(record, WorldMade):
                twin = Twin(record.hosts)
                continue
            if twin is None:
                return "the history does not begin with its world"
            twin.take(record)
            match record:
                case NoticeRecord(endpoint=observer, notice=Gap(groups=groups)):
                    for group in groups:
                        if group in reports.of.get(observer, {}):
                            owed.setdefault((observer, group), record)
                            gapped.add((observer, group))
                case NoticeRecord(endpoint=observer, notice=notice):
                    followed = reports.of.get(observer, {})
                    named = getattr(notice, "group", None)
                    before = {g: set(r.members) for g, r in followed.items() if named in (None, g)}
                    reports.take(record)
                    for group, members in before.items():
                        after = set(followed[group].members)
                        _list_changes(told.setdefault((observer, group), {}), notice, members, after)
                    if isinstance(notice, Absolute):
                        owed.pop((observer, notice.group), None)
                    continue
                case MembershipChanged(endpoint=source, group=group, change=change):
                    way = "joined" if change == "joined" else "left"
                    changes.setdefault(group, {}).setdefault(source, []).append(way)
                case FollowingChanged(endpoint=observer, group=group, follows=follows):
                    following.discard((observer, group))
                    if not follows:
                        owed.pop((observer, group), None)
                case ServerChanged(server=server, change=change):
                    calm = False
                    if change == "crashed":
                        owed = {key: at for key, at in owed.items() if host_of(key[0]) != server}
                case LineChanged() | Detected(change="up" | "down"):
                    calm = False
                case Settled():
                    for (observer, group), gap in owed.items():
                        if twin.works(host_of(observer)):
                            raise _Broken(f"{observer} got no snapshot of {group} after its Gap", gap)
                    for observer, group in sorted(following - gapped) if calm else ():
                        for source in sorted(
                            set(changes.get(group, ())) | set(told.get((observer, group), ()))
                        ):
                            if source == observer or not twin.sees(host_of(observer), host_of(source)):
                                continue
                            truth = changes.get(group, {}).get(source, [])
                            heard = told.get((observer, group), {}).get(source, [])
                            compared += 1
                            if heard != truth:
                                raise _Broken(
                                    f"{observer} was told of {source} in {group}: {_steps(heard)}; "
                                    f"what happened: {_steps(truth)}",
                                    record,
                                )
                    reports_now = [
                        (x, g) for x, g, report in reports if report.based and twin.works(host_of(x))
                    ]
                    following, calm = set(reports_now), True
                    changes, told, gapped = {}, {}, set()
            reports.take(record)
        return "" if compared else "nothing changed in calm weather while somebody followed"

    return _judge("watch-complete", check)


def both_sides_told(history: Iterable[AnyRecord], *, bound_s: float) -> CheckVerdict:
    """C-060..C-064: who loses sight of members is told so within `bound_s`, by domain and not member by
    member, and once per failure."""

    def check() -> str:
        twin: Twin | None = None
        reports = _Reports()
        due: dict[tuple[Endpoint, Group, Endpoint], tuple[float, AnyRecord]] = {}
        left: set[tuple[Endpoint, Group]] = set()
        filters: Counter[tuple[Endpoint, str, str, str]] = Counter()
        downs: Counter[tuple[str, str]] = Counter()
        kept = 0
        for record in history:
            for (observer, group, source), (by, cut) in due.items():
                if record.at > by:
                    raise _Broken(
                        f"{observer} was not told within {bound_s} s that it lost {source} in {group}", cut
                    )
            match record:
                case NoticeRecord(
                    endpoint=observer,
                    notice=Only(domain=domain, because=why) | Without(domain=domain, because=why),
                ):
                    filters[observer, domain, why.accuser, why.accused] += 1
                    if filters[observer, domain, why.accuser, why.accused] > downs[why.accuser, why.accused]:
                        raise _Broken(f"{observer} was told twice of one failure of {why.accused}", record)
                case NoticeRecord(endpoint=observer, notice=Left(group=group, endpoint=source)):
                    if (observer, group, source) in due and (source, group) not in left:
                        raise _Broken(f"{observer} was told of {source} alone, not of its domain", record)
                case Detected(server=server, peer=peer, change="down"):
                    downs[server, peer] += 1
                case MembershipChanged(endpoint=source, group=group, change=change):
                    (left.discard if change == "joined" else left.add)((source, group))
            reports.take(record)
            if isinstance(record, WorldMade):
                twin = Twin(record.hosts)
                continue
            if twin is None:
                return "the history does not begin with its world"
            twin.take(record)
            match record:
                case ServerChanged() | LineChanged():
                    lost = {
                        (observer, group, source)
                        for observer, group, report in reports
                        if twin.works(host_of(observer))
                        for source in report.members
                        if not twin.sees(host_of(observer), host_of(source))
                    }
                    due = {key: due.get(key, (record.at + bound_s, record)) for key in sorted(lost)}
                case NoticeRecord() | AnswerRecord() | FollowingChanged() if due:
                    still = {
                        key: by for key, by in due.items() if key[2] in _members(reports, key[0], key[1])
                    }
                    kept += len(due) - len(still) if isinstance(record, NoticeRecord) else 0
                    due = still
        if due:
            return "the history ends before everybody must have been told"
        return "" if kept else "nobody lost sight of anybody for long enough"

    return _judge("both-sides-told", check)


def heals_alone(history: Iterable[AnyRecord], *, bound_s: float) -> CheckVerdict:
    """C-035, C-060: once what failed works again, and nothing else fails, whoever follows a group is told
    of every member that it can see again within `bound_s`."""

    def check() -> str:
        twin: Twin | None = None
        reports = _Reports()
        due: dict[tuple[Endpoint, Group, Endpoint], tuple[float, AnyRecord]] = {}
        healed = 0
        for record in history:
            for (observer, group, source), (by, repair) in due.items():
                if record.at > by:
                    raise _Broken(
                        f"{observer} did not see {source} in {group} again within {bound_s} s", repair
                    )
            reports.take(record)
            if isinstance(record, WorldMade):
                twin = Twin(record.hosts)
                continue
            if twin is None:
                return "the history does not begin with its world"
            twin.take(record)
            match record:
                case ServerChanged() | LineChanged():
                    # Each further failure or repair starts the clock again: only a calm world owes anything.
                    missing = {
                        (observer, group, source)
                        for observer, group, report in reports
                        if report.based
                        for source in twin.seen_from(host_of(observer), group)
                        if source not in report.members
                    }
                    due = dict.fromkeys(sorted(missing), (record.at + bound_s, record))
                case MembershipChanged() | FollowingChanged() | NoticeRecord() | AnswerRecord() if due:
                    still = {
                        key: by
                        for key, by in due.items()
                        if key[2] not in _members(reports, key[0], key[1])
                        and key[0] in reports.of
                        and key[1] in reports.of[key[0]]
                        and key[2] in twin.members.get(key[1], ())
                    }
                    healed += len(due) - len(still) if isinstance(record, NoticeRecord) else 0
                    due = still
        if due:
            return "the history ends before everybody must have been seen again"
        return "" if healed else "nobody came back into sight"

    return _judge("heals-alone", check)


class _Speaker:
    """What one sender said in one group. Its numbers go on from one membership to the next."""

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


class _Listener:
    """One receiver in one group, from its list on until it has parted."""

    def __init__(self) -> None:
        self.ready = False
        self.streams: dict[Endpoint, _Stream] = {}
        self.last: dict[Endpoint, int] = {}  # of everybody ever heard in this membership
        self.origins: dict[Endpoint, int] = {}  # of those who speak through aggregates: what comes next
        self.lost: set[Domain] = set()  # LANs whose aggregate was lost from sight

    def take(self, record: DeliveryRecord, spoken: _Spoken, calm: bool) -> int:
        """How many messages it was given; raises at the first that it should not have been."""
        me, item = record.endpoint, record.item
        match item:
            case talk.Ready(members):
                self.ready = True
                self.streams = {who: _Stream(None) for who, _, _ in members if who != me}
            case talk.Joined(who, resumed=resumed):
                if not self.ready:
                    raise _Broken(f"{me} was told that {who} joined before it had a list", record)
                if who in self.streams:
                    raise _Broken(f"{me} was told twice running that {who} joined", record)
                self.streams[who] = _Stream(self.last[who] + 1 if resumed and who in self.last else None)
            case talk.Gap(who, first, last) if who in self.origins:
                if parent(host_of(who)) not in self.lost:
                    raise _Broken(f"{me} has a gap in {who}, whose LAN it never lost from sight", record)
                if last < first or first != self.origins[who]:
                    raise _Broken(f"{me} has a gap in {who} from {first}, not from where it was", record)
                self.origins[who] = last + 1
            case talk.Gap(who, first, last):
                if who in self.streams:
                    raise _Broken(f"{me} has a gap in {who}, which it never lost from sight", record)
                if last < first or first != self.last.get(who, first - 1) + 1:
                    raise _Broken(f"{me} has a gap in {who} from {first}, not from where it was", record)
                self.last[who] = last
            case talk.Left(who, why, last):
                stream = self.streams.pop(who, None)
                if stream is None:
                    raise _Broken(f"{me} was told that {who} left, and not that it had joined", record)
                if stream.next is not None and last != stream.next - 1:
                    raise _Broken(
                        f"{me} was told that {who} ended at {last}, and had {stream.next - 1}", record
                    )
                if is_aggregate(who):
                    if why == "disconnected":
                        self.lost.add(parent(host_of(who)))
                elif why == "left" and calm and stream.first is not None and last is not None:
                    owed = spoken[who, record.group].owed_with(stream.first)
                    if last < owed:
                        raise _Broken(f"{me} heard {who} up to {last} of {owed} when it left", record)
            case talk.Delivered(who, run):
                self._messages(record, who, run.first, payloads(run), spoken)
                return run.count
            case talk.Aggregated(who, run, by):
                if by not in self.streams:
                    raise _Broken(f"{me} got {who} {run.first} by {by}, which is not in its view", record)
                due = self.origins.get(who, run.first)
                if run.first != due:
                    raise _Broken(f"{me} got {who} {run.first} where {due} was due", record)
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
            raise _Broken(f"{me} got {who} {first} while that was not in its view", record)
        if stream.next is not None and first != stream.next:
            raise _Broken(f"{me} got {who} {first} where {stream.next} was due", record)
        if stream.next is None and first <= self.last.get(who, 0):
            raise _Broken(f"{me} got {who} {first} once more", record)
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
                raise _Broken(f"{me} got {who} {number}, which nobody said", record)
            if body != said[number - 1]:
                raise _Broken(f"{me} got {who} {number} with other bytes than were said", record)


def fifo_gap_free(history: Iterable[AnyRecord], *, complete: bool = False) -> CheckVerdict:
    """X-004..X-006, IX-1..IX-3: what a receiver is given of a stream has consecutive numbers and the bytes
    that were said; nothing before `Joined`, nothing after `Left`; and a `Gap` only in a stream that was lost
    from sight. Whoever leaves in calm weather is heard to the end (X-048). With `complete`, the history ends
    in peace and long after the last word: then everybody has everything of those that it sees (IX-7)."""

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
                        raise _Broken(f"{me} was given {type(item).__name__} and is not in {group}", record)
                    given += listener.take(record, spoken, calm)
                    if isinstance(item, talk.Parted):
                        del listeners[me, group]
                        if item.unsent:  # these never got a number: the next ones will have theirs
                            del spoken[me, group].said[-item.unsent :]
                    elif isinstance(item, talk.Excluded):
                        spoken[me, group].leaves = True
                case TalkChanged(endpoint=me, group=group, change="joined"):
                    listeners[me, group] = _Listener()
                    spoken[me, group].joins()
                case TalkChanged(endpoint=me, group=group, change="left"):
                    spoken[me, group].leaves = True
                case TalkChanged(endpoint=me, group=group, change="crashed"):
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
                    if is_aggregate(who):
                        continue
                    said_in_all = len(spoken[who, group].said)
                    if stream.next is not None and stream.next != said_in_all + 1:
                        last = stream.next - 1
                        raise _Broken(f"{me} has {who} up to {last} of {said_in_all}", record)
                for who, next in sorted(listener.origins.items()):
                    said_in_all = len(spoken[who, group].said)
                    if next != said_in_all + 1:
                        raise _Broken(f"{me} has {who} up to {next - 1} of {said_in_all}", record)
        return "" if given else "nobody was given a message"

    return _judge("fifo-gap-free", check)


class _Peace:
    """Since when nothing fails, and everybody reads: only then is a stream owed progress."""

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
            case TalkChanged(endpoint=who, group=group, change=change):
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
    """X-005, X-084: while nothing fails and everybody reads, a receiver that is owed a message is given the
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
                raise _Broken(f"{me} waited {waited_s:.1f} s for {who} {stream.last + 1}, in peace", where)

        def judge_all(where: AnyRecord, at: float) -> None:
            for (_, who), receivers in sorted(owed.items()):
                for me, stream in sorted(receivers.items()):
                    judge(where, at, me, who, stream)

        def end(me: Endpoint, group: Group) -> None:
            for (of, _), receivers in owed.items():
                if of == group:
                    receivers.pop(me, None)

        for record in history:
            if isinstance(record, DeliveryRecord) and isinstance(record.item, talk.Delivered):
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
                    if isinstance(item, talk.Ready):
                        end(me, group)
                        if any(each == me and not role.receives for each, role, _ in item.members):
                            deaf.add((me, group))
                    for who in _begun(item, me) if (me, group) not in deaf else ():
                        owed.setdefault((group, who), {})[me] = _Owed(said.get((who, group), 0))
                    if isinstance(item, talk.Left):
                        stream = owed.get((group, item.endpoint), {}).pop(me, None)
                        if stream is not None:
                            judge(record, record.at, me, item.endpoint, stream)
                    if isinstance(item, talk.Excluded | talk.Parted):
                        end(me, group)
                    if isinstance(item, talk.Parted):
                        said[me, group] = said.get((me, group), 0) - item.unsent
                case TalkChanged(endpoint=me, group=group, change="joined" | "left" | "crashed"):
                    deaf.discard((me, group))
                    end(me, group)
                case ServerChanged(server=server, change="crashed"):
                    for receivers in owed.values():
                        for me in [each for each in receivers if host_of(each) == server]:
                            del receivers[me]
        if record is not None:
            judge_all(record, max(record.at, until))
        return "" if judged else "nobody waited for anything in peace"

    return _judge("fifo-live", check)


def _begun(item: talk.Item, me: Endpoint) -> list[Endpoint]:
    """Whose streams begin for somebody who is given this."""
    match item:
        case talk.Ready(members):
            return [who for who, role, _ in members if who != me and role.sends and not is_aggregate(who)]
        case talk.Joined(who, role=role) if role.sends and not is_aggregate(who):
            return [who]
    return []


def smooth_join(
    history: Iterable[AnyRecord], undisturbed: Iterable[AnyRecord], *, within_s: float = 0.005
) -> CheckVerdict:
    """X-002, of two runs with one seed: in `history` others join and leave, in `undisturbed` they do not. No
    time between two messages that somebody in both was given of somebody in both grows by more than
    `within_s`."""

    def check() -> str:
        alone = _arrivals(undisturbed)
        disturbed = list(history)
        among = _arrivals(disturbed)
        stayers = {key[0] for key in alone} | {key[2] for key in alone}
        if not any(isinstance(r, TalkChanged) and r.endpoint not in stayers for r in disturbed):
            return "nobody else joined or left"
        compared = 0
        for key in sorted(alone):
            me, _, who = key
            before, after = alone[key], among.get(key, {})
            if not after:
                raise _Broken(f"{me} got nothing of {who}", disturbed[-1])
            for number in sorted(before):
                if number not in after:
                    if number - 1 not in after:
                        continue  # told of once already, or from before its start
                    raise _Broken(f"{me} never got {who} {number}", after[number - 1])
                if number - 1 in before and number - 1 in after:
                    compared += 1
                    was = before[number].at - before[number - 1].at
                    grown = after[number].at - after[number - 1].at - was
                    if grown > within_s:
                        raise _Broken(
                            f"{me} waited {grown * 1e3:.1f} ms more for {who} {number}", after[number]
                        )
        return "" if compared else "no stream is in both histories"

    return _judge("smooth-join", check)


def _arrivals(
    history: Iterable[AnyRecord],
) -> dict[tuple[Endpoint, Group, Endpoint], dict[int, DeliveryRecord]]:
    """Per receiver, group and sender: what brought each number."""
    found: dict[tuple[Endpoint, Group, Endpoint], dict[int, DeliveryRecord]] = {}
    for record in history:
        if isinstance(record, DeliveryRecord) and isinstance(record.item, talk.Delivered):
            run = record.item.run
            numbers = found.setdefault((record.endpoint, record.group, record.item.stream), {})
            numbers.update(dict.fromkeys(range(run.first, run.end), record))
    return found


def _stamps(members: Members) -> dict[Endpoint, Stamp]:
    return {member.endpoint: member.stamp for member in members}


def _members(reports: _Reports, observer: Endpoint, group: Group) -> dict[Endpoint, Stamp]:
    report = reports.of.get(observer, {}).get(group)
    return report.members if report is not None else {}


def _difference(told: Iterable[Endpoint], truth: Iterable[Endpoint]) -> str:
    told, truth = set(told), set(truth)
    ghosts, missing = sorted(told - truth), sorted(truth - told)
    return ", ".join(
        filter(
            None,
            (
                f"ghosts {' '.join(ghosts)}" if ghosts else "",
                f"missing {' '.join(missing)}" if missing else "",
            ),
        )
    )


def _list_changes(
    heard: dict[Endpoint, list[str]], notice: AnyNotice, before: set[Endpoint], after: set[Endpoint]
) -> None:
    """Write down what a notice said had happened, also if it had been said already: once means once."""
    match notice:
        case Joined(members=members, cause=Cause.JOIN):
            for member in members:
                heard.setdefault(member.endpoint, []).append("joined")
        case Left(endpoint=endpoint):
            heard.setdefault(endpoint, []).append("left")
        case _:
            for endpoint in sorted(after - before):
                heard.setdefault(endpoint, []).append("joined")
            for endpoint in sorted(before - after):
                heard.setdefault(endpoint, []).append("left")


def _steps(changes: list[str]) -> str:
    return ", ".join(changes) or "nothing"
