"""What led sets show to observers: journal, log, and the memory behind `rostra why`."""

from typing import Final, NamedTuple

from rostra.core.effects import Event, Observation, Recallable, RecallNote
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.led.core import MemberCame, MemberWent, TreeCore
from rostra.protocols.led.messages import Entries, size_of
from rostra.protocols.led.state import Child, Leader

LEADS, CHILD, OUT = "leads", "child", "out"
OTHER_REGISTRAR: Final = "it has another registrar"


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
        if self.standing == OUT or self.because == OTHER_REGISTRAR:
            return None
        what = "leads" if self.standing == LEADS else f"follows {self.parent}, its parent, in"
        named = "" if self.registrar is None else f", as the registrar {self.registrar} says"
        return RecallNote("led", self.group, (), f"{what} {self.group}{named}: {self.because}")


class LeaderRefused(Observation, frozen=True):
    """A registrar does not let this agent lead one more set."""

    agent: Domain
    group: Group
    why: str


class LedMember(Observation, frozen=True):
    """A member of this host came into a set, or went."""

    group: Group
    member: Endpoint
    came: bool


def came_or_went(group: Group, host: Domain, event: Event) -> list[LedMember]:
    match event:
        case MemberCame(member):
            return [LedMember(group, Endpoint(f"{host}/{member.name}"), came=True)]
        case MemberWent(name):
            return [LedMember(group, Endpoint(f"{host}/{name}"), came=False)]
    return []


class LedListed(Observation, frozen=True):
    """The list of a set that this agent leads, as it is now."""

    group: Group
    entries: Entries


class Stood(NamedTuple):
    standing: str
    parent: Domain | None = None
    registrar: Domain | None = None


def stands(tree: TreeCore | None, registrar: Domain | None) -> Stood | None:
    """The standing in a set; None while it changes."""
    record = None if tree is None else tree.record
    if record is None:
        return Stood(OUT)
    match record.standing:
        case Leader():
            return Stood(LEADS, None, registrar)
        case Child(parent=parent):
            return Stood(CHILD, parent, registrar)
    return None


def observed(group: Group, tree: TreeCore | None, before: Stood, after: Stood) -> LedStanding:
    lost = None
    record = None if tree is None else tree.record
    if after.standing == OUT:
        because = "the last member left"
    elif after[:2] == before[:2]:
        because = OTHER_REGISTRAR
    elif after.standing == LEADS:
        because = "no agent led it"
        if record is not None and isinstance(record.standing, Leader) and record.standing.took_over:
            lost, because = before.parent, "the leader before could not be reached"
    elif before.standing == LEADS:
        because = "another agent leads it: two sets met"
    elif before.standing == CHILD:
        because = "it has another parent"
    else:
        because = "it has members on this host"
    total = 0 if tree is None else size_of(tree.entries)
    return LedStanding(group, after.standing, after.parent, because, lost, after.registrar, total)
