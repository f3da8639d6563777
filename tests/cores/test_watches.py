"""An agent's watches: numbered, remembered, and the same for everybody who watches."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.agents import BECAUSE

from rostra.core.effects import Effect, Ignored, Tell
from rostra.errors import NotMember
from rostra.groups.members import Cause, Member
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.requests import (
    Absolute,
    Changed,
    Joined,
    Left,
    Message,
    Only,
    Snapshot,
    Without,
)
from rostra.protocols.relaxed.watches import Watches

HOST = Domain("eu.fr.c1.h1")
CHESS, GO = Group("chess", Domain("eu")), Group("go", HOST)
ANN, BOB = Endpoint(f"{HOST}/ann#1"), Endpoint(f"{HOST}/bob#2")
X, Y, Z = (Member(Endpoint(f"eu.de.c1.h{n}/x#1"), (1, n)) for n in (1, 2, 3))
FAR = Member(Endpoint("us.h1/x#1"), (1, 4))
FROM_THE_START = (0, 0)


def watching(*watchers: Endpoint, members: tuple[Member, ...] = (X,), **bounds: Any) -> Watches:
    watches = Watches(HOST, RelaxedConfig(**bounds))
    for watcher in watchers:
        assert watches.watch(watcher, CHESS, FROM_THE_START) == []
    watches.told(Absolute(CHESS, members))
    return watches


def test_who_watches_gets_a_snapshot_and_then_every_change_with_the_next_number() -> None:
    watches = Watches(HOST, RelaxedConfig())
    watches.watch(ANN, CHESS, FROM_THE_START)
    assert watches.told(Joined(CHESS, (Y,), Cause.JOIN)) == []  # before the list, which will contain it
    assert watches.told(Absolute(CHESS, (X, Y))) == [Tell((ANN,), Snapshot(CHESS, (X, Y), 1, 0))]
    assert watches.told(Joined(CHESS, (Z,), Cause.JOIN)) == [
        Tell((ANN,), Changed(CHESS, 1, members=(Z,), cause=Cause.JOIN))
    ]
    assert watches.told(Left(CHESS, Y.endpoint, (1, 9), Cause.CRASH, b"x")) == [
        Tell((ANN,), Changed(CHESS, 2, left=(Y.endpoint,), cause=Cause.CRASH, meta=b"x"))
    ]
    assert watches.told(Without(Domain("eu.de"), BECAUSE)) == [
        Tell((ANN,), Changed(CHESS, 3, left=(X.endpoint, Z.endpoint), by=Without(Domain("eu.de"), BECAUSE)))
    ]


def test_what_changes_nothing_has_no_number() -> None:
    watches = watching(ANN)
    assert watches.told(Joined(CHESS, (X,), Cause.MERGE)) == []
    assert watches.told(Without(Domain("us"), BECAUSE)) == []
    assert watches.groups[CHESS].number == 0


def test_a_second_watcher_begins_where_the_first_one_is() -> None:
    watches = watching(ANN)
    watches.told(Joined(CHESS, (Y,), Cause.JOIN))
    assert watches.watch(BOB, CHESS, FROM_THE_START) == [Tell((BOB,), Snapshot(CHESS, (X, Y), 1, 1))]
    assert watches.told(Joined(CHESS, (Z,), Cause.JOIN)) == [
        Tell((ANN, BOB), Changed(CHESS, 2, members=(Z,), cause=Cause.JOIN))
    ]
    assert watches.watch(BOB, CHESS, FROM_THE_START) == []  # it watches already


def test_a_merge_that_brings_some_and_takes_others_is_two_changes() -> None:
    watches = watching(ANN, members=(X, Y))
    told = watches.told(Absolute(CHESS, (Y, Z)))
    assert told == [
        Tell((ANN,), Changed(CHESS, 1, left=(X.endpoint,), cause=Cause.MERGE)),
        Tell((ANN,), Changed(CHESS, 2, members=(Z,), cause=Cause.MERGE)),
    ]


def test_who_comes_back_in_time_hears_what_it_missed_and_no_more() -> None:
    watches = watching(ANN)
    watches.gone(10.0, ANN)
    watches.told(Joined(CHESS, (Y,), Cause.JOIN))
    watches.told(Joined(CHESS, (Z,), Cause.JOIN))
    assert watches.expire(39.9) == []
    assert watches.watch(BOB, CHESS, (1, 1)) == [
        Tell((BOB,), Changed(CHESS, 2, members=(Z,), cause=Cause.JOIN)),
        Tell((BOB,), Snapshot(CHESS, (X, Y, Z), 1, 2)),
    ]
    assert watches.expire(1000.0) == []  # somebody watches again


def test_a_group_that_nobody_comes_back_to_is_forgotten_and_begins_a_new_period() -> None:
    watches = watching(ANN)
    watches.unwatch(10.0, ANN, CHESS)
    assert watches.expire(40.0) == [CHESS]
    assert watches.groups == {}
    watches.watch(ANN, CHESS, (1, 0))
    assert watches.told(Absolute(CHESS, (X,))) == [Tell((ANN,), Snapshot(CHESS, (X,), 2, 0))]


def test_only_so_many_groups_wait_for_somebody_to_come_back() -> None:
    watches = Watches(HOST, RelaxedConfig(watch_idle_max=1))
    for group in (CHESS, GO):
        watches.watch(ANN, group, FROM_THE_START)
        watches.unwatch(10.0, ANN, group)
    assert watches.expire(10.0) == [CHESS]


@pytest.mark.parametrize("bounds", [{"watch_changes_max": 2}, {"watch_records_max": 4}])
def test_memory_is_bounded_and_who_was_away_for_too_long_begins_anew(bounds: dict[str, int]) -> None:
    watches = watching(ANN, **bounds)
    for member in (Y, Z, FAR):
        watches.told(Joined(CHESS, (member,), Cause.JOIN))
    assert [change.number for change in watches.groups[CHESS].changes] == [2, 3]
    everybody = Tell((BOB,), Snapshot(CHESS, (X, Y, Z, FAR), 1, 3))
    assert watches.watch(BOB, CHESS, (1, 0))[-1:] == [everybody]
    watches.gone(1.0, BOB)
    assert watches.watch(BOB, CHESS, (1, 0)) == [everybody]
    watches.gone(1.0, BOB)
    assert len(watches.watch(BOB, CHESS, (1, 1))) == 3


@pytest.mark.parametrize("place", [(1, 5), (2, 0), (7, 7)])
def test_a_place_that_never_was_is_a_new_beginning(place: tuple[int, int]) -> None:
    watches = watching(ANN)
    assert watches.watch(BOB, CHESS, place) == [Tell((BOB,), Snapshot(CHESS, (X,), 1, 0))]


def test_a_watcher_that_was_skipped_goes_on_from_the_last_that_it_got() -> None:
    watches = watching(ANN)
    for member in (Y, Z):
        watches.told(Joined(CHESS, (member,), Cause.JOIN))
    assert [tell.notice for tell in watches.skipped(ANN, CHESS, 1) if isinstance(tell, Tell)] == [
        Changed(CHESS, 2, members=(Z,), cause=Cause.JOIN),
        Snapshot(CHESS, (X, Y, Z), 1, 2),
    ]
    assert watches.skipped(BOB, CHESS, 1) == []


def test_isolation_is_said_with_every_list_until_a_merge_ends_it() -> None:
    watches = watching(ANN, members=(X, Member(ANN, (1, 5))))
    watches.told(Only(HOST, BECAUSE))
    (tell,) = watches.watch(BOB, CHESS, FROM_THE_START)
    assert isinstance(tell, Tell) and tell.notice.isolated
    watches.gone(0.0, BOB)
    watches.told(Joined(CHESS, (X,), Cause.MERGE))
    (tell,) = watches.watch(BOB, CHESS, FROM_THE_START)
    assert isinstance(tell, Tell) and not tell.notice.isolated


def test_what_concerns_nobody_is_ignored_out_loud() -> None:
    watches = watching(ANN)
    assert watches.told(Joined(GO, (X,), Cause.JOIN)) == [Ignored("Joined", why="not followed")]
    assert watches.told(Message(ANN, b"hi")) == [Ignored("Message", why="not followed")]
    with pytest.raises(NotMember):
        watches.unwatch(0.0, ANN, GO)


class Reader:
    """A program that knows only what it was sent, and how far that goes."""

    def __init__(self) -> None:
        self.members: set[Endpoint] = set()
        self.place = FROM_THE_START
        self.gaps = 0

    def take(self, notice: Snapshot | Changed) -> None:
        if isinstance(notice, Snapshot):
            there = (notice.period, notice.number)
            everybody = {member.endpoint for member in notice.members}
            if there == self.place:
                assert everybody == self.members, "the changes led here"
            elif self.place != FROM_THE_START:
                self.gaps += 1
            self.place, self.members = there, everybody
            return
        assert notice.number == self.place[1] + 1, "one number after the other"
        joined, left = {member.endpoint for member in notice.members}, set(notice.left)
        assert bool(joined) != bool(left)
        assert not joined & self.members and left <= self.members
        self.members = self.members - left | joined
        self.place = (self.place[0], notice.number)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["joined", "left", "without", "list", "away", "back", "late"]), st.integers(0, 3)
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_a_watcher_that_comes_and_goes_always_arrives_at_the_truth(steps: list[tuple[str, int]]) -> None:
    watches = Watches(HOST, RelaxedConfig(watch_changes_max=4))
    reader, truth, now, stamp, present = Reader(), dict[Endpoint, Member](), 0.0, 10, True
    members = (X, Y, Z, FAR)

    def hear(effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Tell):
                assert effect.endpoints == (ANN,)
                reader.take(effect.notice)

    hear(watches.watch(ANN, CHESS, FROM_THE_START))
    hear(watches.told(Absolute(CHESS, ())))
    for what, which in steps:
        now, stamp = now + 1.0, stamp + 1
        one = members[which].endpoint
        match what:
            case "joined":
                truth[one] = Member(one, (1, stamp))
                hear(watches.told(Joined(CHESS, (truth[one],), Cause.JOIN)))
            case "left":
                truth.pop(one, None)
                hear(watches.told(Left(CHESS, one, (1, stamp), Cause.LEAVE)))
            case "without":
                truth.pop(FAR.endpoint, None)
                hear(watches.told(Without(Domain("us"), BECAUSE)))
            case "list":
                hear(watches.told(Absolute(CHESS, tuple(truth[each] for each in sorted(truth)))))
            case "away" if present:
                watches.gone(now, ANN)
                present = False
            case "late" if not present:
                now += 100.0
                if watches.expire(now):
                    truth_then = tuple(truth[each] for each in sorted(truth))
                    hear(watches.watch(ANN, CHESS, reader.place))
                    hear(watches.told(Absolute(CHESS, truth_then)))
                    present = True
            case "back" if not present:
                hear(watches.watch(ANN, CHESS, reader.place))
                present = True
        if present:
            assert reader.members == set(truth)
