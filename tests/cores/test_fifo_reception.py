"""Members of one host share what they receive: one list, one state for each sender, one receiver."""

import pytest
from support.fifobench import G, cut, data, entry, items, user
from support.fifobench import delegate as delegate_of

from rostra.core.effects import Answer, Asked, EndpointGone, LinkUp, Received, Send, TimerFired
from rostra.core.stack import Stack
from rostra.groups.attributes import Role
from rostra.groups.members import Cause
from rostra.names import Domain, Group
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.core import HostCore
from rostra.protocols.fifo.messages import Channel, SyncReply, encode
from rostra.protocols.fifo.reception import Reception
from rostra.protocols.flow.messages import Heartbeat, Pulse
from rostra.protocols.flow.runs import block_of
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.messages import (
    EndpointLeft,
    EndpointsJoined,
    Interest,
    MessageId,
    ResolveReply,
    ResolveRequest,
    Routed,
)
from rostra.protocols.relaxed.requests import Close, Open

HUJI = Domain("huji")


class Host:
    """`huji.h1`, below the server of its cluster, which we play."""

    def __init__(self) -> None:
        host = Domain("huji.h1")
        self.core = HostCore(host)
        self.stack = Stack(self.core, LocalServer(host, incarnation=1))
        self.now, self.asked, self._sequence = 0.0, [], 0
        self.step(LinkUp(HUJI, 1))

    def step(self, event):
        effects = self.stack.step(self.now, event)
        said = [effect.message for effect in effects if isinstance(effect, Send)]
        self.asked += [each.id for each in said if isinstance(each, ResolveRequest)]
        return effects

    def new_id(self):
        self._sequence += 1
        return MessageId(HUJI, 1, self._sequence)

    def join(self, count, role=Role.RECEIVE, first=0):
        for number in range(first, first + count):
            [answer] = [
                effect
                for effect in self.step(Asked("", 10 + number, Open(f"m{number}")))
                if isinstance(effect, Answer)
            ]
            self.step(ev.JoinAsked(answer.result.endpoint, 100 + number, G, number, role))
        return list(self.core.members[G].values())

    def joined(self, *members):
        return self.step(Received(HUJI, EndpointsJoined(self.new_id(), G, members, Cause.JOIN)))

    def left(self, member, stamp):
        return self.step(
            Received(HUJI, EndpointLeft(self.new_id(), G, member.endpoint, (1, stamp), Cause.LEAVE))
        )

    def listed(self, *members):
        asked, self.asked = self.asked, []
        for id in asked:
            self.step(Received(HUJI, ResolveReply(id, G, members, Interest.ALL)))


@pytest.fixture
def steps(monkeypatch):
    """What was taken in, since this list was cleared."""
    found, told = [], Reception.told
    monkeypatch.setattr(
        Reception, "told", lambda core, notice, to=(): found.append(notice) or told(core, notice, to)
    )
    return found


def listener(name, stamp=1):
    return user(f"mit.h1/{name}", stamp=stamp, role=Role.RECEIVE)


@pytest.mark.spec("X-053", "C-066")
def test_a_notice_is_taken_in_once_for_all_who_are_told_it(steps):
    host = Host()
    newcomers = host.join(20)
    host.listed()
    steps.clear()
    host.joined(listener("late"))
    assert len(steps) == 1
    assert all(len(member.view) == 21 for member in newcomers)
    assert all(member.senders is newcomers[0].senders for member in newcomers)


@pytest.mark.spec("X-030")
def test_all_who_are_ready_at_once_are_given_one_list():
    """Also while somebody who speaks is not in it, because its number is not known yet."""
    host = Host()
    [newcomer, *_] = host.join(5)
    delegate, speaker = delegate_of("huji"), user("mit.h1/speaker")
    host.listed(delegate, *(listener(f"l{number}") for number in range(20)), speaker)
    reply = SyncReply(G, newcomer.state.req, 1, (cut("huji", h1=5),), Channel())
    told = Routed(host.new_id(), delegate.endpoint, (newcomer.me,), encode(reply))
    ready = [item for item in items(host.step(Received(HUJI, told))) if isinstance(item, ev.Ready)]
    assert len(ready) == 5 and len(ready[0].members) == 25
    assert all(item is ready[0] for item in ready)
    assert speaker.endpoint not in [who for who, _, _ in ready[0].members]


@pytest.mark.spec("C-082", "C-066")
def test_a_record_that_is_later_than_the_list_counts():
    """It left and joined again; the list was made before that."""
    host = Host()
    [member] = host.join(1)
    again = listener("a", stamp=3)
    host.joined(again)
    host.listed(listener("a", stamp=1), listener("b"))
    assert member.view.get(again.endpoint) == again and len(member.view) == 3


@pytest.mark.spec("C-140", "C-066")
def test_who_has_left_before_the_list_came_is_not_in_it():
    host = Host()
    [member] = host.join(1)
    gone = listener("a", stamp=1)
    host.joined(gone)
    host.left(gone, stamp=2)
    host.listed(gone, listener("b"))
    assert gone.endpoint not in member.view and len(member.view) == 2


def test_a_newcomer_that_leaves_waits_for_nothing():
    host = Host()
    [member] = host.join(1)
    host.joined(listener("a"))
    effects = host.step(ev.LeaveAsked(member.me, 7, G))
    assert [type(item) for item in items(effects)] == [ev.Parted]
    assert host.core.receptions == {} and host.core.members == {}


def hears(count):
    """A host with so many members that all hear one speaker of their LAN."""
    host = Host()
    [first, *_] = host.join(count)
    delegate, speaker = delegate_of("huji"), user("huji.h2/speaker")
    host.listed(delegate, speaker)
    reply = SyncReply(G, first.state.req, 1, (cut("huji", entry(speaker, 1), h1=count, h2=1),), Channel())
    host.step(Received(HUJI, Routed(host.new_id(), delegate.endpoint, (first.me,), encode(reply))))
    return host, delegate, speaker


def syncing(count, *speakers):
    """A host with so many members, of whose first reply a piece has come that begins these speakers."""
    host = Host()
    [first, *_] = host.join(count)
    delegate = delegate_of("huji")
    host.listed(delegate, *speakers)

    def reply(*entries, last):
        cuts = (cut("huji", *entries, h1=count, h2=1),)
        said = encode(SyncReply(G, first.state.req, 1, cuts, Channel(), last))
        return host.step(Received(HUJI, Routed(host.new_id(), delegate.endpoint, (first.me,), said)))

    reply(*[entry(each, 1) for each in speakers], last=False)
    assert set(first.senders.running) == {each.endpoint for each in speakers}, "none waits for the last piece"
    return host, reply


@pytest.mark.spec("X-030")
def test_what_a_sender_says_between_the_pieces_of_the_first_reply_comes_after_the_list():
    speaker = user("huji.h2/speaker")
    host, reply = syncing(2, speaker)
    assert items(says(host, speaker, 1)) == []
    [*lists, one, two] = items(reply(last=True))
    assert [type(each) for each in lists] == [ev.Ready] * 2 and type(one) is type(two) is ev.Delivered


@pytest.mark.spec("X-030", "TX-6")
def test_a_sender_that_leaves_between_the_pieces_of_the_first_reply_is_nothing_to_the_members():
    speaker = user("huji.h2/speaker")
    host, reply = syncing(2, speaker)
    assert items(host.left(speaker, stamp=2)) == []
    says(host, speaker, 1)
    [one, two] = items(reply(last=True))
    assert one is two and speaker.endpoint not in [who for who, *_ in one.members]
    [member, _] = host.core.members[G].values()
    assert not member.senders.running


@pytest.mark.spec("TX-10")
def test_of_a_reply_whose_delegate_went_before_its_last_piece_nothing_is_left():
    """Its successor gives the starts of its own."""
    host, _ = syncing(2, user("huji.h2/speaker"))
    [member, _] = host.core.members[G].values()
    host.joined(delegate_of("huji", epoch=2))
    assert not member.senders.running


@pytest.mark.spec("X-048")
def test_streams_that_end_in_one_datagram_are_one_item_for_each_reader():
    """A crowd that died made as many items of it for each of its readers: steps of 190 ms."""
    host, _, speaker = hears(3)
    other = user("huji.h2/other", stamp=5)
    host.joined(other)
    for each in (speaker, other):
        gone = EndpointLeft(host.new_id(), G, each.endpoint, (1, 9), Cause.CRASH)
        assert items(host.step(Received(HUJI, gone))) == [], "its last number is not known"
    ends = tuple([Heartbeat((Pulse(each.endpoint, 0, 0, True),)) for each in (speaker, other)])
    told = [each for each in host.step(ev.Heard(G, HUJI, ends)) if isinstance(each, ev.Deliver)]
    assert [len(each.item.items) for each in told] == [2] * 3
    assert [each.endpoint for each in items(told[:1])] == [speaker.endpoint, other.endpoint]


def says(host, speaker, number):
    return host.step(ev.Heard(G, Domain("huji.h2"), (data(speaker, number),)))


def ends_told(effects, speaker):
    """To whom it was told that this one left."""
    return [
        each.endpoint
        for each in effects
        if isinstance(each, ev.Deliver)
        and any(isinstance(item, ev.Left) and item.endpoint == speaker for item in items([each]))
    ]


@pytest.mark.spec("X-048", "X-030")
def test_a_stream_that_ended_before_a_newcomer_has_its_list_waits_for_nobody_after_it():
    """The newcomer was owed what was said since it joined, until its list came without the speaker."""
    host, delegate, speaker = hears(1)
    [old, new] = host.join(1, first=1)
    says(host, speaker, 1)
    assert ends_told(host.left(speaker, stamp=2), speaker.endpoint) == [old.me]
    assert new.me in old.senders.running[speaker.endpoint].inbound.lagging
    host.listed(delegate)
    assert new.ready and speaker.endpoint not in old.senders.running


@pytest.mark.spec("X-048", "X-090")
def test_who_was_told_that_a_sender_left_is_not_told_so_again_when_it_is_back():
    """Another did not read to the end of it, and by now neither does this one."""
    host, _, speaker = hears(2)
    [reads, waits] = host.core.members[G].values()
    host.step(ev.Paused(waits.me, G))
    says(host, speaker, 1)
    assert ends_told(host.left(speaker, stamp=2), speaker.endpoint) == [reads.me]
    host.step(ev.Paused(reads.me, G))
    back = user("huji.h2/speaker", stamp=3, next_seq=2)
    assert ends_told(host.joined(back), speaker.endpoint) == [waits.me]


def said_and_left(host, number, group):
    """A program that opens an endpoint, says something in a group and leaves it."""
    [opened] = [each for each in host.step(Asked("", number, Open(f"p{number}"))) if isinstance(each, Answer)]
    me = opened.result.endpoint
    host.step(ev.JoinAsked(me, number, group, number))
    member = host.core.members[group][me]
    member.sending.open()
    host.step(ev.Submitted(me, group, 1, block_of([b"m"])))
    host.step(ev.Heard(group, Domain("huji"), (Heartbeat((Pulse(me, 1, 1),)),)))
    host.step(ev.LeaveAsked(me, number, group))
    assert me not in host.core.members.get(group, {}) and host.core._numbers[me][group] == 2
    return me


@pytest.mark.spec("TX-11")
@pytest.mark.parametrize("ends", ["closes", "dies"])
def test_where_the_streams_of_an_endpoint_go_on_is_known_for_as_long_as_it_is_open(ends):
    host = Host()
    for number in range(1, 20):
        me = said_and_left(host, number, Group(f"g{number}", HUJI))
        host.step(EndpointGone(me) if ends == "dies" else Asked(me, 99, Close()))
    assert host.core._numbers == {}


def test_what_an_endpoint_had_asked_when_it_died_is_forgotten_with_it():
    host = Host()
    [first, second] = host.join(2)
    host.now = 60.0
    host.step(TimerFired(first.reception.context._key("snapshot", "")))
    assert [question.asker for question in host.core._asked.values()] == [first.me]
    host.step(EndpointGone(first.me))
    assert host.core._asked == {}
    host.step(TimerFired(second.reception.context._key("snapshot", "")))
    assert [question.asker for question in host.core._asked.values()] == [second.me]
