"""What led sets show to observers: journal, log, and the memory behind `rostra why`."""

from rostra.core.effects import Recallable, RecallNote
from rostra.names import Domain, Group
from rostra.protocols.led.core import TreeCore
from rostra.protocols.led.messages import size_of
from rostra.protocols.led.state import Child, Leader

LEADS, CHILD, OUT = "leads", "child", "out"


class LedStanding(Recallable, frozen=True):
    """This agent leads a set from now on, is another agent's child, or has nothing of the set any more."""

    group: Group
    standing: str  # leads | child | out
    parent: Domain | None = None
    because: str = ""
    lost: Domain | None = None  # the leader that it could not reach
    registrar: Domain | None = None
    total: int = 0  # members on the list of its subtree

    def recalled(self) -> RecallNote | None:
        if self.standing == OUT:
            return None
        what = "leads" if self.standing == LEADS else f"follows {self.parent}, its parent, in"
        named = "" if self.registrar is None else f", as the registrar {self.registrar} says"
        return RecallNote("led", self.group, (), f"{what} {self.group}{named}: {self.because}")


Stood = tuple[str, Domain | None]


def stands(tree: TreeCore | None) -> Stood | None:
    """None: it is on its way to another standing."""
    record = None if tree is None else tree.record
    if record is None:
        return OUT, None
    match record.standing:
        case Leader():
            return LEADS, None
        case Child(parent=parent):
            return CHILD, parent
    return None


def observed(
    group: Group, tree: TreeCore | None, before: Stood, after: Stood, registrar: Domain | None
) -> LedStanding:
    lost = None
    record = None if tree is None else tree.record
    if after[0] == OUT:
        because = "the last member left"
    elif after[0] == LEADS:
        because = "no agent led it"
        if record is not None and isinstance(record.standing, Leader) and record.standing.took_over:
            lost, because = before[1], "the leader before could not be reached"
    elif before[0] == LEADS:
        because = "another agent leads it: two sets met"
    elif before[0] == CHILD:
        because = "it has another parent"
    else:
        because = "it has members on this host"
    total = 0 if tree is None else size_of(tree.entries)
    return LedStanding(group, *after, because, lost, registrar, total)
