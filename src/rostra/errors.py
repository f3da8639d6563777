"""Every exception of Rostra, drawn as a tree.

    RostraError
    ├── BadInput                    you wrote something that cannot be right
    │   ├── BadName                     a domain, endpoint or group name that breaks the grammar
    │   └── BadStory                    a simulator story that cannot be read or run
    ├── Refused                     the agent or server understood and said no
    │   ├── NotInScope                  the caller's host is outside the group's scope
    │   ├── NoSuchPermanentGroup        asked for as permanent, never registered
    │   ├── GroupIsPermanent            asked for as spontaneous, registered as permanent
    │   ├── AlreadyMember
    │   ├── NotMember
    │   ├── TooLarge                    an attachment or message above its bound
    │   ├── NameInUse                   an endpoint with this name is open on the host
    │   ├── StoreFailed                 the disk has no room for what must not be lost (retriable)
    │   ├── NotAllowed
    │   ├── Excluded                    the group went on without us: join again (retriable)
    │   ├── Rejected                    a message that no member will deliver; `cause` says why
    │   ├── NameTaken                   a group of this name exists
    │   ├── NoSuchGroup
    │   ├── ScopeExceeded               a group cannot reach so far
    │   ├── ViewUnknown                 a view that is no longer, or not yet, remembered
    │   ├── Terminated                  the group was deleted
    │   ├── NotOwner                    another member owns this
    │   ├── NotAuthorised               the authority of this name refused
    │   └── VehicleBroken               a sequence has no destination left
    ├── CommandFailed               a command of a replicated object raised what has no name here
    ├── NotAvailable                there is no such kind of group, setting or node; `fix` names one that is
    ├── NotInstalled                this machine lacks something that it needs
    ├── Unreachable                 no agent or server answered (retriable)
    │   ├── DeadlineExceeded            the answer did not come in time
    │   ├── InDoubt                     it may have been done: look before trying again
    │   ├── AuthUnavailable             the authority of this name cannot be asked
    │   ├── GroupBlocked                our side of a partition stands, and the deadline has passed
    │   └── LeadershipLost              our term is over: another member may lead, or hold the lock
    └── PeerError                   the other side broke the protocol
        ├── Malformed                   bytes that are no message
        ├── WrongWorld                  a server of another world
        └── WrongVersion                a wire version we do not speak

Each class knows if trying again can help (`retriable`) and has a stable `code` for programs; each instance
says what happened, to what, and what to try (`fix`).
"""

from typing import ClassVar, Final

UNDECODABLE: Final = (ValueError, RecursionError, OverflowError)
"""What a decoder of another process's bytes may raise: msgspec's errors, bad UTF-8 and bad names are all a
`ValueError`; nesting bombs and numbers that fit no field are not."""


class RostraError(Exception):
    """The root: catch this to catch everything Rostra raises on purpose."""

    code: ClassVar[str] = "ERROR"
    retriable: ClassVar[bool] = False

    def __init__(self, what: str, *, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}; {self.fix}" if self.fix else self.what


class BadInput(RostraError, ValueError):
    code = "BAD_ARGUMENT"


class BadName(BadInput):
    pass


class Refused(RostraError):
    code = "REFUSED"


class NotInScope(Refused):
    code = "NOT_IN_SCOPE"


class NoSuchPermanentGroup(Refused):
    code = "NO_SUCH_PERMANENT_GROUP"


class GroupIsPermanent(Refused):
    code = "GROUP_IS_PERMANENT"


class AlreadyMember(Refused):
    code = "ALREADY_MEMBER"


class NotMember(Refused):
    code = "NOT_MEMBER"


class TooLarge(Refused):
    code = "TOO_LARGE"


class NameInUse(Refused):
    code = "NAME_IN_USE"
    retriable = True


class StoreFailed(Refused):
    code = "STORE_FAILED"
    retriable = True


class NotAllowed(Refused):
    code = "NOT_ALLOWED"


class Excluded(Refused):
    code = "EXCLUDED"
    retriable = True


class Rejected(Refused):
    code = "REJECTED"

    def __init__(self, what: str, *, fix: str = "", cause: str = "") -> None:
        super().__init__(what, fix=fix)
        self.cause = cause


class NameTaken(Refused):
    code = "NAME_TAKEN"


class NoSuchGroup(Refused):
    code = "NO_SUCH_GROUP"


class ScopeExceeded(Refused):
    code = "SCOPE_EXCEEDED"


class ViewUnknown(Refused):
    code = "VIEW_UNKNOWN"


class Terminated(Refused):
    code = "TERMINATED"


class NotOwner(Refused):
    code = "NOT_OWNER"


class NotAuthorised(Refused):
    code = "NOT_AUTHORISED"


class CommandFailed(RostraError):
    code = "COMMAND_FAILED"


class VehicleBroken(Refused):
    """A sequence has no destination left."""

    code = "VEHICLE_BROKEN"


class NotAvailable(RostraError, NotImplementedError):
    code = "NOT_AVAILABLE"


class NotInstalled(RostraError):
    code = "NOT_INSTALLED"


class Unreachable(RostraError, ConnectionError):
    code = "UNREACHABLE"
    retriable = True


class DeadlineExceeded(Unreachable, TimeoutError):
    code = "DEADLINE"


class InDoubt(Unreachable):
    code = "IN_DOUBT"
    retriable = False


class AuthUnavailable(Unreachable):
    code = "AUTH_UNAVAILABLE"


class GroupBlocked(Unreachable):
    code = "GROUP_BLOCKED"


class LeadershipLost(Unreachable):
    code = "LEADERSHIP_LOST"


REFUSALS: Final = (BadInput, Refused, NotAvailable, Unreachable)
"""What a service answers a program's request with: all that a request may raise. It ends nothing."""


class PeerError(RostraError):
    code = "PEER_ERROR"


class Malformed(PeerError):
    code = "MALFORMED"


class WrongWorld(PeerError):
    code = "WRONG_WORLD"


class WrongVersion(PeerError):
    code = "WRONG_VERSION"


class BadStory(BadInput):
    code = "BAD_STORY"


BY_CODE: dict[str, type[RostraError]] = {
    error.code: error
    for error in (
        RostraError,
        BadInput,
        BadStory,
        Refused,
        NotInScope,
        NoSuchPermanentGroup,
        GroupIsPermanent,
        AlreadyMember,
        NotMember,
        TooLarge,
        NameInUse,
        StoreFailed,
        NotAllowed,
        Excluded,
        Rejected,
        NameTaken,
        NoSuchGroup,
        ScopeExceeded,
        ViewUnknown,
        Terminated,
        NotOwner,
        NotAuthorised,
        CommandFailed,
        VehicleBroken,
        NotAvailable,
        NotInstalled,
        Unreachable,
        DeadlineExceeded,
        InDoubt,
        AuthUnavailable,
        GroupBlocked,
        LeadershipLost,
        PeerError,
        Malformed,
        WrongWorld,
        WrongVersion,
    )
}
"""For turning a refusal that arrived as data back into the exception it means."""
