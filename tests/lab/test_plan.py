"""What a lab's file may say, and what it is told when it cannot be right."""

import pytest

from rostra.errors import BadInput
from rostra.impair.quality import Wander
from rostra.lab import THREE_SITES, LineQuality, load_plan, parse_plan

TWO = '[sites]\nmit = 2\nntu = 0\n[[links]]\nbetween = ["mit", "ntu"]\n'


def test_the_papers_three_sites() -> None:
    """Round trips of `spec/xpand.md`, 8.1: half of them each way."""
    plan = load_plan(THREE_SITES)
    assert [site.name for site in plan.sites] == ["huji", "mit", "ntu"]
    delays = {(source, to): quality.wander.delay_s for source, to, quality in plan.ways}
    assert delays == {
        **dict.fromkeys([("huji", "mit"), ("mit", "huji"), ("mit", "ntu"), ("ntu", "mit")], 0.115),
        **dict.fromkeys([("huji", "ntu"), ("ntu", "huji")], 0.195),
    }
    assert {quality.losses for _, _, quality in plan.ways} == {(0.01, 0.20)}


def test_a_file_speaks_in_milliseconds_megabits_and_kibibytes() -> None:
    plan = parse_plan(
        TWO + "round_trip_ms = 80\njitter_ms = 2\nloss = 0.05\nduplicate = 0.01\nreorder = 0.02\n"
        "reorder_ms = 30\nrate_mbit = 10\nqueue_kib = 64\n"
    )
    (_, _, there), (_, _, back) = plan.ways
    assert there == back
    assert there == LineQuality(
        Wander(0.04, 0.002),
        loss=0.05,
        duplicate=0.01,
        reorder=0.02,
        reorder_s=0.03,
        rate_bps=10e6,
        queue_bytes=65536,
    )


def test_a_link_can_be_different_each_way() -> None:
    plan = parse_plan(
        TWO + 'one_way = true\ndelay_ms = 10\n[[links]]\nbetween = ["ntu", "mit"]\none_way = true\n'
    )
    assert [(source, to, quality.wander.delay_s) for source, to, quality in plan.ways] == [
        ("mit", "ntu", 0.01),
        ("ntu", "mit", 0.0),
    ]


def test_every_host_has_an_address_in_its_site() -> None:
    mit = parse_plan(TWO).site("mit")
    assert (mit.address, mit.host_names, mit.host_address("h2")) == (
        "10.78.1.1",
        ("h1", "h2"),
        "10.78.1.12",
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "names 0 sites"),
        ("[sites]\nmit = true\n", "how many hosts"),
        ("[sites]\nmit = 1000\n", "how many hosts"),
        ('[sites]\n"us.mit" = 1\n', "one label"),
        ("[sites]\nmit = 1\n[link]\n", "unknown key 'link'"),
        (TWO + "delay = 5\n", "unknown key 'delay'"),
        (TWO + 'delay_ms = "5"\n', "as a number"),
        (TWO + "loss = 5\n", "link 1: loss 5.0 is not a share"),
        (TWO + "loss = [0.1]\n", "two that it drifts between"),
        (TWO + "round_trip_ms = 5\ndelay_ms = 5\n", "delay_ms alone"),
        (TWO + '[[links]]\nbetween = ["ntu", "mit"]\n', "said twice"),
        (TWO + '[[links]]\nbetween = ["ntu", "ntu"]\n', "two of the sites"),
        (TWO + '[[links]]\nbetween = ["ntu", "cern"]\n', "two of the sites: mit, ntu"),
        ("[sites\n", "not valid TOML"),
        ('[lab]\nseed = "x"\n[sites]\nmit = 1\n', "whole number"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused_with_a_way_out(text: str, word: str) -> None:
    with pytest.raises(BadInput, match=word.replace("[", r"\[")):
        parse_plan(text)


def test_a_site_that_is_not_there_is_told_who_is() -> None:
    with pytest.raises(BadInput, match="it has: mit, ntu"):
        parse_plan(TWO).site("cern")
