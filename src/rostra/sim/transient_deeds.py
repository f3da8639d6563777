"""What programs do in storms with transient sets and sequences, and what must be so at every end of it.

    make a set · add programs, and endpoints that do not exist · delete · leave · end it
    open a sequence to a set or a led group · speak · close it

When all is repaired: a set has those whom its owner added and who neither left nor died (S-078), their agents
know it and know no other (S-074, S-079), and no answer is waited for. A sequence told only those who were its
destinations when it was opened (S-085), each message at most once and in the order in which it was sent: its
frames go by links. What agents count for users is what there is to count.
"""

from collections import Counter
from random import Random
from typing import Final

from rostra.names import Domain, Endpoint, Group, host_of, inside
from rostra.protocols.led.agent import LedAgent
from rostra.protocols.led.requests import (
    AddRefused,
    ChangeSet,
    CloseSequence,
    CreateSet,
    DestroySet,
    LeaveLed,
    OpenSequence,
    SendSequence,
    SequenceMessage,
    SequenceOpened,
    SetCreated,
)
from rostra.protocols.led.transient import RosterState
from rostra.protocols.relaxed.requests import Done
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.world import World

DEEDS: Final = (
    "create",
    "change",
    "change",
    "change",
    "leave",
    "destroy",
    "open",
    "open",
    "say",
    "say",
    "close",
)

NOWHERE: Final = (Endpoint("eu.fr.h99/x#1"), Endpoint("eu.xx.h1/x#1"))
"""A host that does not exist, in a cluster that does, and in one that does not."""

Agents = dict[Domain, LedAgent]


class TransientDeeds:
    def __init__(self, world: World, luck: Random, groups: tuple[Group, ...]) -> None:
        self.world, self.luck, self.groups = world, luck, groups
        self.created: list[SimCall] = []
        self.changed: list[SimCall] = []
        self.opened: list[SimCall] = []
        self._left: set[tuple[Group, Endpoint]] = set()  # or may have

    def deed(self) -> None:
        getattr(self, f"_{self.luck.choice(DEEDS)}")()

    def _alive(self) -> list[SimProgram]:
        return [each for each in self.world.programs if each.alive and each.endpoint is not None]

    def _of_living(self, calls: list[SimCall], answer: type) -> list[SimCall]:
        return [each for each in calls if each.program in self._alive() and isinstance(each.result, answer)]

    def _create(self) -> None:
        if alive := self._alive():
            owner, readmit = self.luck.choice(alive), self.luck.random() < 0.8
            scope = Domain("eu" if inside(Domain("eu"), owner.host) and self.luck.random() < 0.5 else "world")
            self.created.append(owner.ask(CreateSet(scope, int(self.world.now * 1000), readmit)))

    def _change(self) -> None:
        sets = self._of_living(self.created, SetCreated)
        if not sets:
            self._create()
            return
        created = self.luck.choice(sets)
        group = created.result.group
        there = [each.address for each in self._alive() if inside(group.scope, each.host)]
        add = self.luck.sample(there, min(len(there), self.luck.randrange(4)))
        delete = self.luck.sample(there, min(len(there), self.luck.choice((0, 0, 1))))
        if self.luck.random() < 0.1:
            add.append(self.luck.choice(NOWHERE))
        delete = [each for each in delete if each not in add]
        self.changed.append(_owner(created).ask(ChangeSet(group, tuple(add), tuple(delete))))

    def _leave(self) -> None:
        sets = self._of_living(self.created, SetCreated)
        if sets and (alive := self._alive()):
            group, program = self.luck.choice(sets).result.group, self.luck.choice(alive)
            self._left.add((group, program.address))
            program.ask(LeaveLed(group))

    def _destroy(self) -> None:
        if len(sets := self._of_living(self.created, SetCreated)) > 2:
            created = self.luck.choice(sets)
            self.created.remove(created)
            _owner(created).ask(DestroySet(created.result.group))

    def _open(self) -> None:
        sets = [each.result.group for each in self._of_living(self.created, SetCreated)]
        if alive := self._alive():
            source = self.luck.choice(alive)
            groups = [each for each in (*sets, *sets, *self.groups) if inside(each.scope, source.host)]
            self.opened.append(source.ask(OpenSequence(self.luck.choice(groups))))

    def _say(self) -> None:
        for opened in self._of_living(self.opened, SequenceOpened):
            for _ in range(self.luck.randrange(4)):
                _owner(opened).ask(SendSequence(opened.result.number, b"e4"))

    def _close(self) -> None:
        if sequences := self._of_living(self.opened, SequenceOpened):
            opened = self.luck.choice(sequences)
            _owner(opened).ask(CloseSequence(opened.result.number))

    # When it is calm

    def check(self, agents: Agents) -> None:
        self._check_sets(agents)
        self._check_sequences()
        for path, led in agents.items():
            if wrong := miscounted(led):
                raise AssertionError(f"{path}: {wrong}")

    def _check_sets(self, agents: Agents) -> None:
        held = {
            (path, group): members
            for path, led in agents.items()
            for group, members in led.transient.held.items()
        }
        for known in [each for led in agents.values() for each in led.transient.owned.values()]:
            for host, places in known.roster.items():
                waits = [each for each, place in places.items() if place is not RosterState.IN]
                assert not waits, f"{known.group} waits for {waits[0]}"
                told = held.pop((host, known.group), set())
                assert told == {*places}, f"S-074: {host} has {sorted(told)} of {known.group}"
        assert not held, f"S-079: a set is known to its members only: {sorted(held)[0]}"
        for created in self._of_living(self.created, SetCreated):
            group = created.result.group
            members = {*agents[_owner(created).host].transient.owned[group].members}
            lost = self._expected(group) - members if created.request.readmit else set()
            assert not lost, f"S-078: {sorted(lost)[0]} is not in {group}"
            dead = members - {each.address for each in self._alive()}
            assert not dead, f"{group} has {sorted(dead)[0]}, which is gone"

    def _expected(self, group: Group) -> set[Endpoint]:
        """The members that were added, and are not in doubt."""
        there: set[Endpoint] = set()
        for call in self.changed:
            if call.request.group == group and call.result == Done():
                there = {*there, *call.request.add} - {*call.request.delete}
        alive = {each.address: each for each in self._alive()}
        refused = {
            notice.endpoint
            for program in alive.values()
            for notice in program.set_notices
            if isinstance(notice, AddRefused) and notice.group == group
        }
        return {each for each in there if each in alive and (group, each) not in self._left} - refused

    def _check_sequences(self) -> None:
        destinations = {
            (_owner(each).address, each.result.number): {*each.result.destinations}
            for each in self.opened
            if isinstance(each.result, SequenceOpened)
        }
        for program in self.world.programs:
            last: Counter[tuple[Endpoint, int]] = Counter()
            for notice in program.set_notices:
                if isinstance(notice, SequenceMessage):
                    key = notice.source, notice.sequence
                    wrong = f"{program} was told message {notice.number} of {key}"
                    assert program.address in destinations.get(key, ()), f"S-085: {wrong}"
                    assert notice.number > last[key], f"{wrong} after {last[key]}"
                    last[key] = notice.number

    # The end

    def end(self) -> None:
        for opened in self._of_living(self.opened, SequenceOpened):
            _owner(opened).ask(CloseSequence(opened.result.number))
        for created in self._of_living(self.created, SetCreated):
            _owner(created).ask(DestroySet(created.result.group))
        self.created.clear()

    def remains(self, agents: Agents) -> list[str]:
        left = []
        for path, led in agents.items():
            sets, sequences = led.transient, led.sequences
            kept = [*sets.owned, *sets.held, *sequences.opened, *sequences.vehicles, *led.wanted.hosts]
            if kept:
                left.append(f"{path} keeps {kept[0]} of a set or sequence that is over")
        return left


def miscounted(led: LedAgent) -> str:
    """Which count of an agent is wrong, between two steps."""
    sets, sequences = led.transient, led.sequences
    uses: Counter[tuple[str, Domain]] = Counter()
    for known in sets.owned.values():
        uses.update((known.user, host) for host in known.roster)
    for opened in sequences.opened.values():
        uses.update((opened.user, host) for host in {*map(host_of, opened.destinations)})
    named = {(user, host): count for (user, host), count in uses.items() if host != led.host}
    kept = {(user, host): count for user, hosts in led.wanted._uses.items() for host, count in hosts.items()}
    rooms = {
        "hosts": (kept, named),
        "shared hosts": (led.wanted._room.taken, len(named)),
        "sets": (sets._sets_of.taken, len(sets.owned)),
        "sets of endpoints": (
            sum(each.taken for each in sets._sets_with.values()),
            sum(map(len, sets.held.values())),
        ),
        "sequences": (sequences._open_of.taken, len(sequences.opened) + len(sequences._asking)),
        "strangers": (sequences._held_in.taken, len(sequences._held)),
        "questions": (led.queries._room.taken, len(led.queries.open)),
        "circuits": (led.circuits._taken.taken, len(led.circuits.links) - len(led.circuits._wanted)),
        "names": (led.registrar._names_in.taken, len(led.registrar.entries)),
    }
    wrong = [f"{what}: {counted}, not {real}" for what, (counted, real) in rooms.items() if counted != real]
    return wrong[0] if wrong else ""


def _owner(call: SimCall) -> SimProgram:
    assert call.program is not None, "programs ask"
    return call.program
