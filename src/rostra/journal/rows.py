"""From what a node sees and decides to what its journal says.

    node.step(now, event) -> outputs ──▶ Scribe.saw(event, outputs) ──▶ entries ──▶ rows

A **scribe** stands beside one node and is shown every event that enters it and every order that leaves it. It
changes neither. It writes **entries**: what happened once, in one piece; an entry that concerns several
members becomes several rows (`segments.py` lays them out in columns).

What happens too often for a row each, messages on links, is counted, and written with the next heartbeat. The
heartbeat comes when the node is shown something after it is due; a node ticks all the time, so it is never
late by more than a tick, unless the node itself stood still.

The scribe knows no clock: whoever shows it something says before what time it is.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final, Literal

from msgspec import Struct, json

from rostra.journal.fold import JOINED, LEFT, SNAPSHOT, UNFOLLOWED, UNKNOWN, Line, Sight
from rostra.names import Domain, Endpoint, Group, depth, parent
from rostra.protocols.adhoc import events as adhoc
from rostra.protocols.adhoc.events import Aggregated, Deliver, Delivered, JoinAsked, LeaveAsked
from rostra.protocols.adhoc.messages import Data as Speech
from rostra.protocols.adhoc.messages import Nak, Numbered, Run
from rostra.protocols.adhoc.messages import Role as Speaks
from rostra.protocols.adhoc.voice import is_aggregate
from rostra.protocols.detect.programs import ProgramEvidence
from rostra.protocols.effects import (
    Answer,
    Asked,
    Because,
    EndpointGone,
    Event,
    LinkDown,
    LinkUp,
    Tell,
)
from rostra.protocols.links.events import (
    ChannelClosed,
    Evidence,
    PacketArrived,
    Removed,
    Suspected,
    Transmit,
    Trusted,
)
from rostra.protocols.links.packets import Data
from rostra.protocols.resolve.messages import Cause, DomainFailed, EndpointsJoined, Member
from rostra.protocols.resolve.requests import (
    Absolute,
    Changed,
    Close,
    Denied,
    Done,
    Gap,
    Join,
    Joined,
    Leave,
    Left,
    Only,
    Opened,
    Resolve,
    Resolved,
    SetOnline,
    Snapshot,
    Unwatch,
    Watch,
    Without,
)

Role = Literal["agent", "server", "lab", "sim"]

OBSERVERS_MAX: Final = 16
"""Endpoints that one row names; it counts all of them. Raising it: larger rows on hosts where thousands
follow one group."""

QUESTIONS_MAX: Final = 1024
"""Ranges of one stream that were asked for and are waited for. Of more, the oldest are not journalled."""

QUESTION_S: Final = 120.0
"""For how long. What comes later than this counts as asked for anew."""

ORIGIN_S: Final = 600.0
"""After so long a silence the stream of one who speaks through an aggregate is taken to have ended."""

AGAIN: Final = "again"
"""In the place of a message's kind: sent or received a second time, because the first was lost or late."""

FRAME: Final = "frame"
"""In the place of a message's kind: all bytes of all messages, as they left or came over the connection."""


class Identity(Struct, frozen=True):
    """Who writes."""

    world: str
    writer: str
    role: Role
    epoch: int


class Entry(Struct, gc=False):
    """Something that happened, as the columns of its rows; those that follow from who writes are left out.

    With `lines` it is a row for each of them, and one more if some were `kept`; member, life, stamp, change,
    news, cause and count of each row are then said there.
    """

    kind: str
    at: int  # microseconds since 1970, UTC
    virtual_s: float | None = None
    lines: list[Line] | None = None
    kept: int = 0
    columns: dict[str, Any] = {}  # by name, those that have a value

    @property
    def rows(self) -> int:
        return 1 if self.lines is None else max(1, len(self.lines) + (self.kept > 0))


class _Presence:
    """What one open endpoint takes part in, as far as it was granted."""

    __slots__ = ("groups", "spoken", "watched")

    def __init__(self) -> None:
        self.groups: dict[Group, bool] = {}  # and is it online there?
        self.spoken: set[Group] = set()  # those in which it hears messages too
        self.watched: set[Group] = set()

    def follows(self, group: Group) -> bool:
        return self.groups.get(group, False) or group in self.watched


class _Handed:
    """Messages of one stream that were handed to one receiver since the last heartbeat."""

    __slots__ = ("bytes", "end", "first", "late_us")

    def __init__(self, run: Run, late_us: int | None) -> None:
        self.first, self.end, self.bytes = run.first, run.end, len(run.block)
        self.late_us = late_us  # more than the stream's quickest; nobody knows where a sender says no time

    def goes_on(self, run: Run, late_us: int | None) -> None:
        self.end = run.end
        self.bytes += len(run.block)
        if late_us is not None and (self.late_us is None or late_us > self.late_us):
            self.late_us = late_us


class _Question(Struct, gc=False):
    """Numbers of a stream that this node asked for and that have not come."""

    first: int
    last: int
    since: float
    asked: int


class _Repaired(Struct, gc=False):
    """A run that came by repair, and goes on while its neighbours do."""

    first: int
    end: int
    asked: int
    waited_us: int | None


class _LinkSide:
    """What the scribe remembers of one neighbour."""

    __slots__ = ("broken_at", "evidence", "level", "life", "received", "sent", "up")

    def __init__(self, level: int) -> None:
        self.level = level
        self.up = False
        self.life: int | None = None
        self.evidence: Evidence | None = None
        self.broken_at: float | None = None
        self.sent = (0, 0)  # session, and the last number
        self.received = (0, 0)


class Scribe:
    """Writes down what one node sees.

    `now` counts seconds and only grows; `at` is what the wall clock shows. In a simulated world `now` is
    written as well.
    """

    def __init__(
        self,
        me: Domain,
        role: Role,
        epoch: int,
        put: Callable[[Entry], None],
        *,
        heartbeat_s: float,
        virtual: bool = False,
    ) -> None:
        self.sight = Sight()
        self._me = me
        self._above = parent(me) if role == "agent" else me
        self._role = role
        self._epoch = epoch
        self._put = put
        self._heartbeat_s = heartbeat_s
        self._virtual = virtual
        self._due = 0.0
        self._now = 0.0
        self._at = 0
        self._counter = 0  # of the agent's own joins and leaves
        self._asked: dict[int, tuple[float, Asked]] = {}
        self._runs: dict[tuple[Group, Endpoint, Endpoint], _Handed] = {}
        self._streams: dict[tuple[Group, Endpoint, Endpoint], int] = {}  # the last number of each
        self._quickest: dict[tuple[Group, Endpoint, Endpoint], int] = {}  # of each, in microseconds
        self._resumed_at = -1.0
        self._origins: dict[tuple[Group, Endpoint, Endpoint], float] = {}  # heard by an aggregate: when
        self._questions: dict[tuple[Group, Endpoint], list[_Question]] = {}
        self._repaired: dict[tuple[Group, Endpoint, Domain], list[_Repaired]] = {}
        self._unanswered: dict[Endpoint, set[int]] = {}  # tokens of those that waited beyond their step
        self._presences: dict[Endpoint, _Presence] = {}
        self._crowd: tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]] = ((), ())
        self._watchers: dict[Endpoint, dict[Group, None]] = {}
        self._sides: dict[Domain, _LinkSide] = {}
        self._traffic: Counter[tuple[str, Domain, str]] = Counter()
        self._bytes: Counter[tuple[str, Domain, str]] = Counter()
        self._take: dict[type, Callable[[Any, Sequence[Any]], None]] = {
            PacketArrived: self._arrived,
            Asked: self._was_asked,
            EndpointGone: self._gone,
            JoinAsked: self._join_asked,
            LeaveAsked: self._leave_asked,
            adhoc.Heard: self._overheard,
            adhoc.Resumed: self._resumed,
            ChannelClosed: self._channel_closed,
        }
        self._do: dict[type, Callable[[Any], None]] = {
            Tell: self.told,
            Answer: self._answered,
            Deliver: self._delivered,
            adhoc.Cast: self._cast,
            adhoc.Transmit: self._spoke,
            Transmit: self._transmitted,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Suspected: self._suspected,
            Trusted: self._trusted,
            Removed: self._removed,
        }

    # Marks

    def started(self, detail: dict[str, Any]) -> None:
        self._due = self._now + self._heartbeat_s
        self._write("started", detail=json.encode(detail, enc_hook=str).decode())

    def turn(self, at: int, now: float) -> None:
        """It is later now; everything until the next turn happens at this time."""
        self._at, self._now = at, now

    def closing(self, why: str) -> None:
        self._write_traffic()
        self._write("closing", what=why)

    # What the node was shown and ordered

    def saw(self, event: Event | None, outputs: Sequence[Any]) -> None:
        """One step of the node; without an event, a flush or an end."""
        if self._now >= self._due:
            self._due = self._now + self._heartbeat_s
            self._write_traffic()
            self._write("heartbeat")
        if event is not None and (take := self._take.get(type(event))) is not None:
            take(event, outputs)
        do = self._do
        for output in outputs:
            if (write := do.get(type(output))) is not None:
                write(output)

    # Programs: what they asked for and were granted

    def _was_asked(self, asked: Asked, outputs: Sequence[Any]) -> None:
        """What happened comes before what was said about it, so a grant is looked for at once."""
        result = _answer_to(asked.token, outputs)
        me, request = asked.endpoint, asked.request
        self._asked[asked.token] = (self._now, asked)
        if result is None:
            self._unanswered.setdefault(me, set()).add(asked.token)
        if type(result) is Done:
            match request:
                case Join(group):
                    self._counter += 1
                    self._presence(me).groups[group] = False
                    self._write_member("member-joined", me, group)
                case Leave(group):
                    self._left_group(me, group, Cause.LEAVE)
                case Close():
                    self._ended(me, Cause.LEAVE, "")

    def _answered(self, answer: Answer) -> None:
        since, asked = self._asked.pop(answer.token, (0.0, None))
        if asked is None:
            return
        me, request, result = asked.endpoint, asked.request, answer.result
        if (tokens := self._unanswered.get(me)) is not None:
            tokens.discard(answer.token)
            if not tokens:
                del self._unanswered[me]
        match request, result:
            case _, Denied(code):
                group = getattr(request, "group", None)
                if type(request) is Resolve and request.scope is not None:
                    group = Group(request.name, request.scope)
                self._write(
                    "refused",
                    member=me or None,
                    group=None if group is None else str(group),
                    what=code,
                    message=type(request).__name__,
                )
            case _, Opened(endpoint):
                self._presences[endpoint] = _Presence()
                self._write("opened", member=endpoint, life=self._epoch)
            case Resolve(), Absolute(group, members, isolated):
                self._resolved(me, group, len(members), since, isolated)
            case Resolve(name), Resolved(parts, isolated):
                for scope, members in parts:
                    self._resolved(me, Group(name, scope), len(members), since, isolated)
            case (Join(group, online), Done()) | (SetOnline(group, online), Done()):
                if group in self._presence(me).groups:
                    self._presence(me).groups[group] = online
                    self._refollow(me, group)
            case Watch(group), Done():
                self._presence(me).watched.add(group)
                self._refollow(me, group)
            case (Unwatch(group), Done()):
                self._presence(me).watched.discard(group)
                self._refollow(me, group)
            case Leave(group), Done():
                self._refollow(me, group)

    def _resolved(self, me: Endpoint, group: Group, count: int, since: float, isolated: bool) -> None:
        here = isolated or group.scope == self._me
        self._write(
            "resolved",
            group=str(group),
            observers=(me,),
            told=1,
            latency_us=_micros(self._now - since),
            answered_by="agent" if here else self._above,
            count=count,
        )

    def _gone(self, event: EndpointGone, outputs: Sequence[Any]) -> None:
        self._ended(event.endpoint, Cause.CRASH, event.why)

    def _ended(self, me: Endpoint, cause: Cause, why: str) -> None:
        """An endpoint is gone, and with it everything that it was in and followed."""
        presence = self._presences.pop(me, None)
        if presence is None:
            return
        followed = sorted({*presence.groups, *presence.watched})
        # A close leaves first where messages are heard; in a crash all are left together.
        first = presence.spoken if cause is Cause.LEAVE else set()
        for group in (*sorted(first), *sorted(presence.groups.keys() - first)):
            self._counter += 1
            self._write_member("member-left", me, group, cause.value)
        for group in sorted(presence.spoken):
            self._hears_no_more(me, group)
        for group in followed:
            self._stop(me, group)
        self._write("closed", member=me, cause=cause.value, what=why or None)
        if cause is Cause.CRASH:
            for token in self._unanswered.pop(me, ()):
                del self._asked[token]  # nobody is there to be answered

    def _left_group(self, me: Endpoint, group: Group, cause: Cause) -> None:
        self._counter += 1
        self._presence(me).groups.pop(group, None)
        self._write_member("member-left", me, group, cause.value)

    def _refollow(self, me: Endpoint, group: Group) -> None:
        if not self._presence(me).follows(group):
            self._stop(me, group)
        elif self.sight.follow(me, group):
            self._write("followed", group=str(group), observers=(me,), told=1)

    def _stop(self, me: Endpoint, group: Group) -> None:
        lost = self.sight.unfollow(me, group)
        if lost is not None:
            self._write("unfollowed", lost, group=str(group), observers=(me,), told=1, cause=UNFOLLOWED)

    def _named(self, observers: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """The first of them. Many notices go to one and the same crowd, and then share the list."""
        if len(observers) <= OBSERVERS_MAX:
            return observers
        if self._crowd[0] is not observers:
            self._crowd = (observers, observers[:OBSERVERS_MAX])
        return self._crowd[1]

    def _presence(self, me: Endpoint) -> _Presence:
        return self._presences.setdefault(me, _Presence())

    def _write_member(self, kind: str, me: Endpoint, group: Group, cause: str | None = None) -> None:
        self._write(kind, group=str(group), member=me, life=self._epoch, stamp=self._counter, cause=cause)

    # Groups with messages in them

    def _join_asked(self, event: JoinAsked, outputs: Sequence[Any]) -> None:
        result = _answer_to(event.token, outputs)
        me, group = event.endpoint, event.group
        if type(result) is Done and event.role is Speaks.SUBMIT:
            return  # it speaks, and is in no view
        if type(result) is Done:
            self._counter += 1
            presence = self._presence(me)
            presence.groups[group] = True
            presence.spoken.add(group)
            self._write_member("member-joined", me, group)
            self._refollow(me, group)
        elif type(result) is Denied:
            self._write("refused", member=me, group=str(group), what=result.code, message="Join")

    def _leave_asked(self, event: LeaveAsked, outputs: Sequence[Any]) -> None:
        if type(_answer_to(event.token, outputs)) is Done:
            self._left_speaking(event.endpoint, event.group, Cause.LEAVE.value)

    def _left_speaking(self, me: Endpoint, group: Group, cause: str) -> None:
        presence = self._presence(me)
        if group in presence.spoken:
            self._counter += 1
            del presence.groups[group]
            presence.spoken.remove(group)
            self._write_member("member-left", me, group, cause)
            self._hears_no_more(me, group)
            self._refollow(me, group)

    def _hears_no_more(self, me: Endpoint, group: Group) -> None:
        for key in [key for key in self._streams if key[0] == group and key[2] == me]:
            self._stream_ended(me, group, key[1], self._streams[key], "the receiver left")

    def _delivered(self, deliver: Deliver) -> None:
        me, group, item = deliver.endpoint, deliver.group, deliver.item
        kind = type(item)
        if kind is Delivered:
            self._heard(me, group, item.stream, item.run)  # type: ignore[attr-defined]
            return
        match item:
            case Aggregated(origin, run):
                self._origins[group, origin, me] = self._now
                self._heard(me, group, origin, run)
            case adhoc.Ready(members):
                listed = [Member(who, UNKNOWN) for who, _, _ in members if not is_aggregate(who)]
                self._item(me, group, Absolute(group, tuple(listed)))
            case adhoc.Joined(endpoint) | adhoc.Left(endpoint) if is_aggregate(endpoint):
                pass  # no program's: it speaks for others, and what they say is told by their names
            case adhoc.Joined(endpoint):
                self._item(me, group, Joined(group, (Member(endpoint, UNKNOWN),), Cause.JOIN))
            case adhoc.Left(endpoint, why, last):
                cause = Cause.LEAVE if why == "left" else Cause.CRASH
                self._item(me, group, Left(group, endpoint, UNKNOWN, cause))
                self._stream_ended(me, group, endpoint, last, why)
            case adhoc.Without(domain, because) | adhoc.Only(domain, because):
                told = Without if isinstance(item, adhoc.Without) else Only
                self._item(me, group, told(domain, because or _UNSAID))
            case adhoc.Gap(endpoint, first, last):
                self._stream("stream-gap", me, group, endpoint, first=first, last=last)
            case adhoc.Excluded(reason):
                self._left_speaking(me, group, reason)

    def _item(self, me: Endpoint, group: Group, notice: Any) -> None:
        for told in self.sight.take_in(group, me, notice):
            self._notice(notice, *told)

    def _heard(self, me: Endpoint, group: Group, sender: Endpoint, run: Run) -> None:
        """Runs that follow on each other are one, until the next heartbeat."""
        key = (group, sender, me)
        late_us = self._lateness(key, run)
        known = self._runs.get(key)
        if known is None:
            if key not in self._streams:
                self._stream("stream-started", me, group, sender, first=run.first)
            self._runs[key] = _Handed(run, late_us)
        elif known.end == run.first:
            known.goes_on(run, late_us)
        else:  # out of order or with a hole: said as it came
            self._write_runs(key)
            self._runs[key] = _Handed(run, late_us)
        self._streams[key] = run.end - 1

    def _lateness(self, key: tuple[Group, Endpoint, Endpoint], run: Run) -> int | None:
        """How much longer this run was on its way than the quickest of its stream. Two clocks are compared,
        but only with themselves, so that they need not agree. What waited for its own program is not late."""
        if not run.at or self._now == self._resumed_at:
            return None
        took = self._at - round(run.at * 1e6)
        quickest = self._quickest.get(key)
        if quickest is None or took < quickest:
            self._quickest[key] = took
            return 0
        return took - quickest

    def _resumed(self, event: adhoc.Resumed, outputs: Sequence[Any]) -> None:
        self._resumed_at = self._now

    def _stream_ended(self, me: Endpoint, group: Group, sender: Endpoint, last: int | None, why: str) -> None:
        key = (group, sender, me)
        if self._streams.pop(key, None) is not None:
            self._quickest.pop(key, None)
            self._origins.pop(key, None)
            self._write_runs(key)
            self._stream("stream-ended", me, group, sender, last=last, cause=why)

    def _stream(self, kind: str, me: Endpoint, group: Group, sender: Endpoint, **columns: Any) -> None:
        self._write(kind, group=str(group), member=sender, observers=(me,), told=1, **columns)

    def _write_runs(self, only: tuple[Group, Endpoint, Endpoint] | None = None) -> None:
        """Deliveries since the last heartbeat; those that are the same for several receivers once for all.
        What was repaired is said before what it made late."""
        self._write_recovered()
        runs = self._runs if only is None else {key: self._runs[key] for key in [only] if key in self._runs}
        shared: dict[tuple[Group, Endpoint, int, int, int], list[tuple[Endpoint, int | None]]] = {}
        for (group, sender, me), run in runs.items():
            same = shared.setdefault((group, sender, run.first, run.end, run.bytes), [])
            same.append((me, run.late_us))
        for (group, sender, first, end, size), receivers in sorted(shared.items()):
            late = [late_us for _, late_us in receivers if late_us is not None]
            self._write(
                "delivered",
                group=str(group),
                member=sender,
                first=first,
                last=end - 1,
                count=end - first,
                bytes=size,
                latency_us=max(late, default=None),
                observers=tuple(sorted(me for me, _ in receivers)[:OBSERVERS_MAX]),
                told=len(receivers),
            )
        for key in list(runs):
            del self._runs[key]

    # What was lost and came again

    def _asks_for(self, group: Group, nak: Nak) -> None:
        """Our own question; what is asked for again has waited since the first time."""
        before = self._questions.get((group, nak.stream), [])
        questions = []
        for first, last in nak.ranges:
            same = [each for each in before if each.first <= last and first <= each.last]
            since = min((each.since for each in same), default=self._now)
            asked = 1 + max((each.asked for each in same), default=0)
            questions.append(_Question(first, last, since, asked))
        others = [
            each
            for each in before
            if not any(low <= each.last and each.first <= high for low, high in nak.ranges)
        ]
        self._questions[group, nak.stream] = [*others, *questions][-QUESTIONS_MAX:]

    def _came_again(self, event: adhoc.Heard, data: Speech, outputs: Sequence[Any]) -> None:
        """A repair is news if we asked for it, or if our programs are handed what it brings."""
        key, run = (event.group, data.stream), data.run
        questions = self._questions.get(key, [])
        due = [each for each in questions if each.first < run.end and run.first <= each.last]
        if due:
            kept = [each for each in questions if each not in due]
            for each in due:
                first, end = max(run.first, each.first), min(run.end, each.last + 1)
                waited_us = _micros(self._now - each.since)
                self._recovered((*key, event.source), _Repaired(first, end, each.asked, waited_us))
                if each.first < first:
                    kept.append(_Question(each.first, first - 1, each.since, each.asked))
                if end <= each.last:
                    kept.append(_Question(end, each.last, each.since, each.asked))
            self._questions[key] = kept
            if not kept:
                del self._questions[key]
        elif any(
            type(each) is Deliver
            and type(each.item) is Delivered
            and each.item.stream == data.stream
            and each.item.run.first < run.end
            and run.first < each.item.run.end
            for each in outputs
        ):
            self._recovered((*key, event.source), _Repaired(run.first, run.end, 0, None))

    def _recovered(self, key: tuple[Group, Endpoint, Domain], run: _Repaired) -> None:
        """Neighbours that came from one place are one row, until the next heartbeat."""
        runs = self._repaired.setdefault(key, [])
        if runs and runs[-1].end == run.first:
            before = runs[-1]
            before.end = run.end
            before.asked = max(before.asked, run.asked)
            if run.waited_us is not None:
                before.waited_us = max(run.waited_us, before.waited_us or 0)
        else:
            runs.append(run)

    def _forget_origins(self) -> None:
        """Who speaks through an aggregate comes and goes unnoticed; after a silence it is taken to have
        ended."""
        old = self._now - ORIGIN_S
        for (group, origin, me), heard in list(self._origins.items()):
            if heard < old:
                self._stream_ended(me, group, origin, self._streams.get((group, origin, me)), "silent")

    def _forget_questions(self) -> None:
        """Of streams that ended, or that nobody answers for."""
        old = self._now - QUESTION_S
        for key, questions in list(self._questions.items()):
            if all(each.since < old for each in questions):
                del self._questions[key]

    def _write_recovered(self) -> None:
        for (group, stream, source), runs in self._repaired.items():
            for run in runs:
                self._write(
                    "recovered",
                    group=str(group),
                    member=stream,
                    first=run.first,
                    last=run.end - 1,
                    count=run.end - run.first,
                    number=run.asked,
                    answered_by=source,
                    latency_us=run.waited_us,
                )
        self._repaired.clear()

    # What was told

    def told(self, tell: Tell) -> None:
        notice = tell.notice
        if type(notice) in _NOTICES:
            for told in self.sight.take(tell.endpoints, notice):
                self._notice(notice, *told)
            return
        match notice:
            case Snapshot(group, members, period, number):
                self._write(
                    "snapshot",
                    group=str(group),
                    observers=self._named(tell.endpoints),
                    told=len(tell.endpoints),
                    count=len(members),
                    period=period,
                    number=number,
                )
            case Changed():
                self._changed(tell.endpoints, notice)
            case Gap(missed, groups):
                for endpoint in tell.endpoints:
                    self.gap(endpoint, missed, groups)

    def _notice(
        self, notice: Any, group: Group, observers: tuple[Endpoint, ...], lines: list[Line], kept: int
    ) -> None:
        self._write(
            _NOTICES[type(notice)],
            lines,
            kept,
            group=str(group),
            observers=self._named(observers),
            told=len(observers),
            **_grounds(notice),
        )

    def _changed(self, observers: tuple[Endpoint, ...], change: Changed) -> None:
        who = [member.endpoint for member in change.members] or change.left
        by = change.by
        self._write(
            "changed",
            group=str(change.group),
            member=who[0] if len(who) == 1 else None,
            change=JOINED if change.members else LEFT,
            observers=self._named(observers),
            told=len(observers),
            count=len(who),
            number=change.number,
            cause=None if change.cause is None else change.cause.value,
            domain=None if by is None else by.domain,
            inside=None if by is None else type(by) is Only,
        )

    def gap(self, observer: Endpoint, missed: int, groups: Iterable[Group]) -> None:
        """It read too slowly: of these groups it missed something, so many notices in all."""
        for group in groups:
            self._write("gap", group=str(group), observers=(observer,), told=1, count=missed)

    # Watchers: an agent follows a group once, for all on its host who watch it

    def watched(self, watcher: Endpoint, group: Group) -> None:
        groups = self._watchers.setdefault(watcher, {})
        if group not in groups:
            groups[group] = None
            self._write("followed", group=str(group), observers=(watcher,), told=1, cause="watch")

    def unwatched(self, watcher: Endpoint, group: Group | None = None) -> None:
        """It watches this group no longer, or none any more."""
        groups = self._watchers.get(watcher, {})
        for each in list(groups) if group is None else [group]:
            del groups[each]
            self._write("unfollowed", group=str(each), observers=(watcher,), told=1, cause="watch")
        if not groups:
            self._watchers.pop(watcher, None)

    # Links

    def _side(self, peer: Domain) -> _LinkSide:
        side = self._sides.get(peer)
        if side is None:
            side = self._sides[peer] = _LinkSide(min(depth(self._me), depth(peer)))
        return side

    def _arrived(self, event: PacketArrived, outputs: Sequence[Any]) -> None:
        peer, packet = event.peer, event.packet
        side = self._side(peer)
        if side.broken_at is not None and side.up:
            self._write("link-resumed", peer=peer, latency_us=_micros(self._now - side.broken_at))
            side.broken_at = None
        if type(packet) is Data:
            place = (packet.mine, packet.number)
            if place > side.received:
                side.received = place
                self._count("received", peer, packet.messages)
            else:
                self._traffic["received", peer, AGAIN] += len(packet.messages)
        else:
            self._traffic["received", peer, type(packet).__name__] += 1

    def _transmitted(self, order: Transmit) -> None:
        peer, packet = order.to, order.packet
        if type(packet) is not Data:
            self._traffic["sent", peer, type(packet).__name__] += 1
            return
        side = self._side(peer)
        place = (packet.mine, packet.number)
        if place > side.sent:
            side.sent = place
            self._count("sent", peer, packet.messages)
            if self._role == "server":
                self._passed_on(peer, packet.messages)
        else:
            self._traffic["sent", peer, AGAIN] += len(packet.messages)

    def _count(self, way: str, peer: Domain, messages: Iterable[Any]) -> None:
        traffic = self._traffic
        for message in messages:
            traffic[way, peer, type(message).__name__] += 1

    def _cast(self, cast: adhoc.Cast) -> None:
        """To everybody in our LAN, which its server stands for."""
        if type(cast.message) is Nak:
            self._asks_for(cast.group, cast.message)
        self._traffic["sent", self._above, _datagram(type(cast.message))] += 1

    def _spoke(self, order: adhoc.Transmit) -> None:
        if type(order.message) is Nak:
            self._asks_for(order.group, order.message)
        self._traffic["sent", order.to, _datagram(type(order.message))] += 1

    def _overheard(self, event: adhoc.Heard, outputs: Sequence[Any]) -> None:
        for message in event.messages:
            self._traffic["received", event.source, _datagram(type(message))] += 1
            data = message.data if type(message) is Numbered else message
            if type(data) is Speech and data.repair:
                self._came_again(event, data, outputs)

    def framed(self, way: Literal["sent", "received"], peer: Domain, frames: int, size: int) -> None:
        """Bytes that left or came, for whoever has them as bytes."""
        self._traffic[way, peer, FRAME] += frames
        self._bytes[way, peer, FRAME] += size

    def _passed_on(self, peer: Domain, messages: Iterable[Any]) -> None:
        """What a server says of whole parts of the world: once for each failure, however many groups."""
        returned: dict[tuple[Domain, bool], int] = {}
        for message in messages:
            match message:
                case DomainFailed(_, groups, domain, keep, because):
                    self._write(
                        "domain-failed",
                        domain=domain,
                        inside=keep,
                        peer=peer,
                        count=len(groups),
                        **_because(because),
                    )
                case EndpointsJoined(cause=Cause.MERGE, complete_for=part) if part is not None:
                    place = (part.domain, part.within)
                    returned[place] = returned.get(place, 0) + 1
        for (domain, within), count in returned.items():
            self._write("domain-returned", domain=domain, inside=within, peer=peer, count=count)

    def _link_up(self, report: LinkUp) -> None:
        side = self._side(report.peer)
        met, side.life = side.life, report.incarnation
        cause = (
            "first contact"
            if met is None
            else "new incarnation"
            if met < report.incarnation
            else "heard again"
        )
        side.up, side.evidence, side.broken_at = True, None, None
        self._write("link-up", peer=report.peer, life=report.incarnation, cause=cause)

    def _link_down(self, report: LinkDown) -> None:
        side = self._side(report.peer)
        side.up, side.broken_at = False, None
        evidence, side.evidence = side.evidence, None
        known = {} if evidence is None else _evidence(evidence)
        self._write("link-down", peer=report.peer, **{**known, **_because(report.because)})

    def _suspected(self, report: Suspected) -> None:
        self._write("link-suspected", peer=report.peer, what="overdue", **_evidence(report.evidence))

    def _trusted(self, report: Trusted) -> None:
        self._write("link-trusted", peer=report.peer, latency_us=_micros(report.after_s))

    def _removed(self, report: Removed) -> None:
        self._side(report.because.accused).evidence = report.evidence

    def _channel_closed(self, event: ChannelClosed, outputs: Sequence[Any]) -> None:
        side = self._side(event.peer)
        if side.up and side.broken_at is None:
            side.broken_at = self._now
            self._write("link-broken", peer=event.peer, what=event.why)

    # Programs that stall

    def program_suspected(self, endpoints: Iterable[Endpoint], evidence: ProgramEvidence) -> None:
        for endpoint in endpoints:
            self._write(
                "program-suspected",
                member=endpoint,
                silence_s=evidence.unanswered_s,
                limit_s=evidence.down_after_s,
            )

    def program_trusted(self, endpoints: Iterable[Endpoint], after_s: float) -> None:
        for endpoint in endpoints:
            self._write("program-trusted", member=endpoint, latency_us=_micros(after_s))

    # Small words

    def _write_traffic(self) -> None:
        self._write_runs()
        self._forget_questions()
        self._forget_origins()
        for (way, peer, message), count in sorted(self._traffic.items()):
            self._write(
                way,
                peer=peer,
                level=self._side(peer).level,
                message=message,
                count=count,
                bytes=self._bytes.get((way, peer, message)),
            )
        self._traffic.clear()
        self._bytes.clear()

    def _write(self, kind: str, lines: list[Line] | None = None, kept: int = 0, **columns: Any) -> None:
        virtual_s = self._now if self._virtual else None
        self._put(Entry(kind, self._at, virtual_s, lines, kept, columns))


class Truth:
    """What only an all-seeing observer knows, or whoever does it on purpose: a simulator, a lab."""

    def __init__(self, put: Callable[[Entry], None], *, virtual: bool = False) -> None:
        self._put = put
        self._virtual = virtual

    def started(self, at: int, now: float, detail: dict[str, Any]) -> None:
        self.write(at, now, "started", detail=json.encode(detail, enc_hook=str).decode())

    def server_changed(self, at: int, now: float, server: Domain, change: str) -> None:
        self.write(at, now, "server-changed", peer=server, change=change)

    def line_changed(self, at: int, now: float, sender: Domain, to: Domain, change: str) -> None:
        self.write(at, now, "line-changed", accuser=sender, peer=to, change=change)

    def settled(self, at: int, now: float) -> None:
        self.write(at, now, "settled")

    def closing(self, at: int, now: float, why: str) -> None:
        self.write(at, now, "closing", what=why)

    def write(self, at: int, now: float, kind: str, **columns: Any) -> None:
        self._put(Entry(kind, at, now if self._virtual else None, columns=columns))


_UNSAID: Final = Because(Domain(""), Domain(""), "")


@cache
def _datagram(kind: type) -> str:
    """What groups say to each other beside the links."""
    return f"{kind.__name__} datagram"


def _answer_to(token: int, outputs: Sequence[Any]) -> Any:
    return next((o.result for o in outputs if type(o) is Answer and o.token == token), None)


_NOTICES: Final[dict[Any, str]] = {
    Absolute: "absolute",
    Joined: "joined",
    Left: "left",
    Only: "only",
    Without: "without",
}


def _grounds(notice: Any) -> dict[str, Any]:
    """What a notice says beside its members."""
    kind = type(notice)
    if kind is Absolute:
        return {"cause": SNAPSHOT}
    if kind is Joined:
        part = notice.complete_for
        where = {} if part is None else {"domain": part.domain, "inside": part.within}
        return {"cause": notice.cause.value, **where}
    if kind is Left:
        return {}
    return {"domain": notice.domain, **_because(notice.because)}


def _because(because: Because) -> dict[str, Any]:
    return {
        "accuser": because.accuser or None,
        "accused": because.accused or None,
        "what": because.what or None,
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "accuser": evidence.accuser,
        "accused": evidence.accused,
        "silence_s": evidence.silence_s,
        "expected_s": evidence.expected_s,
        "phi": evidence.phi,
        "threshold": evidence.phi_threshold,
        "limit_s": evidence.down_after_s,
        "own_lateness_s": evidence.own_lateness_s,
        "channel_open": evidence.channel_open,
    }


def _micros(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
