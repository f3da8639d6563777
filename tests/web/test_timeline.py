"""What happened, each thing once, however many places saw it."""

from typing import Any

import pytest

from rostra.client import Because, Cause, Joined, Left, Member, Only, Without
from rostra.names import Domain, Endpoint, make_group
from rostra.web.timeline import ENTRIES_MAX, OPEN_S, Timeline, TimelineEntry, common_domain

CHESS, NEWS = make_group("chess", "world"), make_group("news", "world")
PARIS1, PARIS2, ROME, BOSTON = (
    Domain(path) for path in ("eu.paris.h1", "eu.paris.h2", "eu.rome.h1", "us.boston.h1")
)
ANN, BOB, CAT = (Endpoint(text) for text in ("eu.paris.h1/ann#1", "us.boston.h1/bob#2", "us.boston.h2/cat#3"))
SILENT = Because(Domain("eu"), Domain("us"), "silent")
GROUNDS = {"silence_s": 4.1, "expected_s": 0.2, "phi": 9.0, "down_after_s": 4.0}


def joined(*endpoints: Endpoint, cause: Cause = Cause.JOIN) -> Joined:
    return Joined(tuple(Member(endpoint, (1, 1)) for endpoint in endpoints), cause)


def texts(timeline: Timeline) -> list[str]:
    return [entry.text for entry in timeline]


def recorded(
    timeline: Timeline, at: float, place: str, event: str, peer: str, **values: Any
) -> list[TimelineEntry]:
    return timeline.recorded(at, Domain(place), event, {"node": place, "peer": peer, **values})


def test_a_join_that_three_places_hear_of_is_one_entry_with_three_witnesses() -> None:
    timeline = Timeline()
    for at, place in ((1.0, PARIS1), (1.2, ROME), (1.5, BOSTON)):
        timeline.changed(at, place, CHESS, joined(ANN))
    (entry,) = timeline
    assert entry.text == "eu.paris.h1/ann#1 joined chess@world"
    assert (entry.at, entry.last, entry.seen_by) == (1.0, 1.5, {PARIS1: 1.0, ROME: 1.2, BOSTON: 1.5})


def test_a_member_that_leaves_and_comes_back_has_an_entry_each_time() -> None:
    timeline = Timeline()
    for change in (joined(ANN), Left((ANN,), Cause.LEAVE), joined(ANN)):
        timeline.changed(1.0, PARIS1, CHESS, change)
    assert [entry.kind for entry in timeline] == ["joined", "left", "joined"]


def test_a_crash_is_one_entry_for_all_groups() -> None:
    timeline = Timeline()
    for group in (CHESS, NEWS):
        timeline.changed(1.0, PARIS1, group, Left((BOB,), Cause.CRASH))
    (entry,) = timeline
    assert (entry.text, entry.groups) == ("us.boston.h1/bob#2 crashed", {"chess@world": 1, "news@world": 1})
    assert entry.command == f"rostra why {BOB}"


def test_the_words_of_a_loss_follow_its_witnesses() -> None:
    timeline = Timeline()
    seen = []
    for place in (PARIS1, PARIS2, ROME):
        timeline.changed(1.0, place, CHESS, Without(Domain("us"), (BOB, CAT), SILENT))
        seen.append(texts(timeline))
    assert seen == [
        ["eu.paris.h1 goes on without us"],
        ["eu.paris goes on without us"],
        ["eu goes on without us"],
    ]
    (entry,) = timeline
    assert entry.groups == {"chess@world": 2} and entry.because == "eu gave up us: silent"


def test_a_host_that_is_lost_to_everybody_is_said_to_be() -> None:
    timeline = Timeline()
    because = Because(Domain("us.boston"), Domain("us.boston.h1"), "silent")
    for place in (PARIS1, BOSTON):
        timeline.changed(1.0, place, CHESS, Without(Domain("us.boston.h2"), (CAT,), because))
    assert texts(timeline) == ["us.boston.h2 is lost; the rest of world goes on without it"]


def test_each_side_of_a_cut_has_its_own_entry() -> None:
    timeline = Timeline()
    timeline.changed(1.0, PARIS1, CHESS, Without(Domain("us"), (BOB,), SILENT))
    timeline.changed(
        1.1, BOSTON, CHESS, Only(Domain("us"), (ANN,), Because(Domain("us"), Domain("eu"), "silent"))
    )
    assert texts(timeline) == ["eu.paris.h1 goes on without us", "us goes on alone"]


def test_a_loss_is_explained_by_evidence_that_comes_later() -> None:
    timeline = Timeline()
    timeline.changed(1.0, PARIS1, CHESS, Without(Domain("us"), (BOB,), SILENT))
    changed = timeline.recorded(
        1.1, Domain("eu"), "link_removed", {"peer": "us", "because": "silent", **GROUNDS}
    )
    assert [entry.kind for entry in changed] == ["parted", "lost"]
    assert next(iter(timeline)).because == "eu gave up us: silent for 4.1 s; 4 s are allowed"


def test_a_merge_in_several_notices_is_one_entry_until_something_is_lost_again() -> None:
    timeline = Timeline()
    timeline.changed(1.0, PARIS1, CHESS, Without(Domain("us"), (BOB, CAT), SILENT))
    for at, endpoint in ((2.0, BOB), (2.1, CAT)):
        timeline.changed(at, PARIS1, CHESS, joined(endpoint, cause=Cause.MERGE))
    timeline.changed(3.0, PARIS1, CHESS, Without(Domain("us"), (BOB, CAT), SILENT))
    timeline.changed(4.0, PARIS1, CHESS, joined(BOB, CAT, cause=Cause.MERGE))
    assert texts(timeline) == [
        "eu.paris.h1 goes on without us",
        "eu.paris.h1 sees us again",
        "eu.paris.h1 goes on without us",
        "eu.paris.h1 sees us again",
    ]


def test_what_was_never_lost_is_not_seen_again() -> None:
    timeline = Timeline()
    timeline.changed(1.0, PARIS1, CHESS, joined(BOB, cause=Cause.MERGE))
    assert texts(timeline) == ["eu.paris.h1 sees us"]


def test_a_merge_names_the_largest_part_that_was_out_of_sight() -> None:
    timeline = Timeline()
    timeline.changed(1.0, PARIS1, CHESS, joined(Endpoint("eu.rome.h1/x#1"), BOB, cause=Cause.MERGE))
    assert sorted(texts(timeline)) == ["eu.paris.h1 sees eu.rome", "eu.paris.h1 sees us"]


def test_a_link_that_ends_is_one_entry_for_its_evidence_and_its_end() -> None:
    timeline = Timeline()
    recorded(timeline, 1.0, "eu", "link_suspected", "us", **GROUNDS)
    recorded(timeline, 2.0, "eu", "link_removed", "us", because="silent", **GROUNDS)
    recorded(timeline, 2.0, "eu", "link_down", "us", because="silent")
    assert texts(timeline) == ["eu suspects us", "eu gave up us"]
    assert [entry.because for entry in timeline] == [
        "silent for 4.1 s, usually heard every 0.2 s (phi 9.0)",
        "silent for 4.1 s; 4 s are allowed",
    ]


def test_both_ends_of_a_link_that_comes_up_are_one_entry() -> None:
    timeline = Timeline()
    recorded(timeline, 1.0, "eu", "link_up", "us")
    recorded(timeline, 1.1, "us", "link_up", "eu")
    (entry,) = timeline
    assert entry.text == "eu and us are linked" and len(entry.seen_by) == 2


def test_what_happens_too_late_to_be_the_same_is_another_entry() -> None:
    timeline = Timeline()
    timeline.changed(1.0, PARIS1, CHESS, joined(ANN))
    timeline.changed(1.1 + OPEN_S, ROME, CHESS, joined(ANN))
    assert len(texts(timeline)) == 2


def test_a_place_that_stays_silent_is_one_entry() -> None:
    timeline = Timeline()
    for at in (1.0, 2.0, 3.0):
        timeline.silent(at, PARIS1, "refused")
    timeline.answers(4.0, PARIS1)
    assert texts(timeline) == [
        "eu.paris.h1 does not answer the dashboard",
        "eu.paris.h1 answers the dashboard",
    ]


def test_what_nodes_note_for_themselves_only_makes_no_entry() -> None:
    assert Timeline().recorded(1.0, PARIS1, "listening", {"address": "127.0.0.1:1"}) == []


def test_what_a_node_forgot_unread_is_told() -> None:
    timeline = Timeline()
    timeline.forgot(1.0, PARIS1, 12)
    assert texts(timeline) == ["eu.paris.h1: 12 events were forgotten unread"]


def test_a_nodes_own_trouble_is_told_with_its_reason() -> None:
    timeline = Timeline()
    timeline.recorded(1.0, PARIS1, "refused", {"code": "WRONG_WORLD", "because": "a server of another world"})
    timeline.recorded(1.0, PARIS1, "program_suspected", {"program": "web.py", "unanswered_s": 2.0})
    assert [(entry.text, entry.because) for entry in timeline] == [
        ("eu.paris.h1: refused", "a server of another world"),
        ("program web.py on eu.paris.h1 is suspected", "no answer for 2 s"),
    ]


def test_the_oldest_entries_are_forgotten() -> None:
    timeline = Timeline()
    for number in range(ENTRIES_MAX + 10):
        timeline.changed(float(number), PARIS1, CHESS, joined(Endpoint(f"eu.paris.h1/p#{number}")))
    assert len(texts(timeline)) == ENTRIES_MAX and next(iter(timeline)).number == 11


def test_the_common_domain_is_the_smallest_that_holds_all() -> None:
    assert common_domain([PARIS1]) == PARIS1
    assert common_domain([PARIS1, PARIS2]) == "eu.paris"
    assert common_domain([PARIS1, ROME]) == "eu"
    assert common_domain([PARIS1, ROME, BOSTON]) == "world"


# Causes are older than their effects, whatever clocks say


def in_time(timeline: Timeline) -> list[str]:
    return [entry.text for entry in sorted(timeline, key=lambda entry: (entry.at, entry.number))]


@pytest.mark.parametrize("ahead_s", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("evidence_first", [True, False])
def test_who_gave_up_whom_stands_before_what_was_lost(ahead_s: float, evidence_first: bool) -> None:
    """`ahead_s`: the clock of the accuser is ahead of ours."""
    timeline = Timeline()
    lost = Without(Domain("us"), (BOB,), SILENT)
    recorded(timeline, 1.0 + ahead_s, "eu", "link_suspected", "us", **GROUNDS)
    sent: list[TimelineEntry] = []
    if not evidence_first:
        timeline.changed(1.6, PARIS1, CHESS, lost)
    sent += recorded(timeline, 1.5 + ahead_s, "eu", "link_removed", "us", because="silent", **GROUNDS)
    if evidence_first:
        sent += timeline.changed(1.6, PARIS1, CHESS, lost)
    assert in_time(timeline) == ["eu suspects us", "eu gave up us", "eu.paris.h1 goes on without us"]
    # Whatever was told anew is sent anew.
    assert {"eu gave up us", "eu.paris.h1 goes on without us"} <= {entry.text for entry in sent}


@pytest.mark.parametrize("link_first", [True, False])
def test_a_link_stands_before_the_merge_that_came_over_it(link_first: bool) -> None:
    timeline = Timeline()
    if link_first:
        recorded(timeline, 5.0, "eu", "link_up", "us")
    timeline.changed(4.0, PARIS1, CHESS, joined(BOB, cause=Cause.MERGE))
    if not link_first:
        recorded(timeline, 5.0, "eu", "link_up", "us")
    assert in_time(timeline) == ["eu and us are linked", "eu.paris.h1 sees us"]
