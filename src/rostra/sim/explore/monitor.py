"""Three stations of AMp on a network: runs, a crash of the emitter, false suspicion, late and lost frames.

    give S            a station sends a run            deliver S N     the N-th frame under way to it arrives
    crash S           it stops                         lose S N        that frame is lost
    restart S         it is back, and knows nothing    twice S N       it arrives, and stays under way
    suspect S T       S believes that T failed         fire S T        a timer of it goes off

What must hold after every step: one order for all, all or none, one successor of every view
(`protocols/atomic/amp_invariants.py`); and whatever one member has delivered, every other member of its view
has delivered or holds.

Frames arrive in any order, or not at all: a late accept is one of them, and a lost frame is one that stays
under way. Who crashes and who is suspected are the senders. Every frame is sent once (`omissions` 0).
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

from msgspec.structs import replace

from rostra.core.effects import CancelTimer, Effect, Event, SetTimer, TimerFired, TimerKey
from rostra.names import Domain, Group
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.amp_invariants import AmpLog, LogMark, check_logs, violations_of
from rostra.protocols.atomic.amp_state import (
    CastFrame,
    FrameReceived,
    GateState,
    PostFrame,
    RunDelivered,
    RunGiven,
    StationSuspected,
    ViewIndicated,
)
from rostra.protocols.atomic.frames import (
    AmpStationId,
    AmpView,
    AmpViewId,
    AnyAmpFrame,
    DataId,
    DecisionFrame,
    DecisionRequestFrame,
    FrameControl,
    ResponseFrame,
    ViewChange,
)
from rostra.protocols.atomic.gates import step
from rostra.sim.explore.model import Numbers, SearchBounds, Words, shown

GROUP: Final = Group("ledger", Domain(""))
FIRES: Final = ("decision", "monitor", "suspended", "round")


class MonitorBounds(SearchBounds, frozen=True, kw_only=True):
    """How often each thing may happen in one run, in all; `senders` stations send a run each."""

    stations: int = 3
    senders: int = 1
    crashes: int = 1
    restarts: int = 0
    suspicions: int = 1
    losses: int = 0
    doubles: int = 0
    fires: int = 0


class MonitorWorld(NamedTuple):
    gates: tuple[int, ...]  # numbers of `GateState`; 0: it crashed; -1: it restarted
    flight: tuple[tuple[int, int], ...]  # to whom, number of a frame; sorted
    timers: tuple[tuple[int, int], ...]  # of whom, number of a key; sorted
    logs: int  # number of what every station delivered
    spent: tuple[int, ...]


class MonitorAct(NamedTuple):
    verb: str
    station: int
    what: int = 0  # a frame, a timer or a station


class MonitorModel:
    name: ClassVar = "monitor"
    about: ClassVar = "stations of AMp lose their emitter in every moment: all decide the same, in one order"
    plants: ClassVar = {
        "raw-arrival": "runs are delivered in the order of arrival (TA1); wants senders=2",
        "count-frames": "a response that comes twice counts for a missing one (TA2); wants doubles=1",
        "restart-accepts": "a restarted emitter answers accept without memory (TA6); wants restarts=1",
        "no-freeze": "who has answered an investigation still takes decisions (TA22)",
    }

    def __init__(self, bounds: MonitorBounds | None = None, plant: str | None = None) -> None:
        self.bounds: MonitorBounds = bounds or MonitorBounds()
        self.plant = plant
        self._budget = ("crashes", "restarts", "suspicions", "losses", "doubles", "fires", "senders")
        self._ids = tuple(
            [AmpStationId(Domain("abcdefgh"[place]), 1) for place in range(self.bounds.stations)]
        )
        config = AmpConfig(run_max=1).with_omissions(0)
        if plant == "raw-arrival":
            config = replace(config, faults="bounded", shared_medium=True, order="medium", policy="any")
        self._config = config
        self._numbers = Numbers()
        self._numbers.of("nothing")  # so that 0 is no gate
        self._steps: dict[tuple[int, Any], tuple[int, tuple[Effect, ...]]] = {}
        self._wrong: dict[tuple[int, tuple[int, ...]], tuple[str, ...]] = {}

    def initial(self) -> MonitorWorld:
        view = AmpView(AmpViewId(1, self._ids[0]), self._ids)
        change = ViewChange(None, view)
        gates = [GateState(each, GROUP, standing="open", view=view, applied=change) for each in self._ids]
        logs = tuple([((view, ()),) for _ in self._ids])
        return MonitorWorld(
            tuple([self._numbers.of(each) for each in gates]),
            (),
            (),
            self._numbers.of(logs),
            (0,) * len(self._budget),
        )

    # What can happen

    def actions(self, state: MonitorWorld) -> list[MonitorAct]:
        left = {
            name: getattr(self.bounds, name) - spent
            for name, spent in zip(self._budget, state.spent, strict=True)
        }
        found = [MonitorAct("deliver", to, frame) for to, frame in state.flight]
        live = [place for place, gate in enumerate(state.gates) if gate > 0]
        if left["senders"]:
            found.append(MonitorAct("give", self.bounds.senders - left["senders"]))
        if left["losses"]:
            found += [MonitorAct("lose", to, frame) for to, frame in state.flight]
        if left["doubles"]:
            found += [MonitorAct("twice", to, frame) for to, frame in state.flight]
        if left["crashes"]:
            found += [MonitorAct("crash", place) for place in live if place < self.bounds.senders]
        if left["restarts"]:
            found += [MonitorAct("restart", place) for place, gate in enumerate(state.gates) if gate == 0]
        if left["suspicions"]:
            emitters = range(self.bounds.senders)
            found += [MonitorAct("suspect", one, other) for one in live for other in emitters if one != other]
        if left["fires"]:
            found += [MonitorAct("fire", who, timer) for who, timer in state.timers]
        return list(dict.fromkeys([each for each in found if self._possible(state, each)]))

    def _possible(self, state: MonitorWorld, act: MonitorAct) -> bool:
        return state.gates[act.station] != 0 or act.verb in ("restart",)

    def apply(self, state: MonitorWorld, action: MonitorAct) -> MonitorWorld:
        verb, place, what = action
        flight, timers = list(state.flight), list(state.timers)
        spent = self._spend(state.spent, verb)
        state = state._replace(spent=spent)
        if verb in ("deliver", "lose"):
            flight.remove((place, what))
        if verb == "lose":
            return state._replace(flight=tuple(flight))
        if verb in ("crash", "restart"):
            gates = list(state.gates)
            gates[place] = 0 if verb == "crash" else -1
            kept = tuple([each for each in timers if each[0] != place])
            arriving = tuple([each for each in flight if each[0] != place])
            return state._replace(gates=tuple(gates), timers=kept, flight=arriving)
        if verb == "fire":
            timers.remove((place, what))
        base = state._replace(flight=tuple(flight), timers=tuple(timers))
        if state.gates[place] == -1:
            return self._reborn(base, place, self._numbers[what])
        return self._stepped(base, place, self._event(state, action))

    def _spend(self, spent: tuple[int, ...], verb: str) -> tuple[int, ...]:
        verbs = {"crash": 0, "restart": 1, "suspect": 2, "lose": 3, "twice": 4, "fire": 5, "give": 6}
        if verb not in verbs:
            return spent
        return tuple([each + (number == verbs[verb]) for number, each in enumerate(spent)])

    def _event(self, state: MonitorWorld, action: MonitorAct) -> Event:
        match action.verb:
            case "give":
                return RunGiven(1, (b"%d" % action.station,))
            case "suspect":
                return StationSuspected(self._ids[action.what])
            case "fire":
                timer: TimerKey = self._numbers[action.what]
                return TimerFired(timer)
        frame = self._numbers[action.what]
        if self.plant == "count-frames":
            frame = self._as_counted(self._numbers[state.gates[action.station]], frame)
        return FrameReceived(frame.control.sa.host, frame)

    def _as_counted(self, gate: GateState, frame: AnyAmpFrame) -> AnyAmpFrame:
        """The planted emitter counts: a second response of a station stands for one that is missing."""
        if isinstance(frame, ResponseFrame) and gate.transfer is not None and gate.view is not None:
            answered = {each.station for each in gate.transfer.answers}
            missing = [each for each in gate.view.members if each not in answered]
            if frame.control.sa in answered and missing:
                return replace(frame, control=replace(frame.control, sa=missing[0]))
        return frame

    def _reborn(self, state: MonitorWorld, place: int, frame: AnyAmpFrame) -> MonitorWorld:
        """A station in its second life has no gate. It answers a question about its first one."""
        if not isinstance(frame, DecisionRequestFrame):
            return state
        old, asker = self._ids[place], frame.control.sa
        again = AmpStationId(old.host, 2)
        control = FrameControl(GROUP, again, 0, frame.ref.mdn, None)
        answer: AnyAmpFrame = ResponseFrame(control, frame.ref, "NOT_MEMBER")
        if self.plant == "restart-accepts":
            view = frame.control.view
            answer = DecisionFrame(FrameControl(GROUP, old, 9, frame.ref.mdn, view), True, 1)
        to = self._ids.index(asker)
        return state._replace(flight=tuple(sorted([*state.flight, (to, self._numbers.of(answer))])))

    def _stepped(self, state: MonitorWorld, place: int, event: Event) -> MonitorWorld:
        key = state.gates[place], event
        if key not in self._steps:
            gate, effects = step(self._config, self._numbers[state.gates[place]], 0.0, event)
            if self.plant == "no-freeze" and gate.suspended is not None:
                gate = replace(gate, suspended=replace(gate.suspended, frozen=False))
            self._steps[key] = self._numbers.of(gate), tuple(effects)
        number, effects_ = self._steps[key]
        gates = (*state.gates[:place], number, *state.gates[place + 1 :])
        flight, timers = list(state.flight), dict.fromkeys(state.timers)
        logs = [list(each) for each in self._numbers[state.logs]]
        for effect in effects_:
            match effect:
                case CastFrame(frame):
                    echo = self._config.order == "medium"
                    to = [each for each in range(len(gates)) if gates[each] and (echo or each != place)]
                    flight += [(each, self._numbers.of(frame)) for each in to]
                case PostFrame(whom, frame) if whom in self._ids and gates[self._ids.index(whom)]:
                    flight.append((self._ids.index(whom), self._numbers.of(frame)))
                case SetTimer(timer) if timer[1] in FIRES:
                    timers[place, self._numbers.of(timer)] = None
                case CancelTimer(timer):
                    timers.pop((place, self._numbers.of(timer)), None)
                case RunDelivered():
                    view, runs = logs[place][-1]
                    logs[place][-1] = view, (*runs, effect)
                case ViewIndicated(view):
                    logs[place].append((view, ()))
        written = self._numbers.of(tuple([tuple(each) for each in logs]))
        return MonitorWorld(gates, tuple(sorted(flight)), tuple(sorted(timers)), written, state.spent)

    def canonical(self, state: MonitorWorld) -> MonitorWorld:
        return state

    # What must hold

    def violations(self, state: MonitorWorld) -> Sequence[str]:
        key = state.logs, state.gates
        if key not in self._wrong:
            self._wrong[key] = tuple(self._violations(state))
        return self._wrong[key]

    def _violations(self, state: MonitorWorld) -> list[str]:
        logs = {}
        for who, written, gate in zip(self._ids, self._numbers[state.logs], state.gates, strict=True):
            log = logs[who] = AmpLog()
            for view, runs in written:
                log.viewed(0.0, ViewIndicated(view, (), (), ()))
                for run in runs:
                    log.delivered(0.0, run)
            if gate <= 0 or self._numbers[gate].view is None:
                log.marks.append(LogMark("gone"))
        gates = [self._numbers[each] for each in state.gates if each > 0]
        own = [each for gate in gates for each in violations_of(gate)]
        return [*own, *check_logs(logs), *self._held(logs, gates)]

    def _held(self, logs: dict[AmpStationId, AmpLog], gates: list[GateState]) -> list[str]:
        """What one member has delivered, the other members of its view have or hold."""
        found = []
        has: dict[AmpStationId, set[DataId]] = {
            gate.me: {run.data for run in logs[gate.me].runs()} | {run.data for run in gate.queue}
            for gate in gates
        }
        for one in gates:
            for other in gates:
                if one.view is None or other.view is None or one.view.id != other.view.id:
                    continue
                lacks = {run.data for run in logs[one.me].views[-1].runs} - has[other.me]
                found += [f"IA-2: {other.me} never had what {one.me} delivered" for _ in lacks]
        return found

    # For readers

    def words(self, action: MonitorAct) -> Words:
        name = self._ids[action.station].host
        match action.verb:
            case "suspect":
                return action.verb, name, self._ids[action.what].host
            case "give" | "crash" | "restart":
                return action.verb, name
        return action.verb, name, str(action.what)

    def remark(self, state: MonitorWorld, action: MonitorAct) -> str:
        if action.verb in ("deliver", "lose", "twice", "fire"):
            return shown(self._numbers[action.what])[:160]
        return ""

    def told(self, state: MonitorWorld, action: MonitorAct) -> list[str]:
        before, after = self._numbers[state.logs], self._numbers[self.apply(state, action).logs]
        found = []
        for who, old, new in zip(self._ids, before, after, strict=True):
            if len(new) > len(old):
                found.append(f"{who.host} has view {new[-1][0].id.number}")
            known = {run.data for _, runs in old for run in runs}
            found += [
                f"{who.host} delivers {run.data.sa.host} {run.data.mdn}"
                for _, runs in new
                for run in runs
                if run.data not in known
            ]
        return found
