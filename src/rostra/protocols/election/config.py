"""Every timer and bound of an election."""

from msgspec import Struct

from rostra.errors import BadInput


class ElectionConfig(Struct, frozen=True, kw_only=True):
    """How soon the replicas of a server agree on another leader. The defaults are the `lan` profile: replicas
    of one server are usually at one site. A replica's `rank` is its place among the replicas in the order of
    their names, from 0 on; one that has taken part before, and follows no leader since it
    started or resigned, comes after all others.

    `stand_after_s`
        A replica that has no leader, and is linked to a majority, sends its pre-vote request after
        ``stand_after_s * (1 + rank)``, so that usually only the first live replica does. It should exceed two
        round trips and two writes to disk. Default 0.25, wan 0.5. Raising it: slower failover, by `rank`
        times as much; fewer elections in which votes are split.
    `again_after_s`
        An attempt that came to nothing is repeated after ``again_after_s + rank * stand_after_s``: replicas
        that split the votes are apart the next time. Default 1.0, wan 2.0. Raising it: a slower second
        attempt, fewer messages from a replica that cannot reach the leader and asks for ever.
    `doubt_after_s`
        A leader that stood still for longer than this resigns before it says anything. It must be below what
        the others need to give it up, ``down_after_s - heartbeat_interval_s`` of `DetectConfig`, for beyond
        that another may lead. Default 0.75, wan 2.5. Raising it: fewer needless failovers of a server on a
        busy machine; above that bound, two that think they lead, until the first message arrives.
    """

    stand_after_s: float = 0.25
    again_after_s: float = 1.0
    doubt_after_s: float = 0.75

    def __post_init__(self) -> None:
        _require(self.stand_after_s > 0, "stand_after_s must be positive")
        _require(
            self.again_after_s >= self.stand_after_s, "again_after_s must not be less than stand_after_s"
        )
        _require(self.doubt_after_s > 0, "doubt_after_s must be positive")

    @classmethod
    def lan(cls) -> "ElectionConfig":
        return cls()

    @classmethod
    def wan(cls) -> "ElectionConfig":
        return cls(stand_after_s=0.5, again_after_s=2.0, doubt_after_s=2.5)

    def stand_s(self, rank: int) -> float:
        return self.stand_after_s * (1 + rank)

    def again_s(self, rank: int) -> float:
        return self.again_after_s + rank * self.stand_after_s


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise BadInput(f"election settings: {rule}", fix="start from ElectionConfig.lan() or .wan()")
