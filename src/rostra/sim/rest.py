"""A world at rest, compared with the twin: views, answers, and the tables of every server.

Nothing is in flight, so what must hold *eventually* must hold now. Servers may be down and lines cut: the
twin knows what can be seen from where.
"""

from collections.abc import Iterable
from typing import Final

from rostra.core.stack import Stack
from rostra.groups.members import Members
from rostra.names import Domain, Endpoint, Group, inside
from rostra.protocols.relaxed.domain import SERVER, DomainServer
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.messages import Interest
from rostra.protocols.relaxed.neighbours import Relation
from rostra.protocols.relaxed.requests import Absolute, Changed, Joined, Snapshot
from rostra.sim.history import AnyRecord, MembershipChanged, NoticeRecord
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.twin import Twin
from rostra.sim.world import World

ANSWER_WITHIN_S: Final = 30.0

PROBE: Final = "probe"
"""The name of the programs that ask from every host and never join."""


class Comparison:
    """Reads a world's history as it grows, and compares whenever it is asked to."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.twin = Twin(world.tree.hosts)
        self.groups: set[Group] = set()  # all that were ever joined
        self._joined_at: dict[tuple[Group, Endpoint], float] = {}
        self._probes: dict[Domain, SimProgram] = {}
        self._read = 0

    def check(self) -> None:
        """Everything that must hold of a world at rest. Answers are asked for last, and arrive before it
        ends."""
        self.read_history()
        self._views_are_true()
        self._tables_are_right()
        self._answers_are_true()
        self.read_history()

    def read_history(self) -> None:
        history = self.world.history
        assert history is not None, "a world without a history cannot be compared"
        fresh = self.fresh(history[self._read :])
        self._read = len(history)
        for record in fresh:
            self.twin.take(record)
            if isinstance(record, MembershipChanged):
                self.groups.add(record.group)
                self._joined_at.setdefault((record.group, record.endpoint), record.at)
        for record in fresh:
            match record:
                case NoticeRecord(
                    notice=Absolute(group=group, members=members)
                    | Joined(group=group, members=members)
                    | Snapshot(group=group, members=members)
                    | Changed(group=group, members=members)
                ):
                    self._no_member_is_invented(record, group, members)

    def fresh(self, records: list[AnyRecord]) -> list[AnyRecord]:
        """The newest records that count."""
        return records

    def _died_joining(self, group: Group, endpoint: Endpoint) -> bool:
        programs = self.world.programs
        return any(each.endpoint == endpoint and group in each.died_joining for each in programs)

    def _no_member_is_invented(self, record: NoticeRecord, group: Group, members: Members) -> None:
        """C-075: only endpoints that joined are named as members."""
        for member in members:
            joined_at = self._joined_at.get((group, member.endpoint))
            if joined_at is None and self._died_joining(group, member.endpoint):
                continue  # its agent let it in, and found that out afterwards
            assert joined_at is not None and joined_at <= record.at, (
                f"{record.endpoint} was told of {member.endpoint}, which had not joined {group}"
            )

    def _views_are_true(self) -> None:
        """C-070, C-073."""
        for program in self.world.programs:
            if program.alive and self.world.processes[program.host].works:
                for views, group in (
                    *[(program.views, group) for group in sorted(program.following)],
                    *[(program.watched, group) for group in sorted(program.watching)],
                ):
                    view = self.seen(tuple([each.endpoint for each in views.groups[group].members]))
                    truth = self.twin.seen_from(program.host, group)
                    assert view == truth, f"{program} sees {group} as {_text(view)}, truly {_text(truth)}"

    def _answers_are_true(self) -> None:
        """C-071: a resolve from any host, by a member or not, is answered with the truth."""
        asked: list[tuple[SimProgram, Group, SimCall]] = []
        for host in self.world.tree.hosts:
            if not self.world.processes[host].works:
                continue
            probe = self._probes.get(host)
            if probe is None or not probe.alive:
                probe = self._probes[host] = self.world.program(host, PROBE)
            asked += [(probe, g, probe.resolve(g)) for g in sorted(self.groups) if inside(g.scope, host)]
        give_up = self.world.now + ANSWER_WITHIN_S
        while any(call.result is None for _, _, call in asked) and self.world.now < give_up:
            self.world.run(0.2)
        for probe, group, call in asked:
            truth = self.twin.seen_from(probe.host, group)
            assert isinstance(call.result, Absolute), f"{probe} asked for {group}, got {call.result}"
            answer = self.seen(tuple(member.endpoint for member in call.result.members))
            assert answer == truth, f"{probe} was told {group} is {_text(answer)}, truly {_text(truth)}"

    def _tables_are_right(self) -> None:
        for path, process in self.world.processes.items():
            if not process.works:
                continue
            if (server := process.stack.find(SERVER)) is not None:
                waiting = len(server.collections) + len(server.collections.questions)
                self._rows_are_right(server)
                self._interest_is_sound(server)
            else:
                agent = process.stack[AGENT]
                waiting = len(agent.resolves.open) + len(agent.resolves.questions)
            assert not waiting, f"{path} still waits for {waiting} answers"

    def _rows_are_right(self, server: DomainServer) -> None:
        """C-146: a row for every handled group with members below, and no other."""
        truly = self.twin.rows(server.domain, self.world.fronts.watched())
        rows, truth = (tuple(filter(self.counts, groups)) for groups in (sorted(server.table.rows), truly))
        assert rows == truth, f"{server.domain} has rows for {_text(rows)}, should have for {_text(truth)}"

    def seen(self, members: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """The members of a list that count."""
        return members

    def counts(self, group: Group) -> bool:
        """Does the twin know all about this group?"""
        return True

    def _interest_is_sound(self, server: DomainServer) -> None:
        """C-103: a child's entry is the child's state; what an outer neighbour wants is never underrated."""
        for peer, relation in server.neighbours.up.items():
            if peer not in self.world.processes:
                continue  # a delegate, which is no node of its own
            other = self.world.processes[peer].stack
            for group in sorted({*server.table.rows, *_groups(other)}):
                if not server.neighbours.in_range(group, relation):
                    continue
                want, state = server.table.want(group, peer), _state(other, group, relation)
                if relation is Relation.CHILD:
                    fine = want == state
                else:
                    fine = want >= state or group not in server.table.rows
                assert fine, f"{server.domain} thinks {peer} wants {want.name} of {group}, not {state.name}"


_THE_OTHER_WAY: Final = {
    Relation.CHILD: Relation.PARENT,
    Relation.SIBLING: Relation.SIBLING,
    Relation.PARENT: Relation.CHILD,
}


def _state(stack: Stack, group: Group, relation: Relation) -> Interest:
    """What a server advertises to a neighbour that calls it by this relation."""
    if (agent := stack.find(AGENT)) is not None:
        return agent.interest(group)
    return stack[SERVER].table.advertised(group, _THE_OTHER_WAY[relation])


def _groups(stack: Stack) -> Iterable[Group]:
    if (agent := stack.find(AGENT)) is not None:
        return agent.groups
    server = stack.find(SERVER)
    return server.table.rows if server is not None else ()


def _text(things: Iterable[object]) -> str:
    return " ".join(map(str, things)) or "nobody"
