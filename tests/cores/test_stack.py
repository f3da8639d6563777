"""A stack: who is given which event, who hears which effect, and in which order."""

import inspect
import re
from collections.abc import Callable, Sequence

import pytest

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    EndpointGone,
    Event,
    FellBehind,
    Ignored,
    LinkDown,
    LinkUp,
    Noted,
    Received,
    Send,
    TimerFired,
)
from rostra.core.stack import Service, ServiceName, Stack
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.calls import GroupAnswer, GroupAsked
from rostra.protocols.agreed.events import AgreedJoinAsked
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Close, Open
from rostra.stacks import SERVICES, FifoPlan, NodePlan, make_stack

ANN, EU, GUEST = Endpoint("eu.h1/ann#1"), Domain("eu"), Domain("eu.-guest")

GONE = EndpointGone(ANN)


class Ping:
    pass


class Base(Service):
    """The last service: what it is given it notes."""

    name = ServiceName["Base"]("base server")
    takes = (EndpointGone, LinkUp, Ping)

    def __init__(self) -> None:
        self.given: list[Event] = []

    def step(self, now: float, event: Event) -> Sequence[Effect]:
        self.given.append(event)
        return [Noted("base", type(event).__name__)]


class Upper(Service):
    """Hears what comes from below: it takes what is noted, and says it in its own name."""

    name = ServiceName["Upper"]("upper host")
    takes = (EndpointGone, FellBehind)

    def __init__(self, reaction: Callable[["Upper"], Sequence[Effect]] = lambda me: ()) -> None:
        self.given: list[Event] = []
        self.reaction = reaction

    def step(self, now: float, event: Event) -> Sequence[Effect]:
        self.given.append(event)
        return [Noted(self.name, type(event).__name__), *self.reaction(self)]

    def hear(self, now: float, effects: Sequence[Effect]) -> Sequence[Effect]:
        return [
            Noted(f"{self.name} after {effect.what}", effect.about) if isinstance(effect, Noted) else effect
            for effect in effects
        ]


class Top(Upper):
    name = ServiceName["Top"]("top host")


def noted(effects: Sequence[Effect]) -> list[str]:
    return [effect.what for effect in effects if isinstance(effect, Noted)]


def test_who_hears_a_kind_of_effects_is_found_out_once_also_if_none_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[int] = []
    find_out = Stack._hearings
    monkeypatch.setattr(
        Stack, "_hearings", lambda stack, at, kinds: found.append(at) or find_out(stack, at, kinds)
    )
    stack = Stack(Base(), Upper())
    for now in range(3):
        assert noted(stack.step(now, FellBehind(ANN, ()))) == ["upper host"]
    assert found == [1]


def test_an_event_goes_to_those_that_take_it_in_list_order() -> None:
    stack = Stack(Top(), Upper(), Base())
    assert noted(stack.step(0.0, GONE)) == [
        "top host",
        "top host after upper host",
        "top host after upper host after base",
    ]
    assert noted(stack.step(0.0, FellBehind(ANN, ()))) == ["top host", "top host after upper host"]


@pytest.mark.parametrize(
    "event",
    [
        LinkUp(EU, 1),
        Received(EU, Ping()),
        Asked(ANN, 1, Ping()),
        TimerFired(("base", 1)),
        LinkDown(EU, Because(EU, EU, "silent")),
        Received(EU, "what no service takes"),
        Asked(ANN, 1, "what no service takes"),
        TimerFired(("of nobody",)),
    ],
)
def test_what_no_other_service_takes_is_for_the_last(event: Event) -> None:
    upper, base = Upper(), Base()
    Stack(upper, base).step(0.0, event)
    assert (upper.given, base.given) == ([], [event])


def test_a_timer_is_for_the_service_of_its_first_word() -> None:
    upper, base = Upper(), Base()
    stack, fired = Stack(upper, base), TimerFired(("upper", "base", 1))
    stack.step(0.0, fired)
    assert (upper.given, base.given) == ([fired], [])


def test_a_service_that_calls_gets_the_effects_and_those_between_hear_them_first() -> None:
    def call(me: Upper) -> Sequence[Effect]:
        return [*me.stack.call(0.0, me, Base.name, Asked(ANN, 1, Ping())), Answer(1, None)]

    top, base = Top(call), Base()
    effects = Stack(top, Upper(), base).step(0.0, FellBehind(ANN, ()))
    assert noted(effects) == ["top host", "upper host after base", "top host after upper host"]
    assert [type(event) for event in base.given] == [Asked]


def test_nobody_outside_is_taken_for_a_guest() -> None:
    base, pretender = Base(), Upper()
    pretender.guest = GUEST
    stack = Stack(pretender, base)
    for event in (LinkUp(GUEST, 1), Received(GUEST, Ping()), LinkDown(GUEST, Because(EU, GUEST, "silent"))):
        [ignored] = stack.step(0.0, event)
        assert isinstance(ignored, Ignored) and ignored.what == type(event).__name__
    assert base.given == []
    stack.call(0.0, pretender, Base.name, LinkUp(GUEST, 1))
    assert base.given == [LinkUp(GUEST, 1)], "from inside it is one"


def test_services_are_found_by_name() -> None:
    upper, base = Upper(), Base()
    stack = Stack(upper, base)
    assert stack[Upper.name] is upper and stack.find(Base.name) is base
    assert stack.find(Top.name) is None and Top.name not in stack and Upper.name in stack
    with pytest.raises(AssertionError, match="two services"):
        Stack(upper, Upper())


class Quick(Upper):
    name = ServiceName["Quick"]("quick host")
    lanes = (FellBehind,)
    takes = ()


def test_a_lane_leads_to_the_first_service_unless_every_step_is_looked_at() -> None:
    class Looked(Stack):
        def step(self, now: float, event: Event) -> Sequence[Effect]:
            return super().step(now, event)

    quick, event = Quick(), FellBehind(ANN, ())
    stack = Stack(quick, Base())
    assert (
        stack.lanes[FellBehind](0.0, event) == stack.step(0.0, event) == [Noted("quick host", "FellBehind")]
    )
    assert quick.given == [event, event]
    assert Looked(quick, Base()).lanes == {} and Stack(Base(), quick).lanes == {}
    with pytest.raises(AssertionError, match="alone"):
        Stack(quick, Upper())


def test_effects_of_the_first_service_leave_as_they_are() -> None:
    upper = Upper(lambda me: [Send(EU, "hello")])
    effects = Stack(upper, Base()).step(0.0, FellBehind(ANN, ()))
    assert effects == [Noted("upper host", "FellBehind"), Send(EU, "hello")]


def test_an_answer_for_a_program_that_is_gone_meanwhile_is_dropped() -> None:
    """It closed while its agent asked whether there is such a group (storm 430112 of shape hostile)."""
    host, group = Domain("eu.h1"), Group("chess", Domain("eu"))
    fifo = FifoPlan(FifoConfig())
    plan = NodePlan("w", host, True, False, 1000, LinkConfig(), RelaxedConfig(), fifo=fifo)
    stack = make_stack(plan, Registry())
    stack.step(0.0, LinkUp(Domain("eu"), 1))
    [opened] = [each for each in stack.step(0.0, Asked(Endpoint(""), 1, Open("p"))) if type(each) is Answer]
    me = opened.result.endpoint
    join = AgreedJoinAsked(me, 2, group, GroupKind(MembershipKind.AGREED), create=False)
    [asked] = [each.message for each in stack.step(0.0, join) if isinstance(each, Send)]
    assert isinstance(asked, GroupAsked)
    stack.step(0.0, Asked(me, 3, Close()))
    late = GroupAnswer(group, asked.question, code="NO_SUCH_GROUP")
    assert not [each for each in stack.step(0.0, Received(Domain("eu"), late)) if type(each) is Answer]


class Picky(Upper):
    """Hears one kind of effects, in the middle of others."""

    name = ServiceName["Picky"]("picky host")
    takes = ()
    hears = (FellBehind,)


class Turning(Upper):
    """Makes something else of what it hears."""

    name = ServiceName["Turning"]("turning host")
    takes = ()
    hears = (Noted,)

    def hear(self, now: float, effects: Sequence[Effect]) -> Sequence[Effect]:
        return [*effects, Answer(1, None)]


class Answered(Turning):
    name = ServiceName["Answered"]("answered host")
    hears = (Answer,)


def test_effects_are_shown_to_services_that_declare_their_kind_whoever_made_them() -> None:
    base = Noted("base", "EndpointGone")
    assert Stack(Picky(), Base()).step(0.0, GONE) == [base]
    assert Stack(Answered(), Base()).step(0.0, GONE) == [base]
    assert Stack(Answered(), Turning(), Base()).step(0.0, GONE) == [base, Answer(1, None), Answer(1, None)]
    assert Stack(Turning(), Answered(), Base()).step(0.0, GONE) == [base, Answer(1, None)]


class Engaged(Upper):
    """Hears only while it keeps something."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, int] = {}
        self.engaged = (self.kept,)


def test_a_service_that_keeps_nothing_is_passed_over() -> None:
    upper = Engaged()
    stack = Stack(upper, Base())
    link = LinkUp(EU, 1)

    assert stack.step(0.0, link) == [Noted("base", "LinkUp")]
    upper.kept["one"] = 1
    assert stack.step(0.0, link) == [Noted("upper host after base", "LinkUp")]
    upper.kept.clear()
    assert stack.step(0.0, link) == [Noted("base", "LinkUp")]


class Watchful(Engaged):
    """Hears of refusals even while it keeps nothing."""

    name = ServiceName["Watchful"]("watchful host")
    takes = ()
    hears_always = (Ignored,)


def test_a_service_that_keeps_nothing_still_hears_what_it_always_hears() -> None:
    stack = Stack(Watchful(), Upper(lambda me: [Ignored("it", "why")]), Base())
    link = LinkUp(EU, 1)

    assert stack.step(0.0, link) == [Noted("upper host after base", "LinkUp")]
    assert stack.step(0.0, GONE) == [
        Noted("watchful host after upper host", "EndpointGone"),
        Ignored("it", "why"),
        Noted("upper host after base", "EndpointGone"),
    ], "what came with it is heard too"


ENGAGED = [each for each in SERVICES if "self.engaged" in inspect.getsource(each)]


@pytest.mark.parametrize("service", ENGAGED, ids=lambda each: each.__name__)
def test_tables_that_say_whether_a_service_hears_are_never_replaced(service: type[Service]) -> None:
    """The stack looks at the very tables that were there when it was made."""
    classes = [each for each in service.__mro__ if issubclass(each, Service) and each is not Service]
    source = "".join([inspect.getsource(each) for each in classes])
    (named,) = re.findall(r"self\.engaged = \((.*)\)", inspect.getsource(service))
    for table in re.findall(r"self\.(\w+)", named):
        assert len(re.findall(rf"self\.{table}(?:: .*)? = ", source)) == 1
