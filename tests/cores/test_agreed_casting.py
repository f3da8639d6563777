"""The second transport of a set (`casting.py`): who receives what, how often, and in which order."""

from collections import Counter, deque
from typing import Any

import pytest

from rostra.core.effects import Effect, Ignored, LinkMoved, LinkUp, Received, Send, SetTimer, TimerFired
from rostra.core.stack import Service, ServiceName, Stack
from rostra.names import Domain
from rostra.protocols.agreed.casting import (
    FORGET_S,
    REGISTER_S,
    CastCore,
    FrameHeard,
    SendSetFrame,
    SetCarried,
    SetCasting,
    SetFrame,
    SetHeard,
    SetNumber,
    addresses_of,
)
from rostra.protocols.agreed.changes import ServerId
from rostra.protocols.agreed.config import SET_MEMBERS_MAX, Place, Repeater, SetAddress
from rostra.protocols.agreed.messages import PartedFromSet, SetEvidence
from rostra.protocols.agreed.server import AGREED_SERVER

SET = Domain("eu")
GROUP = ("239.192.0.2", 7470)


def word(text: str) -> SetEvidence:
    """A message that differs from others."""
    return SetEvidence(SET, 7, 0, (ServerId(Domain(f"eu.{text}"), 7),))


class Net:
    """Servers of one set, by letters. Those in `listen` receive multicast; `down` are lost."""

    def __init__(self, servers: str, *, listen: str = "", repeaters: str = "") -> None:
        self.now = 0.0
        self.address = SetAddress(
            SET,
            GROUP if listen else None,
            tuple([Repeater(Domain(f"eu.{each}"), (each, 1)) for each in repeaters]),
            tuple([Domain(f"eu.{each}") for each in servers if each not in listen]),
        )
        self.cores: dict[str, CastCore] = {}
        self.repeaters = repeaters
        self.down: set[str] = set()
        self.datagrams: Counter[tuple[str, str, int]] = Counter()  # that came: receiver, origin, number
        self.multicasts: Counter[tuple[str, int]] = Counter()
        self.heard: dict[str, list[tuple[str, Any]]] = {each: [] for each in servers}
        self._listen = listen
        self._under_way: deque[tuple[str, FrameHeard]] = deque()
        for each in servers:
            self.start(each)
        for each in servers:
            self.link(each)

    def start(self, name: str, life: int = 1) -> None:
        self.down.discard(name)
        self.cores[name] = CastCore(Domain(f"eu.{name}"), life, self.address)

    def link(self, name: str) -> None:
        """Its links to the repeaters come up."""
        for repeater in self.repeaters:
            life = self.cores[repeater].state.life
            self.do(name, self.cores[name].step(self.now, LinkUp(Domain(f"eu.{repeater}"), life)))

    def cast(self, name: str, message: Any) -> None:
        to = tuple([core.me for other, core in self.cores.items() if other != name])
        self.do(name, self.cores[name].cast(self.now, to, message))

    def renew(self) -> None:
        """All registrations that are due."""
        self.now += REGISTER_S
        for name, core in self.cores.items():
            if name not in self.down:
                self.do(name, core.step(self.now, TimerFired(core.timer)))

    def do(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendSetFrame(frame, multicast, places):
                    self._send(name, frame, multicast, places)
                case SetHeard(origin, message):
                    self.heard[name].append((origin[-1], message))
                case _:
                    assert isinstance(effect, SetTimer | Ignored), effect
        while self._under_way:
            to, event = self._under_way.popleft()
            if event.frame.message is not None:
                self.datagrams[to, event.frame.origin[-1], event.frame.number] += 1
            if to not in self.down:
                self.do(to, self.cores[to].step(self.now, event))

    def _send(self, name: str, frame: SetFrame, multicast: bool, places: tuple[Place, ...]) -> None:
        assert name not in self.down
        if multicast:
            self.multicasts[frame.origin[-1], frame.number] += 1
            for each in self._listen:
                if each != name:
                    self._under_way.append((each, FrameHeard(frame, (name, 1), True)))
        for place, _ in places:
            self._under_way.append((place, FrameHeard(frame, (name, 1), False)))


@pytest.mark.spec("V-112", "V-113")
@pytest.mark.parametrize(
    ("listen", "repeaters"), [("abcdef", ""), ("abc", "a"), ("b", "b"), ("", "a")], ids=str
)
def test_every_message_reaches_each_other_server_exactly_once(listen: str, repeaters: str) -> None:
    """By multicast alone, in a mixed set of six, with one that listens, and by the repeater alone."""
    net = Net("abcdef", listen=listen, repeaters=repeaters)
    for name in "abcdef":
        net.cast(name, word(name))
    expected = {(to, origin, 1): 1 for to in "abcdef" for origin in "abcdef" if to != origin}
    assert net.datagrams == expected, "one datagram for each, and none back to its origin"
    for name in "abcdef":
        assert sorted(net.heard[name]) == [(each, word(each)) for each in "abcdef" if each != name]
    assert set(net.multicasts) == ({(each, 1) for each in "abcdef"} if listen else set())
    assert set(net.multicasts.values()) <= {1}


@pytest.mark.spec("V-113")
@pytest.mark.parametrize(("listen", "repeaters"), [("abc", "ab"), ("", "ab")], ids=str)
def test_two_repeaters_make_no_storm_and_one_is_enough(listen: str, repeaters: str) -> None:
    net = Net("abcdef", listen=listen, repeaters=repeaters)
    for name in "abcdef":
        net.cast(name, word(name))
    for name in "abcdef":
        assert sorted(net.heard[name]) == [(each, word(each)) for each in "abcdef" if each != name], "once"
    assert not [to for to, origin, _ in net.datagrams if to == origin], "none back to its origin"
    assert max(net.multicasts.values(), default=0) <= 2, "once by each repeater that had it by unicast"
    assert net.multicasts.get(("c", 1), 0) == ("c" in listen), "what came by multicast is there"
    assert max(net.datagrams.values()) <= 4, "from the origin, or from two repeaters, each once"
    net.down.add("a")
    for name in "bcdef":
        net.cast(name, word("later"))
    for name in "bcdef":
        later = sorted([origin for origin, message in net.heard[name] if message == word("later")])
        assert later == [each for each in "bcdef" if each != name], "nothing is lost with one of them"


@pytest.mark.spec("V-113")
def test_a_repeater_that_restarts_serves_again_after_the_next_registrations() -> None:
    net = Net("abcd", listen="ab", repeaters="a")
    net.down.add("a")
    net.cast("c", word("lost"))
    assert net.heard == {"a": [], "b": [], "c": [], "d": []}, "there was no other repeater"
    net.start("a", life=2)
    net.cast("b", word("early"))
    assert not net.heard["c"], "it does not know of c yet"
    net.renew()
    net.cast("b", word("back"))
    net.cast("c", word("too"))
    assert net.heard["c"] == [("b", word("back"))]
    assert net.heard["d"] == [("b", word("back")), ("c", word("too"))]


@pytest.mark.spec("V-113")
def test_a_server_that_does_not_register_again_is_forgotten() -> None:
    net = Net("abc", listen="ab", repeaters="a")
    net.now = FORGET_S - 0.1
    net.cast("b", word("one"))
    net.now = FORGET_S
    net.cast("b", word("two"))
    assert net.heard["c"] == [("b", word("one"))]
    net.renew()
    net.cast("b", word("three"))
    assert net.heard["c"] == [("b", word("one")), ("b", word("three"))]


def frame(number: int, *, life: int = 1, origin: str = "eu.b", name: str = "eu") -> SetFrame:
    return SetFrame(Domain(name), Domain(origin), life, number, (Domain("eu.a"),), word(f"n{number}"))


def taken(core: CastCore, *events: Any) -> list[Any]:
    """What comes of these for the set, as numbers."""
    effects = [effect for event in events for effect in core.step(0.0, event)]
    return [
        effect.message.isolated[0].server.removeprefix("eu.n")
        for effect in effects
        if isinstance(effect, SetHeard)
    ]


def heard(frame: SetFrame) -> FrameHeard:
    return FrameHeard(frame, ("b", 1), True)


@pytest.mark.spec("V-113")
def test_messages_are_delivered_in_order_once_and_a_new_life_begins_anew() -> None:
    core = Net("ab", listen="ab").cores["a"]
    assert taken(core, *[heard(frame(number)) for number in (1, 2, 2, 5, 3, 5, 6)]) == ["1", "2", "5", "6"]
    carried = [Received(Domain("eu.b"), SetCarried(SET, 1, n, word(f"n{n}"))) for n in (6, 8)]
    assert taken(core, *carried, heard(frame(7)), heard(frame(9))) == ["8", "9"], "over the link, too"
    assert taken(core, heard(frame(1, life=2)), heard(frame(10)), heard(frame(2, life=2))) == ["1", "2"]


@pytest.mark.spec("V-113")
def test_what_another_says_of_a_server_is_not_taken() -> None:
    net = Net("abc", listen="ab", repeaters="a")
    core = net.cores["a"]
    for strange in (
        frame(1, origin="eu.a"),
        frame(1, origin="us.b"),
        frame(1, origin="world"),
        frame(1, name="us"),
    ):
        assert [type(each) for each in core.step(0.0, heard(strange))] == [Ignored]
    old = SetFrame(SET, Domain("eu.c"), 1, 1, (core.me,))
    core.step(0.0, FrameHeard(old, ("elsewhere", 1), False))
    assert core.state.registered[Domain("eu.c")].place == ("c", 1), "a registration that was sent before"
    for number in range(2 * SET_MEMBERS_MAX):
        stranger = Domain(f"eu.s{number}")
        core.step(0.0, FrameHeard(SetFrame(SET, stranger, 1, 1, (core.me,)), ("s", 1), False))
        core.step(0.0, heard(frame(1, origin=stranger)))
    assert len(core.state.registered) == len(core.state.heard) == SET_MEMBERS_MAX
    assert net.cores["b"].step(0.0, FrameHeard(old, ("c", 1), False)) == [
        Ignored("SetFrame", "a registration elsewhere")
    ], "b repeats nothing"


@pytest.mark.spec("V-113")
def test_servers_of_a_set_that_are_gone_leave_room_for_others() -> None:
    core = Net("abc", listen="ab", repeaters="a").cores["a"]
    strangers = [Domain(f"eu.s{number}") for number in range(SET_MEMBERS_MAX + 1)]
    for place, stranger in enumerate(strangers):
        now = FORGET_S if stranger == strangers[-1] else 0.0
        core.step(now, FrameHeard(SetFrame(SET, stranger, 1, 9, (core.me,)), ("s", place), False))
        core.step(now, heard(frame(2, origin=stranger)))
    assert list(core.state.registered) == strangers[-1:], "who does not register any more"
    assert list(core.state.heard) == strangers[1:], "and who was silent for the longest time"
    core.step(FORGET_S, FrameHeard(SetFrame(SET, strangers[0], 1, 3, (core.me,)), ("s", 0), False))
    assert strangers[0] in core.state.registered, "though a higher number was said in its name"


def said_of(core: CastCore, now: float, number: int) -> list[SetNumber]:
    return [each.message for each in core.step(now, heard(frame(number))) if isinstance(each, Send)]


@pytest.mark.spec("V-113")
def test_a_number_in_the_name_of_another_server_does_not_silence_it() -> None:
    net = Net("ab", listen="ab")
    core, origin = net.cores["a"], net.cores["b"]
    origin.cast(0.0, (core.me,), word("x"))
    assert taken(core, heard(frame(1)), heard(frame(1_000_000)), heard(frame(2))) == ["1", "1000000"]
    assert said_of(core, 0.1, 2) == [], "it was asked a moment ago"
    (question,) = said_of(core, 0.1 + REGISTER_S, 2)
    (answer,) = origin.step(1.0, Received(core.me, question))
    assert answer == Send(core.me, SetNumber(SET, 1, 1))
    assert taken(core, Received(origin.me, answer.message), heard(frame(2)), heard(frame(2))) == ["2"]
    assert said_of(core, 9.0, 1) == [], "this one was overtaken"
    assert taken(core, Received(origin.me, answer.message), heard(frame(2))) == [], "an answer sent again"


@pytest.mark.spec("V-019", "V-113")
def test_a_life_that_the_link_does_not_know_is_not_taken() -> None:
    core = Net("ab", listen="ab").cores["a"]
    assert taken(core, heard(frame(1, life=9))) == ["1"], "of a server without a link"
    assert taken(core, LinkUp(Domain("eu.b"), 2), heard(frame(2, life=2))) == ["2"]
    assert taken(core, heard(frame(3, life=9)), heard(frame(4, life=1)), heard(frame(3, life=2))) == ["3"]
    assert taken(core, LinkMoved(Domain("eu.b"), 3), heard(frame(1, life=3))) == ["1"]


@pytest.mark.spec("V-113")
def test_a_repeater_returns_nothing_to_its_origin_though_it_is_asked_to() -> None:
    net = Net("abcd", listen="ab", repeaters="a")
    core, to = net.cores["a"], tuple(map(Domain, ("eu.a", "eu.c", "eu.d")))
    said = SetFrame(SET, Domain("eu.c"), 1, 1, to, word("x"))
    again, _ = core.step(0.0, FrameHeard(said, ("c", 1), False))
    assert again == SendSetFrame(said, True, (("d", 1),))


class Agreed(Service):
    """In the place of `AgreedServer`: says what it is given to all others, and parts from one."""

    name = AGREED_SERVER
    takes = (SetEvidence,)

    def step(self, now: float, event: Any) -> list[Effect]:
        others = [Domain(f"eu.{each}") for each in "bc"]
        parted = PartedFromSet(SET, 7, 0, ())
        return [*[Send(each, event.message) for each in others], Send(others[0], parted)]


class Above(Service):
    name: ServiceName["Above"] = ServiceName("above")

    def step(self, now: float, event: Any) -> list[Effect]:
        return []

    def hear(self, now: float, effects: Any) -> Any:
        self.saw = list(effects)
        return effects


@pytest.mark.spec("V-111")
def test_a_set_with_an_address_sends_frames_and_one_without_sends_over_links() -> None:
    """The core of the set, and the services around it, are the same."""
    message = word("x")
    for addresses, expected in (
        ([], [Send] * 3),
        ([SetAddress(SET, GROUP)], [SendSetFrame] * 2),
        ([SetAddress(Domain("us"), GROUP)], [Send] * 3),
    ):
        above = Above()
        stack = Stack(above, SetCasting(Domain("eu.a"), 7, addresses), Agreed())
        effects = stack.step(0.0, Received(Domain("eu.b"), message))
        assert [type(each) for each in effects] == expected and effects == above.saw
    together, alone = effects = stack_of(GROUP).step(0.0, Received(Domain("eu.b"), message))
    assert together == SendSetFrame(
        SetFrame(SET, Domain("eu.a"), 7, 1, (Domain("eu.b"), Domain("eu.c")), message), True
    )
    assert (alone.frame.to, alone.frame.number) == ((Domain("eu.b"),), 2)


def stack_of(group: Place) -> Stack:
    return Stack(SetCasting(Domain("eu.a"), 7, [SetAddress(SET, group)]), Agreed())


@pytest.mark.spec("V-111")
def test_a_frame_is_a_message_of_its_origin_and_is_answered_as_one() -> None:
    stack = stack_of(GROUP)
    (first, second) = stack.step(
        0.0, heard(SetFrame(SET, Domain("eu.b"), 1, 1, (Domain("eu.a"),), word("y")))
    )
    assert (first.frame.message, second.frame.message) == (word("y"), PartedFromSet(SET, 7, 0, ()))
    assert [type(each) for each in stack.step(0.0, heard(frame(1, name="us")))] == [Ignored]


@pytest.mark.spec("V-111")
def test_what_no_datagram_holds_goes_over_the_links_with_its_number() -> None:
    core = Net("abc", listen="abc").cores["a"]
    long = SetEvidence(SET, 7, 0, tuple([ServerId(Domain(f"eu.server-number-{n:03}"), n) for n in range(60)]))
    to = (Domain("eu.b"), Domain("eu.c"))
    assert core.cast(0.0, to, long) == [Send(each, SetCarried(SET, 1, 1, long)) for each in to]
    assert core.cast(0.0, to, word("x")) == [SendSetFrame(SetFrame(SET, core.me, 1, 2, to, word("x")), True)]


@pytest.mark.spec("V-111")
def test_a_server_casts_in_the_sets_that_it_is_in_and_a_cluster_has_none_below() -> None:
    sets = [SetAddress(Domain(name), GROUP) for name in ("world", "eu", "eu.fr", "us")]

    def of(domain: str, *, cluster: bool = False) -> list[str]:
        return [each.set for each in addresses_of(Domain(domain), sets, cluster=cluster)]

    assert (of("world"), of("eu"), of("eu.fr", cluster=True)) == (["world"], ["world", "eu"], ["eu"])
