"""K3: a stranger takes the name of a live neighbour, or claims numbers that make the true one look old."""

import time

import pytest
from support.bystanders import unnoticed
from support.lab import Lab, until
from support.strangers import stranger

from rostra.protocols.links.core import SESSIONS_PER_LIFE
from rostra.protocols.links.packets import Beat, Data, Hello
from rostra.wire import Refusal

VICTIM = "eu.h2"
HIGHEST = 2**63 - 1


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def refusal_of(world: Lab, incarnation: int, mine: int, yours: int = 0) -> Refusal:
    async with stranger(world, "eu") as caller:
        caller.hello(VICTIM, "eu", incarnation, mine, yours)
        while not isinstance(heard := await caller.hears(), Refusal):
            assert isinstance(heard, Hello | Data | Beat), f"not even refused: {heard}"
        return heard


async def test_a_live_neighbour_is_not_replaced_by_one_who_knows_its_name_and_number(world: Lab) -> None:
    """Incarnations are no secret. Sessions are: also who knows all incarnations cannot tell them."""
    theirs = (await world.inspect(VICTIM))["incarnation"]
    ours = (await world.inspect("eu"))["incarnation"]
    async with unnoticed(world, "k3-live"):
        for mine in (theirs * SESSIONS_PER_LIFE + 1, (theirs + 1) * SESSIONS_PER_LIFE):
            for yours in (0, *(ours * SESSIONS_PER_LIFE + number for number in range(1, 20))):
                told = await refusal_of(world, theirs, mine, yours)
                assert told.code == "NAME_IN_USE", told
        told = await refusal_of(world, theirs + 1, (theirs + 1) * SESSIONS_PER_LIFE + 1)
        assert told.code == "NAME_IN_USE", told


@pytest.mark.parametrize("field", ["incarnation", "mine", "yours"])
async def test_numbers_from_the_future_are_refused_with_a_word_about_clocks(world: Lab, field: str) -> None:
    theirs = (await world.inspect(VICTIM))["incarnation"]
    numbers = {"incarnation": theirs, "mine": theirs * SESSIONS_PER_LIFE + 1, "yours": 0}
    two_days = now_ms() + 2 * 86_400_000
    async with unnoticed(world, f"k3-{field}"):
        for number in (HIGHEST, two_days * (1 if field == "incarnation" else SESSIONS_PER_LIFE)):
            told = await refusal_of(world, **{**numbers, field: number})
            assert told.code == "NOT_ALLOWED" and "clock" in told.what, told
    assert [line for line in world["eu"].log.splitlines() if " refused " in line and "clock of eu" in line]


async def test_what_was_claimed_while_the_neighbour_was_away_does_not_keep_it_out(world: Lab) -> None:
    """The numbers are of tomorrow, and so are believed; when the liar is gone they are forgotten."""
    world[VICTIM].kill()
    await until(lambda: is_down(world), "its server has given it up")
    claimed = now_ms() + 23 * 3_600_000
    async with stranger(world, "eu") as liar:
        await liar.link(VICTIM, "eu", claimed, claimed * SESSIONS_PER_LIFE + 7)
        await until(lambda: is_up(world), "the liar is taken for it")
    before = world["eu"].pid
    world[VICTIM].start()
    await world.calm()
    assert world["eu"].pid == before


async def test_nor_does_it_if_the_stranger_never_was_let_in(world: Lab) -> None:
    world[VICTIM].kill()
    await until(lambda: is_down(world), "its server has given it up")
    for claimed in (now_ms() + 23 * 3_600_000, HIGHEST):
        async with stranger(world, "eu") as liar:
            liar.hello(VICTIM, "eu", claimed, min(HIGHEST, claimed * SESSIONS_PER_LIFE + 7))
            await liar.hears()
    world[VICTIM].start()
    await world.calm()


async def is_up(world: Lab) -> bool:
    return bool((await world.inspect("eu"))["links"][VICTIM]["up"])


async def is_down(world: Lab) -> bool:
    return not await is_up(world)
