"""Rostra: named groups of programs over many sites; who is in them, why they left, and what happened.

    async with rostra.connect() as me:
        async with me.join("chess", scope="eu") as chess:
            async for item in chess:
                ...

`rostra.sync` is the same for threads, `rostra.testing` is for tests, `rostra.errors` has every exception. The
reference is `docs/api.md`.
"""

TYPE_CHECKING = False  # without typing, which takes 10 ms: Ctrl-C meanwhile would print a traceback
if TYPE_CHECKING:
    from typing import Any

    import rostra.errors as errors
    import rostra.sync as sync
    import rostra.testing as testing
    from rostra.client import (
        OPEN,
        Added,
        AddRefused,
        Admin,
        AgreedConversation,
        AgreedMembership,
        AtomicItem,
        Because,
        Blocked,
        CallAsked,
        Cause,
        Change,
        Connected,
        Conversation,
        Gap,
        Gone,
        GroupInfo,
        GroupItem,
        Item,
        Joined,
        Left,
        Life,
        Lost,
        Me,
        Member,
        Members,
        Membership,
        Message,
        Messages,
        Moved,
        NotDelivered,
        Only,
        Ordered,
        Receipt,
        ReplicaDiverged,
        Replicated,
        Resolution,
        Sequence,
        SequenceClosed,
        SequenceEnded,
        SequenceMessage,
        SequenceReply,
        SequenceShrunk,
        SetAdded,
        SetLost,
        SetMembers,
        State,
        StateAsked,
        Suspended,
        Term,
        TransientSet,
        View,
        Watch,
        Without,
        command,
        connect,
        connect_admin,
    )
    from rostra.errors import RostraError
    from rostra.names import Domain, Endpoint, Group

_ROOMS = ("errors", "sync", "testing")
_NAMES = ("Domain", "Endpoint", "Group")

__all__ = [
    "OPEN",
    "AddRefused",
    "Added",
    "Admin",
    "AgreedConversation",
    "AgreedMembership",
    "AtomicItem",
    "Because",
    "Blocked",
    "CallAsked",
    "Cause",
    "Change",
    "Connected",
    "Conversation",
    "Domain",
    "Endpoint",
    "Gap",
    "Gone",
    "Group",
    "GroupInfo",
    "GroupItem",
    "Item",
    "Joined",
    "Left",
    "Life",
    "Lost",
    "Me",
    "Member",
    "Members",
    "Membership",
    "Message",
    "Messages",
    "Moved",
    "NotDelivered",
    "Only",
    "Ordered",
    "Receipt",
    "ReplicaDiverged",
    "Replicated",
    "Resolution",
    "RostraError",
    "Sequence",
    "SequenceClosed",
    "SequenceEnded",
    "SequenceMessage",
    "SequenceReply",
    "SequenceShrunk",
    "SetAdded",
    "SetLost",
    "SetMembers",
    "State",
    "StateAsked",
    "Suspended",
    "Term",
    "TransientSet",
    "View",
    "Watch",
    "Without",
    "command",
    "connect",
    "connect_admin",
    "errors",
    "sync",
    "testing",
]


def __getattr__(name: str) -> "Any":
    """Everything is imported when asked for, so that cores can be used with no event loop in sight."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'rostra' has no attribute {name!r}")
    if name in _ROOMS:
        return import_module(f"rostra.{name}")
    home = "names" if name in _NAMES else "errors" if name == "RostraError" else "client"
    value = getattr(import_module(f"rostra.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
