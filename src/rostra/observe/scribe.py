"""The journal's observer: turns the steps of a node into rows of its journal.

    event, effects ──▶ Scribe.saw ──▶ entries ──▶ rows (`rostra.journal`)

A **scribe** observes one node and writes **entries**: what happened once, in one piece. An entry that
concerns several members becomes several rows.

What happens too often for a row each, on links (`link_rows.py`) and in groups with messages
(`stream_rows.py`), is counted and written with the next heartbeat. A heartbeat is written at the first step
after it is due. A node ticks all the time, so it is late by a tick at most, unless the node itself stood
still.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import json

from rostra.core.effects import (
    Answer,
    Asked,
    EndpointGone,
    Event,
    Ignored,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Tell,
)
from rostra.core.observer import BESIDE, FramesWritten, Lifecycle, NodeDropped, Seen
from rostra.groups.attributes import Role as Speaks
from rostra.groups.members import Because, Cause, Member
from rostra.journal.entries import OBSERVERS_MAX, Entry, Role, Sheet, micros
from rostra.journal.fold import JOINED, LEFT, SNAPSHOT, UNFOLLOWED, UNKNOWN, ViewFold, ViewLine
from rostra.names import Domain, Endpoint, Group, parent
from rostra.observe.access_rows import access_rows
from rostra.observe.led_rows import LedRows
from rostra.observe.link_rows import LinkRows, because_of
from rostra.observe.order_rows import OrderRows
from rostra.observe.stream_rows import StreamCounts
from rostra.observe.view_rows import ViewRows
from rostra.protocols.access.events import MemberListed, MemberUnlisted
from rostra.protocols.agreed.events import AgreedJoinAsked
from rostra.protocols.agreed.observed import AgreedListed, AgreedUnlisted, SetIsolated, ViewAgreed
from rostra.protocols.agreed.requests import JoinAgreed, MemberBlocked, MemberView
from rostra.protocols.atomic.events import (
    FramesHeard,
    OrderFlushed,
    OrderJoinAsked,
    OrderLeft,
    OrderSubmitted,
    ViewPlaced,
)
from rostra.protocols.atomic.requests import OrderedRun
from rostra.protocols.fifo import events as fifo_events
from rostra.protocols.fifo.context import is_aggregate
from rostra.protocols.fifo.events import Aggregated, Deliver, DeliverAll, Delivered, JoinAsked, LeaveAsked
from rostra.protocols.flow.messages import Data as AnyDataMessage
from rostra.protocols.flow.messages import Nak, Numbered
from rostra.protocols.front.events import (
    EndpointsSuspected,
    EndpointsTrusted,
    NoticesMissed,
    WatchBegan,
    WatchEnded,
)
from rostra.protocols.led.observed import LedListed, LedMember, LedStanding
from rostra.protocols.links.events import (
    ChannelClosed,
    PacketArrived,
    Removed,
    Suspected,
    Transmit,
    Trusted,
)
from rostra.protocols.relaxed.requests import (
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
    PutOut,
    Resolve,
    Resolved,
    SetOnline,
    Snapshot,
    Unwatch,
    Watch,
    Without,
)


class _Presence:
    """What one open endpoint takes part in, as far as it was granted."""

    __slots__ = ("groups", "spoken", "watched")

    def __init__(self) -> None:
        self.groups: dict[Group, bool] = {}  # and is it online there?
        self.spoken: set[Group] = set()  # those in which it hears messages too
        self.watched: set[Group] = set()

    def follows(self, group: Group) -> bool:
        return self.groups.get(group, False) or group in self.watched


class Scribe:
    """Writes down what one node sees: programs and what they are told itself, the rest by `LinkRows` and
    `StreamCounts`. `put` is given every entry; `wall_us` is the time since 1970."""

    def __init__(
        self,
        me: Domain,
        role: Role,
        epoch: int,
        put: Callable[[Entry], None],
        *,
        wall_us: Callable[[], int],
        heartbeat_s: float,
        virtual: bool = False,
    ) -> None:
        self.sight = ViewFold()
        self._me = me
        self._above = parent(me) if role == "agent" else me
        self._closed = False
        self._epoch = epoch
        self._sheet = sheet = Sheet(put, virtual=virtual)
        self._wall_us = wall_us
        self._links = links = LinkRows(sheet, me, tells_parts=role == "server")
        self._spoken = StreamCounts(sheet)
        self._views = views = ViewRows(sheet, self._named)
        self._orders = orders = OrderRows(sheet, self._named)
        led = LedRows(sheet)
        self._heartbeat_s = heartbeat_s
        self._due = 0.0
        self._counter = 0  # of the agent's own joins and leaves
        self._asked: dict[int, tuple[float, Asked]] = {}
        self._unanswered: dict[Endpoint, set[int]] = {}  # tokens of those that waited beyond their step
        self._presences: dict[Endpoint, _Presence] = {}
        self._crowd: tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]] = ((), ())
        self._watchers: dict[Endpoint, dict[Group, None]] = {}
        self._take: dict[type, Callable[[Any, Sequence[Any]], None]] = {
            PacketArrived: lambda event, _: links.arrived(event),
            Asked: self._was_asked,
            EndpointGone: self._gone,
            JoinAsked: self._join_asked,
            AgreedJoinAsked: self._agreed_join_asked,
            OrderJoinAsked: self._agreed_join_asked,
            LeaveAsked: self._leave_asked,
            fifo_events.Heard: self._overheard,
            OrderSubmitted: self._submitted,
            FramesHeard: self._heard_frames,
            fifo_events.Resumed: lambda *_: self._spoken.resumed(),
            ChannelClosed: lambda event, _: links.channel_closed(event),
        }
        self._do: dict[type, Callable[[Any], None]] = {
            Tell: self._told,
            AgreedListed: self._listed,
            AgreedUnlisted: self._unlisted,
            **access_rows(sheet),
            MemberListed: self._proven,
            MemberUnlisted: self._unproven,
            ViewAgreed: views.agreed,
            SetIsolated: views.isolated,
            LedStanding: led.stands,
            LedMember: led.member,
            LedListed: led.lists,
            Answer: self._answered,
            Deliver: self._delivered,
            DeliverAll: self._delivered_to_all,
            ViewPlaced: orders.placed,
            OrderLeft: orders.left,
            OrderFlushed: orders.flushed,
            fifo_events.Cast: self._cast,
            fifo_events.Transmit: self._spoke,
            Transmit: links.transmitted,
            LinkUp: links.link_up,
            LinkDown: links.link_down,
            LinkMoved: links.link_moved,
            Suspected: links.suspected,
            Trusted: links.trusted,
            Removed: links.removed,
            FramesWritten: links.framed,
            NoticesMissed: self._missed,
            WatchBegan: self._watch_began,
            WatchEnded: self._watch_ended,
            EndpointsSuspected: self._suspected,
            EndpointsTrusted: self._trusted,
            NodeDropped: lambda dropped: self._close(dropped.why),
        }

    # Marks

    def started(self, now: Instant, detail: dict[str, Any]) -> None:
        self._sheet.turn(self._wall_us(), now)
        self._due = self._sheet.now + self._heartbeat_s
        self._sheet.write("started", detail=json.encode(detail, enc_hook=str).decode())

    def closing(self, now: Instant, why: str) -> None:
        """The last row; a server that gave way to another replica has had it before its process ends."""
        self._turn(now)
        self._close(why)

    def _close(self, why: str) -> None:
        if self._closed:
            return
        self._closed = True
        self._flush()
        self._sheet.write("closing", what=why)

    def _turn(self, now: Instant) -> None:
        if now != self._sheet.now:
            self._views.idle_s = now - self._sheet.now
            self._sheet.turn(self._wall_us(), now)

    # What the node was given and ordered

    def saw(self, now: Instant, node: Domain, event: Event, effects: Sequence[Seen]) -> None:
        if not effects and isinstance(event, Lifecycle):
            return
        self._turn(now)
        if now >= self._due and event is not BESIDE:
            self._due = now + self._heartbeat_s
            self._flush()
            self._sheet.write("heartbeat")
        if (take := self._take.get(type(event))) is not None:
            take(event, effects)
        do = self._do
        for effect in effects:
            if (write := do.get(type(effect))) is not None:
                write(effect)
        self._views.flush()

    # Programs: what they asked for and were granted

    def _was_asked(self, asked: Asked, outputs: Sequence[Any]) -> None:
        """The row of a join comes before those of its notices, so its grant is looked for in the same
        step."""
        result = _answer_to(asked.token, outputs)
        me, request = asked.endpoint, asked.request
        self._asked[asked.token] = (self._sheet.now, asked)
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

    # Agreed groups: a member stands in the directory before it is in a view

    def _agreed_join_asked(self, event: AgreedJoinAsked | OrderJoinAsked, outputs: Sequence[Any]) -> None:
        self._was_asked(Asked(event.endpoint, event.token, JoinAgreed(event.group)), outputs)

    def _listed(self, listed: AgreedListed) -> None:
        self._counter = listed.stamp[1]
        self._presence(listed.endpoint).groups[listed.group] = False
        self._write_member("member-joined", listed.endpoint, listed.group)

    def _unlisted(self, unlisted: AgreedUnlisted) -> None:
        self._counter = unlisted.stamp[1] - 1
        self._left_group(unlisted.endpoint, unlisted.group, unlisted.cause)

    # Restricted names: an authority was asked in between

    def _proven(self, listed: MemberListed) -> None:
        self._counter = listed.stamp[1]
        self._presence(listed.endpoint).groups[listed.group] = listed.online
        self._write_member("member-joined", listed.endpoint, listed.group)
        self._refollow(listed.endpoint, listed.group)

    def _unproven(self, unlisted: MemberUnlisted) -> None:
        self._counter = unlisted.stamp[1] - 1
        self._left_group(unlisted.endpoint, unlisted.group, Cause.LEAVE)
        self._refollow(unlisted.endpoint, unlisted.group)

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
                self._sheet.write(
                    "refused",
                    member=me or None,
                    group=None if group is None else str(group),
                    what=code,
                    message=type(request).__name__,
                )
            case _, Opened(endpoint):
                self._presences[endpoint] = _Presence()
                self._sheet.write("opened", member=endpoint, life=self._epoch)
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
        self._sheet.write(
            "resolved",
            group=str(group),
            observers=(me,),
            told=1,
            latency_us=micros(self._sheet.now - since),
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
            self._views.left(me, group)
            self._write_member("member-left", me, group, cause.value)
        for group in sorted(presence.spoken):
            self._spoken.hears_no_more(me, group)
        for group in followed:
            self._stop(me, group)
        self._sheet.write("closed", member=me, cause=cause.value, what=why or None)
        if cause is Cause.CRASH:
            for token in self._unanswered.pop(me, ()):
                del self._asked[token]  # it will not be answered

    def _left_group(self, me: Endpoint, group: Group, cause: Cause) -> None:
        self._counter += 1
        self._presence(me).groups.pop(group, None)
        self._views.left(me, group)
        self._write_member("member-left", me, group, cause.value)

    def _refollow(self, me: Endpoint, group: Group) -> None:
        if not self._presence(me).follows(group):
            self._stop(me, group)
        elif self.sight.follow(me, group):
            self._sheet.write("followed", group=str(group), observers=(me,), told=1)

    def _stop(self, me: Endpoint, group: Group) -> None:
        lost = self.sight.unfollow(me, group)
        if lost is not None:
            self._sheet.write("unfollowed", lost, group=str(group), observers=(me,), told=1, cause=UNFOLLOWED)

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
        self._sheet.write(
            kind, group=str(group), member=me, life=self._epoch, stamp=self._counter, cause=cause
        )

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
            self._sheet.write("refused", member=me, group=str(group), what=result.code, message="Join")

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
            self._spoken.hears_no_more(me, group)
            self._refollow(me, group)

    def _delivered(self, deliver: Deliver) -> None:
        me, group, item = deliver.endpoint, deliver.group, deliver.item
        kind = type(item)
        if kind is Delivered:
            self._spoken.heard(me, group, item.stream, item.run)  # type: ignore[attr-defined]
            return
        match item:
            case MemberView() | MemberBlocked():
                self._views.given(me, group, item)
                if isinstance(item, MemberView):
                    self._orders.shown((me,), group, item)
            case OrderedRun():
                self._orders.given((me,), group, item)
            case Aggregated(origin, run):
                self._spoken.heard_for(me, group, origin, run)
            case fifo_events.Ready(members):
                listed = [Member(who, UNKNOWN) for who, _, _ in members if not is_aggregate(who)]
                self._item(me, group, Absolute(group, tuple(listed)))
            case fifo_events.Joined(endpoint) | fifo_events.Left(endpoint) if is_aggregate(endpoint):
                pass  # an aggregate is no program: the rows are those of its submitters
            case fifo_events.Joined(endpoint):
                self._item(me, group, Joined(group, (Member(endpoint, UNKNOWN),), Cause.JOIN))
            case fifo_events.JoinedTogether(members):
                joined = [Member(who, UNKNOWN) for who, _, _ in members if not is_aggregate(who)]
                self._item(me, group, Joined(group, tuple(joined), Cause.JOIN))
            case fifo_events.ChangesTogether(items):
                for each in items:
                    self._delivered(Deliver(me, group, each))
            case fifo_events.Left(endpoint, why, last):
                cause = Cause.LEAVE if why == "left" else Cause.CRASH
                self._item(me, group, Left(group, endpoint, UNKNOWN, cause))
                self._spoken.ended(me, group, endpoint, last, why)
            case fifo_events.Without(domain, because) | fifo_events.Only(domain, because):
                told = Without if isinstance(item, fifo_events.Without) else Only
                self._item(me, group, told(domain, because or _UNSAID))
            case fifo_events.Gap(endpoint, first, last):
                self._spoken.missed(me, group, endpoint, first, last)
            case fifo_events.Excluded(reason):
                self._left_speaking(me, group, reason)

    # Groups whose messages have one order

    def _submitted(self, event: OrderSubmitted, outputs: Sequence[Any]) -> None:
        if not any(type(each) is Ignored for each in outputs):
            self._orders.submitted(event)

    def _heard_frames(self, event: FramesHeard, outputs: Sequence[Any]) -> None:
        for message in event.messages:
            self._links.datagram("received", event.source, type(message))

    def _delivered_to_all(self, deliver: DeliverAll) -> None:
        endpoints, group, item = deliver.endpoints, deliver.group, deliver.item
        match item:
            case OrderedRun():
                self._orders.given(endpoints, group, item)
            case MemberView() | MemberBlocked():
                for me in endpoints:
                    self._views.given(me, group, item)
                if isinstance(item, MemberView):
                    self._orders.shown(endpoints, group, item)

    def _item(self, me: Endpoint, group: Group, notice: Any) -> None:
        if group not in self._presence(me).spoken:
            return  # a submitter is no member: its items do not show what this host sees
        for told in self.sight.take_in(group, me, notice):
            self._notice(notice, *told)

    # Datagrams

    def _cast(self, cast: fifo_events.Cast) -> None:
        """To all hosts of our LAN; the row names its server."""
        self._said(self._above, cast.group, cast.message)

    def _spoke(self, order: fifo_events.Transmit) -> None:
        self._said(order.to, order.group, order.message)

    def _said(self, to: Domain, group: Group, message: Any) -> None:
        if type(message) is Nak:
            self._spoken.asks_for(group, message)
        self._links.datagram("sent", to, type(message))

    def _overheard(self, event: fifo_events.Heard, outputs: Sequence[Any]) -> None:
        for message in event.messages:
            self._links.datagram("received", event.source, type(message))
            data = message.data if type(message) is Numbered else message
            if type(data) is AnyDataMessage and data.repair:
                self._spoken.came_again(event, data, outputs)

    # Notices

    def _told(self, tell: Tell) -> None:
        notice = tell.notice
        if type(notice) in _NOTICES:
            for told in self.sight.take(tell.endpoints, notice):
                self._notice(notice, *told)
            return
        match notice:
            case Snapshot(group, members, period, number):
                self._sheet.write(
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
            case PutOut(group):
                for endpoint in tell.endpoints:
                    presence = self._presence(endpoint)
                    if group in presence.groups and group not in presence.spoken:
                        self._left_group(endpoint, group, Cause.LEAVE)
                        self._refollow(endpoint, group)
            case Gap(missed, groups):
                for endpoint in tell.endpoints:
                    self._missed(NoticesMissed(endpoint, missed, groups))

    def _notice(
        self, notice: Any, group: Group, observers: tuple[Endpoint, ...], lines: list[ViewLine], kept: int
    ) -> None:
        self._sheet.write(
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
        self._sheet.write(
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

    def _missed(self, gap: NoticesMissed) -> None:
        for group in gap.groups:
            self._sheet.write("gap", group=str(group), observers=(gap.endpoint,), told=1, count=gap.missed)

    # Watchers: an agent follows a group once, for all on its host who watch it

    def _watch_began(self, watch: WatchBegan) -> None:
        watcher, group = watch.watcher, watch.group
        groups = self._watchers.setdefault(watcher, {})
        if group not in groups:
            groups[group] = None
            self._sheet.write("followed", group=str(group), observers=(watcher,), told=1, cause="watch")

    def _watch_ended(self, watch: WatchEnded) -> None:
        watcher, group = watch.watcher, watch.group
        groups = self._watchers.get(watcher, {})
        for each in list(groups) if group is None else [group]:
            del groups[each]
            self._sheet.write("unfollowed", group=str(each), observers=(watcher,), told=1, cause="watch")
        if not groups:
            self._watchers.pop(watcher, None)

    # Programs that stall

    def _suspected(self, suspected: EndpointsSuspected) -> None:
        evidence = suspected.evidence
        for endpoint in suspected.endpoints:
            self._sheet.write(
                "program-suspected",
                member=endpoint,
                silence_s=evidence.unanswered_s,
                limit_s=evidence.down_after_s,
            )

    def _trusted(self, trusted: EndpointsTrusted) -> None:
        for endpoint in trusted.endpoints:
            self._sheet.write("program-trusted", member=endpoint, latency_us=micros(trusted.after_s))

    # Small words

    def _flush(self) -> None:
        self._spoken.flush()
        self._orders.flush()
        self._links.flush()


_UNSAID: Final = Because(Domain(""), Domain(""), "")


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
    """The cause and evidence in a notice."""
    kind = type(notice)
    if kind is Absolute:
        return {"cause": SNAPSHOT}
    if kind is Joined:
        part = notice.complete_for
        where = {} if part is None else {"domain": part.domain, "inside": part.within}
        return {"cause": notice.cause.value, **where}
    if kind is Left:
        return {}
    return {"domain": notice.domain, **because_of(notice.because)}
