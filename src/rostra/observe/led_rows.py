"""The scribe's rows about led sets: where an agent stands, which members it has, and what a leader lists.

LedStanding ──▶ led: leads | child | out      and the registrar that it believes in
LedMember   ──▶ led: member                   one of this host came or went
LedListed   ──▶ led: lists                    at a leader: who is on the list since, and who is no more
"""

from rostra.journal.entries import Sheet
from rostra.journal.fold import JOINED, LEFT, UNKNOWN, ViewLine
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.led.messages import ListEntry
from rostra.protocols.led.observed import LEADS, LedListed, LedMember, LedStanding

MEMBER, LISTS = "member", "lists"


class LedRows:
    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._here: set[tuple[Group, Endpoint]] = set()
        self._lists: dict[Group, dict[Domain, ListEntry]] = {}  # of sets that this agent leads, by origin

    def stands(self, led: LedStanding) -> None:
        if led.standing != LEADS:
            self._lists.pop(led.group, None)
        else:
            self._lists.setdefault(led.group, {})
        self._sheet.write(
            "led",
            group=str(led.group),
            what=led.standing,
            peer=led.parent,
            cause=led.because,
            accused=led.lost,
            domain=led.registrar,
            count=led.total,
        )

    def member(self, led: LedMember) -> None:
        key = (led.group, led.member)
        if (key in self._here) is led.came:
            return  # with another attachment
        (self._here.add if led.came else self._here.discard)(key)
        change = JOINED if led.came else LEFT
        self._sheet.write("led", group=str(led.group), what=MEMBER, member=led.member, change=change)

    def lists(self, listed: LedListed) -> None:
        """Entries that are as old as before are the same."""
        before = self._lists.get(listed.group)
        if before is None:
            return  # a transient set: its owner lists whom it added
        now = {entry.origin: entry for entry in listed.entries}
        lines: list[ViewLine] = []
        for origin in sorted({*before, *now}):
            old, new = before.get(origin), now.get(origin)
            if old is not None and new is not None and old.age == new.age:
                continue
            had, has = _members(old), _members(new)
            lines += [ViewLine(each, UNKNOWN, LEFT, True, LISTS) for each in sorted(had - has)]
            lines += [ViewLine(each, UNKNOWN, JOINED, True, LISTS) for each in sorted(has - had)]
        self._lists[listed.group] = now
        if lines:
            self._sheet.write("led", lines, group=str(listed.group), what=LISTS)


def _members(entry: ListEntry | None) -> set[Endpoint]:
    if entry is None:
        return set()
    return {Endpoint(f"{entry.origin}/{member.name}") for member in entry.members}
