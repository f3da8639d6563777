"""Commands against a real agent. Those tests are live; the others need no world."""

import asyncio
from collections.abc import Iterator

import pytest
from support.cluster import Cluster


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    asyncio.run(cluster.start())
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """The shared cluster, calm before every test. Tests use group names of their own."""
    yield shared_cluster.calmly()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "cli" in item.path.parts and "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.live)
