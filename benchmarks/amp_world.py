"""Stations of AMp in virtual time: over the bus of the paper, or over the lossy network that replaced it.

    Bus            every frame passes once, in one order, and arrives at all stations at that instant. An
                   adversary may let stations omit frames, at most `omissions` in a row between two of them
    LossyNetwork   every frame to every station on its own: late, lost, doubled, and in any order

`AmpWorld` runs gates over either, keeps the log of every station, and checks the invariants of
`docs/spec/atomic.md` 3.13: of one gate after every event, of all logs with `check_logs`.

**What an omission is.** A frame that one station does not send or another one does not receive. They are
counted for each station that asks and each that is asked, and an answer that arrives ends the count: so a
correct station answers within `omissions` + 1 rounds, which is what the paper's bound is for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final, Protocol

from msgspec import Struct

from rostra.core.effects import CancelTimer, Effect, Event, Ignored, Noted, SetTimer, TimerFired, TimerKey
from rostra.impair.line import Line
from rostra.impair.quality import LineQuality, Uniform
from rostra.names import Domain, Group
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.amp_invariants import AmpLog, LogMark, violations_of
from rostra.protocols.atomic.amp_state import (
    CastFrame,
    FrameReceived,
    GateAsked,
    GateClosed,
    GateLeft,
    GateState,
    PostFrame,
    RunDelivered,
    RunEnded,
    RunGiven,
    ViewIndicated,
)
from rostra.protocols.atomic.frames import (
    ACK,
    AmpStationId,
    AnyAmpFrame,
    DataFrame,
    DecisionFrame,
    DecisionRequestFrame,
    PendingFrame,
    ResponseFrame,
)
from rostra.protocols.atomic.gates import AmpGate
from rostra.sim.agenda import Agenda

GROUP: Final = Group("ledger", Domain(""))

Adversary = Callable[[AmpStationId, AmpStationId, AnyAmpFrame], bool]
"""Of this sender, to this receiver: is this frame omitted?"""


Exchange = tuple[AmpStationId, AmpStationId, bool]


def _harmless(sender: AmpStationId, to: AmpStationId, frame: AnyAmpFrame) -> bool:
    return False


class AmpMedium(Protocol):
    """How frames travel. Answers when a frame arrives at each station that it reaches."""

    echoes: bool  # a sender hears its own frames, at their place in the order

    def carry(
        self, now: float, sender: AmpStationId, to: Iterable[AmpStationId], frame: AnyAmpFrame
    ) -> list[tuple[float, AmpStationId]]: ...


class Bus:
    def __init__(
        self,
        omissions: int,
        frame_s: float = 0.0001,
        delay_s: float = 0.0005,
        adversary: Adversary = _harmless,
    ) -> None:
        self.echoes = True
        self.omissions = omissions
        self.adversary = adversary
        self.omitted: Counter[Exchange] = Counter()  # in a row
        self._frame_s, self._delay_s = frame_s, delay_s
        self._free_at = 0.0

    def carry(
        self, now: float, sender: AmpStationId, to: Iterable[AmpStationId], frame: AnyAmpFrame
    ) -> list[tuple[float, AmpStationId]]:
        self._free_at = max(now, self._free_at) + self._frame_s
        arrives = self._free_at + self._delay_s
        return [(arrives, each) for each in to if not self._omits(sender, each, frame)]

    def _omits(self, sender: AmpStationId, to: AmpStationId, frame: AnyAmpFrame) -> bool:
        if sender == to:
            return False
        exchange = _exchange(sender, to, frame)
        if self.adversary(sender, to, frame) and self.omitted[exchange] < self.omissions:
            self.omitted[exchange] += 1
            return True
        if not frame.control.has(ACK) and not isinstance(frame, DecisionRequestFrame):
            self.omitted[exchange] = 0
        return False


def _exchange(sender: AmpStationId, to: AmpStationId, frame: AnyAmpFrame) -> Exchange:
    """Which station asked which, and whether for a decision."""
    match frame:
        case ResponseFrame():
            return to, sender, False
        case DecisionRequestFrame():
            return sender, to, True
        case PendingFrame():
            return to, sender, True
        case DecisionFrame() if not frame.control.has(ACK):
            return to, sender, True
    return sender, to, False


class LossyNetwork:
    """Independent paths. `quality` is of every path, `cut` the paths that carry nothing."""

    def __init__(
        self, seed: int, quality: LineQuality | None = None, adversary: Adversary = _harmless
    ) -> None:
        self.echoes = False
        self.quality = quality or LineQuality(Uniform(0.0005, 0.004))
        self.adversary = adversary
        self.cut: set[tuple[AmpStationId, AmpStationId]] = set()
        self.late: dict[tuple[AmpStationId, AmpStationId], float] = {}  # extra seconds
        self._luck = Random(seed)
        self._lines: dict[tuple[AmpStationId, AmpStationId], Line] = {}

    def carry(
        self, now: float, sender: AmpStationId, to: Iterable[AmpStationId], frame: AnyAmpFrame
    ) -> list[tuple[float, AmpStationId]]:
        return [(when, each) for each in to if each != sender for when in self._way(now, sender, each, frame)]

    def _way(self, now: float, sender: AmpStationId, to: AmpStationId, frame: AnyAmpFrame) -> list[float]:
        way = sender, to
        luck, quality = self._luck, self.quality
        lost, twice = luck.random() < quality.loss, luck.random() < quality.duplicate
        if lost or way in self.cut or self.adversary(sender, to, frame):
            return []
        line = self._lines.setdefault(way, Line(str(sender), str(to), quality))
        line.change(quality)
        late_s = self.late.get(way, 0.0)
        return [late_s + line.arrival(now, luck) for _ in range(1 + twice)]


class SentFrame(Struct, frozen=True):
    at: float
    sender: AmpStationId
    to: AmpStationId | None  # none: the group
    frame: AnyAmpFrame


class AmpWorld:
    """Stations of one group over one medium, in virtual time."""

    def __init__(
        self,
        config: AmpConfig,
        medium: AmpMedium,
        hosts: int = 0,
        group: Group = GROUP,
        beside: "AmpWorld | None" = None,  # another group of the same stations, over the same medium
    ) -> None:
        self.config = config
        self.medium = medium
        self.group = group
        self.gates: dict[AmpStationId, AmpGate] = {}
        self.logs: dict[AmpStationId, AmpLog] = {}
        self.sent: list[SentFrame] = []
        self.ended: dict[tuple[AmpStationId, int], tuple[float, RunEnded]] = {}
        self.notes: list[tuple[float, AmpStationId, Effect]] = []
        self.found: list[str] = []  # violations
        self.given: dict[tuple[AmpStationId, int], tuple[float, tuple[bytes, ...]]] = {}
        self.paused: set[AmpStationId] = set()
        self.mutate: Callable[[GateState], GateState] | None = None
        self.watch: Callable[[AmpStationId, Event, Sequence[Effect]], None] = lambda who, event, effects: None
        self._timers: dict[tuple[AmpStationId, TimerKey], int] = {}
        self._agenda: Agenda = Agenda(lambda: False) if beside is None else beside._agenda
        self._token = 0
        for number in range(1, hosts + 1):
            self.add(f"h{number}")
            self.run(3.0)

    @property
    def now(self) -> float:
        return self._agenda.now

    def add(self, host: str, life: int = 1, exists: bool | None = None) -> AmpStationId:
        """A new station, which opens its gate."""
        who = AmpStationId(Domain(host), life)
        self.gates[who] = AmpGate(self.config, who, self.group)
        self.logs[who] = AmpLog()
        self._do(who, GateAsked(exists))
        return who

    def start(self, *hosts: str) -> list[AmpStationId]:
        """Members from the beginning: each opened its gate in calm."""
        found = []
        for host in hosts:
            found.append(self.add(host))
            self.run_until(lambda: self.gates[found[-1]].state.view is not None, 10.0)
            self.run(0.01)
        return found

    def give(self, who: AmpStationId, *items: bytes, profile: str = "atomic", more: bool = False) -> int:
        self._token += 1
        self.given[who, self._token] = self.now, items
        self._do(who, RunGiven(self._token, items, profile, more))
        return self._token

    def leave(self, who: AmpStationId) -> None:
        self._do(who, GateLeft())

    def tell(self, who: AmpStationId, event: Event) -> None:
        self._do(who, event)

    def crash(self, who: AmpStationId) -> None:
        """A station stops; frames that it has sent still arrive."""
        del self.gates[who]
        self.logs[who].marks.append(LogMark("crash"))

    def restart(self, who: AmpStationId) -> AmpStationId:
        """The same host in a new life, which has no gate open and knows nothing."""
        self.gates.pop(who, None)
        again = AmpStationId(who.host, who.life + 1)
        self.gates[again] = AmpGate(self.config, again, self.group)
        self.logs[again] = AmpLog()
        return again

    def run(self, for_s: float) -> None:
        self._agenda.run_until(self.now + for_s)

    def run_until(self, done: Callable[[], bool], most_s: float) -> None:
        end = self.now + most_s
        while not done() and self._agenda.next_at <= end:
            self._agenda.run_until(self._agenda.next_at)

    # Inside

    def _do(self, who: AmpStationId, event: Event) -> None:
        gate = self.gates.get(who)
        if gate is None or who in self.paused:
            return
        effects = gate.step(self.now, event)
        if self.mutate is not None:
            gate.state = self.mutate(gate.state)
        for effect in effects:
            self._perform(who, effect)
        self.watch(who, event, effects)
        self.found += violations_of(gate.state)

    def _perform(self, who: AmpStationId, effect: Effect) -> None:
        match effect:
            case CastFrame(frame):
                others = [each for each in self.gates if self.medium.echoes or each != who]
                self._send(who, None, others, frame)
            case PostFrame(to, frame):
                there = to if to in self.gates else self._lives_at(to.host)
                self._send(who, to, [there] if there is not None else [], frame)
            case SetTimer(timer, after_s):
                turn = self._timers[who, timer] = self._timers.get((who, timer), 0) + 1
                self._agenda.at(self.now + after_s, self._fire, who, (timer, turn))
            case CancelTimer(timer):
                self._timers[who, timer] = self._timers.get((who, timer), 0) + 1
            case RunDelivered():
                self.logs[who].delivered(self.now, effect)
            case ViewIndicated():
                self.logs[who].viewed(self.now, effect)
            case GateClosed(because):
                self.logs[who].marks.append(LogMark("closed", because))
                self.notes.append((self.now, who, effect))
            case RunEnded(token):
                self.ended[who, token] = self.now, effect
            case _:
                self.notes.append((self.now, who, effect))

    def _lives_at(self, host: Domain) -> AmpStationId | None:
        return next((each for each in self.gates if each.host == host), None)

    def _send(
        self, who: AmpStationId, to: AmpStationId | None, receivers: list[AmpStationId], frame: AnyAmpFrame
    ) -> None:
        self.sent.append(SentFrame(self.now, who, to, frame))
        for when, each in self.medium.carry(self.now, who, receivers, frame):
            self._agenda.at(when, self._arrive, each, FrameReceived(who.host, frame))

    def _arrive(self, who: AmpStationId, event: FrameReceived) -> None:
        self._do(who, event)

    def _fire(self, who: AmpStationId, about: tuple[TimerKey, int]) -> None:
        timer, turn = about
        if self._timers.get((who, timer)) == turn:
            self._do(who, TimerFired(timer))

    # What is asked

    def frames(self, kind: type[Any] | None = None, since: float = 0.0) -> list[SentFrame]:
        return [each for each in self.sent if each.at >= since and (kind is None or type(each.frame) is kind)]

    def of_data(self, sender: AmpStationId, mdn: int) -> list[SentFrame]:
        """All frames about one run."""
        found = []
        for each in self.sent:
            control, ref = each.frame.control, getattr(each.frame, "ref", None)
            own = isinstance(each.frame, DataFrame | DecisionFrame) and control.sa == sender
            about = ref is not None and ref.sa == sender and ref.mdn == mdn
            if about or (own and control.mdn == mdn):
                found.append(each)
        return found

    def noted(self, what: str) -> list[tuple[float, AmpStationId, Noted]]:
        return [(at, who, e) for at, who, e in self.notes if isinstance(e, Noted) and e.what == what]

    def ignored(self, why: str) -> list[tuple[float, AmpStationId, Ignored]]:
        return [(at, who, e) for at, who, e in self.notes if isinstance(e, Ignored) and e.why == why]
