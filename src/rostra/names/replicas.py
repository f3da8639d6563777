"""The paths of the replicas of one domain's server.

A domain may have several servers of which one leads (C-160). Each replica has a path one label below the
domain: ``eu.-seat-1``, ``eu.-seat-2``; those of the root are ``-seat-1``, ``-seat-2`` (the label stands in
journals and on disks, and stays). Replicas of one domain are siblings by their paths, and linked like
siblings. No host or domain is called so: labels that begin with "-" are the system's own.
"""

from typing import Final

from rostra.errors import BadInput
from rostra.names.domains import DOMAIN_LABELS_MAX, Domain, child, depth, labels, parent

REPLICAS_MAX: Final = 5
"""Two may be lost of five; more would only make every decision wait for more of them."""

_LABEL: Final = "-seat-"


def replica_path(domain: Domain, rank: int) -> Domain:
    """The path of a domain's first, second, ... replica: ranks begin with 1."""
    if not 1 <= rank <= REPLICAS_MAX:
        raise BadInput(f"replica {rank} of {domain}", fix=f"replicas have the numbers 1 to {REPLICAS_MAX}")
    if depth(domain) > DOMAIN_LABELS_MAX:
        raise BadInput(f"a replica of {domain}, which is a host", fix="replicate the server of a domain")
    return child(domain, f"{_LABEL}{rank}")


def domain_of_replica(path: Domain) -> Domain | None:
    """Whose replica is at this path? None if it is no replica."""
    label = labels(path)[-1] if labels(path) else ""
    rank = label.removeprefix(_LABEL)
    if label == rank or rank not in _RANKS:
        return None
    return parent(path)


_RANKS: Final = frozenset(str(rank) for rank in range(1, REPLICAS_MAX + 1))
