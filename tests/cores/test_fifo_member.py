"""A member of a group, one step at a time: joining, its own stream, leaving (tables 4.1 to 4.3)."""

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

from rostra.core.effects import EndpointGone
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
    ForceJoin,
    StartSync,
    SyncReply,
)
from rostra.protocols.fifo.sender import SenderSemi
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Data, Heartbeat, Nak, Pulse, Status
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
