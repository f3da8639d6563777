"""One receiver does not keep up, under each of the three ways with it (XX-21): throttle, expel, spill.

The slow one reads in jerks, as programs do: what its agent holds, a window at most, and then nothing for a
while. Every delivery is checked by `Net` as it comes: in order, no hole, no duplicate, the very bytes.
"""

import pytest
from support.fifonet import G, Net

from rostra.groups.attributes import Role, Slow
from rostra.names import Endpoint
from rostra.protocols.fifo import events as ev
from rostra.protocols.flow.config import FifoConfig

WINDOW = 64
CONFIG = FifoConfig(window_messages=WINDOW, held_messages=WINDOW)
EVERY_S = 0.01
"""A hundred messages a second; the slow one takes a window in 6.4 seconds, and so a tenth of that."""


def reads_slowly(net: Net, who: Endpoint, every_s: float = WINDOW * EVERY_S * 10) -> None:
    """For ever: reads what is there, then sleeps."""

    def once() -> None:
        if who in net.programs and not net.items(who, ev.Excluded):
            net.step(who.partition("/")[0], ev.Resumed(who, G))
            net.step(who.partition("/")[0], ev.Paused(who, G))
            net.at(every_s, once)

    net.at(0.0, once)


def reads(net: Net, who: Endpoint) -> None:
    net.step(who.partition("/")[0], ev.Resumed(who, G))


def world(
    slow: Slow, *, at: str = "mit.h1", seed: int = 1, **how
) -> tuple[Net, Endpoint, Endpoint, Endpoint]:
    """A sender, a receiver elsewhere, and one that is going to be slow."""
    net = Net(seed, {"huji": 3, "mit": 2}, config=CONFIG, **how)
    a, quick = net.join("huji.h1/a"), net.join("mit.h2/quick", role=Role.RECEIVE)
    laggard = net.join(f"{at}/laggard", role=Role.RECEIVE, slow=slow)
    net.run(2.0)
    assert net.programs[laggard].active
    return net, a, quick, laggard


def shelves(net: Net) -> int:
    """Bytes on all disks."""
    return sum(shelf.bytes for shelf in net.shelves.values())


@pytest.mark.spec("X-090", "X-091")
@pytest.mark.parametrize("at", ["mit.h1", "huji.h2"])
def test_xx21_under_throttle_all_go_as_slowly_as_the_slowest(at):
    net, a, quick, laggard = world(Slow.THROTTLE, at=at)
    reads_slowly(net, laggard)
    net.stream(a, every_s=EVERY_S, count=1500)
    net.run(30.0)
    for who in (quick, laggard):
        assert net.numbers(who, a) == list(range(1, len(net.numbers(who, a)) + 1))
    assert len(net.numbers(quick, a)) - len(net.numbers(laggard, a)) <= WINDOW
    assert len(net.numbers(quick, a)) < 1500 / 3


@pytest.mark.spec("X-091")
@pytest.mark.parametrize("at", ["mit.h1", "huji.h2"])
@pytest.mark.parametrize("stuck", [False, True], ids=["slow", "stuck"])
def test_xx21_under_expel_it_has_to_go_and_the_others_go_on(at, stuck):
    net, a, quick, laggard = world(Slow.EXPEL, at=at)
    if stuck:
        net.step(at, ev.Paused(laggard, G))
    else:
        reads_slowly(net, laggard)
    net.stream(a, every_s=EVERY_S, count=1500)
    net.run(60.0)
    assert [item.reason for item in net.items(laggard, ev.Excluded)] == ["too slow"]
    assert net.numbers(quick, a) == list(range(1, 1501))
    assert net.numbers(laggard, a) == list(range(1, len(net.numbers(laggard, a)) + 1))


@pytest.mark.spec("X-091")
def test_under_expel_a_receiver_that_keeps_up_stays():
    net, a, _, laggard = world(Slow.EXPEL)
    reads_slowly(net, laggard, every_s=0.2)
    net.stream(a, every_s=EVERY_S, count=1500)
    net.run(40.0)
    assert net.items(laggard, ev.Excluded) == []
    assert net.numbers(laggard, a) == list(range(1, 1501))


@pytest.mark.spec("X-091", "X-006")
@pytest.mark.parametrize("at", ["mit.h1", "huji.h2"])
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_xx21_under_spill_nobody_waits_and_the_slow_one_gets_everything(at, loss):
    net, a, quick, laggard = world(Slow.SPILL, at=at, wan_loss=loss, lan_loss=loss)
    reads_slowly(net, laggard)
    net.stream(a, every_s=EVERY_S, count=700)
    net.run(11.0)
    assert net.numbers(quick, a) == list(range(1, 701))  # at its own pace
    assert net.member(a).sending.stable == 700
    assert len(net.numbers(laggard, a)) < 250
    assert shelves(net) > 400 * len("huji.h1/a#1:400")
    net.run(80.0)
    assert net.numbers(laggard, a) == list(range(1, 701))
    assert shelves(net) == 0
    assert net.delegate(at.partition(".")[0]).relays.spills.backlogs == {}


@pytest.mark.spec("X-091")
def test_what_the_agent_keeps_of_a_spilled_stream_is_bounded():
    net, a, _, laggard = world(Slow.SPILL)
    net.step("mit.h1", ev.Paused(laggard, G))
    net.stream(a, every_s=EVERY_S, count=1000)
    net.run(15.0)
    for _ in range(30):
        reads(net, laggard)
        net.step("mit.h1", ev.Paused(laggard, G))
        net.run(1.0)
        assert net.member(laggard).senders.running[a].inbound.store.messages <= 2 * WINDOW
    reads(net, laggard)
    net.run(5.0)
    assert net.numbers(laggard, a) == list(range(1, 1001))


@pytest.mark.spec("X-091", "X-092")
def test_what_the_agent_keeps_is_bounded_in_bytes_too():
    config = FifoConfig(window_messages=64, held_messages=64, window_bytes=8000)
    net = Net(2, {"huji": 1, "mit": 2}, config=config, lan_loss=0.02)
    net.size = 1000
    a = net.join("huji.h1/a")
    laggard = net.join("mit.h1/laggard", role=Role.RECEIVE, slow=Slow.SPILL)
    net.run(2.0)
    net.step("mit.h1", ev.Paused(laggard, G))
    net.stream(a, every_s=EVERY_S, count=300)
    net.run(6.0)
    assert net.member(a).sending.stable == 300
    for _ in range(60):
        reads(net, laggard)
        net.step("mit.h1", ev.Paused(laggard, G))
        assert net.member(laggard).senders.running[a].inbound.store.bytes < 3 * 8000
        net.run(0.5)
    reads(net, laggard)
    net.run(3.0)
    assert net.numbers(laggard, a) == list(range(1, 301))
    assert shelves(net) == 0


@pytest.mark.spec("X-091")
def test_once_it_has_caught_up_it_is_a_receiver_like_any_other():
    net, a, _, laggard = world(Slow.SPILL)
    net.step("mit.h1", ev.Paused(laggard, G))
    net.stream(a, every_s=EVERY_S, count=1000)
    net.run(12.0)
    reads(net, laggard)
    net.run(1.0)  # and not the 100 seconds that it was behind
    assert net.numbers(laggard, a) == list(range(1, 1001))
    assert shelves(net) == 0
    before = net.now
    net.send(a, 1)
    net.run(1.0)
    assert net.programs[laggard].numbers[a][-1][0] - before < 0.06


def far_behind(at: tuple[str, ...], *, lan_loss: float = 0.0) -> tuple[Net, Endpoint, list[Endpoint]]:
    """Receivers that have not read for 5000 messages, 1000 a second, which go on. A datagram holds one, a
    part of the window 32; what they may ask for is more than the window."""
    config = FifoConfig(window_messages=1024, held_messages=1024, window_bytes=8 * 32 * 1000)
    net = Net(1, {"huji": 1, "mit": 2}, config=config, lan_loss=lan_loss)
    net.size = 1000
    a = net.join("huji.h1/a", role=Role.SEND)
    slow = [net.join(name, role=Role.RECEIVE, slow=Slow.SPILL) for name in at]
    net.run(2.0)
    for who in slow:
        net.step(who.partition("/")[0], ev.Paused(who, G))
    net.stream(a, every_s=0.01, batch=10)
    net.run(5.0)
    net.counts.clear()
    net.ignored.clear()
    return net, a, slow


def last(net: Net, who: Endpoint, sender: Endpoint) -> int:
    return net.programs[who].last.get(sender, 0)


def read_back(net: Net) -> int:
    """Messages that came from disk: all others are sent to every host of a LAN, or between LANs."""
    kinds = ("Data", "Repair")
    return sum(net.counts.get(f"transmit {each}", 0) - net.counts.get(f"wan {each}", 0) for each in kinds)


@pytest.mark.spec("X-091")
def test_a_backlog_is_read_once_and_in_parts_and_not_by_a_question_per_message():
    net, a, [laggard] = far_behind(("mit.h1/laggard",))
    had = last(net, laggard, a)
    reads(net, laggard)
    net.run(1.0)
    assert last(net, laggard, a) >= net.sent[a] - 100  # what is on its way from huji
    missed = net.sent[a] - had
    assert missed > 5000
    assert net.counts["cast Nak"] <= 2 + missed / net.config.held_messages
    assert read_back(net) <= missed
    assert net.counts["disk ReadSpilled"] <= missed / 32 + 8
    assert net.ignored.get(("Data", "no room for what is on disk"), 0) == 0


@pytest.mark.spec("X-091")
def test_of_a_backlog_only_what_was_lost_is_read_again():
    net, a, [laggard] = far_behind(("mit.h1/laggard",), lan_loss=0.05)
    had = last(net, laggard, a)
    reads(net, laggard)
    net.run(6.0)
    assert last(net, laggard, a) >= net.sent[a] - 200
    assert read_back(net) <= 1.1 * (net.sent[a] - had)


@pytest.mark.spec("X-091")
def test_what_is_only_late_is_not_read_again():
    net, a, [laggard] = far_behind(("mit.h1/laggard",))
    net.programs[a].silent = True
    net.run(1.0)
    had, net.lan_s = last(net, laggard, a), 0.08  # its host is busy, and takes so long to come to it
    net.counts.clear()
    reads(net, laggard)
    net.run(15.0)
    assert last(net, laggard, a) == net.sent[a]
    assert read_back(net) <= net.sent[a] - had
    assert shelves(net) == 0


@pytest.mark.spec("X-091")
@pytest.mark.parametrize("reader", [0, 1])
def test_a_receiver_catches_up_whatever_another_slow_one_of_its_host_does(reader):
    net, a, slow = far_behind(("mit.h1/one", "mit.h1/two"))
    had = last(net, slow[reader], a)
    reads(net, slow[reader])
    net.run(1.0)
    assert last(net, slow[reader], a) >= net.sent[a] - 100
    assert read_back(net) <= net.sent[a] - had
    reads(net, slow[1 - reader])
    net.run(1.0)
    assert last(net, slow[1 - reader], a) >= net.sent[a] - 100
    net.programs[a].silent = True
    net.run(1.0)
    assert [last(net, who, a) for who in slow] == [net.sent[a]] * 2
    assert shelves(net) == 0


@pytest.mark.spec("X-091")
def test_what_a_quick_receiver_asks_for_does_not_touch_the_disk_of_a_slow_one_of_its_host():
    net, a, _ = far_behind(("mit.h1/laggard",), lan_loss=0.05)
    quick = net.join("mit.h1/quick", role=Role.RECEIVE)
    net.run(1.0)
    net.counts.clear()
    net.run(3.0)
    assert last(net, quick, a) >= net.sent[a] - 200
    assert net.counts["cast Nak"] > 10
    assert net.counts.get("disk ReadSpilled", 0) == 0


@pytest.mark.spec("X-091", "X-048")
def test_the_last_words_of_one_who_left_are_read_from_disk_however_long_it_takes():
    net, a, quick, laggard = world(Slow.SPILL)
    reads_slowly(net, laggard)
    net.stream(a, every_s=EVERY_S, count=1000)
    net.run(11.0)
    net.leave(a)
    net.run(5.0)
    assert [item.last for item in net.items(quick, ev.Left)] == [1000]
    assert net.items(a, ev.Parted) == [ev.Parted(0, 0)]
    net.run(120.0)
    assert net.numbers(laggard, a) == list(range(1, 1001))
    assert net.items(laggard, ev.Left) == [ev.Left(a, "left", 1000)]
    assert shelves(net) == 0


@pytest.mark.spec("X-091")
def test_a_full_disk_expels_the_receiver_and_nobody_else_notices():
    net, a, quick, laggard = world(Slow.SPILL)
    net.shelf("mit").bytes_max = 4000
    net.step("mit.h1", ev.Paused(laggard, G))
    net.stream(a, every_s=EVERY_S, count=1000)
    net.run(12.0)
    assert [item.reason for item in net.items(laggard, ev.Excluded)] == ["too slow: no room for its backlog"]
    assert net.numbers(quick, a) == list(range(1, 1001))
    assert shelves(net) == 0


@pytest.mark.spec("X-091")
def test_a_disk_that_lost_a_backlog_expels_the_receiver_too():
    net, a, quick, laggard = world(Slow.SPILL)
    net.step("mit.h1", ev.Paused(laggard, G))
    net.stream(a, every_s=EVERY_S, count=1000)
    net.run(12.0)
    net.shelf("mit").backlogs.clear()
    reads(net, laggard)
    net.run(2.0)
    assert [item.reason for item in net.items(laggard, ev.Excluded)] == ["too slow: its backlog is gone"]
    assert net.numbers(laggard, a) == list(range(1, len(net.numbers(laggard, a)) + 1))
    assert net.numbers(quick, a) == list(range(1, 1001))


@pytest.mark.spec("X-091", "X-088", "X-101")
def test_a_backlog_dies_with_its_delegate_and_the_receiver_is_told():
    """TX-4: what only the dead delegate had is nowhere else. Never a silent gap."""
    net, a, quick, laggard = world(Slow.SPILL, replicas=True)
    net.step("mit.h1", ev.Paused(laggard, G))
    net.stream(a, every_s=EVERY_S, count=1500)
    net.run(12.0)
    assert shelves(net) > 0
    net.take_over("mit")
    net.run(5.0)
    reads(net, laggard)
    net.run(5.0)
    [gap] = net.items(laggard, ev.Gap, ev.Excluded)
    assert net.numbers(laggard, a) == [*range(1, gap.first), *range(gap.last + 1, 1501)]
    assert net.items(quick, ev.Gap, ev.Excluded) == []
    assert net.numbers(quick, a) == list(range(1, 1501))


@pytest.mark.spec("X-091", "X-064")
def test_a_backlog_that_dies_with_a_delegate_that_has_no_backup_is_a_gap():
    net, a, _, laggard = world(Slow.SPILL)
    net.step("mit.h1", ev.Paused(laggard, G))
    net.stream(a, every_s=EVERY_S, count=1500)
    net.run(10.0)
    assert shelves(net) > 0
    net.crash("mit")
    net.run(2.0)
    net.restart("mit")
    net.run(5.0)
    reads(net, laggard)
    net.run(10.0)
    heard = net.numbers(laggard, a)
    [gap] = net.items(laggard, ev.Gap)
    assert heard == [*range(1, gap.first), *range(gap.last + 1, 1501)]
    assert gap.first < 100 and gap.last > 900


@pytest.mark.spec("X-091", "X-066")
def test_a_host_that_is_cut_off_for_a_moment_goes_on_with_its_backlog():
    net, a, _, laggard = world(Slow.SPILL)
    net.step("mit.h1", ev.Paused(laggard, G))
    net.stream(a, every_s=EVERY_S, count=1000)
    net.run(12.0)
    assert shelves(net) > 0
    net.cut(["mit.h1"], ["mit"], exact=["mit"])
    net.run(4.0)
    net.heal()
    net.run(4.0)
    reads(net, laggard)
    net.run(10.0)
    assert net.items(laggard, ev.Gap) == []
    assert net.numbers(laggard, a) == list(range(1, 1001))


@pytest.mark.spec("X-091")
def test_who_leaves_or_dies_leaves_nothing_on_disk():
    for end in (Net.leave, Net.kill):
        net, a, _, laggard = world(Slow.SPILL)
        net.step("mit.h1", ev.Paused(laggard, G))
        net.stream(a, every_s=EVERY_S, count=1000)
        net.run(12.0)
        assert shelves(net) > 0
        end(net, laggard)
        net.run(2.0)
        assert shelves(net) == 0


@pytest.mark.spec("X-091", "X-070")
def test_xx21_two_slow_ones_and_several_senders_on_a_bad_network():
    net = Net(5, {"huji": 2, "mit": 2, "ntu": 1}, config=CONFIG, wan_loss=0.1, lan_loss=0.02, jitter=0.5)
    senders = [net.join("huji.h1/a"), net.join("mit.h1/b"), net.join("ntu.h1/c")]
    slow = [net.join(f"mit.h{n}/slow", role=Role.RECEIVE, slow=Slow.SPILL) for n in (1, 2)]
    net.run(4.0)
    for who in slow:
        reads_slowly(net, who, every_s=3.0)
    for sender in senders:
        net.stream(sender, every_s=0.02, count=500)
    net.run(14.0)
    for sender in senders:
        assert net.member(sender).sending.stable > 400
    net.run(120.0)
    for who in (*slow, *senders):
        for sender in senders:
            if who != sender:
                assert net.numbers(who, sender) == list(range(1, 501))
    assert shelves(net) == 0
