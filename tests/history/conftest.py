"""A small Spark for tests of the history, one in each process, started when the first test asks for it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support.spark import SMALL, require_spark

from rostra.cli.history import common
from rostra.history.session import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from support.court import Court


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """One core."""
    require_spark()
    place = tmp_path_factory.mktemp("spark")
    session = start(
        "local[1]",
        app="tests",
        log=place / "spark.log",
        settings={
            **SMALL,
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.local.dir": str(place / "local"),
            # The same Java serves clients, too.
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
        },
    )
    yield session
    session.stop()


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor would it be possible: there is no Java."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")

    def start(where: common.Where) -> None:
        raise AssertionError("Spark must not start for this")

    monkeypatch.setattr(common, "spark_at", start)


@pytest.fixture
def in_tokyo(spark: "SparkSession") -> Iterator[None]:
    """The session is of somebody whose zone is not UTC."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.fixture(scope="session")
def court(
    spark: "SparkSession", request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["Court"]:
    """All worlds whose promises are judged by tests that were chosen."""
    from support.court import Court, brought_by

    chosen = (item for item in request.session.items if isinstance(item, pytest.Function))
    modules = (item.module for item in chosen if "court" in item.fixturenames)
    held = Court(
        spark, brought_by(modules, tmp_path_factory.mktemp("brought")), tmp_path_factory.mktemp("court")
    )
    yield held
    held.close()
