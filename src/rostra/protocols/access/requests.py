"""What programs ask their agent, or a server, about access.

request          answer
JoinRestricted   Done, Denied   NOT_AUTHORISED: the authority said no; AUTH_UNAVAILABLE: it did not answer
Revoke           Done, Denied   to any agent or server: a revocation is believed for its signature
"""

from rostra.names import Group
from rostra.protocols.relaxed.requests import Request


class JoinRestricted(Request, frozen=True, tag=80):
    """Join a group with a restricted name: its authority is asked, and shown the credential."""

    group: Group
    credential: bytes = b""
    led: bool = False
    online: bool = True
    meta: bytes = b""


class Revoke(Request, frozen=True, tag=81):
    revocation: bytes
