"""Parts of a set that become one (`protocols/agreed/reform`): a set of two, and a server that starts.

    link a c       their link comes up            probe a        a looks for other parts, by its timer

and all that can happen in the model `set`. What must hold is the same; and besides, when nothing is under way
and no server waits for anything:

- Servers with one last commit have the same groups (V-106).
- Servers that are all linked become one set, if their probes go on and nothing else happens (V-103). The
  model tries this out from every such state.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from msgspec.structs import replace

from rostra.protocols.agreed.changes import (
    CommitRecord,
    PartsMerged,
    Pid,
    Proposal,
    Round,
    ServerId,
    SetPart,
)
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.messages import Commit, Initiate, SetMessage
from rostra.protocols.agreed.reform import is_merge
from rostra.protocols.agreed.state import Coordinating
from rostra.sim.explore.agreed import SetAct, SetBounds, SetModel, SetNode, SetStepped, join_below

ROUNDS: Final = 8
"""Probes that a world gets to become one set."""


class ReformBounds(SetBounds, frozen=True, kw_only=True):
    """Of `servers` the last is alone at first; with `lanes`, the first. `links` come up between the two
    parts, and again after a suspicion; `probes` end while something is under way or not."""

    changes: int = 0
    crashes: int = 1
    losses: int = 0
    links: int = 2
    probes: int = 0


class MergesAnyBase(SetCore):
    """A server takes part in a merge that follows another commit than its own last one."""

    def _received(self, who: ServerId, message: SetMessage) -> None:
        match message:
            case Initiate(proposal=proposal):
                message = replace(message, proposal=self._as_it_suits(proposal))
            case Commit(record=record):
                record = replace(record, proposal=self._as_it_suits(record.proposal))
                message = replace(message, record=record)
        super()._received(who, message)

    def _as_it_suits(self, proposal: Proposal) -> Proposal:
        if not isinstance(proposal.change, PartsMerged):
            return proposal
        me, ours = self.state.me, self.state.part
        parts = [ours if me in part.view.servers else part for part in proposal.change.parts]
        return replace(proposal, change=PartsMerged(tuple(parts)))


class LeavesGroupsBehind(SetCore):
    """A server that applies a merge does not take over the groups of the other part."""

    def _apply(self, record: CommitRecord) -> None:
        self._set(carried=())
        super()._apply(record)


class KeepsIsolation(SetCore):
    """A merge that was called off leaves isolation of the other part behind."""

    def _leave_merge(self, pid: Pid) -> None:
        isolated = self.state.isolated
        super()._leave_merge(pid)
        self._set(isolated=isolated)


class GivesMergesUpAlone(SetCore):
    """A server that loses the coordinator of a merge leaves it, without asking how others stand."""

    def _elect(self, proposal: Proposal, failed: Round) -> None:
        if is_merge(proposal):
            self._leave_merge(proposal.pid)
        else:
            super()._elect(proposal, failed)


class HeedsOldPartings(SetCore):
    """An isolation of before a merge counts after it."""

    def _is_of_before(self, who: ServerId, message: SetMessage) -> bool:
        return False


class OffersStaleGroups(SetCore):
    """A part that has changed a group since it offered itself merges as it was then."""

    def _stands(self, who: ServerId, part: SetPart | None) -> bool:
        return part is not None and part.base == self.state.base


class ForgetsItsOwnPart(SetCore):
    """Only the other part must agree to a merge."""

    def _awaited(self) -> frozenset[ServerId]:
        phase = self.state.phase
        if isinstance(phase, Coordinating) and is_merge(phase.proposal):
            return super()._awaited() - frozenset(self.state.view.servers)
        return super()._awaited()


class ReformModel(SetModel):
    config: ClassVar = AgreedConfig(retries=1)
    name: ClassVar[str] = "reform"
    about: ClassVar[str] = "a set and a server that starts become one, while servers crash and are lost"
    plants: ClassVar[Mapping[str, str]] = {
        "any-base": "a server merges although its last commit is not the one named",
        "own-part-silent": "only the other part acknowledges a merge",
        "leave-alone": "a server leaves a merge whose coordinator failed, and does not ask how others stand",
        "old-partings": "an isolation of before a merge counts after it",
        "keep-isolation": "a merge that was called off leaves isolation behind",
        "groups-left": "a merge leaves the groups of the other part behind",
        "stale-offer": "a part merges with the groups that it had when it offered itself (with `lanes`)",
    }
    _kinds: ClassVar[dict[str, type[SetCore]]] = {
        "any-base": MergesAnyBase,
        "own-part-silent": ForgetsItsOwnPart,
        "leave-alone": GivesMergesUpAlone,
        "old-partings": HeedsOldPartings,
        "keep-isolation": KeepsIsolation,
        "groups-left": LeavesGroupsBehind,
        "stale-offer": OffersStaleGroups,
    }
    _faults: ClassVar[tuple[str, ...]] = ("crashes", "suspicions", "losses", "haste", "links", "probes")

    def __init__(self, bounds: ReformBounds | None = None, plant: str | None = None) -> None:
        super().__init__(bounds or ReformBounds(), plant)
        if not self.bounds.lanes:
            self.changes = tuple([join_below(name) for name in reversed(self.names)])
        self._ends: dict[tuple[int, ...], str] = {}

    def initial(self) -> tuple[int, ...]:
        last = len(self.ids) - 1
        if self.bounds.lanes:  # the part that offers itself has some
            return self._world([[0], range(1, last + 1)])
        return self._world([range(last), [last]])

    def actions(self, state: tuple[int, ...]) -> list[SetAct]:
        found = super().actions(state)
        numbers, count = self._numbers, len(self.names)
        spent = dict(zip(self._faults, numbers[state[self._spent]], strict=True))
        living = [node for node in range(count) if not numbers[state[node]].crashed]
        if spent["links"] < self._limits["links"]:
            found += [
                SetAct("link", one, other)
                for one in living
                for other in living
                if one < other and self._is_down(state, one, other)
            ]
        if spent["probes"] < self._limits["probes"]:
            found += [SetAct("probe", node) for node in living if numbers[state[node]].state.probes]
        return found

    def _is_down(self, state: tuple[int, ...] | list[int], one: int, other: int) -> bool:
        """At both ends, which have seen it."""
        return state[self._lane[one][other]] == state[self._lane[other][one]] == self._closed

    def _apply(
        self, state: tuple[int, ...], action: SetAct
    ) -> tuple[tuple[int, ...], int, SetStepped | None]:
        verb, node, peer = action
        if verb not in ("link", "probe"):
            return super()._apply(state, action)
        world = list(state)
        self._pay(world, f"{verb}s")
        if verb == "probe":
            stepped = self._step(node, world[node], "probed")
            return self._stepped_world(world, node, stepped), node, stepped
        world[self._lane[node][peer]] = world[self._lane[peer][node]] = self._empty
        after = self._stepped_world(world, peer, self._step(peer, world[peer], "up", node))
        stepped = self._step(node, after[node], "up", peer)
        return self._stepped_world(list(after), node, stepped), node, stepped

    def _unfinished(self, state: tuple[int, ...]) -> list[str]:
        numbers = self._numbers
        found = super()._unfinished(state)
        nodes: list[SetNode] = [numbers[each] for each in state[: len(self.names)]]
        tables = {((node.state.base, node.tips), node.state.table) for node in nodes if not node.crashed}
        if len({base for base, _ in tables}) < len(tables):
            found.append("one last commit, and different groups")
        if not found and (end := self._end_of(state)):
            found.append(end)
        return found

    def _end_of(self, state: tuple[int, ...]) -> str:
        """What becomes of this, if probes go on and nothing fails."""
        key = (*state[: self._spent], state[self._views])
        if key not in self._ends:
            self._ends[key] = self._play_on(state)
        return self._ends[key]

    def _play_on(self, state: tuple[int, ...]) -> str:
        numbers, count = self._numbers, len(self.names)
        living = [node for node in range(count) if not numbers[state[node]].crashed]
        if any(self._is_down(state, one, other) for one in living for other in living if one != other):
            return ""
        for _ in range(ROUNDS):
            nodes: list[SetNode] = [numbers[state[each]] for each in living]
            if len({node.state.view for node in nodes}) == 1:
                return ""
            for node in living:
                if numbers[state[node]].state.probes:
                    stepped = self._step(node, state[node], "probed")
                    state = self._drained(self._stepped_world(list(state), node, stepped), living)
        return "all are linked, and stay apart"

    def _drained(self, state: tuple[int, ...], living: Sequence[int]) -> tuple[int, ...]:
        for _ in range(1_000):
            acts = [
                each for each in SetModel.actions(self, state) if each.verb.startswith(("deliver", "wait"))
            ]
            if not acts:
                return state
            state = self._apply(state, acts[0])[0]
        raise AssertionError("messages without end")
