"""One replica of a replicated object: what it does with what it is delivered. No IO in here.

    views, messages ──▶ ReplicaCore ──▶ SendInOrder       state for those who joined, digests
    in the one order                ──▶ CommandAnswered   an outcome of a command of ours
                                    ──▶ ReplicaDiverged   whose digest differs
                                    ──▶ StateLost         no replica is left that had the state

**State for a joiner.** All replicas know from the order who has the state and who still needs it: who joins
needs it. The most senior of those who have it sends it, as it is at that view; all who need it take it, and
then apply what came after. If the sender leaves before it is done, the next most senior one begins anew.
Where all members came with the first view, the most senior one's own object is the state.

Positions begin anew when a group does. A replica counts on from where it was, so that no number is used
twice.

**When all come again.** Agents that fail take their members out of the group, and the programs join again,
one by one. The first of them has a state, and another may have a later one, in which a command was answered:

    founder ── StateOffered ──▶ all      I have this much, and these were with me in my last view
    others  ── StateOffered ──▶ all      so have I
    all of that view have offered ──▶ the one with the most is the donor
    not all come ──▶ StateLost, at every replica: what was answered may be lost, and none goes on in silence

A replica that was alone in its last view has the last state. One that rejoins a group whose state lacks what
it has gets `StateLost` as well.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.client.commands import (
    CommandAsked,
    CommandLog,
    CommandOutcome,
    OlderState,
    OrderBarrier,
    Signature,
    StateDigest,
    StateOffered,
    StatePart,
    decode_command,
    differing,
    encode_command,
)
from rostra.groups.items import View
from rostra.names import Endpoint

PART_BYTES: Final = 256 << 10
"""Of a state that is sent to a joiner, in one message."""

STATE_BYTES_MAX: Final = 4 << 30
LATER_MAX: Final = 1_000_000
"""Messages that a joiner keeps until it has the state they belong to."""

CHECKPOINTS_KEPT: Final = 4

SAVE_BYTES: Final = 1 << 20
"""With ``stable="disk"``: after so many bytes of commands, and twice as many as a state has, the state is put
into the order again. Raising it: less is written, and more is applied again when all were lost."""

STATE_LOST: Final = "the state is lost"
ALL_GONE: Final = f"{STATE_LOST}: every member that had it is gone"
NOT_SURE: Final = f"{STATE_LOST}: not every member that may have had the last of it came back"


class SendInOrder(Struct, frozen=True):
    payloads: tuple[bytes, ...]


class CommandAnswered(Struct, frozen=True):
    number: int
    outcome: CommandOutcome


class ReplicaDiverged(Struct, frozen=True):
    """After so many commands these replicas had another state than most; or all, if there is no most. A
    command used more than the object and its arguments, or the replicas are of different versions."""

    commands: int
    endpoints: tuple[Endpoint, ...]


class StateLost(Struct, frozen=True):
    why: str


class StateSaved(Struct, frozen=True):
    """With ``stable="disk"``: a state is in the order, with all messages below this position in it."""

    position: int


ReplicaAct = SendInOrder | CommandAnswered | ReplicaDiverged | StateLost | StateSaved


class ReplicaCore:
    def __init__(self, log: CommandLog, session: bytes, *, on_disk: bool = False) -> None:
        self.log = log
        self.session = session
        self.on_disk = on_disk
        self.is_saved = not on_disk  # a state is in the order, to begin with when all are lost
        self._past: list[tuple[Endpoint, int, bytes]] = []  # what was kept, before our first view
        self._unsaved = 0  # bytes of commands since the last state in the order
        self._saving = 0  # bytes of ours that is on its way there
        self._size = 0  # of the last one
        self.me: Endpoint | None = None  # as of the last view
        self.ignored = 0  # messages that no replica sent
        self._number = 0  # of the last view
        self._members: tuple[Endpoint, ...] = ()
        self._needs: dict[Endpoint, int] = {}  # who has no state yet: the view with which it joined
        self._donor: Endpoint | None = None
        self._parts: dict[Endpoint, list[bytes]] = {}  # of the state, by sender
        self._later: list[View | tuple[Endpoint, int, bytes]] = []  # since we joined, until we have the state
        self._said: dict[int, dict[Endpoint, bytes]] = {}  # digests, by checkpoint
        self._last: StateOffered | None = None  # what we had in our last membership, if we are not sure of it
        self._founder: Endpoint | None = None  # that is not sure of its state
        self._offers: dict[Endpoint, StateOffered] = {}  # since it said so last

    @property
    def is_not_sure(self) -> bool:
        """Do we wait for others, while no replica has the state?"""
        return self._founder is not None and self._founder == self.me

    @property
    def has_state(self) -> bool:
        return self.me is not None and self.me not in self._needs

    # What is delivered

    def viewed(self, me: Endpoint, view: View) -> list[ReplicaAct]:
        acts: list[ReplicaAct] = []
        members = tuple([each.endpoint for each in view.members])
        if me == self.me and view.number == self._number:
            return acts  # a standstill is over
        came = me != self.me or me in view.joined
        if came:
            self._come(me)
        self._number = view.number
        joined = [each for each in members if each in view.joined or (came and each == me)]
        self._members = members
        self._needs = {each: number for each, number in self._needs.items() if each in members}
        self._needs.update(dict.fromkeys(joined, view.number))
        past, self._past = self._past, []
        if len(joined) == len(members) and self._recall(past, acts):
            self._needs = {}
        elif len(joined) == len(members) and self.on_disk:
            del self._needs[members[0]]
            self.is_saved = False
            self.log.birth = self.log.birth or self.session
        elif len(joined) == len(members):
            self._found(members[0], acts)
        elif self.is_not_sure and joined:
            acts.append(self._offer(is_founder=True))
        if self._founder not in members:
            self._founder = None
        donor = next((each for each in members if each not in self._needs), None)
        if donor is None and self._founder is None:
            return [StateLost(ALL_GONE)]
        if donor != self._donor:
            self._donor, joined = donor, list(self._needs)
        if not self.has_state:
            self._keep(view, acts)
            return acts
        self._last = None
        self._view(view)
        if donor == me and ((joined and self._needs) or not self.is_saved):
            self._save(acts)
        self._compare(acts)
        return acts

    def delivered(self, sender: Endpoint, position: int, body: bytes) -> list[ReplicaAct]:
        acts: list[ReplicaAct] = []
        if self.me is None and self.on_disk:
            self._past.append((sender, position, body))
        elif self.has_state:
            self._one(sender, position, body, acts)
        else:
            command = decode_command(body)
            if isinstance(command, StatePart):
                self._part(sender, command, acts)
            elif isinstance(command, StateOffered):
                self._offered(sender, command, acts)
            else:
                self._keep((sender, position, body), acts)
        return acts

    def barrier(self) -> bytes:
        return encode_command(OrderBarrier())

    def place(self, position: int) -> int:
        """A position of the group, as this replica counts them."""
        return self.log.base + position

    def left(self) -> None:
        """We left the group; our next view is that of a joiner."""
        if self.me is not None and self.has_state:
            log = self.log
            self._last = StateOffered(False, log.birth, log.position, self._number, self.me, self._members)
        self.me, self._founder = None, None

    def _come(self, me: Endpoint) -> None:
        """We joined the group, perhaps not for the first time."""
        self.left()
        self.me = me
        self._needs, self._donor = {}, None
        self._parts, self._later = {}, []
        self._said, self._saving = {}, 0
        self._founder, self._offers = None, {}

    def _view(self, view: View) -> None:
        if view.number > self.log.view:
            self.log.view = view.number
            self.log.object.viewed(tuple([each.endpoint for each in view.members]))

    def _one(self, sender: Endpoint, position: int, body: bytes, acts: list[ReplicaAct]) -> None:
        command = decode_command(body)
        place = self.log.base + position
        if not isinstance(command, CommandAsked):
            self.log.passed(place)
            self._other(sender, command, acts)
            return
        before = self.log.commands
        outcome = self.log.apply(place, command, _owner(sender))
        is_ours = command.session == self.session and _owner(sender) == _owner(self.me or "")
        if is_ours and outcome is not None:
            acts.append(CommandAnswered(command.number, outcome))
        if self.log.commands != before and self.log.is_checkpoint:
            acts.append(SendInOrder((encode_command(self.log.digest()),)))
        self._unsaved += len(body)
        if self.on_disk and self._unsaved > max(SAVE_BYTES, 2 * self._size) and self._donor == self.me:
            self._save(acts)

    def _other(self, sender: Endpoint, command: object, acts: list[ReplicaAct]) -> None:
        match command:
            case StateDigest(commands, digest):
                self._digest(sender, commands, digest, acts)
            case StatePart(view, _, True) if sender not in self._needs:
                self._needs = {each: number for each, number in self._needs.items() if number > view}
                self._saved(sender, command, acts)
            case OrderBarrier() | StatePart() | StateOffered():
                pass
            case None:
                self.ignored += 1

    # On disk

    def _save(self, acts: list[ReplicaAct]) -> None:
        """Our state, into the order: who joins takes it, and so do all if all are lost."""
        if not self._saving or self._needs:
            pieces = self._pieces(self._number)
            self._saving = sum(map(len, pieces))
            acts.append(SendInOrder(pieces))

    def _saved(self, sender: Endpoint, part: StatePart, acts: list[ReplicaAct]) -> None:
        if self.on_disk:
            self.is_saved, self._unsaved = True, 0
            self._size = part.nth * PART_BYTES + len(part.data)
            if sender == self.me:
                self._saving = 0
            acts.append(StateSaved(max(0, part.since + 1 - self.log.base)))

    def _recall(self, past: list[tuple[Endpoint, int, bytes]], acts: list[ReplicaAct]) -> bool:
        """None is here that has the state: it is the last one in the order that is whole, and what came after
        it was made. False: there is none, and so no command was answered."""
        parts: dict[Endpoint, list[bytes]] = {}
        found: tuple[bytes, int] | None = None
        for sender, _, body in past:
            part = decode_command(body)
            if isinstance(part, StatePart):
                held = parts.setdefault(sender, [])
                if part.nth == 0:
                    held.clear()
                held.append(part.data)
                if part.is_last and len(held) == part.nth + 1:
                    found = b"".join(held), len(held)
        if found is None:
            return False
        self.log.birth, self.log.position = b"", 0  # what we have is not newer than what is kept
        self.log.restore(found[0])
        self.log.view = 0  # numbers of views begin anew
        self.is_saved, self._saving, self._unsaved, self._size = True, 0, 0, len(found[0])
        for sender, position, body in past:
            if self.place(position) > self.log.position and isinstance(decode_command(body), CommandAsked):
                self._one(sender, position, body, acts)
        acts[:] = [each for each in acts if isinstance(each, CommandAnswered)]
        return True

    # A group that begins anew

    def _found(self, first: Endpoint, acts: list[ReplicaAct]) -> None:
        """All members came with this view. The object of the first is the state; unless it has been in the
        group before, and others with it, who may have more."""
        last = self._last
        if first != self.me or last is None or last.members == (last.was,):
            del self._needs[first]
            if self.has_state:
                self.log.birth = self.log.birth or self.session
                self.log.base, self.log.view = self.log.position, 0
        else:
            self._founder = first
            acts.append(self._offer(is_founder=True))

    def _offer(self, *, is_founder: bool) -> SendInOrder:
        assert self._last is not None
        return SendInOrder((encode_command(replace(self._last, is_founder=is_founder)),))

    def _offered(self, sender: Endpoint, offer: StateOffered, acts: list[ReplicaAct]) -> None:
        """All who were here when the founder offered its state last decide by the same offers."""
        assert self.me is not None
        if sender not in self._members:
            return
        if offer.is_founder:
            self._founder, self._offers = sender, {}
            self._needs.setdefault(sender, self._number)
            if self._last is not None and sender != self.me:
                acts.append(self._offer(is_founder=False))
        if self._founder is None:
            return
        self._offers[sender] = offer
        wanted = self._offers[self._founder].birth
        same = {each: made for each, made in self._offers.items() if made.birth == wanted}
        best = max(same, key=lambda each: (same[each].position, same[each].view, same[each].was))
        if {made.was for made in same.values()}.issuperset(same[best].members):
            self._decide_donor(best, acts)

    def _decide_donor(self, donor: Endpoint, acts: list[ReplicaAct]) -> None:
        assert self.me is not None
        self._founder, self._offers, self._donor = None, {}, donor
        self._needs = {each: self._needs.get(each, self._number) for each in self._members if each != donor}
        if donor == self.me:
            views = [each for each in self._later if isinstance(each, View)]
            self._last, self._later = None, []
            self.log.base, self.log.view = self.log.position, 0
            self._view(views[-1])
            acts.append(SendInOrder(self._pieces(self._number)))

    # State for those who joined

    def _pieces(self, view: int) -> tuple[bytes, ...]:
        data = self.log.snapshot()
        pieces = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
        last = len(pieces) - 1
        since = self.log.position
        return tuple(
            [encode_command(StatePart(view, n, n == last, each, since)) for n, each in enumerate(pieces)]
        )

    def _part(self, sender: Endpoint, part: StatePart, acts: list[ReplicaAct]) -> None:
        assert self.me is not None
        if sender not in self._members or part.view < self._needs[self.me]:
            return  # of one that is gone, or older than we are
        parts = self._parts.setdefault(sender, [])
        if part.nth == 0:
            parts.clear()
        if part.nth != len(parts) or part.nth * PART_BYTES > STATE_BYTES_MAX:
            return
        parts.append(part.data)
        if not part.is_last:
            return
        try:
            self.log.restore(b"".join(parts))
        except OlderState as error:
            acts.append(StateLost(f"{STATE_LOST}: {error}"))
            return
        except Exception as error:  # a class may read its state in its own way
            acts.append(StateLost(f"{sender} sent a state that cannot be read: {error!r}"))
            return
        self._parts, self._last, self._founder = {}, None, None
        self._saved(sender, part, acts)
        self._needs = {each: number for each, number in self._needs.items() if number > part.view}
        later, self._later = self._later, []
        for item in later:
            if isinstance(item, View):
                if item.number > self.log.view:
                    self._view(item)
            elif self.place(item[1]) > self.log.position:
                self._one(*item, acts)

    def _keep(self, item: View | tuple[Endpoint, int, bytes], acts: list[ReplicaAct]) -> None:
        self._later.append(item)
        if len(self._later) > LATER_MAX:
            acts.append(StateLost(f"the state did not come within {LATER_MAX} messages"))

    # Digests

    def _digest(self, sender: Endpoint, commands: int, digest: bytes, acts: list[ReplicaAct]) -> None:
        self._said.setdefault(commands, {})[sender] = digest
        self._compare(acts)

    def _compare(self, acts: list[ReplicaAct]) -> None:
        """As soon as all have said theirs, or most have and the next is under way."""
        expected = {each for each in self._members if each not in self._needs}
        for commands in sorted(self._said):
            said = self._said[commands]
            if expected <= said.keys() or len(self._said) > CHECKPOINTS_KEPT:
                del self._said[commands]
                if who := differing(said):
                    acts.append(ReplicaDiverged(commands, who))


def _owner(caller: str) -> str:
    return caller.rpartition("#")[0]


def new_core(
    object_: object,
    signatures: Mapping[str, Signature],
    session: bytes,
    checkpoint_every: int,
    *,
    on_disk: bool = False,
) -> ReplicaCore:
    log = CommandLog(object_, signatures, checkpoint_every=checkpoint_every)
    return ReplicaCore(log, session, on_disk=on_disk)
