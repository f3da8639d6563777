"""Servers with replicas, in the simulator: a leader dies, and nobody notices (C-160..C-164, X-100..X-104)."""

from collections.abc import Callable
from random import Random

import pytest
from support.seeds import seeds

from rostra.core.observer import Reporter
from rostra.names import Domain, Group
from rostra.observe.trace import ProgramGiven, ProgramTold
from rostra.protocols.fifo import events as fifo
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import Denied, Done, Join, Leave, Left, Only, Without
from rostra.sim import World
from rostra.sim.fifo_checkers import fifo_gap_free
from rostra.sim.programs import SimProgram

G = Group("g", Domain("world"))
NEWS = Group("news", Domain("huji"))
HUJI, MIT = Domain("huji"), Domain("mit")
SITES = {"huji": 2, "mit": 2, "ntu": 1}
LAN = LinkConfig.lan().over_datagrams()
WORRYING = (fifo.Gap, fifo.Without, fifo.Only, fifo.Excluded, fifo.Left)


class Ears(Reporter):
    """Whatever programs are told that sounds like a loss."""

    def __init__(self) -> None:
        self.filters: list[object] = []
        self.left: list[tuple[float, str, str]] = []
        self.shows = {ProgramTold: self._told}

    def _told(self, at: float, host: Domain, told: ProgramTold) -> None:
        if isinstance(told.notice, Only | Without):
            self.filters.append((at, host, told.notice))
        elif isinstance(told.notice, Left):
            self.left.append((at, host, told.notice.endpoint))


class Hearer(Reporter):
    """Shows what programs are given in groups that speak."""

    def __init__(self, hear: Callable[[float, Domain, fifo.Item], None]) -> None:
        self.shows = {ProgramGiven: lambda at, host, given: hear(at, host, given.item)}


def members(program: SimProgram, group: Group = G) -> list[str]:
    return sorted(member.endpoint for member in program.views.groups[group].members)


def meeting(seed: int = 1, **more: object) -> tuple[World, list[SimProgram], Ears]:
    """Everybody is in a group; huji and mit have three servers each."""
    ears = Ears()
    world = World(seed, domains=SITES, replicas={"huji": 3, "mit": 3}, timers=LAN, observers=[ears], **more)
    world.run(3.0)
    programs = [world.program(host) for host in world.tree.hosts]
    world.run(0.5)
    for program in programs:
        world.ask(program, Join(G))
    world.run(2.0)
    return world, programs, ears


@pytest.mark.spec("C-160", "A-22")
@pytest.mark.parametrize("seed", seeds(5))
def test_nobody_is_told_when_the_leader_of_a_domain_dies(seed: int) -> None:
    world, programs, ears = meeting(seed)
    before = world.replicas.leaders[HUJI]
    seen = [members(program) for program in programs]
    world.run(Random(seed).random())

    world.crash("huji").run(LAN.detect.down_after_s + 2.0)

    assert world.replicas.leaders[HUJI] not in (before, None), "another leads within the bound"
    assert world.replicas.living[world.replicas.leaders[HUJI]].leads
    world.run(5.0)
    assert ears.filters == [] and ears.left == []
    assert [members(program) for program in programs] == seen


@pytest.mark.spec("C-162", "A-22")
def test_a_leave_during_the_takeover_is_seen_everywhere_within_the_grace() -> None:
    world, programs, ears = meeting()
    first, second, *_ = programs
    world.crash("huji").run(0.5)

    world.ask(first, Leave(G))
    world.run(LAN.detect.down_after_s + LAN.failover_grace_s)

    assert ears.filters == []
    for program in programs[1:]:
        assert first.address not in members(program), program.host
    assert second.address in members(programs[-1])


@pytest.mark.spec("C-162")
def test_the_last_one_of_a_cluster_leaves_while_nobody_leads() -> None:
    """The new leader has no such group, and so no list of it to tell: its neighbours must find out."""
    world, programs, _ = meeting()
    world.crash("huji").run(0.5)
    for program in programs[:2]:
        world.ask(program, Leave(G))
    world.run(8.0)
    assert members(programs[-1]) == sorted(each.address for each in programs[2:])


@pytest.mark.spec("C-163")
def test_whoever_asks_in_the_middle_of_it_is_answered_in_full() -> None:
    world, programs, ears = meeting()
    world.crash("huji").run(0.6)
    late = world.program("huji.h1", "late")
    elsewhere = world.program("ntu.h1", "late")
    world.run(0.2)
    calls = [world.ask(late, Join(G)), world.ask(elsewhere, Join(G))]
    world.run(8.0)
    assert [type(call.result) for call in calls] == [Done, Done]
    everybody = sorted(each.address for each in (*programs, late, elsewhere))
    assert members(late) == members(elsewhere) == everybody
    assert ears.filters == [] and ears.left == []


@pytest.mark.spec("C-164")
def test_when_all_replicas_die_it_is_a_failure_like_any_other() -> None:
    world, programs, ears = meeting()
    for voter in world.replicas.of[HUJI]:
        world.crash(voter)
    world.run(LAN.detect.down_after_s + LAN.failover_grace_s + 2.0)
    told = {host: notice for _, host, notice in ears.filters}
    assert isinstance(told["mit.h1"], Without) and told["mit.h1"].domain == HUJI
    assert isinstance(told["huji.h1"], Only) and told["huji.h1"].domain == "huji.h1"
    for voter in world.replicas.of[HUJI]:
        world.restart(voter)
    world.run(10.0)
    assert {tuple(members(program)) for program in programs} == {
        tuple(sorted(each.address for each in programs))
    }


@pytest.mark.spec("C-163")
def test_all_replicas_are_restarted_at_once_and_nobody_notices() -> None:
    """Who their neighbours were is on their disks: the new leader's first answers wait for them."""
    world, programs, ears = meeting()
    seen = [members(program) for program in programs]
    for voter in world.replicas.of[HUJI]:
        world.crash(voter)
    world.run(0.2)
    for voter in world.replicas.of[HUJI]:
        world.restart(voter)
    world.run(10.0)
    assert HUJI in world.replicas.leaders
    assert ears.filters == [] and ears.left == []
    assert [members(program) for program in programs] == seen


@pytest.mark.spec("C-160", "C-161")
def test_a_leader_that_stood_still_finds_another_one_in_its_place() -> None:
    world, _, ears = meeting()
    old = world.replicas.leaders[HUJI]
    world.pause(old).run(6.0)
    new = world.replicas.leaders[HUJI]
    assert new != old
    world.resume(old).run(5.0)
    assert world.replicas.leaders[HUJI] == new
    assert not world.replicas.living[old].leads
    assert ears.filters == [] and ears.left == []


def test_what_is_too_large_for_the_others_is_not_said_and_that_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rostra.replica.SHARED_BYTES_MAX", 10)
    world, programs, _ = meeting()
    assert world.notes["Noted", "too large to share"] > 0
    world.crash("huji").run(10.0)
    assert HUJI in world.replicas.leaders, "a takeover that is heard of is still one"
    assert members(programs[0]) == members(programs[-1])


@pytest.mark.spec("C-160")
def test_without_a_majority_nobody_leads() -> None:
    world, _, _ = meeting()
    one, two, three = world.replicas.of[HUJI]
    world.crash(two).crash(three)
    world.run(6.0)
    assert HUJI not in world.replicas.leaders and not world.replicas.living[one].leads
    world.restart(two).run(4.0)
    assert HUJI in world.replicas.leaders


@pytest.mark.spec("C-160", "C-012")
def test_a_permanent_group_outlives_the_leader_that_promised_it() -> None:
    world, _, _ = meeting()
    call = world.register(NEWS)
    world.run(1.0)
    assert isinstance(call.result, Done)
    for _ in range(2):
        old = world.replicas.leaders[HUJI]
        world.crash("huji").run(5.0)
        leader = world.replicas.living[world.replicas.leaders[HUJI]]
        assert leader._stack[SERVER].registry.is_permanent(NEWS)
        world.restart(old).run(2.0)


@pytest.mark.spec("C-012", "C-160")
def test_what_no_majority_has_is_not_promised() -> None:
    world, _, _ = meeting()
    leader = world.replicas.leaders[HUJI]
    for voter in world.replicas.of[HUJI]:
        if voter != leader:
            world.hold(f"{leader} | {voter}")
    call = world.register(NEWS)
    world.run(0.3)
    assert call.result is None, "neither yes nor no, as long as nobody else has it"
    world.release().run(0.5)
    assert isinstance(call.result, Done), "and yes when they have"


@pytest.mark.spec("C-012", "C-160")
def test_what_no_majority_has_is_told_to_no_child_and_refused_when_another_leads() -> None:
    world, _, _ = meeting()
    leader = world.replicas.leaders[HUJI]
    for voter in world.replicas.of[HUJI]:
        if voter != leader:
            world.hold(f"{leader} | {voter}")
    call = world.register(NEWS)
    world.run(0.3)
    agents = [world.processes[host].stack[AGENT] for host in world.tree.hosts if host.startswith("huji.")]
    assert agents and not any(agent.registry.is_permanent(NEWS) for agent in agents)
    world.pause(leader).run(6.0)
    assert world.replicas.leaders[HUJI] != leader
    world.resume(leader).run(2.0)
    assert isinstance(call.result, Denied) and call.result.code == "UNREACHABLE"
    world.release().run(5.0)
    assert not any(agent.registry.is_permanent(NEWS) for agent in agents), "it was never promised"
    again = world.register(NEWS)
    world.run(1.0)
    assert isinstance(again.result, Done)
    assert all(agent.registry.is_permanent(NEWS) for agent in agents)


# Groups that speak


def conversation(seed: int, loss: float = 0.0) -> tuple[World, list[SimProgram], list[object]]:
    world = World(seed, domains=SITES, replicas={"huji": 3, "mit": 3}, timers=LAN, fifo=True)
    world.run(3.0)
    programs = [world.program(host) for host in world.tree.hosts]
    for program in programs:
        program.join_fifo("g")
    world.run(3.0)
    worries: list[object] = []

    def hear(at: float, host: Domain, item: fifo.Item) -> None:
        if isinstance(item, WORRYING):
            worries.append((at, host, item))

    world.observe(Hearer(hear))
    if loss:
        world.lose(loss, only="data")
    return world, programs, worries


def heard_all(programs: list[SimProgram], count: int) -> bool:
    return all(
        program.conversation("g").last == {other.address: count for other in programs if other is not program}
        for program in programs
    )


@pytest.mark.spec("X-100", "X-101", "X-102", "XX-11", "X-036")
@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize("seed", seeds(4))
def test_streams_go_on_without_a_gap_when_delegates_die_one_after_another(seed: int, loss: float) -> None:
    luck = Random(seed)
    world, programs, worries = conversation(seed, loss)
    for program in programs:
        program.stream("g", 0.1, count=200)
    world.run(luck.random() * 3)
    for domain in luck.sample(("huji", "mit", "huji"), 3):
        dead = world.replicas.leaders[Domain(domain)]
        world.crash(domain).run(5.0 + luck.random())
        world.restart(dead).run(2.0 + luck.random())
    world.run(25.0)
    assert worries == []
    assert heard_all(programs, 200)
    assert fifo_gap_free(world.history).ok


@pytest.mark.spec("X-101")
def test_of_two_who_could_take_over_the_one_that_followed_does() -> None:
    """The other one has just come back, and knows of no stream that anybody is owed."""
    world, programs, worries = conversation(1)
    for program in programs:
        program.stream("g", 0.1, count=150)
    first = world.replicas.leaders[HUJI]
    world.crash("huji").run(5.0)
    world.restart(first)
    world.crash("huji").run(15.0)
    assert world.replicas.leaders[HUJI] != first
    assert worries == [] and heard_all(programs, 150)


@pytest.mark.spec("X-103", "XX-11")
@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.05, 0.1, 0.3, 0.8, 1.5])
def test_a_join_that_is_under_way_when_the_delegate_dies_completes(after_s: float) -> None:
    world, programs, worries = conversation(3)
    for program in programs:
        program.stream("g", 0.1, count=150)
    world.run(1.0)
    late = world.program("mit.h1", "late")
    world.run(0.1)
    late.join_fifo("g")
    world.run(after_s)
    world.crash("mit").run(14.0)
    late.stream("g", 0.1, count=20)
    world.run(10.0)
    assert worries == []
    assert late.conversation("g").last == {other.address: 150 for other in programs}
    assert all(program.conversation("g").last[late.address] == 20 for program in programs)
    assert fifo_gap_free(world.history).ok


@pytest.mark.spec("X-101", "X-006", "X-047")
@pytest.mark.parametrize("site", ["huji", "ntu"])
@pytest.mark.parametrize("after_s", [0.1, 0.5, 0.9, 1.1, 1.6, 2.5])
def test_the_last_words_of_one_who_leaves_in_the_middle_of_a_takeover_are_heard(
    site: str, after_s: float
) -> None:
    """At the site whose delegate died, and at another one."""
    world, programs, _ = conversation(11)
    leaver = next(program for program in programs if program.host.startswith(site))
    leaver.stream("g", 0.02)
    world.run(1.0)
    world.crash("huji").run(after_s)
    leaver.leave("g")
    said = leaver.conversation("g").said
    world.run(25.0)
    for other in programs:
        if other is not leaver:
            assert other.conversation("g").last[leaver.address] == said, other.host


@pytest.mark.spec("X-102", "XX-13")
def test_with_all_replicas_dead_the_others_are_told_and_the_stream_goes_on_afterwards() -> None:
    world, programs, worries = conversation(5)
    for program in programs:
        program.stream("g", 0.1, count=120)
    world.run(1.0)
    for voter in world.replicas.of[MIT]:
        world.crash(voter)
    world.run(6.0)
    assert {type(item) for _, _, item in worries} & {fifo.Without, fifo.Left}
    for voter in world.replicas.of[MIT]:
        world.restart(voter)
    world.run(30.0)
    assert fifo_gap_free(world.history).ok


def told_after_a_standstill(replicas: dict[str, int], stands_s: float) -> tuple[World, dict[str, list[str]]]:
    """The agent of huji.h1 stands still for so long. What every program was told, in order."""
    world = World(4, domains=SITES, replicas=replicas, timers=LAN, fifo=True)
    world.run(3.0)
    programs = [world.program(host) for host in world.tree.hosts]
    for program in programs:
        program.join_fifo("g")
    world.run(3.0)
    told: dict[str, list[str]] = {}

    def hear(at: float, host: Domain, item: fifo.Item) -> None:
        if isinstance(item, (*WORRYING, fifo.Joined, fifo.Parted)):
            about = item.endpoint.partition("/")[0] if isinstance(item, fifo.Left | fifo.Joined) else ""
            why = f" {item.why}" if isinstance(item, fifo.Left) else ""
            told.setdefault(host, []).append(f"{type(item).__name__} {about}{why}".strip())

    world.observe(Hearer(hear))
    for program in programs:
        program.stream("g", 0.1)
    world.run(2.0).pause("huji.h1").run(stands_s).resume("huji.h1").run(20.0)
    return world, told


@pytest.mark.spec("C-030", "X-102")
@pytest.mark.parametrize("stands_s", [3.0, 20.0])
def test_an_agent_that_stood_still_is_told_so_with_replicas_as_without(stands_s: float) -> None:
    """It was given up, others were told, and it must know: its stream would have a hole without a gap."""
    _, alone = told_after_a_standstill({}, stands_s)
    world, told = told_after_a_standstill({"huji": 3}, stands_s)
    assert any(line.startswith(("Only", "Without")) for line in alone["huji.h1"])
    assert told == alone
    for program in world.programs:
        assert len(program.conversation("g").members) == len(world.tree.hosts), program.host
        assert program.conversation("g").state == "in"
    assert fifo_gap_free(world.history).ok


def test_a_seed_is_a_whole_history_with_replicas() -> None:
    def history() -> object:
        world, programs, _ = conversation(7, 0.1)
        for program in programs:
            program.stream("g", 0.1, count=30)
        world.run(1.0)
        world.crash("huji").run(8.0)
        return world.history

    assert history() == history()
