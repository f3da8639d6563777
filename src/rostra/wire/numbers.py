"""All message numbers, collected: what two versions of Rostra must agree on.

A number stands beside its message (``tag=7``), and all of them on one page in
`tests/wire/golden/numbers.txt`, which remembers every number ever given; a test compares. A number, once
released, belongs to its message for ever. A message may grow new fields at its end, with defaults: an older
reader skips them. Any other change is a new message with a new number, and the old one stays for as long as
a released version sends it. A reader that gets an unknown number counts it and goes on.
"""

from typing import Any, Final, get_args

from rostra.groups.attributes import AnyAttributes
from rostra.protocols.access.messages import AnyAccessMessage
from rostra.protocols.access.requests import NamesTold
from rostra.protocols.agreed import branch as agreed
from rostra.protocols.agreed.calls import AnyCallMessage, GroupPresented, HostDrained, SetShown
from rostra.protocols.agreed.casting import SetCarried, SetNumber
from rostra.protocols.agreed.messages import AnySetMessage
from rostra.protocols.atomic.messages import AnyStationMessage, CarriedFrame
from rostra.protocols.claims import messages as claims
from rostra.protocols.election import messages as election
from rostra.protocols.flow.messages import AnyDataMessage
from rostra.protocols.front.messages import Answered, AnyRequest, Told
from rostra.protocols.led.messages import AnyLedMessage
from rostra.protocols.led.requests import AnySetAnswer, AnySetNotice
from rostra.protocols.links.packets import AnyPacket
from rostra.protocols.relaxed import messages as relaxed
from rostra.protocols.relaxed.requests import AnySaid
from rostra.protocols.scopes.messages import AnyScopesMessage
from rostra.wire.programs import AnyGroupItem, ToAgent, ToProgram

AgreedMessage = agreed.AnyBranchMessage | AnyCallMessage | AnySetMessage | SetCarried | SetNumber
Shared = relaxed.Message | claims.Message | AnyAccessMessage | AnyScopesMessage
Message = Shared | election.Message | AgreedMessage | AnyLedMessage | CarriedFrame
"""Whatever servers say to each other."""

Numbers = dict[int, type[Any]]


def _numbers(union: Any) -> Numbers:
    """The classes by the numbers that they were given (``tag=7``), in order."""
    kinds = get_args(union)
    table = {kind.__struct_config__.tag: kind for kind in kinds}
    assert len(table) == len(kinds), f"a number was given twice: {sorted(map(str, kinds))}"
    return dict(sorted(table.items()))


PACKETS: Final = _numbers(AnyPacket)
MESSAGES: Final = _numbers(Message)
REQUESTS: Final = _numbers(AnyRequest)
SAID: Final = _numbers(
    AnySaid | GroupPresented | HostDrained | SetShown | AnySetAnswer | AnySetNotice | NamesTold
)
"""Answers of `relaxed` have 1 to 15, its notices 16 and more; `Absolute` is both."""

PROGRAM_FRAMES: Final = _numbers(ToAgent | ToProgram)
ITEMS: Final = _numbers(Answered | Told)
GROUP_ITEMS: Final = _numbers(AnyGroupItem)
"""Items of a group with delivery."""

DATAGRAMS: Final = _numbers(AnyDataMessage | AnyStationMessage)
"""What travels on the data channel of groups, in datagrams."""

ATTRIBUTES: Final = _numbers(AnyAttributes)
"""What services add to a member's record."""

TABLES: Final[dict[str, Numbers]] = {
    "packet": PACKETS,
    "message": MESSAGES,
    "request": REQUESTS,
    "said": SAID,
    "program frame": PROGRAM_FRAMES,
    "item": ITEMS,
    "group item": GROUP_ITEMS,
    "datagram": DATAGRAMS,
    "attributes": ATTRIBUTES,
}

Block = tuple[range, ...]

BLOCKS: Final[dict[str, dict[str, Block]]] = {
    "message": {
        "relaxed": (range(1, 48),),
        "claims": (range(48, 64),),
        "election": (range(64, 128),),
        "fifo": (range(128, 192),),
        "agreed": (range(192, 256),),
        "atomic": (range(256, 320),),
        "led": (range(320, 384),),
        "access": (range(384, 448),),
        "scopes": (range(448, 480),),
    },
    "request": {
        "relaxed": (range(1, 16), range(128, 192)),
        "fifo": (range(16, 32),),
        "agreed": (range(32, 48),),
        "atomic": (range(48, 64),),
        "led": (range(64, 80),),
        "access": (range(80, 96),),
        "scopes": (range(96, 112),),
    },
    "said": {
        "relaxed": (range(1, 32), range(128, 192)),
        "agreed": (range(32, 48),),
        "atomic": (range(48, 64),),
        "led": (range(64, 80),),
        "access": (range(80, 96),),
    },
    "group item": {
        "fifo": (range(1, 32),),
        "agreed": (range(32, 48),),
        "atomic": (range(48, 64),),
        "led": (range(64, 80),),
        "access": (range(80, 96),),
    },
    "datagram": {
        "flow": (range(1, 32),),
        "channel": (range(32, 48),),
        "agreed": (range(48, 64),),
        "atomic": (range(64, 96),),
        "led": (range(96, 112),),
        "access": (range(112, 128),),
    },
    "attributes": {
        "fifo": (range(1, 16),),
        "agreed": (range(16, 32),),
        "atomic": (range(32, 48),),
        "led": (range(48, 64),),
        "access": (range(64, 80),),
    },
}
"""Which service gives the numbers of each table. Protocols that are built side by side cannot collide."""

JOURNAL_BLOCKS: Final[dict[str, tuple[str, ...]]] = {
    "node": ("started", "heartbeat", "closing", "dropped", "sent", "received"),
    "front": ("opened", "closed", "refused", "program-"),
    "relaxed": (
        *("member-joined", "member-left", "followed", "unfollowed", "absolute", "joined", "left"),
        *("without", "only", "gap", "snapshot", "changed", "resolved", "domain-failed", "domain-returned"),
    ),
    "links": ("link-",),
    "fifo": ("delivered", "recovered", "stream-"),
    "claims": ("claimed",),
    "agreed": ("view", "view-agreed", "isolated", "blocked"),
    "atomic": ("ordered", "rejected", "flushed", "state-"),
    "led": ("led",),
    "access": ("access-",),
    "scopes": ("scope-",),
    "sim": ("server-changed", "line-changed", "settled"),
}
"""Kinds of journal rows have names and no numbers: those that each service gives, or all that begin so. Names
of services to come are reserved."""
