"""Were the promises kept? Each checker reads a history and answers yes, no, or cannot tell.

    per-source-order   two events about one source are reported everywhere in the order they happened
    stable-truth       once changes stop, every observer in one component reports the true membership
    watch-complete     a snapshot, then every later change once and in order, or a `Gap` and a new snapshot
    both-sides-told    each side of a partition is notified, once per domain, within the detection bound
    heals-alone        a healed partition merges again without an operator, within the heal bound

Those of FIFO groups are in `fifo_checkers.py`.

*No* points at the first record that broke the promise. *Cannot tell* means that the history gave the
promise no chance to be broken, or lacks what is needed to judge: it is not a yes.

The checkers share nothing with the servers and the library that they judge: the truth is the `Twin`'s, and
an observer's notices are folded into a member list here, as C-139 words it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from msgspec import Struct

from rostra.groups.members import Cause, Members, Stamp
from rostra.names import Endpoint, Group, host_of, inside
from rostra.protocols.relaxed.requests import (
    Absolute,
    AnyNotice,
    Changed,
    Gap,
    Joined,
    Left,
    Only,
    Resolve,
    Snapshot,
    Without,
)
from rostra.sim.history import (
    AnswerRecord,
    AnyRecord,
    Detected,
    FollowingChanged,
    LineChanged,
    MembershipChanged,
    NoticeRecord,
    ServerChanged,
    Settled,
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


class Broken(Exception):
    def __init__(self, why: str, where: AnyRecord) -> None:
        super().__init__(why)
        self.why, self.where = why, where


def verdict_of(promise: str, check: Callable[[], str]) -> CheckVerdict:
    """Run a check that raises at the first offence, and otherwise says why it cannot tell, or nothing."""
    try:
        why_not = check()
    except Broken as broken:
        return CheckVerdict(promise, "no", broken.why, broken.where)
    return CheckVerdict(promise, "cannot tell", why_not) if why_not else CheckVerdict(promise, "yes")


class CheckReport:
    """One observer's notices about one group, folded into a member list as C-139 words it."""

    def __init__(self) -> None:
        self.based = False  # was there a snapshot yet?
        self.members: dict[Endpoint, Stamp] = {}

    def fold(self, notice: AnyNotice) -> None:
        match notice:
            case Absolute(members=members) | Snapshot(members=members):
                self.based = True
                self.members = _stamps(members)
            case Changed(members=members, left=left):
                self.members = {x: s for x, s in self.members.items() if x not in left} | _stamps(members)
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
                notice=Absolute(group=group)
                | Joined(group=group)
                | Left(group=group)
                | Snapshot(group=group)
                | Changed(group=group) as notice,
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
    """C-067: stamps about one source never go back in one observer's notices, nor in its answers;
    and what a detector says of one neighbour alternates (C-027). Without `answers` those to questions are
    passed over, as by a reader who has only the journal."""

    def check() -> str:
        latest: dict[tuple[str, Endpoint, Group, Endpoint], Stamp] = {}
        up: set[tuple[str, str]] = set()
        compared = 0
        for record in history:
            match record:
                case NoticeRecord(
                    endpoint=observer,
                    notice=Absolute() | Joined() | Left() | Snapshot() | Changed() as notice,
                ):
                    stream = "told"
                case AnswerRecord(endpoint=observer, request=Resolve(), result=Absolute() as notice) if (
                    answers
                ):
                    stream = "answered"
                case Detected(server=server, peer=peer, change="up" | "down" as change):
                    if ((server, peer) in up) == (change == "up"):
                        raise Broken(f"{server} reported {peer} {change} twice running", record)
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
                        raise Broken(f"{observer} was {stream} of {source} {stamp} after {before}", record)
                latest[key] = stamp
        return "" if compared else "nobody heard of one source twice"

    return verdict_of("per-source-order", check)


def stable_truth(history: Iterable[AnyRecord], *, answers: bool = True) -> CheckVerdict:
    """C-070..C-073: at every `Settled`, every follower of a group has its true membership; and so has
    every program that asks between a `Settled` and the next change, unless `answers` are passed over."""

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
                            raise Broken(f"{observer} never got a snapshot of {group}", record)
                        if tuple(sorted(report.members)) != truth:
                            told = _difference(report.members, truth)
                            raise Broken(f"{observer} was told a wrong {group}: {told}", record)
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
                            raise Broken(f"{observer} was answered a wrong {answer.group}: {said}", record)
        return "" if compared else "the world never settled with an observer in it"

    return verdict_of("stable-truth", check)


def watch_complete(history: Iterable[AnyRecord]) -> CheckVerdict:
    """While no server or line fails between two `Settled`, every follower gets each change of each
    source once and in order; one that got a `Gap` gets a new snapshot before the world settles again."""

    def check() -> str:
        twin: Twin | None = None
        following: set[tuple[Endpoint, Group]] = set()
        reports = _Reports()
        changes: dict[Group, dict[Endpoint, list[str]]] = {}
        told: dict[tuple[Endpoint, Group], dict[Endpoint, list[str]]] = {}
        owed: dict[tuple[Endpoint, Group], AnyRecord] = {}
        gapped: set[tuple[Endpoint, Group]] = set()
        numbers: dict[tuple[Endpoint, Group], int] = {}  # of watchers: the last change that each got
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
                    if isinstance(notice, Absolute | Snapshot):
                        owed.pop((observer, notice.group), None)
                    if isinstance(notice, Snapshot | Changed):
                        # What a watcher missed shows in the numbers: it gets no `Gap` of its own.
                        expected = numbers.get((observer, notice.group)) == (
                            notice.number - isinstance(notice, Changed)
                        )
                        if not expected:
                            gapped.add((observer, notice.group))
                        numbers[observer, notice.group] = notice.number
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
                            raise Broken(f"{observer} got no snapshot of {group} after its Gap", gap)
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
                                raise Broken(
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
        return "" if compared else "nothing changed in calm weather while a program followed"

    return verdict_of("watch-complete", check)


def both_sides_told(history: Iterable[AnyRecord], *, bound_s: float) -> CheckVerdict:
    """C-060..C-064: an observer that loses sight of members is notified within `bound_s`, by domain and
    not member by member, and once per failure."""

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
                    raise Broken(
                        f"{observer} was not told within {bound_s} s that it lost {source} in {group}", cut
                    )
            match record:
                case NoticeRecord(
                    endpoint=observer,
                    notice=Only(domain=domain, because=why) | Without(domain=domain, because=why),
                ):
                    filters[observer, domain, why.accuser, why.accused] += 1
                    if filters[observer, domain, why.accuser, why.accused] > downs[why.accuser, why.accused]:
                        raise Broken(f"{observer} was told twice of one failure of {why.accused}", record)
                case NoticeRecord(endpoint=observer, notice=Left(group=group, endpoint=source)):
                    if (observer, group, source) in due and (source, group) not in left:
                        raise Broken(f"{observer} was told of {source} alone, not of its domain", record)
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
            return "the history ends before all must have been notified"
        return "" if kept else "no host lost sight of another for long enough"

    return verdict_of("both-sides-told", check)


def heals_alone(history: Iterable[AnyRecord], *, bound_s: float) -> CheckVerdict:
    """C-035, C-060: once what failed works again, and nothing else fails, a follower gets a notice
    of every member that it can see again within `bound_s`."""

    def check() -> str:
        twin: Twin | None = None
        reports = _Reports()
        due: dict[tuple[Endpoint, Group, Endpoint], tuple[float, AnyRecord]] = {}
        healed = 0
        for record in history:
            for (observer, group, source), (by, repair) in due.items():
                if record.at > by:
                    raise Broken(
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
            return "the history ends before all must have been seen again"
        return "" if healed else "nobody came back into sight"

    return verdict_of("heals-alone", check)


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
    """Record the change that a notice reports, also if it was reported before: once means once."""
    match notice:
        case Joined(members=members, cause=Cause.JOIN) | Changed(members=members, cause=Cause.JOIN):
            for member in members:
                heard.setdefault(member.endpoint, []).append("joined")
        case Changed(left=left, cause=Cause.LEAVE | Cause.CRASH):
            for endpoint in left:
                heard.setdefault(endpoint, []).append("left")
        case Left(endpoint=endpoint):
            heard.setdefault(endpoint, []).append("left")
        case _:
            for endpoint in sorted(after - before):
                heard.setdefault(endpoint, []).append("joined")
            for endpoint in sorted(before - after):
                heard.setdefault(endpoint, []).append("left")


def _steps(changes: list[str]) -> str:
    return ", ".join(changes) or "nothing"
