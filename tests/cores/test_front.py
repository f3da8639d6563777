"""The front as a program meets it: who holds what, and what a program that does not read is told."""

from typing import Any

import pytest

from rostra.groups.attributes import Role
from rostra.names import Domain, Endpoint, Group, incarnation_of
from rostra.protocols.agreed.requests import JoinAgreed, LeaveAgreed
from rostra.protocols.fifo.events import Deliver, Excluded, Item
from rostra.protocols.fifo.requests import Enter, Exit
from rostra.protocols.front.config import FrontConfig, ShareLimits
from rostra.protocols.front.core import FrontCore
from rostra.protocols.front.messages import NO_ENDPOINT, Answered, Ask, Goodbye, Told
from rostra.protocols.led.requests import SequenceReply, SetMembers
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import (
    Changed,
    Close,
    Denied,
    Done,
    Gap,
    Join,
    Joined,
    Open,
    Opened,
    Snapshot,
    Watch,
)
from rostra.sim import World
from rostra.sim.fronts import SimFront

HOST = "haifa.h1"
CHESS = Group("chess", Domain("world"))
LOCAL = Group("local", Domain("haifa"))
ANN, EVE = 2000, 2001


class Caller:
    """A program that keeps what it is told."""

    def __init__(self, world: World, uid: int = ANN, *, opens: bool = True) -> None:
        self.told: list[Any] = []
        self.heard_items: list[Item] = []
        self.ended = ""
        self._answers: dict[int, Any] = {}
        self._token = 0
        self.link = world.fronts.connect(world.processes[Domain(HOST)], "caller", self, uid)
        self.endpoint = NO_ENDPOINT
        if opens:
            self.endpoint = incarnation_of(self.ask(Open(f"app-{uid}")).endpoint)

    def ask(self, request: Any, endpoint: int | None = None) -> Any:
        """Its answer; none if there is none yet."""
        self._token += 1
        number = self.endpoint if endpoint is None else endpoint
        self.link.say_to_front(Ask(self._token, number, request))
        return self._answers.get(self._token)

    def take(self, item: Answered | Told) -> None:
        if isinstance(item, Answered):
            self._answers[item.token] = item.answer
        else:
            self.told.append(item.notice)

    def heard(self, group: Group, item: Item) -> None:
        self.heard_items.append(item)

    def disconnected(self, why: str) -> None:
        self.ended = why


def small(**limits: int) -> FrontConfig:
    return FrontConfig(limits=ShareLimits(**limits), queue_records=2)


@pytest.fixture
def world() -> World:
    return World(1, domains={"haifa": 2}, fifo=True, front=small(endpoints_max=8, memberships_max=8)).settle()


def front(world: World) -> FrontCore:
    found = world.fronts.of[Domain(HOST)]
    assert isinstance(found, SimFront)
    return found.core


def held(world: World) -> tuple[int, int, int, int]:
    all = front(world).shares.all
    return all.programs, all.endpoints, all.memberships, all.questions


@pytest.mark.parametrize("request_", [Enter(CHESS), Exit(CHESS), Join(CHESS), Watch(CHESS)])
def test_what_needs_an_endpoint_is_refused_without_one_and_nothing_is_held(
    world: World, request_: Any
) -> None:
    eve = Caller(world, EVE, opens=False)
    assert isinstance(eve.ask(request_, NO_ENDPOINT), Denied)
    assert held(world) == (1, 0, 0, 0)
    eve.link.hang_up()
    assert held(world) == (0, 0, 0, 0) and not front(world).shares.users


def test_one_that_goes_while_its_joins_wait_holds_nothing(world: World) -> None:
    eve = Caller(world, EVE)
    world.gather_joins(HOST, True)
    eve.ask(Join(CHESS))
    eve.ask(Join(CHESS), NO_ENDPOINT)
    eve.ask(Enter(Group("go", Domain("world")), Role.BOTH))
    eve.link.hang_up()
    world.gather_joins(HOST, False)
    assert held(world) == (0, 0, 0, 0) and not front(world).shares.users


def test_a_greedy_user_leaves_as_much_as_it_has_for_the_next(world: World) -> None:
    eve = Caller(world, EVE)
    answers = [eve.ask(Open(f"p{n}"), NO_ENDPOINT) for n in range(8)]
    assert [type(each) for each in answers] == [Opened] * 3 + [Denied] * 5
    ann = Caller(world, ANN)
    assert isinstance(ann.ask(Join(CHESS)), Done)
    eve.link.say_to_front(Goodbye())
    world.run(1.0)
    assert eve.ended == "said goodbye" and held(world)[:3] == (1, 1, 1)


@pytest.mark.parametrize("request_", [JoinAgreed(LOCAL), Enter(LOCAL, Role.BOTH)])
def test_one_that_a_group_goes_on_without_holds_nothing_of_it(world: World, request_: Any) -> None:
    ann = Caller(world)
    ann.ask(request_)
    world.run(5.0)
    assert held(world)[2] == 1
    (endpoint,) = front(world).port.stack[AGENT].endpoints
    front(world).deliver(Deliver(endpoint, LOCAL, Excluded("it did not read")))
    assert held(world)[2] == 0
    for _ in range(2):  # what it does afterwards gives nothing back twice
        ann.ask(LeaveAgreed(LOCAL) if isinstance(request_, JoinAgreed) else Exit(LOCAL))
        world.run(2.0)
    assert held(world)[2] == 0


def test_nobody_speaks_for_an_endpoint_of_another_program(world: World) -> None:
    ann, eve = Caller(world, ANN), Caller(world, EVE)
    assert isinstance(ann.ask(Join(CHESS)), Done)
    for request in (Close(), Join(Group("go", Domain("world")))):
        refusal = eve.ask(request, ann.endpoint)
        assert isinstance(refusal, Denied) and "is not open here" in refusal.what
    assert len(front(world).by_number) == 2 and held(world)[1] == 2


def test_who_does_not_read_is_told_what_it_missed_and_answers_wait(world: World) -> None:
    ann, bob = Caller(world, ANN), world.program(HOST, "bob")
    ann.ask(Join(CHESS))
    world.run(1.0)
    ann.told.clear()
    ann.link.stop_reading()
    for _ in range(3):
        bob.join(CHESS)
        bob.leave(CHESS)
    world.run(1.0)
    assert ann.told == [] and ann.ask(Join(Group("go", Domain("world")))) is None, "it is not read either"
    ann.link.read_again()
    world.run(1.0)
    kinds = [type(each) for each in ann.told]
    assert kinds[0] is Joined, "what there was room for"
    (gap,) = [each for each in ann.told if isinstance(each, Gap)]
    assert gap.groups == (CHESS,) and gap.missed >= 4
    assert isinstance(ann._answers[ann._token], Done)


def test_replies_to_a_sequence_that_are_not_read_are_missed_and_not_kept(world: World) -> None:
    ann = Caller(world, ANN)
    ann.link.stop_reading()
    reply = SequenceReply(1, Endpoint(f"{HOST}/bob#7"), bytes(10_000))
    (session,) = front(world).by_number.values()
    for _ in range(1_000):
        session.tell((ann.endpoint,), reply)
    assert session.is_behind and len(session._items) < 200, "as many as their bytes allow"
    ann.link.read_again()
    world.run(1.0)
    (gap,) = [each for each in ann.told if isinstance(each, Gap)]
    assert gap.missed > 800


def test_who_does_not_read_what_cannot_be_dropped_is_disconnected(world: World) -> None:
    ann = Caller(world, ANN)
    ann.link.stop_reading()
    (session,) = front(world).by_number.values()
    members = tuple([Endpoint(f"{HOST}/bob#{number}") for number in range(1_000)])
    for _ in range(FrontConfig().answer_records_max // len(members) + 1):
        session.tell((ann.endpoint,), SetMembers(Group("own", Domain("haifa")), members))
    assert "does not read" in ann.ended


def test_who_is_full_again_while_it_catches_up_is_told_what_it_missed_when_it_reads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = Caller(world, ANN), world.program(HOST, "bob")
    ann.ask(Join(CHESS))
    world.run(1.0)
    ann.told.clear()
    session = ann.link.session
    assert session is not None and not session.is_full
    ann.link.stop_reading()
    assert session.is_full and not session.is_behind
    for _ in range(3):
        bob.join(CHESS)
        bob.leave(CHESS)
    world.run(1.0)
    assert session.is_full and session.is_behind

    def send(items: list[Answered | Told]) -> None:
        for item in items:
            ann.take(item)
        session.full()

    with monkeypatch.context() as slow:
        slow.setattr(ann.link, "send", send)
        ann.link.read_again()
        assert session.is_full and not session.is_behind
        assert Gap not in [type(each) for each in ann.told], "it waits with the rest"
    ann.link.read_again()
    world.run(1.0)
    (gap,) = [each for each in ann.told if isinstance(each, Gap)]
    assert gap.missed >= 4 and not session.is_full


def test_a_watcher_that_does_not_read_gets_a_snapshot_with_the_number_it_has_reached(world: World) -> None:
    ann, bob = Caller(world, ANN), world.program(HOST, "bob")
    assert isinstance(ann.ask(Watch(CHESS)), Done)
    world.run(1.0)
    assert [type(each) for each in ann.told] == [Snapshot]
    ann.link.stop_reading()
    for _ in range(3):
        bob.join(CHESS)
        bob.leave(CHESS)
    world.run(1.0)
    ann.link.read_again()
    world.run(1.0)
    numbers = [each.number for each in ann.told if isinstance(each, Changed)]
    assert numbers == [1, 2, 3, 4, 5, 6], "all that is remembered"
    assert isinstance(ann.told[-1], Snapshot) and ann.told[-1].number == 6


def test_the_agents_own_endpoint_is_opened_once_for_all_who_watch(world: World) -> None:
    for uid in (ANN, EVE):
        assert isinstance(Caller(world, uid).ask(Watch(CHESS)), Done)
    watching = front(world).watching
    assert watching is not None and watching.own is not None
    assert str(watching.own).startswith(f"{HOST}/rostra.watch#")


def test_a_silent_program_is_suspected_and_then_given_up(world: World) -> None:
    ann = Caller(world, ANN)
    found = world.fronts.of[Domain(HOST)]
    assert isinstance(found, SimFront)
    found.silent.add(ann.link)
    ann.ask(Join(CHESS))
    world.run(world.timers.detect.program_down_after_s * 2)
    assert ann.ended == "it did not answer for too long"
    assert held(world) == (0, 0, 0, 0)


def test_endpoints_are_told_apart_by_their_numbers(world: World) -> None:
    ann = Caller(world, ANN)
    other = ann.ask(Open("other"), NO_ENDPOINT)
    assert isinstance(other, Opened) and Endpoint(other.endpoint).startswith(f"{HOST}/other#")
    assert incarnation_of(other.endpoint) != ann.endpoint
