"""Attacks, one file per finding: what a hostile program, stranger or peer may try, and the world does not
notice (`support.bystanders.unnoticed`).

An attack by a program or a stranger meets real processes: such a test asks for `world`, or makes a lab of its
own and is marked `live`; `make live` runs it. What only a peer's core could send is tried on real cores in
memory, and belongs to `make unit`.
"""

import asyncio
from collections.abc import Iterator

import pytest
from support.coroutines import pytest_pyfunc_call as pytest_pyfunc_call
from support.lab import FORGIVING, Lab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "attacks" in item.path.parts and "world" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.live)


@pytest.fixture(scope="session")
def attacked_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two clusters on loopback, where a stranger can reach the servers' ports: see `world`."""
    with Lab(
        tmp_path_factory.mktemp("attacked"),
        servers=("eu", "us"),
        hosts=("eu.h1", "eu.h2", "us.h1"),
        namespaces=False,
        more=FORGIVING,
    ) as lab:
        yield lab


@pytest.fixture
def world(attacked_world: Lab) -> Lab:
    """A shared small world, calm before every attack. Tests use group names of their own."""
    asyncio.run(attacked_world.calm())
    return attacked_world
