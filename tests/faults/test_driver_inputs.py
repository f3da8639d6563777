"""What a driver gives its nodes in production, the simulator gives them too: time, a stall, a slow domain."""

from collections.abc import Sequence

from rostra.core.effects import Event, Instant
from rostra.core.observer import Seen
from rostra.names import Domain, Group
from rostra.protocols.election.events import Clock, StallDetected
from rostra.protocols.front.config import FrontConfig
from rostra.sim.world import World


class Inputs:
    """Everything that one node is given."""

    def __init__(self, path: str) -> None:
        self.events: list[Event] = []
        self._path = path

    def saw(self, now: Instant, node: Domain, event: Event, effects: Sequence[Seen]) -> None:
        if node == self._path:
            self.events.append(event)


def test_a_voter_is_given_the_time_and_grows_older_with_it():
    inputs = Inputs("s.-seat-1")
    World(1, domains={"s": 1}, replicas={"s": 3}, observers=[inputs]).run(5.0)
    times = [event.at_ms for event in inputs.events if isinstance(event, Clock)]
    assert len(times) > 10 and times == sorted(times) and times[-1] - times[0] > 3_000


def test_a_leader_that_stood_still_learns_it_before_anything_else():
    """C-161: it must not act before it has asked itself whether it still leads."""
    world = World(1, domains={"s": 1}, replicas={"s": 3})
    world.settle()
    leader = world.replicas.leaders[Domain("s")]
    inputs = Inputs(leader)
    world.observe(inputs)
    world.pause(leader).run(60.0)
    inputs.events.clear()
    world.resume(leader).run(1.0)
    assert isinstance(inputs.events[0], StallDetected) and 55.0 < inputs.events[0].late_s < 60.0
    assert world.replicas.leaders[Domain("s")] != leader


def test_programs_wait_while_their_domain_does_not_keep_up_and_nothing_is_lost():
    world = World(1, domains={"s": 2}, front=FrontConfig(backlog_max=2))
    programs = [world.program("s.h1", f"p{number}") for number in range(20)]
    world.settle()
    group = Group("g", Domain("s"))
    world.delay(0.2)
    calls = [program.join(group) for program in programs[:10]]
    world.run(0.1)
    assert world.notes["programs_held_back", ""] == 1
    late = [program.join(group) for program in programs[10:]]
    world.run(0.05)
    assert all(call.result is None for call in late), "they are not read meanwhile"
    world.delay(0.0).run(5.0)
    assert all(call.result is not None for call in (*calls, *late))
    assert all(len(program.members_of(group)) == 20 for program in programs)
