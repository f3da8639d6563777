"""AMp under any omissions that its fault model allows: all or none, one order; and agreed views."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.ampnet import BUS, NET, members, results, sound, views, world

from benchmarks.amp_world import AmpWorld
from rostra.impair.quality import LineQuality, Uniform
from rostra.protocols.atomic.amp_state import FailureReported, StationSuspected, ViewExecuted
from rostra.protocols.atomic.frames import AmpStationId, DecisionFrame, NewViewFrame


def stormy(kind: str, seed: int, loss: float, crash: int, order: str | None = None) -> AmpWorld:
    luck = Random(seed)
    changed = {} if order is None else {"order": order}
    net, stations = members(kind, 4, seed=seed, omissions=2, **changed)
    if kind == BUS:
        net.medium.adversary = lambda sender, to, frame: luck.random() < loss
    else:
        net.medium.quality = LineQuality(
            Uniform(0.0005, 0.01), loss=loss, duplicate=0.1, reorder=0.2, reorder_s=0.02
        )
    for number in range(24):
        alive = [each for each in stations if each in net.gates]
        if number == crash:
            net.crash(alive[luck.randrange(len(alive))])
        else:
            net.give(alive[luck.randrange(len(alive))], b"%d" % number)
        net.run(luck.choice([0.001, 0.02]))
    if kind == BUS:
        net.medium.adversary = lambda sender, to, frame: False
    else:
        net.medium.quality = LineQuality(Uniform(0.0005, 0.004))
    net.run(6)
    return net


@pytest.mark.spec("A-100", "A-101", "A-102", "A-103", "A-104", "A-105", "A-106", "A-107", "A-108", "A-052")
@given(
    kind=st.sampled_from([BUS, NET]),
    seed=st.integers(0, 10_000),
    loss=st.sampled_from([0.0, 0.1, 0.3]),
    crash=st.integers(0, 40),
)
@settings(max_examples=12)
def test_all_or_none_and_one_order_whatever_is_lost(kind: str, seed: int, loss: float, crash: int) -> None:
    sound(stormy(kind, seed, loss, crash))


def test_one_seed_is_one_run() -> None:
    one, other = stormy(NET, 7, 0.1, 9), stormy(NET, 7, 0.1, 9)
    assert one.sent == other.sent
    assert stormy(NET, 8, 0.1, 9).sent != one.sent


def test_both_orders_deliver_the_same_messages_on_the_bus() -> None:
    """Same sends: the same sets, each internally in one order."""
    medium, negotiated = stormy(BUS, 5, 0.2, 99), stormy(BUS, 5, 0.2, 99, order="negotiated")
    for net in (medium, negotiated):
        assert len({tuple(log.messages()) for log in net.logs.values()}) == 1
        sound(net)
    logs = [next(iter(net.logs.values())).messages() for net in (medium, negotiated)]
    assert sorted(logs[0]) == sorted(logs[1])
    assert len(logs[0]) == 24


# Agreed membership underneath


def agreed(hosts: str) -> tuple[AmpWorld, list[AmpStationId]]:
    net = world(NET, decides="agreed")
    return net, [net.add(host) for host in hosts]


def decide(net: AmpWorld, number: int, members_: list[AmpStationId]) -> None:
    for each in members_:
        net.tell(each, ViewExecuted(number, tuple(members_)))


@pytest.mark.spec("A-089", "A-073")
def test_agreed_views_come_in_their_order_with_equal_messages_between_them() -> None:
    """XA-21."""
    net, (a, b, c, d) = agreed("abcd")
    decide(net, 1, [a, b, c])
    net.run(0.5)
    assert views(net) == [(a, b, c)]
    for number in range(10):
        net.give(c, b"c%d" % number)
        net.give(a, b"a%d" % number)
    net.run(0.005)
    net.crash(c)
    net.run(1)
    reported = [each for _, _, each in net.notes if isinstance(each, FailureReported)]
    assert (c,) in [each.stations for each in reported]
    assert net.frames(NewViewFrame)[-1].frame.change.view.id.number == 1
    decide(net, 2, [a, b])
    decide(net, 3, [a, b, d])
    net.run(2)
    assert views(net) == [(a, b, d)]
    assert set(results(net, a)) == {"accepted"}
    numbers = {tuple(view.view.id.number for view in net.logs[each].views) for each in (a, b)}
    assert len(numbers) == 1
    assert next(iter(numbers))[-1] == 3
    sound(net)


@pytest.mark.spec("A-089")
def test_a_silent_member_of_an_agreed_view_is_reported_and_not_removed() -> None:
    net, (a, b, c) = agreed("abc")
    net.crash(c)
    decide(net, 1, [a, b, c])
    net.run(2)
    assert views(net) == []
    assert any(isinstance(each, FailureReported) and each.stations == (c,) for _, _, each in net.notes)
    decide(net, 2, [a, b])
    net.run(2)
    assert views(net) == [(a, b)]


@pytest.mark.spec("A-090")
def test_what_a_directory_lists_does_not_enter_the_view() -> None:
    net, (a, b) = members(NET, 2)
    net.tell(a, StationSuspected(AmpStationId(b.host, 9)))
    net.run(1)
    assert views(net) == [(a, b)]
    assert not [each for each in net.frames(DecisionFrame, since=net.now - 1) if each.frame.change]


def test_a_configuration_of_the_paper_tolerates_any_number_of_failures() -> None:
    net, (a, b, c, d) = members(BUS)
    for each in (b, c, d):
        net.crash(each)
    net.give(a, b"alone")
    net.run(5)
    assert views(net) == [(a,)]
    assert net.logs[a].messages() == [b"alone"]
    assert replace(net.config, policy="majority").policy == "majority"
