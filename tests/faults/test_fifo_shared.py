"""Members of one host share what they receive, and each of them is told what it would be told alone."""

from random import Random

import pytest
from support.fifonet import G, Net

from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.core import HostCore
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.relaxed.events import JoinsBegin, JoinsEnd

LANS = {"huji": 1, "mit": 1}
WINDOW = 64


def world(*, replicas=False):
    """`a` is at huji; `b` and `c` share what mit's only host receives."""
    net = Net(3, LANS, config=FifoConfig(window_messages=WINDOW), replicas=replicas)
    a, b, c = (net.open(name) for name in ("huji.h1/a", "mit.h1/b", "mit.h1/c"))
    for each in (a, b, c):
        net.join(each)
    net.run(3.0)
    return net, a, b, c


def heard(net, at, sender):
    """What it was told of this sender, in order: the numbers it was said, and its end."""
    found = []
    for item in net.items(at, ev.Delivered, ev.Left):
        if isinstance(item, ev.Delivered) and item.stream == sender:
            found += range(item.run.first, item.run.end)
        elif isinstance(item, ev.Left) and item.endpoint == sender:
            found.append("left")
    return found


def test_a_host_keeps_one_state_for_each_sender_however_many_members_it_has():
    net = Net(3, LANS)
    crowd = [net.open(f"mit.h1/m{number}") for number in range(40)]
    crowd.append(net.open("huji.h1/a"))
    for each in crowd:
        net.join(each)
    net.run(3.0)
    cores = [net.member(each) for each in crowd[:-1]]
    assert len({id(core.senders) for core in cores}) == 1
    assert len(cores[0].senders.running) == 41
    relays = net.delegate("mit").relays.running
    assert {len(relay.pins.local) for relay in relays.values()} == {1}, "and is one receiver to its delegate"
    net.everybody_has_everything(crowd)


@pytest.mark.parametrize("seed", range(12))
def test_crowds_that_join_in_waves_on_several_hosts_all_see_and_hear_all(seed):
    luck = Random(seed)
    net = Net(seed, {"mit": 1} if seed % 2 else {"huji": 2, "mit": 2})
    hosts = ["mit.h1"] if seed % 2 else ["mit.h1", "mit.h2", "huji.h1"]
    crowd = []
    for wave in range(4):
        for host in hosts:
            some = [net.open(f"{host}/w{wave}m{number}") for number in range(luck.choice((1, 2, 5)))]
            net.step(host, JoinsBegin())
            for each in some:
                net.join(each)
            net.step(host, JoinsEnd())
            crowd += some
        net.run(luck.choice((0.0, 0.0001, 0.0003, 0.0005, 0.001, 0.1, 0.2)))
    net.run(3.0)
    for each in crowd:
        net.send(each, 3)
    net.run(5.0)
    net.everybody_has_everything(crowd)


def test_those_who_join_in_one_turn_are_told_in_one_item():
    net, a, b, _ = world()
    crowd = [net.open(f"mit.h1/m{number}") for number in range(5)]
    net.step("mit.h1", JoinsBegin())
    for each in crowd:
        net.join(each)
    net.step("mit.h1", JoinsEnd())
    net.run(3.0)
    for each in (a, b):
        joined = net.items(each, ev.JoinedTogether)[-1]
        assert [who for who, _, _ in joined.members] == crowd


def test_one_who_joins_where_others_are_asks_no_delegate_and_hears_all_from_its_join_on():
    net, a, b, _ = world()
    net.stream(a, every_s=0.01, count=200)
    net.run(0.5)
    asked, before = net.member(b).lans._req, net.numbers(b, a)[-1]
    late = net.open("mit.h1/late")
    net.join(late)
    net.run(10.0)
    assert net.member(b).lans._req == asked
    assert net.numbers(late, a) == list(range(before + 1, 201))


def test_a_fellow_that_does_not_read_holds_up_nobody_on_its_host_until_the_window_is_full():
    net, a, b, c = world()
    net.step("mit.h1", ev.Paused(c, G))
    net.stream(a, every_s=0.01, count=30)
    net.run(2.0)
    assert heard(net, b, a) == list(range(1, 31)) and heard(net, c, a) == []
    assert net.member(a).sending.stable == 0, "it is owed everything"
    net.stream(a, every_s=0.01, count=200)
    net.run(5.0)
    assert heard(net, b, a) == list(range(1, WINDOW + 1))
    net.step("mit.h1", ev.Resumed(c, G))
    net.run(10.0)
    assert heard(net, b, a) == heard(net, c, a) == list(range(1, 231))
    assert net.member(a).sending.stable == 230


def test_a_fellow_that_does_not_read_is_told_later_that_a_sender_left_and_the_others_at_once():
    net, a, b, c = world()
    net.step("mit.h1", ev.Paused(c, G))
    net.send(a, 20)
    net.run(1.0)
    net.kill(a)
    net.run(30.0)
    assert heard(net, b, a) == [*range(1, 21), "left"] and heard(net, c, a) == []
    net.step("mit.h1", ev.Resumed(c, G))
    assert heard(net, c, a) == [*range(1, 21), "left"]
    net.run(30.0)
    assert heard(net, b, a) == heard(net, c, a) and not net.member(b).senders.running.get(a)


def test_when_the_fellow_that_held_it_up_is_gone_the_sender_goes_on():
    net, a, b, c = world()
    net.step("mit.h1", ev.Paused(c, G))
    net.stream(a, every_s=0.01, count=200)
    net.run(3.0)
    assert len(heard(net, b, a)) == WINDOW
    net.kill(c)
    net.run(10.0)
    assert heard(net, b, a) == list(range(1, 201))
    assert net.member(a).sending.stable == 200


@pytest.mark.parametrize("speaks", ["b", "c"])
def test_fellows_hear_each_other_and_one_that_is_alone_again_waits_for_nobody(speaks):
    net, a, b, c = world()
    speaker, listener = (b, c) if speaks == "b" else (c, b)
    net.send(speaker, 10)
    net.run(3.0)
    assert heard(net, listener, speaker) == heard(net, a, speaker) == list(range(1, 11))
    assert heard(net, speaker, speaker) == []
    assert net.member(speaker).sending.stable == 10
    net.leave(listener)
    net.run(1.0)
    net.send(speaker, 10)
    net.run(3.0)
    assert heard(net, a, speaker) == list(range(1, 21))
    assert net.member(speaker).sending.stable == 20
    again = net.open("mit.h1/again")
    net.join(again)
    net.run(1.0)
    net.send(speaker, 10)
    net.run(3.0)
    assert heard(net, again, speaker) == list(range(21, 31))
    assert net.member(speaker).sending.stable == 30


@pytest.mark.spec("X-100", "X-101")
def test_a_new_delegate_is_given_the_numbers_of_all_who_share_by_one_question():
    net, a, b, c = world(replicas=True)
    for speaker in (a, b, c):
        net.stream(speaker, every_s=0.02, count=300)
    net.run(2.0)
    net.take_over("mit")
    net.run(30.0)
    net.nobody_noticed([a, b, c])
    assert {net.member(each).sending.stable for each in (a, b, c)} == {300}


def test_one_who_joins_while_the_only_other_of_its_host_departs_is_told_its_end():
    net, _, b, c = world()
    net.leave(c)
    net.run(1.0)
    net.data_filter = lambda source, to, message: False
    net.send(b, 3)
    net.leave(b)  # it stays until its messages are with everybody, or for a while
    late = net.open("mit.h1/late")
    net.join(late)
    net.run(2.0)
    assert b in [who for who, _, _ in net.items(late, ev.Ready)[0].members]
    net.data_filter = lambda source, to, message: True
    net.run(30.0)
    assert heard(net, late, b)[-1] == "left"


def test_when_the_last_of_a_host_has_left_nothing_is_kept_of_what_they_shared():
    net, _, b, c = world()
    net.leave(b)
    net.leave(c)
    net.run(5.0)
    host = net.nodes["mit.h1"]
    assert isinstance(host, HostCore) and host.receptions == {} and host.members == {}
    assert net.delegate("mit").relays.sharing == {}
