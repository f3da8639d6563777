"""Observers are shown every step once, and a driver need not know what only they look at."""

from collections.abc import Iterator
from typing import Any

import pytest

from rostra.core.effects import Effect, Event, Ignored, LinkUp, Observation, Tell
from rostra.core.observer import BESIDE, TURN_ENDED, NodeBegan, Reporter, Reporters, with_observations
from rostra.names import Domain
from rostra.protocols.links.events import ChannelOpened
from rostra.protocols.relaxed.domain import DomainServer
from rostra.sim import World

EU = Domain("eu")


class Weathered(Observation, frozen=True):
    """That no driver has ever heard of."""

    what: str


class Rain(Reporter):
    def __init__(self) -> None:
        self.seen: list[tuple[float, str, str]] = []
        self.shows = {Weathered: lambda now, node, weather: self.seen.append((now, node, weather.what))}


class Watcher:
    def __init__(self) -> None:
        self.steps: list[tuple[Domain, Event, list[Any]]] = []

    def saw(self, now: float, node: Domain, event: Event, effects: Any) -> None:
        self.steps.append((node, event, list(effects)))


@pytest.fixture
def rainy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Servers mention the weather whenever a neighbour comes up."""
    step = DomainServer.step

    def mentions(server: DomainServer, now: float, event: Event) -> list[Effect]:
        effects = list(step(server, now, event))
        return [*effects, Weathered("rain")] if isinstance(event, LinkUp) else effects

    monkeypatch.setattr(DomainServer, "step", mentions)
    yield


def test_a_new_observation_reaches_its_observers_through_a_driver_that_does_not_know_it(rainy: None) -> None:
    rain, watcher = Rain(), Watcher()
    World(1, domains={"eu": 1}, observers=[rain, watcher]).run(3.0)
    assert rain.seen
    whole = [effect for _, _, effects in watcher.steps for effect in effects if isinstance(effect, Weathered)]
    assert len(whole) == len(rain.seen)


def test_every_step_of_a_node_is_shown_once_and_in_order() -> None:
    watcher = Watcher()
    World(1, domains={"eu": 1}, observers=[watcher]).run(1.0)
    events = [event for node, event, _ in watcher.steps if node == EU]
    assert isinstance(events[1], NodeBegan), "after it was made"
    assert isinstance(events[2], ChannelOpened)
    assert TURN_ENDED in events


def test_reporters_are_given_what_they_show_until_they_are_removed() -> None:
    rain, reporters = Rain(), Reporters()
    reporters.add(rain)
    reporters.show(1.0, EU, Weathered("rain"))
    reporters.show(1.0, EU, Ignored("x", "y"))
    assert Weathered in reporters and Ignored not in reporters
    reporters.remove(rain)
    reporters.show(2.0, EU, Weathered("sun"))
    assert rain.seen == [(1.0, EU, "rain")] and Weathered not in reporters


def test_a_reporter_finds_what_it_shows_in_a_whole_step() -> None:
    rain = Rain()
    rain.saw(1.0, EU, BESIDE, [Ignored("x", "y"), Weathered("rain")])
    assert rain.seen == [(1.0, EU, "rain")]


def test_an_order_that_a_driver_cannot_carry_out_is_not_taken_for_an_observation() -> None:
    acts = with_observations({Tell: "tell", Ignored: "count"}, "report")
    assert (acts[Tell], acts[Ignored], acts[Weathered]) == ("tell", "count", "report")
    assert LinkUp not in acts and Effect not in acts
