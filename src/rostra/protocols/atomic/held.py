"""What rests on logs that are being written: held back until the driver reports that they are on disk.

    step ──▶ Persist(LogBatch) ──▶ driver: one write and one sync for all batches of a turn
       └──▶ what is of that group waits here ◀── LogsSynced(count, failed) ──┘

A log that could not be written costs its group only: what depended on it is dropped, except the notices with
which members are removed, and the agent goes on.
"""

from collections import deque
from collections.abc import Sequence

from rostra.core.effects import Effect, Persist, Send
from rostra.names import Group, parse_group
from rostra.protocols.atomic.events import HubPost, StationCast
from rostra.protocols.atomic.requests import OrderClosed
from rostra.protocols.claims.messages import Claim, ClaimBegun
from rostra.protocols.fifo.events import Deliver, DeliverAll, Excluded


class HeldBack:
    def __init__(self) -> None:
        self._given = 0  # batches of this life
        self._needs: dict[Group, int] = {}  # the last of them, of each group that waits for one
        self._behind: dict[Group, deque[tuple[int, Effect]]] = {}

    def __bool__(self) -> bool:
        return bool(self._needs)

    def hold(self, batches: Sequence[Persist], effects: Sequence[Effect]) -> list[Effect]:
        """What is done at once: these batches, and whatever rests on none."""
        for each in batches:
            self._given += 1
            group = parse_group(each.record.log)
            self._needs[group] = self._given
            self._behind.setdefault(group, deque())
        out: list[Effect] = [*batches]
        for effect in effects:
            group_of = _group_of(effect)
            if group_of is not None and group_of in self._needs:
                self._behind[group_of].append((self._needs[group_of], effect))
            else:
                out.append(effect)
        return out

    def synced(self, count: int) -> tuple[list[Group], list[Effect]]:
        """This many batches are on disk. Returns the groups whose batches are all written, and the effects to
        perform now."""
        done: list[Effect] = []
        for behind in self._behind.values():
            while behind and behind[0][0] <= count:
                done.append(behind.popleft()[1])
        groups = sorted([group for group, needed in self._needs.items() if needed <= count])
        for group in groups:
            del self._needs[group], self._behind[group]
        return groups, done

    def drop(self, group: Group) -> list[Effect]:
        """Its log was not written: what is left to do of what rested on it."""
        self._needs.pop(group, None)
        return [each for _, each in self._behind.pop(group, ()) if _is_end(each)]


def _group_of(effect: Effect) -> Group | None:
    match effect:
        case HubPost() | StationCast() | Deliver() | DeliverAll():
            return effect.group
        case Send(message=Claim() | ClaimBegun() as message):
            return message.group
    return None


def _is_end(effect: Effect) -> bool:
    return isinstance(effect, Deliver) and isinstance(effect.item, OrderClosed | Excluded)
