"""The active delegate of a LAN dies, and a replica goes on: nobody loses a message, and nobody is told of it.

What the cluster's server itself knows is taken to be replicated; the delegate's part is mirrored by cores.
"""

import pytest
from support.fifonet import Net
from support.seeds import seeds

from rostra.groups.attributes import Role
from rostra.protocols.fifo import events as ev
from rostra.protocols.flow.config import FifoConfig

NAMES = ("huji.h1/a", "huji.h2/b", "mit.h1/c", "mit.h2/d", "ntu.h1/e")


def world(seed, loss):
    lans = {"huji": 2, "mit": 2, "ntu": 1}
    return Net(seed, lans, wan_loss=loss, lan_loss=loss / 4, wan_s=0.05, replicas=True)


def nobody_noticed(net, members):
    net.run(5.0)
    for program in net.programs.values():
        program.silent = True
    net.run(8.0)
    net.nobody_noticed(members)
    for at in members:
        sending = net.member(at).sending
        assert sending.stable == sending.last_seq


@pytest.mark.spec("X-100", "X-101", "X-102", "X-006")
@pytest.mark.parametrize("seed", sorted({11, 17, 21, *seeds(6)}))
def test_xx11_delegates_die_one_after_the_other_in_the_middle_of_their_streams(seed):
    net = world(seed, [0.0, 0.2][seed % 2])
    members = [net.join(name) for name in NAMES]
    net.run(3.0)
    for member in members:
        net.stream(member, every_s=0.05, batch=2)
    net.run(2.0)
    for _ in range(3):
        net.take_over(net.random.choice(["mit", "huji"]))
        net.run(net.random.choice([0.05, 0.3, 1.0]))
    nobody_noticed(net, members)


@pytest.mark.spec("X-100", "X-103")
@pytest.mark.parametrize("after_s", [0.0005, 0.05, 0.1005, 0.1015, 0.1025, 0.15, 0.2, 0.201, 0.25])
def test_xx11_joins_in_progress_complete_whatever_state_the_delegate_was_in(after_s):
    net = world(3, 0.0)
    a = net.join("huji.h1/a")
    net.run(2.0)
    net.stream(a, every_s=0.02)
    c = net.join("mit.h1/c")
    net.stream(c, every_s=0.02)
    net.run(after_s)
    net.take_over("mit")
    net.run(4.0)
    assert net.numbers(a, c)[0] == 1
    heard = net.numbers(c, a)
    assert heard == list(range(heard[0], heard[0] + len(heard))) and len(heard) > 50


@pytest.mark.spec("X-026", "X-101")
def test_xx12_a_joiner_gets_everything_from_the_start_that_a_dead_delegate_gave_it():
    net = world(5, 0.0)
    a, c = net.join("huji.h1/a"), net.join("mit.h1/c")
    net.run(2.0)
    net.stream(a, every_s=0.01)
    net.run(1.0)
    d = net.join("mit.h2/d")
    while not net.programs[d].active:
        net.run(0.0001)
    start = net.member(d).senders.running[a].inbound.start
    net.data_filter = lambda source, to, message: to != "mit.h2"
    net.take_over("mit")
    net.run(0.2)
    net.data_filter = lambda source, to, message: True
    net.run(3.0)
    assert net.numbers(d, a)[0] == start
    assert net.numbers(d, a)[-1] == net.numbers(c, a)[-1]


@pytest.mark.spec("X-101", "X-045")
def test_a_lan_of_listeners_alone_is_kept_for_its_next_delegate_too():
    """Home knows nobody there, since listeners elsewhere are not in its view. They are owed as much."""
    config = FifoConfig(window_messages=64, held_messages=64)  # so little would be kept for one that is lost
    net = Net(1, {"huji": 1, "mit": 1}, config=config, replicas=True)
    a, ear = net.join("huji.h1/a"), net.join("mit.h1/ear", role=Role.RECEIVE)
    net.run(2.0)
    net.stream(a, every_s=0.005, count=400)
    net.run(1.0)
    net.take_over("mit")
    net.run(4.0)
    assert net.items(ear, ev.Gap, ev.Excluded, ev.Without) == []
    assert net.numbers(ear, a) == list(range(1, 401))
