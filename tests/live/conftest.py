"""Live tests are coroutines over real processes. Each runs in a loop of its own, and not for ever."""

import asyncio
import warnings
from collections.abc import Iterator

import pytest
from support.coroutines import pytest_pyfunc_call as pytest_pyfunc_call
from support.lab import FORGIVING, Lab, why_no_namespaces


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "live" in item.path.parts:
            item.add_marker(pytest.mark.live)


@pytest.fixture(scope="session")
def namespaces() -> bool:
    """Can cables be cut here? If not, say so loudly; whatever needs them is skipped, the rest runs on
    loopback."""
    why = why_no_namespaces()
    if why is not None:
        warnings.warn(f"NO NETWORK NAMESPACES: {why}. Cuts and resets are NOT tested.", stacklevel=1)
    return why is None


@pytest.fixture
def cables(namespaces: bool) -> None:
    """Ask for this in tests that cut cables."""
    if not namespaces:
        pytest.skip(f"cables cannot be cut here: {why_no_namespaces()}")


@pytest.fixture(scope="session")
def two_clusters(tmp_path_factory: pytest.TempPathFactory, namespaces: bool) -> Iterator[Lab]:
    """Two clusters and three hosts, every node in a process and on a machine of its own. Shared: see
    `lab`."""
    with Lab(
        tmp_path_factory.mktemp("two_clusters"),
        servers=("eu", "us"),
        hosts=("eu.h1", "eu.h2", "us.h1"),
        namespaces=namespaces,
        more=FORGIVING,
    ) as lab:
        yield lab


@pytest.fixture(scope="session")
def patient(tmp_path_factory: pytest.TempPathFactory, namespaces: bool) -> Iterator[Lab]:
    """One cluster in the default profile, which sees stalls of two seconds, and here forgives longer ones
    than a busy machine has; its server shares a process with one of its two agents. Each process is started
    as a user would, and is no fork."""
    with Lab(
        tmp_path_factory.mktemp("patient"),
        servers=("lab",),
        hosts=("lab.h1", "lab.h2"),
        together=(("lab", "lab.h1"),),
        profile="wan",
        namespaces=namespaces,
        more="[detect]\ndown_after_s = 12.0\n",
        forked=False,
    ) as lab:
        yield lab


@pytest.fixture
def lab(two_clusters: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The shared lab, calm before and after every test that uses it. Tests use group names of their own."""
    asyncio.run(two_clusters.calm())
    yield two_clusters
    asyncio.run(two_clusters.calm())
