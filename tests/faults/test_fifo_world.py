"""Groups that speak, in the simulator: real nodes, and a data channel of its own beside the lines."""

import pytest

from rostra.errors import BadInput
from rostra.groups.attributes import Role
from rostra.impair.quality import Constant, LineQuality
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.fifo.cluster import CLUSTER
from rostra.protocols.fifo.core import HOST
from rostra.protocols.fifo.events import Delivered, Joined, Left
from rostra.protocols.flow.messages import Data, Run
from rostra.protocols.flow.runs import block_of
from rostra.protocols.relaxed.requests import Resolved
from rostra.sim import World
from rostra.sim.datagrams import DatagramNetwork
from rostra.sim.fifo_checkers import fifo_gap_free
from rostra.sim.history import DeliveryRecord, SubmissionRecord
from rostra.sim.network import STEADY
from rostra.sim.programs import SimProgram

G = Group("g", Domain("world"))
SITES = {"huji": 2, "mit": 1, "ntu": 1}


def talking(seed: int = 1, **settings: object) -> tuple[World, list[SimProgram]]:
    world = World(seed, domains=SITES, fifo=True, **settings)
    world.settle()
    programs = [world.program(host) for host in world.tree.hosts]
    for program in programs:
        program.join_fifo("g")
    world.run(3.0)
    return world, programs


@pytest.mark.spec("X-004", "X-005", "X-110")
def test_everybody_hears_everybody_through_a_fifth_of_all_datagrams_lost():
    world, programs = talking()
    world.lose(0.2, only="data")
    for program in programs:
        program.stream("g", 0.1, count=50)
    world.run(10.0)
    for program in programs:
        others = {other.address: 50 for other in programs if other is not program}
        assert program.conversation("g").last == others
    assert sum(way.lost for way in world.data.ways.values()) > 100


@pytest.mark.parametrize(
    "ask", [lambda asker: asker.resolve("g"), lambda asker: asker.resolve_everywhere("g")]
)
def test_answers_do_not_list_delegates(ask):
    """Their records hold keys. The agent of the runtime once left them out, and the simulator's did not."""
    world, programs = talking()
    for asker in (world.program("mit.h1", "asker"), programs[0]):
        call = ask(asker)
        world.run(1.0)
        lists = dict(call.result.parts) if isinstance(call.result, Resolved) else {ROOT: call.result.members}
        assert [each.endpoint for each in lists[ROOT]] == [program.address for program in programs]


def test_a_fellow_that_left_before_anybody_was_listed_has_only_joined_when_it_is_back():
    """Members of one host share what they receive. One that came and went at once was told to have left when
    it came back."""
    world = World(1, domains=SITES, fifo=True)
    world.settle()
    here, other = world.program("huji.h1", "here"), world.program("huji.h1", "other")
    here.join_fifo("g")
    other.join_fifo("g")
    here.leave("g")
    world.run(3.0)
    here.join_fifo("g")
    world.run(3.0)
    told = [
        type(record.item)
        for record in world.history
        if isinstance(record, DeliveryRecord)
        and record.endpoint == other.address
        and getattr(record.item, "endpoint", None) == here.address
    ]
    assert told == [Joined]


@pytest.mark.spec("X-110")
def test_a_seed_is_a_whole_history_with_groups_that_speak():
    def history() -> object:
        world, programs = talking(7, data=STEADY.losing(0.1).duplicating(0.1).reordering(0.1))
        for program in programs:
            program.stream("g", 0.1, count=20)
        world.run(5.0)
        return world.history

    assert history() == history()


def test_what_becomes_of_a_message_does_not_depend_on_what_else_is_said():
    huji, mit = Domain("huji"), Domain("mit")

    def fates(*, others: bool) -> list[int]:
        data = DatagramNetwork(3, STEADY.losing(0.2).duplicating(0.2), (huji, mit))
        way, found = data.way(huji, mit), []
        for number in range(1, 101):
            if others:
                data.arrivals(number + 0.5, way, said("huji.h2/b#1", number))
            message = said("huji.h1/a#1", number)
            found += [len(data.arrivals(float(number), way, message)) for _ in range(2)]
        return found

    assert fates(others=True) == fates(others=False)
    assert set(fates(others=False)) == {0, 1, 2}, "and yet it is luck"


def said(stream: str, number: int) -> Data:
    return Data(Endpoint(stream), Run(number, 1, block_of([b"x"])), number, 0)


def test_a_cut_of_one_channel_leaves_the_other():
    world, (a, b, c, _) = talking()
    world.cut("huji | mit", only="control")
    a.say("g", b"one")
    world.run(0.5)
    assert c.conversation("g").last == {a.address: 1}
    world.heal(only="control").cut("huji | mit", only="data")
    a.say("g", b"two")
    world.run(0.02)
    assert c.conversation("g").last == {a.address: 1} and b.conversation("g").last == {a.address: 2}
    world.heal(only="data")
    world.run(2.0)
    assert c.conversation("g").last == {a.address: 2}
    assert not [item for item in items(world, c) if isinstance(item, Left)]


def items(world: World, program: SimProgram) -> list[object]:
    assert world.history is not None
    return [r.item for r in world.history if isinstance(r, DeliveryRecord) and r.endpoint == program.address]


def test_ways_are_made_to_measure_and_have_a_rate():
    world, (a, _, c, _) = talking()
    world.make("huji | mit", LineQuality(Constant(0.5)), only="data")
    came: list[float] = []
    c.conversation("g").hearer = lambda at, item: came.append(at)
    a.say("g", b"x")
    said_at = world.now
    world.run(2.0)
    assert came[0] - said_at == pytest.approx(0.502)
    world.throttle(10_000.0, "huji | mit")
    a.stream("g", 0.005, count=40, size=500)
    world.run(30.0)
    assert c.conversation("g").last[a.address] == 41
    assert world.data.way(Domain("huji"), Domain("mit")).lost > 0


@pytest.mark.spec("X-090")
def test_a_narrow_way_carries_what_it_can_and_little_of_it_twice():
    """Twenty messages of 500 bytes over 1000 bytes per second: more than it can take, all at once."""
    world, (a, _, c, _) = talking()
    world.throttle(1000.0, "huji | mit")
    a.stream("g", 0.001, count=20, size=500)
    world.run(20.0)
    assert c.conversation("g").last[a.address] == 20
    way = world.data.way(Domain("huji"), Domain("mit"))
    assert way.datagrams["Data"] + way.datagrams["Repair"] <= 4 * 20, "not again and again"


@pytest.mark.spec("X-090")
def test_a_way_that_is_too_narrow_for_a_stream_is_full_of_what_is_new():
    """It takes half of what is said. Repairs once took all of it for ever: those who asked for them did not
    know of what was lost since then, which was therefore taken to have arrived."""
    world, (a, _, c, _) = talking()
    world.throttle(25_000.0, "huji | mit")
    a.stream("g", 0.01, count=10_000, size=500)
    way = world.data.way(Domain("huji"), Domain("mit"))
    world.run(20.0)
    came, said = c.conversation("g").last[a.address], way.datagrams["Data"] + way.datagrams["Repair"]
    world.run(60.0)
    came, said = (
        c.conversation("g").last[a.address] - came,
        way.datagrams["Data"] + way.datagrams["Repair"] - said,
    )
    assert came * 500 > 0.85 * 25_000 * 60, "of what the way can take"
    assert came > 0.7 * said


def test_a_program_that_does_not_read_gets_everything_when_it_does():
    world, (a, b, c, _) = talking()
    c.pause("g")
    a.say("g", b"one", b"two")
    world.run(1.0)
    assert c.conversation("g").last == {} and b.conversation("g").last == {a.address: 2}
    c.resume("g")
    world.run(0.1)
    assert c.conversation("g").last == {a.address: 2}


@pytest.mark.spec("X-013", "X-047")
def test_numbers_go_on_after_a_leave_and_what_was_never_sent_has_none():
    world, (a, b, *_) = talking()
    a.say("g", b"one")
    a.leave("g")
    world.run(3.0)
    assert a.conversation("g").state == "over"
    world.cut("huji.h1")
    world.run(10.0)
    a.join_fifo("g")
    a.say("g", b"lost")
    world.run(0.5)
    a.leave("g")
    world.run(0.5)
    assert a.conversation("g").unsent == 1 and a.conversation("g").said == 1
    world.heal()
    world.run(10.0)
    a.join_fifo("g")
    a.say("g", b"two")
    world.run(3.0)
    assert b.conversation("g").last[a.address] == 2
    assert world.history is not None
    said = [record.run.first for record in world.history if isinstance(record, SubmissionRecord)]
    assert said == [1, 2, 2]


def test_joining_wrongly_is_refused_with_what_to_do():
    _, (a, *_) = talking()
    with pytest.raises(BadInput, match="already"):
        a.join_fifo("g")
    with pytest.raises(BadInput, match="does not speak"):
        a.say("other", b"x")
    plain = World(1, domains=SITES)
    with pytest.raises(BadInput, match="nobody can speak"):
        plain.program("huji.h1").join_fifo("g")


def test_a_plain_world_has_no_doors():
    world = World(1, domains=SITES)
    stacks = [process.stack for process in world.processes.values()]
    assert not any(HOST in stack or CLUSTER in stack for stack in stacks)


@pytest.mark.spec("X-052")
def test_a_listener_hears_and_is_not_heard():
    world, (a, *_, d) = talking()
    d.leave("g")
    world.run(3.0)
    d.join_fifo("g", role=Role.RECEIVE)
    world.run(1.0)
    a.say("g", b"x")
    world.run(1.0)
    assert d.conversation("g").last[a.address] == 1 and d.conversation("g").credit == 0


@pytest.mark.spec("X-052", "X-053", "X-127")
def test_a_member_that_only_speaks_is_told_once_who_comes_and_who_goes():
    world = World(1, domains=SITES, fifo=True)
    world.settle()
    speaker, *others = (world.program(host) for host in world.tree.hosts)
    speaker.join_fifo("g", role=Role.SEND)
    for other in others:
        other.join_fifo("g")
    world.run(3.0)
    others[-1].leave("g")
    world.run(3.0)
    assert world.history is not None
    assert not fifo_gap_free(world.history).broken
    told = [item for item in items(world, speaker) if isinstance(item, Joined | Left)]
    assert [item for item in told if isinstance(item, Left)] == [Left(others[-1].address, "left", None)]
    assert speaker.conversation("g").members == {p.address for p in (speaker, *others[:-1])}


@pytest.mark.spec("X-006", "X-048")
def test_a_leaver_is_heard_to_the_end_by_one_who_reads_late():
    world, (a, _, c, _) = talking()
    a.say("g", b"one")
    world.run(0.5)
    c.pause("g")
    a.say("g", b"two", b"three")
    a.leave("g")
    world.run(10.0)
    assert c.conversation("g").last == {a.address: 1} and a.address in c.conversation("g").members
    c.resume("g")
    world.run(5.0)
    assert c.conversation("g").last == {a.address: 3} and a.address not in c.conversation("g").members
    assert world.history is not None
    assert fifo_gap_free(world.history).ok


@pytest.mark.spec("X-006")
def test_nothing_is_missed_of_one_who_leaves_and_returns_while_nobody_reads():
    world, (a, _, c, _) = talking()
    c.pause("g")
    a.say("g", b"one", b"two")
    world.run(0.5)
    a.leave("g")
    world.run(14.0)
    a.join_fifo("g")
    world.run(1.0)
    a.say("g", b"three")
    world.run(1.0)
    c.resume("g")
    world.run(5.0)
    assert world.history is not None
    assert fifo_gap_free(world.history, complete=True).ok
    got = [item.run.first for item in items(world, c) if isinstance(item, Delivered)]
    assert got == [1, 3] and c.conversation("g").last == {a.address: 3}
