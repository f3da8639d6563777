"""How long and how often a gate may be inaccessible before it counts as failed (A-054, A-055).

    AccessLost(cause) ──▶ hindered ── AccessGained ──▶ accessible
                             │ longer than `longest_s`, or more than `most` times within `within_s`
                             ▼
                        the gate is closed

Being inaccessible leads to rejects and never to removal; exceeding the declared limits is a failure of ours,
and ours to act upon.
"""

from typing import Final

from msgspec import Struct

from rostra.core.effects import Instant

CAUSES: Final = ("buffer", "user", "network")


class AccessLimit(Struct, frozen=True):
    longest_s: float
    most: int
    within_s: float


LIMITS: Final[dict[str, AccessLimit]] = {
    "buffer": AccessLimit(2.0, 20, 60.0),
    "user": AccessLimit(30.0, 20, 600.0),
    "network": AccessLimit(5.0, 10, 60.0),
}
"""The accessibility structure of a gate: one limit for each cause."""


class Hindrance(Struct, frozen=True, array_like=True):
    cause: str
    since: Instant


class AccessState(Struct, frozen=True):
    now: tuple[Hindrance, ...] = ()
    past: tuple[Hindrance, ...] = ()  # beginnings, as long as they count

    @property
    def accessible(self) -> bool:
        return not self.now

    @property
    def because(self) -> str:
        return self.now[0].cause if self.now else ""


def lost(state: AccessState, at: Instant, cause: str) -> AccessState:
    if any(each.cause == cause for each in state.now):
        return state
    limit = LIMITS[cause]
    recent = [each for each in state.past if each.cause != cause or at - each.since < limit.within_s]
    new = Hindrance(cause, at)
    return AccessState((*state.now, new), (*recent, new))


def gained(state: AccessState, cause: str) -> AccessState:
    return AccessState(tuple([each for each in state.now if each.cause != cause]), state.past)


def exceeded(state: AccessState, at: Instant) -> str:
    """The cause whose limit is exceeded; empty if none is."""
    for each in state.now:
        if at - each.since >= LIMITS[each.cause].longest_s:
            return each.cause
    for cause, limit in LIMITS.items():
        if sum(each.cause == cause for each in state.past) > limit.most:
            return cause
    return ""
