"""A number on the wire, once given, is given for ever."""

from pathlib import Path
from typing import Any

import pytest
from support import samples

from rostra.groups.attributes import Attributes, FifoAttributes
from rostra.protocols.access.messages import AccessMessage
from rostra.protocols.agreed.branch import BranchMessage
from rostra.protocols.agreed.messages import SetMessage
from rostra.protocols.atomic.frames import AmpFrame, AmpPiece
from rostra.protocols.atomic.messages import HubMessage, OrderMessage
from rostra.protocols.claims.messages import ClaimMessage
from rostra.protocols.election.messages import ElectionMessage
from rostra.protocols.fifo.events import Item as GroupItem
from rostra.protocols.flow.messages import DataMessage
from rostra.protocols.front.messages import ProgramFrame, ProgramItem
from rostra.protocols.led.messages import LedMessage
from rostra.protocols.links.packets import Packet
from rostra.protocols.relaxed.messages import ServerMessage
from rostra.protocols.relaxed.requests import Request, Said
from rostra.protocols.scopes.messages import ScopesMessage
from rostra.wire.frames import FrameKind
from rostra.wire.numbers import BLOCKS, TABLES

GOLDEN = Path(__file__).parent / "golden" / "numbers.txt"

FAMILIES: dict[str, tuple[type[Any], ...]] = {
    "packet": (Packet,),
    "message": (
        ServerMessage,
        ElectionMessage,
        ClaimMessage,
        BranchMessage,
        SetMessage,
        LedMessage,
        AccessMessage,
        ScopesMessage,
        OrderMessage,
    ),
    "request": (Request,),
    "said": (Said,),
    "program frame": (ProgramFrame,),
    "item": (ProgramItem,),
    "group item": (GroupItem,),
    "datagram": (DataMessage, HubMessage, AmpFrame, AmpPiece),
    "attributes": (Attributes, FifoAttributes),
}


def numbers_now() -> list[str]:
    kinds = [f"frame kind {kind.value} {kind.name}" for kind in FrameKind]
    return kinds + [
        f"{table} {n} {cls.__name__}" for table, known in TABLES.items() for n, cls in known.items()
    ]


def broken_promises(given: list[str], now: list[str]) -> list[str]:
    """Numbers that were given once and mean something else today, or nothing."""
    return sorted(set(given) - set(now))


def test_no_number_ever_given_has_changed_or_vanished(rewrite_goldens: bool) -> None:
    given = GOLDEN.read_text().splitlines() if GOLDEN.exists() else []
    assert broken_promises(given, numbers_now()) == [], "these numbers are taken for ever; use new ones"
    if rewrite_goldens:
        GOLDEN.write_text("".join(f"{line}\n" for line in numbers_now()))
    else:
        assert given == numbers_now(), (
            "new numbers: run  pytest tests/wire --rewrite-goldens  to give them for ever"
        )


@pytest.mark.parametrize(
    ("now", "broken"),
    [
        (["message 1 Joined", "message 2 Left", "message 3 New"], []),
        (["message 1 Joined", "message 3 Left"], ["message 2 Left"]),
        (["message 1 Left", "message 2 Joined"], ["message 1 Joined", "message 2 Left"]),
        (["message 1 Joined"], ["message 2 Left"]),
    ],
    ids=["grown", "moved", "swapped", "vanished"],
)
def test_the_comparison_sees_a_number_that_moved_was_swapped_or_vanished(
    now: list[str], broken: list[str]
) -> None:
    assert broken_promises(["message 1 Joined", "message 2 Left"], now) == broken


@pytest.mark.parametrize("table", TABLES)
def test_each_table_says_what_the_classes_say(table: str) -> None:
    assert {number: cls.__struct_config__.tag for number, cls in TABLES[table].items()} == {
        number: number for number in TABLES[table]
    }


@pytest.mark.parametrize("table", TABLES)
def test_every_class_of_a_family_is_in_its_table_once(table: str) -> None:
    direct = [cls for family in FAMILIES[table] for cls in family.__subclasses__()]
    classes = {*direct, *[each for cls in direct for each in cls.__subclasses__()]}
    assert sorted(TABLES[table].values(), key=str) == sorted(classes, key=str)


@pytest.mark.parametrize("table", TABLES)
def test_everything_with_a_number_has_a_sample(table: str) -> None:
    sampled = {type(sample) for sample in samples.BY_TABLE[table]}
    assert set(TABLES[table].values()) - sampled == set()


@pytest.mark.spec("C-025")
def test_no_message_carries_a_level() -> None:
    fields = {field for known in TABLES.values() for cls in known.values() for field in cls.__struct_fields__}
    assert not {field for field in fields if "level" in field}


def trespassers(table: str, numbers: dict[int, type[Any]]) -> list[str]:
    """Messages whose number another service gives. Attributes stand in `groups/`: their names begin as the
    service does, a delegate being one of FIFO's."""
    found = []
    for number, cls in numbers.items():
        blocks = BLOCKS[table].items()
        owner = next((name for name, block in blocks if any(number in each for each in block)), "")
        of_owner = cls.__module__.startswith(f"rostra.protocols.{owner}.") if table != "attributes" else True
        if not owner or not of_owner:
            found.append(f"{table} {number} {cls.__name__}")
    return found


@pytest.mark.parametrize("table", BLOCKS)
def test_every_number_is_in_the_block_of_its_service(table: str) -> None:
    assert trespassers(table, TABLES[table]) == []


def test_a_number_out_of_its_block_is_found() -> None:
    message = TABLES["message"][1]
    assert trespassers("message", {200: message, 1000: message}) == [
        "message 200 EndpointsJoined",
        "message 1000 EndpointsJoined",
    ]


@pytest.mark.parametrize("table", BLOCKS)
def test_blocks_do_not_meet_and_every_service_to_come_has_one(table: str) -> None:
    numbers = [number for block in BLOCKS[table].values() for each in block for number in each]
    assert len(numbers) == len(set(numbers))
    assert {"agreed", "atomic", "led", "access"} <= set(BLOCKS[table])


def test_every_table_that_services_share_has_blocks() -> None:
    assert set(TABLES) - set(BLOCKS) == {"packet", "program frame", "item"}
