"""Every wait and bound of agreed membership among servers."""

from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.errors import BadInput
from rostra.names import Domain
from rostra.protocols.links.config import LinkConfig

SET_MEMBERS_MAX: Final = 64
"""Servers in one set. Every change is acknowledged by all of them."""

QUEUE_MAX: Final = 4_096
"""Changes that wait at one server. One more is refused, and its agent asks again."""

HOST_WAITING_MAX: Final = 1_024
"""Requests of one host that wait for a set to form, or for other hosts; 64 members of one count as one more.
Those above it are asked again later."""

HOST_QUEUE_MAX: Final = 64
"""Requests of one host that are among the changes that wait at one server; the rest of them wait for these. A
host that asks for thousands of changes keeps others waiting for as many."""

HOST_GROUPS_MAX: Final = 2_048
"""Groups of which one host has members, at one server. As many as it may claim."""

EMPTIED_MAX: Final = 1_024
"""Groups without a member, and that no side may live in, that a set remembers, those that were deleted among
them: with one more all of them are forgotten. Their numbers begin anew then, and their fences go on above all
that were forgotten."""

CREATED_MAX: Final = 4_096
"""Groups that were created, or were given attributes, in one set: they stay without members until they are
deleted. One more is refused."""

HOST_CREATED_MAX: Final = 1_024
"""Of these, those of programs of one host, as the server counts that proposes them, since it started."""

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


LANES_LEVEL: Final = 2
"""Of a set in which all servers know of lanes."""

LANES_MAX: Final = 256
"""Lanes at one server. One more is refused until a change of the whole set ends them all."""

LEVEL_MAX: Final = 1 << 30
"""Of members (`seniority.py`), and of servers."""

SET_LEVEL: Final = 2
"""Of servers of this version: what they know of, among changes that came after the first version.

    1    `SetSplit`, `LevelRaised`
    2    lanes (`lanes.py`)

Such a change is proposed only in a view in which all servers are of that level."""


Place = tuple[str, int]
"""IP address and port."""


class Repeater(Struct, frozen=True, array_like=True):
    """A server of a set that repeats messages for those that multicast does not reach, and where."""

    server: Domain
    place: Place


class SetAddress(Struct, frozen=True, array_like=True):
    """Where the messages of one set go, instead of over the links (V-007; `casting.py`)."""

    set: Domain
    multicast: Place | None = None
    repeaters: tuple[Repeater, ...] = ()
    unicast: tuple[Domain, ...] = ()  # servers that multicast does not reach

    def reaches(self, server: Domain) -> bool:
        """Does multicast?"""
        return self.multicast is not None and server not in self.unicast


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
    `gather_s`
        Before a server that not all others have lost is removed, they have this long to say whom they lost
        (`cut.py`). It should exceed twice an interval between heartbeats. Default 0.5, wan 2.0; 0: the
        first that loses a server removes it. Raising it: later removal in a partial cut. A server that is
        dead is removed when the last of the others has lost it.
    `probe_s`
        A part of a set that sees servers outside of it looks for the other parts this often (V-103); it also
        does so whenever a link comes up. Default 2.0, wan 4.0. Raising it: parts that could not merge at once
        stay apart for longer. While a merge waits for its coordinator, up to `offer_s`, groups of that part
        stand still.
    `reform_s`
        A part that met no other part for so long stays a set of its own (V-107); 0: at once. Default never:
        nothing is sent while links are down, so waiting costs nothing. Lowering it: after a cut that lasted
        as long, only an administrator makes one set of the parts.
    `doubt_after_s`
        In a group whose rule lets one side live at most, members live by a lease: they are blocked, in doubt,
        unless their host had an answer from its server, and their server from enough others, to a question
        that is no older than this. It must be below what the others need to give a silent one up,
        ``down_after_s - heartbeat_interval_s`` of `DetectConfig`, and below ``failover_grace_s`` of
        `LinkConfig`. Default 0.75, wan 2.5. Raising it: fewer members in doubt on a busy machine; above that
        bound, two sides that live.
    `settle_s`
        An agent ends its members of a side that fails the group's rule for so long (`settling.py`). Default
        never: they are blocked, and go on when the rule holds again. Lowering it: programs hear sooner that
        they are out, and more of them join anew. It should exceed the restart of a server.
    `retries`
        After as many repetitions without an answer the other server counts as failed. Default 3. Raising it:
        fewer servers isolated that only lost messages; longer waits for one that does not answer. With 0 one
        lost commit would split the set.
    `moves`
        Whether the core-set of a group without a rule for partitions follows its members. Default no
        (`docs/protocols/agreed.md` says why). Without it every group is agreed on by the set of its scope,
        and waits for all sites in it.
    `lanes`
        How many groups of one set may change at the same time (`lanes.py`), all of its servers together; 0:
        one change after the other, the paper's form. Default 0. Raising it: more to keep on disk with each
        change, in a set that is kept.
    `early_flush`
        Whether stations of an atomic group with an exclusive rule report when a view without their orderer is
        proposed (`coming.py`), so that a new one begins as soon as that is agreed. Default
        no, the paper's form: when it is agreed. With it, a proposal that is withdrawn stops such a group for
        2 s at most. All servers of a set should have the same.
    `level`
        An agent's, of its members (`seniority.py`): raised with every roll-out, members that were restarted
        are told from those that were not. Default 0.
    `set_level`
        A server's own level (`SET_LEVEL`). Lower only in tests, which have servers of earlier versions.
    `sets`
        Which sets have a multicast address, or repeaters (`casting.py`). Default none: messages of a set go
        over the links. A lost message delays a change by `ack_after_s` or `commit_after_s`, which links
        repeat sooner.
    `down_after_s`
        A group whose members are all in one branch has been so for this long before that branch's set takes
        it over (`T_down`). Default 2.0. Lowering it: members that come and go at the border of two branches
        move it each time. Raising it: changes wait for servers of branches without members for longer.
    """

    ack_after_s: float = 0.5
    commit_after_s: float = 1.0
    status_after_s: float = 0.5
    stagger_s: float = 0.2
    gather_s: float = 0.5
    probe_s: float = 2.0
    reform_s: float = inf
    doubt_after_s: float = 0.75
    settle_s: float = inf
    retries: int = 3
    moves: bool = False
    lanes: int = 0
    early_flush: bool = False
    level: int = 0
    down_after_s: float = 2.0
    set_level: int = SET_LEVEL
    sets: tuple[SetAddress, ...] = ()

    def __post_init__(self) -> None:
        for name in (
            "ack_after_s",
            "commit_after_s",
            "status_after_s",
            "stagger_s",
            "probe_s",
            "doubt_after_s",
            "settle_s",
        ):
            _require(getattr(self, name) > 0, f"{name} must be positive")
        _require(0 <= self.level <= LEVEL_MAX, f"level must be from 0 to {LEVEL_MAX}")
        _require(0 <= self.lanes <= LANES_MAX // 2, f"lanes must be from 0 to {LANES_MAX // 2}")
        _require(self.down_after_s >= 0, "down_after_s must not be negative")
        _require(self.gather_s >= 0, "gather_s must not be negative")
        _require(self.reform_s >= 0, "reform_s must not be negative")
        _require(self.retries >= 1, "retries must be at least 1")

    @classmethod
    def lan(cls) -> "AgreedConfig":
        return cls()

    @classmethod
    def wan(cls) -> "AgreedConfig":
        return cls(
            ack_after_s=1.0,
            commit_after_s=2.0,
            status_after_s=1.0,
            stagger_s=0.5,
            gather_s=2.0,
            probe_s=4.0,
            doubt_after_s=2.5,
        )

    def fitted(self, links: LinkConfig) -> "AgreedConfig":
        """The same, with a lease that others outlast whose patience is not the profile's."""
        bound_s = min(links.detect.down_after_s - links.detect.heartbeat_interval_s, links.failover_grace_s)
        return replace(self, doubt_after_s=min(self.doubt_after_s, 0.95 * bound_s))

    def check_lease(self, links: LinkConfig) -> None:
        """Raise unless a side is in doubt before any other can have given it up."""
        detect = links.detect
        is_safe = lease_is_safe(
            doubt_after_s=self.doubt_after_s,
            down_after_s=detect.down_after_s,
            heartbeat_interval_s=detect.heartbeat_interval_s,
        )
        _require(
            is_safe and self.doubt_after_s < links.failover_grace_s,
            "doubt_after_s must be less than down_after_s - heartbeat_interval_s and than failover_grace_s",
        )

    @property
    def defer_s(self) -> float:
        """How long a coordinator that yielded waits for the change that it yielded to (V-073)."""
        return (self.retries + 1) * self.commit_after_s

    @property
    def doom_s(self) -> float:
        """How long a server that is to be removed gets no lease, after that was last asked for."""
        return 2 * max(self.ack_after_s, self.stagger_s)

    @property
    def lease_every_s(self) -> float:
        """How often a lease is renewed: one question may be lost without consequence. A lease of a core-set
        farther up is as old as all questions on the way: hosts ask twice as often for it, servers between
        four times."""
        return self.doubt_after_s / 3

    @property
    def start_s(self) -> float:
        """How long a server that starts waits for the hosts below it: leases of the server before it, too,
        must have run out."""
        return max(START_S, self.doubt_after_s)

    @property
    def offer_s(self) -> float:
        """How long a part that offered a merge waits for it."""
        return (self.retries + 1) * self.ack_after_s


def lease_is_safe(*, doubt_after_s: float, down_after_s: float, heartbeat_interval_s: float) -> bool:
    """Is a side in doubt before any other can have given it up? As `ElectionConfig.doubt_after_s` is for
    replicas."""
    return 0 < doubt_after_s < down_after_s - heartbeat_interval_s


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise BadInput(f"agreed settings: {rule}", fix="start from AgreedConfig.lan() or .wan()")
