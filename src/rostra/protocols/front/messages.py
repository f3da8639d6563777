"""The messages between a program and the front of its agent.

    program ── Ask, Submit, Reading, Ping, Pong, Goodbye ──▶ front
    program ◀── Answered, Told, Ping, Pong, Goodbye ──────── front

The rest of a connection between the two (`wire/programs.py`) concerns their drivers: the handshake, frames
around many of these, and shared memory.

An endpoint is named by its **number**: the incarnation in ``eu.paris.h3/web-1#7`` is unique on its host for
ever, so 7 is enough. `NO_ENDPOINT` takes its place in requests that need none, such as `Open`.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.errors import RostraError
from rostra.names import Group
from rostra.names.checks import Moment, Natural
from rostra.protocols.access.requests import (
    AssignName,
    CloseGroup,
    JoinRestricted,
    JoinUnique,
    NamesAsked,
    NamesTold,
    ReleaseName,
    ReopenGroup,
    Revoke,
)
from rostra.protocols.agreed.calls import (
    AdministerSet,
    DrainHost,
    GroupCall,
    GroupPresented,
    HostDrained,
    SetShown,
)
from rostra.protocols.agreed.requests import JoinAgreed, LeaveAgreed
from rostra.protocols.atomic.requests import ForgetOrdered, JoinOrdered, LeaveOrdered
from rostra.protocols.fifo.requests import Enter, Exit
from rostra.protocols.led.requests import AnySetAnswer, AnySetNotice, AnySetRequest, JoinLed, LeaveLed
from rostra.protocols.relaxed.requests import AnyAnswer as AnyResolveAnswer
from rostra.protocols.relaxed.requests import AnyNotice, Denied, denied
from rostra.protocols.relaxed.requests import AnyRequest as AnyResolveRequest
from rostra.protocols.scopes.requests import AnyScopeRequest

NO_ENDPOINT: Final = 0

SUBMIT_MESSAGES_MAX: Final = 65_536
"""In one block."""

AnyAgreedRequest = JoinAgreed | LeaveAgreed | GroupCall | DrainHost | AdministerSet
AnyGroupRequest = Enter | Exit | AnyAgreedRequest | JoinLed | LeaveLed
AnyNameRequest = AssignName | ReleaseName | NamesAsked
AnyAccessRequest = JoinRestricted | JoinUnique | Revoke | CloseGroup | ReopenGroup | AnyNameRequest
AnyRequest = (
    AnyResolveRequest
    | AnyGroupRequest
    | AnySetRequest
    | JoinOrdered
    | LeaveOrdered
    | ForgetOrdered
    | AnyAccessRequest
    | AnyScopeRequest
)
AnyAnswer = AnyResolveAnswer | GroupPresented | HostDrained | SetShown | AnySetAnswer | NamesTold
AnyTold = AnyNotice | AnySetNotice


class ProgramFrame(Struct, frozen=True, array_like=True, tag_field="kind"):
    pass


class Ask(Struct, frozen=True, array_like=True):
    """One request. `token` is the program's own and names the question in `Answered`."""

    token: Natural
    endpoint: Natural
    request: AnyRequest


class BadAsk(Struct, frozen=True):
    """In place of a request that was read and must be refused: a name in it breaks the grammar, or this
    version does not know its type. Never on the wire."""

    token: int
    endpoint: int
    error: RostraError

    def denial(self) -> Denied:
        """The answer to the program."""
        return denied(self.error)


class ProgramItem(Struct, frozen=True, array_like=True, tag_field="kind"):
    pass


class Answered(ProgramItem, frozen=True, tag=1):
    token: int
    answer: AnyAnswer


class Told(ProgramItem, frozen=True, tag=2):
    """One notice, for these endpoints of the program."""

    endpoints: tuple[int, ...]
    notice: AnyTold


class Ping(ProgramFrame, frozen=True, tag=5):
    """Are you there? Either side may ask; the other answers with the same number."""

    number: Natural


class Pong(ProgramFrame, frozen=True, tag=6):
    number: Natural


class Goodbye(ProgramFrame, frozen=True, tag=7):
    """The sender closes this connection on purpose. A program that sends it leaves its groups; it did not
    crash."""

    why: str = ""


class Submit(ProgramFrame, frozen=True, tag=8, gc=False):
    """Messages for a group: `count` payloads in one block, no more in all than the last `Credit` allowed."""

    endpoint: Natural
    group: Group
    count: Annotated[int, Meta(ge=1, le=SUBMIT_MESSAGES_MAX)]
    block: bytes
    at: Moment = 0.0  # for people


class Reading(ProgramFrame, frozen=True, tag=9):
    """Flow control by the program: send this endpoint no more messages of the group, or go on. Nothing is
    dropped meanwhile (X-090)."""

    endpoint: Natural
    group: Group
    more: bool
