"""One set at one agent: who leads it, whose child we are, and the list of those below us.

    program ── MemberCame, MemberWent ──▶ ┌──────────┐ ──▶ PostLetter(None, Assert) ── registrar
    registrar ── LeaderNamed ───────────▶ │ TreeCore │
    parent, children ── TreeReceived ───▶ │          │ ──▶ SendTree, WantCircuit ── parent, children
    circuits ── CircuitUp, CircuitDown ─▶ └──────────┘

`state.py` has the drawing of its states. The paper's Figure 4 is this machine without answers to winners,
nonces, leases, refusals and the end of records. What goes wrong without them is tested
(`tests/support/figure4.py`).

**No cycles** (IS-1). Only a leader accepts a child. A leader has no parent, so it cannot be below its new
child. The child becomes one when the answer arrives; meanwhile it is no leader and accepts no child, so the
parent cannot have come below it.

**Lists** are whole: a report replaces what that child said before. Single joins and leaves that travel by two
paths could be applied in the wrong order (S-046). A compressed report is the difference to the one before it
on the same circuit, which makes the same list.

**Timers** follow from the state: each step compares those that the old and the new state want.
"""

from collections.abc import Container
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import CancelTimer, Effect, Event, Ignored, Noted, SetTimer, TimerKey, ignored
from rostra.names import Domain, Group
from rostra.protocols.led.config import STEPS_MAX, LedConfig
from rostra.protocols.led.messages import (
    RESIGNED,
    AnyTreeMessage,
    Assert,
    AttachAsked,
    AttachNo,
    AttachOk,
    Datagram,
    DetachedFromSet,
    Entries,
    ListChanges,
    ListEntry,
    ListRefused,
    ListReport,
    LocalMember,
    RootMoved,
    SetReleased,
    changed,
    changes,
    fits,
    is_sound,
    newest,
    size_of,
)
from rostra.protocols.led.state import (
    AgentId,
    Attach,
    Child,
    ChildReport,
    Contend,
    Leader,
    SetRecord,
    Standing,
    TreeState,
)

ASSERT: Final = "assert"
CONNECT: Final = "connect"
REPORT: Final = "report"
FLATTEN: Final = "flatten"
TIMERS: Final = (ASSERT, CONNECT, REPORT, FLATTEN)
SEVERAL_GROUPS: Final = "make several groups of it, or attach less to members"
LEAD_ELSEWHERE: Final = "leave led groups, or join on a host of another cluster"
GRACE: Final = "grace "
"""With the agent behind it: the timer of a child whose circuit is lost."""


# Events


class MemberCame(Event, frozen=True):
    member: LocalMember


class MemberWent(Event, frozen=True):
    name: str


class LeaderNamed(Event, frozen=True):
    """The present registrar answered."""

    number: int
    leader: Domain


class LeadingRefused(Event, frozen=True):
    """The present registrar lets us not lead: for want of room, or of a claim."""

    number: int
    full: bool
    why: str


class RegistrarChanged(Event, frozen=True):
    """Another agent or server, or another life of it, is the registrar now."""


class CircuitUp(Event, frozen=True):
    peer: Domain


class CircuitDown(Event, frozen=True):
    """Whatever was on its way is lost, on both sides."""

    peer: Domain


class TreeReceived(Event, frozen=True):
    peer: Domain
    message: AnyTreeMessage


class SetTimerFired(Event, frozen=True):
    what: str


# Effects


class PostLetter(Effect, frozen=True):
    to: Domain | None  # none: the registrar
    letter: Datagram


class SendTree(Effect, frozen=True):
    """On the circuit to this agent, which is up."""

    peer: Domain
    message: AnyTreeMessage


class WantCircuit(Effect, frozen=True):
    peer: Domain


class MembersRefused(Effect, frozen=True):
    """These members of this host cannot be on the list: they have to go."""

    group: Group
    why: str
    fix: str
    names: tuple[str, ...] = ()
    newer: int | None = None  # and those that came after this version


class _Wish(Struct, frozen=True):
    """A timer: the same wish as before the step leaves it running."""

    about: tuple[object, ...]
    after_s: float


class TreeCore:
    def __init__(self, me: AgentId, group: Group, config: LedConfig, state: TreeState | None = None) -> None:
        self.me = me
        self.group = group
        self.config = config
        self.state = state or TreeState()

    def step(self, event: Event, up: Container[Domain]) -> list[Effect]:
        """`up` are the agents to which a circuit is up."""
        out: list[Effect] = []
        before = self._wishes()
        match event:
            case MemberCame(member):
                self._came(member, out)
            case MemberWent(name):
                self._went(name, up, out)
            case LeaderNamed(number, leader):
                self._named(number, leader, up, out)
            case LeadingRefused():
                self._not_leading(event, up, out)
            case RegistrarChanged():
                self._registrar_changed(out)
            case CircuitUp(peer):
                self._circuit_up(peer, out)
            case CircuitDown(peer):
                self._circuit_down(peer, up, out)
            case TreeReceived(peer, message):
                self._received(peer, message, up, out)
            case SetTimerFired(what):
                before.pop(what, None)
                self._fired(what, up, out)
            case _:
                raise AssertionError(f"not an event of a set: {event!r}")
        self._move_timers(before, out)
        return out

    @property
    def record(self) -> SetRecord | None:
        return self.state.record

    @property
    def connected(self) -> set[Domain]:
        """Agents that the set is connected to here, or wants to be."""
        record = self.record
        assert record is not None, "a set without a record"
        found = {child.agent for child in record.children}
        match record.standing:
            case Attach(parent=parent):
                found.add(parent)
            case Child(parent=parent, moving=moving):
                found.add(parent)
                if moving is not None:
                    found.add(moving.parent)
        return found

    @property
    def entries(self) -> Entries:
        """The list of our subtree."""
        return () if self.record is None else self._listed(self.record)

    def _listed(self, record: SetRecord) -> Entries:
        own = ListEntry(self.me.path, self.me.life, record.version, record.local)
        return newest(tuple([child.entries for child in record.children]), own)

    def _too_large(self, names: tuple[str, ...] = (), newer: int | None = None) -> MembersRefused:
        why = f"the list of {self.group} is as large as it can be"
        return MembersRefused(self.group, why, SEVERAL_GROUPS, names, newer)

    @property
    def parent(self) -> Domain | None:
        record = self.record
        return record.standing.parent if record and isinstance(record.standing, Child | Attach) else None

    @property
    def leads(self) -> bool:
        return self.record is not None and isinstance(self.record.standing, Leader)

    @property
    def took_over(self) -> bool:
        record = self.record
        return record is not None and isinstance(record.standing, Leader) and record.standing.took_over

    # Members of this host

    def _came(self, member: LocalMember, out: list[Effect]) -> None:
        record = self.record
        if record is None:
            number = self._number()
            self._keep(SetRecord(Contend(number), number, (member,)))
            self._assert(number, None, out)
            return
        known = {each.name: each for each in record.local}
        if known.get(member.name) == member:
            return
        known[member.name] = member
        grown = replace(record, local=tuple(sorted(known.values())))
        if member.name not in [each.name for each in record.local] and not fits(self._listed(grown)):
            out.append(self._too_large(names=(member.name,)))
            return
        self._keep(replace(grown, version=self._number()))

    def _went(self, name: str, up: Container[Domain], out: list[Effect]) -> None:
        record = self.record
        if record is None or all(each.name != name for each in record.local):
            return
        local = tuple([each for each in record.local if each.name != name])
        self._keep(replace(record, local=local, version=self._number()))
        if not local and "!" in self.group.name:
            self._resign(up, out)
        self._end_if_empty(up, out)

    def _resign(self, up: Container[Domain], out: list[Effect]) -> None:
        """Give up a restricted set of which we have no member with a proof any more: our children look for
        another parent."""
        record = self.record
        assert record is not None, "nothing to resign from"
        above = record.standing.parent if isinstance(record.standing, Child) else None
        no = AttachNo(self.group, RESIGNED, above)
        out += [SendTree(child.agent, no) for child in record.children if child.agent in up]
        self._keep(replace(record, children=()))

    def _end_if_empty(self, up: Container[Domain], out: list[Effect]) -> None:
        record = self.record
        if record is None or record.local or record.children:
            return
        self._let_go(record.standing, up, out)
        if isinstance(record.standing, Contend | Leader):
            # Also a contender's: its `Assert` may be on its way.
            out.append(PostLetter(None, SetReleased(self.group, record.standing.number, self.me.life)))
        self.state = TreeState(self.state.number)
        out.append(Noted("set forgotten", str(self.group)))

    def _let_go(self, standing: Standing, up: Container[Domain], out: list[Effect]) -> None:
        """Detach from a parent, or from an agent that we asked to be one: it may list us already."""
        match standing:
            case Attach(parent=parent, sent=sent) if sent is not None and parent in up:
                out.append(SendTree(parent, DetachedFromSet(self.group)))
            case Child(parent=parent, moving=moving):
                if parent in up:
                    out.append(SendTree(parent, DetachedFromSet(self.group)))
                if moving is not None:
                    self._let_go(moving, up, out)

    # Leadership

    def _assert(self, number: int, suspect: Domain | None, out: list[Effect]) -> None:
        size = size_of(self.entries)
        out.append(PostLetter(None, Assert(self.group, number, self.me.life, suspect, size)))

    def _contend(self, suspect: Domain | None, out: list[Effect], *, waits: bool = False) -> None:
        number = self._number()
        self._stand(Contend(number, suspect, waits=waits))
        if not waits:
            self._assert(number, suspect, out)

    def _registrar_changed(self, out: list[Effect]) -> None:
        record = self.record
        match None if record is None else record.standing:
            case Contend(waits=False, suspect=suspect):
                self._contend(suspect, out)
            case Leader():
                number = self._number()
                self._stand(Leader(number, answered=False))
                self._assert(number, None, out)

    def _named(self, number: int, leader: Domain, up: Container[Domain], out: list[Effect]) -> None:
        record, me = self.record, self.me.path
        match None if record is None else record.standing:
            case None if leader == me:
                out.append(PostLetter(None, SetReleased(self.group, number, self.me.life)))
            case Contend(asked, waits=False) | Leader(asked) if asked != number:
                out.append(Ignored("AssertReply", "late reply"))
            case Contend(waits=False, suspect=suspect) if leader == me:
                self._stand(Leader(number, took_over=suspect is not None))
                out.append(Noted("leads a set", str(self.group)))
                self._tell_root(me, out)
            case Leader() if leader == me:
                self._stand(Leader(number))
            case Contend(waits=False) | Leader():
                self._attach(leader, 0, up, out)
            case _:
                out.append(Ignored("AssertReply", "not contending"))

    def _not_leading(self, refused: LeadingRefused, up: Container[Domain], out: list[Effect]) -> None:
        """Without a leader nobody lists our members. A leader goes on, and asserts again; without members of
        its own it has no claim, and its children look for another parent."""
        record, full = self.record, refused.full
        match None if record is None else record.standing:
            case (Contend(number, waits=False) | Leader(number)) as standing if number == refused.number:
                assert record is not None, "a standing without a record"
                if not record.local and not (full and isinstance(standing, Leader)):
                    self._resign(up, out)
                    self._end_if_empty(up, out)
                elif full and isinstance(standing, Contend):
                    self._resign(up, out)
                    why = f"{self.group} has no leader: {refused.why}"
                    out.append(MembersRefused(self.group, why, LEAD_ELSEWHERE, newer=0))
            case _:
                out.append(Ignored("LeadRefused", "late reply"))

    # Attaching

    def _attach(self, parent: Domain, steps: int, up: Container[Domain], out: list[Effect]) -> None:
        self._stand(self._begin_attach(parent, steps, up, out))

    def _begin_attach(self, parent: Domain, steps: int, up: Container[Domain], out: list[Effect]) -> Attach:
        attach = Attach(parent, self._number(), steps)
        if parent in up:
            return self._ask_attach(attach, out)
        out.append(WantCircuit(parent))
        return attach

    def _ask_attach(self, attach: Attach, out: list[Effect]) -> Attach:
        entries = self.entries
        out.append(SendTree(attach.parent, AttachAsked(self.group, attach.number, entries)))
        return replace(attach, sent=entries)

    def _circuit_up(self, peer: Domain, out: list[Effect]) -> None:
        record = self.record
        match None if record is None else record.standing:
            case Attach(parent=parent, sent=None) as attach if parent == peer:
                self._stand(self._ask_attach(attach, out))
            case Child(moving=Attach(parent=root, sent=None) as moving) as child if root == peer:
                self._stand(replace(child, moving=self._ask_attach(moving, out)))

    def _circuit_down(self, peer: Domain, up: Container[Domain], out: list[Effect]) -> None:
        self._lose_child(peer, up, out)
        record = self.record
        match None if record is None else record.standing:
            case Attach(parent=parent, sent=sent) as attach if parent == peer and sent is not None:
                self._stand(replace(attach, sent=None))
                out.append(WantCircuit(peer))
            case Child(parent=parent, moving=None) if parent == peer:
                self._attach(peer, 0, up, out)
            case Child(parent=parent, moving=Attach() as moving) if parent == peer:
                self._stand(moving)
            case Child(moving=Attach(parent=root)) as child if root == peer:
                self._stand(replace(child, moving=None, root=child.parent))

    def _received(
        self, peer: Domain, message: AnyTreeMessage, up: Container[Domain], out: list[Effect]
    ) -> None:
        entries = getattr(message, "entries", ())
        if not is_sound(entries):
            out.append(ignored(message, "not a list"))
            return
        match message:
            case AttachAsked(number=number):
                self._attach_asked(peer, number, entries, up, out)
            case AttachOk(number=number, root=root):
                self._attached(peer, number, root, up, out)
            case AttachNo(number=number, redirect=redirect):
                self._refused(peer, number, redirect, up, out)
            case ListReport():
                self._reported(peer, entries, message, out)
            case ListChanges():
                known = self._report_of(peer)
                after = () if known is None else changed(known, message)
                if after is None or not is_sound(after):
                    out.append(Ignored("ListChanges", "not a list"))
                else:
                    self._reported(peer, after, message, out)
            case DetachedFromSet():
                if self._report_of(peer) is None:
                    out.append(Ignored("DetachedFromSet", "not a child"))
                self._drop_child(peer, up, out)
            case RootMoved(root=root):
                self._root_moved(peer, root, out)
            case ListRefused(kept=kept):
                self._report_refused(peer, kept, up, out)

    def _attach_asked(
        self, peer: Domain, number: int, entries: Entries, up: Container[Domain], out: list[Effect]
    ) -> None:
        """Only a leader accepts children."""
        record, group = self.record, self.group
        if record is not None and isinstance(record.standing, Leader):
            if self._has_room(record, peer, entries, (), out):
                self._set_child(record, peer, entries)
                out.append(SendTree(peer, AttachOk(group, number, self.me.path)))
            else:
                self._drop_child(peer, up, out)
            return
        self._drop_child(peer, up, out)  # if it was ours: it is on its way to a leader
        standing = None if self.record is None else self.record.standing
        redirect = standing.parent if isinstance(standing, Child) else None
        out.append(SendTree(peer, AttachNo(group, number, redirect)))

    def _attached(
        self, peer: Domain, number: int, root: Domain, up: Container[Domain], out: list[Effect]
    ) -> None:
        record = self.record
        match None if record is None else record.standing:
            case Attach(parent=parent, number=asked, sent=sent) if (parent, asked) == (peer, number):
                assert sent is not None, "answered before it was asked"
                self._stand(Child(peer, root, sent))
                out.append(Noted("child in a set", f"{self.group} {peer}"))
                self._tell_root(root, out)
            case Child(parent=old, moving=Attach(parent=parent, number=asked, sent=sent)) if (
                parent,
                asked,
            ) == (peer, number):
                assert sent is not None, "answered before it was asked"
                if old in up:
                    out.append(SendTree(old, DetachedFromSet(self.group)))
                self._stand(Child(peer, root, sent))
                out.append(Noted("child in a set", f"{self.group} {peer}"))
                self._tell_root(root, out)
            case _:
                out.append(Ignored("AttachOk", "late reply"))

    def _refused(
        self, peer: Domain, number: int, redirect: Domain | None, up: Container[Domain], out: list[Effect]
    ) -> None:
        record = self.record
        match None if record is None else record.standing:
            case Attach(parent=parent, number=asked, steps=steps) if (parent, asked) == (peer, number):
                if redirect is not None and redirect not in (self.me.path, peer) and steps < STEPS_MAX:
                    self._attach(redirect, steps + 1, up, out)
                else:
                    self._contend(peer, out, waits=True)
            case Child(moving=Attach(parent=parent, number=asked)) as child if (parent, asked) == (
                peer,
                number,
            ):
                self._stand(replace(child, moving=None, root=child.parent))
            case Child(parent=parent, moving=moving) if (parent, number) == (peer, RESIGNED):
                if moving is not None:
                    self._stand(moving)
                elif redirect is not None and redirect not in (self.me.path, peer):
                    self._attach(redirect, 1, up, out)
                else:
                    self._contend(None, out)
            case _:
                out.append(Ignored("AttachNo", "late reply"))

    # Those below us

    def _child(self, peer: Domain) -> ChildReport | None:
        record = self.record
        found = [] if record is None else [each for each in record.children if each.agent == peer]
        return found[0] if found else None

    def _report_of(self, peer: Domain) -> Entries | None:
        """None if it is no child, or its circuit was lost: then it has to attach first."""
        child = self._child(peer)
        return None if child is None or child.doubt else child.entries

    def _reported(self, peer: Domain, entries: Entries, message: AnyTreeMessage, out: list[Effect]) -> None:
        record, before = self.record, self._report_of(peer)
        if record is None or before is None:
            out.append(ignored(message, "not a child"))
            return
        if self._has_room(record, peer, entries, before, out):
            self._set_child(record, peer, entries)

    def _set_child(self, record: SetRecord, peer: Domain, entries: Entries) -> None:
        others = [each for each in record.children if each.agent != peer]
        children = sorted([*others, ChildReport(peer, entries)], key=lambda each: each.agent)
        self._keep(replace(record, children=tuple(children)))

    def _has_room(
        self, record: SetRecord, peer: Domain, entries: Entries, before: Entries, out: list[Effect]
    ) -> bool:
        """False: our list would be too large, so what it said before counts."""
        others = [each for each in record.children if each.agent != peer]
        grown = replace(record, children=(*others, ChildReport(peer, entries)))
        if fits(self._listed(grown)):
            return True
        known = {(each.origin, each.life): each.version for each in before}
        kept = [(each.origin, known.get((each.origin, each.life), 0), each.version) for each in entries]
        changed = tuple([(origin, version) for origin, version, newest in kept if version != newest])
        out.append(Ignored("ListReport", "the list is too large"))
        out.append(SendTree(peer, ListRefused(self.group, changed)))
        return False

    def _report_refused(
        self, peer: Domain, kept: tuple[tuple[Domain, int], ...], up: Container[Domain], out: list[Effect]
    ) -> None:
        """Our newest members go, and so do those of the agents below us."""
        record = self.record
        match None if record is None else record.standing:
            case Attach(parent=parent) if parent == peer:
                pass
            case Child(parent=parent) as child if parent == peer:
                self._stand(replace(child, refused=True))
            case Child(moving=Attach(parent=parent)) if parent == peer:
                pass
            case _:
                out.append(Ignored("ListRefused", "not our parent"))
                return
        assert record is not None, "a parent of nothing"
        versions = dict(kept)
        for report in record.children:
            below = [each.origin for each in report.entries if each.origin in versions]
            if below and report.agent in up:
                those = tuple([(origin, versions[origin]) for origin in below])
                out.append(SendTree(report.agent, ListRefused(self.group, those)))
        if self.me.path in versions:
            out.append(self._too_large(newer=versions[self.me.path]))

    def _lose_child(self, peer: Domain, up: Container[Domain], out: list[Effect]) -> None:
        """Its circuit is lost (S-062); with `grace_s` its list is kept for a while, in doubt (S-063)."""
        record, child = self.record, self._child(peer)
        if record is None or child is None or child.doubt:  # in doubt already: it has not attached again
            return
        if not self.config.grace_s:
            self._drop_child(peer, up, out)
            return
        doubted = tuple([replace(entry, in_doubt=True) for entry in child.entries])
        others = [each for each in record.children if each.agent != peer]
        children = [*others, ChildReport(peer, doubted, doubt=self._number())]
        children.sort(key=lambda each: each.agent)
        self._keep(replace(record, children=tuple(children)))

    def _drop_child(self, peer: Domain, up: Container[Domain], out: list[Effect]) -> None:
        record = self.record
        if record is None or self._child(peer) is None:
            return
        self._keep(replace(record, children=tuple([each for each in record.children if each.agent != peer])))
        self._end_if_empty(up, out)

    # The root

    def _tell_root(self, root: Domain, out: list[Effect]) -> None:
        record = self.record
        assert record is not None, "a root of nothing"
        near = [child.agent for child in record.children if not child.doubt]
        out += [SendTree(agent, RootMoved(self.group, root)) for agent in near]

    def _root_moved(self, peer: Domain, root: Domain, out: list[Effect]) -> None:
        record = self.record
        match None if record is None else record.standing:
            case Child(parent=parent) as child if parent == peer and root != self.me.path:
                if root != child.root:
                    self._stand(replace(child, root=root))
                    self._tell_root(root, out)
            case _:
                out.append(Ignored("RootMoved", "not our parent"))

    # Timers

    def _fired(self, what: str, up: Container[Domain], out: list[Effect]) -> None:
        record = self.record
        match what, None if record is None else record.standing:
            case "assert", Contend(number, suspect, waits=True):
                self._stand(Contend(number, suspect))
                self._assert(number, suspect, out)
            case "assert", Contend(number, suspect, tries):
                self._stand(Contend(number, suspect, tries + 1))
                self._assert(number, suspect, out)
            case "assert", Leader(number, answered, tries):
                if answered:
                    number, tries = self._number(), -1
                self._stand(Leader(number, answered=False, tries=tries + 1))
                self._assert(number, None, out)
            case "connect", Attach(parent=parent) as attach:
                self._let_go(attach, up, out)
                self._contend(parent, out)
            case "connect", Child(moving=Attach() as moving) as child:
                self._let_go(moving, up, out)
                self._stand(replace(child, moving=None, root=child.parent))
            case "report", Child(parent=parent) as child:
                self._report(parent, child, up, out)
            case "flatten", Child(root=root, moving=None) as child:
                self._stand(replace(child, moving=self._begin_attach(root, 0, up, out)))
            case lost, _ if lost.startswith(GRACE):
                self._drop_child(Domain(lost.removeprefix(GRACE)), up, out)
            case _:
                out.append(Ignored("TimerFired", "nothing waits for it"))

    def _report(self, parent: Domain, child: Child, up: Container[Domain], out: list[Effect]) -> None:
        entries = self.entries
        if entries == child.sent or parent not in up:
            return
        message: AnyTreeMessage = ListReport(self.group, entries)
        if self.config.compressed and not child.refused:
            message = changes(self.group, child.sent, entries)
        out.append(SendTree(parent, message))
        self._stand(replace(child, sent=entries, refused=False))

    def _wishes(self) -> dict[str, _Wish]:
        children = () if self.record is None else self.record.children
        grace = {
            f"{GRACE}{child.agent}": _Wish((child.doubt,), self.config.grace_s)
            for child in children
            if child.doubt
        }
        return {**self._wishes_of_standing(), **grace}

    def _wishes_of_standing(self) -> dict[str, _Wish]:
        record, config = self.record, self.config
        match None if record is None else record.standing:
            case Contend(number, _, tries, waits):
                if waits:
                    after_s = config.assert_s * (1.0 + spread(self.me, number))
                else:
                    after_s = self._patience_s(tries)
                return {ASSERT: _Wish((number, tries, waits), after_s)}
            case Leader(number, answered, tries):
                after_s = config.lease_s / 3 if answered else self._patience_s(tries)
                return {ASSERT: _Wish((number, tries, answered), after_s)}
            case Attach(parent=parent, number=number):
                return {CONNECT: _Wish((parent, number), config.attach_s)}
            case Child(parent=parent, root=root, sent=sent, moving=moving):
                wishes = {}
                if self.entries != sent:
                    wishes[REPORT] = _Wish((parent,), config.report_s)
                if moving is not None:
                    wishes[CONNECT] = _Wish((moving.parent, moving.number), config.attach_s)
                elif root != parent:
                    after_s = config.flatten_s * (1.0 + spread(self.me, self.state.number))
                    wishes[FLATTEN] = _Wish((parent, root), after_s)
                return wishes
        return {}

    def _patience_s(self, tries: int) -> float:
        return min(self.config.assert_s * (1 << min(tries, 16)), self.config.assert_max_s)

    def _move_timers(self, before: dict[str, _Wish], out: list[Effect]) -> None:
        after = self._wishes()
        for what in (*TIMERS, *sorted({*before, *after} - {*TIMERS})):
            was, wish = before.get(what), after.get(what)
            if wish is None and was is not None:
                out.append(CancelTimer(self._timer(what)))
            elif wish is not None and (was is None or was.about != wish.about):
                out.append(SetTimer(self._timer(what), wish.after_s))

    def _timer(self, what: str) -> TimerKey:
        return ("led", what, self.group.name, self.group.scope)

    # The state

    def _number(self) -> int:
        self.state = TreeState(self.state.number + 1, self.state.record)
        return self.state.number

    def _keep(self, record: SetRecord) -> None:
        self.state = TreeState(self.state.number, record)

    def _stand(self, standing: Standing) -> None:
        assert self.record is not None, "no record to stand in"
        self._keep(replace(self.record, standing=standing))


def spread(me: AgentId, number: int) -> float:
    """A number between 0 and 1 that differs between agents, so that two that refused each other do not retry
    at the same moment."""
    drawn = blake2b(f"{me.path} {me.life} {number}".encode(), digest_size=4, person=b"rostra-led").digest()
    return int.from_bytes(drawn) / 2**32
