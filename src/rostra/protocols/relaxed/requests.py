"""The requests of programs to their agent, its answers, and its notices.

    paper                    request       answer                 notices that follow
    JOIN                     Join          Done                   Absolute once if online, then changes
    LEAVE                    Leave         Done
    RESOLVE(G, S)            Resolve       Absolute
    RESOLVE(G)               Resolve       Resolved, one entry per enclosing scope
    SET_FLAG                 SetOnline     Done                   Absolute once when going online
    (beyond the paper)       Watch         Done                   Snapshot, then numbered changes

A request that cannot be granted is answered with `Denied`, which carries a code of `rostra.errors`.
"""

from typing import Annotated

from msgspec import Struct

from rostra.errors import RostraError
from rostra.groups.attributes import AnyAttributes, Number
from rostra.groups.items import SentIn
from rostra.groups.kinds import GroupKind
from rostra.groups.members import Because, Cause, Members, Part, Stamp
from rostra.names import Domain, Endpoint, Group, parse_endpoint_name
from rostra.names.checks import check_addressee, check_duration, check_number, check_own_name, check_subject

# Requests: program to agent. One that breaks a bound is denied, and the connection goes on; so their numbers
# have checks beside them, and not bounds at which the decoder gives up.


class Request(Struct, frozen=True, array_like=True, tag_field="kind"):
    pass


class Open(Request, frozen=True, tag=1):
    """Open an endpoint on the agent's host. Asked with no endpoint; answered with `Opened`."""

    name: Annotated[str, parse_endpoint_name]
    user: str = ""  # who the program runs as, for bounds: from the front, never from programs


class Close(Request, frozen=True, tag=2):
    """Leave every group and forget the endpoint."""


class Join(Request, frozen=True, tag=3):
    group: Group
    online: bool = True
    permanent: bool = False
    meta: bytes = b""
    group_kind: GroupKind | None = None  # this and the next come from services, never from programs
    attributes: AnyAttributes | None = None


class Leave(Request, frozen=True, tag=4):
    group: Group
    meta: bytes = b""
    last: Number | None = None  # the last message that was emitted; from a service


class Resolve(Request, frozen=True, tag=5):
    """Who is in the group? Without a scope: in every group of that name around the caller (C-037)."""

    name: Annotated[str, check_own_name]
    scope: Domain | None
    deadline_s: Annotated[float, check_duration] | None = None


class SetOnline(Request, frozen=True, tag=6):
    group: Group
    online: bool


class Watch(Request, frozen=True, tag=7):
    """Follow a group without being in it. A watcher that has everything up to a number of a period names it,
    and is sent what came after (see `watches.py`)."""

    group: Group
    period: Annotated[int, check_number] = 0
    number: Annotated[int, check_number] = 0


class Unwatch(Request, frozen=True, tag=8):
    group: Group


class SendTo(Request, frozen=True, tag=9):
    destinations: tuple[Annotated[Endpoint, check_addressee], ...]
    data: bytes
    view: SentIn | None = None


class WatchLife(Request, frozen=True, tag=10):
    endpoint: Endpoint


class UnwatchLife(Request, frozen=True, tag=11):
    endpoint: Endpoint


class Register(Request, frozen=True, tag=12):
    """Administrative, to the server of the group's scope: make this a permanent group (C-012)."""

    group: Group


class Unregister(Request, frozen=True, tag=13):
    group: Group


class Inspect(Request, frozen=True, tag=14):
    """The node's tables, and the events that it recorded after number `after`, as a document.

    If there are no such events, the answer waits up to `wait_s` for the next (long polling): a reader that
    asks again with the last number it got sees every event once, when it happens.
    """

    after: Annotated[int, check_number] = 0
    wait_s: Annotated[float, check_duration] = 0.0


class Recall(Request, frozen=True, tag=15):
    """The trail of this endpoint or domain: of this node, or of another that this agent can reach."""

    about: Annotated[str, check_subject]
    of: Domain


AnyRequest = (
    Open
    | Close
    | Join
    | Leave
    | Resolve
    | SetOnline
    | Watch
    | Unwatch
    | SendTo
    | WatchLife
    | UnwatchLife
    | Register
    | Unregister
    | Inspect
    | Recall
)

# Answers and notices: agent to program


class Said(Struct, frozen=True, array_like=True, tag_field="kind"):
    pass


class Opened(Said, frozen=True, tag=1):
    endpoint: Endpoint


class Done(Said, frozen=True, tag=2):
    pass


class Denied(Said, frozen=True, tag=3):
    code: str
    what: str
    fix: str = ""
    retriable: bool = False


class Resolved(Said, frozen=True, tag=4):
    """The answer to a resolve without scope: one entry per scope around the caller, empty ones included."""

    parts: tuple[tuple[Domain, Members], ...]
    isolated: bool = False


class Inspected(Said, frozen=True, tag=5):
    """A JSON document."""

    document: bytes


class Recalled(Said, frozen=True, tag=6):
    """A trail: a JSON document, made by `protocols/relaxed/trail.py`."""

    document: bytes


class Absolute(Said, frozen=True, tag=16):
    """The whole list. `isolated` if it is only this host's part of a wider scope (C-054)."""

    group: Group
    members: Members
    isolated: bool = False


class Joined(Said, frozen=True, tag=17):
    group: Group
    members: Members
    cause: Cause
    complete_for: Part | None = None


class Left(Said, frozen=True, tag=18):
    group: Group
    endpoint: Endpoint
    stamp: Stamp
    cause: Cause
    meta: bytes = b""
    last: Number | None = None  # the last message it emitted, where it could


class Only(Said, frozen=True, tag=19):
    """Congress's FILTER_IN: in all your groups, keep only what is inside this domain; you are in it."""

    domain: Domain
    because: Because


class Without(Said, frozen=True, tag=20):
    """Congress's FILTER_OUT: in all your groups, go on without this domain; you are outside it."""

    domain: Domain
    because: Because


class Message(Said, frozen=True, tag=21):
    source: Endpoint
    data: bytes
    view: SentIn | None = None


class NotDelivered(Said, frozen=True, tag=22):
    """What was sent to these did not reach them, as a server on our side of a cut reports."""

    destinations: tuple[Endpoint, ...]
    why: str


class Life(Said, frozen=True, tag=23):
    endpoint: Endpoint
    alive: bool
    why: str = ""


class Gap(Said, frozen=True, tag=24):
    """You read too slowly: this many notices were not kept for you. A fresh `Absolute` of each group
    follows."""

    missed: int
    groups: tuple[Group, ...]


class Snapshot(Said, frozen=True, tag=25):
    """To a watcher: all members of the group after change `number` of this period. If that is not where
    the changes have brought it, it missed those in between."""

    group: Group
    members: Members
    period: int
    number: int
    isolated: bool = False


class Changed(Said, frozen=True, tag=26):
    """To a watcher: the next change, one larger than the one before: `members` joined, or `left` left."""

    group: Group
    number: int
    members: Members = ()
    left: tuple[Endpoint, ...] = ()
    cause: Cause | None = None
    meta: bytes = b""
    by: Only | Without | None = None  # what left was lost with a domain


class PutOut(Said, frozen=True, tag=27):
    """The endpoint was removed from the group, for this reason: the group is of another kind, its proof
    ended, or another program founded it."""

    group: Group
    refusal: Denied


AnyAnswer = Opened | Done | Denied | Resolved | Inspected | Recalled | Absolute
AnyNotice = (
    Absolute
    | Joined
    | Left
    | Only
    | Without
    | Message
    | NotDelivered
    | Life
    | Gap
    | Snapshot
    | Changed
    | PutOut
)
AnySaid = AnyAnswer | AnyNotice


def denied(error: RostraError) -> Denied:
    """A refusal as it travels; `errors.BY_CODE` turns it back into the exception."""
    return Denied(error.code, error.what, error.fix, error.retriable)
