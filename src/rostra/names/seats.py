"""Seats: the paths of the replicas of one domain's server.

A domain may have several servers of which one leads (C-160). Each has a **seat**, its own path one label
below the domain: ``eu.-seat-1``, ``eu.-seat-2``; those of the root are ``-seat-1``, ``-seat-2``. Seats of one
domain are siblings by their paths, and linked like siblings. No host or domain is called so: labels that
begin with "-" are the system's own.
"""

from typing import Final

from rostra.errors import BadInput
from rostra.names.domains import DOMAIN_LABELS_MAX, Domain, child, depth, labels, parent

SEATS_MAX: Final = 5
"""Two may be lost of five; more would only make every decision wait for more of them."""

_SEAT: Final = "-seat-"


def seat_of(domain: Domain, rank: int) -> Domain:
    """The seat of a domain's first, second, ... replica: ranks begin with 1."""
    if not 1 <= rank <= SEATS_MAX:
        raise BadInput(f"seat {rank} of {domain}", fix=f"seats have the numbers 1 to {SEATS_MAX}")
    if depth(domain) > DOMAIN_LABELS_MAX:
        raise BadInput(f"a seat of {domain}, which is a host", fix="replicate the server of a domain")
    return child(domain, f"{_SEAT}{rank}")


def domain_of_seat(path: Domain) -> Domain | None:
    """Whose replica is at this path? None if it is no seat."""
    label = labels(path)[-1] if labels(path) else ""
    rank = label.removeprefix(_SEAT)
    if label == rank or rank not in _RANKS:
        return None
    return parent(path)


_RANKS: Final = frozenset(str(rank) for rank in range(1, SEATS_MAX + 1))
