"""Nothing hostile gets past the reader: each name, number and text of each message, spoiled one at a time."""

from typing import Annotated, Any

import pytest
from msgspec import Struct
from msgspec.structs import replace
from support import samples
from support.samples import WORLD
from support.spoiling import every_way, spoilable

from rostra.errors import BadInput, Malformed
from rostra.names import Domain, Endpoint
from rostra.names import checks as names
from rostra.protocols.links.packets import Data
from rostra.protocols.relaxed import messages as server
from rostra.protocols.relaxed import requests as program
from rostra.protocols.relaxed.messages import MessageId
from rostra.wire import Ask, BadAsk, Encoder, FrameKind, FrameReader, checks
from rostra.wire.programs import Arena, Asks, Delivery, DeliveryToAll, Lent, ProgramHello, Returned, Tells

HELLO = Encoder(WORLD).packet(samples.PACKETS[0])
PROGRAM_HELLO = Encoder(WORLD).to_agent(samples.TO_AGENT[0])
WELCOME = Encoder(WORLD).to_program(samples.TO_PROGRAM[0])


@pytest.mark.parametrize("message", spoilable(samples.MESSAGES))
def test_a_spoiled_server_message_ends_the_stream(message: Any) -> None:
    for where, bad in every_way(message):
        data = Data(3, 4, 1, 0, (samples.MESSAGES[0], bad))
        _, arrived = FrameReader(WORLD, FrameKind.LINK).feed(HELLO + Encoder(WORLD).packet(data))
        assert isinstance(arrived, Malformed), where
        assert str(arrived).isprintable() and len(str(arrived)) < 1000, where


@pytest.mark.parametrize(
    "packet", spoilable([packet for packet in samples.PACKETS if packet is not samples.PACKETS[2]])
)
def test_a_spoiled_packet_ends_the_stream(packet: Any) -> None:
    for where, bad in every_way(packet):
        *_, arrived = FrameReader(WORLD, FrameKind.LINK).feed(HELLO + Encoder(WORLD).packet(bad))
        assert isinstance(arrived, Malformed), where


@pytest.mark.spec("C-053")
@pytest.mark.parametrize("request_", spoilable(samples.REQUESTS))
def test_a_spoiled_request_is_denied_and_its_neighbours_are_not(request_: Any) -> None:
    for where, wrong in every_way(request_):
        asks = [Ask(1, 7, samples.REQUESTS[0]), Ask(2, 7, wrong), Ask(3, 7, samples.REQUESTS[0])]
        _, first, bad, last = FrameReader(WORLD, FrameKind.TO_AGENT).feed(
            PROGRAM_HELLO + Encoder(WORLD).asks(asks)
        )
        assert (first, last) == (asks[0], asks[2]), where
        assert isinstance(bad, BadAsk) and (bad.token, bad.endpoint) == (2, 7), where
        assert bad.denial().code == "BAD_ARGUMENT" and bad.denial().fix and not bad.denial().retriable


@pytest.mark.parametrize("said", spoilable([each for each in samples.TO_AGENT if not isinstance(each, Asks)]))
def test_a_spoiled_frame_of_a_program_ends_the_stream(said: Any) -> None:
    for where, bad in every_way(said):
        *_, arrived = FrameReader(WORLD, FrameKind.TO_AGENT).feed(
            PROGRAM_HELLO + Encoder(WORLD).to_agent(bad)
        )
        assert isinstance(arrived, Malformed), where


@pytest.mark.parametrize(
    "said",
    spoilable(
        [each for each in samples.TO_PROGRAM if not isinstance(each, Tells | Delivery | DeliveryToAll | Lent)]
    ),
)
def test_a_spoiled_frame_of_an_agent_ends_the_stream(said: Any) -> None:
    for where, bad in every_way(said):
        *_, arrived = FrameReader(WORLD, FrameKind.TO_PROGRAM).feed(WELCOME + Encoder(WORLD).to_program(bad))
        assert isinstance(arrived, Malformed), where


@pytest.mark.parametrize("field", ["endpoint", "first", "count", "arena", "begin", "size"])
@pytest.mark.parametrize("number", [-1, 2**63])
def test_a_block_is_lent_with_sound_numbers_or_not_at_all(field: str, number: int) -> None:
    """Its names a program believes, as in a `Delivery`: the agent has checked them."""
    lent = next(each for each in samples.TO_PROGRAM if isinstance(each, Lent))
    said = Encoder(WORLD).to_program(replace(lent, **{field: number}))
    _, arrived = FrameReader(WORLD, FrameKind.TO_PROGRAM).feed(WELCOME + said)
    assert isinstance(arrived, Malformed)


@pytest.mark.parametrize("field", ["count", "size"])
def test_nothing_is_not_lent(field: str) -> None:
    lent = next(each for each in samples.TO_PROGRAM if isinstance(each, Lent))
    said = Encoder(WORLD).to_program(replace(lent, **{field: 0}))
    assert isinstance(FrameReader(WORLD, FrameKind.TO_PROGRAM).feed(WELCOME + said)[-1], Malformed)


@pytest.mark.parametrize(
    "said",
    [
        Arena(3, 0, bytes(16), 1),
        Arena(3, 2**40, bytes(16), 1),
        Arena(3, 4096, b"", 1),
        Arena(3, 4096, bytes(17), 1),
    ],
)
def test_an_arena_has_a_size_and_a_whole_ticket(said: Arena) -> None:
    octets = WELCOME + Encoder(WORLD).to_program(said)
    assert isinstance(FrameReader(WORLD, FrameKind.TO_PROGRAM).feed(octets)[-1], Malformed)


@pytest.mark.parametrize(
    "said", [Returned(3, ()), Returned(3, (0,) * 65_537), ProgramHello(WORLD, "", ticket=bytes(17))]
)
def test_what_is_given_back_and_shown_is_bounded(said: Any) -> None:
    octets = PROGRAM_HELLO + Encoder(WORLD).to_agent(said)
    assert isinstance(FrameReader(WORLD, FrameKind.TO_AGENT).feed(octets)[-1], Malformed)


@pytest.mark.parametrize(("token", "endpoint"), [(-1, 7), (2**63, 7), (1, -1), (1, 2**63)])
def test_a_token_or_endpoint_number_out_of_range_ends_the_stream(token: int, endpoint: int) -> None:
    asks = Encoder(WORLD).asks([Ask(token, endpoint, samples.REQUESTS[0])])
    _, arrived = FrameReader(WORLD, FrameKind.TO_AGENT).feed(PROGRAM_HELLO + asks)
    assert isinstance(arrived, Malformed)


def test_a_peer_that_invents_names_for_ever_cannot_fill_our_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "KNOWN_NAMES_MAX", 100)
    for number in range(1000):
        checks.check_request(samples.program.Watch(samples.Group(f"g{number}", Domain(f"d{number}"))))
        checks.check_request(samples.program.WatchLife(Endpoint(f"eu.h{number}/a#1")))
        checks.check_packet(
            Data(3, 4, 1, 0, (samples.server.RegistryTold(samples.ID, samples.ROOT, 1, (f"g{number}",)),))
        )
    for good in (
        names.good_own_names,
        names.good_relayed_names,
        names.good_paths,
        names.good_endpoints,
    ):
        assert len(good) <= 100


def test_voters_share_a_mebibyte_at_once_and_not_a_byte_more() -> None:
    most = samples.voter.Shared(bytes(samples.voter.SHARED_BYTES_MAX))
    data = Data(3, 4, 1, 0, (most,))
    assert FrameReader(WORLD, FrameKind.LINK).feed(HELLO + Encoder(WORLD).packet(data))[1:] == [data]

    more = Data(3, 4, 1, 0, (samples.voter.Shared(most.data + b"!"),))
    _, arrived = FrameReader(WORLD, FrameKind.LINK).feed(HELLO + Encoder(WORLD).packet(more))
    assert isinstance(arrived, Malformed) and "Shared" in str(arrived)


NEW_TO_US = (
    "party/\U0003fffd"  # no version of Unicode knows it yet, so none of ours can say if it is printable
)


def test_a_character_from_a_newer_unicode_is_relayed_and_not_let_in() -> None:
    joined = samples.server.ResolveRequest(samples.ID, samples.Group(NEW_TO_US, samples.ROOT))
    data = Data(3, 4, 1, 0, (joined,))
    assert FrameReader(WORLD, FrameKind.LINK).feed(HELLO + Encoder(WORLD).packet(data))[1:] == [data]

    watch = [Ask(1, 7, samples.program.Watch(samples.Group(NEW_TO_US, samples.ROOT)))]
    _, bad = FrameReader(WORLD, FrameKind.TO_AGENT).feed(PROGRAM_HELLO + Encoder(WORLD).asks(watch))
    assert isinstance(bad, BadAsk)


class Wrapped(Struct):
    maybe: Domain | None = None
    pairs: tuple[tuple[int, Endpoint], ...] = ()
    either: server.SyncDone | program.WatchLife | None = None
    about: Annotated[str, names.check_subject] = "eu"


@pytest.mark.parametrize(
    "bad",
    [
        Wrapped(maybe=Domain("EU")),
        Wrapped(pairs=((1, samples.ANN), (2, Endpoint("eu.h1")))),
        Wrapped(either=program.WatchLife(Endpoint("eu.h1"))),
        Wrapped(either=server.SyncDone(MessageId(Domain(""), 1, 1))),
        Wrapped(about="eu/a b"),
    ],
)
def test_a_name_is_checked_wherever_it_stands_in_a_value(bad: Wrapped) -> None:
    check = names.check_of(Wrapped)
    check(Wrapped(Domain("eu"), ((1, samples.ANN),), program.WatchLife(samples.BOB), str(samples.ANN)))
    with pytest.raises(BadInput):
        check(bad)
