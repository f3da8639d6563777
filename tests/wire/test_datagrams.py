"""Datagrams: what is packed is what is read, and whatever cannot be believed is nothing."""

from hashlib import blake2b
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from support.amp_samples import AMP_FRAMES, AMP_PARTS
from support.samples import ANN, BLOCK, CHESS, DATA_MESSAGES, H1, HEAD, PARIS, WORLD
from support.spoiling import every_way, spoilable

from rostra.names import Domain
from rostra.protocols.agreed import messages as agreed
from rostra.protocols.agreed.casting import SetFrame
from rostra.protocols.channel.messages import LAN, Call, Datagram, Directory, Unreadable
from rostra.protocols.flow.messages import Data, Run
from rostra.wire.datagrams import Datagrams, SetFrames

DATAGRAMS = Datagrams(WORLD)


def packed(*messages: Any, bytes_max: int = 60_000) -> list[bytes]:
    return [b"".join(pieces) for pieces in DATAGRAMS.pack(CHESS, H1, LAN, messages, bytes_max)]


def read(octets: bytes) -> Datagram | Unreadable:
    return DATAGRAMS.read(octets)


def test_what_is_packed_can_be_read() -> None:
    assert [read(each) for each in packed(*DATA_MESSAGES)] == [Datagram(CHESS, H1, LAN, tuple(DATA_MESSAGES))]


@pytest.mark.spec("X-109")
def test_messages_share_datagrams_as_far_as_they_fit_and_keep_their_order() -> None:
    said = [Data(ANN, Run(number, 2, BLOCK), number, 0) for number in range(1, 200, 2)]
    datagrams = packed(*said, bytes_max=1200)
    assert 2 < len(datagrams) < 20
    assert all(len(each) <= 1200 for each in datagrams)
    assert [message for each in datagrams for message in read(each).messages] == said


def test_a_message_longer_than_a_datagram_should_be_travels_alone() -> None:
    long = Data(ANN, Run(1, 1, b"\xc5\x10\x00" + bytes(4096)), 1, 0)
    assert [
        read(each).messages for each in packed(DATA_MESSAGES[7], long, DATA_MESSAGES[7], bytes_max=1200)
    ] == [
        (DATA_MESSAGES[7],),
        (long,),
        (DATA_MESSAGES[7],),
    ]


def test_a_greeting_says_nothing_but_where_somebody_is() -> None:
    assert read(b"".join(DATAGRAMS.word(CHESS, H1, PARIS, Call(7)))) == Datagram(
        CHESS, H1, PARIS, (), Call(7)
    )


def test_another_world_is_not_ours() -> None:
    [pieces] = Datagrams("another").pack(CHESS, H1, LAN, DATA_MESSAGES, 60_000)
    assert read(b"".join(pieces)) == Unreadable("another world")


@pytest.mark.parametrize("octets", [b"", b"\x01", b"GET / HTTP/1.1\r\n"])
def test_noise_is_nothing(octets: bytes) -> None:
    assert isinstance(read(octets), Unreadable)


@pytest.mark.parametrize("message", spoilable([*DATA_MESSAGES, *AMP_FRAMES, *AMP_PARTS]))
def test_a_spoiled_message_spoils_its_datagram(message: Any) -> None:
    for where, bad in every_way(message):
        [nothing] = [read(each) for each in packed(bad)]
        assert nothing in (Unreadable("bad name or number"), Unreadable("not a datagram")), where


@pytest.mark.parametrize(
    "run",
    [
        Run(1, 3, BLOCK),
        Run(1, 1, BLOCK),
        Run(1, 1, b"\xa2e4"),
        Run(1, 1, b"\xc4\x05e4"),
        Run(1, 2**31, BLOCK),
        Run(1, 2**40, BLOCK),
    ],
    ids=["too few", "too many", "a text", "cut off", "a lie about many", "more than a block can have"],
)
def test_a_block_that_is_not_what_it_says_is_nothing(run: Run) -> None:
    assert [read(each) for each in packed(Data(ANN, run, 1, 0))] == [Unreadable("not a block of messages")]


@pytest.mark.parametrize(
    ("source", "to"), [("EU", ""), (str(H1), "eu..fr"), ("", str(PARIS))], ids=["source", "to", "nobody"]
)
def test_a_bad_name_on_the_way_is_nothing(source: str, to: str) -> None:
    [pieces] = DATAGRAMS.pack(CHESS, Domain(source), Domain(to), DATA_MESSAGES[:1], 60_000)
    assert read(b"".join(pieces)) == Unreadable("bad name or number")


def test_no_damage_makes_the_reader_raise() -> None:
    luck = Random(7)
    [sound] = packed(*DATA_MESSAGES, *AMP_FRAMES, *AMP_PARTS)
    for _ in range(3000):
        octets = bytearray(sound)
        for _ in range(luck.choice((1, 1, 2, 5))):
            octets[luck.randrange(5, len(octets))] = luck.randrange(256)
        del octets[luck.choice((len(octets), len(octets), luck.randrange(len(octets)))) :]
        assert isinstance(read(bytes(octets)), Datagram | Unreadable)


KEY, OTHER = b"k" * 16, b"o" * 16


def sealed(key: bytes) -> bytes:
    [pieces] = DATAGRAMS.pack(CHESS, H1, LAN, DATA_MESSAGES, 60_000, key)
    return b"".join(pieces)


def test_a_sealed_datagram_is_read_with_its_key_and_by_who_needs_none() -> None:
    whole = Datagram(CHESS, H1, LAN, tuple(DATA_MESSAGES))
    assert DATAGRAMS.read(sealed(KEY), lambda source, to: KEY) == whole
    assert DATAGRAMS.read(sealed(KEY)) == whole


@pytest.mark.parametrize("octets", [sealed(b""), sealed(OTHER)], ids=["no seal", "another's"])
def test_who_does_not_know_the_key_speaks_for_nobody(octets: bytes) -> None:
    assert DATAGRAMS.read(octets, lambda source, to: KEY) == Unreadable("not sealed by its speaker")


def test_no_byte_under_a_seal_can_be_changed() -> None:
    octets = sealed(KEY)
    for place in range(5, len(octets)):
        spoiled = bytearray(octets)
        spoiled[place] ^= 1
        assert isinstance(DATAGRAMS.read(bytes(spoiled), lambda source, to: KEY), Unreadable)


@pytest.mark.parametrize(
    "host", [("eu..h1", "10.0.0.1", 1), ("eu.h1", "nowhere", 1), ("eu.h1", "10.0.0.1", 0)]
)
def test_a_directory_leads_nobody_astray(host: tuple[Domain, str, int]) -> None:
    good = Directory("fanout", "", False, ((H1, "10.0.0.1", 7700),))
    assert read(b"".join(DATAGRAMS.word(CHESS, PARIS, H1, good))).word == good
    bad = Directory("fanout", "", False, (host,))
    assert read(b"".join(DATAGRAMS.word(CHESS, PARIS, H1, bad))) == Unreadable("bad name or number")


FRAMES = SetFrames(WORLD)
FRAME = SetFrame(Domain("eu"), Domain("eu.fr"), 7, 3, (Domain("eu"), Domain("eu.de")), agreed.Declined(*HEAD))


def read_frame(octets: bytes) -> SetFrame | Unreadable:
    return FRAMES.read(octets, lambda name, origin: {("eu", "eu.fr"): KEY}.get((name, origin), b""))


@pytest.mark.spec("V-111", "V-113")
def test_a_frame_of_a_set_is_its_origin_s_or_nothing() -> None:
    for frame in (FRAME, replace(FRAME, message=None)):
        assert read_frame(FRAMES.pack(frame, KEY)) == frame
    assert read_frame(FRAMES.pack(FRAME, OTHER)) == Unreadable("not sealed by its speaker")
    assert read_frame(FRAMES.pack(replace(FRAME, origin=Domain("eu.it")), KEY)) == Unreadable("a stranger")
    assert read_frame(SetFrames("another").pack(FRAME, KEY)) == Unreadable("another world")
    assert read_frame(b"") == Unreadable("too short")


def test_a_spoiled_frame_of_a_set_is_nothing() -> None:
    for where, bad in every_way(FRAME):
        assert isinstance(read_frame(FRAMES.pack(bad, KEY)), Unreadable), where


def test_no_damage_makes_the_reader_of_frames_raise() -> None:
    luck, sound = Random(7), FRAMES.pack(FRAME, KEY)
    for _ in range(1000):
        octets = bytearray(sound)
        octets[luck.randrange(5, len(octets))] = luck.randrange(256)
        body = bytes(octets[13:])
        sealed = sound[:5] + blake2b(body, digest_size=8, key=KEY).digest() + body
        assert isinstance(read_frame(bytes(octets)), SetFrame | Unreadable)
        assert isinstance(read_frame(sealed), SetFrame | Unreadable), "of a server that lies"
