"""A disk without room for records: what cannot be stored is neither acknowledged nor let go of, and what a
program or a host asks for is refused with the reason."""

from typing import Any

import pytest

from rostra.core.disk import FREE_BYTES, KeepFree, RoomChanged
from rostra.core.effects import (
    Answer,
    Asked,
    LinkDown,
    LinkUp,
    Persist,
    Received,
    Secure,
    Send,
    SetTimer,
    TimerFired,
)
from rostra.core.records import KeyedRecord, Records, RecordSet
from rostra.core.stack import Stack
from rostra.errors import StoreFailed
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group, replica_path
from rostra.node import Node
from rostra.protocols.claims.messages import Claim, ClaimReleased
from rostra.protocols.claims.server import CLAIM_SERVER, LOST, ClaimServer
from rostra.protocols.election.core import STAND, STORE, Ballot, ElectionCore
from rostra.protocols.election.events import Begun, Committed, Record, StorageChanged
from rostra.protocols.election.messages import (
    LeaderAnnounced,
    PreVoteGranted,
    RecordReplicated,
    ReplicateAll,
    ReplicateRecord,
    RoomReported,
    VoteGranted,
    VoteRequest,
)
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.messages import MessageId
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Denied, Done, Register

EU, HOST = Domain("eu"), Domain("eu.h1")
A, B, C = (replica_path(EU, rank) for rank in (1, 2, 3))
CHESS, KIND = Group("chess", EU), GroupKind(MembershipKind.AGREED)
FULL = RoomChanged("the disk is full")
FREED = RoomChanged("")


class ModelVoter:
    def __init__(self, *linked: Domain) -> None:
        self.records = Records()
        self.core = ElectionCore(A, (A, B, C), floor=5, ballot=Ballot(), records=self.records, scope=EU)
        for event in (Begun(), *[LinkUp(peer, 1) for peer in linked]):
            self.step(event)

    def step(self, event: Any) -> list[Any]:
        return self.core.step(0.0, event)

    def hears(self, sender: Domain, message: object) -> list[Any]:
        return self.step(Received(sender, message))

    def leads(self) -> "ModelVoter":
        self.step(TimerFired(STAND))
        self.hears(B, PreVoteGranted(5))
        self.hears(B, VoteGranted(5))
        assert self.core.leader == A
        return self

    def records_one(self, data: bytes = b"data") -> tuple[KeyedRecord, list[Any]]:
        record = self.records.put("news", data)
        return record, self.step(Record(record))


@pytest.mark.spec("C-160")
def test_a_vote_finds_room_in_the_place_of_the_one_before() -> None:
    voter = ModelVoter(B, C)
    assert voter.step(FULL) == [Send(B, RoomReported(False)), Send(C, RoomReported(False))]
    assert voter.hears(B, VoteRequest(6, 0))[0] == Persist(Ballot(6, B))


@pytest.mark.spec("C-012", "C-160")
def test_a_follower_acknowledges_what_it_could_not_store_when_it_has_stored_it() -> None:
    voter = ModelVoter(B, C)
    voter.hears(B, LeaderAnnounced(6))
    voter.step(FULL)
    first, second = KeyedRecord("news", 6 << 10, b"a"), KeyedRecord("golf", (6 << 10) + 1, b"b")
    assert voter.hears(B, ReplicateAll(6, 6 << 10, (first,))) == []
    assert voter.hears(B, ReplicateRecord(6, second)) == [], "it follows, in memory"
    everything = RecordSet(second.version, (second, first))
    acknowledged = Send(B, RecordReplicated(6, second.version))
    assert voter.step(FREED)[2:] == [Persist(everything), acknowledged]
    third = KeyedRecord("news", second.version + 1)
    assert voter.hears(B, ReplicateRecord(6, third))[0] == Persist(third)


@pytest.mark.spec("C-160")
def test_a_leader_without_room_goes_on_while_the_others_have_some() -> None:
    voter = ModelVoter(B, C).leads()
    assert not [each for each in voter.step(FULL) if isinstance(each, StorageChanged)]
    record, effects = voter.records_one()
    assert [type(each) for each in effects] == [Send, Send], "nothing is written here"
    assert voter.hears(B, RecordReplicated(5, record.version)) == [], "one of three has it"
    assert voter.hears(C, RecordReplicated(5, record.version)) == [Committed(record.version)]
    stored = Persist(RecordSet(record.version, (record,)))
    assert stored in voter.step(FREED)
    assert voter.core.kept[A] == record.version


def test_a_leader_reports_whether_a_majority_can_store() -> None:
    voter = ModelVoter(B, C).leads()
    voter.step(FULL)
    [changed] = voter.hears(B, RoomReported(False))
    assert isinstance(changed, StorageChanged) and "1 of 3 replicas of eu" in changed.lacking
    assert voter.hears(C, RoomReported(False)) == []
    assert voter.hears(B, RoomReported(True)) == []
    assert voter.hears(C, RoomReported(True)) == [StorageChanged("")]
    [changed] = voter.step(LinkDown(C, Because(A, C, "silent")))
    assert changed.lacking


def test_who_is_elected_without_room_says_so_and_stands_after_the_others() -> None:
    voter = ModelVoter(B, C)
    voter.step(FULL)
    voter.hears(B, RoomReported(False))
    voter.step(TimerFired(STAND))
    voter.hears(B, PreVoteGranted(5))
    assert isinstance(voter.hears(B, VoteGranted(5))[-1], StorageChanged)
    ready, late = ModelVoter(), ModelVoter()
    late.step(FULL)
    waits = [_stands_after_s(each.step(LinkUp(B, 1))) for each in (ready, late)]
    assert waits[0] < waits[1]


def _stands_after_s(effects: list[Any]) -> float:
    [timer] = [each for each in effects if isinstance(each, SetTimer)]
    return timer.after_s


def test_what_is_larger_than_the_room_that_is_kept_waits_until_it_is_kept() -> None:
    voter = ModelVoter(B, C).leads()
    record, effects = voter.records_one(bytes(FREE_BYTES))
    assert effects[:2] == [KeepFree(2 * record.size), SetTimer(STORE, 0.0)]
    assert voter.core.kept[A] == 0, "only then does it count"
    assert voter.step(TimerFired(STORE))[0] == Persist(RecordSet(record.version, (record,)))
    assert voter.core.kept[A] == record.version


def test_what_is_larger_and_finds_no_room_waits_for_some() -> None:
    voter = ModelVoter(B, C).leads()
    voter.records_one(bytes(FREE_BYTES))
    voter.step(FULL)
    assert voter.step(TimerFired(STORE)) == []
    assert any(isinstance(each, Persist) for each in voter.step(FREED))


class Server:
    """The server of a cluster, whose hosts claim kinds of groups."""

    def __init__(self) -> None:
        self.registry = Registry()
        core = DomainServer(EU, cluster=True, incarnation=1, registry=self.registry)
        self.stack = Stack(ClaimServer(EU, self.registry), core)
        self.table = self.stack[CLAIM_SERVER].table
        self.stack.step(0.0, LinkUp(HOST, 1))

    def says(self, message: object) -> list[Any]:
        effects = self.stack.step(0.0, Received(HOST, message))
        return [effect.message for effect in effects if isinstance(effect, Send)]


@pytest.mark.spec("C-012")
def test_a_claim_that_cannot_be_stored_is_refused_and_the_server_goes_on() -> None:
    server = Server()
    server.says(Claim(_id(1), HOST, CHESS, KIND))
    server.stack.step(0.0, FULL)
    [refusal] = server.says(Claim(_id(2), HOST, Group("go", EU), KIND))
    assert (refusal.code, refusal.why, refusal.group_kind) == (StoreFailed.code, FULL.lacking, None)
    [answer] = server.says(Claim(_id(3), HOST, CHESS, KIND))
    assert (answer.code, answer.group_kind) == ("", KIND), "it held that already"
    assert server.table.names() == ["chess"]
    server.stack.step(0.0, FREED)
    [answer] = server.says(Claim(_id(4), HOST, Group("go", EU), KIND))
    assert (answer.code, answer.group_kind) == ("", KIND)


def test_what_a_host_gave_back_or_left_behind_is_released_when_there_is_room() -> None:
    server = Server()
    server.says(Claim(_id(1), HOST, CHESS, KIND))
    server.says(Claim(_id(2), HOST, Group("go", EU), KIND))
    server.stack.step(0.0, FULL)
    assert server.says(ClaimReleased(_id(3), HOST, CHESS)) == [], "it is sent again until it is answered"
    server.stack.step(0.0, LinkDown(HOST, Because(EU, HOST, "silent")))
    assert server.stack.step(0.0, TimerFired(LOST)) == []
    assert server.table.names() == ["chess", "go"]
    assert SetTimer(LOST, 0.0) in server.stack.step(0.0, FREED)
    server.stack.step(0.0, TimerFired(LOST))
    assert server.table.names() == []


def test_a_name_is_registered_when_there_is_room() -> None:
    server = Server()
    ask = Asked(Endpoint(""), 1, Register(CHESS))
    server.stack.step(0.0, FULL)
    [answer] = server.stack.step(0.0, ask)
    assert isinstance(answer, Answer) and isinstance(answer.result, Denied)
    assert answer.result.code == StoreFailed.code and "ask again" in answer.result.fix
    server.stack.step(0.0, FREED)
    assert Answer(1, Done()) in server.stack.step(0.0, ask)


class Writing(DomainServer):
    """A server that keeps something, and sends a message that rests on it."""

    def step(self, now: float, event: Any) -> list[Any]:
        effects = super().step(now, event)
        if isinstance(event, LinkUp):
            effects += [Secure(self.registry.own.put("views/own/x", b"")), Answer(7, "it is kept")]
        return effects


def test_without_room_what_rests_on_a_record_waits_and_the_record_comes_first() -> None:
    registry = Registry()
    core = Writing(EU, cluster=True, incarnation=1, registry=registry)
    node = Node("w", EU, Stack(core), incarnation=1, config=LinkConfig(), accepts_children=True)
    node.step(0.0, FULL)
    outputs: list[Any] = []
    node._drive(0.0, LinkUp(HOST, 1), outputs)
    assert not [each for each in outputs if isinstance(each, Secure | Answer)]
    released = [each for each in node.step(0.0, FREED) if isinstance(each, Secure | Answer)]
    assert [type(each) for each in released] == [Secure, Answer]
    outputs = []
    node._drive(0.0, LinkUp(Domain("eu.h2"), 1), outputs)
    assert [type(each) for each in outputs if isinstance(each, Secure | Answer)] == [Secure, Answer]


def _id(number: int) -> MessageId:
    return MessageId(HOST, 1, number)
