"""A replica whose disk is full gives no vote, follows nobody into a new term and acknowledges no record. A
server whose disk is full lets no group be claimed, and goes on."""

from pathlib import Path
from typing import Any

import pytest

from rostra.core.effects import (
    Event,
    Ignored,
    LinkDown,
    LinkUp,
    Persist,
    Received,
    Secure,
    Send,
    TimerFired,
)
from rostra.core.records import KeyedRecord, RecordSet
from rostra.core.stack import Stack
from rostra.errors import StoreFailed
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Group, seat_of
from rostra.protocols.claims.messages import Claim, ClaimMessage, ClaimReleased
from rostra.protocols.claims.server import CLAIM_SERVER, LOST, ClaimServer
from rostra.protocols.election.core import Ballot, SeatCore
from rostra.protocols.election.events import Begun, Follow
from rostra.protocols.election.messages import (
    LeaderAnnounced,
    RecordReplicated,
    ReplicateAll,
    Shared,
    VoteGranted,
    VoteRequest,
)
from rostra.protocols.fifo.cluster import ClusterCore
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.messages import MessageId
from rostra.protocols.relaxed.registry import encode_names
from rostra.runtime.durable import DurableSeat, DurableServer
from rostra.runtime.store import Disk

EU = Domain("eu")
ONE, TWO, ME = (seat_of(EU, rank) for rank in (1, 2, 3))
HOST, CHESS, KIND = Domain("eu.h1"), Group("chess", EU), GroupKind(MembershipKind.AGREED)
NAMES = tuple(sorted(f"group-{number}-{'x' * 200}" for number in range(1000)))


class Seat:
    """A seat on a real disk, whose room we decide about."""

    def __init__(self, directory: Path) -> None:
        self.store = Disk(directory, ME)
        self.refused: list[StoreFailed] = []
        core = SeatCore(
            ME, (ONE, TWO, ME), floor=1, ballot=Ballot(), records=self.store.registry().own, scope=EU
        )
        self.durable = DurableSeat(Stack(core), self.store, self.refused.append)
        for event in (Begun(), LinkUp(ONE, 1), LinkUp(TWO, 1)):
            self.durable.step(0.0, event)

    def fill(self) -> None:
        (pages,) = self.store._db.execute("PRAGMA page_count").fetchone()
        self.store._db.execute("VACUUM")
        self.store._db.execute(f"PRAGMA max_page_count = {min(pages, self._pages())}")

    def free(self) -> None:
        self.store._db.execute("PRAGMA max_page_count = 1000000")

    def _pages(self) -> int:
        (pages,) = self.store._db.execute("PRAGMA page_count").fetchone()
        return int(pages)

    def hear(self, sender: Domain, message: object) -> list[object]:
        return self._carry_out(Received(sender, message))

    def again(self) -> list[object]:
        return [done for event in self.durable.take_waiting() for done in self._carry_out(event)]

    def _carry_out(self, event: object) -> list[object]:
        effects = list(self.durable.step(0.0, event))  # type: ignore[arg-type]
        for effect in effects:
            if isinstance(effect, Persist):
                record = effect.record
                if isinstance(record, Ballot):
                    self.store.persist_ballot(record)
                else:
                    self.store.persist(record)
                    self.store.sync()
        return effects


@pytest.fixture
def seat(tmp_path: Path) -> Seat:
    return Seat(tmp_path)


@pytest.mark.spec("C-160")
def test_a_vote_that_cannot_be_stored_is_given_when_it_can(seat: Seat, tmp_path: Path) -> None:
    seat.fill()
    assert seat.hear(ONE, VoteRequest(5, 0)) == [Ignored("VoteRequest", "no room on the disk")]
    assert seat.again() == [Ignored("VoteRequest", "no room on the disk")]
    assert len(seat.refused) == 2
    seat.free()
    assert Send(ONE, VoteGranted(5)) in seat.again()
    seat.store.close()
    assert Disk(tmp_path, ME).ballot() == Ballot(5, ONE)


@pytest.mark.spec("C-012")
def test_a_registry_that_cannot_be_stored_is_not_acknowledged_and_order_stays(
    seat: Seat, tmp_path: Path
) -> None:
    seat.fill()
    registry = KeyedRecord("registry", 5 << 10, encode_names(NAMES))
    keep = ReplicateAll(5, 5 << 10, (registry,))
    for message in (LeaderAnnounced(5), keep, Shared(b"later")):
        assert seat.hear(ONE, message) == [Ignored(type(message).__name__, "no room on the disk")]
    seat.free()
    done = seat.again()
    assert [type(each) for each in done if isinstance(each, Follow | Send)] == [Follow, Send]
    assert Send(ONE, RecordReplicated(5, 5 << 10)) in done
    seat.store.close()
    assert Disk(tmp_path, ME).registry().own.all() == RecordSet(5 << 10, (registry,))


def test_what_a_peer_said_before_its_link_ended_is_answered_to_nobody(seat: Seat) -> None:
    seat.fill()
    seat.hear(ONE, VoteRequest(5, 0))
    seat.hear(TWO, VoteRequest(4, 0))
    seat.durable.step(0.0, LinkDown(ONE, Because(ME, ONE, "silent")))
    seat.free()
    assert [each for each in seat.again() if isinstance(each, Send)] == [Send(TWO, VoteGranted(4))]


class Server:
    """The server of a cluster on a real disk, with a delegate, whose hosts claim kinds of groups."""

    def __init__(self, directory: Path) -> None:
        self.store = Disk(directory, EU)
        self.refused: list[StoreFailed] = []
        registry = self.store.registry()
        core = DomainServer(EU, cluster=True, incarnation=1, registry=registry)
        stack = Stack(ClusterCore(EU), ClaimServer(EU, registry), core)
        self.durable = DurableServer(stack, EU, self.store, self.refused.append)
        self.lanes = stack.lanes
        self.table = self.durable[CLAIM_SERVER].table
        self.durable.step(0.0, LinkUp(HOST, 1))

    def fill(self) -> None:
        self.store._db.execute("VACUUM")
        (pages,) = self.store._db.execute("PRAGMA page_count").fetchone()
        self.store._db.execute(f"PRAGMA max_page_count = {pages}")

    def free(self) -> None:
        self.store._db.execute("PRAGMA max_page_count = 1000000")

    def step(self, event: Event) -> list[Any]:
        effects = self.durable.step(0.0, event)
        for effect in effects:
            if isinstance(effect, Secure):
                self.store.persist(effect.record)
                self.store.sync()
        return [effect.message for effect in effects if isinstance(effect, Send)]

    def says(self, message: ClaimMessage) -> list[Any]:
        return self.step(Received(HOST, message))


@pytest.mark.spec("C-012")
def test_a_claim_that_cannot_be_stored_is_refused_and_the_server_goes_on(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.fill()
    claim, later = Claim(_id(1), HOST, CHESS, KIND), Claim(_id(2), HOST, CHESS, KIND)
    [refusal] = server.says(claim)
    assert (refusal.code, refusal.group_kind) == (StoreFailed.code, None)
    assert server.table.names() == [] and len(server.refused) == 1
    server.free()
    [answer] = server.says(later)
    assert (answer.code, answer.group_kind) == ("", KIND)
    server.store.close()
    assert [each.key for each in Disk(tmp_path, EU).registry().own.under("")] == [
        "claim/chess",
        f"hold/{HOST}/chess",
    ]


def test_what_a_host_gave_back_or_left_behind_is_released_when_there_is_room(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.says(Claim(_id(1), HOST, CHESS, KIND))
    server.says(Claim(_id(2), HOST, Group("go", EU), KIND))
    server.fill()
    assert server.says(ClaimReleased(_id(3), HOST, CHESS)) == [], "it is sent again until it is answered"
    server.step(LinkDown(HOST, Because(EU, HOST, "silent")))
    server.step(TimerFired(LOST))
    assert server.table.names() == ["chess", "go"]
    server.free()
    for event in server.durable.take_waiting():
        server.step(event)
    assert server.table.names() == [] and server.durable.take_waiting() == []


def test_what_the_delegate_hears_still_goes_straight_to_it(tmp_path: Path) -> None:
    server = Server(tmp_path)
    assert server.durable.lanes == server.lanes != {}


def _id(number: int) -> MessageId:
    return MessageId(HOST, 1, number)
