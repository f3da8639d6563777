"""Golden bytes: what is on the wire today is what was on the wire yesterday, and can still be read.

`pytest tests/wire --rewrite-goldens` writes them anew. A line that changes is a change of the wire format:
only additions are compatible.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import samples
from support.samples import WORLD

from rostra.errors import WrongWorld
from rostra.protocols.links.packets import Data, Hello
from rostra.wire import Encoder, FrameKind, FrameReader, Refusal, frames, shapes
from rostra.wire.programs import Asks, Tells

GOLDEN = Path(__file__).parent / "golden" / "vectors.txt"


def bodies() -> dict[str, tuple[Any, bytes]]:
    """Every sample by name, with the bytes of its body."""
    found: dict[str, tuple[Any, bytes]] = {}
    for table, values in samples.BY_TABLE.items():
        for value in values:
            name = f"{table} {type(value).__name__}"
            same = sum(1 for other in found if other.rpartition(" ")[0] == name)
            found[f"{name} {same + 1}"] = (value, msgspec.msgpack.encode(value))
    return found


def whole_frames(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    encoder = Encoder(WORLD)
    vectors = {
        "frame LINK": encoder.packet(samples.PACKETS[0]),
        "frame TO_AGENT": encoder.to_agent(samples.TO_AGENT[0]),
        "frame TO_PROGRAM": encoder.to_program(samples.TO_PROGRAM[0]),
        "frame REFUSAL": encoder.refusal(WrongWorld("you are of world 'A'", fix="check the address")),
    }
    with monkeypatch.context() as small:
        small.setattr(frames, "BODY_BYTES_MAX", 40)
        vectors["frame PART PART LINK"] = encoder.packet(Data(3, 4, 1, 0, (samples.MESSAGES[0],)))
    return vectors


def read_goldens() -> dict[str, bytes]:
    lines = (line.rpartition("  ") for line in GOLDEN.read_text().splitlines())
    return {name.strip(): bytes.fromhex(octets) for name, _, octets in lines}


def test_everything_is_encoded_as_it_always_was(
    monkeypatch: pytest.MonkeyPatch, rewrite_goldens: bool
) -> None:
    now = {name: body for name, (_, body) in bodies().items()} | whole_frames(monkeypatch)
    if rewrite_goldens:
        GOLDEN.write_text("".join(f"{name:32}  {octets.hex()}\n" for name, octets in now.items()))
    assert read_goldens() == now


@pytest.mark.parametrize("name", bodies())
def test_golden_bytes_still_mean_what_they_meant(name: str) -> None:
    value, _ = bodies()[name]
    octets = read_goldens()[name]
    read = msgspec.msgpack.decode(octets, type=type(value))
    if isinstance(value, Data):
        messages = tuple(msgspec.msgpack.decode(octets, type=shapes.WholeData).messages)
        read = Data(read.mine, read.yours, read.number, read.received, messages)
    assert read == value


def test_golden_frames_are_read_as_what_they_were_made_of() -> None:
    golden = read_goldens()

    def read(kind: FrameKind, *names: str) -> list[Any]:
        return FrameReader(WORLD, kind).feed(b"".join(golden[name] for name in names))

    assert read(FrameKind.TO_AGENT, "frame TO_AGENT") == samples.TO_AGENT[:1]
    assert read(FrameKind.TO_PROGRAM, "frame TO_PROGRAM") == samples.TO_PROGRAM[:1]
    assert read(FrameKind.LINK, "frame REFUSAL") == [
        Refusal("WRONG_WORLD", "you are of world 'A'", "check the address")
    ]
    hello, data = read(FrameKind.LINK, "frame LINK", "frame PART PART LINK")
    assert isinstance(hello, Hello) and hello == samples.PACKETS[0]
    assert data == Data(3, 4, 1, 0, (samples.MESSAGES[0],))


def test_what_is_encoded_can_be_read_back() -> None:
    encoder = Encoder(WORLD)
    link = FrameReader(WORLD, FrameKind.LINK)
    assert link.feed(b"".join(map(encoder.packet, samples.PACKETS))) == samples.PACKETS

    agent = FrameReader(WORLD, FrameKind.TO_AGENT)
    said = [each for each in samples.TO_AGENT if not isinstance(each, Asks)]
    octets = b"".join(map(encoder.to_agent, said)) + encoder.asks(samples.ASKS)
    assert agent.feed(octets) == [*said, *samples.ASKS]

    program = FrameReader(WORLD, FrameKind.TO_PROGRAM)
    told = [each for each in samples.TO_PROGRAM if not isinstance(each, Tells)]
    octets = b"".join(map(encoder.to_program, told)) + encoder.tells(samples.ITEMS)
    assert program.feed(octets) == [*told, *samples.ITEMS]
