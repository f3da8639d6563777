"""Crowds join in one turn, in the middle of a storm: all end up with everything, and no turn is long."""

import pytest

from rostra.names import Domain, Group
from rostra.protocols.fifo.events import Deliver, Joined
from rostra.protocols.relaxed.events import JoinsEnd
from rostra.sim.storm import CROWD, storm
from rostra.sim.taps import RuleBroken, TurnWork
from rostra.sim.world import World


@pytest.mark.parametrize("seed", [*range(6), 1058])
def test_crowds_join_in_a_storm(seed):
    assert storm(seed, CROWD).verdicts


def test_a_turn_whose_work_grows_with_the_square_of_its_members_is_found():
    world = World(1, domains={"s": 1}, fifo=True)
    stack = world.processes[Domain("s.h1")].node.stack
    told = Deliver("s.h1/a#1", Group("g", Domain("s")), Joined("s.h1/b#2", "both"))
    TurnWork().stepped(Domain("s.h1"), stack, JoinsEnd(), [told] * 30)
    with pytest.raises(RuleBroken):
        TurnWork().stepped(Domain("s.h1"), stack, JoinsEnd(), [told] * 100)
