"""What the access service shows to observers. Proofs, keys and credentials are not among it."""

from rostra.core.effects import Observation
from rostra.groups.members import Stamp
from rostra.names import Domain, Endpoint, Group


class AccessGranted(Observation, frozen=True):
    """An authority let an endpoint of this host in, until that moment of its clock."""

    endpoint: Endpoint
    group: Group
    until_ms: int


class AccessEnded(Observation, frozen=True):
    """It was in, and had to leave."""

    endpoint: Endpoint
    group: Group
    why: str


class MemberListed(Observation, frozen=True):
    """This service entered the member in the directory."""

    endpoint: Endpoint
    group: Group
    stamp: Stamp
    online: bool


class MemberUnlisted(Observation, frozen=True):
    endpoint: Endpoint
    group: Group
    stamp: Stamp


class NameUnassigned(Observation, frozen=True):
    """A group was founded under an unassigned name, in a scope where names are assigned."""

    group: Group
    claimer: Domain


class AuthorityRevoked(Observation, frozen=True):
    authority: str
    by: str
