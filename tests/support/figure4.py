"""Two builds that must fail: the paper's Figure 4 word for word, and single events instead of whole lists."""

from typing import Any

from support.lednet import LedNet

from rostra.core.effects import Effect
from rostra.names import Domain, Group
from rostra.protocols.led.core import SendTree, TreeCore
from rostra.protocols.led.messages import (
    AnyTreeMessage,
    Assert,
    AssertReply,
    DetachedFromSet,
    Entries,
    ListEntry,
    ListReport,
    LocalMember,
)
from rostra.protocols.led.state import AgentId, Child, ChildReport, Leader, SetRecord, TreeState

Places = frozenset[tuple[Domain, str]]


class Figure4Node:
    """An agent as in the figure: no answer to a winner, no nonce, no lease, no end of a record, and children
    of any agent. A lost connection is not restored."""

    def __init__(self, net: LedNet, path: Domain, life: int) -> None:
        self.net, self.path, self.id = net, path, AgentId(path, life)
        self.trees: dict[Group, Any] = {}
        self.up: set[Domain] = set()
        self.registrar = path
        self.reachable: frozenset[Domain] = frozenset([path])
        self.leaders: dict[Group, Domain] = {}
        self.parent: Domain | None = None  # MyParent; none before the first JOIN-SET
        self.local: Places = frozenset()
        self.members: Places = frozenset()
        self.children: dict[Domain, Places] = {}
        self._waiting: list[tuple[Domain, Any]] = []  # until the connection is up

    def join(self, name: str, group: Group) -> None:
        place = frozenset([(self.path, name)])
        if self.parent is None:
            self.parent, self.local, self.members = self.path, place, place
            self.net.post(self.path, self.registrar, Assert(group, 0, 0))
        else:
            self.local |= place
            self.members = self.local | self.members
            self._update(group)

    def leave(self, name: str, group: Group) -> None:
        place = frozenset([(self.path, name)])
        self.local -= place
        self.members -= place
        if not self.members:
            if self.parent not in (None, self.path):
                assert self.parent is not None
                self._say(self.parent, DetachedFromSet(group))
                self.parent = self.path
        else:
            self._update(group)

    def _update(self, group: Group) -> None:
        if self.parent is not None and self.parent != self.path:
            by_origin: dict[Domain, list[str]] = {}
            for origin, name in sorted(self.members):
                by_origin.setdefault(origin, []).append(name)
            entries = [
                ListEntry(origin, 0, 0, tuple(map(LocalMember, names))) for origin, names in by_origin.items()
            ]
            self._say(self.parent, ListReport(group, tuple(entries)))

    def _say(self, to: Domain, message: Any) -> None:
        if to in self.up:
            self.net.send(self.path, to, message)
        else:
            self._waiting.append((to, message))
            self.net.want(self.path, to)

    def letter(self, sender: Domain, letter: Any) -> None:
        group = letter.group
        match letter:
            case Assert() if self.registrar == self.path:
                leader = self.leaders.get(group)
                if leader is not None and leader != sender and leader in self.reachable:
                    self.net.post(self.path, sender, AssertReply(group, 0, leader))
                else:
                    self.leaders[group] = sender
            case AssertReply(leader=leader) if self.parent == self.path:
                self.parent = leader
                self._update(group)
        self.net.check(group)

    def tree(self, peer: Domain, message: Any) -> None:
        if isinstance(message, DetachedFromSet):
            self._lost_child(peer, message.group)
        else:
            self.children[peer] = frozenset(
                [(entry.origin, member.name) for entry in message.entries for member in entry.members]
            )
            self._recompute(message.group)

    def _recompute(self, group: Group) -> None:
        self.members = self.local.union(*self.children.values())
        self._update(group)

    def _lost_child(self, peer: Domain, group: Group) -> None:
        if self.children.pop(peer, None) is not None:
            self._recompute(group)

    def circuit_up(self, peer: Domain) -> None:
        self.up.add(peer)
        for to, message in [each for each in self._waiting if each[0] == peer]:
            self.net.send(self.path, to, message)
        self._waiting = [each for each in self._waiting if each[0] != peer]

    def circuit_down(self, peer: Domain) -> None:
        self.up.discard(peer)
        for group in self.net.groups:
            if self.parent == peer:
                self.parent = self.path
                self.net.post(self.path, self.registrar, Assert(group, 0, 0))
            else:
                self._lost_child(peer, group)

    def reach(self, reachable: frozenset[AgentId]) -> None:
        self.reachable = frozenset([each.path for each in reachable])
        highest = max([each.path for each in self.net.candidates(reachable | {self.id})])
        if highest != self.registrar:
            self.registrar, self.leaders = highest, {}
            for group in self.net.groups:
                if self.parent == self.path:
                    self.net.post(self.path, self.registrar, Assert(group, 0, 0))

    # For checks

    def state(self, group: Group) -> TreeState:
        if self.parent is None or not (self.local or self.children):
            return TreeState()
        standing = Leader(0) if self.parent == self.path else Child(self.parent, self.parent, ())
        local = tuple([LocalMember(name) for _, name in sorted(self.local)])
        children = tuple([ChildReport(each, ()) for each in sorted(self.children)])
        return TreeState(0, SetRecord(standing, 0, local, children))

    def list_of(self, group: Group) -> Entries:
        return tuple([ListEntry(origin, 0, 0, (LocalMember(name),)) for origin, name in sorted(self.members)])


class SingleEventCore(TreeCore):
    """Joins and leaves are forwarded one by one, and a second join of a member is a duplicate."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.listed: dict[tuple[Domain, str], None] = {}
        self.queue: list[ListEntry] = []

    def _happened(self, origin: Domain, member: LocalMember, joined: bool) -> None:
        if joined == ((origin, member.name) in self.listed):
            return
        if joined:
            self.listed[origin, member.name] = None
        else:
            del self.listed[origin, member.name]
        self.queue.append(ListEntry(origin, 0, int(joined), (member,)))

    def _came(self, member: LocalMember, out: list[Effect]) -> None:
        super()._came(member, out)
        self._happened(self.me.path, member, True)

    def _went(self, name: str, up: Any, out: list[Effect]) -> None:
        super()._went(name, up, out)
        self._happened(self.me.path, LocalMember(name), False)

    def _set_child(self, record: SetRecord, peer: Domain, entries: Entries) -> None:
        super()._set_child(record, peer, entries)
        for entry in entries:
            for member in entry.members:
                self._happened(entry.origin, member, True)

    def _reported(self, peer: Domain, entries: Entries, message: AnyTreeMessage, out: list[Effect]) -> None:
        for entry in entries:
            self._happened(entry.origin, entry.members[0], bool(entry.version))

    def _report(self, parent: Domain, child: Child, up: Any, out: list[Effect]) -> None:
        out += [SendTree(parent, ListReport(self.group, (entry,))) for entry in self.queue]
        self.queue = []
        self._stand(Child(child.parent, child.root, self.entries, child.moving))

    @property
    def entries(self) -> Entries:
        by_origin: dict[Domain, list[str]] = {}
        for origin, name in sorted(self.listed):
            by_origin.setdefault(origin, []).append(name)
        return tuple(
            [ListEntry(origin, 0, 1, tuple(map(LocalMember, names))) for origin, names in by_origin.items()]
        )
