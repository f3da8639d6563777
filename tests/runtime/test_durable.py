"""A replica whose disk is full gives no vote, follows nobody into a new term and acknowledges no record."""

from pathlib import Path

import pytest

from rostra.core.effects import Ignored, LinkDown, LinkUp, Persist, Received, Send
from rostra.core.records import KeyedRecord, RecordSet
from rostra.core.stack import Stack
from rostra.errors import StoreFailed
from rostra.groups.members import Because
from rostra.names import Domain, seat_of
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
from rostra.protocols.relaxed.registry import encode_names
from rostra.runtime.durable import DurableSeat
from rostra.runtime.store import Disk

EU = Domain("eu")
ONE, TWO, ME = (seat_of(EU, rank) for rank in (1, 2, 3))
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
