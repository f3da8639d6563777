"""A small Spark for tests of the history, one in each process, started when the first test asks for it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support.spark import require_spark

from rostra.history.session import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Chosen for tiny data: one core, one shuffle partition, no interface."""
    require_spark()
    place = tmp_path_factory.mktemp("spark")
    session = start(
        "local[1]",
        app="tests",
        log=place / "spark.log",
        settings={
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "1",
            "spark.default.parallelism": "1",
            # A third of the time would go into making machine code that is run once.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.adaptive.enabled": "false",  # nothing to adapt to in ten rows, and it costs a job each
            "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than ten rows do
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            # Else every column that is written down takes four calls to Java, to say in which line that was.
            "spark.python.sql.dataFrameDebugging.enabled": "false",
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.local.dir": str(place / "local"),
        },
    )
    yield session
    session.stop()
