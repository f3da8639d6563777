"""A set of servers that agrees on changes (`protocols/agreed`), while servers crash and lose sight of others.

    ask b          a change for which b is to be the coordinator     crash a        for good
    deliver a b    a's next message reaches b                        suspect a b    a gives b up, wrongly
    lose a b       or is lost, and no link goes down                 down a b       a sees their link go down
    wait a         what a waits for has not come: nothing is under way
    haste a        the same, while something is under way
    wait:chess a   the same, of what a waits for in the lane of a group

Between two servers messages keep their order. After `crash` and `suspect` the other end gets a part of what
is under way, from the first on, then it sees the link go down; it does not come up again. `PartedFromSet` is
not lost: it is sent again whenever a link begins again.

What must hold after every step:

- Two servers that committed different changes on one base have isolated each other, at least one way (V-120).
- At the moment of a commit, every server that it does not cut off is locked on it or has committed it, or has
  isolated its coordinator (V-071, V-124).
- One view id is one list of servers (V-120).
- The set is in no more parts than faults can make of it: a lost message is none, nor is a crash.
- With `lanes`: two servers that committed one change of the whole set have committed the same in every lane
  before it, or have isolated each other; at the moment of such a commit no server that it does not cut off is
  locked in a lane.

And when nothing is under way and no server waits for anything:

- Views contain their own servers, and those only; isolation is mutual (V-125, V-126).
- Every change that a living server knew of is committed (V-122).
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from rostra.core.effects import Effect, Event, LinkDown, LinkUp, Received, Send, TimerFired
from rostra.errors import BadInput
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import (
    AnyChange,
    GroupChange,
    GroupVerb,
    MemberId,
    PartsMerged,
    Pid,
    ServerId,
    SetMember,
    SetView,
    follows,
    lane_of,
)
from rostra.protocols.agreed.config import SET_LEVEL, AgreedConfig
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.events import ChangeAsked, ServerIsolated, SetCommitted
from rostra.protocols.agreed.lanes import Obstacle
from rostra.protocols.agreed.messages import Commit, Initiate, PartedFromSet, SetMessage
from rostra.protocols.agreed.state import (
    Coordinating,
    Electing,
    Holding,
    Idle,
    Locked,
    Phase,
    Remembered,
    SetState,
    alone,
    founded,
)
from rostra.sim.explore.model import Numbers, SearchBounds, Words, shown

NAMES: Final = "abcde"
SET: Final = Domain("eu")
CONFIG: Final = AgreedConfig(retries=1, reform_s=0.0, gather_s=0.0)
CHANGES: Final = tuple(
    [
        GroupChange(Group("chess", SET), verb, (MemberId(Endpoint(f"eu.x.h1/{name}#1"), (1, 1)),), name)
        for verb, name in ((GroupVerb.JOIN, "ann"), (GroupVerb.LEAVE, "bob"), (GroupVerb.JOIN, "eve"))
    ]
)
"""The second goes before the others: it has the higher priority."""


def join_below(server: Domain, group: str = "chess") -> GroupChange:
    member = MemberId(Endpoint(f"{server}.h1/{server}#1"), (1, 1))
    kind = GroupKind(MembershipKind.AGREED)
    return GroupChange(Group(group, SET), GroupVerb.JOIN, (member,), f"a member of {server}", kind=kind)


def _in_lanes(names: Sequence[Domain], lanes: int) -> tuple[GroupChange, ...]:
    """Joins of as many groups in turn, asked of the last servers; the third is of the whole set."""
    last = list(reversed(names))
    joins = [join_below(name, ("chess", "radio")[at % lanes]) for at, name in enumerate(last)]
    if len(joins) > 2:
        joins[2] = replace(joins[2], group=Group("tea", SET), verb=GroupVerb.CREATE, members=())
    return tuple(joins)


class SetBounds(SearchBounds, frozen=True, kw_only=True):
    """`servers` in all; `changes` asked of the last of them, one each; what may happen in one run, at any of
    them, in any order: `crashes`, `suspicions` of a server that lives, messages lost (`losses`), and waits
    that end although something is under way (`haste`). Others end as often as they like. A server asks again
    as often as messages may be lost, so that a loss alone never counts as a failure. With `gathers`, servers
    say whom they lost and wait for what others say, before they remove one (`AgreedConfig`). With `lanes` the
    changes are of one or two groups, each in its lane, and the third is of the whole set."""

    servers: int = 3
    changes: int = 2
    crashes: int = 1
    suspicions: int = 0
    losses: int = 1
    haste: int = 0
    gathers: int = 0
    lanes: int = 0


class SetNode(Struct, frozen=True):
    """A server, and what invariants need to know of its past."""

    state: SetState
    crashed: bool = False
    asked: tuple[int, ...] = ()
    successors: tuple[tuple[object, object], ...] = ()  # each commit: its base, and it
    tips: tuple[tuple[Group, Pid], ...] = ()  # of lanes, since the last commit of the whole set
    parted: frozenset[ServerId] = frozenset()  # all that it ever isolated
    open: frozenset[str] = frozenset()  # requests that it knew of, and has not committed


class SetLane(Struct, frozen=True):
    messages: tuple[Any, ...] = ()
    ended: bool = False  # the sender is gone, or has given the receiver up


class SetAct(NamedTuple):
    verb: str
    node: int
    peer: int = -1


class SetStepped(Struct, frozen=True):
    node: int
    sends: tuple[tuple[int, int], ...]
    effects: tuple[Effect, ...]
    failed: tuple[str, ...]


class SwitchesSilently(SetCore):
    """TV1: an acknowledgement is not kept, if a change of higher priority comes."""

    def _initiated(self, who: ServerId, message: Initiate) -> None:
        phase = self.state.phase
        if isinstance(phase, Locked) and message.proposal.priority < phase.proposal.priority:
            self._set(phase=Idle())
        super()._initiated(who, message)


class GivesUpAtOnce(SetCore):
    """TV3: a commit that did not come means that the coordinator failed."""

    def _waited(self) -> None:
        phase = self.state.phase
        if isinstance(phase, Locked):
            self._set(phase=replace(phase, times=self.config.retries))
        super()._waited()


class SkipsInitiate(SetCore):
    """The winner of an election commits at once."""

    def _elected(self, phase: Electing) -> None:
        super()._elected(phase)
        mine = self.state.phase
        if isinstance(mine, Coordinating) and mine.round.attempt:
            self._out[:] = [
                each
                for each in self._out
                if not (isinstance(each, Send) and isinstance(each.message, Initiate))
            ]
            self._commit(mine.proposal, mine.round)


class ObeysGossip(SetCore):
    """V-091 as the paper has it: whom another server isolated, we isolate at once."""

    def _note_evidence(self, who: ServerId, isolated: frozenset[ServerId]) -> None:
        super()._note_evidence(who, isolated)
        for each in sorted(isolated):
            self._isolate(each, "another isolated it")


class ForgetsReleased(SetCore):
    """A change that was withdrawn, or that came up in an election, is its coordinator's business."""

    def _remember(self, one: Remembered) -> None:
        if one.is_open:
            super()._remember(one)


class AnswersBeforeIsolating(SetCore):
    """TV2: who says how it stands still listens to the coordinator."""

    def _isolate(self, server: ServerId, why: str) -> None:
        if why != "as coordinator it failed":
            super()._isolate(server, why)


class LocksBesideLanes(SetCore):
    """A change of the whole set is acknowledged, and committed, while lanes are locked."""

    def _obstacle(self) -> Obstacle | None:
        return super()._obstacle() if self.state.at is not None else None


class LocksLanesBeside(SetCore):
    """A change in a lane is acknowledged although one of the whole set is."""

    def _obstacle(self) -> Obstacle | None:
        return super()._obstacle() if self.state.at is None else None


class KeepsLaneAsleep(SetCore):
    """A server that cannot acknowledge a change in a lane, because one of the whole set has begun, does not
    answer."""

    def _refuse(self, one: Remembered, first: Obstacle) -> None:
        pass


class SetModel:
    config: ClassVar = CONFIG
    changes: tuple[GroupChange, ...] = CHANGES
    name: ClassVar[str] = "set"
    about: ClassVar[str] = "servers agree on changes, crash, lose messages and lose sight of each other"
    plants: ClassVar[Mapping[str, str]] = {
        "silent-switch": "a server that acknowledged follows a change of higher priority (TV1)",
        "no-second-ask": "a commit that did not come means that the coordinator failed (TV3)",
        "skip-initiate": "the winner of an election commits at once",
        "obey-gossip": "a server isolates at once whom another one has isolated",
        "late-isolation": "who takes part in an election still obeys the coordinator (TV2)",
        "forget-released": "a change that was withdrawn is forgotten by those who had acknowledged it",
        "beside-lanes": "a change of the whole set is acknowledged while a lane is locked (with `lanes`)",
        "lanes-beside": "a lane is locked while a change of the whole set is acknowledged (with `lanes`)",
        "silent-lanes": "what waits for a change of the whole set is not refused (with `lanes`)",
    }
    _kinds: ClassVar[dict[str, type[SetCore]]] = {
        "silent-switch": SwitchesSilently,
        "no-second-ask": GivesUpAtOnce,
        "skip-initiate": SkipsInitiate,
        "obey-gossip": ObeysGossip,
        "late-isolation": AnswersBeforeIsolating,
        "forget-released": ForgetsReleased,
        "beside-lanes": LocksBesideLanes,
        "lanes-beside": LocksLanesBeside,
        "silent-lanes": KeepsLaneAsleep,
    }

    _faults: ClassVar[tuple[str, ...]] = ("crashes", "suspicions", "losses", "haste")

    def __init__(self, bounds: SetBounds | None = None, plant: str | None = None) -> None:
        self.bounds: SetBounds = bounds or SetBounds()
        self.plant = plant
        self._config = replace(
            self.config,
            retries=max(self.config.retries, self.bounds.losses),
            gather_s=0.5 if self.bounds.gathers else 0.0,
            lanes=8 if self.bounds.lanes else 0,
        )
        count = self.bounds.servers
        if not 2 <= count <= len(NAMES):
            raise BadInput(f"servers is {count}", fix=f"from 2 to {len(NAMES)}")
        if self.bounds.changes > min(count, len(self.changes)):
            raise BadInput(
                f"changes is {self.bounds.changes}", fix=f"at most {min(count, len(self.changes))}"
            )
        self.names = tuple([Domain(name) for name in NAMES[:count]])
        if not 0 <= self.bounds.lanes <= 2:
            raise BadInput(f"lanes is {self.bounds.lanes}", fix="from 0 to 2")
        if self.bounds.lanes:
            self.changes = _in_lanes(self.names, self.bounds.lanes)
        self.ids = tuple([ServerId(name, 1) for name in self.names])
        self._core = self._kinds.get(plant or "", SetCore)
        self._limits: dict[str, int] = asdict(self.bounds)
        self._numbers = Numbers()
        self._closed = self._numbers.of(None)
        self._empty = self._numbers.of(SetLane())
        self._lane = [[count + to * count + sender for sender in range(count)] for to in range(count)]
        self._spent = count + count * count
        self._views, self._trouble = self._spent + 1, self._spent + 2
        self._stepped: dict[tuple[int | str, ...], SetStepped] = {}
        self._waiting: dict[int, bool] = {}
        self._checked: dict[tuple[int, ...], tuple[str, ...]] = {}

    # The model

    def initial(self) -> tuple[int, ...]:
        return self._world([range(len(self.ids))])

    def _world(self, parts: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """As it begins: sets of these servers, which are linked within each. One alone has just started."""
        number, ids = self._numbers.of, self.ids
        nodes, part_of = [], {}
        for some in parts:
            level = SET_LEVEL if self.bounds.lanes else 0
            members = tuple([SetMember(ids[each], 0, each, level=level) for each in some])
            view = SetView(1, Pid(ServerId(SET, 1), some[0]), members)
            for each in some:
                state = alone(ids[each], place=each) if len(some) == 1 else founded(ids[each], view)
                linked = frozenset([self.names[other] for other in some if other != each])
                nodes.append(number(SetNode(replace(state, linked=linked))))
                part_of[each] = some
        lanes = [
            self._closed if to == sender or sender not in part_of[to] else self._empty
            for to in range(len(ids))
            for sender in range(len(ids))
        ]
        return (*nodes, *lanes, number((0,) * len(self._faults)), number(frozenset()), number(()))

    def actions(self, state: tuple[int, ...]) -> list[SetAct]:
        found: list[SetAct] = []
        numbers, count = self._numbers, len(self.names)
        spent = numbers[state[self._spent]]
        may = {name: spent[place] < self._limits[name] for place, name in enumerate(self._faults)}
        living = [node for node in range(count) if not numbers[state[node]].crashed]
        calm = True
        for node in living:
            if self._next_change(node, numbers[state[node]]) is not None:
                found.append(SetAct("ask", node))
            if may["crashes"]:
                found.append(SetAct("crash", node))
            for peer in range(count):
                lane: SetLane | None = numbers[state[self._lane[node][peer]]]
                if lane is None:
                    continue
                if lane.messages:
                    calm = False
                    found.append(SetAct("deliver", peer, node))
                    if may["losses"] and not isinstance(lane.messages[0], PartedFromSet):
                        found.append(SetAct("lose", peer, node))
                if lane.ended:
                    calm = False
                    found.append(SetAct("down", node, peer))
                elif may["suspicions"]:
                    found.append(SetAct("suspect", node, peer))
        waiting = [(node, each) for node in living for each in self._waits(state[node])]
        if calm:
            # Who yielded waits longer than all others need to ask again as often as they may.
            soon = [(node, each) for node, each in waiting if each[1] != Holding()]
            found += [SetAct(f"wait{lane}", node) for node, (lane, _) in soon or waiting]
        elif may["haste"]:
            found += [SetAct(f"haste{lane}", node) for node, (lane, _) in waiting]
        return found

    def apply(self, state: tuple[int, ...], action: SetAct) -> tuple[int, ...]:
        return self._apply(state, action)[0]

    def canonical(self, state: tuple[int, ...]) -> tuple[int, ...]:
        return state  # ranks tell all servers apart

    def words(self, action: SetAct) -> Words:
        names = [self.names[each] for each in action[1:] if each >= 0]
        return (action.verb, *names)

    def remark(self, state: tuple[int, ...], action: SetAct) -> str:
        if action.verb not in ("deliver", "lose"):
            return ""
        message = self._numbers[state[self._lane[action.peer][action.node]]].messages[0]
        return _brief(message)

    def told(self, state: tuple[int, ...], action: SetAct) -> list[str]:
        _, node, stepped = self._apply(state, action)
        if stepped is None:
            return []
        return [line for effect in stepped.effects if (line := _tell(self.names[node], effect))]

    # What happens

    def _apply(
        self, state: tuple[int, ...], action: SetAct
    ) -> tuple[tuple[int, ...], int, SetStepped | None]:
        verb, node, peer = action
        verb, _, group = verb.partition(":")
        world, numbers = list(state), self._numbers
        match verb:
            case "deliver" | "lose":
                node, peer = peer, node
                place = self._lane[node][peer]
                lane: SetLane = numbers[world[place]]
                world[place] = numbers.of(replace(lane, messages=lane.messages[1:]))
                if verb == "lose":
                    self._pay(world, "losses")
                    return tuple(world), node, None
                message = numbers.of(lane.messages[0])
                stepped = self._step(node, world[node], "received", peer, message)
            case "ask":
                stepped = self._step(node, world[node], "asked")
            case "wait" | "haste":
                if verb == "haste":
                    self._pay(world, "haste")
                stepped = self._step(node, world[node], "waited", group)
            case "down":
                world[self._lane[node][peer]] = self._closed
                stepped = self._step(node, world[node], "down", peer)
            case "suspect":
                self._pay(world, "suspicions")
                world[self._lane[node][peer]] = self._closed
                self._end(world, peer, node)
                stepped = self._step(node, world[node], "down", peer)
            case _:
                assert verb == "crash"
                self._pay(world, "crashes")
                world[node] = numbers.of(replace(numbers[world[node]], crashed=True))
                for peer in range(len(self.names)):
                    world[self._lane[node][peer]] = self._closed
                    self._end(world, peer, node)
                return tuple(world), node, None
        return self._stepped_world(world, node, stepped), node, stepped

    def _stepped_world(self, world: list[int], node: int, stepped: SetStepped) -> tuple[int, ...]:
        numbers = self._numbers
        world[node] = stepped.node
        for to, message in stepped.sends:
            place = self._lane[to][node]
            lane_to: SetLane | None = numbers[world[place]]
            if lane_to is not None and not lane_to.ended:
                world[place] = numbers.of(replace(lane_to, messages=(*lane_to.messages, numbers[message])))
        trouble = [*stepped.failed, *self._broken_by(world, node, stepped)]
        if trouble:
            world[self._trouble] = numbers.of(tuple(trouble))
        return tuple(world)

    def _end(self, world: list[int], at: int, left: int) -> None:
        place = self._lane[at][left]
        if world[place] != self._closed:
            world[place] = self._numbers.of(replace(self._numbers[world[place]], ended=True))

    def _pay(self, world: list[int], bound: str) -> None:
        counts = list(self._numbers[world[self._spent]])
        counts[self._faults.index(bound)] += 1
        world[self._spent] = self._numbers.of(tuple(counts))

    def _next_change(self, node: int, at: SetNode) -> int | None:
        """Changes are asked of the last servers: the most senior only agrees, or takes over."""
        change = len(self.names) - 1 - node
        return change if change < self.bounds.changes and change not in at.asked else None

    def _waits(self, number: int) -> list[tuple[str, Phase]]:
        """Lanes in which it waits for something, as verbs name them."""
        state: SetState = self._numbers[number].state
        phases = [
            ("", state.phase),
            *[(f":{group.name}", lane.phase) for group, lane in state.lanes if group],
        ]
        return [(lane, phase) for lane, phase in phases if not isinstance(phase, Idle)]

    def _step(self, node: int, number: int, *happened: int | str) -> SetStepped:
        key = (node, number, *happened)
        found = self._stepped.get(key)
        if found is None:
            found = self._stepped[key] = self._step_anew(node, number, *happened)
        return found

    def _step_anew(self, node: int, number: int, what: int | str, *about: int | str) -> SetStepped:
        numbers, me, before = self._numbers, self.names[node], self._numbers[number]
        asked = before.asked
        core = self._core(SET, before.state, self._config)
        event: Event
        match what, about:
            case "received", (int(peer), int(message)):
                event = Received(self.names[peer], numbers[message])
            case "down", (int(peer),):
                event = LinkDown(self.names[peer], Because(me, self.names[peer], "silent"))
            case "asked", _:
                change = self._next_change(node, before)
                assert change is not None
                event, asked = ChangeAsked(self.changes[change]), (*asked, change)
            case "up", (int(peer),):
                event = LinkUp(self.names[peer], 1)
            case "probed", _:
                event = TimerFired(core.probe_timer)
            case _, (str(group),):
                event = TimerFired(core.lane_timer(Group(group, SET) if group else None))
        try:
            effects = tuple(core.step(0.0, event))
        except AssertionError as error:
            return SetStepped(number, (), (), (f"{me} failed at {shown(event)}: {error}",))
        successors, parted, tips = list(before.successors), set(before.parted), dict(before.tips)
        known = before.open | _known(core.state)
        for effect in effects:
            match effect:
                case SetCommitted(record, view):
                    base = follows(record.proposal, core.state.me)
                    if isinstance(record.proposal.change, PartsMerged):  # among these all begins anew
                        successors = []
                        parted = parted.difference(view.servers) | core.state.isolated
                    lane, pid = lane_of(record.proposal), record.proposal.pid
                    successors.append(((base, lane) if lane else base, pid))
                    if lane is not None:
                        tips[lane] = pid
                    elif self.bounds.lanes:
                        successors.append((("lanes before", pid, base), tuple(sorted(tips.items()))))
                        tips = {}
                    known -= _requests([record.proposal.change])
                case ServerIsolated(server):
                    parted.add(server)
        tips_now = tuple(sorted(tips.items()))
        after = SetNode(core.state, False, asked, tuple(successors), tips_now, frozenset(parted), known)
        sends = [
            (self.names.index(effect.to), numbers.of(effect.message))
            for effect in effects
            if isinstance(effect, Send)
        ]
        return SetStepped(numbers.of(after), tuple(sends), effects, ())

    # What must hold

    def violations(self, state: tuple[int, ...]) -> Sequence[str]:
        numbers, count = self._numbers, len(self.names)
        found: tuple[str, ...] = numbers[state[self._trouble]]
        key = (*state[:count], state[self._spent])
        if key not in self._checked:
            nodes = [numbers[each] for each in state[:count]]
            self._checked[key] = tuple(self._disagreements(nodes) + self._shatters(nodes, state))
        found += self._checked[key]
        if not self.actions(state) or self._is_quiet(state):
            found += tuple(self._unfinished(state))
        return found

    def _is_quiet(self, state: tuple[int, ...]) -> bool:
        """Nothing is under way, no server waits; more may be asked, and more may fail."""
        numbers, count = self._numbers, len(self.names)
        lanes = [numbers[each] for each in state[count : self._spent]]
        if any(lane is not None and (lane.messages or lane.ended) for lane in lanes):
            return False
        return not any(self._waits(each) for each in state[:count] if not numbers[each].crashed)

    def _disagreements(self, nodes: list[SetNode]) -> list[str]:
        found = []
        for one, first in enumerate(nodes):
            for other in range(one + 1, len(nodes)):
                second = nodes[other]
                if first.crashed or second.crashed:
                    continue
                if self.ids[other] in first.parted or self.ids[one] in second.parted:
                    continue
                theirs = dict(second.successors)
                found += [
                    f"{self.names[one]} and {self.names[other]} committed different changes on one base"
                    for base, pid in first.successors
                    if theirs.get(base, pid) != pid
                ]
        return found

    def _shatters(self, nodes: list[SetNode], state: tuple[int, ...]) -> list[str]:
        """Servers that have all isolated each other are in as many parts, and do not meet again."""
        spent = dict(zip(self._faults, self._numbers[state[self._spent]], strict=True))
        most = 1 + spent["suspicions"] + spent["haste"]
        living = [at for at, node in enumerate(nodes) if not node.crashed]
        return [
            f"{most + 1} parts, after faults that make at most {most}"
            for some in combinations(living, most + 1)
            if all(
                self.ids[other] in nodes[one].parted or self.ids[one] in nodes[other].parted
                for one, other in combinations(some, 2)
            )
        ][:1]

    def _broken_by(self, world: list[int], node: int, stepped: SetStepped) -> list[str]:
        """What is wrong with the commits of this step."""
        found = []
        numbers = self._numbers
        nodes: list[SetNode] = [numbers[each] for each in world[: len(self.names)]]
        views: frozenset[tuple[Pid, SetView]] = numbers[world[self._views]]
        for effect in stepped.effects:
            match effect:
                case SetCommitted(record, view):
                    views |= {(view.pid, view)}
                    if len({pid for pid, _ in views}) < len(views):
                        found.append(f"two views of {view.pid} differ")
                    if record.round.coordinator != self.ids[node]:
                        continue
                    for other, at in enumerate(nodes):
                        if other == node or at.crashed or self.ids[other] in record.cut:
                            continue
                        if self.ids[other] not in view.servers:
                            continue
                        locks = {lock[0].pid: lock[0] for lock in at.state.locks}
                        keeps = record.proposal.pid in locks
                        in_lane = [each for each in locks.values() if each.lane]
                        if keeps and in_lane and not record.proposal.lane:
                            found.append(
                                f"{self.names[other]} is locked in a lane at a commit of the whole set"
                            )
                        has = any(pid == record.proposal.pid for _, pid in at.successors)
                        if not (keeps or has or self.ids[node] in at.parted):
                            found.append(
                                f"{self.names[node]} committed with {self.names[other]}, "
                                "which does not keep to that change"
                            )
        world[self._views] = numbers.of(views)
        return found

    def _unfinished(self, state: tuple[int, ...]) -> list[str]:
        """With nothing left to wait for."""
        numbers = self._numbers
        nodes: list[SetNode] = [numbers[each] for each in state[: len(self.names)]]
        living = {self.ids[at]: node for at, node in enumerate(nodes) if not node.crashed}
        found = []
        for me, node in living.items():
            view = node.state.view
            if self._waits(self._numbers.of(node)):
                found.append(f"{me.server} waits, and nothing can come")
                continue
            for other in view.servers:
                if other in living and living[other].state.view != view:
                    found.append(f"{me.server} and {other.server} are in one part and have different views")
                elif self.bounds.lanes and other in living and living[other].state.table != node.state.table:
                    found.append(f"{me.server} and {other.server} are in one part and have different groups")
                elif other not in living or other in node.state.isolated:
                    found.append(f"{other.server} is gone, and in the view of {me.server}")
            found += [
                f"{me.server} isolated {each.server}, which does not know"
                for each in sorted(node.parted)
                if each in living and me not in living[each].parted and me in living[each].state.view.servers
            ]
            found += [
                f"{me.server} knew of a change that is not committed: {each}" for each in sorted(node.open)
            ]
        return found


def _known(state: SetState) -> frozenset[str]:
    changes = [each.change for each in state.queue] + [each.proposal.change for each in state.remembered]
    return _requests([*changes, *[lock[0].change for lock in state.locks]])


def _requests(changes: Sequence[AnyChange]) -> frozenset[str]:
    return frozenset([each.request for each in changes if isinstance(each, GroupChange)])


def _tell(me: Domain, effect: Effect) -> str:
    match effect:
        case SetCommitted(record, view):
            members = " ".join(each.server for each in view.servers)
            what = (
                record.proposal.change.request
                if isinstance(record.proposal.change, GroupChange)
                else type(record.proposal.change).__name__
            )
            return f"{me} commits {what} as {record.proposal.slot}: {{{members}}}"
        case ServerIsolated(server, why):
            return f"{me} isolates {server.server}: {why}"
    return ""


def _brief(message: SetMessage) -> str:
    match message:
        case Initiate():
            change = message.proposal.change
            what = change.request if isinstance(change, GroupChange) else type(change).__name__
            return f"Initiate {what}, attempt {message.round.attempt}"
        case Commit():
            return f"Commit {message.record.proposal.pid}"
    return type(message).__name__
