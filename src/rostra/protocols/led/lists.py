"""The lists of sets that this agent leads, numbered, and the agents that wait for the next one.

ListAsked ──▶ do we lead? ── no ──▶ ListTold: where to ask
                  ├── yes ──▶ ListTold: the list
                  └── yes, and it has this version ──▶ it waits: until the list changes, or for `follow_s`

An agent that took over from a lost leader keeps all askers waiting for `settle_s`: until the others have
attached, its list is not the set's (S-054).
"""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec.structs import replace

from rostra.core.effects import CancelTimer, Effect, SetTimer, TimerKey
from rostra.core.room import SharedRoom
from rostra.names import Domain, Group, parent
from rostra.protocols.led.config import FOLLOWERS_MAX, LedConfig
from rostra.protocols.led.core import PostLetter
from rostra.protocols.led.messages import Entries, ListAsked, ListTold
from rostra.protocols.led.observed import LedListed
from rostra.protocols.led.state import AgentId

HOLD: Final = "hold"
SETTLE: Final = "settle"


class LedList(Protocol):
    """A set at this agent: one that it may lead, or a transient one."""

    @property
    def leads(self) -> bool: ...

    @property
    def took_over(self) -> bool: ...

    @property
    def parent(self) -> Domain | None: ...

    @property
    def entries(self) -> Entries: ...


class LedLists:
    def __init__(self, me: AgentId, config: LedConfig) -> None:
        self._me, self._config = me, config
        self._lists: dict[Group, tuple[Entries, int]] = {}  # the last list, and its version
        self._waiting: dict[Group, tuple[dict[Domain, int], SharedRoom]] = {}  # agents, and their questions
        self._unsettled: set[Group] = set()
        self._versions = 0

    def changed(self, group: Group, tree: LedList | None, out: list[Effect]) -> None:
        """After a step of the set: do we lead it, and is the list another one?"""
        if tree is None or not tree.leads:
            if self._lists.pop(group, None) is not None:
                if group in self._unsettled:
                    self._unsettled.discard(group)
                    out.append(CancelTimer(_timer(SETTLE, group)))
                self._answer(group, ListTold(group, 0, leading=False), out)
            return
        before = self._lists.get(group)
        if before is None and tree.took_over:
            self._unsettled.add(group)
            out.append(SetTimer(_timer(SETTLE, group), self._config.settle_s))
        if before is None or before[0] != tree.entries:
            self._versions += 1
            self._lists[group] = (tree.entries, self._versions)
            out.append(LedListed(group, tree.entries))
            if group not in self._unsettled:
                self._answer(group, self._list(group), out)

    def asked(self, sender: Domain, asked: ListAsked, tree: LedList | None, out: list[Effect]) -> None:
        group = asked.group
        if tree is None or not tree.leads:
            above = None if tree is None else tree.parent
            out.append(PostLetter(sender, ListTold(group, asked.number, leading=False, parent=above)))
            return
        is_known = (asked.life, asked.version) == (self._me.life, self._lists[group][1])
        waits = is_known or group in self._unsettled
        if waits and self._has_place(group, sender):
            if group not in self._waiting:
                self._waiting[group] = {}, SharedRoom(FOLLOWERS_MAX)
                out.append(SetTimer(_timer(HOLD, group), self._config.follow_s))
            waiting, room = self._waiting[group]
            if sender not in waiting:
                room.take(parent(sender))
            waiting[sender] = asked.number
        elif group in self._unsettled:
            return  # there are too many; it asks again
        else:
            told = self._list(group, whole=not is_known)
            out.append(PostLetter(sender, replace(told, number=asked.number)))

    def let_go(self, may_know: Callable[[Group, Domain], bool]) -> None:
        """A group is closed: agents that may not know its list do not wait for it any more. Of a group that
        its authority closes they ask again, with a proof."""
        for group, (waiting, room) in self._waiting.items():
            for agent in [each for each in waiting if not may_know(group, each)]:
                del waiting[agent]
                room.give(parent(agent))

    def _has_place(self, group: Group, agent: Domain) -> bool:
        waiting, room = self._waiting.get(group, ({}, None))
        return room is None or agent in waiting or room.has_room(parent(agent))

    def held(self, group: Group, out: list[Effect]) -> None:
        """Answer the agents that have waited for `follow_s`."""
        if group in self._lists and group not in self._unsettled:
            self._answer(group, self._list(group, whole=False), out)

    def settled(self, group: Group, out: list[Effect]) -> None:
        """`settle_s` is over: answer the agents that wait for the list."""
        if group in self._unsettled:
            self._unsettled.discard(group)
            self._answer(group, self._list(group), out)

    def _list(self, group: Group, *, whole: bool = True) -> ListTold:
        entries, version = self._lists[group]
        return ListTold(group, 0, True, None, self._me.life, version, entries if whole else None)

    def _answer(self, group: Group, told: ListTold, out: list[Effect]) -> None:
        waiting, _ = self._waiting.pop(group, ({}, None))
        if waiting:
            out.append(CancelTimer(_timer(HOLD, group)))
            out += [PostLetter(agent, replace(told, number=number)) for agent, number in waiting.items()]


def _timer(what: str, group: Group) -> TimerKey:
    return ("led", what, group.name, group.scope)
