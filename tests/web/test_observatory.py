"""Everything the dashboard knows, kept current and told in order."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from typing import Any

import pytest

from rostra.client import Cause, Joined, Member
from rostra.names import Domain, Endpoint, Group, make_group
from rostra.testing.loop import PretendLoop
from rostra.web import observatory as module
from rostra.web.observatory import LINGER_S, Observatory, TooManySubscribers
from rostra.web.places import AnyNews, Happened, Hear, Silent, StateKnown, Unseen, ViewSeen

CHESS, WEB = make_group("chess", "world"), make_group("web", "eu.paris")
PARIS, BOSTON = Domain("eu.paris.h1"), Domain("us.boston.h1")
ANN = Endpoint("eu.paris.h1/ann#1")


def in_pretended_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """For what is about moments, which a busy machine would not keep."""

    @wraps(test)
    def run() -> None:
        with asyncio.Runner(loop_factory=PretendLoop) as runner:
            runner.run(test())

    return run


class FakePlace:
    """A place that says what the test wants it to."""

    def __init__(self, path: Domain) -> None:
        self.path = path
        self.address = f"/run/{path}"
        self.followed: set[Group] = set()
        self.hear: Hear | None = None

    async def run(self, hear: Hear) -> None:
        self.hear = hear
        try:
            await asyncio.Event().wait()
        finally:
            self.hear = None

    def follow(self, groups: Iterable[Group]) -> None:
        self.followed = set(groups)


def document(
    path: Domain, groups: dict[str, dict[str, Any]] | None = None, links: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "world": "acme",
        "profile": "lan",
        "node": path,
        "incarnation": 7,
        "core": {"server": "agent", "groups": groups or {}},
        "links": links or {},
        "programs": [],
    }


def table(members: tuple[str, ...] = (), watchers: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"members": [[member, [1, 1], ""] for member in members], "watchers": watchers, "online": ()}


def member(endpoint: str = ANN, meta: bytes = b"") -> Member:
    return Member(Endpoint(endpoint), (1, 1), meta)


class Watched:
    """An observatory over two fake places, awake."""

    def __init__(self) -> None:
        self.places = {path: FakePlace(path) for path in (PARIS, BOSTON)}
        self.observatory = Observatory(self.places.values(), stays_awake=True)

    async def __aenter__(self) -> "Watched":
        await self.observatory.__aenter__()
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.observatory.__aexit__()

    def say(self, path: Domain, news: AnyNews) -> None:
        hear = self.places[path].hear
        assert hear is not None
        hear(news)


def kinds(frames: list[module.Frame] | None) -> list[str]:
    assert frames is not None
    return [frame.kind for frame in frames]


async def test_a_subscriber_gets_a_snapshot_and_then_every_change_once() -> None:
    async with Watched() as watched, watched.observatory.subscribe() as subscriber:
        assert kinds(await subscriber.next(1.0)) == ["snapshot"]
        watched.say(PARIS, StateKnown(1.0, document(PARIS, {"chess@world": table((ANN,))})))
        watched.say(PARIS, ViewSeen(2.0, CHESS, (member(),), False))
        watched.say(PARIS, ViewSeen(3.0, CHESS, (), False, Joined((member(),), Cause.JOIN)))
        frames = await subscriber.next(1.0)
        assert kinds(frames) == ["place", "world", "groups", "view", "view", "entry"]
        assert [frame.number for frame in frames or ()] == list(range(1, 7))


async def test_who_comes_back_is_given_what_it_missed() -> None:
    async with Watched() as watched:
        observatory = watched.observatory
        watched.say(PARIS, StateKnown(1.0, document(PARIS)))
        last = observatory.snapshot()["number"]
        watched.say(PARIS, Happened(2.0, 1, "link_up", {"node": PARIS, "peer": "eu.paris"}))
        async with observatory.subscribe(after=f"{observatory.life}-{last}") as subscriber:
            assert kinds(await subscriber.next(1.0)) == ["entry"]


@pytest.mark.parametrize("after", ["", "nonsense", "another1-3", "{life}-99999", "{life}--1", "{life}-x"])
async def test_who_comes_back_from_nowhere_gets_a_snapshot(after: str) -> None:
    async with Watched() as watched:
        after = after.format(life=watched.observatory.life)
        async with watched.observatory.subscribe(after=after) as subscriber:
            assert kinds(await subscriber.next(1.0)) == ["snapshot"]


async def test_who_reads_too_slowly_gets_a_new_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_FRAMES_MAX", 5)
    async with Watched() as watched, watched.observatory.subscribe() as subscriber:
        await subscriber.next(1.0)
        for number in range(20):
            watched.say(PARIS, ViewSeen(float(number), CHESS, (member(f"eu.paris.h1/p#{number}"),), False))
        frames = await subscriber.next(1.0)
        assert kinds(frames) == ["snapshot"]
        snapshot = json.loads((frames or [])[0].data)
        assert snapshot["views"][0]["members"][0]["endpoint"] == "eu.paris.h1/p#19"
        watched.say(PARIS, ViewSeen(21.0, CHESS, (), False))
        assert kinds(await subscriber.next(1.0)) == ["view"]


async def test_only_so_many_may_subscribe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SUBSCRIBERS_MAX", 1)
    async with Watched() as watched, watched.observatory.subscribe():
        with pytest.raises(TooManySubscribers):
            async with watched.observatory.subscribe():
                pass


async def test_groups_are_followed_from_the_places_inside_their_scope() -> None:
    async with Watched() as watched:
        watched.say(BOSTON, StateKnown(1.0, document(BOSTON)))
        watched.say(
            PARIS,
            StateKnown(1.0, document(PARIS, {"chess@world": table((ANN,)), "web@eu.paris": table((ANN,))})),
        )
        assert watched.places[PARIS].followed == {CHESS, WEB}
        assert watched.places[BOSTON].followed == {CHESS}


async def test_a_group_that_only_we_follow_is_let_go() -> None:
    async with Watched() as watched:
        watched.say(PARIS, StateKnown(1.0, document(PARIS, {"chess@world": table((ANN,))})))
        ours = {"chess@world": table(watchers=("eu.paris.h1/dashboard-12#9",))}
        watched.say(PARIS, StateKnown(2.0, document(PARIS, ours)))
        assert watched.places[PARIS].followed == set() and watched.observatory.groups == {}


async def test_a_group_that_somebody_looks_at_is_followed_while_they_look() -> None:
    async with Watched() as watched:
        watched.say(PARIS, StateKnown(1.0, document(PARIS)))
        async with watched.observatory.subscribe(group=WEB):
            assert watched.places[PARIS].followed == {WEB} and WEB in watched.observatory.groups
        watched.say(PARIS, StateKnown(2.0, document(PARIS)))
        assert watched.places[PARIS].followed == set()


async def test_a_place_that_falls_silent_takes_its_views_with_it() -> None:
    async with Watched() as watched:
        watched.say(PARIS, StateKnown(1.0, document(PARIS)))
        watched.say(PARIS, ViewSeen(2.0, CHESS, (member(),), False))
        watched.say(PARIS, Silent(3.0, "refused"))
        shown = watched.observatory.places[PARIS]
        assert (shown.state, shown.since, shown.at, shown.why) == ("silent", 3.0, 1.0, "refused")
        assert watched.observatory.views_of(CHESS) == {}
        assert [entry.kind for entry in watched.observatory.timeline] == ["silent"]
        watched.say(PARIS, StateKnown(9.0, document(PARIS)))
        assert [entry.kind for entry in watched.observatory.timeline] == ["silent", "answers"]


async def test_a_group_that_cannot_be_followed_is_not_shown() -> None:
    async with Watched() as watched:
        watched.say(PARIS, ViewSeen(2.0, CHESS, (member(),), False))
        watched.say(PARIS, Unseen(3.0, CHESS, "outside its scope"))
        assert watched.observatory.views_of(CHESS) == {}


async def test_members_are_counted_in_full_and_shown_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEMBERS_SHOWN_MAX", 3)
    async with Watched() as watched:
        everybody = tuple(member(f"eu.paris.h1/p#{number}") for number in range(10))
        watched.say(PARIS, ViewSeen(1.0, CHESS, everybody, False))
        view = watched.observatory.views_of(CHESS)[PARIS]
        assert (view.total, len(view.members)) == (10, 3)


async def test_how_long_a_member_is_seen_survives_other_changes() -> None:
    async with Watched() as watched:
        watched.say(PARIS, ViewSeen(1.0, CHESS, (member(),), False))
        watched.say(PARIS, ViewSeen(5.0, CHESS, (member(), member("us.boston.h1/bob#2")), False))
        ann, bob = watched.observatory.views_of(CHESS)[PARIS].members
        assert (ann.since, bob.since) == (1.0, 5.0)


@pytest.mark.parametrize(
    ("meta", "shown"), [(b"v1.4", "v1.4"), (b"\xff\x00", "ff 00"), (b"\x1b[31m", "1b 5b 33 31 6d")]
)
async def test_an_attachment_is_shown_as_text_or_as_bytes(meta: bytes, shown: str) -> None:
    async with Watched() as watched:
        watched.say(PARIS, ViewSeen(1.0, CHESS, (member(meta=meta),), False))
        assert watched.observatory.views_of(CHESS)[PARIS].members[0].meta == shown


async def test_who_sees_whose_members() -> None:
    async with Watched() as watched:
        for path in (PARIS, BOSTON):
            watched.say(path, StateKnown(1.0, document(path)))
        bob = member("us.boston.h1/bob#2")
        watched.say(PARIS, ViewSeen(1.0, CHESS, (member(),), False))
        watched.say(BOSTON, ViewSeen(1.0, CHESS, (member(), bob), False))
        watched.say(PARIS, ViewSeen(1.0, WEB, (member(),), False))
        assert watched.observatory.sightings() == {
            "hosts": [PARIS, BOSTON],
            "sees": {PARIS: {PARIS: (2, 2), BOSTON: (0, 1)}, BOSTON: {PARIS: (1, 1), BOSTON: (1, 1)}},
        }


@in_pretended_time
async def test_it_sleeps_until_somebody_looks_and_a_while_after() -> None:
    place = FakePlace(PARIS)
    async with Observatory([place]) as observatory:
        await asyncio.sleep(0)
        assert place.hear is None, "nobody looked"
        async with observatory.subscribe():
            await asyncio.sleep(2 * LINGER_S)
            assert place.hear is not None, "somebody looks"
        await asyncio.sleep(LINGER_S - 1)
        assert place.hear is not None, "the page may be reloading"
        await asyncio.sleep(2)
        assert place.hear is None


@in_pretended_time
async def test_a_group_that_nobody_followed_can_be_asked_about_once() -> None:
    async with Watched() as watched:
        for path in (PARIS, BOSTON):
            watched.say(path, StateKnown(1.0, document(path)))
        asking = asyncio.create_task(watched.observatory.look_at(WEB))
        await asyncio.sleep(0.01)
        assert watched.places[PARIS].followed == {WEB} and not asking.done()
        watched.say(PARIS, ViewSeen(2.0, WEB, (member(),), False))
        assert (await asking).keys() == {PARIS}, "Boston is outside its scope"


@in_pretended_time
async def test_who_asks_once_waits_for_the_first_words() -> None:
    place = FakePlace(PARIS)
    async with Observatory([place]) as observatory:
        asking = asyncio.create_task(observatory.awake())
        await asyncio.sleep(0.02)
        assert not asking.done() and place.hear is not None
        place.hear(StateKnown(1.0, document(PARIS)))
        await asking
