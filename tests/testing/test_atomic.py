"""Groups with ``delivery="atomic"`` in a pretended world: one order for all members."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

import rostra
from rostra.errors import BadInput, Excluded, GroupBlocked, NotAvailable, NotMember
from rostra.testing import World

PLACES = ("fr.paris.h1", "fr.paris.h2", "fr.lyon.h1")


class Speaker:
    """Joins, says what it is to say in its first view, and keeps what it is given."""

    def __init__(
        self, count: int = 0, *, name: str = "", many: bool = False, size: int = 0, survive: str = "any"
    ) -> None:
        self.items: list[rostra.AtomicItem | rostra.Messages] = []
        self.receipts: list[rostra.Receipt] = []
        self.count, self.name, self.many = count, name, many
        self.group: rostra.Ordered | None = None
        self.stop = asyncio.Event()
        self.size, self.survive, self.scope = size, survive, "paris"
        self.endpoint = ""

    async def run(self) -> None:
        async with (
            rostra.connect(name=self.name or None) as me,
            me.join(
                "ledger", self.scope, membership="agreed", delivery="atomic", survive=self.survive
            ) as self.group,
        ):
            self.endpoint = me.endpoint
            reading = asyncio.create_task(self.read(self.group))
            await self.group.ready()
            said = [f"{self.name} {n}".encode().ljust(self.size) for n in range(self.count)]
            if self.many:
                self.receipts = await self.group.send_many(said)
            else:
                self.receipts = list(await asyncio.gather(*[self.group.send(each) for each in said]))
            await self.stop.wait()
            await self.group.leave()
            await reading

    async def speak(self, count: int, every_s: float) -> None:
        assert self.group is not None
        for n in range(count):
            self.receipts.append(await self.group.send(f"{self.name} again {n}".encode()))
            await asyncio.sleep(every_s)

    async def read(self, group: rostra.Ordered) -> None:
        async for item in group:
            self.items.append(item)

    @property
    def log(self) -> list[tuple[int, str, bytes]]:
        return [
            (each.position, each.sender, each.body) for each in self.items if isinstance(each, rostra.Message)
        ]


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 2}, seed=5)
    yield world
    world.close()


@pytest.mark.spec("A-002", "A-003", "A-004", "A-011", "A-102")
def test_members_of_one_host_get_all_messages_in_one_order_their_own_among_them(world: World) -> None:
    speakers = [Speaker(5, name="ann"), Speaker(5, name="ben", many=True), Speaker(0, name="cem")]
    for speaker in speakers:
        world.start("paris.h1", speaker.run())
    world.run(for_s=5)
    first, second, third = speakers
    assert third.log and first.log[-len(third.log) :] == third.log == second.log[-len(third.log) :]
    assert len(first.log) == 10 and first.log == sorted(first.log)
    assert [each.position for each in (*first.receipts, *second.receipts)] == [
        place for name in ("ann", "ben") for place, _, body in first.log if body.startswith(name.encode())
    ]
    assert len(second.receipts) == 5


@pytest.mark.spec("A-089")
def test_a_view_has_its_place_between_the_messages(world: World) -> None:
    first, second = Speaker(3, name="ann"), Speaker(3, name="ben")
    world.start("paris.h1", first.run())
    world.run(for_s=2)
    world.start("paris.h1", second.run())
    world.run(for_s=2)
    kinds = [type(each).__name__ for each in first.items]
    assert kinds == ["View", *["Message"] * 3, "View", *["Message"] * 3]
    assert first.items[4:] and [type(each) for each in second.items] == [rostra.View, *[rostra.Message] * 3]
    assert first.log[3:] == second.log
    view = second.items[0]
    assert isinstance(view, rostra.View) and view.rank == 1 and len(view.members) == 2


def test_who_leaves_gets_its_receipts_first_and_the_others_a_view(world: World) -> None:
    first, second = Speaker(3, name="ann"), Speaker(100, name="ben", many=True)
    for speaker in (first, second):
        world.start("paris.h1", speaker.run())
        world.run(for_s=2)
    second.stop.set()
    world.run(for_s=2)
    assert len(second.receipts) == 100
    last = first.items[-1]
    assert isinstance(last, rostra.View) and len(last.members) == 1 and len(last.left) == 1
    assert second.group is not None
    with pytest.raises(NotMember, match="has left"):
        second.group.send_soon(b"late")


@pytest.mark.parametrize(
    ("choices", "error", "match"),
    [
        ({"membership": "relaxed", "order": "hub"}, NotAvailable, "relaxed"),
        ({"membership": "agreed", "order": "medium"}, NotAvailable, "one medium"),
        ({"membership": "agreed", "order": "negotiated", "stable": "majority"}, NotAvailable, "all hosts"),
        ({"membership": "agreed", "stable": "disk"}, BadInput, "might not have"),
        ({"membership": "agreed", "stable": "majority"}, BadInput, "might not have"),
        ({"membership": "agreed", "stable": "maybe"}, BadInput, "use one of"),
    ],
)
def test_what_this_version_cannot_do_is_refused_by_name(
    world: World, choices: dict[str, Any], error: type[Exception], match: str
) -> None:
    async def ask() -> None:
        async with rostra.connect() as me:
            with pytest.raises(error, match=match):
                me.join("g", "paris", delivery="atomic", **choices)

    asked = world.start("paris.h1", ask())
    world.run(for_s=1)
    assert asked.done()


@pytest.fixture
def wide() -> Iterator[World]:
    """Two hosts of one cluster, and one of another."""
    world = World({"fr.paris": 2, "fr.lyon": 1}, seed=7)
    yield world
    world.close()


def spread(world: World, *speakers: Speaker, scope: str = "fr") -> None:
    for host, speaker in zip(PLACES, speakers, strict=True):
        speaker.scope = scope
        world.start(host, speaker.run())
        world.run(for_s=3)


def same_tail(*speakers: Speaker) -> None:
    """Each log is the end of the first one's (A-100)."""
    first = speakers[0].log
    for speaker in speakers:
        assert speaker.log and speaker.log == first[-len(speaker.log) :]


@pytest.mark.spec("A-002", "A-003", "A-100", "A-101", "A-105")
def test_members_of_several_hosts_and_clusters_get_one_order(wide: World) -> None:
    speakers = [Speaker(20, name=name, many=name == "ben") for name in ("ann", "ben", "cem")]
    spread(wide, *speakers)
    wide.run(for_s=5)
    same_tail(*speakers)
    assert [len(each.receipts) for each in speakers] == [20, 20, 20]
    assert len(speakers[0].log) == 60 and len(speakers[2].log) == 20
    views = [each.number for each in speakers[0].items if isinstance(each, rostra.View)]
    assert views == [1, 2, 3]


@pytest.mark.spec("A-044", "A-102")
def test_the_order_is_repaired_where_datagrams_are_lost(wide: World) -> None:
    wide.lose(0.2)
    speakers = [Speaker(200, name=name, many=True, size=900) for name in ("ann", "ben", "cem")]
    spread(wide, *speakers)
    wide.run(for_s=20)
    same_tail(*speakers)
    assert [len(each.receipts) for each in speakers] == [200, 200, 200]


@pytest.mark.spec("A-052", "A-089")
def test_when_the_orderer_dies_nothing_is_lost_that_was_acknowledged(wide: World) -> None:
    speakers = [Speaker(0, name=name) for name in ("ann", "ben", "cem")]
    spread(wide, *speakers)
    for host, speaker in zip(PLACES, speakers, strict=True):
        wide.start(host, speaker.speak(50, 0.02))
    wide.run(for_s=0.5)
    wide.crash("fr.paris.h1")
    wide.run(for_s=20)
    ann, ben, cem = speakers
    same_tail(ben, cem)
    assert len(ben.receipts) == len(cem.receipts) == 50
    places = {position: body for position, _, body in ben.log}
    assert ann.receipts and all(each.position in places for each in ann.receipts)
    assert all(places[position] == body for position, _, body in ann.log)  # a prefix
    views = [each for each in cem.items if isinstance(each, rostra.View)]
    assert views[-1].failed == (ann.endpoint,) and views[-1].rank == 1


def test_a_member_that_is_cut_off_is_blocked_and_the_others_go_on(wide: World) -> None:
    speakers = [Speaker(5, name=name, survive="majority") for name in ("ann", "ben", "cem")]
    spread(wide, *speakers)
    _, ben, cem = speakers
    wide.cut("fr.lyon")
    wide.run(for_s=20)
    assert isinstance(cem.items[-1], rostra.Blocked)
    assert cem.group is not None

    async def send() -> None:
        assert cem.group is not None
        with pytest.raises(GroupBlocked):
            await cem.group.send(b"too late", deadline_s=2.0)

    late = wide.start("fr.lyon.h1", send())
    wide.run(for_s=5)
    assert late.done()
    last = ben.items[-1]
    assert isinstance(last, rostra.View) and last.failed == (cem.endpoint,)


@pytest.mark.parametrize("survive", ["majority", "primary"])
def test_a_member_that_was_out_is_told_though_all_who_went_on_are_dead(wide: World, survive: str) -> None:
    """Its server meets the others again, with members of their own that know no better. Without a word it
    would go on with its older log, and give positions a second time that the dead have used."""
    speakers = [Speaker(1, name=name, survive=survive) for name in ("ann", "ben", "cem")]
    spread(wide, *speakers)
    ann, _, cem = speakers
    assert ann.group is not None and cem.group is not None
    wide.cut("fr.lyon")
    wide.run(for_s=20)
    last = wide.start("fr.paris.h1", ann.group.send(b"answered"))
    wide.run(for_s=2)
    assert last.result().position > cem.log[-1][0]
    for host in PLACES[:2]:
        wide.crash(host)
    wide.heal()
    for host in PLACES[:2]:
        wide.restart(host)
    wide.run(for_s=30)
    late = wide.start("fr.lyon.h1", cem.group.send(b"in silence", deadline_s=2.0))
    with pytest.raises(Excluded):
        wide.run(for_s=5)
        late.result()


class Book:
    """A state that every member makes of the messages; `slowly` given in many pieces."""

    def __init__(self, *, slowly: bool = False) -> None:
        self.said: list[tuple[int, str]] = []
        self.given = 0  # pieces
        self.slowly = slowly

    def snapshot(self) -> bytes | AsyncIterator[bytes]:
        state = msgspec.json.encode(self.said) + b" " * 200_000
        return self.pieces(state) if self.slowly else state

    async def pieces(self, state: bytes) -> AsyncIterator[bytes]:
        for first in range(0, len(state), 20_000):
            self.given += 1
            yield state[first : first + 20_000]
            await asyncio.sleep(0.2)

    def restore(self, state: bytes) -> None:
        assert not self.said
        self.said = [(position, body) for position, body in msgspec.json.decode(state)]

    async def run(self, name: str, count: int) -> None:
        async with (
            rostra.connect(name=name) as me,
            me.join(
                *("book", "fr"),
                membership="agreed",
                delivery="atomic",
                give=self.snapshot,
                take=self.restore,
            ) as group,
        ):
            speaking = asyncio.create_task(self.speak(group, name, count))
            async for item in group:
                if isinstance(item, rostra.Message):
                    self.said.append((item.position, item.body.decode()))
            await speaking

    async def speak(self, group: rostra.Ordered, name: str, count: int) -> None:
        for n in range(count):
            await group.send(f"{name} {n}".encode())
            await asyncio.sleep(0.05)


@pytest.mark.spec("A-075")
def test_a_joiner_gets_the_state_while_others_go_on_speaking(wide: World) -> None:
    books = [Book() for _ in PLACES]
    for host, book, name in zip(PLACES, books, ("ann", "ben", "cem"), strict=True):
        wide.start(host, book.run(name, 60))
        wide.run(for_s=4 if name == "ann" else 1)
    assert books[0].said and len(books[0].said) < 180
    wide.run(for_s=25)
    first, *others = books
    assert len(first.said) == 180 and all(each.said == first.said for each in others)


def test_a_donor_that_dies_half_way_is_replaced(wide: World) -> None:
    ann, ben, cem = books = [Book(slowly=True), Book(), Book()]
    for host, book, name in zip(PLACES, books, ("ann", "ben", "cem"), strict=True):
        wide.start(host, book.run(name, 20))
        wide.run(for_s=2 if name == "cem" else 12)
    assert 11 < ann.given < 22  # all of it to one, and some of it to the other
    wide.crash("fr.paris.h1")
    wide.run(for_s=30)
    assert len(ben.said) == 60 and cem.said == ben.said


def test_a_donor_that_gives_by_hand_goes_on_when_the_joiner_dies_half_way(wide: World) -> None:
    """Its program is in the middle of giving the state: it is not stopped, and reads what comes next."""
    heard: list[bytes] = []
    given = 0

    async def donor() -> None:
        nonlocal given
        async with (
            rostra.connect(name="ann") as me,
            me.join("book", "fr", membership="agreed", delivery="atomic") as group,
        ):
            async for item in group:
                match item:
                    case rostra.StateAsked(give=give):
                        for _ in range(200):
                            await give(bytes(60_000))
                            given += 1
                    case rostra.Message(body=body):
                        heard.append(body)

    async def joiner() -> None:
        async with (
            rostra.connect(name="ben") as me,
            me.join("book", "fr", membership="agreed", delivery="atomic", take=lambda state: None) as group,
        ):
            async for _ in group:
                pass

    async def another() -> None:
        async with (
            rostra.connect(name="cem") as me,
            me.join("book", "fr", membership="agreed", delivery="atomic") as group,
        ):
            await group.send(b"on")
            await asyncio.sleep(1000)

    giving = wide.start("fr.paris.h1", donor())
    wide.run(for_s=4)
    wide.delay(0.1)
    wide.start("fr.lyon.h1", joiner())
    while given < 20:
        wide.run(for_s=0.1)
    wide.crash("fr.lyon.h1")
    wide.delay(0.0)
    wide.run(for_s=20)
    wide.start("fr.paris.h2", another())
    wide.run(for_s=10)

    assert given == 200 and heard == [b"on"]
    assert not giving.done()
