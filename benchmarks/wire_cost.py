"""What the wire costs per message, beside msgspec alone: `python -m benchmarks.wire_cost`.

`alone` encodes and decodes the same values with msgspec and nothing else: no frame, no checks, no world.
Figures are the best of many short rounds, in microseconds per message; only the ratios travel to another
machine.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import msgspec

from rostra.groups.members import Cause, Member
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.links.packets import Data, Hello
from rostra.protocols.relaxed.messages import EndpointsJoined, MessageId
from rostra.protocols.relaxed.requests import Absolute, Joined, Watch
from rostra.wire import (
    Answered,
    Ask,
    Encoder,
    FrameKind,
    FrameReader,
    ProgramHello,
    ProgramWelcome,
    Told,
)
from rostra.wire.programs import Asks, Tells, ToAgent, ToProgram
from rostra.wire.shapes import WholeData

WORLD = "bench"
HOST = Domain("eu.fr.paris.h1")
PEERS = 100


def members(count: int) -> tuple[Member, ...]:
    return tuple(Member(Endpoint(f"{HOST}/web-{n}#{n}"), (7, n)) for n in range(count))


def best_us(work: Callable[[], object], times: int) -> float:
    """Microseconds for one call, in the best of fifty rounds."""

    def once() -> float:
        began = perf_counter()
        for _ in range(times):
            work()
        return (perf_counter() - began) / times * 1e6

    return min(once() for _ in range(50))


def joined(count: int, size: int = 1) -> tuple[EndpointsJoined, ...]:
    group = Group("lounge/chess", Domain("eu"))
    return tuple(
        EndpointsJoined(MessageId(HOST, 7, n), group, members(size), Cause.JOIN) for n in range(count)
    )


def row(what: str, count: int, ours: Callable[[], object], alone: Callable[[], object]) -> None:
    times = max(5, 1_000 // count)
    a, b = best_us(ours, times) / count, best_us(alone, times) / count
    print(f"{what:44} {count:5}   {a:8.3f} {b:8.3f}   {a / b:6.2f}x")


def reader(kind: FrameKind, greeting: bytes) -> FrameReader:
    fresh = FrameReader(WORLD, kind)
    fresh.feed(greeting)
    return fresh


def main() -> None:
    encoder, plain = Encoder(WORLD), msgspec.msgpack.Encoder()
    link = reader(FrameKind.LINK, encoder.packet(Hello(1, 0, WORLD, HOST, 7, 0)))
    agent = reader(FrameKind.TO_AGENT, encoder.to_agent(ProgramHello(WORLD, "bench")))
    program = reader(FrameKind.TO_PROGRAM, encoder.to_program(ProgramWelcome(WORLD, HOST, 7)))
    packets: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(WholeData)
    to_agent: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToAgent)
    to_program: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToProgram)
    chess = Group("lounge/chess", Domain("eu"))

    print(f"{'microseconds per message':44} {'batch':>5}   {'rostra':>8} {'alone':>8}   ratio")
    for count in (1, 100):
        data = Data(1, 2, 3, 4, joined(count))
        octets, body = encoder.packet(data), plain.encode(data)
        row("packet of joins, written", count, lambda: encoder.packet(data), lambda: plain.encode(data))  # noqa: B023
        row("packet of joins, read", count, lambda: link.feed(octets), lambda: packets.decode(body))  # noqa: B023

        asks = [Ask(n, 7, Watch(chess)) for n in range(count)]
        octets, body = encoder.asks(asks), plain.encode(Asks(tuple(asks)))
        row("requests, written", count, lambda: encoder.asks(asks), lambda: plain.encode(Asks(tuple(asks))))  # noqa: B023
        row("requests, read", count, lambda: agent.feed(octets), lambda: to_agent.decode(body))  # noqa: B023

        told: list[Answered | Told] = [
            Told((7, 8), Joined(chess, members(1), Cause.JOIN)) for _ in range(count)
        ]
        octets, body = encoder.tells(told), plain.encode(Tells(tuple(told)))
        row("notices, written", count, lambda: encoder.tells(told), lambda: plain.encode(Tells(tuple(told))))  # noqa: B023
        row("notices, read", count, lambda: program.feed(octets), lambda: to_program.decode(body))  # noqa: B023

    for size in (1, 4, 8, 16, 100):
        absolute = Absolute(chess, members(size))
        items: list[Answered | Told] = [Answered(1, absolute)]

        def to_everybody() -> None:
            for _ in range(PEERS):
                encoder.tells(items)  # noqa: B023
            encoder.turn_ends()

        def to_everybody_alone() -> None:
            for _ in range(PEERS):
                plain.encode(Tells(tuple(items)))  # noqa: B023

        row(f"one answer of {size} members, to {PEERS} programs", PEERS, to_everybody, to_everybody_alone)


if __name__ == "__main__":
    main()
