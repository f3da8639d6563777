"""Led groups for which there is no room: nobody is in one and on no list, unless it is told so."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import rostra
from rostra.errors import Refused, RostraError, TooLarge
from rostra.names import host_of
from rostra.protocols.led import agent, messages, registrar
from rostra.testing import World


class Member:
    def __init__(self, name: str, **how: Any) -> None:
        self.name, self.how = name, how
        self.leave = asyncio.Event()
        self.membership: rostra.Membership | None = None
        self.refusal: RostraError | None = None

    async def run(self) -> None:
        async with rostra.connect() as me:
            try:
                async with me.join(self.name, "eu", membership="led", **self.how) as self.membership:
                    reading = asyncio.ensure_future(self._read())
                    leaving = asyncio.ensure_future(self.leave.wait())
                    await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
                    if reading.done():
                        reading.result()
                    reading.cancel()
            except (TooLarge, Refused) as refusal:
                self.refusal = refusal
            await asyncio.Event().wait()

    async def _read(self) -> None:
        assert self.membership is not None
        async for _ in self.membership:
            pass

    @property
    def hosts(self) -> list[str]:
        assert self.membership is not None
        return sorted({str(host_of(member.endpoint)) for member in self.membership.members})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Registrars have room for three names: for two of one cluster."""
    monkeypatch.setattr(registrar, "NAMES_MAX", 3)
    world = World({"eu.paris": 3, "eu.rome": 2}, seed=5)
    yield world
    world.close()


def joined(world: World, host: str, name: str, **how: Any) -> Member:
    member = Member(name, **how)
    world.start(host, member.run())
    world.run(for_s=5)
    return member


def listed(world: World, host: str, name: str) -> list[str]:
    found: list[str] = []

    async def resolve() -> None:
        async with rostra.connect() as me:
            found.extend([str(host_of(each.endpoint)) for each in (await me.resolve(name, "eu")).members])

    world.start(host, resolve())
    world.run(for_s=10)
    return found


@pytest.mark.spec("S-019", "S-034")
@pytest.mark.parametrize("how", [{}, {"delivery": "fifo"}], ids=["none", "fifo"])
def test_who_cannot_be_on_a_list_is_told_so_and_others_are_unharmed(
    world: World, how: dict[str, str]
) -> None:
    first, second = (joined(world, "eu.paris.h1", name, **how) for name in ("chess", "go"))
    third = joined(world, "eu.paris.h2", "bridge", **how)
    assert third.refusal is not None, "in no list, and not told so"
    assert "bridge@eu has no leader: the agents of eu.paris lead 2 sets" in third.refusal.what
    assert "another cluster" in str(third.refusal)
    assert (first.refusal, second.refusal) == (None, None)
    late = joined(world, "eu.paris.h3", "chess", **how)
    assert first.hosts == late.hosts == ["eu.paris.h1", "eu.paris.h3"]
    assert listed(world, "eu.rome.h2", "chess") == first.hosts

    other = joined(world, "eu.rome.h1", "bridge", **how)
    assert other.refusal is None and listed(world, "eu.paris.h3", "bridge") == ["eu.rome.h1"]
    again = joined(world, "eu.paris.h2", "bridge", **how)
    assert again.refusal is None and again.hosts == ["eu.paris.h2", "eu.rome.h1"]


@pytest.mark.spec("S-019", "S-046")
@pytest.mark.parametrize("how", [{}, {"delivery": "fifo"}], ids=["none", "fifo"])
def test_a_list_that_is_as_large_as_it_can_be_takes_no_more_and_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, how: dict[str, str]
) -> None:
    """It could not be sent: its agent would repeat it for ever, and later joins would be on no list."""
    monkeypatch.setattr(messages, "LIST_BYTES_MAX", 2_000)
    monkeypatch.setattr(agent, "LETTER_BYTES_MAX", 2_200)

    def join(host: str) -> Member:
        return joined(world, host, "chess", meta=bytes(200), **how)

    first = [join(host) for host in ("eu.paris.h1", "eu.paris.h1", "eu.paris.h2", "eu.rome.h1", "eu.rome.h1")]
    assert all(each.refusal is None for each in first)
    for host in ("eu.rome.h1", "eu.paris.h1", "eu.rome.h2"):  # a child, the leader, and one that attaches
        late = join(host)
        assert late.refusal is not None, f"of {host}: on no list, and not told so"
        assert "the list of chess@eu is as large as it can be" in str(late.refusal)
        assert all(each.refusal is None for each in first), host
        assert listed(world, "eu.paris.h3", "chess") == [
            *["eu.paris.h1"] * 2,
            "eu.paris.h2",
            *["eu.rome.h1"] * 2,
        ]
    first[0].leave.set()
    world.run(for_s=5)
    assert join("eu.rome.h1").refusal is None
    assert listed(world, "eu.paris.h3", "chess") == ["eu.paris.h1", "eu.paris.h2", *["eu.rome.h1"] * 3]
