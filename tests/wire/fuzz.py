"""A mutation fuzzer for the wire: valid conversations, bent in every way we could think of.

    python -m tests.wire.fuzz --seconds 60            as long as you like
    python -m tests.wire.fuzz --replay 2026/4711      one case again, with its bytes and what became of them

Half of the time it is behind the door (`behind.py`).

A case is a seed and a number, and nothing else: the same case is the same bytes on every machine. Whatever
the bytes, this must hold:

- the reader never raises;
- what it hands out does not depend on how the bytes were cut into chunks;
- it keeps no more than its bound, needs little memory for little input, and keeps nothing once it is over;
- an error is the last item, is one of the three that peers can cause, and can be printed;
- every name that it hands out obeys the grammar, and all that it hands out can be written and read again;
- a conversation that was not bent is read as it was meant.
"""

import argparse
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from rostra.errors import BadName, Malformed, PeerError, WrongVersion, WrongWorld
from rostra.groups.members import Member
from rostra.names import parse_endpoint, parse_group_name, parse_scope, relayed_group_name
from rostra.protocols.atomic.messages import CarriedFrame
from rostra.protocols.led.messages import CarriedLetter, SpreadLetter
from rostra.protocols.links.packets import Data
from rostra.wire import (
    ANY_WORLD,
    Answered,
    Ask,
    BadAsk,
    Encoder,
    FrameKind,
    FrameReader,
    Refusal,
    Told,
    world_tag,
)
from rostra.wire.frames import (
    AFTER_LENGTH,
    BODY_BOUND,
    BODY_BYTES_MAX,
    HANDSHAKE_BYTES_MAX,
    HEADER,
    WIRE_VERSION,
)
from rostra.wire.programs import Asks, ProgramHello, ProgramWelcome, Tells
from tests.support import samples
from tests.support.samples import WORLD
from tests.wire import behind
from tests.wire.mutations import BENDS, HOSTILE_VALUES, Broken, require, walk

KINDS = (FrameKind.LINK, FrameKind.TO_AGENT, FrameKind.TO_PROGRAM)


class Case(Struct, frozen=True):
    kind: FrameKind
    bent_by: tuple[str, ...]  # what was done to it, in order; nothing if it is valid
    octets: bytes
    meant: tuple[Any, ...]  # what it said before it was bent
    cuts: tuple[int, ...]
    world: str = WORLD  # that the reader is of


# Making cases


def make_case(seed: int, number: int) -> Case:
    luck = Random(f"{seed}/{number}")
    kind = luck.choice(KINDS)
    frames, meant = conversation(kind, luck)
    bent_by = []
    for _ in range(luck.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        bend = luck.choice(FRAME_BENDS)
        frames = bend(frames, luck)
        bent_by.append(bend.__name__)
    octets = b"".join(frames)
    for _ in range(luck.choice((0, 0, 1, 1, 2, 4)) if bent_by else luck.choice((0, 0, 1))):
        bend_stream = luck.choice(STREAM_BENDS)
        octets = bend_stream(octets, luck)
        bent_by.append(bend_stream.__name__)
    cuts = tuple(sorted(luck.randrange(len(octets) + 1) for _ in range(luck.choice((1, 2, 3, 30)))))
    harmless = {split_into_parts.__name__}
    world = ANY_WORLD if kind is FrameKind.TO_PROGRAM and luck.random() < 0.5 else WORLD
    return Case(kind, tuple(bent_by), octets, () if set(bent_by) - harmless else meant, cuts, world)


def conversation(kind: FrameKind, luck: Random) -> tuple[list[bytes], tuple[Any, ...]]:
    """A greeting and a few frames more, of one end of one connection."""
    encoder = Encoder(WORLD)
    frames, meant = [], []

    def say(octets: bytes, *items: Any) -> None:
        frames.append(octets)
        meant.extend(items)

    def some(things: list[Any]) -> list[Any]:
        return [luck.choice(things) for _ in range(luck.choice((0, 1, 2, 5, 20)))]

    for turn in range(luck.randint(1, 5)):
        greet = turn == 0
        match kind:
            case FrameKind.LINK:
                packet = luck.choice(samples.PACKETS[:2] if greet else samples.PACKETS)
                if isinstance(packet, Data):
                    packet = Data(3, 4, turn, 0, tuple(some([*samples.MESSAGES, LONG_REPLY])))
                say(encoder.packet(packet), packet)
            case FrameKind.TO_AGENT:
                said = luck.choice(samples.TO_AGENT[:2] if greet else samples.TO_AGENT)
                if isinstance(said, Asks):
                    asks = some(samples.ASKS)
                    say(encoder.asks(asks), *asks)
                else:
                    world = said.world if isinstance(said, ProgramHello) and greet else WORLD
                    say(Encoder(world).to_agent(said), said)
            case _:
                said = luck.choice(samples.TO_PROGRAM[:2] if greet else samples.TO_PROGRAM)
                if isinstance(said, Tells):
                    items = some(samples.ITEMS)
                    say(encoder.tells(items), *items)
                else:
                    say(encoder.to_program(said), said)
    return frames, tuple(meant)


LONG_REPLY = samples.server.ResolveReply(
    samples.ID,
    samples.CHESS,
    tuple(Member(samples.Endpoint(f"{samples.H1}/web-{n:03}#{n}"), (7, n)) for n in range(40)),
    samples.Interest.ALL,
)


# Bending frames: each way takes the frames of a conversation and returns others


def change_a_leaf(frames: list[bytes], luck: Random) -> list[bytes]:
    """The right structure, with one value in it that does not belong there: the deepest lie."""
    at, body = pick_body(frames, luck)
    if isinstance(body, list) and body:
        inner, index = body, luck.randrange(len(body))
        while isinstance(inner[index], list) and inner[index] and luck.random() < 0.8:
            inner = inner[index]
            index = luck.randrange(len(inner))
        inner[index] = luck.choice(HOSTILE_VALUES)
    return with_body(frames, at, body)


def change_a_number(frames: list[bytes], luck: Random) -> list[bytes]:
    at, body = pick_body(frames, luck)
    lists = [body] if isinstance(body, list) else []
    lists += [each for each in walk(body) if isinstance(each, list) and each and isinstance(each[0], int)]
    if lists and lists[0]:
        luck.choice(lists)[0] = luck.choice((*range(30), 99, 255, 2**40))
    return with_body(frames, at, body)


def grow_or_shrink(frames: list[bytes], luck: Random) -> list[bytes]:
    at, body = pick_body(frames, luck)
    lists = [each for each in walk(body) if isinstance(each, list)]
    if lists:
        chosen = luck.choice(lists)
        if chosen and luck.random() < 0.5:
            del chosen[luck.randrange(len(chosen))]
        else:
            chosen.append(luck.choice(HOSTILE_VALUES))
    return with_body(frames, at, body)


def nest_deeply(frames: list[bytes], luck: Random) -> list[bytes]:
    at = luck.randrange(len(frames))
    body = frames[at][HEADER.size :]
    cut = luck.randrange(len(body) + 1)
    deep = luck.choice((b"\x91", b"\x81\x00", b"\xdc\xff\xff", b"\xdd\xff\xff\xff\xff")) * luck.choice(
        (1, 100, 20_000)
    )
    body = (body[:cut] + deep + body[cut:])[:BODY_BYTES_MAX]
    return [*frames[:at], refit(frames[at], body), *frames[at + 1 :]]


def lie_about_length(frames: list[bytes], luck: Random) -> list[bytes]:
    at = luck.randrange(len(frames))
    length = int.from_bytes(frames[at][:4], "big")
    lie = luck.choice(
        (0, 5, 6, length - 1, length + 1, length + 10, 2**16, 2**20 - 4, 2**20 - 3, 2**31, 2**32 - 1)
    )
    return [*frames[:at], min(max(0, lie), 2**32 - 1).to_bytes(4, "big") + frames[at][4:], *frames[at + 1 :]]


def lie_in_the_header(frames: list[bytes], luck: Random) -> list[bytes]:
    at = luck.randrange(len(frames))
    octets = bytearray(frames[at])
    octets[luck.choice((4, 5, 5, 5, 6, 9))] = luck.choice((*range(8), luck.randrange(256)))
    return [*frames[:at], bytes(octets), *frames[at + 1 :]]


def split_into_parts(frames: list[bytes], luck: Random) -> list[bytes]:
    """No lie at all: any frame after the greeting may travel in parts."""
    if len(frames) == 1 or frames[-1][5] not in KINDS:
        return frames
    at = len(frames) - 1
    header, body = frames[at][: HEADER.size], frames[at][HEADER.size :]
    parts = []
    while len(body) > 1 and luck.random() < 0.8:
        cut = luck.randrange(1, len(body))
        parts.append(framed(FrameKind.PART, body[:cut]))
        body = body[cut:]
    return [*frames[:at], *parts, (AFTER_LENGTH + len(body)).to_bytes(4, "big") + header[4:] + body]


def repeat_a_frame(frames: list[bytes], luck: Random) -> list[bytes]:
    at = luck.randrange(len(frames))
    return [*frames[: at + 1], frames[at], *frames[at + 1 :]]


def swap_frames(frames: list[bytes], luck: Random) -> list[bytes]:
    shuffled = list(frames)
    luck.shuffle(shuffled)
    return shuffled


def drop_a_frame(frames: list[bytes], luck: Random) -> list[bytes]:
    at = luck.randrange(len(frames))
    return [*frames[:at], *frames[at + 1 :]] or frames


def slip_in_a_stranger(frames: list[bytes], luck: Random) -> list[bytes]:
    """A frame of another conversation, another direction, another world, or a refusal."""
    mars = Encoder("mars")
    stranger = luck.choice(
        [
            *conversation(luck.choice(KINDS), luck)[0],
            mars.packet(samples.PACKETS[4]),
            mars.refusal(WrongWorld("no")),
            framed(FrameKind.PART, b"x"),
        ]
    )
    at = luck.randrange(len(frames) + 1)
    return [*frames[:at], stranger, *frames[at:]]


FRAME_BENDS: list[Callable[[list[bytes], Random], list[bytes]]] = [
    *(change_a_leaf, change_a_leaf, change_a_leaf, change_a_number, grow_or_shrink, nest_deeply),
    *(lie_about_length, lie_in_the_header, split_into_parts, split_into_parts),
    *(repeat_a_frame, swap_frames, drop_a_frame, slip_in_a_stranger),
]


# Bending the stream


def splice(octets: bytes, luck: Random) -> bytes:
    other = b"".join(conversation(luck.choice(KINDS), luck)[0])
    return octets[: luck.randrange(len(octets) + 1)] + other[luck.randrange(len(other) + 1) :]


STREAM_BENDS: list[Callable[[bytes, Random], bytes]] = [
    *BENDS,
    splice,
]


# Tools of the bends


def framed(kind: FrameKind, body: bytes) -> bytes:
    return HEADER.pack(AFTER_LENGTH + len(body), WIRE_VERSION, kind, world_tag(WORLD)) + body


def refit(frame: bytes, body: bytes) -> bytes:
    """The same frame around another body, its length told truly."""
    return (AFTER_LENGTH + len(body)).to_bytes(4, "big") + frame[4 : HEADER.size] + body


def pick_body(frames: list[bytes], luck: Random) -> tuple[int, Any]:
    at = luck.randrange(len(frames))
    try:
        return at, msgspec.msgpack.decode(frames[at][HEADER.size :])
    except (ValueError, RecursionError):
        return at, None


def with_body(frames: list[bytes], at: int, body: Any) -> list[bytes]:
    if body is None:
        return frames
    return [*frames[:at], refit(frames[at], msgspec.msgpack.encode(body)[:BODY_BYTES_MAX]), *frames[at + 1 :]]


# What must hold


def check(case: Case, *, weigh: bool = False) -> list[Any]:
    """Raise `Broken` unless every promise holds for this input; what was read."""
    reader = FrameReader(case.world, case.kind)
    if weigh:
        tracemalloc.start()
    try:
        items = reader.feed(case.octets)
    except Exception as error:
        raise Broken(f"the reader raised {error!r}") from error
    finally:
        peak = 0
        if weigh:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    require(
        peak <= 40 * len(case.octets) + 200_000,
        f"{peak} bytes of memory for {len(case.octets)} bytes of input",
    )
    require(told(items) == told(read_in_pieces(case)), "what is read depends on how it was cut")
    require(not reader.over or reader.bytes_held == 0, "bytes are kept after the end")
    ends = [item for item in items if isinstance(item, PeerError | Refusal)]
    require(reader.over == bool(ends), "over means that something ended it")
    require(ends == items[len(items) - len(ends) :] and len(ends) <= 1, "the end comes last, and once")
    for end in ends:
        require(
            type(end) in (Malformed, WrongVersion, WrongWorld, Refusal), f"{end!r} is not for peers to cause"
        )
        require(
            isinstance(end, Refusal) or (str(end).isprintable() and len(str(end)) < 2000), "unprintable error"
        )
    if case.meant:
        require(items == list(case.meant), "a valid conversation was not read as it was meant")
    good = items[: len(items) - len(ends)]
    if case.kind is not FrameKind.TO_PROGRAM:
        for name, parse in names_in(
            good, relayed_group_name if case.kind is FrameKind.LINK else parse_group_name
        ):
            require(is_canonical(name, parse), f"{name!r} got through")
    require(told(read_again(case.kind, good)) == told(good), "what was read cannot be written and read again")
    return items


def is_canonical(name: str, parse: Callable[[str], object]) -> bool:
    try:
        return str(parse(name)) == name
    except BadName:
        return False


def read_in_pieces(case: Case) -> list[Any]:
    reader = FrameReader(case.world, case.kind)
    items: list[Any] = []
    greeted = False
    for start, end in zip((0, *case.cuts), (*case.cuts, len(case.octets)), strict=True):
        items += reader.feed(case.octets[start:end])
        greeted = greeted or bool(items)
        bound = (BODY_BOUND[case.kind] if greeted else HANDSHAKE_BYTES_MAX) + HEADER.size
        require(reader.bytes_held <= bound, f"{reader.bytes_held} bytes kept, {bound} allowed")
    return items


def told(items: list[Any]) -> list[Any]:
    """Items in a form in which errors can be compared."""
    return [
        (type(item).__name__, str(item)) if isinstance(item, PeerError) else comparable(item)
        for item in items
    ]


def comparable(item: Any) -> Any:
    return (item.token, item.endpoint, str(item.error)) if isinstance(item, BadAsk) else item


def read_again(kind: FrameKind, items: list[Any]) -> list[Any]:
    # A program that left its world open has learnt it from the welcome.
    world = items[0].world if items and isinstance(items[0], ProgramWelcome) else WORLD
    encoder, reader = Encoder(world), FrameReader(world, kind)
    out: list[Any] = []
    for item in items:
        match item:
            case BadAsk():
                out.append(item)
            case Ask():
                out += reader.feed(encoder.asks([item]))
            case Answered() | Told():
                out += reader.feed(encoder.tells([item]))
            case _ if kind is FrameKind.LINK:
                out += reader.feed(encoder.packet(item))
            case _ if kind is FrameKind.TO_AGENT:
                out += reader.feed(encoder.to_agent(item))
            case _:
                out += reader.feed(encoder.to_program(item))
    return out


def names_in(
    value: Any, group_name: Callable[[str], object]
) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Every name in what was read, found by looking for the fields that hold one."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from names_in(each, group_name)
    elif isinstance(value, samples.Group):
        yield value.name, group_name
        yield value.scope, parse_scope
    elif isinstance(value, CarriedLetter):
        yield from ((value.source, parse_scope), (value.to, parse_scope))
    elif isinstance(value, SpreadLetter | CarriedFrame):
        yield from ((path, parse_scope) for path in (value.source, *value.hosts))
    elif isinstance(value, Struct):
        for field in value.__struct_fields__:
            held = getattr(value, field)
            if (
                field in ("server", "path", "domain", "accuser", "accused", "watcher", "scope", "host", "set")
                and isinstance(held, str)
            ) or (field == "leader" and held):
                yield held, parse_scope
            elif field in ("endpoint", "source") and isinstance(held, str):
                yield held, parse_endpoint
            elif field == "destinations":
                yield from ((each, parse_endpoint) for each in held)
            elif field == "names":
                yield from ((each, group_name) for each in held)
            else:
                yield from names_in(held, group_name)


# Running


def shrunk(case: Case, tries: int = 300) -> bytes:
    """A shorter input that breaks a promise too, for a regression test."""
    octets, step = case.octets, max(1, len(case.octets) // 2)
    while step and tries:
        at = 0
        while at < len(octets) and tries:
            tries -= 1
            shorter = octets[:at] + octets[at + step :]
            try:
                cuts = tuple(min(cut, len(shorter)) for cut in case.cuts)
                check(msgspec.structs.replace(case, octets=shorter, meant=(), cuts=cuts))
            except Broken:
                octets = shorter
            else:
                at += step
        step //= 2
    return octets


def run(
    seed: int, *, cases: int | None = None, seconds: float | None = None, reached: Counter[str] | None = None
) -> Counter[str]:
    """Try cases until one breaks a promise, or enough were tried; how they ended, and what was read."""
    began = shown = time.monotonic()
    endings: Counter[str] = Counter()
    for number in count() if cases is None else range(cases):
        case = make_case(seed, number)
        try:
            items = check(case, weigh=number % 50 == 0)
        except Broken as broken:
            raise Broken(
                f"{broken}\n  replay:  python -m tests.wire.fuzz --replay {seed}/{number}\n"
                f"  shrunk:  {case.kind.name} {shrunk(case).hex()[:4000]}"
            ) from broken
        last = items[-1] if items else None
        endings[type(last).__name__ if isinstance(last, PeerError | Refusal) else "read to the end"] += 1
        if reached is not None:
            reached.update(kinds_in(items))
        now = time.monotonic()
        if seconds is not None and now - shown > 2:
            shown = now
            print(f"\r{now - began:6.0f} s  {number + 1} cases  {dict(endings)}", end="", file=sys.stderr)
        if seconds is not None and now - began > seconds:
            break
    return endings


def kinds_in(items: list[Any]) -> Iterator[str]:
    """The classes of what was read, and of what is in it."""
    for item in items:
        inner = [getattr(item, name, None) for name in ("request", "answer", "notice", "item")]
        for each in (item, *inner, *getattr(item, "messages", ())):
            if isinstance(each, Struct):
                yield type(each).__name__


def replay(text: str) -> None:
    if text.count("/") == 2:
        seed, number, nth = map(int, text.split("/"))
        behind.play_round(seed, number, nth + 1)
        return
    seed, _, number = text.partition("/")
    case = make_case(int(seed), int(number))
    print(f"{case.kind.name}, bent by {', '.join(case.bent_by) or 'nothing'}, cut at {case.cuts}")
    print(case.octets.hex())
    for item in check(case, weigh=True):
        print(repr(item))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.wire.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long to go on, at and behind the door"
    )
    parser.add_argument(
        "--seed", type=int, default=None, help="another seed, other cases; default: the time of day"
    )
    parser.add_argument("--replay", metavar="SEED/CASE", help="one case again")
    options = parser.parse_args()
    reached: Counter[str] = Counter()
    try:
        if options.replay:
            replay(options.replay)
            return
        seed = int(time.time()) if options.seed is None else options.seed
        print(f"{options.seconds:g} s, with seed {seed}", file=sys.stderr, flush=True)
        at = time.monotonic()
        endings = run(seed, seconds=options.seconds / 2, reached=reached)
        behind_at = time.monotonic()
        seen = behind.run(seed, until=lambda: time.monotonic() - behind_at > options.seconds / 2)
    except Broken as broken:
        print(f"\nerror: {broken}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print("\nstopped; no promise was broken until then", file=sys.stderr)
        raise SystemExit(130) from None
    end = time.monotonic()
    thrown = seen.pop(behind.THROWN)
    print(f"\nseed {seed}: every promise held", file=sys.stderr)
    print(f"at the door: {endings.total()} inputs, {endings.total() / (behind_at - at):.0f} a second")
    for counted in (endings, reached):
        print("  " + ", ".join(f"{times} {kind}" for kind, times in sorted(counted.items())))
    print(f"behind it: {thrown} inputs, {thrown / (end - behind_at):.0f} a second")
    for way, kinds in behind.by_way(seen):
        print(f"  {way}: " + ", ".join(f"{times} {kind}" for kind, times in kinds))


if __name__ == "__main__":
    main()
