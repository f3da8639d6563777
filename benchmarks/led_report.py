"""Messages and bytes of led sets, beside the paper's figures: ``make led-report``.

The shipped stacks in a simulated world of two sites with five hosts each, and one for an outsider. Letters
are counted once, where they are sent, and not on each of the three or four links that carry them; packets
that keep circuits alive are left out. Bytes are those of the letters.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.congress_report.page import svg
from rostra.core.effects import Effect, Event, Send
from rostra.core.stack import Stack
from rostra.names import Domain, Group
from rostra.protocols.led.agent import LED_AGENT
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.messages import CarriedLetter, decode_letter, encode_letter
from rostra.protocols.led.server import LED_SERVER
from rostra.protocols.links.packets import Beat, Bye, Data, Hello
from rostra.sim.programs import SimProgram
from rostra.sim.shapes import clusters
from rostra.sim.taps import tapped
from rostra.sim.world import World

CHESS = Group("chess", Domain("eu"))

CLAIMS = {
    "first join": "2",
    "join at an agent that is new": "4",
    "join at an agent that is in": "1",
    "leave": "1",
    "join at the leader": "0",
    "query by an outsider": "2 or 4",
    "merge of two sets": "4",
}
"""What section 6 of the specification expects."""

PLOTTED = ("join at an agent that is in", "leave", "query by an outsider", "merge of two sets")
"""What grows with the members."""


class Counted:
    """A tap: letters by kind, where they are sent."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()
        self.octets = 0

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        for effect in effects:
            message = effect.message if isinstance(effect, Send) else None
            if isinstance(message, CarriedLetter) and message.source == path:
                self._count(message)

    def _count(self, carried: CarriedLetter) -> None:
        letter = decode_letter(carried.body)
        assert letter is not None, "we send what can be read"
        match letter:
            case Hello() | Beat() | Bye():
                return
            case Data(messages=messages):
                for message in messages:
                    self.messages[type(message).__name__] += 1
                    self.octets += len(encode_letter(Data(1, 1, 1, 1, (message,))))
            case _:
                self.messages[type(letter).__name__] += 1
                self.octets += len(carried.body)

    def take(self) -> tuple[int, int, str]:
        found = sum(self.messages.values()), self.octets, ", ".join(sorted(self.messages))
        self.messages.clear()
        self.octets = 0
        return found


class Figures:
    def __init__(self, members: int, *, compressed: bool) -> None:
        self.members, self.compressed = members, compressed
        self.counted = Counted()
        self.rows: list[tuple[str, int, int, str]] = []
        self.world = World(
            1,
            clusters({"eu.de": 5, "eu.fr": 6}),
            watching=tapped(self.counted),
            history=False,
        )
        self.world.run(3.0)
        # No refresh and no flattening: what is counted is what was asked for.
        config = LedConfig(compressed=compressed, lease_s=100_000.0, flatten_s=100_000.0)
        for process in self.world.processes.values():
            assert process.node is not None, "all are up"
            if (agent := process.node.stack.find(LED_AGENT)) is not None:
                agent.config = config
            if (server := process.node.stack.find(LED_SERVER)) is not None:
                server.registrar.config = config

    def measure(self) -> "Figures":
        first, second, *rest, outside = sorted(self.world.tree.hosts)
        self._count("first join", lambda: self._join(first))
        self._count("join at an agent that is new", lambda: self._join(second))
        each = max(1, self.members // 10 - 1)
        for host in (first, second, *rest):
            for _ in range(each):
                self._join(host)
        self.world.run(5.0)
        self.counted.take()
        last = rest[-1]
        joined: list[SimProgram] = []
        self._count("join at an agent that is in", lambda: joined.append(self._join(last)))
        self._count("leave", lambda: joined[0].leave_led(CHESS))
        self._count("join at the leader", lambda: self._join(first))
        asker = self.world.program(outside, "asker")
        self.world.run(1.0)
        self.counted.take()
        self._count("query by an outsider", lambda: asker.resolve(CHESS))
        self.world.cut("eu.de")
        self.world.run(60.0)
        self.counted.take()
        self._count("merge of two sets", self.world.heal, 30.0)
        self.world.close()
        return self

    def _join(self, host: str) -> SimProgram:
        program = self.world.program(host, f"p{len(self.world.programs)}")
        program.join_led(CHESS)
        return program

    def _count(self, what: str, work: object, for_s: float = 3.0) -> None:
        assert callable(work)
        work()
        self.world.run(for_s)
        self.rows.append((what, *self.counted.take()))


Measured = dict[int, tuple[Figures, Figures]]
"""By members: with whole lists, and compressed."""


def measured(sizes: Sequence[int]) -> Measured:
    return {
        size: (Figures(size, compressed=False).measure(), Figures(size, compressed=True).measure())
        for size in sizes
    }


def table(found: Measured) -> str:
    lines = ["| | members | expected | messages | bytes, whole lists | bytes, compressed | kinds |"]
    lines.append("|---|---|---|---|---|---|---|")
    for size, (whole, compressed) in found.items():
        for one, other in zip(whole.rows, compressed.rows, strict=True):
            what, messages, octets, kinds = one
            lines.append(
                f"| {what} | {size:,} | {CLAIMS[what]} | {messages} | {octets:,} | {other[2]:,} | {kinds} |"
            )
    return "\n".join(lines)


def plot(found: Measured) -> str:
    """Bytes by members, both axes logarithmic: whole lists drawn through, compressed ones broken."""
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.add_subplot()
    sizes = list(found)
    for number, what in enumerate(PLOTTED):
        for compressed, line in ((0, "-o"), (1, "--o")):
            octets = [dict_of(found[size][compressed])[what] for size in sizes]
            label = what if not compressed else None
            axes.plot(sizes, octets, line, color=f"C{number}", label=label, markersize=3)
    axes.set(xscale="log", yscale="log", xlabel="members", ylabel="bytes")
    axes.set_title("whole lists: through; compressed: broken", fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return svg(figure)


def dict_of(figures: Figures) -> dict[str, int]:
    return {what: octets for what, _, octets, _ in figures.rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10,100,1000,10000", help="members, with commas between")
    parser.add_argument("--to", type=Path, default=Path("report/led.md"))
    given = parser.parse_args()
    found = measured([int(size) for size in given.sizes.split(",")])
    text = table(found)
    given.to.parent.mkdir(parents=True, exist_ok=True)
    given.to.write_text(f"{text}\n")
    given.to.with_suffix(".svg").write_text(plot(found))
    print(text)


if __name__ == "__main__":
    main()
