"""What the fuzzer throws behind the door: bytes that the wire passes on unread, at those who decode them.

    attachment     a hostile agent's members join and leave, with whatever attributes
    control        what a hostile agent routes to delegates and members, as programs of its own
    sibling        the same from a hostile delegate of another LAN
    speech         datagrams of a LAN mate and of another delegate, to delegates and members
    mirror         what a hostile replica tells a backup
    envelope       what an aggregate says to be the words of its submitters
    address        where a delegate says that its data is
    run, parity    blocks, counts and sums
    arena          a block of memory as an agent lends it to a program
    recording      what a node wrote down, damaged

The cores are a small world of real ones (`support.fifonet`), in which ann and bob talk. It is made anew
every `ROUND` inputs; to see one input again, those before it in its round are repeated. Whatever the bytes:

- nothing raises, and nothing takes longer than `HANG_S`;
- an agent that speaks for its own host alone leads no data astray, and ann and bob go on talking.
"""

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any

import msgspec
from msgspec import msgpack

from rostra.client.arenas import Loan, ReadArenas
from rostra.core.effects import Received
from rostra.errors import UNDECODABLE, BadInput, BadName, Malformed
from rostra.groups.attributes import AnyAttributes, DelegateAttributes, FifoAttributes
from rostra.groups.kinds import FIFO
from rostra.groups.members import Cause, Member
from rostra.names import ROOT, Domain, Endpoint, Group, parse_endpoint, parse_scope
from rostra.observe import recording
from rostra.protocols.channel.messages import ALL, LAN, Datagram
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo import messages as fifo
from rostra.protocols.fifo.messages import encode
from rostra.protocols.flow import messages as flow
from rostra.protocols.flow.fec import ParityMaker, ParityReader
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import block_of, cut, datagrams, is_sound, payloads, take
from rostra.protocols.relaxed.messages import (
    EndpointLeft,
    EndpointsJoined,
    Interest,
    InterestChanged,
    MessageId,
    Routed,
)
from rostra.replica import Around, Image, read_shared
from rostra.wire.checks import check_message
from rostra.wire.datagrams import Datagrams
from rostra.wire.programs import Lent
from tests.support.fifonet import G, Net
from tests.wire import mutations
from tests.wire.mutations import Broken, require

ROUND = 100
THROWN = "inputs"
HANG_S = 20

A, B, C = Domain("a"), Domain("b"), Domain("c")
HOST = Domain("a.h1")
HOSTILE = Domain("a.h3")  # whose agent is theirs
MALLORY = Endpoint("a.h3/mallory#1")
OTHER = Group("other", ROOT)

ADDRESSES = [
    *("", "6.6.6.6:666", "6.6.6.6:666 " + "00" * 16, "[::1]:7 00 239.1.1.1:9", "h1:1", "nowhere", ":", "h:0"),
    *(
        "6.6.6.6:666 xyz",
        "h" * 64 + ":1",
        "a..b:1",
        "h:1 " + "ab" * 65,
        "h:99999",
        "\u212a:1",
        "h\x00:1",
        "h: 1",
    ),
]

SOUND: dict[Any, list[Any]] = {
    int: [0, 1, 1, 1, 1, 2, 3, 7, 100, 2**31, 2**40, 2**62],
    float: [0.0, 0.001, 0.05, 3.0, 1e9],
    bool: [True, False],
    str: ["", "reflect", "6.6.6.6:666 " + "00" * 16, "h1:1"],
    bytes: [b"", block_of([b"e4"]), block_of([b"e4"] * 3)],
    Domain: [A, A, B, C, Domain("x"), Domain("a.h1"), HOSTILE, Domain("c.h1"), ROOT],
    Endpoint: [
        *map(Endpoint, ("a.h1/ann#1", "b.h1/bob#1", "c.h1/cid#1", "c.h1/new#1", "a.h3/ghost#1", "x.h1/y#9")),
        *map(Endpoint, ("a.-delegate/adhoc#1", "c.-delegate/adhoc#1", "c.-delegate/aggregate#2", MALLORY)),
    ],
    Group: [G, G, G, G, G, OTHER],
}
ODD: dict[Any, list[Any]] = {
    int: [-1, 2**62 + 1, 2**63, 2**64 - 1],
    float: [float("inf"), float("nan"), -1.0],
    bool: [True],
    str: [*ADDRESSES, "\x00", "\ud7ff", "a" * 600],
    bytes: [b"x", b"\xff" * 40, b"\xc6\xff\xff\xff\xff", block_of([b"e4"])[:-1]],
    Domain: ["", ".", "EU", "a..b", "a.-delegate", "a" * 64],
    Endpoint: ["", "a.h1", "a.h1/x", "a.h1/x#-1", "EU/x#1"],
    Group: [Group("", ROOT), Group("g", Domain("a..b")), Group("a!b", ROOT)],
}
"""Of the right type, and wrong."""


# Values of the right shape


def made(kind: Any, luck: Random) -> Any:
    """Any value of this type, mostly with names of this world in it."""
    if kind in SOUND:
        return luck.choice((ODD if luck.random() < 0.02 else SOUND)[kind])
    if kind is Run and luck.random() < 0.95:
        said = [luck.randbytes(luck.choice((0, 2, 2, 300))) for _ in range(luck.choice((1, 1, 3)))]
        return Run(luck.choice(SOUND[int][1:]), len(said), block_of(said))
    if kind is flow.Data and luck.random() < 0.8:  # most are whole
        return flow.Data(*[made(each, luck) for each in (Endpoint, Run, int, int, bool)])
    arguments = getattr(kind, "__args__", ())
    if getattr(kind, "__metadata__", None):
        return made(kind.__origin__, luck)
    if getattr(kind, "__origin__", None) is tuple:
        if arguments[-1] is Ellipsis:
            return tuple([made(arguments[0], luck) for _ in range(luck.choice((0, 1, 1, 2, 5)))])
        return tuple([made(each, luck) for each in arguments])
    if arguments:
        return made(luck.choice(arguments), luck)
    if kind is type(None):
        return None
    if issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        known = [field for field in fields if field.required or luck.random() < 0.8]
        return kind(**{field.name: made(field.type, luck) for field in known})
    return luck.choice(list(kind))  # an enumeration


def bent(octets: bytes, luck: Random) -> bytes:
    """The same, a little or very damaged."""
    for _ in range(luck.choice((0, 0, 0, 0, 0, 1, 1, 2, 4))):
        if luck.random() < 0.5:
            try:
                body = msgpack.decode(octets)
            except (ValueError, RecursionError):
                continue
            lists = [each for each in mutations.walk(body) if isinstance(each, list) and each]
            if lists:
                inner = luck.choice(lists)
                inner[luck.randrange(len(inner))] = luck.choice(SPLINTERS)
            octets = msgpack.encode(body)
        else:
            octets = luck.choice(mutations.BENDS)(octets, luck)
    if luck.random() < 0.01:
        octets += b"\x91" * 20_000
    return octets[:60_000]


SPLINTERS = [*mutations.HOSTILE_VALUES, *SOUND[int], *SOUND[Endpoint], *SOUND[Domain], *ADDRESSES]
CONTROL = list(fifo.Control.__args__)
DATAGRAMS = list(flow.AnyDataMessage.__args__)


def control(luck: Random) -> bytes:
    return bent(encode(made(luck.choice(CONTROL), luck)), luck)


def names_in(value: Any, kind: Any) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Every name in what was decoded, by the types of its fields."""
    if getattr(kind, "__metadata__", None):
        kind = kind.__origin__
    if kind in PARSERS:
        yield value, PARSERS[kind]
    elif isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(type(value)):
            yield from names_in(getattr(value, field.name), field.type)
    elif isinstance(value, tuple):
        kinds = kind.__args__
        for nth, each in enumerate(value):
            yield from names_in(each, kinds[0 if kinds[-1] is Ellipsis else nth])


PARSERS: dict[Any, Callable[[str], object]] = {Domain: parse_scope, Endpoint: parse_endpoint}
CHECKED = (flow.ControlMessage, flow.DataMessage, Around)


def is_accepted(message: Any) -> bool:
    """Does it come through the door?"""
    packet = msgpack.encode(message)
    try:
        check_message(msgpack.decode(packet, type=type(message)))
    except (*UNDECODABLE, BadInput):
        return False
    return True


def is_canonical(name: str, parse: Callable[[str], object]) -> bool:
    try:
        return parse(name) == name
    except BadName:
        return False


# Throwing them


class Target:
    """The world of one round, and what it made of what was thrown at it."""

    def __init__(self, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self.fair = True  # nobody but an agent spoke, and for its own host
        self.misled: list[Any] = []
        self.net = Watched(self, seed)
        net = self.net
        self.ann, self.bob = net.join("a.h1/ann"), net.join("b.h1/bob")
        self.cid = net.join("c.h1/cid")
        self.mallory = net.join("a.h3/mallory")
        net.run(2.0)
        self._number = 0
        self._datagrams = Datagrams("lab")

    def id(self, server: Domain) -> MessageId:
        self._number += 1
        return MessageId(server, 1, self._number)

    def attachment(self, luck: Random) -> None:
        meta = luck.randbytes(luck.choice((0, 1, 16, 256)))
        attributes = self.attributes(luck)
        who = Endpoint(f"a.h3/{luck.choice(('mallory', 'm', 'n', 'o'))}#{luck.choice((1, 2, 3))}")
        stamp = (1, luck.choice((1, 2, self._number + 10, 2**60)))
        group = luck.choice((G, G, G, OTHER))
        if luck.random() < 0.7:
            self.net.step(A, Received(HOSTILE, InterestChanged(self.id(HOSTILE), group, Interest.ALL)))
            members = (Member(who, stamp, meta, luck.choice((None, FIFO, FIFO)), attributes),)
            cause = luck.choice((Cause.JOIN, Cause.MERGE))
            joined = EndpointsJoined(self.id(HOSTILE), group, members, cause)
            if is_accepted(joined):
                self.decoded("attributes", attributes)
                self.net.step(A, Received(HOSTILE, joined))
        else:
            last = luck.choice((None, 0, 1, 2**62))
            left = EndpointLeft(self.id(HOSTILE), group, who, stamp, luck.choice(list(Cause)), meta, last)
            self.net.step(A, Received(HOSTILE, left))

    def attributes(self, luck: Random) -> AnyAttributes | None:
        kind = luck.choice((FifoAttributes, FifoAttributes, DelegateAttributes, None))
        return None if kind is None else made(kind, luck)

    def control(self, luck: Random) -> None:
        data = control(luck)
        self.decoded("control", fifo.decode_control(data))
        self.route(A, HOSTILE, luck.choice((MALLORY, Endpoint("a.h3/ghost#1"))), luck, data)

    def sibling(self, luck: Random) -> None:
        self.fair = False
        data = control(luck)
        self.decoded("sibling", fifo.decode_control(data))
        source = luck.choice(
            ("c.-delegate/adhoc#1", "c.-delegate/adhoc#1", "c.-delegate/adhoc#9", "c.h1/cid#1")
        )
        self.route(luck.choice((A, B)), C, Endpoint(source), luck, data)

    def route(self, at: Domain, by: Domain, source: Endpoint, luck: Random, data: bytes) -> None:
        here = Endpoint(f"{at}.-delegate/adhoc#{luck.choice((0, 0, 1, 7))}")
        to = luck.choice((here, here, self.ann, self.bob, Endpoint("b.-delegate/adhoc#0")))
        self.net.step(at, Received(by, Routed(self.id(by), source, (to,), data)))

    def speech(self, luck: Random) -> None:
        self.fair = False
        messages = [made(luck.choice(DATAGRAMS), luck) for _ in range(luck.choice((1, 1, 3)))]
        to, source = luck.choice(
            ((A, HOSTILE), (A, HOSTILE), (A, C), (Domain("a.h1"), A), (Domain("a.h1"), HOSTILE))
        )
        [pieces] = self._datagrams.pack(G, source, luck.choice((LAN, ALL, to)), messages, 60_000)
        octets = b"".join(pieces)
        read = self._datagrams.read(octets[:5] + bent(octets[5:], luck), lambda source, to: b"")
        if isinstance(read, Datagram) and read.messages:
            for each in read.messages:
                self.decoded("datagram", each)
            self.net.step(to, ev.Heard(read.group, source, read.messages))
        else:
            self.decoded("datagram", None)

    def mirror(self, luck: Random) -> None:
        kind = luck.choice((fifo.Mirror, fifo.MirrorAsked))
        data = bent(encode(made(kind, luck)), luck)
        said = luck.choice((Image(data), Around(made(tuple[Domain, ...], luck))))
        shared = read_shared(bent(msgpack.encode(said), luck))
        self.decoded("shared", shared)
        message = fifo.decode_control(shared.message) if isinstance(shared, Image) else None
        if isinstance(message, fifo.Mirror | fifo.MirrorAsked):
            self.decoded("mirror", message)
            backup = self.net.backups[B]
            backup.step(self.net.now, ev.MirrorReplicated(message.group, message))
            if luck.random() < 0.1:
                backup.step(self.net.now, ev.Appointed(luck.choice((2, 9, 2**60))))
                self.net._have_backup(B, backup.server)

    def envelope(self, luck: Random) -> None:
        self.fair = False
        envelopes = [bent(encode(made(fifo.Envelope, luck)), luck) for _ in range(luck.choice((1, 3)))]
        for each in envelopes:
            self.decoded("envelope", fifo.decode_envelope(each))
        first = luck.choice((1, 1, 2, 7))
        run = Run(first, len(envelopes), block_of(envelopes))
        stream = luck.choice((Endpoint("c.-delegate/aggregate#2"), Endpoint("c.h1/cid#1")))
        self.net.step(HOST, ev.Heard(G, A, (flow.Data(stream, run, run.end - 1, 0),)))

    def address(self, luck: Random) -> None:
        text = "".join(luck.choice(ADDRESSES)[:99] for _ in range(luck.choice((1, 1, 2))))
        if text and luck.random() < 0.5:
            at = luck.randrange(len(text))
            text = (
                text[:at]
                + luck.choice((" ", ":", "]", "%", ".", "\x00", "-", "9", "\u2028"))
                + text[at + 1 :]
            )
        member = Member(Endpoint("c.-delegate/adhoc#1"), (1, 1), b"", FIFO, DelegateAttributes(text))
        joined = EndpointsJoined(self.id(C), G, (member,), Cause.JOIN)
        is_good = is_accepted(joined)
        self.decoded("address", joined if is_good else None)
        if is_good and (where := fifo.whereabouts(text)) is not None:
            for each in (where.at, where.multicast or where.at):
                each.host.encode("idna")  # as whoever looks it up will
                require(0 < each.port < 65_536 and len(where.key) <= 64, f"{where} is nowhere")

    def run(self, luck: Random) -> None:
        said = [luck.randbytes(luck.choice((0, 2, 2, 300))) for _ in range(luck.choice((1, 3, 20)))]
        count = len(said) if luck.random() < 0.5 else luck.choice((*SOUND[int], *ODD[int][1:]))
        run = Run(1, count, bent(block_of(said), luck))
        sound = is_sound(run)
        self.decoded("run", run if sound else None)
        if sound:
            require(len(payloads(run)) == run.count, "a sound run is as long as it says")
            half = cut(run, 1, 1 + max(1, run.count // 2))
            require(is_sound(half) and 0 < take(run, 10) <= run.count, "a cut run is sound")
            pieces = list(datagrams(flow.Data(self.ann, run, run.end, 0), 64))
            require(b"".join(piece.run.block for piece in pieces) == run.block, "pieces make the whole")

    def parity(self, luck: Random) -> None:
        """A sum may be of frames that would not have been let in."""
        maker, reader = ParityMaker(luck.choice((2, 4))), ParityReader()
        frames: list[Any] = []
        for _ in range(8):
            frames += maker.add(made(flow.Data, luck))
        frames += [made(luck.choice((flow.Parity, flow.Numbered)), luck) for _ in range(2)]
        luck.shuffle(frames)
        for frame in frames[2:]:
            [pieces] = self._datagrams.pack(G, C, A, [frame], 60_000)
            octets = b"".join(pieces)
            read = self._datagrams.read(octets[:5] + bent(octets[5:], luck))
            for each in read.messages if isinstance(read, Datagram) else ():
                if isinstance(each, flow.Numbered | flow.Parity):
                    for data in reader.hear(each):
                        self.decoded("parity", data)
                        require(is_sound(data.run) or data.size > 0, "rebuilt, and not sound")

    def arena(self, luck: Random) -> None:
        block = msgpack.encode([luck.randbytes(3) for _ in range(3)])
        lent = Lent(1, G, self.ann, 1, 3, 0.0, 1, 0, len(block))
        try:
            bodies = Loan(ReadArenas(None, list), memoryview(bent(block, luck)), lent).read()
            self.decoded("arena", bodies)
        except Malformed:
            self.decoded("arena", None)

    def recording(self, luck: Random) -> None:
        packets = recording.Packets("lab")
        said = [bent(msgpack.encode(made(luck.choice(RECORDED), luck)), luck) for _ in range(3)]
        part = b"".join(len(word).to_bytes(4, "little") + word for word in said)
        try:
            for word in recording.words(luck.choice((part, bent(part, luck)))):
                self.decoded("recording", word)
                if not isinstance(word, recording.Began):
                    recording.events(word, packets)  # type: ignore[arg-type]
        except BadInput:
            self.decoded("recording", None)

    # What became of it

    def decoded(self, what: str, found: Any) -> None:
        self.seen[f"{what}: {'nothing' if found is None else type(found).__name__}"] += 1
        for name, parse in names_in(found, type(found)) if isinstance(found, CHECKED) else ():
            require(is_canonical(name, parse), f"{name!r} got through")

    def look(self) -> None:
        """At the end of a round: has anybody noticed?"""
        if not self.fair:
            return
        require(self.misled == [], f"an agent of a led data to {self.misled}")
        self.net.send(self.ann)
        self.net.send(self.bob)
        self.net.run(5.0)
        require(self.net.numbers(self.bob, self.ann) == [1], "bob does not hear ann any more")
        require(self.net.numbers(self.ann, self.bob) == [1], "ann does not hear bob any more")


class Watched(Net):
    """It remembers where cores were led."""

    check_every = 1 << 60  # what hosts that lie make of the numbers of others is not looked at

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        super().__init__(seed, {"a": 3, "b": 1, "c": 1}, replicas=True)

    def _perform(self, node: Domain, effect: Any) -> None:
        if isinstance(effect, ev.Located):
            self._target.misled.append((node, effect))
        super()._perform(node, effect)

    def _deliver(self, endpoint: Endpoint, item: ev.Item) -> None:
        if self._target.fair:  # what others say in the name of ann is not what she said
            super()._deliver(endpoint, item)


RECORDED = [
    recording.Turn,
    recording.Arrived,
    recording.OpenedChannel,
    recording.Closed,
    recording.Spoken,
    recording.Met,
    recording.Gave,
]

FAIR = [Target.attachment, Target.attachment, Target.control, Target.control]
WAYS: list[Callable[[Target, Random], None]] = [
    *FAIR,
    *(Target.sibling, Target.sibling, Target.speech, Target.speech, Target.mirror, Target.envelope),
    *(Target.address, Target.run, Target.parity, Target.arena, Target.recording),
]


# Running


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    """What would hang for ever is found, too."""

    def ring(number: int, frame: Any) -> None:
        raise Broken(f"this takes more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def play_round(seed: int, number: int, until: int = ROUND) -> Counter[str]:
    """A round of inputs, up to one of them; what they were taken for. Every other round is fair."""
    luck = Random(f"behind/{seed}/{number}")
    target = Target(luck.getrandbits(32))
    ways = FAIR if number % 2 else WAYS
    for nth in range(until):
        way = luck.choice(ways)
        one = Random(luck.getrandbits(64))
        try:
            with no_longer_than(HANG_S):
                way(target, one)
                target.net.run(one.choice((0.0, 0.001, 0.05, 1.0)))
                if nth == ROUND - 1:
                    target.look()
            target.seen[THROWN] += 1
        except Exception as error:
            place = f"{seed}/{number}/{nth}"
            raise Broken(
                f"{way.__name__}: {type(error).__name__}: {error}\n"
                f"  replay:  python -m tests.wire.fuzz --replay {place}"
            ) from error
    return target.seen


def run(seed: int, *, rounds: int | None = None, until: Callable[[], bool] = lambda: False) -> Counter[str]:
    seen: Counter[str] = Counter()
    for number in count() if rounds is None else range(rounds):
        if until():
            break
        seen += play_round(seed, number)
    return seen


def by_way(seen: Counter[str]) -> list[tuple[str, list[tuple[str, int]]]]:
    """What was counted, sorted by the way it was thrown."""
    ways: dict[str, list[tuple[str, int]]] = {}
    for name, times in sorted(seen.items()):
        way, _, kind = name.partition(": ")
        ways.setdefault(way, []).append((kind, times))
    return sorted(ways.items())
