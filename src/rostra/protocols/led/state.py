"""Where an agent stands in one set, and what it holds there.

    Contend ── AssertReply: we lead ──▶ Leader ── AssertReply: another leads ──▶ Attach
       │ ▲ ───── another leads ──▶ Attach ── AttachOk ──▶ Child                     ▲
       │ └── no answer · AttachNo ───┘ ▲ │                  │                       │
       │                               │ └─ AttachNo, redirect: the next agent      │
       │                               └───────────────── the circuit is lost       │
       └── the last member and the last child are gone: no record, from any of them ┘

A record exists while there are members or children (S-024, S-027). All of it is one frozen value.
"""

from msgspec import Struct

from rostra.names import Domain
from rostra.protocols.led.messages import Entries, LocalMember


class Contend(Struct, frozen=True):
    """It asserts, and is no leader until the registrar says so (S-034)."""

    number: int  # of the last `Assert`
    suspect: Domain | None = None
    tries: int = 0
    waits: bool = False  # a random time before it asserts (S-041)


class Attach(Struct, frozen=True):
    """Another agent leads: it asks to be its child."""

    parent: Domain
    number: int  # of the last `AttachAsked`
    steps: int = 0  # agents that it was sent on to
    sent: Entries | None = None  # none: the circuit is not up yet


class Child(Struct, frozen=True):
    parent: Domain
    root: Domain
    sent: Entries  # what the parent has
    moving: Attach | None = None  # to the root, while the parent is still ours (S-043)
    refused: bool = False  # the parent has an older list than `sent`


class Leader(Struct, frozen=True):
    number: int  # of the last `Assert`
    answered: bool = True
    tries: int = 0
    took_over: bool = False  # from a leader that it could not reach


Standing = Contend | Attach | Child | Leader


class ChildReport(Struct, frozen=True):
    agent: Domain
    entries: Entries
    doubt: int = 0  # its circuit is lost, and its list kept for a while; a number for each time


class SetRecord(Struct, frozen=True):
    standing: Standing
    version: int  # of `local`
    local: tuple[LocalMember, ...] = ()  # sorted
    children: tuple[ChildReport, ...] = ()  # sorted by agent


class TreeState(Struct, frozen=True):
    """`number` is the last one that was given to an `Assert`, an `AttachAsked` or a version; it outlives the
    record."""

    number: int = 0
    record: SetRecord | None = None


class AgentId(Struct, frozen=True, order=True):
    """An agent or a server in one of its lives."""

    path: Domain
    life: int
