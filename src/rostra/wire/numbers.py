"""The number of everything that has one: all that two versions of Rostra must agree on, on one page.

A number, once released, belongs to its message for ever. A message may grow new fields at its end, with
defaults: an older reader skips them. Anything else is a new message with a new number, and the old one stays
in the table for as long as anybody may still send it. A reader that meets a number it does not know counts it
and goes on.

`tests/wire/golden/numbers.txt` remembers every number ever given; a test compares.
"""

from typing import Any, Final

from rostra.groups.attributes import DelegateAttributes, FifoAttributes
from rostra.protocols.claims.messages import Claim, ClaimAnswer, ClaimReleased
from rostra.protocols.election.messages import (
    LeaderAnnounced,
    PreVoteGranted,
    PreVoteRefused,
    PreVoteRequest,
    RecordReplicated,
    ReplicateAll,
    ReplicateRecord,
    Shared,
    VoteGranted,
    VoteRefused,
    VoteRequest,
)
from rostra.protocols.fifo import events as spoken
from rostra.protocols.fifo.requests import Enter, Exit
from rostra.protocols.flow import messages as speech
from rostra.protocols.links.packets import Beat, Bye, Data, Hello
from rostra.protocols.relaxed.messages import (
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    Inquiry,
    InterestChanged,
    LifeAsked,
    LifeTold,
    RegistryTold,
    Report,
    ResolveReply,
    ResolveRequest,
    Routed,
    SyncDone,
    Undeliverable,
)
from rostra.protocols.relaxed.requests import (
    Absolute,
    Changed,
    Close,
    Denied,
    Done,
    Gap,
    Inspect,
    Inspected,
    Join,
    Joined,
    Leave,
    Left,
    Life,
    Message,
    NotDelivered,
    Only,
    Open,
    Opened,
    PutOut,
    Recall,
    Recalled,
    Register,
    Resolve,
    Resolved,
    SendTo,
    SetOnline,
    Snapshot,
    Unregister,
    Unwatch,
    UnwatchLife,
    Watch,
    WatchLife,
    Without,
)
from rostra.wire.programs import (
    Answered,
    Arena,
    Asks,
    Delivery,
    Goodbye,
    Lent,
    Mapped,
    Ping,
    Pong,
    ProgramHello,
    ProgramWelcome,
    Reading,
    Retired,
    Returned,
    Submit,
    Tells,
    Told,
)

Numbers = dict[int, type[Any]]

PACKETS: Final[Numbers] = {
    1: Hello,
    2: Data,
    3: Beat,
    4: Bye,
}

MESSAGES: Final[Numbers] = {
    1: EndpointsJoined,
    2: EndpointLeft,
    3: DomainFailed,
    4: ResolveRequest,
    5: ResolveReply,
    6: InterestChanged,
    7: SyncDone,
    8: Routed,
    9: Undeliverable,
    10: LifeAsked,
    11: LifeTold,
    12: RegistryTold,
    13: Inquiry,
    14: Report,
    48: Claim,
    49: ClaimReleased,
    50: ClaimAnswer,
    64: PreVoteRequest,
    65: PreVoteGranted,
    66: PreVoteRefused,
    67: VoteRequest,
    68: VoteGranted,
    69: VoteRefused,
    70: LeaderAnnounced,
    71: Shared,
    72: ReplicateRecord,
    73: RecordReplicated,
    74: ReplicateAll,
}

REQUESTS: Final[Numbers] = {
    1: Open,
    2: Close,
    3: Join,
    4: Leave,
    5: Resolve,
    6: SetOnline,
    7: Watch,
    8: Unwatch,
    9: SendTo,
    10: WatchLife,
    11: UnwatchLife,
    12: Register,
    13: Unregister,
    14: Inspect,
    15: Recall,
    16: Enter,
    17: Exit,
}

# Answers of `relaxed` have 1 to 15, its notices 16 and more; `Absolute` is both.
SAID: Final[Numbers] = {
    1: Opened,
    2: Done,
    3: Denied,
    4: Resolved,
    5: Inspected,
    6: Recalled,
    16: Absolute,
    17: Joined,
    18: Left,
    19: Only,
    20: Without,
    21: Message,
    22: NotDelivered,
    23: Life,
    24: Gap,
    25: Snapshot,
    26: Changed,
    27: PutOut,
}

PROGRAM_FRAMES: Final[Numbers] = {
    1: ProgramHello,
    2: ProgramWelcome,
    3: Asks,
    4: Tells,
    5: Ping,
    6: Pong,
    7: Goodbye,
    8: Submit,
    9: Reading,
    10: Delivery,
    11: Arena,
    12: Lent,
    13: Retired,
    14: Mapped,
    15: Returned,
}

ITEMS: Final[Numbers] = {
    1: Answered,
    2: Told,
}

# What is told about a group with delivery.
GROUP_ITEMS: Final[Numbers] = {
    1: spoken.Ready,
    2: spoken.Joined,
    3: spoken.Left,
    4: spoken.Delivered,
    5: spoken.Gap,
    6: spoken.Without,
    7: spoken.Only,
    8: spoken.Credit,
    9: spoken.Excluded,
    10: spoken.Parted,
    11: spoken.Sent,
    12: spoken.Aggregated,
    13: spoken.JoinedTogether,
}

# What travels on the data channel of groups, in datagrams.
SPEECH: Final[Numbers] = {
    1: speech.Data,
    2: speech.Nak,
    3: speech.Below,
    4: speech.Heartbeat,
    5: speech.Status,
    6: speech.Report,
    7: speech.Poll,
    8: speech.Polled,
    9: speech.Parity,
    10: speech.Numbered,
    11: speech.StartSubmit,
    12: speech.SubmitReply,
}

# What services add to a member's record.
ATTRIBUTES: Final[Numbers] = {
    1: FifoAttributes,
    2: DelegateAttributes,
}

TABLES: Final[dict[str, Numbers]] = {
    "packet": PACKETS,
    "message": MESSAGES,
    "request": REQUESTS,
    "said": SAID,
    "program frame": PROGRAM_FRAMES,
    "item": ITEMS,
    "group item": GROUP_ITEMS,
    "speech": SPEECH,
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
    },
    "request": {
        "relaxed": (range(1, 16), range(128, 192)),
        "fifo": (range(16, 32),),
        "agreed": (range(32, 48),),
        "atomic": (range(48, 64),),
        "led": (range(64, 80),),
        "access": (range(80, 96),),
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
    "speech": {
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
