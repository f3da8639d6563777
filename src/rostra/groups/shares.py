"""Which member owns a key: rendezvous hashing, so that members with the same view agree without a message.

Each pair of a key and a member has a score, and the highest owns the key. When a member leaves, only its own
keys move; when one joins, only those that it gets. Scores go by host and name: a program that is restarted
gets its keys back. A member of weight 2 owns twice as many keys as one of weight 1, one of weight 0 none.

Highest random weight: Thaler and Ravishankar, "A name-based mapping scheme for rendezvous", 1996; with
weights, as -w / ln(u): Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005.
"""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from rostra.names import Endpoint

ShareKey = str | int | bytes

_MASK: Final = (1 << 64) - 1


def owner_of(
    key: ShareKey, members: Iterable[Endpoint], weights: Mapping[Endpoint, float] | None = None
) -> Endpoint | None:
    """None if there is no member, or none with a weight."""
    hashed = _of_key(key)
    best, most = None, 0.0
    for member in members:
        weight = 1.0 if weights is None else weights.get(member, 1.0)
        if weight <= 0 or not math.isfinite(weight):
            continue
        score = -weight / math.log(_mixed(hashed ^ _of_member(member.rpartition("#")[0])))
        if score > most or (score == most and best is not None and member < best):
            best, most = member, score
    return best


def share_of(
    member: Endpoint,
    keys: Iterable[ShareKey],
    members: Iterable[Endpoint],
    weights: Mapping[Endpoint, float] | None = None,
) -> tuple[ShareKey, ...]:
    """What this member owns of these keys, in their order."""
    candidates = tuple(members)
    return tuple([key for key in keys if owner_of(key, candidates, weights) == member])


def _of_key(key: ShareKey) -> int:
    data = key if isinstance(key, bytes) else str(key).encode()
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


@lru_cache(maxsize=10_000)
def _of_member(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8, key=b"member").digest(), "big")


def _mixed(value: int) -> float:
    """A number between 0 and 1, both excluded, in which every bit depends on every bit (splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    value ^= value >> 31
    return ((value >> 11) + 0.5) / (1 << 53)
