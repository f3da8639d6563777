"""Places: what real nodes tell a dashboard, each thing once, through broken connections and new lives."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from support.lab import Lab, until

from rostra.client import Joined
from rostra.names import Domain, make_group
from rostra.web.places import AnyNews, ClientPlace, Happened, Silent, StateKnown, Unseen, ViewSeen


class Ears:
    """Keeps all that a place says."""

    def __init__(self, lab: Lab, path: str) -> None:
        self.place = ClientPlace(Domain(path), lab.socket(path))
        self.heard: list[AnyNews] = []

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["Ears"]:
        running = asyncio.create_task(self.place.run(self.heard.append))
        try:
            yield self
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def of(self, kind: type[Any]) -> list[Any]:
        return [news for news in self.heard if type(news) is kind]

    async def until(self, kind: type[Any], what: str, **wanted: Any) -> None:
        async def is_heard() -> bool:
            return any(all(getattr(n, k) == v for k, v in wanted.items()) for n in self.of(kind))

        await until(is_heard, what)

    @property
    def numbers(self) -> list[int]:
        return [news.number for news in self.of(Happened)]


async def test_a_place_says_what_it_knows_and_what_happened_before_we_came(lab: Lab) -> None:
    async with Ears(lab, "eu").open() as ears:
        await ears.until(StateKnown, "the first document")
        events = [news.event for news in ears.of(Happened)]
        assert "node_started" in events and "link_up" in events
        assert ears.numbers == list(range(1, len(events) + 1))
        document = ears.of(StateKnown)[0].document
        assert document["node"] == "eu" and "recent" not in document


async def test_what_happens_is_told_at_once_and_once(lab: Lab) -> None:
    async with Ears(lab, "eu").open() as ears:
        await ears.until(StateKnown, "the first document")
        before = len(ears.of(Happened))
        lab["eu.h2"].kill()

        async def is_told() -> bool:
            return "link_down" in [news.event for news in ears.of(Happened)[before:]]

        await until(is_told, "eu gives up its host")
        assert ears.numbers == sorted(set(ears.numbers))


async def test_a_dashboard_that_sleeps_and_wakes_hears_nothing_twice(lab: Lab) -> None:
    ears = Ears(lab, "us")
    for _ in range(2):
        before = len(ears.of(StateKnown))
        async with ears.open():

            async def has_spoken(before: int = before) -> bool:
                return len(ears.of(StateKnown)) > before

            await until(has_spoken, "it speaks")
    assert ears.numbers == sorted(set(ears.numbers)) != []


async def test_a_new_life_of_a_node_is_heard_from_its_beginning(lab: Lab) -> None:
    async with Ears(lab, "us").open() as ears:
        await ears.until(StateKnown, "the first document")
        first = ears.of(StateKnown)[0].document["incarnation"]
        lab["us"].kill()
        await ears.until(Silent, "it is silent")
        lab["us"].start()

        async def is_back() -> bool:
            return any(news.document["incarnation"] > first for news in ears.of(StateKnown))

        await until(is_back, "the next life")
        assert [news.event for news in ears.of(Happened)].count("node_started") == 2
        assert ears.numbers.count(1) == 2


async def test_groups_are_seen_from_a_host_and_change_by_change(lab: Lab) -> None:
    group = make_group("seen-from-a-place", "world")
    async with Ears(lab, "eu.h1").open() as ears, lab.program("us.h1", "ann") as ann:
        ears.place.follow([group])
        await ears.until(ViewSeen, "an empty group", group=group, members=())
        async with ann.join(group.name, group.scope):

            async def has_joined() -> bool:
                return any(isinstance(news.change, Joined) for news in ears.of(ViewSeen))

            await until(has_joined, "ann is seen to join")
            assert [m.endpoint for m in ears.of(ViewSeen)[-1].members] == [ann.endpoint]
        ears.place.follow([])
        await ears.until(Unseen, "the group is let go", group=group)


async def test_a_group_outside_the_hosts_scope_is_refused_and_others_go_on(lab: Lab) -> None:
    strange, fine = make_group("strange", "us"), make_group("fine", "eu")
    async with Ears(lab, "eu.h1").open() as ears:
        ears.place.follow([strange, fine])
        await ears.until(Unseen, "the strange one", group=strange)
        await ears.until(ViewSeen, "the fine one", group=fine)
        assert ears.of(Silent) == []
