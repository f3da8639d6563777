"""Where a replica stands, and the values that each state carries."""

from msgspec import Struct

from rostra.names import Domain


class Following(Struct, frozen=True):
    """Another replica leads, or none that we are linked with."""

    leader: Domain | None  # a replica whose link is up


class PreCandidate(Struct, frozen=True):
    """We have sent pre-vote requests. The answers are not binding, and nothing is on disk."""

    term: int
    granted: frozenset[Domain]  # ourselves included


class Candidate(Struct, frozen=True):
    """We ask for votes. Our own is on disk."""

    term: int
    votes: frozenset[Domain]


class Leading(Struct, frozen=True):
    term: int
