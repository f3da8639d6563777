"""What programs ask their agent, or a server, about access.

request          answer
JoinRestricted   Done, Denied   NOT_AUTHORISED: the authority said no; AUTH_UNAVAILABLE: it did not answer
JoinUnique       Done, Denied   NAME_IN_USE: it has members, or another is founding it
CloseGroup, ReopenGroup, AssignName, ReleaseName
                 Done, Denied   NAME_TAKEN: it has another list, or another holder
NamesAsked       NamesTold
Revoke           Done, Denied   to any agent or server: a revocation is believed for its signature
"""

from rostra.names import Domain, Group
from rostra.protocols.relaxed.requests import Request, Said


class JoinRestricted(Request, frozen=True, tag=80):
    """Join a group with a restricted name: its authority is asked, and shown the credential."""

    group: Group
    credential: bytes = b""
    led: bool = False
    online: bool = True
    meta: bytes = b""
    closed: bool = False  # of a led group: it hears sequences of members only
    luck: bytes = b""  # 32 bytes at random: the credential is sealed with keys that are made of it
    speaks: bool = False  # with delivery, or agreed: Done is that it may be in it, and it enters then


class JoinUnique(Request, frozen=True, tag=82):
    """Join a group that has no member, as its first and only founder (C-165)."""

    group: Group
    online: bool = True
    meta: bytes = b""


class CloseGroup(Request, frozen=True, tag=83):
    """Administrative, to the server of the group's scope: it is for these domains and hosts alone (C-167).
    The list cannot be changed."""

    group: Group
    allowed: tuple[Domain, ...]


class ReopenGroup(Request, frozen=True, tag=84):
    group: Group


class AssignName(Request, frozen=True, tag=85):
    """Administrative, to the server of the group's scope: this name is that holder's (S-010)."""

    group: Group
    holder: str


class ReleaseName(Request, frozen=True, tag=86):
    group: Group


class NamesAsked(Request, frozen=True, tag=87):
    """Administrative: which names of your scope are whose?"""


class NamesTold(Said, frozen=True, tag=80):
    assigned: tuple[tuple[str, str], ...]  # sorted; names, each with its holder


class Revoke(Request, frozen=True, tag=81):
    revocation: bytes
