"""What a cut means, on every link of a world."""

import pytest
from support.tref import T_REF, UNEVEN

from rostra.names import Domain, Tree
from rostra.sim.world import World
from rostra.web.lab import LabCut, LabState


def cut(here: str, there: str | None = None, *, one_way: bool = False, link_only: bool = False) -> LabCut:
    return LabCut(1, Domain(here), None if there is None else Domain(there), one_way, link_only)


@pytest.mark.parametrize("tree", [T_REF, UNEVEN], ids=["T-REF", "uneven"])
@pytest.mark.parametrize(
    "order",
    [
        cut("eu", "us"),
        cut("eu", "us", one_way=True),
        cut("us", "eu", one_way=True),
        cut("eu"),
        cut("world", "eu"),
        cut("us", "us.ca"),
        cut("us.ca", "us"),
        cut("us.ca", "us", one_way=True),
        cut("eu", "us", link_only=True),
        cut("eu", "us", link_only=True, one_way=True),
        cut("us", "us.ca", link_only=True, one_way=True),
    ],
    ids=str,
)
def test_a_cut_loses_exactly_what_the_simulator_loses(tree: Tree, order: LabCut) -> None:
    world = World(1, tree, history=False)
    theirs = {(line.sender, line.to) for line in world.lines(str(order))}
    ways = [way for a, b in tree.links() for way in ((a, b), (b, a))]
    assert {way for way in ways if order.loses(*way)} == theirs != set()


def test_a_world_with_nothing_broken_is_whole() -> None:
    assert LabState().is_whole
    assert not LabState(cuts=(cut("eu"),)).is_whole
    assert not LabState(crashed=(Domain("eu.h1"),)).is_whole
    assert not LabState(paused=(Domain("eu.h1"),)).is_whole
