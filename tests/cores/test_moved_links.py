"""A neighbour that has replicas changes hands, and nobody is told of a loss (C-162, C-163)."""

import pytest
from support.agents import CHESS, FAR_ANN, GMS, Agent, sent, their_id
from support.bench import ALL, NONE, OWN, RESOLVE, Bench, G, an_id, asks, interest, member, reply, to

from rostra.core.effects import (
    Answer,
    CancelTimer,
    Effect,
    Event,
    Ignored,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    Send,
    SetTimer,
    Tell,
    TimerFired,
)
from rostra.core.observer import TURN_ENDED
from rostra.core.stack import Service, ServiceName, Stack
from rostra.groups.members import Because, Cause, Part
from rostra.journal.entries import Entry
from rostra.names import Domain
from rostra.node import GRACE, TICK, Node, Output
from rostra.observe.scribe import Scribe
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.core import SESSIONS_PER_LIFE
from rostra.protocols.links.events import Awaited, ChannelOpened, PacketArrived, Removed, Transmit
from rostra.protocols.links.packets import Data, Hello
from rostra.protocols.relaxed.messages import (
    EndpointsJoined,
    InterestChanged,
    ResolveReply,
    ResolveRequest,
    SyncDone,
)
from rostra.protocols.relaxed.requests import Absolute, Resolve

C1, C2 = "eu.fr.c1", "eu.fr.c2"
X = member("eu.fr.c1.h1/x")
A = member("eu.de.c1.h1/a")
LEFT = Domain("fr.lyon")


def moved(bench: Bench, peer: str) -> list[Effect]:
    return bench.said(LinkMoved(Domain(peer), 2))


def middle(*up: str) -> Bench:
    bench = Bench("eu.fr", *(up or (C1, C2, "eu.de", "eu")))
    for child in bench.server.neighbours.children:
        bench.tell(child, ALL)
    return bench


# At a domain server


@pytest.mark.spec("C-162")
def test_a_child_that_changes_hands_is_told_to_nobody_and_is_still_spoken_to() -> None:
    bench = middle()

    assert moved(bench, C1) == []
    assert bench.want(C1) is ALL


@pytest.mark.spec("C-162")
def test_of_groups_that_such_a_child_does_not_name_again_everybody_hears_that_nobody_is_there() -> None:
    """A leave that was issued while nobody led is in no message: the new leader has no such group."""
    bench = middle()
    moved(bench, C1)

    told = bench.hear(C1, SyncDone(an_id(C1)))

    nobody = EndpointsJoined(OWN, G, (), Cause.MERGE, Part(True, Domain(C1)))
    assert told == to("eu", "eu.de", message=nobody)
    assert bench.want(C1) is NONE


@pytest.mark.spec("C-162")
def test_a_group_that_it_names_again_is_left_to_its_own_baseline() -> None:
    bench = middle()
    moved(bench, C1)
    bench.tell(C1, RESOLVE)

    assert bench.hear(C1, SyncDone(an_id(C1))) == []
    assert bench.want(C1) is RESOLVE


@pytest.mark.spec("C-162", "C-163")
def test_what_was_asked_of_it_is_asked_again_and_waited_for() -> None:
    bench = middle()
    request = asks("eu")
    bench.hear("eu", request)
    bench.hear(C1, reply(request, X, interest=ALL))

    again = moved(bench, C1)

    assert again == [Send(Domain(C1), ResolveRequest(request.id, G))]
    assert bench.hear(C2, reply(request, interest=RESOLVE)) == [], "its old answer does not count any more"
    late = member("eu.fr.c1.h1/z")
    assert bench.hear(C1, reply(request, late, interest=ALL)) == to(
        "eu", message=reply(request, late, interest=ALL)
    )


@pytest.mark.spec("C-162", "C-134")
def test_a_sibling_that_changes_hands_is_told_our_interest_and_asked_for_its_list() -> None:
    bench = middle()
    bench.confirm(C1, {"eu.de": NONE, "eu": NONE})
    assert bench.want("eu.de") is NONE

    effects = moved(bench, "eu.de")

    assert effects[-2:] == [
        Send(Domain("eu.de"), interest(ALL)),
        Send(Domain("eu.de"), ResolveRequest(OWN, G)),
    ]
    assert not any(
        isinstance(each, Send) and type(each.message).__name__ == "DomainFailed" for each in effects
    )
    assert bench.want("eu.de") is ALL, "what its predecessor said counts no more"


@pytest.mark.spec("C-162")
def test_what_it_asked_is_void() -> None:
    bench = middle()
    request = asks("eu.de")
    bench.hear("eu.de", request)

    moved(bench, "eu.de")

    assert bench.server.collections.questions == {}


@pytest.mark.spec("C-164")
def test_a_child_that_goes_before_it_has_told_all_is_a_loss_like_any_other() -> None:
    bench = middle()
    moved(bench, C1)

    told = bench.down(C1)

    assert [each.to for each in told if isinstance(each, Send)][:2] == ["eu", "eu.de"]
    assert type(told[0].message).__name__ == "DomainFailed"  # type: ignore[attr-defined]


# At an agent


@pytest.mark.spec("C-162", "C-116")
def test_an_agent_announces_everything_again_and_its_programs_hear_nothing() -> None:
    agent = Agent()
    agent.member("ann")
    agent.settle()

    effects = agent.step(LinkMoved(GMS, 2))

    assert [type(each) for each in sent(effects)] == [
        InterestChanged,
        SyncDone,
        EndpointsJoined,
        ResolveRequest,
    ]
    assert not [each for each in effects if isinstance(each, Tell)]


@pytest.mark.spec("C-162")
def test_a_question_that_was_open_is_asked_again_and_answered_in_full() -> None:
    agent = Agent()
    ann = agent.member("ann")
    agent.settle()
    agent.ask(ann.endpoint, Resolve("golf", GMS))
    token, (id,) = agent.token, agent.core.resolves.open

    effects = agent.step(LinkMoved(GMS, 2))

    assert sent(effects)[-1].id == id
    far = FAR_ANN
    golf = sent(effects)[-1].group
    answered = agent.receive(ResolveReply(id, golf, (far,), ALL))
    assert Answer(token, Absolute(golf, (far,))) in answered


@pytest.mark.spec("C-162")
def test_the_new_baseline_says_who_left_meanwhile() -> None:
    agent = Agent()
    ann = agent.member("ann")
    agent.settle()
    agent.receive(EndpointsJoined(their_id(), CHESS, (FAR_ANN,), Cause.JOIN))

    request = sent(agent.step(LinkMoved(GMS, 2)))[-1]
    [told] = agent.receive(ResolveReply(request.id, CHESS, (), NONE))

    assert isinstance(told, Tell) and told.notice.complete_for == Part(True, CHESS.scope)
    assert told.notice.members == (ann,)


# At a node


class Core(Service):
    name = ServiceName("any")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.says: list[Effect] = []

    def step(self, now: float, event: Event) -> list[Effect]:
        self.events.append(event)
        return self.says


class Place:
    """A node of fr.paris, and the packets of its neighbour fr.lyon, which has replicas."""

    def __init__(self, **more: object) -> None:
        self.core = Core()
        self.config = LinkConfig.lan()
        self.node = Node(
            "earth",
            Domain("fr.paris"),
            Stack(self.core),
            incarnation=1,
            config=self.config,
            siblings=[LEFT],
            accepts_children=True,
            **{"replicated": [LEFT], **more},  # type: ignore[arg-type]
        )
        self.now = 0.0
        self.began = self.node.start(0.0)
        self.node.step(0.0, ChannelOpened(LEFT))

    def greet(self, incarnation: int, *, awaiting: bool = True, session: int = 1) -> list[Output]:
        link = self.node.links[LEFT]
        mine = incarnation * SESSIONS_PER_LIFE + session
        outputs: list[Output] = []
        for _ in range(2):  # once to be known, once with our session in it
            hello = Hello(mine, link._mine, "earth", LEFT, incarnation, 0, self.node.path, awaiting=awaiting)
            outputs += self.node.step(self.now, PacketArrived(LEFT, hello))
        return outputs

    def wait(self, for_s: float) -> list[Output]:
        outputs: list[Output] = []
        until = self.now + for_s
        while self.now < until:
            self.now += self.config.tick_s
            outputs += self.node.step(self.now, TimerFired(TICK))
        return outputs


@pytest.mark.spec("C-162")
def test_a_silent_neighbour_with_replicas_is_not_given_up_at_once() -> None:
    place = Place()
    place.greet(1)
    heard = list(place.core.events)

    outputs = place.wait(2.0)

    assert place.core.events == heard, "the core is told nothing"
    assert Awaited(LEFT, "silent") in outputs
    assert SetTimer((GRACE, LEFT), place.config.failover_grace_s) in outputs
    assert not any(isinstance(each, LinkDown | Removed) for each in outputs)


@pytest.mark.spec("C-162")
def test_a_replica_in_time_is_a_link_that_moved() -> None:
    place = Place()
    place.greet(1)
    place.wait(2.0)

    outputs = place.greet(2)

    assert place.core.events[-1] == LinkMoved(LEFT, 2)
    assert CancelTimer((GRACE, LEFT)) in outputs


@pytest.mark.spec("C-162")
def test_a_replica_that_comes_before_anybody_noticed_is_a_link_that_moved_too() -> None:
    place = Place()
    place.greet(1)

    place.greet(2)

    assert place.core.events == [LinkUp(LEFT, 1), LinkMoved(LEFT, 2)]


@pytest.mark.spec("C-030", "C-162")
def test_a_server_that_gave_us_up_has_told_others_so_and_we_are_told_too() -> None:
    """We stood still; it is the same server, in the same life, and it does not wait for us."""
    place = Place()
    place.greet(1)

    outputs = place.greet(1, awaiting=False, session=2)

    assert place.core.events == [
        LinkUp(LEFT, 1),
        LinkDown(LEFT, Because(Domain("fr.paris"), LEFT, "ended by peer")),
        LinkUp(LEFT, 1),
    ]
    assert CancelTimer((GRACE, LEFT)) in outputs
    assert place.node.step(place.now, TimerFired((GRACE, LEFT))) == []


@pytest.mark.spec("C-030", "C-162")
def test_a_new_replica_that_does_not_know_us_is_no_link_that_moved() -> None:
    """Its predecessor gave us up before it died."""
    place = Place()
    place.greet(1)
    place.wait(2.0)

    place.greet(2, awaiting=False)

    assert [type(each) for each in place.core.events] == [LinkUp, LinkDown, LinkUp]


@pytest.mark.spec("C-162")
def test_both_ends_say_whether_they_wait_and_not_after_they_have_told() -> None:
    place = Place()
    place.greet(1)
    link = place.node.links[LEFT]
    assert not link._hello().awaiting
    place.wait(2.0)
    waiting = link._hello()
    assert waiting.awaiting
    place.node.step(place.now, TimerFired((GRACE, LEFT)))
    assert not link._hello().awaiting
    assert link._hello().mine > waiting.mine, "what we said before is void"


@pytest.mark.spec("C-164")
def test_when_the_grace_ends_the_failure_is_told_with_its_evidence() -> None:
    place = Place()
    place.greet(1)
    place.wait(2.0)

    outputs = place.node.step(place.now, TimerFired((GRACE, LEFT)))

    down = place.core.events[-1]
    assert isinstance(down, LinkDown) and down.because == Because(Domain("fr.paris"), LEFT, "silent")
    assert [type(each) for each in outputs] == [Removed, LinkDown]
    place.greet(2)
    assert place.core.events[-1] == LinkUp(LEFT, 2)


def test_what_is_said_to_it_meanwhile_is_dropped_and_not_in_silence() -> None:
    place = Place()
    place.greet(1)
    place.wait(2.0)
    place.core.says = [Send(LEFT, SyncDone(an_id("fr.paris")))]

    outputs = place.node.step(place.now, Received(Domain("fr.paris.h1"), "something"))

    assert Ignored("SyncDone", why="waiting for a replica") in outputs
    assert not [each for each in place.node.flush(place.now) if isinstance(each, Transmit)]


def test_a_neighbour_without_replicas_is_given_up_as_ever() -> None:
    place = Place(replicated=())
    place.greet(1)

    place.wait(2.0)

    assert isinstance(place.core.events[-1], LinkDown)


@pytest.mark.spec("C-163")
def test_whoever_takes_a_place_begins_with_the_neighbours_of_its_predecessor() -> None:
    """Its first answers wait for them, and so are complete."""
    host = Domain("fr.paris.h1")
    place = Place(known=[host, LEFT, Domain("us")])

    assert place.core.events == [LinkUp(LEFT, 0), LinkUp(host, 0)]
    assert Ignored("known", why="not a neighbour") in place.began
    place.greet(3)
    assert place.core.events[-1] == LinkMoved(LEFT, 3)
    place.node.step(place.now, TimerFired((GRACE, host)))
    assert place.core.events[-1] == LinkDown(host, Because(Domain("fr.paris"), host, "silent"))


def test_a_link_that_moved_speaks_again() -> None:
    place = Place()
    place.greet(1)
    place.greet(2)
    place.core.says = [Send(LEFT, SyncDone(an_id("fr.paris")))]

    place.node.step(place.now, Received(Domain("fr.paris.h1"), "something"))

    packets = [each.packet for each in place.node.flush(place.now) if isinstance(each, Transmit)]
    assert [type(packet) for packet in packets] == [Data]


# In the journal


def test_a_journal_says_that_a_link_moved_and_not_that_it_came_up_again() -> None:
    """Whoever reads it takes every `link-up` for the end of a time apart."""
    rows: list[Entry] = []
    scribe = Scribe(Domain("fr.paris"), "server", 1, rows.append, wall_us=int, heartbeat_s=10.0)
    scribe.saw(1.0, Domain("fr.paris"), TURN_ENDED, [LinkUp(LEFT, 1), LinkMoved(LEFT, 2)])
    assert [row.kind for row in rows][-2:] == ["link-up", "link-moved"]


def test_a_server_that_gave_way_ends_its_journal_once() -> None:
    rows: list[Entry] = []
    scribe = Scribe(Domain("fr.paris"), "server", 1, rows.append, wall_us=int, heartbeat_s=10.0)
    scribe.closing(1.0, "another replica leads")
    scribe.closing(1.0, "SIGTERM received")
    assert [row.kind for row in rows] == ["closing"]
