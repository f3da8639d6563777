"""Where a seat stands, and the values that each state carries."""

from msgspec import Struct

from rostra.names import Domain


class Following(Struct, frozen=True):
    """Somebody else leads, or nobody that we can hear."""

    leader: Domain | None  # a seat whose link is up


class Canvassing(Struct, frozen=True):
    """We ask who would vote for us. Nobody is bound by it, and nothing is on disk."""

    term: int
    supporters: frozenset[Domain]  # ourselves included


class Standing(Struct, frozen=True):
    """We ask for votes. Our own is on disk."""

    term: int
    votes: frozenset[Domain]


class Leading(Struct, frozen=True):
    term: int
