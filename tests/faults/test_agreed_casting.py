"""Sets that agree by multicast and repeaters, in whole worlds: the same as over links, and what is lost then.

`rostra sim storm --shape casts --seeds 1000` goes through storms of them.
"""

import pytest
from support.seeds import few_of

from rostra.names import Domain, Group
from rostra.protocols.agreed.config import AgreedConfig, Repeater, SetAddress
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Done
from rostra.sim.programs import SimProgram
from rostra.sim.storm import storm
from rostra.sim.world import World

WORLD = Domain("world")
LEDGER = Group("ledger", WORLD)
SITES = ("a", "b", "c", "d")
GROUP = ("239.192.0.2", 7470)


def repeaters(*names: str) -> tuple[Repeater, ...]:
    return tuple([Repeater(Domain(name), (f"10.0.0.{n}", 7471)) for n, name in enumerate(names, 1)])


ADDRESSES = {
    "links": (),
    "multicast": (SetAddress(WORLD, GROUP),),
    "repeater": (SetAddress(WORLD, None, repeaters("a"), tuple(map(Domain, SITES))),),
    "mixed": (SetAddress(WORLD, GROUP, repeaters("a", "b"), (Domain("d"),)),),
}


def world_of(by: str, seed: int = 0) -> tuple[World, list[SimProgram]]:
    """A member at each of four sites, whose servers, and that of the root, are one set."""
    world = World(
        seed,
        domains=dict.fromkeys(SITES, 1),
        timers=LinkConfig.lan().over_datagrams(),
        agreed=AgreedConfig(sets=ADDRESSES[by]),
    )
    world.run(4.0)
    return world, [joined(world, site) for site in SITES]


def joined(world: World, site: str) -> SimProgram:
    program = world.program(f"{site}.h1", f"p{len(world.programs)}")
    call = program.join_agreed(LEDGER, survive="majority")
    world.run(6.0)
    assert call.result == Done(), call.result
    return program


def set_of(world: World, site: str) -> str:
    """The servers that this one agrees with, by their letters."""
    view = world.processes[Domain(site)].stack[AGREED_SERVER].sets[WORLD].core.state.view
    return "".join(sorted([each.server for each in view.servers if each.server != WORLD]))


def agreed(world: World, programs: list[SimProgram]) -> None:
    """All have one view, of exactly these."""
    views = {
        (each.agreed[LEDGER].members, getattr(each.agreed[LEDGER].view, "number", 0)) for each in programs
    }
    assert len(views) == 1 and not any(each.agreed[LEDGER].blocked for each in programs)
    assert set(programs[0].agreed[LEDGER].members) == {each.address for each in programs}


@pytest.mark.spec("V-111")
@pytest.mark.parametrize("by", ADDRESSES)
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_members_and_servers_come_and_go_whatever_carries_the_messages(by: str, loss: float) -> None:
    world, programs = world_of(by)
    agreed(world, programs)
    assert bool(world.casting.sent) == (by != "links")
    world.lose(loss, only="data")
    programs.pop(1).kill()
    world.run(6.0)
    agreed(world, programs)
    world.crash("c")
    world.run(12.0)
    agreed(world, [each for each in programs if each.host != "c.h1"])
    assert set_of(world, "a") == "abd"
    world.restart("c")
    world.run(20.0)
    assert {set_of(world, site) for site in SITES} == {"abcd"}
    world.cut("d")
    world.run(12.0)
    late = joined(world, "b")
    assert (set_of(world, "a"), set_of(world, "d")) == ("abc", "d")
    world.heal()
    world.run(30.0)
    agreed(world, [*programs, late])


@pytest.mark.spec("V-111")
@pytest.mark.parametrize("by", ["multicast", "repeater", "mixed"])
def test_links_carry_no_message_of_a_set_that_has_an_address(by: str) -> None:
    """With all datagrams cut and all links up, nothing is agreed on together."""
    world, _ = world_of(by)
    world.cut("", only="data")
    programs = [joined(world, site) for site in "b"]
    world.run(20.0)
    assert set_of(world, "b") == "b" and programs[0].agreed[LEDGER].blocked


@pytest.mark.spec("V-017", "V-114")
@pytest.mark.parametrize("asked", ["b", "c"])
def test_xv_11_multicast_between_two_servers_dies_and_their_link_lives(asked: str) -> None:
    """The next change isolates one of the two, and completes. Others see both, and bring them together again:
    until the next change of one of the two."""
    world, programs = world_of("multicast")
    world.cut("link b | c", only="data")
    world.run(5.0)
    assert {set_of(world, site) for site in SITES} == {"abcd"}, "no change has missed it"
    late = world.program(f"{asked}.h1", "late")
    call = late.join_agreed(LEDGER, survive="majority")
    seen = set()
    for _ in range(100):
        world.run(0.1)
        seen.add(set_of(world, asked))
    other = "b" if asked == "c" else "c"
    node = world.processes[Domain(asked)].node
    assert node is not None and node.is_up(Domain(other)), "the link lives"
    assert "".join(sorted({*SITES} - {other})) in seen and call.result == Done()
    agreed(world, [*programs, late])
    world.heal("", only="data")
    world.run(20.0)
    assert {set_of(world, site) for site in SITES} == {"abcd"}
    agreed(world, [*programs, late])


@pytest.mark.spec("V-114", "V-017")
@pytest.mark.parametrize("how", ["killed", "deaf"])
def test_a_set_whose_only_repeater_is_lost_in_phase_one_does_not_hang(how: str) -> None:
    """Those that only it reached are alone, and say so; when it is back, so is the set."""
    world, programs = world_of("repeater")
    late = [world.program(f"{site}.h1", f"late-{site}") for site in "bcd"]
    initiated = world.casting.sent["Initiate"]
    calls = [each.join_agreed(LEDGER, survive="majority") for each in late]
    while world.casting.sent["Initiate"] == initiated:
        world.run(0.001)
    if how == "killed":
        world.crash("a")
    else:
        for other in (*SITES[1:], WORLD):
            world.cut(f"link a | {other}", only="data")
    world.run(30.0)
    assert [set_of(world, site) for site in "bcd"] == ["b", "c", "d"]
    assert all(each.agreed[LEDGER].blocked for each in programs if each.host != "a.h1")
    for site in "bcd":
        core = world.processes[Domain(site)].stack[AGREED_SERVER].sets[WORLD].core
        assert core.state.lock is None, "nothing waits for ever"
    if how == "killed":
        world.restart("a")
    world.heal("", only="data")
    world.run(40.0)
    assert {set_of(world, site) for site in SITES} == {"abcd"}
    assert [each.result for each in calls] == [Done()] * 3
    agreed(world, [*programs, *late])


@pytest.mark.spec("V-113", "V-114")
@pytest.mark.parametrize("lost", ["a", "b"])
def test_of_two_repeaters_one_is_enough(lost: str) -> None:
    world, programs = world_of("mixed")
    world.crash(lost)
    world.run(12.0)
    assert set_of(world, "d") == "".join(sorted({*SITES} - {lost}))
    programs = [each for each in programs if each.host[0] != lost]
    agreed(world, programs)
    agreed(world, [*programs, joined(world, "d")])


@pytest.mark.spec("V-111", "V-113")
@pytest.mark.parametrize("seed", few_of(4, 8))
def test_storms_over_datagrams_that_are_lost_and_cut(seed: int) -> None:
    storm(seed, "casts")
