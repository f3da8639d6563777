"""A side that fails its group's rule is ended after a time, if the world says so (V-098 to V-100).

    blocked, or in doubt ──▶ stands_since ── a view that lives ──▶ goes on
                                 └── settle_s ──▶ Excluded: its members here leave the group

Each host ends its own members, by its own clock. Nothing is agreed on for that, so no message is needed while
a partition lasts: when it has healed, the core-set learns that the members left.

Where we differ from the specification, and why: by default no side is ended. Where no side of a partition
lives, all would be, and members that come back lose their rank, and with ``delivery="atomic"`` what no other
host has.
"""

from math import inf
from typing import TYPE_CHECKING

from rostra.core.effects import Effect, Instant
from rostra.protocols.agreed.lease import FOR_EVER, IN_DOUBT
from rostra.protocols.agreed.living import has_rule
from rostra.protocols.agreed.stays import HostGroup, StayInside
from rostra.protocols.fifo.events import Excluded

if TYPE_CHECKING:
    from rostra.protocols.agreed.agent import AgreedAgent


def settle(agent: "AgreedAgent", now: Instant, out: list[Effect]) -> Instant:
    """End what has stood still for too long. Returned is when to look again."""
    settle_s, look_at = agent.config.settle_s, FOR_EVER
    for group, known in sorted(agent.groups.items()) if settle_s < inf else ():
        if not _stands(known):
            known.stands_since = None
            continue
        if known.stands_since is None:
            known.stands_since = now
        if now < known.stands_since + settle_s:
            look_at = min(look_at, known.stands_since + settle_s)
            continue
        why = f"its side did not live for {settle_s:g} s: {known.blocked or IN_DOUBT}"
        ended = Excluded(why, "join again when the partition has healed")
        for me in [me for me, each in sorted(known.members.items()) if isinstance(each.stage, StayInside)]:
            agent.exclude(now, group, me, ended, out)
    return look_at


def _stands(known: HostGroup) -> bool:
    is_blocked = bool(known.blocked) and not known.drained
    return has_rule(known.kind) and known.view is not None and (is_blocked or known.doubt)
