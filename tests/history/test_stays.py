"""Stays: who saw whom, from when until when."""

import pytest
from pyspark.sql import functions as F
from support.journal import Journal, answers

from rostra.history.questions.lives import HOLES, LIVES, holes, lives
from rostra.history.questions.stays import ended_with_lives, memberships, stays
from rostra.history.schemas import STAYS

ANN, BOB, EVE = "eu.paris.h1/ann#7", "eu.paris.h2/bob#3", "us.ny.h1/eve#5"


@pytest.fixture(scope="module")
def story(spark):
    """One journal for all: every member of it is one case."""
    journal = Journal()
    for host in ("eu.paris.h1", "eu.paris.h2", "us.ny.h1", "us.ny.h2"):
        journal.start(host, 0)
    journal.sees("eu.paris.h1", "joined", ANN, 1, life=1, stamp=4)
    journal.sees("us.ny.h1", "joined", ANN, 1.5, life=1, stamp=4)
    journal.sees("us.ny.h1", "left", ANN, 2, cause="without", kind="without")
    journal.sees("us.ny.h1", "joined", ANN, 3, cause="merge", kind="joined")
    journal.sees("us.ny.h1", "joined", ANN, 3.5, cause="snapshot", kind="absolute", news=False)
    journal.home("joined", BOB, 4)
    journal.home("left", BOB, 6, cause="crash")
    journal.home("joined", EVE, 7)
    journal.sees("eu.paris.h2", "joined", BOB, 4)
    journal.write("eu.paris.h2", "closing", 9)
    journal.sees("us.ny.h2", "joined", BOB, 5, group="go@us")
    journal.write("us.ny.h2", "heartbeat", 8)
    journal.start("us.ny.h2", 100)
    journal.write("us.ny.h1", "heartbeat", 101)
    journal.write("eu.paris.h1", "heartbeat", 102)
    return journal.frame(spark)


@pytest.fixture(scope="module")
def seen(story):
    return answers(stays(story), "seen_by", "member", "joined_at", "left_at", "joined_by", "ended_by")


def test_a_member_that_came_back_has_two_stays(seen):
    assert [row for row in seen if row[:2] == ("us.ny.h1", ANN)] == [
        ("us.ny.h1", ANN, 1.5, 2.0, "join", "without"),
        ("us.ny.h1", ANN, 3.0, None, "merge", None),
    ]


def test_two_hosts_see_two_stays_of_one_member(seen):
    assert [row[0] for row in seen if row[1] == ANN] == ["eu.paris.h1", "us.ny.h1", "us.ny.h1"]


def test_a_stay_lasts_while_its_host_is_heard_of(seen):
    assert ("eu.paris.h1", ANN, 1.0, None, "join", None) in seen


def test_a_host_that_says_goodbye_ends_what_it_saw(seen):
    assert ("eu.paris.h2", BOB, 4.0, 9.0, "join", "closing") in seen


def test_a_host_that_died_ends_what_it_saw_at_its_last_row_and_nobody_knows_how(seen):
    assert ("us.ny.h2", BOB, 5.0, 8.0, "join", "unknown") in seen


def test_stays_that_no_row_ended_are_ended_by_what_is_known_later_of_their_host(story):
    """A crash that was witnessed, of which a table that was made before knows nothing."""
    crashed = (F.col("writer") == "us.ny.h2") & (F.col("epoch") == 1)
    known = lives(story).withColumns(
        {
            "last_at": F.when(crashed, F.col("last_at") + F.expr("interval 1 second")).otherwise(
                F.col("last_at")
            ),
            "ended_by": F.when(crashed, "crash").otherwise(F.col("ended_by")),
        }
    )
    columns = ("seen_by", "member", "joined_at", "left_at", "joined_by", "ended_by")
    found = answers(ended_with_lives(stays(story), known), *columns)
    assert found == answers(stays(story, known), *columns)
    assert ("us.ny.h2", BOB, 5.0, 9.0, "join", "crash") in found


def test_memberships_are_what_the_homes_accepted(story):
    found = answers(memberships(story), "seen_by", "member", "joined_at", "left_at", "ended_by")
    assert found == [("eu.paris.h2", BOB, 4.0, 6.0, "crash"), ("us.ny.h1", EVE, 7.0, None, None)]


def test_answers_have_the_shape_that_is_declared(story):
    for answer, schema in ((stays(story), STAYS), (lives(story), LIVES), (holes(story), HOLES)):
        assert [(f.name, f.dataType) for f in answer.schema] == [(f.name, f.dataType) for f in schema]


def test_lives_end_cleanly_or_unknown_or_go_on_and_what_is_missing_is_missed(spark):
    journal = Journal()
    journal.start("eu.paris.h1", 0)
    journal.write("eu.paris.h1", "heartbeat", 1)
    journal.lose("eu.paris.h1", 2)
    journal.write("eu.paris.h1", "heartbeat", 2)
    journal.start("eu.paris.h1", 3)
    journal.write("eu.paris.h1", "closing", 4)
    journal.start("us.ny.h1", 5)
    journal.start("us.ny.h2", 500)
    # A hole that comes with a duplicate: as many rows as the last number says, and still one is missing.
    journal.lose("us.ny.h2")
    journal.write("us.ny.h2", "heartbeat", 501)
    journal.write("us.ny.h2", "heartbeat", 501, seq=3)
    events = journal.frame(spark)

    assert answers(lives(events), "writer", "epoch", "rows", "last_seq", "ended_by", "whole") == [
        ("eu.paris.h1", 1, 3, 5, "unknown", False),
        ("eu.paris.h1", 2, 2, 2, "closing", True),
        ("us.ny.h1", 1, 1, 1, "unknown", True),
        ("us.ny.h2", 1, 3, 3, None, False),
    ]
    assert answers(holes(events), "writer", "first_number", "last_number", "after_at", "until_at") == [
        ("eu.paris.h1", 3, 4, 1.0, 2.0),
        ("us.ny.h2", 2, 2, 500.0, 501.0),
    ]
