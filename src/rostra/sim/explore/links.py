"""Two ends of a link (`protocols/links`) over a channel that loses, doubles and reorders packets, and breaks.

    a ── Transmit ──▶ lane ──▶ PacketArrived ── b            and the same way back

What must hold: the invariants of each end; what an end hands up is what the other submitted in the same
epoch, each message once and in order; nothing counts as acknowledged that the other end does not have; no
epoch comes back.

    open a       a has a new way to b                  lose a b      the next packet from a to b is lost
    close a      and sees that it is gone              double a b    it arrives, and will arrive once more
    reset        what is under way is lost, and        overtake a b  the one behind it arrives first
                 both must open again                  submit a      one more message
    deliver a b  the next packet reaches b             tick a        all that is due is done
    give-up a    a got nothing from b for too long     restart a     with a larger incarnation
    forget a     nor much longer, and b's numbers
                 make no others void any more

What was under way when an end restarted may still arrive; an end forgets the other only when nothing is under
way. Instants are not part of a state: at a tick, everything is due that could be.
"""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from rostra.core.effects import Event, LinkDown, LinkUp, Received, Ticked
from rostra.names import Domain
from rostra.protocols.detect.core import Detector
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.core import Link
from rostra.protocols.links.events import (
    BatchSubmitted,
    ChannelClosed,
    ChannelOpened,
    PacketArrived,
    Transmit,
)
from rostra.protocols.links.invariants import broken
from rostra.protocols.links.packets import NOBODY, AnyPacket, Hello
from rostra.protocols.links.state import Apart, Together
from rostra.sim.explore.model import Numbers, SearchBounds, StateImage, Words, image, renamed, restore, shown

NAMES: Final = (Domain("a"), Domain("b"))
SWAP: Final = {"a": "b", "b": "a"}
CONFIG: Final = LinkConfig(
    window_packets_max=2, packet_messages_max=1, acknowledge_messages=2, resend_after_s=1.0
)
FIXED: Final = (
    *("me", "peer", "config", "_world", "_replicated", "_beat_after_s"),
    *("_detector", "_known_at", "_ticked_at", "arrived_at"),  # what is about time alone
)
NOW: Final = 1000.0
"""Late enough for everything to be due that an end put off at the beginning of time."""


class LinksBounds(SearchBounds, frozen=True, kw_only=True):
    """What may happen in one run, at either end, in any order: `messages` submitted, `ticks`, packets lost
    (`losses`), doubled (`doubles`) and overtaken (`overtakes`), `resets` of the channel, `suspicions` of an
    end that lives, `restarts`, and numbers of the other end forgotten (`forgets`)."""

    messages: int = 2
    ticks: int = 2
    losses: int = 1
    doubles: int = 1
    overtakes: int = 0
    resets: int = 1
    suspicions: int = 0
    restarts: int = 1
    forgets: int = 0


class ModelEnd(Struct, frozen=True):
    link: StateImage
    linked: bool = False  # it has opened the present channel
    submitted: int = 0  # in this epoch
    handed_up: int = 0
    left: int = 0  # its own session in the last epoch that it left, in this life


class Look(Struct, frozen=True):
    """What invariants need to know of one end."""

    who: Domain
    broken: tuple[str, ...]
    epoch: tuple[int, int] | None
    acknowledged: int = 0
    received: int = 0


class Do(NamedTuple):
    verb: str
    end: int


LinksState = tuple[int, int, int, int, int, int]
"""Numbers of: two ends, the lanes to each of them, what is spent of the bounds, trouble."""


class ResumesTooLate(Link):
    """A hello acknowledges one packet more than was received."""

    __slots__ = ()

    def _hello(self) -> Hello:
        hello = super()._hello()
        return replace(hello, received=hello.received + self.up)


class KeepsItsSession(Link):
    """An end that leaves an epoch does not take a new session."""

    __slots__ = ()

    def _leave(self, now: float, what: str) -> list[Any]:
        reports = super()._leave(now, what)
        self._mine -= 1
        return reports


class LinksModel:
    name = "links"
    about = "two ends of a link lose packets, reconnect and restart"
    plants: ClassVar = {
        "resume-too-late": "after a reconnect one packet too many counts as received",
        "old-session": "an end that leaves an epoch keeps its session number",
    }

    def __init__(self, bounds: LinksBounds | None = None, plant: str | None = None) -> None:
        self.bounds = bounds or LinksBounds()
        self.plant = plant
        self._limits: dict[str, int] = asdict(self.bounds)
        kinds = {"resume-too-late": ResumesTooLate, "old-session": KeepsItsSession}
        self._link_kind: type[Link] = kinds.get(plant or "", Link)
        self._made = [self._make(end, 1) for end in (0, 1)]
        self._numbers = Numbers()
        self._stepped: dict[tuple[int, int, Hashable], tuple[int, tuple[Any, ...], tuple[str, ...]]] = {}
        self._swapped: dict[int, int] = {}
        self._looks: dict[tuple[int, int], Look] = {}

    def _make(self, end: int, incarnation: int) -> Link:
        return self._link_kind("world", NAMES[end], NAMES[1 - end], incarnation=incarnation, config=CONFIG)

    # The model

    def initial(self) -> LinksState:
        number = self._numbers.of
        first, second = [number(ModelEnd(_image(link))) for link in self._made]
        return first, second, number(()), number(()), number((0,) * len(self._limits)), number(())

    def actions(self, state: LinksState) -> list[Do]:
        found = []
        spent = dict(zip(self._limits, self._numbers[state[4]], strict=True))
        left = {bound for bound, limit in self._limits.items() if spent[bound] < limit}
        for end in (0, 1):
            me: ModelEnd = self._numbers[state[end]]
            parts = dict(me.link.parts)
            up = parts["state"].kind is Together
            lane = self._numbers[state[2 + end]]
            if not me.linked:
                found.append(Do("open", end))
                if parts["_channel_open"]:
                    found.append(Do("close", end))
            if "messages" in left and up:
                found.append(Do("submit", end))
            if "ticks" in left and parts["_channel_open"]:
                found.append(Do("tick", end))
            if "suspicions" in left and up:
                found.append(Do("give-up", end))
            under_way = lane or self._numbers[state[3 - end]]
            if "forgets" in left and not up and not under_way and parts["_yours"] != NOBODY:
                found.append(Do("forget", end))
            if "restarts" in left:
                found.append(Do("restart", end))
            if lane and me.linked:
                found.append(Do("deliver", end))
                if "doubles" in left:
                    found.append(Do("double", end))
                if len(lane) > 1 and "overtakes" in left:
                    found.append(Do("overtake", end))
            if lane and "losses" in left:
                found.append(Do("lose", end))
        if "resets" in left and any(self._numbers[state[end]].linked for end in (0, 1)):
            found.append(Do("reset", 0))
        return found

    def apply(self, state: LinksState, action: Do) -> LinksState:
        return self._apply(state, action)[0]

    def canonical(self, state: LinksState) -> LinksState:
        """The two ends are alike."""
        first, second, to_first, to_second, spent, trouble = state
        swap = self._swap
        return min(state, (swap(second), swap(first), swap(to_second), swap(to_first), spent, trouble))

    def violations(self, state: LinksState) -> Sequence[str]:
        found: tuple[str, ...] = self._numbers[state[5]]
        if found:
            return found
        first, second = [self._looked_at(end, state[end]) for end in (0, 1)]
        found = first.broken + second.broken
        if first.epoch is not None and second.epoch == first.epoch[::-1]:
            for one, other in ((first, second), (second, first)):
                if one.acknowledged > other.received:
                    found += (
                        f"{one.who} counts packet {one.acknowledged} as received;"
                        f" {other.who} has received up to {other.received}",
                    )
        return found

    def words(self, action: Do) -> Words:
        to = NAMES[action.end]
        if action.verb == "reset":
            return ("reset",)
        if action.verb in ("deliver", "double", "overtake", "lose"):
            return (action.verb, NAMES[1 - action.end], to)
        return (action.verb, to)

    def remark(self, state: LinksState, action: Do) -> str:
        if action.verb not in ("deliver", "double", "overtake", "lose"):
            return ""
        return shown(self._numbers[state[2 + action.end]][action.verb == "overtake"])

    def told(self, state: LinksState, action: Do) -> list[str]:
        me = NAMES[action.end]
        lines = []
        for report in self._apply(state, action)[1]:
            match report:
                case LinkUp():
                    lines.append(f"{me} is up")
                case LinkDown(_, because):
                    lines.append(f"{me} is down: {because.what}")
                case Received(_, (_, _, number)):
                    lines.append(f"{me} gets message {number}")
        return lines

    # What happens

    def _apply(self, state: LinksState, action: Do) -> tuple[LinksState, tuple[Any, ...]]:
        verb, end = action
        world = list(state)
        numbers = self._numbers
        me: ModelEnd = numbers[world[end]]
        lane: tuple[AnyPacket, ...] = numbers[world[2 + end]]
        peer = NAMES[1 - end]
        event: Event | str
        match verb:
            case "reset":
                self._pay(world, "resets")
                for each in (0, 1):
                    world[each] = numbers.of(replace(numbers[world[each]], linked=False))
                    world[2 + each] = numbers.of(())
                return self._state(world), ()
            case "lose":
                self._pay(world, "losses")
                world[2 + end] = numbers.of(lane[1:])
                return self._state(world), ()
            case "restart":
                self._pay(world, "restarts")
                incarnation = dict(me.link.parts)["_incarnation"] + 1
                world[end] = numbers.of(ModelEnd(_image(self._make(end, incarnation))))
                return self._state(world), ()
            case "open":
                world[end] = numbers.of(replace(me, linked=True))
                event = ChannelOpened(peer)
            case "close":
                event = ChannelClosed(peer, "broken")
            case "submit":
                self._pay(world, "messages")
                event = "submit"
            case "tick":
                self._pay(world, "ticks")
                event = Ticked()
            case "give-up":
                self._pay(world, "suspicions")
                event = "give-up"
            case "forget":
                self._pay(world, "forgets")
                event = "forget"
            case "double":
                self._pay(world, "doubles")
                event = PacketArrived(peer, lane[0])
            case "overtake":
                self._pay(world, "overtakes")
                world[2 + end] = numbers.of((lane[0], *lane[2:]))
                event = PacketArrived(peer, lane[1])
            case _:
                world[2 + end] = numbers.of(lane[1:])
                event = PacketArrived(peer, lane[0])
        world[end], reports, failed = self._step(end, world[end], event)
        packets = tuple([report.packet for report in reports if isinstance(report, Transmit)])
        if packets and numbers[world[end]].linked:
            world[3 - end] = numbers.of(numbers[world[3 - end]] + packets)
        if failed:
            world[5] = numbers.of(failed)
        return self._state(world), reports

    def _step(
        self, end: int, number: int, event: Event | str
    ) -> tuple[int, tuple[Any, ...], tuple[str, ...]]:
        key = (end, number, event)
        found = self._stepped.get(key)
        if found is None:
            found = self._stepped[key] = self._step_anew(end, self._numbers[number], event)
        return found

    def _step_anew(
        self, end: int, me: ModelEnd, event: Event | str
    ) -> tuple[int, tuple[Any, ...], tuple[str, ...]]:
        link, who = self._link(end, me), NAMES[end]
        submitted, handed_up, left, wrong = me.submitted, me.handed_up, me.left, []
        before = link.epoch
        if event == "submit":
            submitted += 1
            assert before is not None, "it is up"
            event = BatchSubmitted(((*before, submitted),))
        elif event == "give-up":
            link._detector.begin(-NOW)
            event = Ticked()
        elif event == "forget":
            assert isinstance(link.state, Apart), "it is apart"
            link._known_at = link.state.since = -NOW
            event = Ticked()
        assert isinstance(event, Event)
        try:
            reports = tuple(link.step(NOW, event))
        except AssertionError as error:
            return self._numbers.of(me), (), (f"{who} failed at {shown(event)}: {error}",)
        for report in reports:
            match report:
                case LinkUp():
                    if link.epoch is not None and link.epoch[0] <= left:
                        wrong.append(f"{who} is in an epoch again that it left")
                case LinkDown():
                    assert before is not None, "it was up"
                    submitted = handed_up = 0
                    left = before[0]
                case Received(_, (mine, yours, number)):
                    handed_up += 1
                    if (yours, mine) != link.epoch:
                        wrong.append(f"{who} gets a message of another epoch")
                    elif number != handed_up:
                        wrong.append(f"{who} gets message {number} where {handed_up} is due")
        after = ModelEnd(_image(link), me.linked, submitted, handed_up, left)
        return self._numbers.of(after), reports, tuple(wrong)

    def _looked_at(self, end: int, number: int) -> Look:
        found = self._looks.get((end, number))
        if found is None:
            link, who = self._link(end, self._numbers[number]), NAMES[end]
            found = Look(who, tuple([f"{who}: {rule}" for rule in broken(link)]), link.epoch)
            if isinstance(link.state, Together):
                found = replace(found, acknowledged=link.state.acknowledged, received=link.state.received)
            self._looks[end, number] = found
        return found

    def _link(self, end: int, me: ModelEnd) -> Link:
        link: Link = restore(me.link, self._made[end])
        link._detector = Detector(CONFIG.detect)
        link._detector.begin(NOW)
        link._known_at = NOW
        return link

    def _pay(self, world: list[int], bound: str) -> None:
        counts = list(self._numbers[world[4]])
        counts[list(self._limits).index(bound)] += 1
        world[4] = self._numbers.of(tuple(counts))

    def _swap(self, number: int) -> int:
        found = self._swapped.get(number)
        if found is None:
            found = self._swapped[number] = self._numbers.of(renamed(self._numbers[number], SWAP))
        return found

    @staticmethod
    def _state(world: list[int]) -> LinksState:
        first, second, to_first, to_second, spent, trouble = world
        return first, second, to_first, to_second, spent, trouble


def _image(link: Link) -> StateImage:
    """All but time."""
    match link.state:
        case Apart() as apart:
            apart.since, apart.hello_at, apart.backoff_s = NOW, 0.0, CONFIG.reconnect_backoff_s
        case Together() as together:
            together.sent_at = together.progress_at = 0.0
    found: StateImage = image(link, FIXED)
    return found
