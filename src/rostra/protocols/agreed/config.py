"""Every wait and bound of agreed membership among servers."""

from math import inf
from typing import Final

from msgspec import Struct

from rostra.errors import BadInput

SET_MEMBERS_MAX: Final = 64
"""Servers in one set. Every change is acknowledged by all of them."""

QUEUE_MAX: Final = 4_096
"""Changes that wait at one server. One more is refused, and its agent asks again."""

HOST_WAITING_MAX: Final = 1_024
"""Requests of one host that wait for a set to form, or for other hosts. One more is asked again later."""

ASK_AGAIN_S: Final = 2.0
"""How often an agent repeats what its core-set has not answered. A lost hop of the branch costs as much."""

ASK_TIMES_MAX: Final = 8
"""How often a join is sent before it is given up. It then leaves: it may have counted."""

VIEWS_WAITING_MAX: Final = 1_024
"""Views that a program may leave unread before it is excluded. Each is kept as it is sent."""

TELL_AGAIN_S: Final = 2.0
"""How often a server repeats a view that a host below has not taken."""

LOSS_AFTER_S: Final = 0.5
"""How long a server gathers the hosts that it lost before their members are removed: what is lost together
is one change, and is judged by the group's rule as one. A host that lives has found out by itself before, and
has blocked its members. It should exceed an interval between heartbeats. Raising it: hosts are removed
later."""

START_S: Final = 2.0
"""How long a server that starts waits for what the hosts below it hold of wider groups, before it meets the
other servers of their sets. It should exceed what links to hosts take to come up."""

FORM_S: Final = 8.0
"""How long requests wait for a set to form: all servers that see each other become one part. After that the
part goes on as it is, and meets the others later."""

RESTORE_S: Final = 10.0
"""How long a cluster's server that lost its state waits for hosts that hold a group. Members of those that do
not come back are then removed. It should exceed what a link takes to come up again."""


class AgreedConfig(Struct, frozen=True, kw_only=True):
    """How long a server of a set waits for another before it goes on without it. Links detect a server that
    is dead within the bounds of `DetectConfig`; what is here is for one that lives and does not answer
    (V-017). The defaults are the `lan` profile.

    `ack_after_s`
        A coordinator asks again those that have not acknowledged. It should exceed a round trip. Default 0.5,
        wan 1.0. Raising it: a lost message delays a change by as much.
    `commit_after_s`
        A server that acknowledged asks for the commit again. It should exceed three one-way trips.
        Default 1.0, wan 2.0. Raising it: a lost commit delays one server by as much.
    `status_after_s`
        In an election, the others are asked for their status again. Default 0.5, wan 1.0.
    `stagger_s`
        A failure that all servers saw is processed by the first of them; the one of rank k waits k times as
        long before it does so itself. It should exceed a round trip. Default 0.2, wan 0.5. Raising it: slower
        removal when the first one did not see it; fewer coordinators that yield to each other.
    `probe_s`
        A part of a set that sees servers outside of it looks for the other parts this often (V-103); it also
        does so whenever a link comes up. Default 2.0, wan 4.0. Raising it: parts that could not merge at once
        stay apart for longer. While a merge waits for its coordinator, up to `offer_s`, groups of that part
        stand still.
    `reform_s`
        A part that met no other part for so long stays a set of its own (V-107); 0: at once. Default never:
        nothing is sent while links are down, so waiting costs nothing. Lowering it: after a cut that lasted
        as long, only an administrator makes one set of the parts.
    `retries`
        After as many repetitions without an answer the other server counts as failed. Default 3. Raising it:
        fewer servers isolated that only lost messages; longer waits for one that does not answer. With 0 one
        lost commit would split the set.
    """

    ack_after_s: float = 0.5
    commit_after_s: float = 1.0
    status_after_s: float = 0.5
    stagger_s: float = 0.2
    probe_s: float = 2.0
    reform_s: float = inf
    retries: int = 3

    def __post_init__(self) -> None:
        for name in ("ack_after_s", "commit_after_s", "status_after_s", "stagger_s", "probe_s"):
            _require(getattr(self, name) > 0, f"{name} must be positive")
        _require(self.reform_s >= 0, "reform_s must not be negative")
        _require(self.retries >= 1, "retries must be at least 1")

    @classmethod
    def lan(cls) -> "AgreedConfig":
        return cls()

    @classmethod
    def wan(cls) -> "AgreedConfig":
        return cls(ack_after_s=1.0, commit_after_s=2.0, status_after_s=1.0, stagger_s=0.5, probe_s=4.0)

    @property
    def defer_s(self) -> float:
        """How long a coordinator that yielded waits for the change that it yielded to (V-073)."""
        return (self.retries + 1) * self.commit_after_s

    @property
    def offer_s(self) -> float:
        """How long a part that offered a merge waits for it."""
        return (self.retries + 1) * self.ack_after_s


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise BadInput(f"agreed settings: {rule}", fix="start from AgreedConfig.lan() or .wan()")
