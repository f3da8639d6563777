"""Agreed groups with ``delivery="fifo"`` in a pretended world: views and messages in one sequence (D13)."""

from collections.abc import Iterator

import pytest

import rostra
from rostra.errors import GroupBlocked, NotAllowed, NotAvailable, Terminated
from rostra.names import host_of
from rostra.testing import World

HOSTS = ("paris.h1", "paris.h2", "paris.h3")


class Speaker:
    """Joins, greets each view in which it is, and keeps what it is given."""

    def __init__(self, survive: str = "any") -> None:
        self.items: list[rostra.GroupItem] = []
        self.survive = survive
        self.talk: rostra.AgreedConversation | None = None

    async def run(self) -> None:
        async with (
            rostra.connect() as me,
            me.join(
                "chess", "paris", membership="agreed", delivery="fifo", survive=self.survive
            ) as self.talk,
        ):
            async for item in self.talk:
                self.items.append(item)
                if isinstance(item, rostra.View):
                    await self.talk.send(f"{me.endpoint} in {item.number}".encode())

    @property
    def views(self) -> list[rostra.View]:
        return [item for item in self.items if isinstance(item, rostra.View)]

    @property
    def heard(self) -> list[str]:
        return [item.body.decode() for item in self.items if isinstance(item, rostra.Message)]


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 3}, seed=5)
    yield world
    world.close()


def started(world: World, survive: str = "any") -> list[Speaker]:
    speakers = [Speaker(survive) for _ in HOSTS]
    for host, speaker in zip(HOSTS, speakers, strict=True):
        world.start(host, speaker.run())
        world.run(for_s=2)
    return speakers


def test_who_installs_a_view_and_speaks_is_heard_in_it_by_all_its_members(world: World) -> None:
    speakers = started(world)
    endpoints = [str(member.endpoint) for member in speakers[0].views[-1].members]

    for nth, speaker in enumerate(speakers):
        assert isinstance(speaker.items[0], rostra.View), "nothing before the first view"
        owed = {
            f"{endpoints[other]} in {view}" for view in (1, 2, 3) for other in range(view) if other != nth
        }
        mine = {text for text in owed if int(text.rpartition(" ")[2]) > nth}  # from its first view on
        assert set(speaker.heard) == mine and len(speaker.heard) == len(mine)
        for place, item in enumerate(speaker.items):
            if isinstance(item, rostra.Message):
                sent_in = int(item.body.rpartition(b" ")[2])
                before = [each.number for each in speaker.items[:place] if isinstance(each, rostra.View)]
                assert sent_in in before, f"{item} came before its view"


def test_a_failed_member_goes_with_a_view_and_no_other_word(world: World) -> None:
    speakers = started(world)
    world.crash("paris.h1")
    world.run(for_s=15)

    for speaker in speakers[1:]:
        assert [str(host_of(each)) for each in speaker.views[-1].failed] == ["paris.h1"]
        assert {type(item) for item in speaker.items} <= {rostra.View, rostra.Message}


def test_a_blocked_side_sends_nothing_until_it_lives_again(world: World) -> None:
    speakers = started(world, survive="majority")
    world.cut("paris.h3")
    world.run(for_s=10)
    alone = speakers[2].talk
    assert alone is not None and alone.blocked is not None
    ended: list[str] = []

    async def say(deadline_s: float | None) -> None:
        assert alone is not None
        try:
            await alone.send(b"is anybody there?", deadline_s=deadline_s)
            ended.append("sent")
        except GroupBlocked as blocked:
            ended.append(f"{blocked.code} {blocked.retriable}")

    world.start("paris.h3", say(3.0))
    world.start("paris.h3", say(None))
    world.run(for_s=5)
    assert ended == ["GROUP_BLOCKED True"]
    assert "is anybody there?" not in speakers[0].heard
    world.heal()
    world.run(for_s=30)
    assert ended == ["GROUP_BLOCKED True", "sent"]
    assert speakers[0].heard.count("is anybody there?") == 1


def test_a_leave_returns_when_the_others_have_the_last_words(world: World) -> None:
    (ann, *_) = started(world)
    done: list[int] = []

    async def leave() -> None:
        async with rostra.connect() as me:
            talk = await me.join("chess", "paris", membership="agreed", delivery="fifo")
            await talk.ready()
            await talk.send_many([b"a", b"b", b"c"])
            await talk.leave()
            done.append(talk.unconfirmed)
            again = await me.join("chess", "paris", membership="agreed", delivery="fifo")
            await again.ready()
            await again.send(b"back")
            await again.leave()

    world.start("paris.h2", leave())
    world.run(for_s=15)
    assert done == [0]
    assert [text for text in ann.heard if text in ("a", "b", "c", "back")] == ["a", "b", "c", "back"]


def test_a_group_that_is_deleted_ends_for_all_who_speak_in_it(world: World) -> None:
    speakers = [Speaker() for _ in HOSTS]
    over: list[str] = []

    async def speak(speaker: Speaker) -> None:
        try:
            await speaker.run()
        except Terminated as end:
            over.append(end.what)

    async def delete() -> None:
        async with rostra.connect() as me:
            await me.groups.delete("chess", "paris")

    for host, speaker in zip(HOSTS, speakers, strict=True):
        world.start(host, speak(speaker))
        world.run(for_s=2)
    world.start("paris.h1", delete())
    world.run(for_s=5)

    assert over == ["chess@paris is over: it was deleted"] * 3


def test_what_cannot_be_is_refused_with_a_reason(world: World) -> None:
    refused: list[str] = []

    async def ask() -> None:
        async with rostra.connect() as me:
            first = await me.join("chess", "paris", membership="agreed", delivery="fifo")
            for kind, more in (
                (NotAllowed, {"role": "submit"}),
                (NotAvailable, {"slow": "spill"}),
            ):
                with pytest.raises(kind) as failure:
                    await me.join("other", "paris", membership="agreed", delivery="fifo", **more)
                refused.append(failure.value.fix)
            async with rostra.connect() as other:
                for choice in (
                    {"delivery": "fifo"},
                    {"delivery": "fifo", "role": "submit"},
                    {"membership": "agreed"},
                ):
                    with pytest.raises(NotAllowed) as failure:
                        await other.join("chess", "paris", **choice)
                    refused.append(failure.value.what)
            await first.close()

    world.start("paris.h1", ask())
    world.run(for_s=20)
    assert refused[:2] == [
        'join it with role="both" or role="send"',
        'use slow="throttle" or slow="expel"',
    ]
    assert all("chess@paris is agreed, fifo" in text for text in refused[2:]) and len(refused) == 5
