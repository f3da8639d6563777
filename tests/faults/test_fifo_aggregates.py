"""Programs that speak through their LAN's delegate: whatever dies, every receiver gets the messages of each
once and in order (X-054, X-055, TX-24). The small world checks every delivery: see `support/fifonet.py`."""

import pytest
from support.fifonet import Net
from support.seeds import seeds

from rostra.groups.attributes import Role
from rostra.names import Domain
from rostra.protocols.fifo import aggregate
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.context import is_aggregate
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Data, Status

RECEIVERS = ("mit.h1/c", "mit.h2/d", "ntu.h1/e", "huji.h2/b")
SUBMITTERS = ("huji.h1/ann", "huji.h2/bob", "huji.h2/carl")


def world(seed, loss=0.0, **settings):
    lans = {"huji": 2, "mit": 2, "ntu": 1}
    return Net(seed, lans, wan_loss=loss, lan_loss=loss / 4, wan_s=0.05, **settings)


def talking(net, receivers=RECEIVERS, submitters=SUBMITTERS, every_s=0.05):
    """Receivers are in, and everybody submits again and again."""
    listeners = [net.join(name, role=Role.RECEIVE) for name in receivers]
    net.run(5.0)
    speakers = [net.join(name, role=Role.SUBMIT) for name in submitters]
    for speaker in speakers:
        net.stream(speaker, every_s=every_s, batch=2)
    net.run(1.0)
    return listeners, speakers


def quiet(net, for_s=10.0):
    for program in net.programs.values():
        program.silent = True
    net.run(for_s)


def everybody_has_all(net, listeners, speakers):
    for at in listeners:
        assert net.items(at, ev.Gap) == []
        for speaker in speakers:
            assert net.numbers(at, speaker) == list(range(1, net.sent[speaker] + 1)), (at, speaker)
    for speaker in speakers:
        assert net.submitter(speaker).sending.stable == net.sent[speaker]


@pytest.mark.spec("X-054")
@pytest.mark.parametrize("seed", seeds(2))
def test_views_show_the_lans_aggregate_and_not_who_submits(seed):
    net = world(seed, [0.0, 0.2][seed % 2])
    listeners, speakers = talking(net)
    quiet(net)
    everybody_has_all(net, listeners, speakers)
    for at in listeners:
        assert sorted(net.programs[at].next) == ["huji.-delegate/aggregate#2", *sorted(listeners)]


@pytest.mark.spec("X-055", "X-100", "X-006")
@pytest.mark.parametrize("seed", seeds(5))
def test_delegates_die_in_the_middle_and_no_origin_has_a_hole_or_a_duplicate(seed):
    net = world(seed, [0.0, 0.2][seed % 2], replicas=True)
    listeners, speakers = talking(net)
    for lan in ("huji", *net.random.choices(["huji", "huji", "mit"], k=2)):
        net.take_over(lan)
        net.run(net.random.choice([0.05, 0.3, 1.5]))
    net.run(1.5)
    quiet(net, 8.0)
    everybody_has_all(net, listeners, speakers)
    assert any(what == "submits again" for _, _, what, _ in net.notes)


@pytest.mark.spec("X-055", "X-102")
@pytest.mark.parametrize("seed", seeds(3))
def test_a_delegate_without_a_backup_restarts_and_is_given_everything_again(seed):
    net = world(seed, [0.0, 0.1][seed % 2])
    listeners, speakers = talking(net, receivers=RECEIVERS[:3])
    net.crash("huji")
    net.run(net.random.choice([0.5, 3.0]))
    net.restart("huji")
    net.run(6.0)
    quiet(net, 6.0)
    everybody_has_all(net, listeners, speakers)
    brought_by = {item.by for at in listeners for item in net.items(at, ev.Aggregated)}
    assert len(brought_by) == 2, "each epoch has a stream of its own"


@pytest.mark.spec("X-055")
def test_what_dies_with_the_delegate_was_not_acknowledged():
    """The reason for acknowledging only what is stable: with an acknowledgement for what was merely emitted,
    the same world has a hole."""
    net = world(1, replicas=True)
    listeners, [ann] = talking(net, submitters=SUBMITTERS[:1])
    net.data_filter = lambda source, to, message: source != "huji" or to == "huji.h1"
    net.run(0.5)
    assert net.submitter(ann).sending.stable < net.sent[ann] - 10
    net.take_over("huji")
    net.data_filter = lambda source, to, message: True
    quiet(net, 8.0)
    everybody_has_all(net, listeners, [ann])


@pytest.mark.spec("X-055")
def test_a_delegate_that_acknowledges_too_early_is_found_out(monkeypatch):
    def feed(self):
        original(self)
        if self._emitted:
            self._held_by_the_group(self._emitted[-1][0])

    original = aggregate.Aggregate._feed
    monkeypatch.setattr(aggregate.Aggregate, "_feed", feed)
    net = world(1, replicas=True)
    listeners, _ = talking(net, submitters=SUBMITTERS[:1])
    net.data_filter = lambda source, to, message: source != "huji" or to == "huji.h1"
    net.run(0.5)
    net.take_over("huji")
    net.data_filter = lambda source, to, message: True
    net.run(4.0)
    assert any(isinstance(item, ev.Gap) for at in listeners for item in net.items(at))


@pytest.mark.spec("X-055")
def test_what_a_dead_program_had_handed_over_outlives_it_and_its_delegate():
    net = world(5, replicas=True)
    listeners, [ann] = talking(net, submitters=SUBMITTERS[:1])
    net.send(ann, 50)
    sent = net.sent[ann]
    net.kill(ann)
    net.take_over("huji")
    net.run(10.0)
    for at in listeners:
        assert net.numbers(at, ann) == list(range(1, sent + 1))
    assert net.nodes["huji.h1"].submitters == {}


@pytest.mark.spec("X-055", "X-064")
def test_whoever_was_cut_off_for_too_long_is_told_exactly_what_it_missed_of_each_origin():
    net = world(3, config=FifoConfig(resume_s=0.5))
    listeners, speakers = talking(net)
    far, near = listeners[2], listeners[0]
    net.cut(["ntu"], ["huji", "mit"])
    net.run(6.0)
    net.heal()
    net.run(5.0)
    quiet(net)
    for speaker in speakers:
        heard = net.numbers(far, speaker)
        [gap] = [gap for gap in net.items(far, ev.Gap) if gap.endpoint == speaker]
        missed = list(range(gap.first, gap.last + 1))
        assert sorted([*heard, *missed]) == list(range(1, net.sent[speaker] + 1))
        assert net.numbers(near, speaker) == list(range(1, net.sent[speaker] + 1))


@pytest.mark.spec("X-055", "X-020")
@pytest.mark.parametrize("late_s", [0.0, 0.02, 0.3])
def test_the_first_message_of_a_lan_reaches_everybody_though_its_numbers_come_late(late_s):
    net = world(4)
    listeners = [net.join(name, role=Role.RECEIVE) for name in RECEIVERS[:3]]
    net.run(5.0)
    net.control_delay = lambda source, to, message: late_s if source == "huji" or to == "mit.h1" else 0.0
    ann = net.join("huji.h1/ann", role=Role.SUBMIT)
    net.send(ann)
    net.run(8.0)
    for at in listeners:
        assert net.numbers(at, ann) == [1]
    assert net.submitter(ann).sending.stable == 1, "and who had it early says so"


@pytest.mark.spec("X-055", "X-102")
@pytest.mark.parametrize("seed", seeds(4))
def test_a_server_that_has_just_started_does_not_speak_before_it_knows_to_whom(seed):
    """Its links come up one after the other. What it said to nobody would be acknowledged, and lost."""
    net = world(seed)
    listeners, [ann] = talking(net, receivers=RECEIVERS[:3], submitters=SUBMITTERS[:1])
    net.crash("huji")
    net.run(2.0)
    huji = Domain("huji")
    links = [link for link in net.tree.links() if huji in link]
    for one, other in links:
        net._link_down(one, other)
    net._start(huji)
    net.random.shuffle(links)
    for one, other in links:
        net._link_up(one, other)
        net.run(net.random.choice([0.0, 0.05, 0.6]))
    net.run(8.0)
    quiet(net, 5.0)
    everybody_has_all(net, listeners, [ann])


@pytest.mark.spec("X-055", "X-090", "X-092")
def test_a_receiver_that_does_not_read_stops_the_submitter_and_nothing_is_lost():
    config = FifoConfig(window_messages=16, held_messages=16, queue_messages=8)
    net = world(6, config=config)
    [c] = [net.join("mit.h1/c", role=Role.RECEIVE)]
    net.run(2.0)
    ann = net.join("huji.h1/ann", role=Role.SUBMIT)
    net.step("mit.h1", ev.Paused(c, net.member(c).group))
    net.send(ann, 500)
    net.run(5.0)
    held = net.sent[ann]
    net.run(5.0)
    assert net.sent[ann] == held < 100, "the program waits"
    net.step("mit.h1", ev.Resumed(c, net.member(c).group))
    net.run(10.0)
    assert net.numbers(c, ann) == list(range(1, 501))


@pytest.mark.spec("X-055", "X-105")
def test_large_messages_travel_in_parts_to_the_delegate_and_from_it():
    net = world(7, 0.1)
    net.size = 20_000
    listeners, speakers = talking(net, submitters=SUBMITTERS[:2], every_s=0.2)
    quiet(net, 8.0)
    everybody_has_all(net, listeners, speakers)


@pytest.mark.spec("X-054", "X-044")
def test_an_aggregate_that_is_silent_leaves_and_its_numbers_go_on_when_it_comes_back():
    net = world(8)
    [c] = [net.join("mit.h1/c", role=Role.RECEIVE)]
    net.run(2.0)
    ann = net.join("huji.h1/ann", role=Role.SUBMIT)
    net.send(ann, 3)
    net.run(40.0)
    assert sorted(net.programs[c].next) == [c]
    assert "g" not in {group.name for group in net.nodes["huji"].groups}
    net.send(ann, 3)
    net.run(5.0)
    assert net.numbers(c, ann) == [1, 2, 3, 4, 5, 6]
    joins = net.items(c, ev.Joined)
    assert len(joins) == 2 and {is_aggregate(item.endpoint) for item in joins} == {True}


@pytest.mark.spec("X-055")
def test_an_acknowledgement_waits_for_the_slowest_receiver():
    net = world(9)
    listeners, [ann] = talking(net, submitters=SUBMITTERS[:1])
    quiet(net, 5.0)
    before = net.submitter(ann).sending.stable
    net.data_filter = lambda source, to, message: not (isinstance(message, Status) and source == "ntu.h1")
    net.send(ann, 5)
    net.run(5.0)
    assert [net.numbers(at, ann)[-1] for at in listeners] == [before + 5] * 4
    assert net.submitter(ann).sending.stable == before
    net.data_filter = lambda source, to, message: True
    net.run(2.0)
    assert net.submitter(ann).sending.stable == before + 5


@pytest.mark.spec("X-054")
def test_between_sites_one_stream_carries_them_all():
    net = world(10)
    listeners = [net.join("mit.h1/c", role=Role.RECEIVE)]
    net.run(2.0)
    speakers = [net.join(f"huji.h1/s{n}", role=Role.SUBMIT) for n in range(20)]
    streams = set()

    def look(source, to, message):
        if isinstance(message, Data) and {source, to} == {"huji", "mit"}:
            streams.add(message.stream)
        return True

    net.data_filter = look
    for speaker in speakers:
        net.send(speaker, 2)
    net.run(5.0)
    everybody_has_all(net, listeners, speakers)
    assert streams == {"huji.-delegate/aggregate#2"}
