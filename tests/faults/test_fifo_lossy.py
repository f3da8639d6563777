"""The paper's three sites while much is lost between them, data and control alike: nobody is told that it
lost something, and nobody waits for long."""

from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace
from support.seeds import seeds

from benchmarks.xpand_sim import ONE_WAY_S, PERIOD_S, TREES, G, sites
from rostra.protocols.fifo.events import Delivered, Excluded, Gap, Item
from rostra.sim.programs import SimProgram
from rostra.sim.world import World

JOINS_THAT_EVER_FAILED = [
    1,  # a delegate asked again, was pinned where the second answer began, and went by the first
    7,
    13,
    19,
]


def speaks(world: World, host: str, name: str, losses: list[tuple[str, Item]]) -> SimProgram:
    program = world.program(host, name)
    program.join_fifo(G)

    def hear(at: float, item: Item) -> None:
        if isinstance(item, Excluded | Gap):
            losses.append((program.host, item))

    program.conversation(G).hearer = hear
    program.stream(G, PERIOD_S)
    return program


@pytest.mark.spec("X-005", "X-006", "X-022", "X-026")
@pytest.mark.parametrize("seed", sorted({*JOINS_THAT_EVER_FAILED, *seeds(0)}))
def test_nobody_who_joins_on_a_bad_network_loses_a_part_of_what_it_was_promised(seed):
    """TX-13: among connected members that would be a broken promise."""
    world = sites(seed, 0.2, TREES["chain"], hosts=2)
    losses: list[tuple[str, Item]] = []
    for host in ("huji.h1", "mit.h1", "ntu.h1"):
        speaks(world, host, "m", losses)
    world.run(12.0)
    assert losses == []


@pytest.mark.spec("X-005", "X-006", "X-008", "X-022", "X-026", "X-044")
@pytest.mark.parametrize("seed", seeds(4))
def test_nobody_loses_anything_while_members_and_delegates_come_and_go_on_a_bad_network(seed):
    luck = Random(f"come and go {seed}")
    config = replace(TREES["chain"], delegate_linger_s=luck.choice((0.5, 3.0)))
    world = sites(seed, luck.choice((0.1, 0.2, 0.3)), config, hosts=2)
    losses: list[tuple[str, Item]] = []
    hosts = ("huji.h1", "huji.h2", "mit.h1", "mit.h2", "ntu.h1")
    here = [speaks(world, host, "m", losses) for host in hosts[:3]]
    for number in range(25):
        world.run(luck.choice((0.05, 0.3, 1.0)))
        if luck.random() < 0.5 and len(here) < 6:
            here.append(speaks(world, luck.choice(hosts), f"m{number}", losses))
        elif len(here) > 1:
            here.pop(luck.randrange(len(here))).leave(G)
    world.run(10.0)
    assert losses == []


@pytest.mark.spec("X-002", "X-083", "X-090")
@pytest.mark.parametrize("seed", sorted({2, 10, 11, 22, 24, *seeds(0)}))
def test_xx9_a_stream_is_not_late_by_more_than_eight_round_trips_while_a_fifth_is_lost(seed):
    """With these seeds ways were called narrow that were not, or taken for longer or shorter than they are,
    and streams were up to ten seconds late; with 11 and 24 one message was asked for nine times."""
    world = sites(seed, 0.2, TREES["chain"], hosts=2)
    programs = {site: world.program(f"{site}.h1", "m") for site in ("huji", "mit", "ntu")}
    for program in programs.values():
        program.join_fifo(G)
    world.run(8.0)
    began, for_s = world.now, 30.0
    late: list[float] = []  # in round trips of the way, for each message at each receiver

    def hears(at_site: str) -> Callable[[float, Item], None]:
        def hear(at: float, item: Item) -> None:
            if isinstance(item, Delivered) and (of := item.stream.partition(".")[0]) != at_site:
                way_s = ONE_WAY_S[min(of, at_site), max(of, at_site)]
                said = [began + (n - 1) * PERIOD_S for n in range(item.run.first, item.run.end)]
                late.extend((at - each - way_s) / (2 * way_s) for each in said)

        return hear

    for site, program in programs.items():
        program.conversation(G).hearer = hears(site)
        program.stream(G, PERIOD_S, count=round(for_s / PERIOD_S))
    world.run(for_s + 10.0)
    assert len(late) == 6 * round(for_s / PERIOD_S), "all of them came"
    assert sorted(late)[round(0.99 * len(late))] < 8.0
