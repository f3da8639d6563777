"""The figures of AMp (`docs/spec/atomic.md`, section 6): formula against count, on bus and network.

    make atomic-report            report/atomic.md, a minute

Everything is counted in virtual time: on the bus with the `bounded` fault model and `medium` order, on the
network with the `async` one and `negotiated` order. The adversary of the worst cases omits as often as the
fault model allows. Beside it, what the same costs in `hub` order.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, msgpack
from msgspec.structs import replace

from benchmarks.amp_world import AmpWorld, Bus, LossyNetwork
from benchmarks.atomic_hub import HubRow, hub_rows
from rostra.impair.quality import Constant, LineQuality
from rostra.names import Domain, Group
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.amp_invariants import check_logs
from rostra.protocols.atomic.amp_state import AccessLost, StationSuspected
from rostra.protocols.atomic.frames import (
    AmpStationId,
    DataFrame,
    DecisionFrame,
    DecisionRequestFrame,
    GetViewFrame,
    InvestigateFrame,
    NewViewFrame,
)

N: Final = 5
W: Final = 3
DELAY_S: Final = 0.001


class ReportRow(Struct, frozen=True):
    claim: str
    formula: str
    expected: float
    bus: float | None
    network: float | None
    most: bool = False  # `expected` is a bound

    @property
    def holds(self) -> bool:
        found = [each for each in (self.bus, self.network) if each is not None]
        if self.most:
            return all(each <= self.expected + 1e-9 for each in found)
        return all(abs(each - self.expected) < 1e-6 for each in found)


def world(kind: str, members: int = N, **settings: Any) -> tuple[AmpWorld, list[AmpStationId]]:
    if kind == "bus":
        config = replace(AmpConfig.bus(W), run_max=1, **settings)
        made = AmpWorld(config, Bus(W, frame_s=0.0, delay_s=DELAY_S))
    else:
        config = replace(AmpConfig().with_omissions(W), run_max=1, **settings)
        made = AmpWorld(config, LossyNetwork(1, LineQuality(Constant(DELAY_S))))
    return made, made.start(*[f"h{number}" for number in range(members)])


def omit(made: AmpWorld, fits: Callable[[AmpStationId, AmpStationId, Any], bool], times: int) -> None:
    """The first frames that fit are omitted."""
    left = times

    def adversary(sender: AmpStationId, to: AmpStationId, frame: Any) -> bool:
        nonlocal left
        if left and fits(sender, to, frame):
            left -= 1
            return True
        return False

    made.medium.adversary = adversary  # type: ignore[attr-defined]


def _sound(made: AmpWorld) -> None:
    wrong = [*made.found, *check_logs(made.logs)]
    if wrong:
        raise AssertionError(wrong[0])


def accept(kind: str) -> float:
    made, (a, *_) = world(kind)
    made.give(a, b"x")
    made.run(1)
    _sound(made)
    return len(made.of_data(a, 1))


def reject(kind: str) -> float:
    made, (a, b, *_) = world(kind)
    made.tell(b, AccessLost("user"))
    made.give(a, b"x")
    made.run(1)
    return len(made.of_data(a, 1))


def confirmed(kind: str) -> float:
    made, (a, *_) = world(kind)
    made.give(a, b"x", profile="atomic-confirmed")
    made.run(1)
    return len(made.of_data(a, 1))


def lost_accept(kind: str, *, traffic: bool) -> float:
    made, (a, b, *_) = world(kind)
    omit(made, lambda sender, to, frame: to == b and type(frame) is DecisionFrame, 1)
    made.give(a, b"x")
    made.run(0.02)
    if traffic:
        made.give(a, b"y")
    made.run(1)
    _sound(made)
    return len(made.of_data(a, 1)) - (N + 1)


def rounds(kind: str, frame_kind: type[Any]) -> float:
    """Of the first phase, or of the reject, with the most omissions."""
    made, (a, b, *_) = world(kind)
    if frame_kind is DecisionFrame:
        made.tell(b, AccessLost("user"))
    omit(made, lambda sender, to, frame: to == b and type(frame) is frame_kind, W)
    made.give(a, b"x")
    made.run(2)
    sent = [each for each in made.of_data(a, 1) if type(each.frame) is frame_kind]
    return len(sent)


def requests(kind: str) -> float:
    made, (a, b, *_) = world(kind)
    omit(made, lambda sender, to, frame: to == b and type(frame) is DecisionFrame, W + 1)
    made.give(a, b"x")
    made.run(2)
    _sound(made)
    return len(made.frames(DecisionRequestFrame))


class Times(Struct, frozen=True):
    transfer: float  # Tt: the emitter is busy
    execution: float  # Te: until the last delivery
    inconsistency: float  # Ti: from the first delivery to the last


def times(made: AmpWorld, sender: AmpStationId, token: int) -> Times:
    """A-086, of one run: the one with this token, which is also its number."""
    began = made.given[sender, token][0]
    at = [
        run.at
        for log in made.logs.values()
        for run in log.runs()
        if run.items == made.given[sender, token][1]
    ]
    return Times(made.ended[sender, token][0] - began, max(at) - began, max(at) - min(at))


def plain_times(kind: str) -> Times:
    made, (a, *_) = world(kind)
    token = made.give(a, b"x")
    made.run(1)
    return times(made, a, token)


def worst_times(kind: str) -> Times:
    """All omissions that one receiver may commit: of the data, then of the accept and of the answers."""
    made, (a, b, *_) = world(kind)
    count: dict[Any, int] = {DataFrame: W, DecisionFrame: W + 1}  # the accept, and w answers

    def adversary(sender: AmpStationId, to: AmpStationId, frame: Any) -> bool:
        if to != b or type(frame) not in count or not count[type(frame)]:
            return False
        count[type(frame)] -= 1
        return True

    made.medium.adversary = adversary  # type: ignore[attr-defined]
    token = made.give(a, b"x")
    made.run(3)
    _sound(made)
    return times(made, a, token)


def dead_emitter(kind: str) -> float:
    """Te when the emitter dies after its accept has reached one member."""
    made, (a, b, *_) = world(kind)
    omit(
        made,
        lambda sender, to, frame: type(frame) is DecisionFrame and to != b and frame.change is None,
        N - 2,
    )
    token = made.give(a, b"x")
    made.run_until(lambda: (a, token) in made.ended, 1)
    began = made.given[a, token][0]
    made.crash(a)
    made.run(5)
    _sound(made)
    at = [run.at for log in made.logs.values() for run in log.runs()]
    return max(at) - began


def recovery(kind: str) -> float:
    """Frames to the group between the suspension and the resumption."""
    made, (a, b, *_) = world(kind)
    made.crash(a)
    began = made.now
    made.tell(b, StationSuspected(a))
    made.run(0.045)
    kinds = (InvestigateFrame, NewViewFrame, DecisionFrame)
    return sum(type(each.frame) in kinds for each in made.frames(since=began))


def restarted(kind: str) -> float:
    """INVESTIGATE rounds when another member fails inside the action: w + 1 for the silent one."""
    made, (a, b, c, *_) = world(kind)
    made.crash(a)
    made.crash(c)
    began = made.now
    made.tell(b, StationSuspected(a))
    made.run(2)
    _sound(made)
    return len(made.frames(InvestigateFrame, since=began))


def close(kind: str) -> float:
    made, (a, *_) = world(kind)
    began = made.now
    made.leave(a)
    made.run(1)
    return len(made.frames(since=began))


def open_gate(kind: str) -> float:
    made, _ = world(kind, 4)
    began = made.now
    made.add("new")
    made.run(1)
    return len(made.frames(since=began))


def first_member(kind: str) -> tuple[float, float]:
    made, _ = world(kind, 0)
    who = made.add("first")
    made.run_until(lambda: made.gates[who].state.view is not None, 5)
    return len(made.frames(GetViewFrame)), made.now


def throughput(kind: str, senders: int, loss: float = 0.0) -> float:
    """Messages a second, all runs of one message."""
    made, stations = world(kind, 6)
    for number in range(50):
        for each in stations[:senders]:
            made.give(each, b"%d" % number)
    if loss:
        total = 0

        def adversary(sender: AmpStationId, to: AmpStationId, frame: Any) -> bool:
            nonlocal total
            if type(frame) is not DecisionFrame:
                return False
            total += 1
            return total % round(1 / loss) == 0

        made.medium.adversary = adversary  # type: ignore[attr-defined]
    began = made.now
    made.run_until(lambda: len(made.ended) == 50 * senders, 60)
    _sound(made)
    return 50 * senders / (made.now - began)


def of_groups(kind: str, count: int) -> float:
    """Messages a second of all groups: the same stations are in each, and one of them speaks in all."""
    first, _ = world(kind, 6)
    rest = [
        AmpWorld(first.config, first.medium, group=Group(f"g{n}", Domain("")), beside=first)
        for n in range(1, count)
    ]
    for made in rest:
        made.start(*[f"h{number}" for number in range(6)])
    groups = [first, *rest]
    for made in groups:
        for number in range(50):
            made.give(AmpStationId(Domain("h0"), 1), b"%d" % number)
    began = first.now
    first.run_until(lambda: all(len(made.ended) == 50 for made in groups), 60)
    for made in groups:
        _sound(made)
    return 50 * count / (first.now - began)


def rows() -> Iterator[ReportRow]:
    def both(
        claim: str, formula: str, value: float, measure: Callable[[str], float], most: bool = False
    ) -> ReportRow:
        return ReportRow(claim, formula, value, measure("bus"), measure("network"), most)

    settings = AmpConfig().with_omissions(W)
    round_s, wait_s = settings.response_s, settings.wait_decision_s
    yield both("accept, no fault", "n + 1", N + 1, accept)
    yield both("reject, no fault", "2n", 2 * N, reject)
    yield both("confirmed accept", "2n", 2 * N, confirmed)
    yield both("lost accept, later traffic", "+0", 0, lambda kind: lost_accept(kind, traffic=True))
    yield both(
        "lost accept, no traffic", "+2 for each loser", 2, lambda kind: lost_accept(kind, traffic=False)
    )
    yield both("dissemination, worst case", "w + 1 rounds", W + 1, lambda kind: rounds(kind, DataFrame))
    yield both("reject, worst case", "w + 1 rounds", W + 1, lambda kind: rounds(kind, DecisionFrame))
    yield both("decision requests, worst case", "w + 1", W + 1, requests, True)
    plain = {kind: plain_times(kind) for kind in ("bus", "network")}
    worst = {kind: worst_times(kind) for kind in ("bus", "network")}
    yield both(
        "Tt, no fault (s)", "2 delays: one response round", 2 * DELAY_S, lambda kind: plain[kind].transfer
    )
    yield both("Te, no fault (s)", "3 delays", 3 * DELAY_S, lambda kind: plain[kind].execution)
    spread = "spread of one frame: 0 on a bus; on the network the emitter delivers a delay earlier"
    yield ReportRow("Ti, no fault (s)", spread, 0, plain["bus"].inconsistency, None)
    yield ReportRow("Ti, no fault (s), network", "1 delay", DELAY_S, None, plain["network"].inconsistency)
    te = 2 * (W + 1) * round_s + wait_s
    ti = wait_s + (W + 1) * round_s
    yield both(
        "Te worst, emitter alive (s)",
        "(w+1)RespT + WaitDecisionT + (w+1)RespT",
        te,
        lambda kind: worst[kind].execution,
        True,
    )
    yield both(
        "Ti worst, emitter alive (s)",
        "WaitDecisionT + (w+1)RespT",
        ti,
        lambda kind: worst[kind].inconsistency,
        True,
    )
    yield both(
        "Te worst, emitter dead (s)",
        "above + 2 rounds + 2(w+1) rounds",
        te + (2 + 2 * (W + 1)) * round_s,
        dead_emitter,
        True,
    )
    yield ReportRow("recovery, group frames: bounded", "2", 2, recovery("bus"), None)
    yield ReportRow("recovery, group frames: async", "2 + 1", 3, None, recovery("network"))
    yield both("second failure in one action: INVESTIGATE", "w + 1 rounds", W + 1, restarted)
    yield both("close", "1 + (n-1) + 1", N + 1, close)
    yield both("open, m = 4", "(1+m) + (1+m) + 1", 11, open_gate)
    yield both("first member: GETVIEW", "w + 1", W + 1, lambda kind: first_member(kind)[0])
    yield both("first member (s)", "(w+1)RespT", (W + 1) * round_s, lambda kind: first_member(kind)[1])
    yield ReportRow("negotiated order", "no frame more than medium", accept("bus"), None, accept("network"))
    alone = 1 / (2 * DELAY_S)
    yield both("one sender, messages/s", "1 / response round", alone, lambda kind: throughput(kind, 1))
    yield both("the same, 1 % of accepts lost", "the same", alone, lambda kind: throughput(kind, 1, 0.01))
    for senders in (2, 4, 6):
        each = partial(throughput, senders=senders)
        yield both(f"{senders} senders, messages/s", f"{senders} times one", senders * alone, each)
    several = partial(of_groups, count=4)
    yield both("one sender in 4 groups, messages/s", "4 times one", 4 * alone, several)


def memory() -> str:
    made, stations = world("network", 6)
    size = len(msgpack.encode(made.gates[stations[0]].state.view)) / 6
    return f"A view takes {size:.0f} bytes for each member and group, encoded."


def write_report(file: Path) -> list[ReportRow | HubRow]:
    found = list(rows())
    beside = list(hub_rows(N, DELAY_S))
    lines = [
        f"# AMp: formula against count (n = {N}, w = {W}, one-way delay {DELAY_S:g} s)",
        "",
        "| claim | formula | expected | bus, medium | network, negotiated | holds |",
        "|---|---|---|---|---|---|",
    ]
    for row in found:
        cells = ["" if each is None else f"{each:.4g}" for each in (row.bus, row.network)]
        bound = "at most " if row.most else ""
        lines.append(
            f"| {row.claim} | {row.formula} | {bound}{row.expected:.4g} | {cells[0]} | {cells[1]} | "
            f"{'yes' if row.holds else '**no**'} |"
        )
    lines += ["", "## Hub order beside it", "", "| claim | formula | expected | counted | holds |"]
    lines.append("|---|---|---|---|---|")
    lines += [
        f"| {row.claim} | {row.formula} | {row.expected:.4g} | {row.hub:.4g} | "
        f"{'yes' if row.holds else '**no**'} |"
        for row in beside
    ]
    lines += ["", memory(), ""]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines))
    return [*found, *beside]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path("report/atomic.md"))
    file: Path = parser.parse_args().to
    found = write_report(file)
    print(file.read_text())
    missed = [row.claim for row in found if not row.holds]
    print(f"{len(found) - len(missed)} of {len(found)} hold; {file}")
    if missed:
        print(f"not: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
