"""Scenarios of AMp (`docs/spec`, XA) with real processes, in both orders at once: by multicast, from host to
host, and by the server. What `test_data_modes.py` shows of them is not repeated."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import zip_longest

import pytest
from support.lab import Lab, until
from support.lans import HURRY_S, heal, lan, spoken_to_by
from support.speakers import Speaker

from rostra.client import Me, ordered
from rostra.client.group import Entering
from rostra.client.ordered import Ordered, OrderName
from rostra.errors import Excluded, RostraError
from rostra.names import Domain, Endpoint, host_of

HOSTS = ("eu.h1", "eu.h2", "eu.h3", "eu.h4", "eu.h5")
ORDERS: tuple[OrderName, ...] = ("hub", "negotiated")
ON_THEIR_WAY, PAUSE_S = 5, 0.02
"""Messages that a member has on their way at once, and its pause after each: two groups of five share this
machine."""

STALLED_S = 1.0
"""Who waits makes no progress for so long. On a machine that stands still others do not either: then nothing
is shown."""


@pytest.fixture(scope="module")
def auto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lan(tmp_path_factory.mktemp("auto"), "auto", HOSTS)


@pytest.fixture(scope="module")
def fanout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lan(tmp_path_factory.mktemp("fanout"), "fanout", HOSTS)


@pytest.fixture(params=["multicast", "fanout", "reflect"])
def way(request: pytest.FixtureRequest) -> tuple[Lab, str]:
    lab = request.getfixturevalue("fanout" if request.param == "fanout" else "auto")
    return lab, request.param


class Party:
    """The members of a group in one order, on hosts of a lab: they speak all the time."""

    def __init__(self, lab: Lab, stack: AsyncExitStack, name: str, order: OrderName) -> None:
        self.lab, self.stack, self.order = lab, stack, order
        self.name = f"{name}-{order}"
        self.all: list[Speaker] = []

    def joins(self, me: Me) -> Entering[Ordered]:
        return me.join(
            *(self.name, "eu"),
            membership="agreed",
            delivery="atomic",
            survive="majority",
            order=self.order,
        )

    async def enter(self, host: str) -> Speaker:
        me = await self.stack.enter_async_context(self.lab.program(host, f"{self.order}-{len(self.all)}"))
        group = await (await self.joins(me)).ready(deadline_s=HURRY_S)
        speaker = Speaker(me, group, on_their_way=ON_THEIR_WAY, pause_s=PAUSE_S)
        self.all.append(speaker)
        self.stack.callback(speaker.reading.cancel)
        self.stack.callback(speaker.speaking.cancel)
        return speaker

    async def goes_on(self, *speakers: Speaker, count: int = 30) -> None:
        """Until each of these was given so many messages more of each of them."""
        before = [len(each.log) for each in speakers]
        said = {each.endpoint for each in speakers}

        def more() -> bool:
            return all(
                said <= {sender for _, sender, _ in each.log[was:]} and len(each.log) >= was + count
                for was, each in zip(before, speakers, strict=True)
            )

        await until(more, f"{self.name} goes on", HURRY_S)

    async def is_one(self, *lost: Speaker) -> None:
        """All end. Those that were not lost have one log and one row of views, each from where it came in;
        what a lost one was given is a part of it. Receipts are true, and what was rejected is nowhere."""
        went_on = [each for each in self.all if each not in lost]
        for each in self.all:
            async with asyncio.timeout(HURRY_S):
                await each.end()
        last = max(receipt.position for each in went_on for receipt in each.receipts.values())
        await until(lambda: min(each.log[-1][0] for each in went_on) >= last, f"all {self.name}", HURRY_S)
        whole = max((each.log for each in went_on), key=len)
        views = max(([view.id for view in each.views] for each in went_on), key=len)
        places = {position: place for place, (position, *_) in enumerate(whole)}
        assert [*places] == sorted(places) and len(places) == len(whole)
        given = {body: position for position, _, body in whole}
        assert len(given) == len(whole), "nothing twice"
        for each in self.all:
            where = places.get(each.log[0][0], 0) if each.log else 0
            mine = [entry for entry in each.log if entry[0] >= whole[0][0]]
            if each in lost:
                theirs = whole[where : where + len(mine)]
                if self.order == "negotiated" and len(lost) > 1:  # TA10: who is lost with it decides
                    mine = mine[: first_that_differs(mine, theirs, [other.endpoint for other in lost])]
                assert mine == theirs[: len(mine)], f"{each.endpoint} of {self.name}"
            else:
                assert mine == whole[where:], f"{each.endpoint} of {self.name}"
                assert [view.id for view in each.views] == views[-len(each.views) :]
                assert not (each.error or each.rejected or each.in_doubt)
            numbers = [int(body.split()[1]) for _, sender, body in whole if sender == each.endpoint]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
            for body, receipt in each.receipts.items():
                assert given.get(body, receipt.position) == receipt.position
                assert body in given or receipt.position < whole[0][0], f"{body!r} was acknowledged"
            assert not given.keys() & {*each.rejected}


Log = list[tuple[int, str, bytes]]


def first_that_differs(mine: Log, theirs: Log, lost: Sequence[str]) -> int:
    """Where a log goes on alone, with a message of somebody who was lost; else its end."""
    pairs = enumerate(zip_longest(mine, theirs))
    at = next((at for at, (one, other) in pairs if one != other), len(mine))
    return at if at < len(mine) and mine[at][1] in lost else len(mine)


@asynccontextmanager
async def parties(
    way: tuple[Lab, str], name: str, hosts: Sequence[str] = HOSTS
) -> AsyncIterator[tuple[Lab, list[Party]]]:
    """A group in each order, with members on these hosts, the first of which orders in `hub`."""
    lab, mode = way
    async with spoken_to_by(lab, mode), AsyncExitStack() as stack:
        both = [Party(lab, stack, f"{name}-{mode}", order) for order in ORDERS]
        for host in hosts:
            await asyncio.gather(*[party.enter(host) for party in both])
        await every(party.goes_on(*party.all) for party in both)
        yield lab, both


async def every(tasks: "Iterator[Awaitable[None]]") -> None:
    await asyncio.gather(*tasks)


# What is in the suite


@pytest.mark.parametrize(
    "way", ["multicast", "fanout", pytest.param("reflect", marks=pytest.mark.long)], indirect=True
)
@pytest.mark.spec("A-039", "A-102", "A-104")
async def test_members_that_come_at_once_have_one_order_though_every_fifth_datagram_is_lost(
    way: tuple[Lab, str],
) -> None:
    """XA-01, 03 to 05 and 16: data, acknowledgements and accepts, and after the last of them silence."""
    (lab, mode), hosts = way, HOSTS[:3]
    async with spoken_to_by(lab, mode), AsyncExitStack() as stack:
        for node in ("eu", *hosts):
            lab.deafen(node, "-p udp -m statistic --mode random --probability 0.2")
        both = [Party(lab, stack, f"lossy-{mode}", order) for order in ORDERS]
        await asyncio.gather(*[party.enter(host) for party in both for host in hosts])
        for party in both:
            await party.goes_on(*party.all, count=10)
            assert len({each.views[-1].id for each in party.all}) == 1
        for host in hosts:
            assert lab.lost(host, "statistic") > 0
        for party in both:
            await party.is_one()
            receipts = await asyncio.gather(*[each.group.send(bytes(50_000)) for each in party.all])
            assert len({receipt.position for receipt in receipts}) == len(hosts)


# What is long: each waits until a host that is lost is given up


async def lives_on(both: Sequence[Party], *lost: str) -> None:
    """The members elsewhere go on, and show that those on these hosts have failed."""
    for party in both:
        rest = [each for each in party.all if host_of(Endpoint(each.endpoint)) not in lost]
        await until(
            lambda rest=rest: min(each.since_loss for each in rest) >= 0, f"{party.name} knows", HURRY_S
        )
        await party.goes_on(*rest)


async def kill(lab: Lab, *hosts: str) -> None:
    """At once, and the others never hear that these went on to acknowledge what they have."""
    for host in hosts:
        await asyncio.to_thread(lab.silence, host, "-p udp")  # while all speak
    await asyncio.sleep(0.1)
    for host in hosts:
        lab[host].signal(signal.SIGKILL)
    for host in hosts:
        await lab[host].ended()


def on(party: Party, *hosts: str) -> list[Speaker]:
    return [each for each in party.all if host_of(Endpoint(each.endpoint)) in hosts]


@pytest.mark.long
@pytest.mark.spec("A-036", "A-054")
async def test_a_member_that_does_not_read_holds_up_the_others_until_it_does(
    way: tuple[Lab, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """XA-06: senders wait, and lose nothing."""
    monkeypatch.setattr(ordered, "UNREAD_BYTES_MAX", 100_000)
    async with parties(way, "slow", HOSTS[:3]) as (_, both):
        for party in both:
            await reads_late(party)


async def reads_late(party: Party) -> None:
    ann, _, cem = party.all
    for each in party.all:
        await each.end()
    cem.reads.clear()
    said = [b"%s %d" % (b"x" * 100_000, n) for n in range(100)]
    saying = asyncio.create_task(ann.group.send_many(said))
    before = -1
    while before < len(ann.log) and not saying.done():  # still moving
        before = len(ann.log)
        await asyncio.sleep(STALLED_S)
    assert not saying.done(), f"{party.name} did not wait"
    cem.reads.set()
    async with asyncio.timeout(HURRY_S):
        receipts = await saying
    await until(lambda: min(each.log[-1][0] for each in party.all) >= receipts[-1].position, "all", HURRY_S)
    for each in party.all:
        assert [body for *_, body in each.log[-len(said) :]] == said
        assert not each.error


@pytest.mark.long
@pytest.mark.spec("A-016", "A-048", "A-074")
async def test_a_host_that_comes_back_at_once_is_another_station(way: tuple[Lab, str]) -> None:
    """XA-09: it dies with messages on their way; nothing of its earlier life is taken for its new
    one."""
    async with parties(way, "back", HOSTS[:3]) as (lab, both):
        for host in (HOSTS[0], HOSTS[2]):
            before = [on(party, host) for party in both]
            await kill(lab, host)
            heal(lab, way[1])
            lab[host].start()
            await until(lambda host=host: lab._is_linked(host), f"{host} is back")
            again = await asyncio.gather(*[party.enter(host) for party in both])
            for party, old, new in zip(both, before, again, strict=True):
                rest = [each for each in party.all if each.error is None and each not in old]
                await party.goes_on(*rest)
                (one,) = [each for each in rest if each is new]
                assert next(int(b.split()[1]) for _, who, b in one.log if who == new.endpoint) == 1
                dead = {each.endpoint for each in old}
                assert not [entry for entry in new.log if entry[1] in dead]
        for party in both:
            await party.is_one(*[each for each in party.all if each.error is not None])


@pytest.mark.long
@pytest.mark.spec("A-052", "A-089", "A-101")
async def test_two_hosts_are_killed_at_once(way: tuple[Lab, str]) -> None:
    """XA-12: the one that orders, or would decide first who is left, and the one that would be next."""
    async with parties(way, "two") as (lab, both):
        await kill(lab, *HOSTS[:2])
        await lives_on(both, *HOSTS[:2])
        for party in both:
            await party.is_one(*on(party, *HOSTS[:2]))


@pytest.mark.long
@pytest.mark.spec("A-042", "A-075")
async def test_a_host_dies_while_its_members_join(way: tuple[Lab, str]) -> None:
    """XA-17: at once, and a little later; the groups go on, in which it is or was not."""
    async with parties(way, "joins", HOSTS[:3]) as (lab, both):
        for nth in range(3):
            async with AsyncExitStack() as stack:
                mes = [await stack.enter_async_context(lab.program(HOSTS[3], party.order)) for party in both]
                joins = [
                    asyncio.create_task(enter_and_die(party, me)) for party, me in zip(both, mes, strict=True)
                ]
                await asyncio.sleep(nth * 0.02)
                await asyncio.to_thread(lab[HOSTS[3]].kill)
                await asyncio.gather(*joins)
            await every(party.goes_on(*party.all, count=20) for party in both)
            lab[HOSTS[3]].start()
            await until(lambda: lab._is_linked(Domain(HOSTS[3])), "it is back")
        await asyncio.gather(*[party.enter(HOSTS[3]) for party in both])
        for party in both:
            await party.goes_on(*party.all)
            await party.is_one()
            assert len(party.all[0].views[-1].members) == 4


async def enter_and_die(party: Party, me: Me) -> None:
    with contextlib.suppress(RostraError):
        await (await party.joins(me)).ready(deadline_s=HURRY_S)


@pytest.mark.long
@pytest.mark.spec("A-041", "A-056")
async def test_the_smaller_side_of_a_cut_delivers_nothing_more(way: tuple[Lab, str]) -> None:
    """XA-19: those that order are in it. After it they hear that they are out, and come back."""
    async with parties(way, "cut") as (lab, both):
        small, large = HOSTS[:2], ("eu", *HOSTS[2:])
        lab.cut(small, large)
        await lives_on(both, *small)
        heal(lab, way[1])
        await are_excluded(both, *small)
        await asyncio.gather(*[party.enter(host) for party in both for host in small])
        for party in both:
            lost = [each for each in party.all if each.error is not None]
            await party.goes_on(*[each for each in party.all if each not in lost])
            await party.is_one(*lost)


async def are_excluded(both: Sequence[Party], *hosts: str) -> None:
    for party in both:
        lost = on(party, *hosts)
        await until(lambda lost=lost: all(each.error for each in lost), f"{party.name} says so", HURRY_S)
        assert {type(each.error) for each in lost} == {Excluded}


@pytest.mark.long
@pytest.mark.spec("A-056", "A-100")
async def test_a_host_that_hears_nothing_is_removed_and_stops(way: tuple[Lab, str]) -> None:
    """XA-20: what it says still arrives. It is the one that orders."""
    async with parties(way, "deaf", HOSTS[:3]) as (lab, both):
        lab.cut_one_way(["eu", *HOSTS[1:]], HOSTS[:1])
        await lives_on(both, HOSTS[0])
        heal(lab, way[1])
        await are_excluded(both, HOSTS[0])
        for party in both:
            await party.is_one(*on(party, HOSTS[0]))


@pytest.mark.long
@pytest.mark.spec("A-008", "A-057")
async def test_groups_that_wait_for_a_lost_host_hold_up_no_other(way: tuple[Lab, str]) -> None:
    """XA-22: two stand, as most of their members cannot be reached; two others go on meanwhile. After the cut
    the two go on with the member that the server had, and the others hear that they are out."""
    async with parties(way, "waits", HOSTS[:3]) as (lab, waiting), AsyncExitStack() as stack:
        others = [Party(lab, stack, f"others-{way[1]}", order) for order in ORDERS]
        for host in HOSTS[2:]:
            await asyncio.gather(*[party.enter(host) for party in others])
        lab.cut(HOSTS[:2], ("eu", *HOSTS[2:]))
        third = [on(party, HOSTS[2])[0].group for party in waiting]
        await until(lambda: all(each.blocked for each in third), "they stand", HURRY_S)
        await every(party.goes_on(*party.all) for party in others)
        assert all(each.blocked for each in third)
        heal(lab, way[1])
        await are_excluded(waiting, *HOSTS[:2])
        for party in waiting:
            await party.goes_on(*on(party, HOSTS[2]))
            await party.is_one(*on(party, *HOSTS[:2]))
        for party in others:
            await party.is_one()
