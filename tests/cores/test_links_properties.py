"""What holds for a link under any weather: hundreds of seeded storms, in virtual time."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.links import (
    Pair,
    assert_once_in_order_without_gaps,
    assert_settled,
    assert_ups_and_downs_alternate,
)

from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.events import Suspected

DATAGRAMS = LinkConfig.lan().over_datagrams(round_trip_s=0.1)
WEATHER = 200


def talk(pair: Pair, luck: Random, count: int) -> None:
    for _ in range(count):
        end = luck.choice((pair.a, pair.b))
        pair.say(end, *(f"{end.path} {luck.getrandbits(40):x}" for _ in range(luck.randint(1, 4))))


def storm(pair: Pair, luck: Random, blows: int) -> None:
    """Anything that may happen to a link, at random, while both ends talk."""
    for _ in range(blows):
        talk(pair, luck, luck.randint(0, 4))
        match luck.randint(0, 11):
            case 0:
                pair.cut()
            case 1:
                pair.cut(luck.choice((pair.a, pair.b)))
            case 2 | 3:
                pair.cut_from = set()
            case 4:
                pair.pause(luck.choice((pair.a, pair.b)), luck.uniform(0.0, 3.0))
            case 5:
                pair.restart(luck.choice((pair.a, pair.b)))
            case 6:
                pair.close_channels()
                pair.run(luck.uniform(0.0, 1.5))
                pair.open_channels()
            case 7:
                pair.loss = luck.choice((0.0, 0.1, 0.3, 0.6))
        pair.run(luck.expovariate(2.0))


@pytest.mark.spec("C-026", "C-027", "C-028", "C-030", "C-031")
@pytest.mark.parametrize("seed", range(WEATHER))
def test_whatever_the_weather_an_epoch_is_fifo_and_both_ends_agree_once_it_clears(seed: int) -> None:
    luck = Random(seed)
    pair = Pair(DATAGRAMS, seed=seed, delay_s=(0.001, luck.choice((0.02, 0.3))), loss=0.1, duplicates=0.1)

    storm(pair, luck, blows=40)
    pair.heal()
    pair.run(6.0)
    talk(pair, luck, 20)
    pair.run(6.0)

    for end in (pair.a, pair.b):
        assert_ups_and_downs_alternate(end)
    assert_once_in_order_without_gaps(pair)
    assert_settled(pair)


@pytest.mark.spec("C-026", "C-032")
@pytest.mark.parametrize("seed", range(WEATHER))
def test_connections_that_break_for_less_than_the_bound_lose_repeat_and_end_nothing(seed: int) -> None:
    luck = Random(seed)
    # One fixed delay: a connection keeps its order, so only what is in it when it breaks is lost.
    pair = Pair(LinkConfig.lan(), seed=seed, delay_s=(0.004, 0.004))
    pair.run(1.0)

    for _ in range(20):
        talk(pair, luck, luck.randint(0, 6))
        pair.run(luck.uniform(0.0, 0.02))
        talk(pair, luck, luck.randint(0, 6))
        pair.close_channels()
        pair.run(luck.uniform(0.0, 0.15))
        talk(pair, luck, luck.randint(0, 6))
        pair.open_channels()
        pair.run(luck.uniform(0.05, 0.1))
    pair.run(2.0)

    assert pair.a.ups_and_downs() == pair.b.ups_and_downs() == ["up"]
    assert_once_in_order_without_gaps(pair)
    assert_settled(pair)


@pytest.mark.spec("C-029")
@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([LinkConfig.lan(), LinkConfig.wan()]),
    st.integers(0, 2**32),
    st.floats(3.0, 40.0),
    st.floats(0.0, 0.9),
)
def test_a_peer_that_falls_silent_is_suspected_and_then_down_within_the_bound(
    config: LinkConfig, seed: int, after_s: float, jitter: float
) -> None:
    heartbeat_s = config.detect.heartbeat_interval_s
    pair = Pair(config.over_datagrams(), seed=seed, delay_s=(0.0, jitter * heartbeat_s))
    pair.run(after_s)
    assert pair.a.link.up
    downs = len([story for story in pair.a.ups_and_downs() if story != "up"])

    pair.cut(pair.b)
    silent_from = pair.now
    pair.run(config.detect.down_after_s + (1.0 + jitter) * heartbeat_s + 1e-6)

    story = pair.a.ups_and_downs()
    assert len(story) == 2 * downs + 2 and story[-1] == "down: silent"
    # Counted from the last sign of life, which was sent at most a heartbeat before the silence began.
    assert pair.a.when(Suspected)[-1] >= silent_from - heartbeat_s
    assert pair.a.link.epoch is None


@pytest.mark.spec("C-029", "C-035")
@pytest.mark.parametrize("seed", range(50))
def test_a_live_peer_on_an_irregular_but_working_path_is_not_given_up(seed: int) -> None:
    pair = Pair(LinkConfig.wan().over_datagrams(), seed=seed, delay_s=(0.02, 0.9), loss=0.01, duplicates=0.05)
    pair.run(5.0)
    assert pair.a.link.up and pair.b.link.up
    before = len(pair.a.ups_and_downs())

    pair.run(300.0)

    assert len(pair.a.ups_and_downs()) == before


@pytest.mark.spec("C-027")
@pytest.mark.parametrize("seed", range(100))
def test_two_ends_that_start_in_bad_weather_come_together_when_it_clears(seed: int) -> None:
    luck = Random(seed)
    pair = Pair(DATAGRAMS, seed=seed, delay_s=(0.001, 0.5), loss=0.7, duplicates=0.3)
    pair.run(luck.uniform(0.0, 20.0))
    pair.heal()
    pair.delay_s = (0.001, 0.02)

    # At most: the silence of an old epoch, the longest back-off, and what is still under way.
    pair.run(1.2 + 1.0 + 0.5)

    assert_settled(pair)
