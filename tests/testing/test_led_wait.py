"""A join of a led group that waits for the leader's list (S-030)."""

from collections.abc import Iterator
from typing import Any

import pytest

import rostra
from rostra.errors import AlreadyMember, BadInput, DeadlineExceeded, TooLarge
from rostra.protocols.led import registrar
from rostra.testing import World

KINDS: list[dict[str, Any]] = [{}, {"online": False}, {"delivery": "fifo"}]
IDS = ["online", "offline", "fifo"]


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"eu.paris": 3, "eu.rome": 2}, seed=5)
    yield world
    world.close()


class Program:
    """Joins at the beginning and stays; `found` is what the leader answers as soon as the join is done."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.found: set[str] | None = None
        self.me: rostra.Me | None = None
        self.joined: Any = None
        self.error: rostra.RostraError | None = None

    async def run(self) -> None:
        self.me = await rostra.connect()
        await self.join()

    async def join(self) -> None:
        assert self.me is not None
        self.error = None
        try:
            self.joined = await self.me.join("chess", "eu", membership="led", **self.settings)
        except rostra.RostraError as error:
            self.error = error
        else:
            found = await self.me.resolve("chess", "eu", fresh=True)
            self.found = {str(member.endpoint) for member in found.members}

    @property
    def is_listed(self) -> bool:
        assert self.me is not None
        return self.found is not None and str(self.me.endpoint) in self.found


@pytest.mark.spec("S-030")
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_join_that_waits_returns_when_the_leader_has_listed_it(world: World, kind: dict[str, Any]) -> None:
    world.start("eu.paris.h1", Program(**kind).run())
    world.run(for_s=5)
    programs = [Program(wait=True, **kind) for _ in range(3)]
    for host, program in zip(("eu.paris.h1", "eu.paris.h2", "eu.rome.h1"), programs, strict=True):
        world.start(host, program.run())
    world.run(for_s=15)
    assert [program.is_listed for program in programs] == [True] * 3


@pytest.mark.spec("S-030")
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_after_the_deadline_the_join_goes_on_and_can_be_waited_for_again(
    world: World, kind: dict[str, Any]
) -> None:
    """The leader crashed a moment ago: the agent accepts the join, and nobody lists it for some seconds."""
    world.start("eu.rome.h1", Program(**kind).run())
    world.run(for_s=5)
    world.crash("eu.rome.h1")
    late = Program(wait=True, deadline_s=0.5, **kind)
    world.start("eu.paris.h2", late.run())
    world.run(for_s=1)
    assert isinstance(late.error, DeadlineExceeded)
    assert (
        "no leader listed it within 0.5 s" in str(late.error)
        and "join again with wait=True" in late.error.fix
    )

    late.settings["meta"] = b"another one"
    world.start("eu.paris.h2", late.join())
    world.run(for_s=0.2)
    assert isinstance(late.error, AlreadyMember)

    del late.settings["deadline_s"], late.settings["meta"]
    world.start("eu.paris.h2", late.join())
    world.run(for_s=60)
    assert late.error is None and late.is_listed
    world.start("eu.paris.h2", late.join())
    world.run(for_s=5)
    assert isinstance(late.error, AlreadyMember), "it was listed: this is a second join"


@pytest.mark.spec("S-030")
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_join_that_is_cancelled_while_it_waits_is_undone(world: World, kind: dict[str, Any]) -> None:
    world.start("eu.rome.h1", Program(**kind).run())
    world.run(for_s=5)
    world.crash("eu.rome.h1")
    late = Program(wait=True, **kind)
    task = world.start("eu.paris.h2", late.run())
    world.run(for_s=1)
    task.cancel()
    world.run(for_s=60)
    outsider = Program(wait=True)
    world.start("eu.paris.h3", outsider.run())
    world.run(for_s=10)
    assert outsider.is_listed and outsider.found is not None and len(outsider.found) == 1


@pytest.mark.spec("S-030")
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_member_that_is_refused_while_it_waits_is_told_why(
    world: World, kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrar, "NAMES_OF_AGENT_MAX", 0)
    program = Program(wait=True, **kind)
    world.start("eu.paris.h2", program.run())
    world.run(for_s=30)
    assert isinstance(program.error, TooLarge | rostra.errors.Refused), program.error


@pytest.mark.spec("S-030")
@pytest.mark.parametrize(
    "settings",
    [
        {"membership": "relaxed"},
        {"membership": "agreed"},
        {"membership": "led", "delivery": "atomic"},
        {"membership": "led", "delivery": "fifo", "role": "submit"},
        {"membership": "led", "wait": "yes"},
        {"membership": "led", "deadline_s": -1},
    ],
)
def test_who_is_on_no_leaders_list_cannot_wait_for_it(world: World, settings: dict[str, Any]) -> None:
    refused: list[BadInput] = []

    async def run() -> None:
        async with rostra.connect() as me:
            with pytest.raises(BadInput) as error:
                await me.join("chess", "eu", **{"wait": True, **settings})
            refused.append(error.value)

    world.start("eu.paris.h1", run())
    world.run(for_s=2)
    assert len(refused) == 1 and refused[0].fix
