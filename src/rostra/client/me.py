"""An endpoint: a program's presence on a host, and its operations."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from functools import lru_cache
from typing import Any, Final
from weakref import WeakValueDictionary

from msgspec import structs

from rostra.client import choices, leadership, replicated, shares
from rostra.client.admin import inspect
from rostra.client.agreed import AgreedMembership, asking
from rostra.client.agreed_fifo import AgreedConversation
from rostra.client.calls import ANSWER, CALLS_REMEMBERED, opened
from rostra.client.connection import AgentConnection, as_error
from rostra.client.conversation import Conversation
from rostra.client.follows import FollowedGroup
from rostra.client.group import Entering, Membership, Watch, Watching
from rostra.client.groups import Groups
from rostra.client.joining import AgreedStay, Joins
from rostra.client.ordered import Ordered
from rostra.client.session import Session, check_deadline, within
from rostra.client.sets import ReceivedItem, Sequence, Sets, TransientSet
from rostra.client.states import Lost, State
from rostra.client.streams import Stream, again
from rostra.client.transfer import MAGIC, decode_state
from rostra.client.watched import WatchFollow, WatchPlace, parse_token
from rostra.errors import AlreadyMember, BadInput, RostraError, Unreachable
from rostra.groups.items import Gap, Message, Resolution, SentIn
from rostra.groups.members import Member
from rostra.names import (
    Domain,
    Endpoint,
    Group,
    host_of,
    incarnation_of,
    make_group,
    name_of,
    parse_endpoint,
    parse_endpoint_name,
    parse_group_name,
    parse_scope,
)
from rostra.protocols.agreed.requests import LeaveAgreed
from rostra.protocols.atomic.requests import LeaveOrdered
from rostra.protocols.fifo.requests import Exit
from rostra.protocols.front.messages import AnyRequest, AnyTold
from rostra.protocols.led.requests import AnySetNotice, ResolveSet
from rostra.protocols.relaxed import requests
from rostra.protocols.relaxed.requests import Life, NotDelivered
from rostra.transport.dialler import dialler
from rostra.wire import NO_ENDPOINT, Reading
from rostra.wire.encoder import check_request

DEADLINE_GRACE_S: Final = 1.0
"""The agent keeps the deadlines of questions. If even its refusal does not come, this much later, the program
stops waiting itself."""


class Me(Joins, Sets):
    """One endpoint. All methods belong to the event loop that it was opened in.

    Its methods raise what is in `rostra.errors`. Whatever takes an answer from the agent can be cancelled,
    and takes a `deadline_s`; both leave nothing behind.
    """

    def __init__(self, session: Session, endpoint: Endpoint, *, owns_session: bool) -> None:
        self.endpoint = endpoint
        self.name = name_of(endpoint)
        self._number = incarnation_of(endpoint)
        self._session = session
        self._connection = session.connection
        self._copies = session.copies
        self._watched = session.watched
        self._owns_session = owns_session
        self._closed = False
        self._away = False  # since the agent was lost, until all that we had is ours again
        self._follows: dict[tuple[str, str | None], FollowedGroup] = {}  # by name and scope
        self._memberships: dict[Group, Membership] = {}
        self._joining: dict[Group, tuple[Membership, asyncio.Future[Any]]] = {}  # that are asked for
        self._watches: dict[Group, WatchFollow] = {}
        self._conversations: dict[Group, Conversation] = {}
        self._agreed: dict[Group, AgreedStay] = {}
        self._sets: dict[Group, TransientSet] = {}  # that we own
        self._sequences: dict[int, Sequence] = {}
        self._heard_sets: Stream[ReceivedItem] | None = None
        self._lines: WeakValueDictionary[Group, asyncio.Lock] = WeakValueDictionary()
        self._answers: dict[bytes, Callable[[Endpoint, bytes], None] | None] = {}  # to calls, by token
        self._mail: Stream[Message | NotDelivered | Gap] | None = None
        self._lives: dict[Endpoint, list[Stream[Life]]] = {}
        self._settling: list[tuple[Membership | Conversation | AgreedStay | None, asyncio.Future[Any]]] = []
        self._connection.listen(self._number, self._hear)
        session.endpoints.append(self)

    @classmethod
    async def _open(cls, session: Session, name: str, *, owns_session: bool) -> "Me":
        connection = session.connection
        answer = connection.post(NO_ENDPOINT, requests.Open(name))
        try:
            opened = await connection.settle(answer)
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and connection.ended is None:
                # It was opened after its caller had given up.
                connection.close_endpoint(answer.result())
            raise
        return cls(session, opened.endpoint, owns_session=owns_session)

    def __repr__(self) -> str:
        return f"<{self.endpoint}{'' if self.is_open else ', closed' if self._closed else ', lost'}>"

    @property
    def host(self) -> Domain:
        return host_of(self.endpoint)

    @property
    def world(self) -> str:
        return self._connection.world

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_open(self) -> bool:
        """Is there an agent to ask?"""
        return not self._closed and self._connection.ended is None

    # How we stand with the agent

    @property
    def state(self) -> State:
        """`Connected`, `Suspended` or `Lost`. All endpoints of a connection share it."""
        return self._session.state

    def states(self) -> Stream[State]:
        """The present state, and every one that follows: ``async for state in me.states()``."""
        return self._session.states()

    async def connected(self, *, deadline_s: float | None = None) -> None:
        """Wait until the agent answers. Raises the reason if it is lost for good."""
        await within(deadline_s, self._session.connected(), "the agent did not come back")

    def open(self, name: str | None = None) -> "Entering[Me]":
        """One more endpoint on the same connection."""
        called = None if name is None else parse_endpoint_name(name)

        async def enter() -> Me:
            self._check_open()
            return await Me._open(self._session, called or dialler().name(self.name), owns_session=False)

        return Entering(enter)

    async def close(self) -> None:
        """Leave every group. The endpoint that `connect` gave takes the connection, and all others on it,
        with it."""
        if self._closed:
            return
        if self._owns_session:
            await self._session.close()
            return
        closed = self._post(requests.Close()) if self.is_open else None
        self._session.endpoints.remove(self)
        self.ended(None)
        if closed is not None:
            with contextlib.suppress(Unreachable):
                await self._connection.settle(closed)

    # Groups

    def watch(
        self,
        group: str,
        scope: str = "world",
        *,
        resume: str | None = None,
        deadline_s: float | None = None,
    ) -> Watching:
        """Follow a group from outside: ``async for change in me.watch("chess")``, or ``async with`` for its
        copy.

        First a `View`, then every change, numbered. With `resume`, the `token` of the last change that was
        dealt with, by this or an earlier life of the program: every change since, if the agent still has
        them, and otherwise a `Gap` and a `View`.
        """
        choices.check_scope_apart(group, scope, self.host)
        key = make_group(group, scope)
        place = parse_token(resume) if resume else None

        async def enter() -> Watch:
            return await within(deadline_s, self._watch(key, place), f"watching {key} was not confirmed")

        return Watching(enter)

    async def resolve(
        self, group: str, scope: str | None = "world", *, deadline_s: float | None = None, fresh: bool = False
    ) -> Resolution:
        """Who is in a group? Membership is not needed.

        A group that this endpoint follows is answered from its own copy, and the answer says so; `fresh` asks
        the servers. With ``scope=None``, every group of that name around this host. After `deadline_s`
        without an answer, `DeadlineExceeded`.
        """
        if not fresh:
            follow = self._follows.get((group, scope))
            if follow is not None:
                copy = follow.resolution
                if copy is not None:
                    return copy
        if isinstance(group, str) and "~" in group:
            about = ResolveSet(make_group(group, scope or "world"))
            answer = await within(deadline_s, self._ask(about), "the agent did not answer")
            return Resolution(answer.members, answer.isolated)
        choices.check_scope_apart(group, scope, self.host)
        question = _question(group, scope, deadline_s)
        if question.scope != scope and not fresh:
            return await self.resolve(group, question.scope, deadline_s=deadline_s)
        period = self._copies.period(Group(group, question.scope)) if self._follows and question.scope else 0
        asking = self._ask(question, share=True, period=period)
        if deadline_s is None:
            answer = await asking
        else:
            answer = await within(deadline_s + DEADLINE_GRACE_S, asking, "the agent did not answer")
        if type(answer) is requests.Resolved:
            found = {member.endpoint: member for _, members in answer.parts for member in members}
            members = tuple([found[endpoint] for endpoint in sorted(found)])
            return Resolution(members, answer.isolated, scopes=answer.parts)
        return Resolution(answer.members, answer.isolated)

    @property
    def groups(self) -> Groups:
        """Agreed groups as a whole."""
        return Groups(self)

    lead = leadership.lead
    lock = leadership.lock
    replicate = replicated.replicate
    shares = shares.shares

    # Messages and lives

    async def send_to(
        self,
        endpoints: Endpoint | str | Iterable[Endpoint | str],
        data: bytes,
        *,
        deadline_s: float | None = None,
    ) -> None:
        """Send a message through the servers to these endpoints. Returns when the agent has it."""
        each = (endpoints,) if isinstance(endpoints, str) else tuple(endpoints)
        await self._send_to(tuple([parse_endpoint(endpoint) for endpoint in each]), data, None, deadline_s)

    async def _send_to(
        self, endpoints: tuple[Endpoint, ...], data: bytes, view: SentIn | None, deadline_s: float | None
    ) -> None:
        choices.check_octets(data=data)
        order = requests.SendTo(endpoints, data, view)
        await within(deadline_s, self._ask(order), "the agent did not take the message")

    def messages(self) -> Stream[Message | NotDelivered | Gap]:
        """What is sent to this endpoint, from the first call of this on."""
        if self._mail is None:
            self._mail = Stream(lambda missed: (Gap(missed),))
            state = self.state
            if self._closed:
                self._mail.end()
            elif isinstance(state, Lost) and state.is_final:
                self._mail.end(state.reason)
        return self._mail

    async def watch_life(self, endpoint: Endpoint | str) -> AsyncIterator[Life]:
        """Is that endpoint there, and when does it go?"""
        target = parse_endpoint(endpoint)
        stream: Stream[Life] = Stream(lambda missed: ())
        streams = self._lives.setdefault(target, [])
        streams.append(stream)
        try:
            if len(streams) == 1:
                await self._ask(requests.WatchLife(target))
            async for life in stream:
                yield life
        finally:
            streams.remove(stream)
            if not streams:
                self._lives.pop(target, None)
                self._post_if_open(requests.UnwatchLife(target))

    # Administration

    async def register(self, group: str, scope: str) -> None:
        """Make this a permanent group. For a scope beyond this host, ask its domain's server: `Admin`."""
        await self._ask(requests.Register(make_group(group, scope)))

    async def unregister(self, group: str, scope: str) -> None:
        await self._ask(requests.Unregister(make_group(group, scope)))

    async def inspect(self) -> dict[str, Any]:
        """What the agent knows and remembers."""
        self._check_open()
        return await inspect(self._connection)

    # For groups

    async def _join(self, joined: Membership, online: bool) -> None:
        group = joined.group
        self._check_open()
        if online:
            joined._online = self._copies.follow(group, self._number)
        try:
            await self._connection.writable()
            answer = self._post(joined._asks_in(online))
            asked = self._joining.setdefault(group, (joined, answer))
            try:
                await self._connection.settle(answer)
            finally:
                if asked[0] is joined:
                    del self._joining[group]
        except BaseException as error:
            if online:
                self._copies.unfollow(group, self._number)
            if isinstance(error, asyncio.CancelledError) and group not in self._memberships:
                self._post_if_open(joined._asks_out())
            raise
        if joined._left is not None:
            raise again(joined._left)
        self._memberships[group] = joined
        self._look_up(group)

    async def _enter(self, conversation: Conversation) -> None:
        self._check_open()
        if conversation.group in self._conversations:
            raise AlreadyMember(f"{self.endpoint} is in {conversation.group} already", fix="leave first")
        self._conversations[conversation.group] = conversation
        self._connection.converse(self._number, conversation.group, conversation.hear)
        try:
            await self._ask(conversation.asks_in())
        except BaseException as error:
            self._forget_conversation(conversation)
            if isinstance(error, asyncio.CancelledError):
                self._post_if_open(Exit(conversation.group))
            raise

    async def _join_agreed(self, stay: AgreedStay) -> None:
        self._check_open()
        group = stay.group
        if group in self._agreed:
            raise AlreadyMember(f"{self.endpoint} is in {group} already", fix="leave first")
        self._agreed[group] = stay
        with contextlib.ExitStack() as failed:
            failed.callback(self._forget_agreed, stay)
            await self._connection.writable()
            joining = self._post(asking(stay.join))
            self._connection.converse(self._number, group, stay.hear, joining)
            try:
                await self._connection.settle(joining)
            except asyncio.CancelledError:
                ordered = isinstance(stay, Ordered)
                self._post_if_open(LeaveOrdered(group) if ordered else LeaveAgreed(group))
                raise
            failed.pop_all()

    def _move_agreed(self, stay: AgreedMembership, to: Group) -> None:
        """The group of a membership was split or merged."""
        self._forget_agreed(stay)
        stay.group, stay.join = to, structs.replace(stay.join, group=to)
        self._agreed[to] = stay
        self._connection.converse(self._number, to, stay.hear)

    async def _leave_agreed(self, stay: AgreedMembership) -> None:
        left = self._post(LeaveAgreed(stay.group)) if self.is_open and stay.group in self._agreed else None
        self._forget_agreed(stay)
        stay.end(None)
        if left is not None:
            await self._connection.settle(left)

    def _forget_agreed(self, stay: AgreedStay) -> None:
        if self._agreed.get(stay.group) is stay:
            del self._agreed[stay.group]
            self._connection.fall_silent(self._number, stay.group)

    async def _exit(self, conversation: Conversation) -> None:
        if not self.is_open or self._conversations.get(conversation.group) is not conversation:
            self._forget_conversation(conversation)
            return
        parted = conversation.parted()
        try:
            await self._connection.settle(self._post(Exit(conversation.group)))
            await parted
        finally:
            self._forget_conversation(conversation)
            conversation.end(None)

    def _forget_conversation(self, conversation: Conversation) -> None:
        if self._conversations.get(conversation.group) is conversation:
            del self._conversations[conversation.group]
            self._connection.fall_silent(self._number, conversation.group)

    def _say_reading(self, group: Group, more: bool) -> None:
        if self.is_open:
            self._connection.say(Reading(self._number, group, more))

    async def _leave(self, joined: Membership, meta: bytes) -> None:
        group = joined.group
        left = self._post(joined._asks_out(meta)) if self.is_open else None
        # Silence from the moment of the call (C-052): what still arrives was sent before the agent knew.
        self._memberships.pop(group, None)
        if joined.is_online:
            self._copies.unfollow(group, self._number)
            self._look_up(group)
        if left is not None:
            await self._connection.settle(left)

    async def _set_online(self, joined: Membership, online: bool) -> None:
        group = joined.group
        self._check_open()
        if online:
            joined._online = self._copies.follow(group, self._number)
            try:
                await self._ask(requests.SetOnline(group, True))
            except BaseException as error:
                joined._online = None
                self._copies.unfollow(group, self._number)
                if isinstance(error, asyncio.CancelledError):
                    self._post_if_open(requests.SetOnline(group, False))
                raise
            self._look_up(group)
        else:
            joined._online = None
            done = self._post(requests.SetOnline(group, False))
            self._copies.unfollow(group, self._number)
            self._look_up(group)
            await self._connection.settle(done)

    async def _watch(self, group: Group, resume: WatchPlace | None) -> Watch:
        self._check_open()
        follow = self._watched.follow(group, self._number)
        self._watches[group] = follow
        first = None if resume is None else follow.stream_from(resume)
        period, number = follow.place_in(self._connection.memory)
        try:
            await self._ask(requests.Watch(group, period, number))
        except BaseException as error:
            last = self._end_watch(group)
            if last and isinstance(error, asyncio.CancelledError):
                self._post_if_open(requests.Unwatch(group))
            raise
        self._look_up(group)
        return Watch(self, group, follow, first)

    async def _unwatch(self, group: Group) -> None:
        """One watch less. For the agent an endpoint watches a group or does not, so only the last one tells
        it."""
        if self._end_watch(group) and self.is_open:
            await self._connection.settle(self._post(requests.Unwatch(group)))

    def _end_watch(self, group: Group) -> bool:
        last = self._watched.unfollow(group, self._number)
        if last:
            self._watches.pop(group, None)
            self._look_up(group)
        return last

    def _look_up(self, group: Group) -> None:
        """Which agent `resolve` asks first, if any."""
        joined, watched = self._memberships.get(group), self._watches.get(group)
        follow = watched if joined is None or joined._online is None else joined._online
        if follow is None:
            self._follows.pop((group.name, group.scope), None)
        else:
            self._follows[group.name, group.scope] = follow

    # For the session

    def lost(self) -> None:
        """Alone, until we are reopened: every group has this endpoint as its only known member (C-143)."""
        self._settling = []
        self._lose_sets(None)
        if self._heard_sets is not None and not self._away:
            self._heard_sets.put(Gap())
        if self._mail is not None and not self._away:
            self._mail.put(Gap())
        if not self._away:
            for conversation in self._conversations.values():
                conversation.lose()
            for stay in self._agreed.values():
                stay.lose()
        self._away = True
        for group, joined in self._memberships.items():
            if joined._online is not None:
                me = [member for member in joined._online.members if member.endpoint == self.endpoint]
                self._copies.lose(
                    group, self._number, me[0] if me else Member(self.endpoint, (0, 0), joined.meta)
                )

    def reopened(self, connection: AgentConnection, endpoint: Endpoint) -> None:
        """A new endpoint of the same name. Everything is asked for at once, in the order of asking."""
        old, self._number = self._number, incarnation_of(endpoint)
        self.endpoint, self._connection = endpoint, connection
        connection.listen(self._number, self._hear)
        self._copies.renumber(old, self._number)
        self._watched.renumber(old, self._number)
        for joined in self._memberships.values():
            order = joined._asks_in(joined.is_online)
            self._settling.append((joined, connection.post(self._number, order)))
        for group, conversation in self._conversations.items():
            connection.converse(self._number, group, conversation.hear)
            self._settling.append((conversation, connection.post(self._number, conversation.asks_in())))
        for group, stay in self._agreed.items():
            connection.converse(self._number, group, stay.hear)
            self._settling.append((stay, connection.post(self._number, asking(stay.join))))
        for group, follow in self._watches.items():
            watch = requests.Watch(group, *follow.place_in(connection.memory))
            self._settling.append((None, connection.post(self._number, watch)))
        for target in self._lives:
            self._settling.append((None, connection.post(self._number, requests.WatchLife(target))))

    async def settled(self) -> None:
        settling, self._settling = self._settling, []
        for joined, answer in settling:
            try:
                await self._connection.settle(answer)
            except RostraError as refusal:
                if joined is None or refusal.retriable:
                    raise
                # We were let in before, and are not any more: true of this group, and of no other.
                if isinstance(joined, Conversation):
                    self._forget_conversation(joined)
                    joined.end(refusal)
                    continue
                if isinstance(joined, AgreedMembership | AgreedConversation | Ordered):
                    self._forget_agreed(joined)
                    joined.end(refusal)
                    continue
                self._put_out(joined.group, refusal)
        self._away = False

    def ended(self, reason: RostraError | None) -> None:
        """This endpoint is closed, or its agent is lost for good."""
        self._closed = self._closed or reason is None
        self._connection.deafen(self._number)
        self._copies.forget(self._number, reason)
        self._watched.forget(self._number, reason)
        self._follows.clear()
        self._memberships.clear()
        self._watches.clear()
        for conversation in self._conversations.values():
            self._connection.fall_silent(self._number, conversation.group)
            conversation.end(reason)
        self._conversations.clear()
        for stay in self._agreed.values():
            self._connection.fall_silent(self._number, stay.group)
            stay.end(reason)
        self._agreed.clear()
        self._lose_sets(reason)
        if self._mail is not None:
            self._mail.end(reason)
        if self._heard_sets is not None:
            self._heard_sets.end(reason)
        for streams in self._lives.values():
            for stream in streams:
                stream.end(reason)

    # What arrives

    def _hear(self, notice: AnyTold) -> None:
        match notice:
            case requests.Message(source, data) if data.startswith(MAGIC):
                message = decode_state(data)
                stay = None if message is None else self._agreed.get(message.group)
                if message is not None and isinstance(stay, Ordered):
                    stay.mail(source, message)
            case requests.Message(source, data) if self._answers and self._is_answer(source, data):
                pass
            case requests.Message(source, data):
                if self._mail is not None:
                    self._mail.put(Message(source, data, view=notice.view))
            case NotDelivered():
                if self._mail is not None:
                    self._mail.put(notice)
            case Life(endpoint):
                for stream in self._lives.get(endpoint, ()):
                    stream.put(notice)
            case requests.PutOut(group, refusal):
                self._put_out(group, as_error(refusal))
            case requests.Gap(missed):
                if self._mail is not None:
                    self._mail.miss(missed)
            case _ if isinstance(notice, AnySetNotice):
                self._hear_sets(notice)

    def _expect_answers(self, token: bytes, hear: Callable[[Endpoint, bytes], None] | None) -> None:
        """Register a call to a group for its answers; None ends it, and later answers are dropped."""
        self._answers[token] = hear
        oldest = next(iter(self._answers))
        if len(self._answers) > CALLS_REMEMBERED and self._answers[oldest] is None:
            del self._answers[oldest]

    def _is_answer(self, source: Endpoint, data: bytes) -> bool:
        mark, token, body = opened(data)
        if mark != ANSWER or token not in self._answers:
            return False
        hear = self._answers[token]
        if hear is not None:
            hear(source, body)
        return True

    def _put_out(self, group: Group, refusal: RostraError) -> None:
        """The agent has taken us out of this group, and of no other."""
        joined = self._memberships.pop(group, None)
        if joined is None and group in self._joining:
            # Let in and put out in one packet: the answer is here, and the call that waits for it has not
            # run yet. Before the answer, it is about a membership that we have left.
            entering, answer = self._joining[group]
            joined = entering if answer.done() else None
        if joined is not None:
            joined._refused(refusal)
            if joined._online is not None:
                self._copies.unfollow(group, self._number, refusal)
                self._look_up(group)

    # Asking

    def _ask(self, request: AnyRequest, *, share: bool = False, period: int = 0) -> Coroutine[Any, Any, Any]:
        self._check_open()
        return self._connection.ask(self._number, request, share=share, period=period)

    def _post(self, request: AnyRequest) -> "asyncio.Future[Any]":
        self._check_open()
        return self._connection.post(self._number, request)

    def _post_if_open(self, request: AnyRequest) -> None:
        if self.is_open:
            self._post(request)

    def _check_open(self) -> None:
        if self._closed:
            raise BadInput(f"{self.endpoint} is closed", fix="open a new endpoint")
        if self._connection.ended is not None:
            state = self.state
            if isinstance(state, Lost) and not state.is_final:
                raise Unreachable(
                    f"{self.endpoint} has lost its agent: {state.reason.what}",
                    fix="it is being called again: await me.connected(), or iterate over me.states()",
                )
            raise again(self._connection.ended)


@lru_cache(maxsize=1024)
def _question(group: str, scope: str | None, deadline_s: float | None) -> requests.Resolve:
    """Checked once; programs ask the same questions again and again."""
    if deadline_s is not None:
        check_deadline(deadline_s)
    parse_group_name(group)
    question = requests.Resolve(group, None if scope is None else parse_scope(scope), deadline_s)
    check_request(question)
    return question
