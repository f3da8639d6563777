"""Transient sets and sequences at one agent: what it sends, and what it believes of others."""

from typing import Any

import pytest

from rostra.core.effects import Answer, Asked, Effect, EndpointGone, Ignored, Send, Tell
from rostra.errors import BadInput, NotAvailable, NotInScope, NotOwner
from rostra.names import Domain, Endpoint, Group, parse_group_name
from rostra.protocols.led import sequences
from rostra.protocols.led.core import TreeReceived
from rostra.protocols.led.messages import (
    AddAnswered,
    AddedToSet,
    AttachAsked,
    DeletedFromSet,
    ListEntry,
    ListTold,
    LocalMember,
    MembersLeft,
    SequenceData,
    SequenceDone,
    SequenceReplied,
    SequenceTaken,
    TransientGone,
)
from rostra.protocols.led.requests import (
    AddRefused,
    ChangeSet,
    CloseSequence,
    CreateSet,
    DestroySet,
    JoinLed,
    LeaveLed,
    OpenSequence,
    ResolveSet,
    SendSequence,
    SequenceClosed,
    SequenceEnded,
    SequenceMessage,
    SequenceOpened,
    SequenceReply,
    SequenceShrunk,
    SetAdded,
    SetLost,
    SetMembers,
)
from rostra.protocols.led.sequences import VehiclePolicy
from rostra.protocols.led.state import AgentId
from rostra.protocols.relaxed.requests import Denied, Done, Open, Resolve
from tests.cores.test_led_services import CHESS, EU, H2, H3, US, Agent, letters

ANN = Endpoint("eu.fr.h1/ann#1")
EVE, DAN = Endpoint("eu.fr.h2/eve#9"), Endpoint("eu.fr.h3/dan#4")


class Owner(Agent):
    """An agent with one program, and the circuits that the test says are up."""

    def __init__(self, *up: Domain) -> None:
        super().__init__()
        self.step(Asked(Domain(""), 1, Open("ann")))
        self.on_circuits: list[tuple[Domain, Any]] = []
        self.led.circuits.up.update(up)
        self.led.circuits.send = lambda now, peer, message, post, give: self.on_circuits.append(  # type: ignore[method-assign,assignment]
            (peer, message)
        )
        self.tokens = 10

    def ask(self, request: Any) -> list[Effect]:
        self.tokens += 1
        return self.step(Asked(ANN, self.tokens, request))

    def create(self, at_ms: int = 5) -> Group:
        (answer,) = [each for each in self.ask(CreateSet(EU, at_ms)) if isinstance(each, Answer)]
        return answer.result.group

    def transient(self, peer: Domain, message: Any) -> list[Effect]:
        """From that agent, on a circuit."""
        out = self.led._begin(0.0)
        self.led.transient.received(peer, message)
        return list(out)

    def notices(self, effects: list[Effect]) -> list[Any]:
        return [each.notice for each in effects if isinstance(each, Tell)]


@pytest.mark.spec("S-072", "S-008", "S-009")
def test_creation_needs_no_message_and_names_differ_though_the_clock_is_set_back() -> None:
    owner = Owner()
    effects = owner.ask(CreateSet(EU, 5))
    assert not [each for each in effects if isinstance(each, Send)] and not owner.on_circuits
    names = {owner.create(at_ms).name for at_ms in (9, 7, 7, 5)}
    assert len(names) == 4
    assert all(str(parse_group_name(name)) == name and name.startswith(f"{ANN}~") for name in names)


@pytest.mark.spec("S-073", "S-075")
def test_members_are_in_the_set_when_their_agent_confirms_it() -> None:
    owner = Owner(H2)
    group = owner.create()
    owner.ask(ChangeSet(group, add=(EVE, Endpoint("eu.fr.h2/nobody#1"))))
    assert owner.on_circuits == [(H2, AddedToSet(group, ("eve#9", "nobody#1")))]
    assert owner.led.transient.owned[group].members == ()
    effects = owner.transient(H2, AddAnswered(group, ("eve#9",), ("nobody#1",)))
    first, refused = owner.notices(effects)
    assert first == SetMembers(group, (EVE,)) and refused.endpoint == "eu.fr.h2/nobody#1"

    effects = owner.transient(H2, MembersLeft(group, ("eve#9",)))
    assert owner.notices(effects) == [SetMembers(group, ())]


@pytest.mark.spec("S-074", "S-078")
def test_a_leave_that_crossed_the_next_add_does_not_undo_it() -> None:
    """Storm 909222 of shape sets."""
    owner = Owner(H2)
    group = owner.create()
    for change in (
        ChangeSet(group, add=(EVE,)),
        ChangeSet(group, delete=(EVE,)),
        ChangeSet(group, add=(EVE,)),
    ):
        owner.ask(change)
    owner.transient(H2, AddAnswered(group, ("eve#9",)))  # to the first
    owner.transient(H2, MembersLeft(group, ("eve#9",)))
    assert owner.led.transient.owned[group].members == ()
    owner.transient(H2, AddAnswered(group, ("eve#9",)))  # to the second
    assert owner.led.transient.owned[group].members == (EVE,)
    owner.transient(H2, MembersLeft(group, ("eve#9",)))
    assert owner.led.transient.owned[group].members == () and not owner.led.transient._asks


@pytest.mark.spec("S-074")
def test_a_member_that_confirms_when_it_was_given_up_is_taken_out_again() -> None:
    owner = Owner(H2)
    group = owner.create()
    owner.ask(ChangeSet(group, add=(EVE,)))
    owner.led._begin(60.0)
    owner.led.transient.fired(H2)
    owner.transient(H2, AddAnswered(group, ("eve#9",)))
    assert owner.on_circuits[-1] == (H2, DeletedFromSet(group, ("eve#9",)))
    assert owner.led.transient.owned[group].members == ()


@pytest.mark.spec("S-075", "S-078")
@pytest.mark.parametrize("readmit", [False, True])
def test_one_that_was_added_and_not_confirmed_before_a_cut_is_asked_again_or_reported(readmit: bool) -> None:
    owner = Owner(H2)
    (answer,) = [each for each in owner.ask(CreateSet(EU, 5, readmit)) if isinstance(each, Answer)]
    group = answer.result.group
    owner.ask(ChangeSet(group, add=(EVE,)))
    out = owner.led._begin(1.0)
    owner.led.transient.circuit_down(H2)
    told = owner.notices(list(out))
    owner.on_circuits.clear()
    owner.led.transient.circuit_up(H2)
    if readmit:
        assert told == [] and owner.on_circuits == [(H2, AddedToSet(group, ("eve#9",)))]
    else:
        assert [(each.group, each.endpoint) for each in told] == [(group, EVE)] and not owner.on_circuits
        assert isinstance(told[0], AddRefused) and not owner.led.wanted.hosts


@pytest.mark.spec("S-073", "S-074")
def test_an_agent_speaks_for_its_own_endpoints_and_the_owners_agent_alone_changes_a_set() -> None:
    owner = Owner(H2, H3)
    group = owner.create()
    owner.ask(ChangeSet(group, add=(EVE,)))
    owner.transient(H2, AddAnswered(group, ("eve#9",)))
    owner.transient(H3, MembersLeft(group, ("eve#9",)))  # that would be eve of h3
    assert owner.led.transient.owned[group].members == (EVE,)

    theirs = Group("eu.fr.h2/eve#9~1-1", EU)
    assert owner.transient(H3, AddedToSet(theirs, ("ann#1",))) == [
        Ignored("AddedToSet", "not the owner's agent")
    ]
    assert owner.notices(owner.transient(H2, AddedToSet(theirs, ("ann#1",)))) == [SetAdded(theirs)]
    assert owner.transient(H3, DeletedFromSet(theirs, ("ann#1",))) == [
        Ignored("DeletedFromSet", "not the owner's agent")
    ]
    assert owner.led.transient.held == {theirs: {ANN}}


def opened(owner: Owner, group: Group, *members: Endpoint) -> int:
    """A sequence to a set with these members, as its leader h2 says."""
    effects = owner.ask(OpenSequence(group))
    asked = [letter for _, letter in letters(effects)][-1]
    entries: dict[Domain, list[LocalMember]] = {}
    for member in members:
        host, _, name = member.partition("/")
        entries.setdefault(Domain(host), []).append(LocalMember(name))
    told = tuple([ListEntry(host, 1, 1, tuple(entries[host])) for host in sorted(entries)])
    effects = owner.receive(H2, ListTold(group, asked.number, True, None, 1, 1, told))
    (answer,) = [each.result for each in effects if isinstance(each, Answer)]
    assert isinstance(answer, SequenceOpened) and answer.destinations == tuple(sorted(members))
    return answer.number


THEIRS, OTHERS = Group("eu.fr.h2/eve#9~1-1", EU), Group("eu.fr.h2/eve#9~1-2", EU)


@pytest.mark.spec("S-083", "S-084")
@pytest.mark.parametrize(
    ("policy", "vehicles"),
    [(VehiclePolicy.SEQUENCE, 3), (VehiclePolicy.SET, 2), (VehiclePolicy.ALL, 1)],
)
def test_whatever_a_vehicle_serves_the_same_endpoints_are_told(policy: VehiclePolicy, vehicles: int) -> None:
    owner = Owner(H2, H3)
    owner.led.sequences.policy = policy
    numbers = [opened(owner, THEIRS, EVE), opened(owner, THEIRS, EVE), opened(owner, OTHERS, DAN)]
    assert len(owner.led.sequences.vehicles) == vehicles
    told = []
    for number in numbers:
        sent = letters(owner.ask(SendSequence(number, b"e4")))
        told.append([(to, letter.to) for to, letter in sent if letter.to])
        assert len({letter.vehicle for _, letter in sent}) == 1
        if policy is VehiclePolicy.ALL:
            assert [to for to, _ in sent] == [H2, H3], "the vehicle leads to both"
    assert told == [[(H2, ("eve#9",))], [(H2, ("eve#9",))], [(H3, ("dan#4",))]]


@pytest.mark.spec("S-083", "S-086")
def test_a_receiver_drops_what_is_not_for_it_and_says_who_has_closed() -> None:
    agent = Owner()
    assert agent.receive(H2, SequenceData(THEIRS, 3, "eve#9", 1, (), 1, b"e4")) == [
        Ignored("SequenceData", "not for us")
    ]
    effects = agent.receive(H2, SequenceData(THEIRS, 3, "eve#9", 1, ("ann#1", "bob#2"), 1, b"e4"))
    assert agent.notices(effects) == [SequenceMessage(EVE, THEIRS, 3, 1, b"e4")]
    assert letters(effects) == [(H2, SequenceTaken(THEIRS, 3, 1, ("ann#1",), ("bob#2",)))]


@pytest.mark.spec("S-082", "S-085")
def test_replies_and_losses_count_only_from_destinations() -> None:
    owner = Owner(H2, H3)
    number = opened(owner, THEIRS, EVE)
    owner.ask(SendSequence(number, b"e4"))
    replied = SequenceReplied(THEIRS, number, "dan#4", "ann#1", b"no")
    assert owner.receive(H3, replied) == [Ignored("SequenceReplied", "not a destination")]
    effects = owner.receive(H2, SequenceReplied(THEIRS, number, "eve#9", "ann#1", b"yes"))
    assert owner.notices(effects) == [SequenceReply(number, EVE, b"yes")]

    assert owner.notices(owner.receive(H3, SequenceTaken(THEIRS, number, 1, (), ("eve#9",)))) == []
    late = owner.receive(H2, SequenceTaken(THEIRS, number, 2, ("eve#9",)))
    assert late == [Ignored("SequenceTaken", "late reply")], "there was no second message"
    shrunk, ended = owner.notices(owner.receive(H2, SequenceTaken(THEIRS, number, 1, (), ("eve#9",))))
    assert isinstance(shrunk, SequenceShrunk) and shrunk.lost == (EVE,)
    assert ended.sequence == number
    (answer,) = [each.result for each in owner.ask(SendSequence(number, b"d4")) if isinstance(each, Answer)]
    assert isinstance(answer, Denied) and answer.code == "VEHICLE_BROKEN"
    (answer,) = [each.result for each in owner.ask(CloseSequence(number)) if isinstance(each, Answer)]
    assert answer == Done() and not owner.led.sequences.opened and not owner.led.sequences.vehicles


@pytest.mark.spec("S-081")
def test_a_program_cannot_use_the_sequence_of_another() -> None:
    owner = Owner(H2)
    number = opened(owner, THEIRS, EVE)
    owner.step(Asked(Domain(""), 3, Open("bob")))
    effects = owner.step(Asked(owner.local.names["bob"], 4, SendSequence(number, b"e4")))
    (answer,) = [each.result for each in effects if isinstance(each, Answer)]
    assert isinstance(answer, Denied) and answer.code == "NOT_MEMBER"


@pytest.mark.spec("S-008", "S-009")
def test_names_of_two_lives_of_an_agent_differ_though_clock_and_count_are_the_same() -> None:
    names = set()
    for life in (1, 2):
        owner = Owner()
        owner.led.me = AgentId(owner.led.host, life)
        names.add(owner.create(5).name)
    assert len(names) == 2


@pytest.mark.spec("S-079")
def test_a_set_ends_with_the_program_that_owns_it_and_members_are_told() -> None:
    owner = Owner(H2)
    group = owner.create()
    owner.ask(ChangeSet(group, add=(EVE,)))
    owner.transient(H2, AddAnswered(group, ("eve#9",)))
    owner.step(EndpointGone(ANN))
    assert owner.on_circuits[-1] == (H2, TransientGone(group))
    assert not owner.led.transient.owned and not owner.led.wanted.hosts


@pytest.mark.spec("S-077", "S-079")
def test_members_whose_owners_agent_is_lost_are_told_that_the_set_is() -> None:
    agent = Owner(H2)
    agent.transient(H2, AddedToSet(THEIRS, ("ann#1",)))
    out = agent.led._begin(1.0)
    agent.led.transient.circuit_down(H2)
    assert [type(each) for each in agent.notices(list(out))] == [SetLost]
    assert not agent.led.transient.held


@pytest.mark.spec("S-084")
def test_all_messages_of_a_sequence_have_one_vehicle_and_numbers_of_their_own() -> None:
    owner = Owner(H2)
    number = opened(owner, THEIRS, EVE)
    sent = [letter for _ in range(3) for _, letter in letters(owner.ask(SendSequence(number, b"e4")))]
    assert [letter.message for letter in sent] == [1, 2, 3]
    assert len({letter.vehicle for letter in sent}) == 1


@pytest.mark.spec("S-087")
@pytest.mark.parametrize(("had", "served"), [(2, (EVE,)), (1, ()), (0, ())])
def test_a_sequence_ends_with_those_that_had_its_messages(had: int, served: tuple[Endpoint, ...]) -> None:
    """Of two messages eve's host confirmed so many; then it is out of reach."""
    owner = Owner(H2)
    number = opened(owner, THEIRS, EVE)
    for _ in range(2):
        owner.ask(SendSequence(number, b"e4"))
    for message in range(1, had + 1):
        owner.receive(H2, SequenceTaken(THEIRS, number, message, ("eve#9",)))
    shrunk, ended = down(owner, H2)
    assert shrunk == SequenceShrunk(number, (EVE,), "lost") and ended == SequenceEnded(number, served)


def down(owner: Owner, host: Domain) -> list[Any]:
    """Its circuit is lost, another one is asked for, and does not come up."""
    out = owner.led._begin(1.0)
    owner.led.sequences.circuit_down(host)
    for _ in range(2):
        owner.led.sequences.fired(host)
    return owner.notices(list(out))


@pytest.mark.spec("S-087")
def test_destinations_that_were_lost_before_the_last_one_are_served_if_they_had_all_that_was_sent() -> None:
    owner = Owner(H2, H3)
    number = opened(owner, THEIRS, EVE, DAN)
    owner.ask(SendSequence(number, b"e4"))
    owner.receive(H2, SequenceTaken(THEIRS, number, 1, ("eve#9",)))
    assert down(owner, H2) == [SequenceShrunk(number, (EVE,), "lost")]
    owner.receive(H3, SequenceTaken(THEIRS, number, 1, ("dan#4",)))
    assert down(owner, H3)[-1] == SequenceEnded(number, (EVE, DAN))


@pytest.mark.spec("S-087")
def test_what_a_lost_destination_confirms_late_counts() -> None:
    owner = Owner(H2, H3)
    number = opened(owner, THEIRS, EVE, DAN)
    owner.ask(SendSequence(number, b"e4"))
    down(owner, H2)
    owner.receive(H2, SequenceTaken(THEIRS, number, 1, ("eve#9", "dan#4", "bob#2")))
    assert down(owner, H3)[-1] == SequenceEnded(number, (EVE,))


@pytest.mark.spec("S-087")
def test_a_destination_that_was_lost_before_the_last_message_is_not_served() -> None:
    owner = Owner(H2, H3)
    number = opened(owner, THEIRS, EVE, DAN)
    owner.ask(SendSequence(number, b"e4"))
    for host, name in ((H2, "eve#9"), (H3, "dan#4")):
        owner.receive(host, SequenceTaken(THEIRS, number, 1, (name,)))
    down(owner, H2)
    owner.ask(SendSequence(number, b"d4"))
    owner.receive(H3, SequenceTaken(THEIRS, number, 2, ("dan#4",)))
    assert down(owner, H3)[-1] == SequenceEnded(number, (DAN,))


@pytest.mark.spec("S-087")
@pytest.mark.parametrize("refused", [False, True])
def test_endpoints_that_closed_or_refused_are_not_served_though_their_host_answered(refused: bool) -> None:
    owner = Owner(H2)
    number = opened(owner, THEIRS, Endpoint("eu.fr.h2/bob#2"), EVE)
    owner.ask(SendSequence(number, b"e4"))
    owner.receive(H2, SequenceTaken(THEIRS, number, 1, (), ("bob#2",)))
    without = ((), ("eve#9",)) if refused else (("eve#9",), ())
    _, ended = owner.notices(owner.receive(H2, SequenceTaken(THEIRS, number, 1, (), *without)))
    assert ended == SequenceEnded(number, ())


@pytest.mark.spec("S-082", "S-087")
@pytest.mark.parametrize(
    ("taken", "served"),
    [
        ((1, 2, 3), (EVE,)),
        ((3, 1, 2, 2), (EVE,)),  # overtaken, and repeated
        ((1, 3), ()),  # the second was lost on the way
        ((2, 3), ()),
        ((3, 3, 3), ()),
    ],
)
def test_a_served_destination_has_all_messages_and_not_only_the_last(
    taken: tuple[int, ...], served: tuple[Endpoint, ...]
) -> None:
    owner = Owner(H2)
    number = opened(owner, THEIRS, EVE)
    for _ in range(3):
        owner.ask(SendSequence(number, b"e4"))
    for message in taken:
        owner.receive(H2, SequenceTaken(THEIRS, number, message, ("eve#9",)))
    assert down(owner, H2)[-1] == SequenceEnded(number, served)


@pytest.mark.spec("S-087")
def test_nothing_is_kept_of_who_has_what_without_bound_or_after_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequences, "AHEAD_MAX", 4)
    owner = Owner(H2)
    number = opened(owner, THEIRS, EVE)
    for _ in range(40):
        owner.ask(SendSequence(number, b"e4"))
    for message in range(2, 41):
        owner.receive(H2, SequenceTaken(THEIRS, number, message, ("eve#9",)))
    assert owner.led.sequences.opened[number].taken[EVE] == (0, 0b1111 << 1)
    owner.ask(CloseSequence(number))
    assert not owner.led.sequences.opened


PUBLIC, RESTRICTED = Group("chess", EU), Group("acme!payroll", EU)


@pytest.mark.spec("S-016", "S-073")
@pytest.mark.parametrize(
    ("group", "request_of", "code"),
    [
        (PUBLIC, ChangeSet, BadInput.code),
        (PUBLIC, DestroySet, BadInput.code),
        (PUBLIC, ResolveSet, BadInput.code),
        (RESTRICTED, ChangeSet, BadInput.code),
        (RESTRICTED, DestroySet, BadInput.code),
        (RESTRICTED, ResolveSet, BadInput.code),
        (THEIRS, ChangeSet, NotOwner.code),
        (THEIRS, DestroySet, NotOwner.code),
        (THEIRS, JoinLed, NotAvailable.code),
    ],
)
def test_no_other_operation_is_for_that_kind_of_set(group: Group, request_of: Any, code: str) -> None:
    owner = Owner(H2)
    request = request_of(group, online=False) if request_of is JoinLed else request_of(group)
    (answer,) = [each.result for each in owner.ask(request) if isinstance(each, Answer)]
    assert isinstance(answer, Denied) and answer.code == code
    assert not owner.led.sets and not owner.led.transient.owned and not owner.on_circuits


@pytest.mark.spec("S-016")
@pytest.mark.parametrize("group", [PUBLIC, RESTRICTED, THEIRS])
def test_leaving_and_asking_are_for_every_kind_and_everybody(group: Group) -> None:
    owner = Owner(H2)
    (answer,) = [each.result for each in owner.ask(LeaveLed(group)) if isinstance(each, Answer)]
    assert answer == Done()
    asked = owner.ask(ResolveSet(group) if group == THEIRS else Resolve(group.name, EU))
    assert [each for each in asked if isinstance(each, Send)]
    assert not [each for each in asked if isinstance(each, Answer)]


@pytest.mark.spec("S-086")
def test_an_endpoint_that_left_is_a_destination_until_it_closes_though_others_of_its_host_are_in() -> None:
    agent = Owner()
    agent.lead()
    agent.step(Asked(Domain(""), 3, Open("bob")))
    agent.step(Asked(agent.local.names["bob"], 4, JoinLed(CHESS, online=False)))
    agent.step(Asked(ANN, 5, LeaveLed(CHESS)))
    data = SequenceData(CHESS, 3, "eve#9", 1, ("ann#1",), 1, b"e4")
    assert letters(agent.receive(H2, data)) == [(H2, SequenceTaken(CHESS, 3, 1, ("ann#1",)))]
    agent.step(EndpointGone(ANN))
    assert letters(agent.receive(H2, data)) == [(H2, SequenceTaken(CHESS, 3, 1, (), ("ann#1",)))]


@pytest.mark.spec("S-072", "S-073")
def test_a_set_and_its_members_are_inside_its_scope() -> None:
    owner = Owner()
    elsewhere = Endpoint("us.ny.h1/x#1")
    for request in (CreateSet(US, 5), ChangeSet(owner.create(), add=(elsewhere,))):
        (answer,) = [each.result for each in owner.ask(request) if isinstance(each, Answer)]
        assert isinstance(answer, Denied) and answer.code == NotInScope.code
    assert not owner.led.wanted.hosts and len(owner.led.transient.owned) == 1


@pytest.mark.spec("S-082")
def test_a_reply_reaches_the_source_alone() -> None:
    owner = Owner(H2)
    number = opened(owner, THEIRS, EVE)
    other = SequenceReplied(THEIRS, number, "eve#9", "bob#2", b"yes")
    assert owner.receive(H2, other) == [Ignored("SequenceReplied", "not a destination")]


@pytest.mark.spec("S-084", "S-085")
def test_a_sequence_ends_with_its_source_and_receivers_are_told() -> None:
    owner = Owner(H2)
    number = opened(owner, THEIRS, EVE)
    done = SequenceDone(THEIRS, number, "ann#1", ("eve#9",))
    assert letters(owner.step(EndpointGone(ANN))) == [(H2, done)]
    assert not owner.led.sequences.opened and not owner.led.wanted.hosts
    receiver = Owner()
    told = receiver.receive(H2, SequenceDone(THEIRS, 3, "eve#9", ("ann#1", "bob#2")))
    assert receiver.notices(told) == [SequenceClosed(EVE, THEIRS, 3)]


@pytest.mark.spec("S-085")
def test_the_source_is_no_destination_of_its_own() -> None:
    agent = Owner()
    agent.lead()
    (answer,) = [each.result for each in agent.ask(OpenSequence(CHESS)) if isinstance(each, Answer)]
    assert isinstance(answer, SequenceOpened) and answer.destinations == ()


@pytest.mark.spec("S-081", "S-085")
def test_a_circuit_that_is_lost_is_asked_for_again_before_its_host_counts_as_lost() -> None:
    owner = Owner(H2)
    wanted: list[Domain] = []
    owner.led.circuits.want = lambda now, peer, post: bool(wanted.append(peer)) or True  # type: ignore[method-assign,assignment,func-returns-value]
    number = opened(owner, THEIRS, EVE, DAN)
    assert wanted == [H3], "the other one is up"
    out = owner.led._begin(1.0)
    owner.led.sequences.circuit_down(H2)
    owner.led.sequences.fired(H2)
    assert wanted == [H3, H2] and owner.notices(list(out)) == []
    owner.led.sequences.circuit_up(H2)
    owner.led.sequences.fired(H2)
    assert owner.led.sequences.opened[number].destinations == (EVE, DAN)
    owner.led.sequences.fired(H3)
    assert owner.led.sequences.opened[number].destinations == (EVE,)


@pytest.mark.spec("S-089")
def test_a_closed_member_is_asked_about_each_sequence_of_a_source_and_about_none_after_its_end() -> None:
    agent = Owner()
    agent.lead(closed=True)

    def said(number: int) -> list[Any]:
        effects = agent.receive(H2, SequenceData(CHESS, number, "eve#9", 1, ("ann#1",), 1, b"e4"))
        return [letter for to, letter in letters(effects) if to == H2]

    assert said(3) == [SequenceTaken(CHESS, 3, 1, (), (), ("ann#1",))]
    attach = AttachAsked(CHESS, 1, (ListEntry(H2, 1, 1, (LocalMember("eve#9"),)),))
    agent.led._begin(0.0)
    agent.led.tree_step(CHESS, TreeReceived(H2, attach))
    assert said(3) == [SequenceTaken(CHESS, 3, 1, (), (), ("ann#1",))]
    assert said(4) == [SequenceTaken(CHESS, 4, 1, ("ann#1",))]
    for number in (3, 4):
        agent.receive(H2, SequenceDone(CHESS, number, "eve#9", ("ann#1",)))
    assert not agent.led.sequences._allowed
