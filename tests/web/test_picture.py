"""Servers and links, judged from what places say."""

from typing import Any

import pytest

from rostra.names import Domain
from rostra.web.picture import PictureEnd, PlaceReport, draw, ends_of

UP = PictureEnd("up", silence_s=0.1, heard_s=0.1, expected_s=0.2, phi=0.1)
SUSPECTED = PictureEnd("suspected", silence_s=3.0, heard_s=3.0, expected_s=0.2, phi=9.0)
DOWN = PictureEnd("down", silence_s=9.0, heard_s=9.0, expected_s=0.2, because="silent")
UNSEEN = PictureEnd("unseen")


def agent(path: str, **links: PictureEnd) -> PlaceReport:
    return place(path, {"server": "agent"}, links)


def server(path: str, *, cluster: bool = False, **links: PictureEnd) -> PlaceReport:
    return place(path, {"server": path, "cluster": cluster}, links)


def place(
    path: str, core: dict[str, Any], links: dict[str, PictureEnd], *, answers: bool = True
) -> PlaceReport:
    ends = {Domain(peer.replace("_", ".")): end for peer, end in links.items()}
    return PlaceReport(Domain(path), answers, {"core": core}, "" if answers else "refused", ends)


def silent(report: PlaceReport) -> PlaceReport:
    return PlaceReport(report.path, False, report.document, "Connection refused", {})


def states(*reports: PlaceReport) -> dict[str, str]:
    return {each.path: each.state for each in draw(reports).servers}


def link(a: str, b: str, *reports: PlaceReport) -> Any:
    (found,) = [each for each in draw(reports).links if (each.a, each.b) == (a, b)]
    return found


def test_a_world_that_is_well_is_up_and_in_order() -> None:
    reports = [
        server("eu", us=UP, eu_paris=UP),
        server("eu.paris", cluster=True, eu=UP, eu_paris_h1=UP),
        agent("eu.paris.h1", eu_paris=UP),
        server("us", eu=UP),
    ]
    picture = draw(reports)
    assert [(each.path, each.kind, each.state) for each in picture.servers] == [
        ("world", "domain", "none"),
        ("eu", "domain", "up"),
        ("eu.paris", "cluster", "up"),
        ("eu.paris.h1", "host", "up"),
        ("us", "domain", "up"),
    ]
    assert {each.state for each in picture.links} == {"up"}


@pytest.mark.spec("C-020")
def test_a_root_that_nobody_serves_is_not_missing_and_one_that_nobody_met_is() -> None:
    without = draw([server("eu", us=UP), server("us", eu=UP)])
    assert without.servers[0].state == "none"
    assert [(each.a, each.b) for each in without.links] == [("eu", "us")]
    assert states(server("eu", us=UP, world=UNSEEN), server("us", eu=UP))["world"] == "unseen"


def test_a_neighbour_that_cannot_be_asked_is_known_by_who_hears_it() -> None:
    assert states(agent("eu.h1", eu=UP)) == {"world": "none", "eu": "up", "eu.h1": "up"}
    assert [each.kind for each in draw([agent("eu.h1", eu=UP)]).servers] == ["domain", "cluster", "host"]


def test_a_server_that_a_neighbour_is_overdue_to_hear_of_is_suspected() -> None:
    found = states(server("eu", us=SUSPECTED), server("us", eu=UP))
    assert (found["eu"], found["us"]) == ("up", "suspected")


def test_a_host_that_died_is_suspected_until_its_neighbours_know_and_down_then() -> None:
    dead = silent(agent("eu.h1"))
    assert states(server("eu", cluster=True, eu_h1=UP), dead)["eu.h1"] == "suspected"
    assert states(server("eu", cluster=True, eu_h1=SUSPECTED), dead)["eu.h1"] == "suspected"
    assert states(server("eu", cluster=True, eu_h1=DOWN), dead)["eu.h1"] == "down"


def test_a_host_that_stands_still_is_suspected_although_its_last_words_were_good() -> None:
    stopped = agent("eu.h1", eu=UP)
    assert states(server("eu", cluster=True, eu_h1=DOWN), stopped)["eu.h1"] == "suspected"
    assert states(server("eu", cluster=True, eu_h1=DOWN), silent(stopped))["eu.h1"] == "down"


def test_a_server_that_answers_and_hears_nobody_above_is_cut_off() -> None:
    found = states(
        server("eu", us=DOWN, eu_paris=UP),
        server("eu.paris", cluster=True, eu=UP),
        server("us", eu=DOWN),
    )
    assert found == {"world": "none", "eu": "cut off", "eu.paris": "up", "us": "cut off"}


def test_a_server_that_still_hears_one_above_is_not_cut_off() -> None:
    found = states(
        server("eu", us=DOWN, world=UP), server("us", eu=DOWN, world=UP), server("world", eu=UP, us=UP)
    )
    assert (found["eu"], found["us"]) == ("up", "up")


def test_what_never_answered_and_nobody_heard_of_is_unseen() -> None:
    never = PlaceReport(Domain("eu.h2"), False, None, "no agent there")
    assert states(never, server("eu", cluster=True))["eu.h2"] == "unseen"


def test_a_link_that_one_end_does_not_hear_is_one_way_while_it_is_up() -> None:
    found = link("eu", "us", server("eu", us=SUSPECTED), server("us", eu=UP))
    assert (found.state, found.deaf) == ("one way", "eu")


def test_a_cut_in_both_directions_is_not_one_way_because_one_end_is_later() -> None:
    late = PictureEnd("up", silence_s=2.5, heard_s=2.5, expected_s=0.2)
    assert link("eu", "us", server("eu", us=SUSPECTED), server("us", eu=late)).state == "suspected"


def test_a_link_that_is_down_is_one_way_if_hellos_still_arrive_at_one_end() -> None:
    hears = PictureEnd("down", silence_s=9.0, heard_s=0.3, expected_s=0.2, because="ended by peer")
    found = link("eu", "us", server("eu", us=DOWN), server("us", eu=hears))
    assert (found.state, found.deaf) == ("one way", "eu")


def test_an_end_that_was_left_while_it_heard_its_peer_shows_who_was_deaf() -> None:
    left = PictureEnd("down", silence_s=9.0, heard_s=9.0, expected_s=0.2, because="ended by peer")
    found = link("eu", "us", server("eu", us=left), server("us", eu=DOWN))
    assert (found.state, found.deaf) == ("one way", "us")


@pytest.mark.parametrize("other", [UP, DOWN, SUSPECTED])
def test_the_last_words_of_a_silent_place_count_no_more(other: PictureEnd) -> None:
    dead = PlaceReport(
        Domain("us"), False, {"core": {"server": "us", "cluster": False}}, "gone", {Domain("eu"): other}
    )
    found = link("eu", "us", server("eu", us=DOWN), dead)
    assert (found.state, found.b_sees) == ("down", "unknown")


def test_ends_are_read_from_a_nodes_document() -> None:
    numbers = {"silence_s": 4.0, "phi": 1.0, "expected_s": 0.2, "heard_s": 0.5}
    document = {
        "links": {
            "us": {"up": True, "suspected": False, "last_evidence": None, **numbers},
            "asia": {"up": True, "suspected": True, "last_evidence": {"phi": 9}, **numbers},
            "africa": {"up": False, "suspected": False, "last_evidence": {"phi": 9}, **numbers},
            "world": {"up": False, "suspected": False, "last_evidence": None, **numbers, "heard_s": None},
        }
    }
    ends = ends_of(document, {Domain("africa"): "silent", Domain("us"): "of an earlier epoch"})
    assert [(ends[Domain(peer)].state, ends[Domain(peer)].because) for peer in document["links"]] == [
        ("up", ""),
        ("suspected", ""),
        ("down", "silent"),
        ("unseen", ""),
    ]


def test_reasons_cannot_be_mistaken_for_a_region_that_is_called_us() -> None:
    hears_nobody = server("us", eu=DOWN)
    reports = (server("eu", us=DOWN), hears_nobody)
    for shown in (draw(reports), draw((reports[0], silent(hears_nobody)))):
        assert not any(" us" in each.why for each in shown.servers)
