"""Frames: bounds, versions, worlds, parts; and that nothing depends on how the bytes are cut."""

import tracemalloc

import pytest
from msgspec.msgpack import encode
from support import samples
from support.samples import CHESS, H1, ID, WORLD

from rostra.errors import Malformed, PeerError, TooLarge, Unreachable, WrongVersion, WrongWorld
from rostra.groups.members import Cause, Member
from rostra.names import Endpoint
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.packets import Beat, Data, Hello
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import EndpointsJoined
from rostra.protocols.relaxed.requests import Open, SendTo
from rostra.wire import (
    ANY_WORLD,
    FRAME_BYTES_MAX,
    HANDSHAKE_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    WIRE_VERSION,
    Arrived,
    Ask,
    Encoder,
    FrameKind,
    FrameReader,
    Ping,
    ProgramHello,
    Refusal,
    world_tag,
)
from rostra.wire.frames import BODY_BOUND, BODY_BYTES_MAX, HEADER, PACKET_MESSAGES_MAX, frame

ENCODER = Encoder(WORLD)
HELLO = ENCODER.packet(samples.PACKETS[0])
BEAT = ENCODER.packet(Beat(3, 4, 5))


def link() -> FrameReader:
    return FrameReader(WORLD, FrameKind.LINK)


def greeted() -> FrameReader:
    reader = link()
    assert reader.feed(HELLO) == samples.PACKETS[:1]
    return reader


def header(
    length: int, *, version: int = WIRE_VERSION, kind: int = FrameKind.LINK, world: str = WORLD
) -> bytes:
    return HEADER.pack(length, version, kind, world_tag(world))


def part(body: bytes) -> bytes:
    return header(6 + len(body), kind=FrameKind.PART) + body


def only(arrived: list[Arrived]) -> Arrived:
    [item] = arrived
    return item


# Cutting


def test_bytes_may_arrive_one_at_a_time() -> None:
    octets = b"".join(map(ENCODER.packet, samples.PACKETS))
    reader = link()
    assert [item for at in range(len(octets)) for item in reader.feed(octets[at : at + 1])] == samples.PACKETS
    assert reader.bytes_held == 0


def test_an_incomplete_frame_is_kept_and_nothing_else() -> None:
    reader = greeted()
    assert reader.feed(BEAT + BEAT[:7]) == [Beat(3, 4, 5)]
    assert reader.bytes_held == 7
    assert reader.feed(BEAT[7:]) == [Beat(3, 4, 5)]


# Sizes


@pytest.mark.spec("C-084")
@pytest.mark.parametrize("length", [FRAME_BYTES_MAX - 3, 2**31, 2**32 - 1])
def test_a_frame_above_one_mebibyte_is_refused_by_its_length_alone(length: int) -> None:
    reader = greeted()
    tracemalloc.start()
    error = only(reader.feed(header(length)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(error, Malformed) and str(length + 4) in str(error)
    assert reader.over and reader.bytes_held == 0
    assert peak < 16_384


@pytest.mark.parametrize("length", range(6))
def test_a_frame_too_short_for_its_own_header_is_refused(length: int) -> None:
    assert isinstance(only(greeted().feed(header(length))), Malformed)


def test_the_longest_frame_is_one_mebibyte_and_travels_whole() -> None:
    data = Data(3, 4, 1, 0, (EndpointsJoined(ID, CHESS, (Member(samples.ANN, (7, 1), b""),), Cause.JOIN),))
    spare = FRAME_BYTES_MAX - len(ENCODER.packet(data)) - 3  # a longer byte string has a longer length
    for extra, frames in ((0, 1), (1, 2)):
        member = Member(samples.ANN, (7, 1), b"m" * (spare + extra))
        data = Data(3, 4, 1, 0, (EndpointsJoined(ID, CHESS, (member,), Cause.JOIN),))
        octets = ENCODER.packet(data)
        assert len(octets) == FRAME_BYTES_MAX + (frames - 1) * HEADER.size + extra
        assert greeted().feed(octets) == [data]


@pytest.mark.spec("C-084")
def test_fifty_thousand_members_travel_in_parts_and_arrive_as_one_message() -> None:
    members = tuple(Member(Endpoint(f"{H1}/web-{n:05}#{n}"), (7, n)) for n in range(50_000))
    data = Data(3, 4, 1, 0, (EndpointsJoined(ID, CHESS, members, Cause.MERGE),))
    octets = ENCODER.packet(data)
    assert len(octets) > FRAME_BYTES_MAX
    reader = greeted()
    chunks = [octets[at : at + 100_000] for at in range(0, len(octets), 100_000)]
    assert [item for chunk in chunks for item in reader.feed(chunk)] == [data]
    assert reader.bytes_held == 0


def test_before_the_handshake_nobody_gets_more_than_64_kibibytes() -> None:
    error = only(link().feed(header(HANDSHAKE_BYTES_MAX + 7)))
    assert isinstance(error, Malformed) and "before the handshake" in str(error)
    assert link().feed(header(HANDSHAKE_BYTES_MAX + 6)) == []


def test_a_message_that_never_ends_is_refused_at_64_mebibytes() -> None:
    reader = greeted()
    full = part(b"\x90" * BODY_BYTES_MAX)
    most = 0
    for _ in range(2 * MESSAGE_BYTES_MAX // FRAME_BYTES_MAX):
        arrived = reader.feed(full)
        most = max(most, reader.bytes_held)
        if arrived:
            break
    assert isinstance(only(arrived), Malformed)
    assert MESSAGE_BYTES_MAX - FRAME_BYTES_MAX < most <= MESSAGE_BYTES_MAX
    assert reader.bytes_held == 0


def test_a_program_has_room_for_one_message_of_a_mebibyte_and_no_more() -> None:
    reader = FrameReader(WORLD, FrameKind.TO_AGENT)
    assert reader.feed(ENCODER.to_agent(ProgramHello(WORLD, "web.py"))) == [ProgramHello(WORLD, "web.py")]
    assert reader.feed(part(b"\x90" * BODY_BYTES_MAX)) == []
    assert reader.feed(part(b"\x90" * (BODY_BOUND[FrameKind.TO_AGENT] - BODY_BYTES_MAX))) == []
    assert isinstance(only(reader.feed(part(b"\x90"))), Malformed)


def test_we_do_not_write_what_a_peer_would_refuse() -> None:
    with pytest.raises(TooLarge):
        ENCODER.asks([Ask(1, 7, SendTo((samples.ANN,), bytes(2 * FRAME_BYTES_MAX)))])
    with pytest.raises(TooLarge):
        routed = samples.server.Routed(ID, samples.ANN, (samples.BOB,), bytes(MESSAGE_BYTES_MAX))
        ENCODER.packet(Data(3, 4, 1, 0, (routed,)))


def test_a_packet_of_more_messages_than_a_peer_takes_is_neither_written_nor_read() -> None:
    full = Data(3, 4, 1, 0, (samples.server.SyncDone(ID),) * PACKET_MESSAGES_MAX)
    assert greeted().feed(ENCODER.packet(full)) == [full]
    over = Data(3, 4, 1, 0, (*full.messages, full.messages[0]))
    with pytest.raises(TooLarge):
        ENCODER.packet(over)
    assert isinstance(only(greeted().feed(frame(FrameKind.LINK, world_tag(WORLD), encode(over)))), Malformed)


@pytest.mark.parametrize("links", [LinkConfig.lan(), LinkConfig.wan()])
def test_the_largest_packet_that_programs_can_fill_can_be_sent(links: LinkConfig) -> None:
    """Otherwise it would be sent again and again, for ever, and nothing after it."""
    longest = bytes(RelaxedConfig().ns_message_bytes_max)
    routed = samples.server.Routed(ID, samples.ANN, (samples.BOB,) * 100, longest)
    packet = Data(3, 4, 1, 0, (routed,) * links.packet_messages_max)
    assert len(ENCODER.packet(packet)) < MESSAGE_BYTES_MAX


def test_many_requests_share_a_frame_until_it_is_full() -> None:
    reader = FrameReader(WORLD, FrameKind.TO_AGENT)
    reader.feed(ENCODER.to_agent(ProgramHello(WORLD, "web.py")))
    few = [Ask(n, 7, Open("web-1")) for n in range(100)]
    assert ENCODER.asks(few).count(world_tag(WORLD)) == 1
    many = [Ask(n, 7, SendTo((samples.ANN,), bytes(60_000))) for n in range(50)]
    octets = ENCODER.asks(many)
    assert octets.count(world_tag(WORLD)) > 2
    assert reader.feed(octets) == many


# Parts


def test_a_part_must_carry_something_and_come_after_the_handshake() -> None:
    assert isinstance(only(greeted().feed(part(b""))), Malformed)
    assert isinstance(only(link().feed(part(b"x"))), Malformed)


def test_parts_are_joined_before_they_are_decoded() -> None:
    body = BEAT[HEADER.size :]
    for cut in range(1, len(body)):
        octets = part(body[:cut]) + header(6 + len(body) - cut) + body[cut:]
        assert greeted().feed(octets + BEAT) == [Beat(3, 4, 5), Beat(3, 4, 5)]


def test_a_part_sent_twice_spoils_the_message() -> None:
    body = BEAT[HEADER.size :]
    octets = part(body[:2]) + part(body[:2]) + header(6 + len(body) - 2) + body[2:]
    assert isinstance(only(greeted().feed(octets)), Malformed)


# Versions and worlds


@pytest.mark.spec("C-184")
def test_another_wire_version_is_refused_with_both_versions_named() -> None:
    error = only(link().feed(header(6, version=9)))
    assert isinstance(error, WrongVersion)
    assert "version 9" in error.what and f"speak {WIRE_VERSION}" in error.what and error.fix


def test_another_world_is_refused_with_both_worlds_named() -> None:
    error = only(link().feed(Encoder("mars").packet(Hello(3, 0, "mars", H1, 7, 0))))
    assert isinstance(error, WrongWorld)
    assert "'mars'" in error.what and f"{WORLD!r}" in error.what


@pytest.mark.parametrize("kind", [FrameKind.TO_AGENT, FrameKind.TO_PROGRAM])
def test_a_program_or_agent_of_another_world_is_refused_by_name_too(kind: FrameKind) -> None:
    mars = Encoder("mars")
    greeting = {
        FrameKind.TO_AGENT: mars.to_agent(ProgramHello("mars", "web.py")),
        FrameKind.TO_PROGRAM: mars.to_program(samples.ProgramWelcome("mars", H1, 7)),
    }
    error = only(FrameReader(WORLD, kind).feed(greeting[kind]))
    assert isinstance(error, WrongWorld) and "'mars'" in error.what


def test_a_frame_that_strays_in_from_another_world_is_refused_after_the_handshake_too() -> None:
    error = only(greeted().feed(Encoder("mars").packet(Beat(3, 4, 5))))
    assert isinstance(error, WrongWorld) and world_tag("mars").hex() in error.what


def test_a_greeting_that_forges_the_tag_is_refused_by_the_name_in_it() -> None:
    error = only(link().feed(ENCODER.packet(Hello(3, 0, "mars", H1, 7, 0))))
    assert isinstance(error, WrongWorld) and "'mars'" in error.what


def test_a_world_name_that_is_not_fit_to_print_is_not_printed() -> None:
    error = only(link().feed(Encoder("\x1b[2J").packet(Hello(3, 0, "\x1b[2J", H1, 7, 0))))
    assert (
        isinstance(error, WrongWorld)
        and error.what.isprintable()
        and world_tag("\x1b[2J").hex() in error.what
    )


def test_a_program_may_leave_its_world_open_and_learns_it_from_the_welcome() -> None:
    open_end = Encoder(ANY_WORLD)
    agent = FrameReader(WORLD, FrameKind.TO_AGENT)
    assert agent.feed(open_end.to_agent(ProgramHello(ANY_WORLD, "web.py"))) == [
        ProgramHello(ANY_WORLD, "web.py")
    ]
    assert agent.feed(ENCODER.to_agent(Ping(1))) == [Ping(1)]
    assert isinstance(only(agent.feed(open_end.to_agent(Ping(1)))), WrongWorld)

    program = FrameReader(ANY_WORLD, FrameKind.TO_PROGRAM)
    welcome = samples.TO_PROGRAM[0]
    assert program.feed(ENCODER.to_program(welcome)) == [welcome] and program.world == WORLD
    assert isinstance(only(program.feed(Encoder("mars").to_program(Ping(1)))), WrongWorld)


def test_nobody_but_a_program_may_leave_its_world_open() -> None:
    open_end = Encoder(ANY_WORLD)
    hello = Hello(3, 0, ANY_WORLD, H1, 7, 0)
    assert isinstance(only(link().feed(open_end.packet(hello))), WrongWorld)
    assert isinstance(only(link().feed(ENCODER.packet(hello))), WrongWorld)
    welcome = open_end.to_program(samples.ProgramWelcome(ANY_WORLD, H1, 7))
    assert isinstance(only(FrameReader(ANY_WORLD, FrameKind.TO_PROGRAM).feed(welcome)), Malformed)
    assert isinstance(only(FrameReader(WORLD, FrameKind.TO_PROGRAM).feed(welcome)), WrongWorld)


# The handshake


@pytest.mark.parametrize("packet", [each for each in samples.PACKETS if not isinstance(each, Hello)])
def test_nothing_is_heard_before_the_greeting(packet: samples.Any) -> None:
    error = only(link().feed(ENCODER.packet(packet)))
    assert isinstance(error, Malformed) and "before the handshake" in error.what


def test_a_port_for_neighbours_and_programs_serves_whom_the_first_frame_is_from() -> None:
    hello = ENCODER.to_agent(ProgramHello(WORLD, "web.py"))
    ping = ENCODER.to_agent(Ping(1))

    as_program = FrameReader(WORLD, FrameKind.LINK, FrameKind.TO_AGENT)
    assert as_program.feed(hello + ping) == [ProgramHello(WORLD, "web.py"), Ping(1)]
    assert isinstance(only(as_program.feed(BEAT)), Malformed)

    as_neighbour = FrameReader(WORLD, FrameKind.LINK, FrameKind.TO_AGENT)
    assert as_neighbour.feed(HELLO + BEAT) == [samples.PACKETS[0], Beat(3, 4, 5)]
    assert isinstance(only(as_neighbour.feed(ping)), Malformed)


@pytest.mark.parametrize("kind", [0, 6, 255])
def test_a_kind_of_frame_that_does_not_exist_is_refused(kind: int) -> None:
    assert isinstance(only(greeted().feed(header(7, kind=kind) + b"\xc0")), Malformed)


# The end


def test_a_broken_frame_ends_the_stream_and_what_came_before_counts() -> None:
    reader = greeted()
    beat, error = reader.feed(BEAT + header(7) + b"\xc1" + BEAT)
    assert beat == Beat(3, 4, 5) and isinstance(error, Malformed)
    assert reader.over and reader.feed(BEAT) == [] and reader.bytes_held == 0


def test_an_error_does_not_keep_the_peers_bytes_alive() -> None:
    error = only(greeted().feed(header(7) + b"\xc1"))
    assert isinstance(error, PeerError)
    assert error.__traceback__ is None and error.__context__ is None and error.__cause__ is None


@pytest.mark.parametrize("version", [WIRE_VERSION, 9])
@pytest.mark.parametrize("world", [WORLD, "mars"])
def test_a_refusal_is_understood_whatever_world_and_version_it_comes_from(version: int, world: str) -> None:
    octets = bytearray(Encoder(world).refusal(WrongWorld("no", fix="go away")))
    octets[4] = version
    reader = link()
    refusal = only(reader.feed(bytes(octets) + BEAT))
    assert isinstance(refusal, Refusal) and reader.over
    error = refusal.error()
    assert isinstance(error, WrongWorld) and (error.what, error.fix) == ("no", "go away")


def test_a_refusal_keeps_its_class_and_an_unknown_code_is_a_peer_error() -> None:
    assert type(Refusal.of(Unreachable("draining")).error()) is Unreachable
    assert type(Refusal("BRAND_NEW", "no").error()) is PeerError


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x93\xa1x\xa1\x07\xa1y", b"\x92\xa1x\xda\x02\x01" + b"y" * 513]
)
def test_a_refusal_that_cannot_be_read_or_shown_is_still_a_refusal(body: bytes) -> None:
    octets = header(6 + len(body), kind=FrameKind.REFUSAL) + body
    assert only(link().feed(octets)) == Refusal(
        "PEER_ERROR", "the peer refused us, and its reason cannot be read"
    )
