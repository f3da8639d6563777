"""Three stations of a group in hub order (`protocols/atomic/hub.py`): one joins, and the orderer dies.

    view 1 = a, b        a orders
    view 2 = a, b, c     c joins: its mark
    view 3 = b, c        once a has crashed: b gathers, and orders

What must hold: a position stands for one entry, wherever it is given (total order; a's log counts too, though
it is excluded: its log is a prefix); no entry is left out; what any station gives its members is held by
every station of the view that lives and has a part in the order (H6); the orderer keeps what one that comes
needs.

    tell x       x gets the next agreed view              submit x     its member says something
    deliver x y  the next message from x reaches y        crash a      what it sent may still arrive
    cut a y      or not: the rest of it is lost           tick x       what may be lost is sent again
    propose x    x hears that view 3 is proposed          give-up b    for too long: it releases c

With `proposals`, all begins in view 2, where entries are stable with a majority: b and c report before view 3
is agreed (`protocols/atomic/hub_early.py`), which it may be or not; with `suspicions`, though a lives.

Messages between two stations arrive in order here: loss and repair are those of `protocols/flow`, and the
numbers of its streams are not explored again.
"""

import pickle
from collections.abc import Sequence
from io import BytesIO
from typing import Any, ClassVar, Final, NamedTuple

from msgspec.structs import asdict

from rostra.core.effects import Effect
from rostra.groups.attributes import Slow
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.atomic.events import HubPost, OrderSubmitted
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.hub_early import EARLY_S
from rostra.protocols.atomic.messages import AnyHubMessage, MarkEntry, StationId, ViewKey
from rostra.protocols.atomic.state import AgreedNow, StationOrders
from rostra.protocols.flow.runs import block_of
from rostra.sim.explore.model import Numbers, SearchBounds, Words, shown

NAMES: Final = ("a", "b", "c")
HOSTS: Final = {name: Domain(f"x.{name}") for name in NAMES}
GROUP: Final = Group("g", Domain("x"))
ME: Final = {name: Endpoint(f"x.{name}/m#1") for name in NAMES}
LIFE: Final = 1
INSIDE: Final = (("a", "b"), ("a", "b", "c"), ("b", "c"))
NOW: Final = 100.0


class HubBounds(SearchBounds, frozen=True, kw_only=True):
    """What may happen in one run, at any station, in any order: messages submitted (`messages`), `crashes` of
    the orderer, and `ticks`. Within these bounds there are 1,004,934 states; without a crash 41,442 with two
    messages, and 97,854 with one and a tick. A crash and a tick, or two messages, was not exhausted.

    `proposals` that b and c hear, and how often b gives one up (`give_ups`); `suspicions` is 0 or 1. With two
    proposals, one of them given up: 565,964 states, and 451,418 with a suspicion in place of the crash."""

    messages: int = 1
    crashes: int = 1
    ticks: int = 0
    proposals: int = 0
    give_ups: int = 0
    suspicions: int = 0


class Recorded(Station):
    """Remembers what it gave its members."""

    record: tuple[tuple[int, str], ...] = ()

    def _give(self, out: list[Effect]) -> None:
        for entry in () if self.gallery.blocked else self.log.due(self.accept):
            what = f"view {entry.view.number}" if isinstance(entry, MarkEntry) else entry.sender
            number = "" if isinstance(entry, MarkEntry) else f" {entry.run.first}"
            self.record = (*self.record, (entry.position, f"{what}{number}"))
        super()._give(out)


class GivesAtOnce(Recorded):
    def _advance(self) -> bool:
        before, self.accept = self.accept, self.log.next
        return self.accept > before


class MarksAtOnce(Recorded):
    def _mark(self, out: list[Effect], *, begins: bool = False) -> bool:
        if self.agreed is not None and isinstance(self.stage, StationOrders):
            self._outs = {id for id in self.agreed.stations if id.host not in self._peers}
        return super()._mark(out, begins=begins)


class UsesOldReports(Recorded):
    def _give_up_early(self, out: list[Effect]) -> None:
        early = self._early
        super()._give_up_early(out)
        self._early, self._void = early, ()


class HubMove(NamedTuple):
    verb: str
    one: str
    other: str = ""


HubState = tuple[int, ...]
"""Numbers of: three stations, how many views each has got, six lanes, what is spent, what was given."""


def agreed_now(number: int, *, exclusive: bool = False) -> AgreedNow:
    members = tuple([AgreedMember(MemberId(ME[name], (LIFE, 1)), 0) for name in INSIDE[number - 1]])
    before = INSIDE[number - 2] if number > 1 else ()
    gone = tuple([MemberId(ME[name], (LIFE, 1)) for name in before if name not in INSIDE[number - 1]])
    view = AgreedView(number, 0, None, members, failed=gone)
    stations = tuple([StationId(HOSTS[name], LIFE) for name in INSIDE[number - 1]])
    return AgreedNow(ViewKey(number, 0, ""), view, stations, number if exclusive else None)


class HubModel:
    name = "hub"
    about = "three stations in hub order: one joins, and the orderer dies"
    plants: ClassVar = {
        "deliver-before-stable": "entries are given to members before all stations have them",
        "mark-before-linked": "a view gets its place before its new station is there",
        "use-old-reports": "early reports count after a release; wants proposals=2 give_ups=1",
    }

    def __init__(self, bounds: HubBounds | None = None, plant: str | None = None) -> None:
        self.bounds = bounds or HubBounds()
        self.plant = plant
        kinds = {
            "deliver-before-stable": GivesAtOnce,
            "mark-before-linked": MarksAtOnce,
            "use-old-reports": UsesOldReports,
        }
        self._kind: type[Recorded] = kinds.get(plant or "", Recorded)
        self._stable = "majority" if self.bounds.proposals else "all"
        self._limits: dict[str, int] = asdict(self.bounds)
        self._numbers = Numbers()
        self._stepped: dict[tuple[int, Any], tuple[int, tuple[HubPost, ...]]] = {}
        self._looks: dict[int, Recorded] = {}
        self._lanes = [(one, other) for one in NAMES for other in NAMES if one != other]

    # The model

    def initial(self) -> HubState:
        of = self._numbers.of
        stations = []
        for name in NAMES:
            station = self._kind(GROUP, StationId(HOSTS[name], LIFE), self._stable, 1200)
            station.early_flush = self.bounds.proposals > 0
            stations.append(of(_frozen(station)))
        state = (*stations, *[of(0)] * 3, *[of(())] * 6, of((0,) * len(self._limits)), of(False))
        return self._settled(state) if self.bounds.proposals else state

    def _settled(self, state: HubState) -> HubState:
        """All three are in view 2, and nothing is on its way: what is proposed comes after that."""
        for number in (1, 2):
            for name in INSIDE[number - 1]:
                state = self.apply(state, HubMove("tell", name))
            while moves := [each for each in self.actions(state) if each.verb == "deliver"]:
                state = self.apply(state, moves[0])
        return state

    def actions(self, state: HubState) -> list[HubMove]:
        numbers = self._numbers
        spent = dict(zip(self._limits, numbers[state[12]], strict=True))
        left = {bound for bound, limit in self._limits.items() if spent[bound] < limit}
        dead = numbers[state[13]]
        found = []
        for at, name in enumerate(NAMES):
            if dead and name == "a":
                continue
            told = numbers[state[3 + at]]
            if self._next_view(name, told, dead) is not None:
                found.append(HubMove("tell", name))
            station = self._seen(state[at])
            if "messages" in left and any(each.knows for each in station.gallery.members.values()):
                found.append(HubMove("submit", name))
            if "ticks" in left and station._is_timed:
                found.append(HubMove("tick", name))
            if "proposals" in left and name != "a" and told == 2:
                found.append(HubMove("propose", name))
            if "give_ups" in left and station._early is not None:
                found.append(HubMove("give-up", name))
        for at, (one, other) in enumerate(self._lanes):
            if numbers[state[6 + at]] and not (dead and other == "a"):
                found.append(HubMove("deliver", one, other))
                if dead and one == "a":
                    found.append(HubMove("cut", one, other))
        if not dead and "crashes" in left and numbers[state[3]]:
            found.append(HubMove("crash", "a"))
        return found

    def apply(self, state: HubState, action: HubMove) -> HubState:
        numbers = self._numbers
        world = list(state)
        verb, one, other = action
        at = NAMES.index(one)
        match verb:
            case "tell":
                number = self._next_view(one, numbers[world[3 + at]], numbers[world[13]])
                world[3 + at] = numbers.of(number)
                self._step(world, one, ("tell", number))
            case "submit":
                self._pay(world, "messages")
                self._step(world, one, ("submit",))
            case "tick":
                self._pay(world, "ticks")
                self._step(world, one, ("tick",))
            case "propose":
                self._pay(world, "proposals")
                self._step(world, one, ("propose",))
            case "give-up":
                self._pay(world, "give_ups")
                self._step(world, one, ("give up",))
            case "crash":
                self._pay(world, "crashes")
                world[13] = numbers.of(True)
            case "cut":
                world[6 + self._lanes.index((one, other))] = numbers.of(())
            case _:
                lane = 6 + self._lanes.index((one, other))
                message, *rest = numbers[world[lane]]
                world[lane] = numbers.of(tuple(rest))
                self._step(world, other, ("hear", one, message))
        return tuple(world)

    def canonical(self, state: HubState) -> HubState:
        return state

    def violations(self, state: HubState) -> Sequence[str]:
        stations = {name: self._seen(state[at]) for at, name in enumerate(NAMES)}
        dead = self._numbers[state[13]]
        found: list[str] = []
        at: dict[int, tuple[str, str]] = {}
        for name, station in stations.items():
            positions = [position for position, _ in station.record]
            if positions != list(range(positions[0], positions[0] + len(positions)) if positions else []):
                found.append(f"{name} leaves positions out: {station.record}")
            for position, what in station.record:
                known = at.setdefault(position, (name, what))
                if known[1] != what:
                    found.append(f"{position} is {known[1]} at {known[0]}, and {what} at {name}")
        inside: tuple[str, ...] = ()
        for position in sorted(at):
            what = at[position][1]
            if what.startswith("view "):
                inside = INSIDE[int(what[5:]) - 1]
            lacking = [name for name in inside if _lacks(stations[name], position)]
            if self._stable == "majority":
                lacking = lacking if 2 * len(lacking) >= len(inside) else []
            found += [
                f"{what} was given at {position}, and {name} does not have it"
                for name in lacking
                if not (dead and name == "a")
            ]
        for name, station in stations.items():
            if station.orders and not (dead and name == "a"):
                found += self._not_kept(name, station, stations)
        return found[:1]

    def _not_kept(self, name: str, orderer: Recorded, stations: dict[str, Recorded]) -> list[str]:
        """A station of its last view that has no part in the order yet needs it from its first view on."""
        if orderer.marked is None:
            return []
        here = orderer.marked.view.endpoints
        new = [each for each in NAMES if ME[each] in here and not stations[each].chain]
        return [
            f"{name} has forgotten the view that {each} comes with"
            for each in new
            if orderer._place_of((ME[each],)) is None
        ]

    def words(self, action: HubMove) -> Words:
        return tuple([each for each in action if each])

    def remark(self, state: HubState, action: HubMove) -> str:
        if action.verb != "deliver":
            return ""
        return shown(self._numbers[state[6 + self._lanes.index((action.one, action.other))]][0])

    def told(self, state: HubState, action: HubMove) -> list[str]:
        after = self.apply(state, action)
        lines = []
        for at, name in enumerate(NAMES):
            before = self._seen(state[at]).record
            lines += [
                f"{name} is given {what} at {position}"
                for position, what in self._seen(after[at]).record[len(before) :]
            ]
        return lines

    # What happens

    def _seen(self, number: int) -> Recorded:
        """A station, to look at and not to change."""
        found = self._looks.get(number)
        if found is None:
            found = self._looks[number] = _thawed(self._numbers[number])
        return found

    def _next_view(self, name: str, told: int, dead: bool) -> int | None:
        """The next agreed view that this one can be told. One that joins hears of none before; and a view
        that is over need not reach all stations."""
        over = dead or self.bounds.suspicions > 0
        later = [n for n in range(told + 1, 4) if name in INSIDE[n - 1] and (n < 3 or over)]
        return later[0] if later else None

    def _pay(self, world: list[int], bound: str) -> None:
        spent = list(self._numbers[world[12]])
        spent[list(self._limits).index(bound)] += 1
        world[12] = self._numbers.of(tuple(spent))

    def _step(self, world: list[int], name: str, what: tuple[Any, ...]) -> None:
        at = NAMES.index(name)
        key = (world[at], (name, *what))
        done = self._stepped.get(key)
        if done is None:
            station = _thawed(self._numbers[world[at]])
            out: list[Effect] = []
            self._do(station, name, what, out)
            posts = tuple([each for each in out if isinstance(each, HubPost)])
            done = self._stepped[key] = (self._numbers.of(_frozen(station)), posts)
        world[at], posts = done
        for post in posts:
            to = next(each for each, host in HOSTS.items() if host == post.to)
            lane = 6 + self._lanes.index((name, to))
            world[lane] = self._numbers.of((*self._numbers[world[lane]], post.message))

    def _agreed(self, number: int) -> AgreedNow:
        return agreed_now(number, exclusive=self.bounds.proposals > 0)

    def _do(self, station: Recorded, name: str, what: tuple[Any, ...], out: list[Effect]) -> None:
        match what:
            case ("tell", int(number)):
                station.gallery.enter(ME[name], Slow.THROTTLE)
                station.look(NOW, self._agreed(number), "", out)
            case ("propose",):
                station.coming(NOW, self._agreed(3), out)
            case ("give up",):
                station.ticked(NOW + EARLY_S, out)
            case ("submit",):
                station.submitted(NOW, OrderSubmitted(ME[name], GROUP, 1, block_of([b"x"])), out)
            case ("tick",):
                station.ticked(NOW, out)
            case ("hear", str(source), message):
                speech: AnyHubMessage = message
                station.heard(NOW, HOSTS[source], speech, out)


def _lacks(station: Recorded, position: int) -> bool:
    """Does it lack an entry from after the one with which its part in the order began?"""
    begins = station.record[0][0] if station.record else station.log.low
    return bool(station.chain) and begins <= position and station.log.next <= position


def _frozen(station: Recorded) -> bytes:
    return pickle.dumps(station, protocol=5)


def _thawed(data: bytes) -> Recorded:
    station: Recorded = pickle.Unpickler(BytesIO(data)).load()  # our own, of a moment ago
    return station
