"""Worlds of AMp for tests: the paper's bus, and a lossy network; frames that are kept from somebody."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from benchmarks.amp_world import AmpWorld, Bus, LossyNetwork
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.amp_invariants import at_rest, check_logs
from rostra.protocols.atomic.frames import AmpStationId

BUS, NET = "bus", "net"


def world(kind: str = NET, seed: int = 1, omissions: int = 3, **settings: Any) -> AmpWorld:
    settings = {"run_max": 1, **settings}
    if kind == BUS:
        return AmpWorld(replace(AmpConfig.bus(omissions), **settings), Bus(omissions))
    config = AmpConfig().with_omissions(omissions)
    return AmpWorld(replace(config, **settings), LossyNetwork(seed))


def members(kind: str = NET, count: int = 4, **settings: Any) -> tuple[AmpWorld, list[AmpStationId]]:
    net = world(kind, **settings)
    return net, net.start(*"abcdefghijklmnopqrstuvwxyz"[:count])


def sound(net: AmpWorld) -> None:
    """All that must hold when faults have stopped."""
    given = [(who, items) for (who, _), (_, items) in net.given.items()]
    assert net.found == []
    assert check_logs(net.logs, given) == []
    assert wrong_results(net) == []
    assert at_rest([gate.state for gate in net.gates.values()]) == []


def wrong_results(net: AmpWorld) -> list[str]:
    """IA-4, and what its sender was told (A-052): a rejected message is delivered by no station that goes on,
    an accepted one once by each that was there from the beginning."""
    most: Counter[tuple[AmpStationId, bytes]] = Counter()
    least: Counter[tuple[AmpStationId, bytes]] = Counter()
    for (who, token), (_, items) in net.given.items():
        result = net.ended[who, token][1].result if (who, token) in net.ended else "in doubt"
        for item in items if result != "rejected" else ():
            most[who, item] += 1
            least[who, item] += result == "accepted" and who in net.gates and not net.logs[who].marks
    found = []
    going_on = [who for who in net.gates if net.logs[who].views and not net.logs[who].marks]
    first = min([net.logs[who].views[0].view.id.number for who in going_on], default=0)
    for who in going_on:
        had = Counter([(run.data.sa, item) for run in net.logs[who].runs() for item in run.items])
        found += [f"{who} has {each}, which was rejected" for each in had - most]
        if net.logs[who].views[0].view.id.number == first:
            found += [f"{who} lacks {each}, which was accepted" for each in least - had]
    return found


def views(net: AmpWorld) -> list[tuple[AmpStationId, ...]]:
    """The view of every station that has one; the same at all, if there is one group."""
    found = {gate.state.view.members for gate in net.gates.values() if gate.state.view is not None}
    return sorted(found)


class Lost:
    """Frames of a kind that do not reach somebody, the first `times` of them."""

    def __init__(
        self, kind: type[Any], to: AmpStationId | None = None, times: int = 1, **fields: Any
    ) -> None:
        self.kind, self.to, self.left, self.fields = kind, to, times, fields
        self.sender: AmpStationId | None = None

    def __call__(self, sender: AmpStationId, to: AmpStationId, frame: Any) -> bool:
        fits = (
            type(frame) is self.kind
            and self.to in (None, to)
            and self.sender in (None, sender)
            and all(getattr(frame, name) == value for name, value in self.fields.items())
        )
        if not fits or not self.left:
            return False
        self.left -= 1
        return True


def losing(net: AmpWorld, *lost: Callable[[AmpStationId, AmpStationId, Any], bool]) -> None:
    def adversary(sender: AmpStationId, to: AmpStationId, frame: Any) -> bool:
        return any(each(sender, to, frame) for each in lost)

    net.medium.adversary = adversary  # type: ignore[attr-defined]


def results(net: AmpWorld, who: AmpStationId) -> list[str]:
    return [each.result for (station, _), (_, each) in sorted(net.ended.items()) if station == who]
