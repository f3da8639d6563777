"""What is promised of messages in agreed groups, besides what `fifo_checkers.py` says of every stream.

view-first         no message before the view in which it was sent, nor of a sender that is in no view
"""

from collections.abc import Iterable

from rostra.names import Endpoint, Group
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.fifo.events import Delivered
from rostra.sim.checkers import Broken, CheckVerdict, verdict_of
from rostra.sim.history import AnyRecord, DeliveryRecord, FifoStateChanged


class _Sight:
    """What one member was given of views."""

    def __init__(self) -> None:
        self.first = self.view = 0
        self.members: set[Endpoint] = set()
        self.was_in: dict[Endpoint, int] = {}  # the last of its views that had this one

    def take(self, item: MemberView) -> None:
        gone = {*item.left, *item.failed}
        joined = [who for who, _ in item.joined]
        listed = item.members
        self.members = (self.members - gone).union(joined) if listed is None else {who for who, _ in listed}
        self.view = item.number
        self.first = self.first or item.number
        self.was_in.update(dict.fromkeys(self.members, item.number))

    def judge(self, record: DeliveryRecord, item: Delivered) -> None:
        me, sender, sent_in = record.endpoint, item.stream, item.run.view
        what = f"{me} got {sender} {item.run.first}, sent in view {sent_in},"
        if sent_in > self.view:
            raise Broken(f"{what} in view {self.view}", record)
        if sent_in < self.first:
            raise Broken(f"{what} and joined in view {self.first}", record)
        if sent_in > self.was_in.get(sender, 0):
            raise Broken(f"{what} when its sender was in no view since", record)


def view_first(history: Iterable[AnyRecord]) -> CheckVerdict:
    """D13: a message carries its view and waits for it at the receiver."""

    def check() -> str:
        sights: dict[tuple[Endpoint, Group], _Sight] = {}
        judged = 0
        for record in history:
            match record:
                case DeliveryRecord(endpoint=me, group=group, item=MemberView() as item):
                    sights.setdefault((me, group), _Sight()).take(item)
                case DeliveryRecord(endpoint=me, group=group, item=Delivered() as item):
                    if (sight := sights.get((me, group))) is not None:
                        judged += 1
                        sight.judge(record, item)
                    elif item.run.view:
                        raise Broken(f"{me} got {item.stream} {item.run.first} before any view", record)
                case FifoStateChanged(endpoint=me, group=group, change="left" | "crashed"):
                    sights.pop((me, group), None)
        return "" if judged else "nobody was given a message in an agreed group"

    return verdict_of("view-first", check)
