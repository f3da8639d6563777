"""Frontiers, holes and duplicates: the arithmetic of ingest, without Spark."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from rostra.history.runs import Epoch, IngestPlan, Key, RowRun, plan

H1 = Key("w", "eu.paris.h1", 1)
H1_AGAIN = Key("w", "eu.paris.h1", 2)
MINUTE = 60_000_000


def run(first: int, last: int, *, key: Key = H1, source: str = "a", closing: bool = False) -> RowRun:
    """One row per second."""
    return RowRun(
        key, first, last, last - first + 1, first * 1_000_000, last * 1_000_000, "agent", closing, source
    )


def taken(pieces: list) -> list[tuple[int, int]]:
    return [(piece.first, piece.last) for piece in pieces]


def planned(*runs: RowRun, known: dict[Key, Epoch] | None = None, **options) -> IngestPlan:
    return plan(known or {}, runs, **{"hole_after_us": 10 * MINUTE, **options})


def test_what_touches_the_frontier_is_accepted_in_order() -> None:
    made = planned(run(4, 9), run(1, 3))
    assert (taken(made.accepted), made.epochs[H1].frontier) == ([(1, 3), (4, 9)], 9)


def test_a_segment_that_was_sent_again_is_a_duplicate() -> None:
    once = planned(run(1, 9))
    again = planned(run(1, 9, source="b"), run(4, 6), known=once.epochs)
    assert (again.accepted, again.duplicates, again.epochs) == ([], 2, once.epochs)


def test_of_a_segment_that_was_cut_otherwise_only_the_new_rows_are_taken() -> None:
    made = planned(run(5, 12), known=planned(run(1, 9)).epochs)
    assert taken(made.accepted) == [(10, 12)]


def test_rows_behind_a_hole_are_held_and_released_when_it_is_filled() -> None:
    first = planned(run(1, 3), run(7, 9))
    assert (taken(first.accepted), taken(first.held)) == ([(1, 3)], [(7, 9)])
    then = planned(first.held[0].run, run(4, 6), known=first.epochs)
    assert (taken(then.accepted), then.held, then.given_up) == ([(4, 6), (7, 9)], [], [])


def test_the_same_rows_are_held_only_once() -> None:
    made = planned(run(5, 9), run(5, 9, source="b"), run(7, 12, source="c"))
    assert (taken(made.held), made.duplicates) == ([(5, 9), (10, 12)], 1)


def test_a_hole_is_given_up_when_the_world_has_gone_on_for_long_enough() -> None:
    elsewhere = Key("w", "us.ny.h1", 1)
    assert planned(run(5, 9), run(1, 604, key=elsewhere)).given_up == []
    made = planned(run(5, 9), run(1, 605, key=elsewhere))
    assert [(hole.first, hole.last) for hole in made.given_up] == [(1, 4)]
    assert made.epochs[H1].holes == ((1, 4),)


def test_nothing_is_given_up_while_more_waits_to_be_read() -> None:
    made = planned(run(5, 9), run(2000, 2000), hole_after_us=MINUTE, more_waits=True)
    assert (made.given_up, taken(made.held)) == ([], [(5, 9), (2000, 2000)])


def test_rows_of_a_hole_that_was_given_up_come_late_and_are_not_lost() -> None:
    gave_up = planned(run(5, 9), run(999, 999), hole_after_us=MINUTE)
    made = planned(run(2, 6), known=gave_up.epochs)
    assert (taken(made.late), made.accepted) == ([(2, 4)], [])
    assert made.epochs[H1].holes[0] == (1, 1)


def test_an_epoch_is_over_when_its_closing_row_is_below_the_frontier() -> None:
    assert not planned(run(5, 9, closing=True)).epochs
    assert planned(run(1, 9, closing=True)).epochs[H1].over


def test_a_life_without_closing_is_sealed_when_the_next_one_is_old_enough() -> None:
    young = planned(run(1, 3), run(1, 30, key=H1_AGAIN))
    assert not young.epochs[H1].finished
    old = planned(run(31, 700, key=H1_AGAIN), known=young.epochs)
    assert old.epochs[H1].sealed and not old.epochs[H1_AGAIN].sealed
    after = planned(run(4, 5), known=old.epochs)
    assert (after.accepted, taken(after.late)) == ([], [(4, 5)])


@dataclass
class Books:
    """The obvious second version: a set of numbers."""

    rows: set[int] = field(default_factory=set)

    def frontier(self) -> int:
        last = 0
        while last + 1 in self.rows:
            last += 1
        return last


PARTS = st.lists(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 12)), min_size=1, max_size=6), max_size=8
)


@given(PARTS)
def test_every_row_is_accepted_once_as_soon_as_all_before_it_have_come(batches) -> None:
    books, epochs, held, accepted = Books(), {}, [], []
    for nth, batch in enumerate(batches):
        arrived = [run(first, first + more, source=f"{nth}") for first, more in batch]
        made = planned(*held, *arrived, known=epochs, hole_after_us=10**15)
        for each in arrived:
            books.rows |= set(range(each.first, each.last + 1))
        accepted += [row for piece in made.accepted for row in range(piece.first, piece.last + 1)]
        epochs = made.epochs
        held = [run(piece.first, piece.last, source="held") for piece in made.held]
        assert accepted == list(range(1, books.frontier() + 1))
        waiting = [row for piece in made.held for row in range(piece.first, piece.last + 1)]
        assert waiting == sorted(row for row in books.rows if row > books.frontier())


@given(PARTS, st.integers(0, 60))
def test_no_row_is_lost_or_doubled_however_soon_holes_are_given_up(batches, patience_s) -> None:
    everything, epochs, held, written = set(), {}, [], []
    for nth, batch in enumerate(batches):
        arrived = [run(first, first + more, source=f"{nth}") for first, more in batch]
        made = planned(*held, *arrived, known=epochs, hole_after_us=patience_s * 1_000_000)
        for each in arrived:
            everything |= set(range(each.first, each.last + 1))
        written += [
            row for piece in (*made.accepted, *made.late) for row in range(piece.first, piece.last + 1)
        ]
        epochs = made.epochs
        held = [run(piece.first, piece.last, source="held") for piece in made.held]
        waiting = [row for piece in made.held for row in range(piece.first, piece.last + 1)]
        assert sorted([*written, *waiting]) == sorted(everything)
        missing = {
            row for hole in (epochs[H1].holes if epochs else ()) for row in range(hole[0], hole[1] + 1)
        }
        assert missing == set(range(1, epochs[H1].frontier + 1 if epochs else 1)) - set(written)
