"""H6: a program joins a group whose name says that an authority decides who may."""

import pytest
from support.bystanders import unnoticed
from support.lab import Lab

from rostra.client import connect_admin
from rostra.errors import NotAvailable

RESTRICTED, TRANSIENT = "acme/hr!payroll", "eu.h2/web-1#7~7-1718-5"


@pytest.mark.parametrize("name", [RESTRICTED, TRANSIENT])
async def test_names_that_promise_an_authority_are_refused_by_name(world: Lab, name: str) -> None:
    async with unnoticed(world, "h6-talk"), world.program("eu.h1", "mallory") as mallory:
        for attempt in (
            mallory.join(name),
            mallory.join(name, permanent=True),
            mallory.join(name, delivery="fifo"),
            mallory.join(name, delivery="fifo", role="submit"),
            mallory.watch(name),
        ):
            with pytest.raises(NotAvailable, match="no authority can be asked"):
                async with attempt:
                    pass
        with pytest.raises(NotAvailable, match="public name"):
            await mallory.resolve(name)
        with pytest.raises(NotAvailable, match="public name"):
            await mallory.resolve(name, scope="eu")
    for scope in ("eu", "eu.h1"):
        async with connect_admin(world.socket(scope), domain=scope) as admin:
            with pytest.raises(NotAvailable):
                await admin.register(f"{name}@{scope}")
            await admin.unregister(f"{name}@{scope}")  # one of an earlier version can still be removed
