"""The state of a program's connection to its agent.

    Connected ◀── a sign of life ─ Suspended ◀── silence for a while ── Connected
        ▲                             │
        │                             └── silence until the deadline ──▶ Lost
        └── on_lost="rejoin": back, under a new incarnation ───────────── Lost ◀── the connection broke

While **suspended** the endpoint is most likely still in its groups: the agent is busy, stopped, or slow to
reach, and no other member need have noticed. Once **lost** it is not: its groups are notified of a crash. A
program that acts for a group (a leader, the holder of a lock) should stop when it is suspended for too long,
and at the latest when it is lost.

All times are seconds on the clock of the event loop, ``loop.time()``.
"""

from msgspec import Struct

from rostra.errors import RostraError


class Connected(Struct, frozen=True):
    since: float


class Suspended(Struct, frozen=True):
    """The agent has been silent since then; if it is until the deadline, it is given up."""

    since: float
    deadline: float


class Lost(Struct, frozen=True):
    """The agent is gone, or has given us up: this endpoint is in no group any more.

    Until `until` the library tries to come back. Without it, this is the end: everything that is asked and
    everything that is iterated over raises the reason.
    """

    reason: RostraError
    since: float
    until: float | None = None

    @property
    def is_final(self) -> bool:
        return self.until is None


State = Connected | Suspended | Lost
