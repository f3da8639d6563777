"""A member of a group, one step at a time: tables 4.1, 4.2 and 4.3 of the specification."""

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
    ignored,
    items,
    noted,
    numbers,
    speech,
    timers,
    user,
)

from rostra.core.effects import Effect, EndpointGone, Noted
from rostra.groups.attributes import FifoAttributes, Role
from rostra.groups.kinds import FIFO
from rostra.groups.members import Cause
from rostra.names import Domain
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.lan import LanPhase
from rostra.protocols.fifo.member import Active, Leaving, Outside, Syncing, WaitingDelegate, WaitingSnapshot
from rostra.protocols.fifo.messages import (
    Channel,
    CutReply,
    CutRequest,
    Excluded,
    ForceJoin,
    StartSync,
    SyncReply,
)
from rostra.protocols.fifo.sender import SenderActive, SenderAwaitingEnd, SenderDraining, SenderSemi
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Below, Data, Heartbeat, Nak, Poll, Polled, Pulse, Status
from rostra.protocols.relaxed.requests import Join, Leave, Resolve

NEAR = user("huji.h2/near", next_seq=1)
FAR = user("mit.h1/far", next_seq=1)
MIT = delegate("mit")


# 4.1, joining


@pytest.mark.spec("X-010")
def test_0_to_1_a_join_says_the_number_of_the_next_message():
    bench = MemberBench(next_seq=42)
    effects = bench.join()
    [join] = asked(effects)
    assert isinstance(join, Join)
    assert (join.group_kind, join.attributes) == (FIFO, FifoAttributes(Role.BOTH, 42))
    assert timers(effects) == {"snapshot": 3.0}
    assert bench.core.state == WaitingSnapshot(3.0)
    assert items(effects) == [ev.Credit(1024)]


@pytest.mark.spec("X-011", "X-012", "X-013")
def test_1_to_2_our_delegate_is_listed_so_we_ask_it_and_may_speak():
    bench = MemberBench()
    bench.join()
    bench.submit(3)
    effects = bench.listed(bench.me, bench.delegate)
    assert controls(effects) == [StartSync(G, 1, Role.BOTH, 1, 1)]
    assert bench.core.state == Syncing(1, 1)
    [cast] = speech(effects)
    assert (cast.message.run.first, cast.message.run.count) == (1, 3)
    assert timers(effects)["sync"] == 0.25


@pytest.mark.spec("X-011")
def test_1_to_5_our_delegate_is_not_listed_so_we_force_it_and_stay_silent():
    bench = MemberBench()
    bench.join()
    bench.submit(3)
    effects = bench.listed(bench.me)
    assert controls(effects) == [ForceJoin(G, 1)]
    assert timers(effects)["force"] == 1.0
    assert bench.core.state == WaitingDelegate(1)
    assert speech(effects) == []


@pytest.mark.spec("X-011")
def test_5_to_1_its_join_notice_makes_us_ask_again_who_is_there():
    bench = MemberBench()
    bench.join()
    bench.listed(bench.me)
    effects = bench.joined(bench.delegate)
    assert asked(effects) == [Resolve("g", Domain("world"))]
    assert isinstance(bench.core.state, WaitingSnapshot)
    bench.listed(bench.me, bench.delegate)
    assert isinstance(bench.core.state, Syncing)


@pytest.mark.spec("X-022")
def test_questions_are_repeated_with_the_same_number():
    bench = MemberBench()
    bench.join()
    assert asked(bench.fire("snapshot")) == [Resolve("g", Domain("world"))]
    assert bench.core.state == WaitingSnapshot(6.0)
    bench.listed(bench.me)
    assert controls(bench.fire("force")) == [ForceJoin(G, 1)]
    bench.joined(bench.delegate)
    [first] = controls(bench.listed(bench.me, bench.delegate))
    assert controls(bench.fire("sync")) == [first]


@pytest.mark.spec("X-013", "X-092")
def test_a_full_queue_stops_the_program_and_drops_nothing():
    bench = MemberBench(config=FifoConfig(queue_messages=10))
    bench.join()
    bench.submit(10)
    assert ignored(bench.submit(1)) == [("Submitted", "beyond the credit")]
    effects = bench.listed(bench.me, bench.delegate)
    assert [cast.message.run.count for cast in speech(effects)] == [10]
    assert items(effects) == [ev.Credit(20)]


@pytest.mark.spec("X-014", "X-030")
def test_2_to_3_the_reply_makes_a_machine_per_lan_and_per_member_and_tells_one_list():
    bench = MemberBench()
    effects = bench.active(
        cut("huji", entry(NEAR, 7), h1=1, h2=1), cut("mit", entry(FAR, 9), h1=1), members=(NEAR, FAR, MIT)
    )
    assert isinstance(bench.core.state, Active)
    assert items(effects) == [
        ev.Ready(
            (
                (bench.me.endpoint, Role.BOTH, b""),
                (NEAR.endpoint, Role.BOTH, b""),
                (FAR.endpoint, Role.BOTH, b""),
            )
        )
    ]
    assert {name: lan.phase for name, lan in bench.core.lans.machines.items()} == {
        "huji": LanPhase.ACTIVE,
        "mit": LanPhase.ACTIVE,
    }
    assert {who: sender.inbound.start for who, sender in bench.core.senders.running.items()} == {
        NEAR.endpoint: 7,
        FAR.endpoint: 9,
    }


@pytest.mark.spec("X-022")
def test_a_reply_that_was_not_asked_for_is_dropped():
    bench = MemberBench()
    bench.join()
    bench.listed(bench.me, bench.delegate)
    for req, epoch in ((2, 1), (1, 2)):
        effects = bench.message(bench.source, SyncReply(G, req, epoch, (), Channel()))
        assert ignored(effects) == [("SyncReply", "not asked for")]
    assert isinstance(bench.core.state, Syncing)


def test_a_reply_in_pieces_counts_when_the_last_one_is_in():
    bench = MemberBench()
    bench.join()
    bench.listed(bench.me, bench.delegate, NEAR, FAR, MIT)
    first = SyncReply(G, 1, 1, (cut("huji", entry(NEAR, 7), h2=1),), Channel(), last=False)
    assert items(bench.message(bench.source, first)) == []
    assert isinstance(bench.core.state, Syncing)
    bench.message(bench.source, SyncReply(G, 1, 1, (cut("mit", entry(FAR, 9), h1=1),), Channel()))
    assert set(bench.core.senders.running) == {NEAR.endpoint, FAR.endpoint}


def test_2_to_1_our_delegate_is_replaced_while_it_owes_us_an_answer():
    bench = MemberBench()
    bench.join()
    bench.listed(bench.me, bench.delegate)
    assert asked(bench.joined(delegate("huji", 2))) == [Resolve("g", Domain("world"))]
    assert isinstance(bench.core.state, WaitingSnapshot)
    [question] = controls(bench.listed(bench.me, bench.delegate, delegate("huji", 2)))
    assert question.epoch == 2


# 4.3, the start of a stream


@pytest.mark.spec("X-015", "X-028")
def test_a_join_notice_is_enough_where_the_lan_is_complete():
    bench = MemberBench()
    bench.active(cut("mit", h1=1), members=(MIT,))
    late = user("mit.h1/late", next_seq=5, stamp=2)
    effects = bench.joined(late)
    assert items(effects) == [ev.Joined(late.endpoint, Role.BOTH)]
    assert controls(effects) == []
    assert numbers(bench.hear("mit", data(late, 5, 2))) == [5, 6]


@pytest.mark.spec("X-028", "X-020")
def test_the_number_of_a_merge_is_old_and_our_delegate_is_asked():
    bench = MemberBench()
    bench.active(cut("mit", h1=1), members=(MIT,))
    back = user("mit.h2/back", next_seq=1, stamp=3)
    effects = bench.joined(back, cause=Cause.MERGE)
    assert items(effects) == []
    assert controls(effects) == [CutRequest(G, 2, 1, Domain("mit"), (back.endpoint,))]
    effects = bench.message(bench.source, CutReply(G, 2, 1, cut("mit", entry(back, 1_000_000), h2=3)))
    assert items(effects) == [ev.Joined(back.endpoint, Role.BOTH)]
    assert bench.core.senders.running[back.endpoint].inbound.next == 1_000_000


@pytest.mark.spec("X-016", "X-017")
def test_a_sender_known_by_its_number_alone_is_held_until_its_notice_comes():
    bench = MemberBench()
    effects = bench.active(cut("huji", entry(NEAR, 3), h1=1, h2=1))
    assert timers(effects)[f"semi {NEAR.endpoint}"] == 5.0
    assert bench.core.senders.running[NEAR.endpoint].state == SenderSemi()
    assert items(bench.hear("huji.h2", data(NEAR, 3, 4))) == []
    [status] = [each.message for each in speech(bench.fire("status"))]
    assert status == Status(bench.me.endpoint, ((NEAR.endpoint, 7),))
    effects = bench.joined(NEAR)
    assert items(effects)[0] == ev.Joined(NEAR.endpoint, Role.BOTH)
    assert numbers(effects) == [3, 4, 5, 6]


@pytest.mark.spec("X-018")
@pytest.mark.parametrize("known", [True, False])
def test_one_question_decides_about_a_notice_that_does_not_come(known):
    bench = MemberBench()
    bench.active(cut("huji", entry(NEAR, 3), h1=1, h2=1))
    bench.hear("huji.h2", data(NEAR, 3))
    assert asked(bench.fire("semi", NEAR.endpoint)) == [Resolve("g", Domain("world"))]
    listed = (bench.me, bench.delegate, *((NEAR,) if known else ()))
    effects = bench.listed(*listed)
    assert numbers(effects) == ([3] if known else [])
    assert (NEAR.endpoint in bench.core.senders.running) is known


@pytest.mark.spec("X-030")
def test_whoever_leaves_while_semi_active_leaves_no_trace_and_is_not_revived():
    bench = MemberBench()
    bench.active(cut("huji", entry(NEAR, 3), h1=1, h2=1))
    bench.hear("huji.h2", data(NEAR, 3))
    assert items(bench.left(NEAR, last=3, stamp=2)) == []
    assert not bench.core.senders.follows(NEAR.endpoint)
    bench.core.lans.apply(cut("huji", entry(NEAR, 3), h1=1, h2=1))
    assert not bench.core.senders.follows(NEAR.endpoint)


@pytest.mark.spec("X-030")
@pytest.mark.parametrize(
    ("order", "listed", "start"),
    [
        ("notice", True, 8),  # listed: the reply's start counts
        ("notice", False, 5),  # newer than the cut: the notice's number counts
        ("floor", False, None),  # in the cut and not listed: it has left, its notice is on the way
    ],
)
def test_a_notice_that_came_before_the_reply_is_compared_with_it(order, listed, start):
    bench = MemberBench()
    bench.join()
    bench.listed(bench.me, bench.delegate)
    late = user("huji.h2/late", next_seq=5, stamp=4)
    bench.joined(late)
    entries = (entry(late, 8),) if listed else ()
    floor = 4 if order == "floor" or listed else 3
    bench.message(bench.source, SyncReply(G, 1, 1, (cut("huji", *entries, h1=1, h2=floor),), Channel()))
    senders = bench.core.senders
    running = senders.running.get(late.endpoint)
    assert (None if running is None else running.inbound.start) == start
    assert (late.endpoint in senders.announced) is (start is None)


@pytest.mark.spec("X-033")
def test_data_before_its_start_is_kept_and_used_from_the_start_on():
    bench = MemberBench()
    bench.join()
    bench.listed(bench.me, bench.delegate, NEAR)
    assert items(bench.hear("huji.h2", data(NEAR, 6, 2), data(NEAR, 8, 2))) == []
    effects = bench.message(
        bench.source, SyncReply(G, 1, 1, (cut("huji", entry(NEAR, 7), h1=1, h2=1),), Channel())
    )
    assert isinstance(items(effects)[0], ev.Ready)
    assert numbers(effects) == [7, 8, 9]
    assert not [each for each in speech(effects) if isinstance(each.message, Nak)]


@pytest.mark.spec("X-019", "X-020", "X-032")
def test_a_lan_whose_delegate_is_not_there_is_waited_for_and_no_other():
    bench = MemberBench()
    effects = bench.active(cut("huji", entry(NEAR, 1), h1=1, h2=1), members=(NEAR, FAR))
    assert items(effects)[0] == ev.Ready(
        ((bench.me.endpoint, Role.BOTH, b""), (NEAR.endpoint, Role.BOTH, b""))
    )
    assert bench.core.lans.machines[Domain("mit")].phase is LanPhase.WAIT_DELEGATE
    assert numbers(bench.hear("huji.h2", data(NEAR, 1))) == [1]
    assert numbers(bench.hear("mit", data(FAR, 4))) == []
    effects = bench.joined(MIT)
    assert controls(effects) == [CutRequest(G, 2, 1, Domain("mit"))]
    assert controls(bench.fire("cut", "mit")) == [CutRequest(G, 2, 1, Domain("mit"))]
    effects = bench.message(bench.source, CutReply(G, 2, 1, cut("mit", entry(FAR, 3), h1=1)))
    assert items(effects) == [ev.Joined(FAR.endpoint, Role.BOTH)]
    assert numbers(bench.hear("mit", data(FAR, 3))) == [3, 4]


def test_a_cut_that_nobody_asked_for_changes_nothing():
    bench = MemberBench()
    bench.active()
    effects = bench.message(bench.source, CutReply(G, 77, 1, cut("mit", entry(FAR, 3), h1=1)))
    assert ignored(effects) == [("CutReply", "not asked for")]


@pytest.mark.spec("X-052", "X-053")
def test_whoever_only_receives_is_in_the_view_and_costs_nothing_else():
    bench = MemberBench()
    bench.active()
    reader = user("mit.h1/reader", role=Role.RECEIVE)
    assert items(bench.joined(reader)) == [ev.Joined(reader.endpoint, Role.RECEIVE)]
    assert not bench.core.senders.follows(reader.endpoint)
    assert items(bench.left(reader, last=0)) == [ev.Left(reader.endpoint, "left", None)]


@pytest.mark.spec("X-052")
def test_a_receiver_may_not_send_and_a_sender_is_delivered_nothing():
    reader = MemberBench(role=Role.RECEIVE)
    reader.active()
    assert ignored(reader.submit(1)) == [("Submitted", "a receiver only")]
    writer = MemberBench(role=Role.SEND)
    writer.active(cut("huji", entry(NEAR, 1), h1=1, h2=1), members=(NEAR,))
    assert items(writer.hear("huji.h2", data(NEAR, 1))) == []


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


# 4.1, our own stream


@pytest.mark.spec("X-090")
def test_a_sender_stops_a_window_above_what_everybody_has():
    bench = MemberBench(config=FifoConfig(window_messages=8, held_messages=8))
    bench.active()
    effects = bench.submit(10)
    assert [cast.message.run.count for cast in speech(effects)] == [8]
    assert bench.core.sending.blocked and noted(effects, "blocked") == [bench.me.endpoint]
    assert noted(bench.submit(1), "blocked") == [], "it is still"
    effects = bench.hear("huji", Heartbeat((Pulse(bench.me.endpoint, 8, 3),)))
    assert noted(effects, "unblocked") == [bench.me.endpoint]
    assert [(cast.message.run.first, cast.message.run.count) for cast in speech(effects)] == [(9, 2), (11, 1)]
    assert items(effects)[-1] == ev.Sent(3)
    assert not bench.core.sending.blocked


@pytest.mark.spec("X-080")
def test_a_sender_that_falls_silent_says_its_last_number_ever_more_seldom_and_then_no_more():
    bench = MemberBench()
    bench.active()
    bench.now = 1.0
    assert timers(bench.submit(2))["heartbeat"] == pytest.approx(0.05)
    effects = bench.fire("heartbeat", now=1.05)
    assert speech(effects) == [ev.Cast(G, Heartbeat((Pulse(bench.me.endpoint, 2, 0),)))]
    assert timers(effects)["heartbeat"] == pytest.approx(0.05)
    assert timers(bench.fire("heartbeat", now=1.1))["heartbeat"] == pytest.approx(0.1)
    bench.hear("huji", Heartbeat((Pulse(bench.me.endpoint, 2, 2),)))
    said = [len(speech(bench.fire("heartbeat", now=2.0 + n))) for n in range(5)]
    assert said == [1, 1, 1, 0, 0]


@pytest.mark.spec("X-083")
def test_our_delegate_is_repaired_at_once_and_others_after_a_moment():
    bench = MemberBench()
    bench.active()
    bench.submit(5)
    effects = bench.hear("huji", Nak(bench.me.endpoint, ((2, 3),), Domain("huji")))
    [repair] = speech(effects)
    assert (repair.to, repair.message.run.first, repair.message.run.count) == ("huji", 2, 2)
    effects = bench.hear("huji.h2", Nak(bench.me.endpoint, ((2, 3),), Domain("huji.h2")))
    assert speech(effects) == []
    assert 0.002 <= timers(effects)["repair"] <= 0.008
    assert len(speech(bench.fire("repair", now=0.02))) == 1


@pytest.mark.spec("X-100", "X-101")
def test_a_new_delegate_is_told_what_we_have_and_sent_what_is_not_stable():
    bench = MemberBench()
    bench.active(cut("huji", entry(NEAR, 1), h1=1, h2=1), members=(NEAR,))
    bench.hear("huji.h2", data(NEAR, 1, 3))
    bench.submit(5)
    bench.hear("huji", Heartbeat((Pulse(bench.me.endpoint, 5, 2),)))
    effects = bench.joined(delegate("huji", 2))
    [question] = controls(effects)
    assert (question.epoch, question.first, question.have) == (2, 3, ((NEAR.endpoint, 4),))
    assert sum(each.message.run.count for each in speech(effects) if isinstance(each.message, Data)) >= 3
    effects = bench.message(
        bench.source,
        SyncReply(G, question.req, 2, (cut("huji", entry(NEAR, 4), epoch=2, h1=1, h2=1),), Channel()),
    )
    assert items(effects) == []
    assert numbers(bench.hear("huji.h2", data(NEAR, 4))) == [4]


def test_without_a_delegate_the_streams_of_our_lan_go_on_and_we_force_one_in():
    bench = flowing()
    assert timers(bench.left(bench.delegate))["force"] == 1.0
    assert numbers(bench.hear("huji.h2", data(NEAR, 1))) == [1]
    assert [type(message) for message in controls(bench.fire("force"))] == [ForceJoin]


# 4.1, leaving


@pytest.mark.spec("X-047")
def test_a_leave_says_the_last_number_and_stays_until_everybody_has_it():
    bench = MemberBench()
    bench.active()
    bench.submit(3)
    assert asked(bench.step(ev.LeaveAsked(bench.me.endpoint, 2, G))) == [], "not everybody has it yet"
    assert bench.core.departing and isinstance(bench.core.state, Active)
    assert ignored(bench.submit(1)) == [("Submitted", "beyond the credit")]
    assert len(speech(bench.hear("huji", Nak(bench.me.endpoint, ((3, 3),), Domain("huji"))))) == 1
    effects = bench.hear("huji", Heartbeat((Pulse(bench.me.endpoint, 3, 3),)))
    [leave] = asked(effects)
    assert isinstance(leave, Leave) and leave.last == 3
    assert items(effects)[-1] == ev.Parted(0, 0)
    assert bench.core.state == Outside()


@pytest.mark.spec("X-047", "X-101")
def test_one_who_is_leaving_greets_the_successor_of_its_delegate():
    """Only members are found by it, and what they said last is with nobody else."""
    bench = MemberBench()
    bench.active()
    bench.submit(3)
    bench.step(ev.LeaveAsked(bench.me.endpoint, 2, G))
    successor = delegate("huji", 2)
    [question] = controls(bench.joined(successor))
    assert isinstance(question, StartSync) and (question.epoch, question.first) == (2, 1)


@pytest.mark.spec("X-047")
def test_one_who_is_leaving_hears_nothing_more_and_holds_nobody_up():
    bench = MemberBench()
    bench.active()
    bench.submit(3)
    bench.step(ev.LeaveAsked(bench.me.endpoint, 2, G))
    assert items(bench.joined(user("mit.h1/new"))) == []
    bench.step(ev.Paused(bench.me.endpoint, G))
    assert not bench.core.paused


@pytest.mark.spec("X-047")
def test_one_who_is_leaving_and_closes_or_returns_leaves_at_once():
    bench = MemberBench()
    bench.active()
    bench.submit(3)
    bench.step(ev.LeaveAsked(bench.me.endpoint, 2, G))
    [leave] = asked(bench.core.hurry(1.0))
    assert leave.last == 3
    assert bench.core.state == Leaving(said=True)
    assert asked(bench.core.hurry(1.0)) == []


@pytest.mark.spec("X-047")
def test_a_leave_waits_for_the_window_and_reports_what_nobody_confirmed():
    bench = MemberBench(config=FifoConfig(window_messages=8, held_messages=8))
    bench.active()
    bench.submit(10)
    assert asked(bench.step(ev.LeaveAsked(bench.me.endpoint, 2, G))) == []
    assert bench.core.departing
    effects = bench.fire("linger")
    [leave] = asked(effects)
    assert leave.last == 8
    assert items(bench.fire("linger")) == [ev.Parted(unconfirmed=8, unsent=2)]


@pytest.mark.spec("X-013", "X-047")
def test_whoever_leaves_before_anybody_can_hear_it_is_told_what_was_not_sent():
    bench = MemberBench()
    bench.join()
    bench.listed(bench.me)
    bench.submit(4)
    effects = bench.step(ev.LeaveAsked(bench.me.endpoint, 2, G))
    assert items(effects) == [ev.Parted(0, unsent=4)]
    assert bench.core.over


@pytest.mark.spec("X-049")
def test_the_messages_of_a_program_that_died_are_still_repaired():
    bench = MemberBench()
    bench.active()
    bench.submit(3)
    bench.step(EndpointGone(bench.me.endpoint))
    [pulse] = speech(bench.fire("heartbeat"))
    assert pulse.message.pulses == (Pulse(bench.me.endpoint, 3, 0, final=True),)
    bench.hear("huji", Heartbeat((Pulse(bench.me.endpoint, 3, 3),)))
    assert bench.core.over


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
