"""Is there a Spark to test with?"""

from typing import Final

import pytest

from rostra.errors import NotInstalled
from rostra.history.session import check_java, check_spark

SMALL: Final = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    # A third of the time would go into making machine code that is run once.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # What Spark thinks about for longer than it takes to read ten rows.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.adaptive.enabled": "false",  # nothing to adapt to in ten rows, and it costs a job each
    "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than ten rows do
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Else every column that is written down takes four calls to Java, to say in which line that was.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Chosen for tiny data: one shuffle partition, and nothing that pays only for many rows."""


def require_spark() -> None:
    """Skip the test where Spark or Java are missing."""
    try:
        check_spark()
        check_java()
    except NotInstalled as missing:
        pytest.skip(str(missing))
