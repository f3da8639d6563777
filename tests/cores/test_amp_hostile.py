"""A station whose peer sends whatever it likes: frames that decode, in any order, with any numbers.

What it makes of them may be wrong for that group, since AMp trusts its members. But it never fails, keeps no
more than its bounds, and still answers.
"""

from random import Random
from typing import Any

import pytest
from support.amp_samples import AMP_FRAMES

from rostra.core.effects import SetTimer, TimerFired
from rostra.names import Domain, Group
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.amp_state import (
    FrameReceived,
    GateAsked,
    RunGiven,
    StationSuspected,
    ViewExecuted,
)
from rostra.protocols.atomic.frames import (
    SUSPEND,
    AmpStationId,
    AmpView,
    AmpViewId,
    DataId,
    DecidedEntry,
    FrameControl,
    FrameRef,
    PendingRun,
    ResponseFrame,
    RunOutcome,
    StationReport,
    StoredChange,
    SuspensionLevel,
    ViewChange,
    decode_frame,
    encode_frame,
)
from rostra.protocols.atomic.gates import AmpGate

GROUP = Group("ledger", Domain("eu"))
STATIONS = tuple([AmpStationId(Domain(f"eu.h{n}"), 1) for n in (1, 2, 3)])
STRANGER = AmpStationId(Domain("eu.h9"), 4)


class Forger:
    """Frames of a peer, made of what could stand in them."""

    def __init__(self, seed: int) -> None:
        self.luck = Random(seed)

    def number(self) -> int:
        return self.luck.choice((0, 1, 1, 2, 3, 4, 5, 7, 1 << 16, (2 << 16) + 1, 2**62))

    def station(self) -> AmpStationId:
        return self.luck.choice((*STATIONS, *STATIONS, STRANGER, AmpStationId(STATIONS[1].host, 2)))

    def view_id(self) -> AmpViewId:
        return AmpViewId(self.luck.choice((1, 1, 2, 3, 2**40)), self.luck.choice(STATIONS))

    def view(self) -> AmpView:
        size = self.luck.randrange(4)
        return AmpView(self.view_id(), tuple(self.luck.sample(STATIONS, min(3, size))))

    def sl(self) -> SuspensionLevel:
        counter = self.luck.choice((1, 2, 1 << 16, 2 << 16, (2 << 16) + 1, 3 << 16, 2**60))
        return SuspensionLevel(counter, self.station())

    def outcome(self) -> RunOutcome:
        return RunOutcome(DataId(self.station(), self.number()), self.luck.random() < 0.5, self.number())

    def some(self, make: Any, most: int = 3) -> tuple[Any, ...]:
        return tuple([make() for _ in range(self.luck.randrange(most))])

    def maybe(self, make: Any) -> Any:
        return make() if self.luck.random() < 0.7 else None

    def change(self) -> ViewChange:
        return ViewChange(
            self.maybe(self.view_id),
            self.view(),
            self.some(self.station),
            self.some(self.outcome),
            self.some(lambda: DecidedEntry(self.station(), *[self.number() for _ in range(4)])),
            self.number(),
            self.number(),
            self.luck.random() < 0.5,
        )

    def report(self) -> StationReport:
        return StationReport(
            self.maybe(self.view),
            (),
            self.some(lambda: PendingRun(DataId(self.station(), self.number()), self.number(), 1)),
            None,
            self.maybe(self.outcome),
            self.number(),
            self.number(),
            self.maybe(lambda: StoredChange(self.sl(), self.change())),
        )

    def frame(self, source: AmpStationId) -> Any:
        sample = self.luck.choice(AMP_FRAMES)
        attributes = self.luck.randrange(64)
        sl = self.sl() if attributes & SUSPEND else None
        control = FrameControl(
            GROUP, source, self.number(), self.number(), self.maybe(self.view_id), attributes, sl
        )
        fields: dict[str, Any] = {name: getattr(sample, name) for name in sample.__struct_fields__}
        fields["control"] = control
        for name, make in (
            ("ref", lambda: FrameRef(self.station(), self.number(), self.number())),
            ("change", self.change),
            ("previous", lambda: self.maybe(self.outcome)),
            ("position", self.number),
            ("failed", lambda: self.some(self.station)),
            ("accept", lambda: self.luck.random() < 0.5),
        ):
            if name in fields and (name != "change" or fields[name] is not None):
                fields[name] = make()
        if type(sample) is ResponseFrame:
            fields["report"] = self.maybe(self.report)
            fields["change"] = self.maybe(self.change)
        return type(sample)(**fields)


@pytest.mark.parametrize("decides", ["own", "agreed"])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.spec("A-012", "A-013", "A-029")
def test_a_gate_never_fails_whatever_its_peers_send(decides: str, seed: int) -> None:
    me, *peers = STATIONS
    luck, forger = Random(seed), Forger(seed)
    gate = AmpGate(AmpConfig(decides=decides, queue_max=8), me, GROUP)
    now, timers = 0.0, {}
    gate.step(now, GateAsked())
    for turn in range(1500):
        now += 0.01
        source = luck.choice(peers)
        event: Any = FrameReceived(source.host, forger.frame(source))
        if turn % 50 == 0:
            event = ViewExecuted(turn // 50 + 1, STATIONS[: luck.randrange(1, 4)])
        elif turn % 17 == 0:
            event = RunGiven(turn, (b"x",))
        elif turn % 23 == 0:
            event = StationSuspected(luck.choice(peers))
        elif timers and turn % 3 == 0:
            event = TimerFired(luck.choice(sorted(timers, key=str)))
        elif isinstance(event, FrameReceived) and decode_frame(encode_frame(event.frame)) is None:
            continue  # it is not let in
        for effect in gate.step(now, event):
            if isinstance(effect, SetTimer):
                timers[effect.timer] = now
        if gate.state.standing == "closed":
            gate.step(now, GateAsked())
        state = gate.state
        assert len(state.queue) <= 8 + len(STATIONS) and len(state.table) <= 64
