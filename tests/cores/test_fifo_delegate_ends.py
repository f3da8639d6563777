"""The delegate of a LAN, one step at a time: stability, ends of streams and backups (tables 4.4 and 4.6)."""

import pytest
from support.fifobench import (
    DelegateBench,
    G,
    asked,
    controls,
    data,
    delegate,
    ignored,
    speech,
    timers,
)
from support.fifodelegate import FAR, HUJI, MIT, NTU, READER, A, B, inside, sent, sync, with_mit

from rostra.core.effects import SetTimer
from rostra.groups.attributes import Role
from rostra.groups.members import Cause
from rostra.names import Domain, Endpoint
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.delegate import Backup
from rostra.protocols.fifo.messages import (
    Channel,
    CutReply,
    DelegateMoved,
    Excluded,
    ForceJoin,
    Mirror,
    MirrorAsked,
    Mirrored,
    StartSync,
    ViewId,
)
from rostra.protocols.fifo.relay import RelayActive, RelayAwaitingEnd, RelayDraining, RelayPolling
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import (
    ForwardingTree,
    Heartbeat,
    Nak,
    Poll,
    Polled,
    Progress,
    Pulse,
    Report,
    Status,
)
from rostra.protocols.relaxed.requests import Join, Leave

# 4.6, stability


@pytest.mark.spec("X-087", "X-088", "X-124")
def test_a_message_is_stable_when_every_receiver_and_every_lan_has_it():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 9))
    pins = bench.core.relays.running[A.endpoint].pins
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 8),)))
    assert pins.stable == 0
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 5),)))
    assert pins.stable == 4
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 3),)))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 2, 9),)))
    assert pins.stable == 4
    pulse = Heartbeat((Pulse(A.endpoint, 4, 4),))
    assert [(to, message.pulses) for to, message in sent(bench.fire("announce"), Heartbeat)] == [
        ("LAN", pulse.pulses),
        ("mit", pulse.pulses),
    ]


@pytest.mark.spec("X-088")
def test_a_lans_entry_is_what_its_receivers_have_and_not_what_its_delegate_holds():
    bench = with_mit()
    bench.hear("mit", data(FAR, 1, 9))
    bench.hear("huji.h1", Status(A.endpoint, ((FAR.endpoint, 10),)))
    bench.hear("huji.h2", Status(READER.endpoint, ((FAR.endpoint, 4),)))
    [(to, report)] = sent(bench.fire("report"), Report)
    assert (to, report.entries) == ("mit", (Progress(FAR.endpoint, HUJI, 1, 4),))


@pytest.mark.spec("X-088")
def test_entries_of_other_lans_are_passed_on_unchanged_towards_home():
    bench = with_mit()
    bench.joined(NTU)
    entry_of_ntu = Progress(FAR.endpoint, Domain("ntu"), 1, 4)
    [(to, report)] = sent(bench.hear("ntu", Report((entry_of_ntu,))), Report)
    assert (to, report.entries) == ("mit", (entry_of_ntu,))


@pytest.mark.spec("X-051")
def test_whoever_leaves_no_longer_holds_up_the_others():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 9))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 10),)))
    pins = bench.core.relays.running[A.endpoint].pins
    assert pins.stable == 0
    bench.left(READER)
    assert pins.stable == 9


@pytest.mark.spec("X-066", "X-089")
def test_what_a_lost_lan_has_not_confirmed_is_kept_for_its_return():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 4), data(A, 5, 5))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 5),)))
    bench.without("mit")
    relay = bench.core.relays.running[A.endpoint]
    assert (relay.pins.stable, relay.lowest) == (9, 5)
    bench.joined(MIT, FAR, cause=Cause.MERGE)
    effects = bench.message(MIT.endpoint, ViewId(G, 30, 1, 1, ((A.endpoint, 5),)))
    [answer] = [message for message in controls(effects) if isinstance(message, CutReply)]
    assert [each.start for each in answer.cut.entries] == [5]
    assert relay.pins.lans[Domain("mit")] == (1, 10)


@pytest.mark.spec("X-026", "X-066", "X-089")
def test_what_a_lost_sender_of_ours_will_be_asked_for_is_not_called_stable_meanwhile():
    """Only the control channel to its host is cut: it would hear that everybody else has its messages, and
    forget them. When it is back, newcomers begin where it was lost."""
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 9))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 5),)))
    bench.without("huji.h1")
    effects = bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    effects += bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 10),)))
    effects += bench.fire("announce")
    stable = [pulse.stable for _, beat in sent(effects, Heartbeat) for pulse in beat.pulses]
    bench.joined(A, cause=Cause.MERGE)
    bench.joined(NTU)
    effects = bench.message(NTU.endpoint, ViewId(G, 9, 1, 1))
    [answer] = [message for message in controls(effects) if isinstance(message, CutReply)]
    [start] = [each.start for each in answer.cut.entries]
    assert max(stable, default=0) < start == 5


@pytest.mark.spec("X-064", "X-066")
def test_after_too_long_a_time_a_lost_lan_starts_where_we_are():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 4), data(A, 5, 5))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 5),)))
    bench.without("mit")
    bench.now = 31.0
    bench.hear("huji.h1", data(A, 10, 1))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 11),)))
    bench.joined(MIT, FAR, cause=Cause.MERGE)
    effects = bench.message(MIT.endpoint, ViewId(G, 30, 1, 1, ((A.endpoint, 5),)))
    [answer] = [message for message in controls(effects) if isinstance(message, CutReply)]
    assert [each.start for each in answer.cut.entries] == [11]


# 4.6, ends


@pytest.mark.spec("X-050")
def test_after_a_crash_the_lan_is_polled_and_its_last_number_is_said():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 3))
    effects = bench.left(A)
    assert sent(effects, Poll) == [("LAN", Poll(A.endpoint))]
    bench.hear("huji.h2", Polled(A.endpoint, 6))
    effects = bench.fire("poll", A.endpoint)
    assert bench.core.relays.running[A.endpoint].final == 5
    assert ("mit", Heartbeat((Pulse(A.endpoint, 5, 0, True),), 1)) in sent(effects, Heartbeat)
    assert sent(bench.fire("recover", now=1.0), Nak)[0][1].ranges == ((4, 5),)


@pytest.mark.spec("X-050")
def test_the_end_of_a_crashed_senders_stream_is_polled_for_at_home_and_awaited_elsewhere():
    bench = with_mit()
    ours, theirs = [bench.core.relays.running[each.endpoint] for each in (A, FAR)]
    assert ours.state == theirs.state == RelayActive()
    bench.hear("huji.h1", data(A, 1, 3))
    bench.left(A)
    bench.left(FAR)
    assert (ours.state, theirs.state) == (RelayPolling(4), RelayAwaitingEnd())
    bench.hear("huji.h2", Polled(A.endpoint, 6), Polled(A.endpoint, 5))
    assert ours.state == RelayPolling(6)
    bench.hear("mit", Heartbeat((Pulse(FAR.endpoint, 2, 0, True),)))
    bench.fire("poll", A.endpoint)
    assert (ours.state, theirs.state) == (RelayDraining(5), RelayDraining(2))


def test_a_leaver_is_kept_until_everybody_has_its_last_message():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 3))
    bench.left(A, last=3)
    assert A.endpoint in bench.core.relays.running
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 4),)))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 4),)))
    bench.fire("announce")
    assert A.endpoint not in bench.core.relays.running


@pytest.mark.spec("X-006", "X-048")
def test_a_leaver_is_kept_for_a_lan_that_has_just_asked_for_what_all_others_have():
    """SimConversation storm 420125: it got the half of what it was promised."""
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 4), data(A, 5, 5))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 5),)))
    bench.without("mit")
    bench.joined(MIT, FAR, cause=Cause.MERGE)
    bench.message(MIT.endpoint, ViewId(G, 30, 1, 1, ((A.endpoint, 5),)))
    effects = bench.left(A, last=9)
    [timer] = [each for each in effects if isinstance(each, SetTimer) and "drain" in each.timer]
    assert timer.after_s == bench.core.config.farewell_s
    bench.fire("announce")
    assert A.endpoint in bench.core.relays.running
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 10),)))
    bench.fire("announce")
    assert A.endpoint not in bench.core.relays.running


@pytest.mark.spec("X-006", "X-044", "X-048")
def test_a_delegate_stays_while_somebody_needs_the_last_messages_of_its_lan():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 3))
    bench.left(READER, last=0)
    bench.left(A, last=3)
    effects = bench.fire("linger")
    assert asked(effects) == [] and timers(effects)["linger"] == 10.0
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 4),)))
    bench.fire("announce")
    assert [type(request) for request in asked(bench.fire("linger"))] == [Leave]


@pytest.mark.spec("X-091")
def test_under_expel_the_only_one_that_blocks_has_to_go_after_a_while():
    from rostra.groups.attributes import FifoAttributes, Slow
    from rostra.groups.kinds import FIFO
    from rostra.groups.members import Member

    bench = inside(window_messages=8, held_messages=8)
    slow = Member(Endpoint("huji.h3/slow#1"), (1, 1), b"", FIFO, FifoAttributes(Role.RECEIVE, 1, Slow.EXPEL))
    bench.joined(slow)
    sync(bench, slow)
    bench.hear("huji.h1", data(A, 1, 8))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 9),)))
    for second in range(1, 6):
        assert controls(bench.fire("patience", now=float(second))) == []
    [word] = controls(bench.fire("patience", now=6.0))
    assert word == Excluded(G, "too slow", ((A.endpoint, 1),))
    assert bench.core.relays.running[A.endpoint].pins.stable == 8


@pytest.mark.spec("X-101")
def test_nothing_is_stable_before_everybody_who_was_here_has_said_what_it_has():
    bench = DelegateBench()
    bench.message(A.endpoint, ForceJoin(G, 1))
    bench.listed(bench.me, A, B, READER)
    sync(bench, A, first=5)
    sync(bench, READER, have=((A.endpoint, 5),))
    bench.hear("huji.h1", data(A, 5, 4))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 9),)))
    pins = bench.core.relays.running[A.endpoint].pins
    assert pins.stable == 4
    [reply] = controls(sync(bench, B, have=((A.endpoint, 6),)))
    assert [each.start for each in reply.cuts[0].entries] == [6]
    assert pins.stable == 5


@pytest.mark.spec("X-101")
def test_nothing_is_stable_before_every_lan_that_was_there_has_asked():
    bench = inside(FAR, MIT)
    bench.hear("huji.h1", data(A, 1, 9))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    pins = bench.core.relays.running[A.endpoint].pins
    assert pins.stable == 0
    bench.message(MIT.endpoint, ViewId(G, 9, 1, 1, ((A.endpoint, 4),)))
    assert (pins.stable, pins.lans[Domain("mit")]) == (3, (1, 4))
    silent = inside(FAR, MIT)
    silent.hear("huji.h1", data(A, 1, 9))
    silent.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    silent.fire("awaited")
    assert silent.core.relays.running[A.endpoint].pins.stable == 9


@pytest.mark.spec("X-101")
def test_a_successor_that_does_not_know_how_far_its_lan_was_goes_on_from_there():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 9))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 4),)))
    bench.joined(delegate("mit", 2))
    effects = bench.message(delegate("mit", 2).endpoint, ViewId(G, 1, 2, 1))
    [answer] = [message for message in controls(effects) if isinstance(message, CutReply)]
    assert [each.start for each in answer.cut.entries] == [4]
    assert bench.core.relays.running[A.endpoint].pins.lans[Domain("mit")] == (2, 4)


# 4.4, backups


def backup():
    from rostra.protocols.fifo.delegate import DelegateCore

    bench = DelegateBench()
    bench.core = DelegateCore(G, bench.me.endpoint, FifoConfig(), luck=1, channel=Channel(), backup=True)
    return bench


def mirror(number, *streams, whole=False, epoch=1, ended=()):
    return Mirror(
        G,
        HUJI,
        epoch,
        number,
        whole,
        (A.endpoint, READER.endpoint),
        ((Domain("mit"), 1),),
        tuple(Mirrored(member.endpoint, member.stamp, needed) for member, needed in streams),
        ended,
    )


@pytest.mark.spec("X-100")
def test_a_stream_whose_number_is_unknown_is_mirrored_as_one_that_is_needed_from_its_start():
    from rostra.protocols.fifo.delegate import DelegateCore

    bench = DelegateBench()
    bench.core = DelegateCore(G, bench.me.endpoint, FifoConfig(), luck=1, channel=Channel(), mirrored=True)
    [mirror_of_all] = [each.message for each in bench.inside(A, MIT) if isinstance(each, ev.Replicate)]
    assert A.endpoint in bench.core.relays.unknown
    assert mirror_of_all.streams == (Mirrored(A.endpoint, A.stamp, 1),)


@pytest.mark.spec("X-036", "X-100")
def test_an_active_delegate_tells_its_backups_what_changed():
    from rostra.protocols.fifo.delegate import DelegateCore

    bench = DelegateBench()
    bench.core = DelegateCore(G, bench.me.endpoint, FifoConfig(), luck=1, channel=Channel(), mirrored=True)

    def told(effects):
        return [effect.message for effect in effects if isinstance(effect, ev.Replicate)]

    [first] = told(bench.inside(MIT))
    assert (first.whole, first.number) == (True, 1)
    bench.joined(A)
    [second] = told(bench.fire("mirror"))
    assert (second.whole, second.number, second.members) == (False, 2, (A.endpoint,))
    assert second.streams == (Mirrored(A.endpoint, A.stamp, 1),)
    assert told(bench.fire("mirror")) == []
    [again] = told(bench.step(ev.MirrorReplicated(G, MirrorAsked(G, HUJI))))
    assert again.whole and again.streams == second.streams


@pytest.mark.spec("X-036")
def test_a_backup_keeps_the_image_and_asks_for_what_it_missed_and_says_nothing_else():
    bench = backup()
    assert bench.step(ev.MirrorReplicated(G, mirror(1, (A, 5), (FAR, 9), whole=True))) == []
    assert bench.step(ev.MirrorReplicated(G, mirror(2, (A, 7), ended=(FAR.endpoint,)))) == []
    assert bench.core.mirrors.streams == {A.endpoint: Mirrored(A.endpoint, A.stamp, 7)}
    assert bench.step(ev.MirrorReplicated(G, mirror(4, (A, 9)))) == [ev.Replicate(G, MirrorAsked(G, HUJI))]
    assert ignored(bench.hear("huji.h1", data(A, 7))) == [("Heard", "not in the group")]
    assert ignored(sync(bench, A)) == [("StartSync", "a backup")]


@pytest.mark.spec("X-100", "X-101")
def test_4_to_1_to_2_an_appointed_backup_goes_on_where_the_image_says():
    bench = backup()
    bench.step(ev.MirrorReplicated(G, mirror(1, (A, 7), (FAR, 9), whole=True)))
    effects = bench.step(ev.Appointed(2))
    assert [type(request) for request in asked(effects)] == [Join]
    assert [message for message in controls(effects) if isinstance(message, DelegateMoved)] == [
        DelegateMoved(G, HUJI, 1, 2)
    ] * 3
    new = delegate("huji", 2)
    bench.me = new
    effects = bench.listed(new, A, READER, FAR, MIT)
    [question] = [message for message in controls(effects) if isinstance(message, ViewId)]
    assert (question.epoch, question.have) == (2, ((FAR.endpoint, 9),))
    relay = bench.core.relays.running[A.endpoint]
    assert relay.inbound.next == 7 and relay.pins.lans == {Domain("mit"): (1, 7)}
    bench.message(A.endpoint, StartSync(G, 1, Role.BOTH, 2, 9))
    assert (relay.inbound.next, relay.pins.stable) == (9, 8)


@pytest.mark.spec("X-104", "X-125")
def test_2_to_4_a_delegate_that_sees_a_higher_epoch_of_its_lan_falls_silent():
    bench = with_mit()
    effects = bench.joined(delegate("huji", 2))
    assert [type(request) for request in asked(effects)] == [Leave]
    assert isinstance(bench.core.state, Backup)
    assert speech(bench.hear("huji.h1", data(A, 1))) == []
    assert controls(sync(bench, A)) == []
    stale = backup()
    stale.step(ev.MirrorReplicated(G, mirror(1, whole=True, epoch=3)))
    assert ignored(stale.step(ev.Appointed(3))) == [("Appointed", "not above the epochs before")]


@pytest.mark.spec("X-101")
def test_a_lan_whose_delegate_is_gone_is_owed_what_it_was_until_a_successor_asks():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 9))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    bench.without("mit.-delegate")
    pins = bench.core.relays.running[A.endpoint].pins
    assert pins.stable == 0
    bench.fire("orphaned", "mit")
    assert pins.stable == 9


@pytest.mark.spec("X-080")
def test_a_heartbeat_from_where_the_tree_has_it_come_from_reaches_the_lan():
    """A repair from home made that the direction; heartbeats of the tree were no news to the delegate, and
    its members never learned that they missed a message."""
    bench = with_mit()
    bench.joined(NTU)
    bench.message(NTU.endpoint, ViewId(G, 4, 1, 1))
    links = ((Domain("huji"), Domain("ntu")), (Domain("mit"), Domain("ntu")))
    bench.message(MIT.endpoint, ForwardingTree(G, 9, HUJI, links))
    bench.hear("mit", data(FAR, 1, 2))
    assert bench.core.relays.running[FAR.endpoint].via == "mit"
    effects = bench.hear("ntu", Heartbeat((Pulse(FAR.endpoint, 2, 0),), 2))
    assert ("LAN", 2) in [(to, beat.pulses[0].high) for to, beat in sent(effects, Heartbeat)]
