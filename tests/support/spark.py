"""Is there a Spark to test with?"""

import os
from pathlib import Path
from typing import Final

import pytest

from rostra.errors import NotInstalled
from rostra.history.session import check_java, check_spark

SMALL: Final = {
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    # A third of the time would go into making machine code that is run once. Of what is made there is more
    # than the 48 MB that Java has room for then: it would be thrown away and made again. Classes are Spark's
    # own: to verify each takes a fifth of its start. Of little memory all is collected
    # again and again: a tenth of what the audits take.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xms2500m -Xmn1g "
        "-XX:MetaspaceSize=320m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    ),
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


def java_of(process: int) -> int:
    """The one that this process started."""
    children = (
        int(child)
        for task in Path(f"/proc/{process}/task").iterdir()
        for child in (task / "children").read_text().split()
    )
    [java] = [child for child in children if os.readlink(f"/proc/{child}/exe").endswith("/java")]
    return java
