"""A member of a group, one step at a time: the streams of others, data and ends (table 4.3)."""

import pytest
from support.fifobench import (
    G,
    MemberBench,
    asked,
    controls,
    cut,
    data,
    delegate,
    entry,
    items,
    numbers,
    speech,
    timers,
    user,
)

from rostra.core.effects import Effect, Noted
from rostra.groups.attributes import Role
from rostra.groups.members import Cause
from rostra.names import Domain
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.messages import (
    CutReply,
    Excluded,
    ForceJoin,
)
from rostra.protocols.fifo.sender import SenderActive, SenderAwaitingEnd, SenderDraining
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Below, Heartbeat, Nak, Poll, Polled, Pulse
from rostra.protocols.relaxed.requests import Leave

NEAR = user("huji.h2/near", next_seq=1)
FAR = user("mit.h1/far", next_seq=1)
MIT = delegate("mit")


# 4.3, data


def flowing(*, start: int = 1, **settings):
    bench = MemberBench(config=FifoConfig(**settings))
    bench.active(cut("huji", entry(NEAR, start), h1=1, h2=1), members=(NEAR,))
    return bench


@pytest.mark.spec("X-004", "X-027", "X-080")
def test_a_hole_holds_back_what_is_behind_it_and_is_asked_for():
    bench = flowing(start=5)
    assert numbers(bench.hear("huji.h2", data(NEAR, 4))) == []
    assert numbers(bench.hear("huji.h2", data(NEAR, 5))) == [5]
    effects = bench.hear("huji.h2", data(NEAR, 8, 2))
    assert numbers(effects) == []
    assert 0.001 <= timers(effects)["recover"] <= 0.010
    effects = bench.fire("recover", now=0.02)
    [nak] = speech(effects)
    assert nak == ev.Cast(G, Nak(NEAR.endpoint, ((6, 7),), Domain("huji.h1")))
    assert numbers(bench.hear("huji", data(NEAR, 6, 2, repair=True))) == [6, 7, 8, 9]
    assert speech(bench.fire("recover", now=0.5)) == []


@pytest.mark.spec("X-080")
def test_a_heartbeat_shows_that_the_last_message_is_missing():
    bench = flowing()
    bench.hear("huji.h2", data(NEAR, 1))
    bench.hear("huji.h2", Heartbeat((Pulse(NEAR.endpoint, 3, 0),)))
    [nak] = speech(bench.fire("recover", now=0.02))
    assert nak.message.ranges == ((2, 3),)


@pytest.mark.spec("X-082")
def test_whoever_hears_the_question_waits():
    bench = flowing()
    bench.hear("huji.h2", data(NEAR, 2))
    before = bench.core.senders.running[NEAR.endpoint].inbound.holes.next_due
    bench.hear("huji.h3", Nak(NEAR.endpoint, ((1, 1),), Domain("huji.h3")))
    assert bench.core.senders.running[NEAR.endpoint].inbound.holes.next_due > before


@pytest.mark.spec("X-081")
def test_a_holder_repairs_after_a_moment_unless_somebody_else_does():
    for heard in (False, True):
        bench = flowing()
        bench.hear("huji.h2", data(NEAR, 1, 5))
        effects = bench.hear("huji.h3", Nak(NEAR.endpoint, ((2, 3),), Domain("huji.h3")))
        assert speech(effects) == []
        if heard:
            bench.hear("huji", data(NEAR, 2, 2, repair=True))
        repairs = speech(bench.fire("recover", now=0.02))
        assert len(repairs) == (0 if heard else 1)
        if not heard:
            assert (repairs[0].message.run.first, repairs[0].message.repair) == (2, True)


@pytest.mark.spec("X-090")
def test_while_the_program_does_not_read_nothing_is_delivered_and_nothing_acknowledged():
    bench = flowing()
    bench.hear("huji.h2", data(NEAR, 1))
    bench.step(ev.Paused(bench.me.endpoint, G))
    assert items(bench.hear("huji.h2", data(NEAR, 2, 3))) == []
    [status] = [each.message for each in speech(bench.fire("status"))]
    assert status.have == ((NEAR.endpoint, 2),)
    assert numbers(bench.step(ev.Resumed(bench.me.endpoint, G))) == [2, 3, 4]


def test_what_everybody_has_is_forgotten():
    bench = flowing()
    bench.hear("huji.h2", data(NEAR, 1, 4))
    bench.hear("huji", Heartbeat((Pulse(NEAR.endpoint, 4, 4),)))
    assert bench.core.senders.running[NEAR.endpoint].inbound.store.messages == 0
    assert speech(bench.fire("status")) == []


@pytest.mark.spec("X-092")
def test_who_left_long_ago_is_forgotten_although_nobody_says_anything():
    """Members that come and go for days, and never speak, must not fill the memory of those who stay."""
    bench = flowing(remember_s=60.0)
    for number in range(100):
        visitor = user(f"huji.h2/v{number}", stamp=10 + 2 * number)
        bench.now = 10.0 * number
        bench.joined(visitor)
        bench.left(visitor, last=0, stamp=11 + 2 * number)
    assert len(bench.core.senders.ended) == len(bench.core.lans.gone) == 6


@pytest.mark.spec("X-092")
def test_of_who_only_listens_nothing_is_noted_but_that_it_is_there():
    """Listeners that come and go for days must not fill the memory of those who stay."""
    bench = flowing()
    for number in range(100):
        bench.joined(user(f"huji.h2/v{number}", stamp=10 + number, role=Role.RECEIVE))
    assert bench.core.lans.fresh == {}


def in_vain(bench: MemberBench, below: Below) -> list[Effect]:
    """What comes of a question, the answer to which is that it is forgotten."""
    [nak] = [each.message for each in speech(bench.fire("recover", now=bench.now + 1))]
    assert nak.ranges[0][0] < below.lowest
    return bench.hear("huji", below)


@pytest.mark.spec("X-006")
def test_what_is_lost_without_a_reason_is_told_and_costs_nothing_else():
    """A stream's home may lie. That must not cost a receiver what others say."""
    bench = flowing()
    other = user("huji.h2/other", stamp=9)
    bench.joined(other)
    bench.hear("huji.h2", data(other, 1))
    bench.hear("huji.h2", data(NEAR, 3))
    bench.hear("huji.h2", data(NEAR, 7))
    below = Below(NEAR.endpoint, 6, Domain("huji"))
    assert items(in_vain(bench, below)) == []
    assert items(in_vain(bench, below)) == []
    effects = in_vain(bench, below)
    assert [each.about for each in effects if isinstance(each, Noted)] == [
        f"{NEAR.endpoint} 1 to 2",
        f"{NEAR.endpoint} 4 to 5",
    ]
    before, held, behind = items(effects)
    assert (before, behind) == (ev.Gap(NEAR.endpoint, 1, 2), ev.Gap(NEAR.endpoint, 4, 5))
    assert (held.stream, held.run.first, held.run.count) == (NEAR.endpoint, 3, 1)
    assert numbers(bench.hear("huji.h2", data(NEAR, 6))) == [6, 7], "what is not lost is still owed"
    assert numbers(bench.hear("huji.h2", data(other, 2))) == [2]
    assert (NEAR.endpoint, 8) in bench.core.senders.have()


@pytest.mark.spec("X-006")
def test_what_is_lost_is_told_to_a_program_in_its_turn():
    """It comes behind what the program has not read yet."""
    bench = flowing()
    bench.step(ev.Paused(bench.me.endpoint, G))
    bench.hear("huji.h2", data(NEAR, 1))
    bench.hear("huji.h2", data(NEAR, 4))
    below = Below(NEAR.endpoint, 4, Domain("huji"))
    for _ in range(4):
        assert items(in_vain(bench, below)) == []
    assert numbers(bench.step(ev.Resumed(bench.me.endpoint, G))) == [1]
    effects = [each for _ in range(3) for each in items(in_vain(bench, below))]
    assert effects[0] == ev.Gap(NEAR.endpoint, 2, 3)
    assert [each.run.first for each in effects[1:]] == [4]


@pytest.mark.spec("X-006", "X-084")
def test_what_is_forgotten_is_believed_to_be_lost_after_some_questions_and_not_after_some_answers():
    """One question is several datagrams, each of which is answered; and so are those of others of our host.
    A repair by somebody else may still be on its way."""
    bench = flowing()
    for number in (2, 4, 6):
        bench.hear("huji.h2", data(NEAR, number))
    below = Below(NEAR.endpoint, 6, Domain("huji"))
    assert items(bench.hear("huji", *[below] * 9)) == [], "we have not asked at all"
    assert items(in_vain(bench, below)) == []
    assert items(bench.hear("huji", *[below] * 9)) == [], "answers to what others of our host asked"
    assert items(in_vain(bench, below)) == []
    assert numbers(bench.hear("huji.h2", data(NEAR, 1, repair=True))) == [1, 2]
    assert items(in_vain(bench, below)) == [] and items(in_vain(bench, below)) == []
    assert items(in_vain(bench, below))[0] == ev.Gap(NEAR.endpoint, 3, 3)


# 4.3, ends


@pytest.mark.spec("X-048")
def test_a_leaver_is_delivered_to_its_last_message_and_then_is_gone():
    bench = flowing()
    bench.hear("huji.h2", data(NEAR, 1))
    effects = bench.left(NEAR, last=3)
    assert items(effects) == []
    assert timers(effects)[f"drain {NEAR.endpoint}"] == 30.0, "everything up to its last word is owed"
    effects = bench.hear("huji", data(NEAR, 2, 2, repair=True))
    assert numbers(effects) == [2, 3]
    assert items(effects)[-1] == ev.Left(NEAR.endpoint, "left", 3)
    assert items(bench.hear("huji", data(NEAR, 4))) == []


@pytest.mark.spec("X-048", "X-121")
def test_what_a_leaver_says_when_it_is_back_is_not_delivered_before_it_has_joined():
    """It left and joined again while its last words were still looked for."""
    bench = flowing()
    bench.hear("huji.h2", data(NEAR, 1))
    bench.left(NEAR, last=3)
    bench.hear("huji.h2", data(NEAR, 4), Heartbeat((Pulse(NEAR.endpoint, 4, 0, False),)))
    effects = bench.hear("huji", data(NEAR, 2, 2, repair=True))
    assert numbers(effects) == [2, 3]
    assert items(effects)[-1] == ev.Left(NEAR.endpoint, "left", 3)
    bench.joined(user("huji.h2/near", next_seq=4, stamp=100))
    assert numbers(bench.hear("huji.h2", data(NEAR, 4))) == [4]


@pytest.mark.spec("X-006", "X-121")
def test_a_sender_that_is_back_to_receive_only_has_left_before_it_joins():
    """It was lost with its LAN, left there, and joined again without sending. Its end was told two seconds
    after that: for the others it was gone."""
    bench = MemberBench()
    bench.active(cut("mit", entry(FAR, 1), h1=1), members=(FAR, MIT))
    bench.hear("mit", data(FAR, 1))
    bench.hear("mit", Heartbeat((Pulse(FAR.endpoint, 3, 0, False),)))
    bench.without("mit")
    back = user("mit.h1/far", role=Role.RECEIVE, stamp=7)
    told = [
        each for each in items(bench.joined(MIT, back, cause=Cause.MERGE)) if each.endpoint == FAR.endpoint
    ]
    assert told == [ev.Left(FAR.endpoint, "disconnected", 1), ev.Joined(FAR.endpoint, Role.RECEIVE)]
    assert items(bench.fire("drain", FAR.endpoint)) == []


@pytest.mark.spec("X-006", "X-048")
def test_the_last_words_of_a_leaver_are_waited_for_no_longer_once_its_lan_is_lost():
    bench = MemberBench()
    bench.active(cut("mit", entry(FAR, 1), h1=1), members=(FAR, MIT))
    bench.hear("mit", data(FAR, 1))
    assert timers(bench.left(FAR, last=3))[f"drain {FAR.endpoint}"] == 30.0
    assert timers(bench.without("mit"))[f"drain {FAR.endpoint}"] == 2.0
    assert items(bench.fire("drain", FAR.endpoint)) == [ev.Left(FAR.endpoint, "left", 1)]


@pytest.mark.spec("X-049", "X-059")
def test_what_is_behind_a_hole_when_the_time_is_up_is_dropped():
    bench = flowing()
    bench.hear("huji.h2", data(NEAR, 1), data(NEAR, 3))
    bench.left(NEAR)
    assert items(bench.fire("drain", NEAR.endpoint)) == [ev.Left(NEAR.endpoint, "failed", 1)]
    assert items(bench.hear("huji", data(NEAR, 2, repair=True))) == []


@pytest.mark.spec("X-050")
def test_a_crashed_sender_ends_where_its_home_says():
    bench = flowing()
    bench.hear("huji.h2", data(NEAR, 1, 2))
    sender = bench.core.senders.running[NEAR.endpoint]
    assert sender.state == SenderActive()
    assert items(bench.left(NEAR)) == [] and sender.state == SenderAwaitingEnd()
    bench.hear("huji", Heartbeat((Pulse(NEAR.endpoint, 4, 0, final=True),)))
    assert sender.state == SenderDraining("failed", 4)
    effects = bench.hear("huji", Heartbeat((Pulse(NEAR.endpoint, 2, 0, final=True),)))
    assert items(effects) == [ev.Left(NEAR.endpoint, "failed", 2)]


@pytest.mark.spec("X-057", "X-058")
def test_a_lost_domain_is_one_event_and_then_its_members_and_nothing_more_of_them():
    bench = MemberBench()
    other = user("mit.h2/other")
    bench.active(cut("mit", entry(FAR, 1), entry(other, 1), h1=1, h2=1), members=(FAR, other, MIT))
    bench.hear("mit", data(FAR, 1))
    effects = bench.without("mit")
    assert [type(item) for item in items(effects)] == [ev.Without, ev.Left, ev.Left]
    assert len([effect for effect in effects if isinstance(effect, ev.Deliver)]) == 2, "one item for both"
    assert items(effects)[1:] == [
        ev.Left(FAR.endpoint, "disconnected", 1),
        ev.Left(other.endpoint, "disconnected", 0),
    ]
    assert items(bench.hear("mit", data(FAR, 2))) == []
    assert Domain("mit") not in bench.core.lans.machines


@pytest.mark.spec("X-064")
@pytest.mark.parametrize(
    ("start", "told"),
    [
        (4, [ev.Joined(FAR.endpoint, Role.BOTH, b"", True)]),
        (2, [ev.Joined(FAR.endpoint, Role.BOTH, b"", True)]),
        (9, [ev.Gap(FAR.endpoint, 4, 8), ev.Joined(FAR.endpoint, Role.BOTH)]),
    ],
)
def test_a_stream_that_returns_says_what_was_missed(start, told):
    bench = MemberBench()
    bench.active(cut("mit", entry(FAR, 1), h1=1), members=(FAR, MIT))
    bench.hear("mit", data(FAR, 1, 3))
    bench.without("mit")
    effects = bench.joined(MIT, FAR, cause=Cause.MERGE)
    [request] = controls(effects)
    assert request.have == ((FAR.endpoint, 4),)
    effects = bench.message(bench.source, CutReply(G, request.req, 1, cut("mit", entry(FAR, start), h1=1)))
    assert items(effects) == told
    assert numbers(bench.hear("mit", data(FAR, max(start, 4)))) == [max(start, 4)]


@pytest.mark.spec("X-017", "X-064")
@pytest.mark.parametrize(("start", "missed"), [(4, []), (9, [ev.Gap(FAR.endpoint, 4, 8)])])
def test_a_stream_that_returns_before_its_notice_says_what_was_missed_with_it(start, missed):
    bench = MemberBench()
    other = user("mit.h2/other", stamp=3)
    bench.active(cut("mit", entry(FAR, 1), h1=1), members=(FAR, MIT))
    bench.hear("mit", data(FAR, 1, 3))
    bench.without("mit")
    [request] = controls(bench.joined(MIT, other, cause=Cause.MERGE))
    reply = CutReply(G, request.req, 1, cut("mit", entry(FAR, start), entry(other, 1), h1=1, h2=3))
    assert not [item for item in items(bench.message(bench.source, reply)) if item.endpoint == FAR.endpoint]
    assert items(bench.hear("mit", data(FAR, start))) == []
    *told, joined, delivered = items(bench.joined(FAR, cause=Cause.MERGE))
    assert told == missed and joined == ev.Joined(FAR.endpoint, Role.BOTH, b"", not missed)
    assert delivered.run.first == start


@pytest.mark.spec("X-064", "X-122")
def test_a_new_incarnation_is_a_new_stream():
    bench = MemberBench()
    bench.active(cut("mit", entry(FAR, 1), h1=1), members=(FAR, MIT))
    bench.hear("mit", data(FAR, 1, 3))
    bench.left(FAR)
    again = user("mit.h1/far", next_seq=1, stamp=100, life=2)
    assert items(bench.joined(again)) == [ev.Joined(again.endpoint, Role.BOTH)]
    effects = bench.hear("mit", data(FAR, 4), data(again, 1))
    assert [item.stream for item in items(effects) if isinstance(item, ev.Delivered)] == [
        FAR.endpoint,
        again.endpoint,
    ]


# 4.1, beside a stream


def test_without_a_delegate_the_streams_of_our_lan_go_on_and_we_force_one_in():
    bench = flowing()
    assert timers(bench.left(bench.delegate))["force"] == 1.0
    assert numbers(bench.hear("huji.h2", data(NEAR, 1))) == [1]
    assert [type(message) for message in controls(bench.fire("force"))] == [ForceJoin]


@pytest.mark.spec("X-091")
def test_whoever_is_too_slow_is_told_so_and_leaves():
    bench = flowing()
    effects = bench.message(bench.source, Excluded(G, "too slow", ()))
    assert items(effects)[0] == ev.Excluded("too slow")
    assert [type(request) for request in asked(effects)] == [Leave]


@pytest.mark.spec("X-050")
def test_a_poll_is_answered_with_how_far_we_have_it():
    bench = flowing()
    bench.hear("huji.h2", data(NEAR, 1, 4))
    assert speech(bench.hear("huji", Poll(NEAR.endpoint))) == [
        ev.Transmit(Domain("huji"), G, Polled(NEAR.endpoint, 5))
    ]


def test_a_list_that_is_told_again_brings_nothing_new():
    bench = flowing()
    assert items(bench.listed(bench.me, NEAR, bench.delegate)) == []
