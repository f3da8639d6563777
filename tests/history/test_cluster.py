"""The same command on a cluster: a worker is killed in the middle of it, and the answer is the same."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from history.test_ingest import keys_of, random_journal
from support.segments import cut, send
from support.spark import require_spark
from support.spark_cluster import SparkCluster

from rostra.history.ingest import FEW
from rostra.history.tables import Tables

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    require_spark()
    place = tmp_path / "cluster"
    place.mkdir()
    made = SparkCluster(place)
    yield made
    made.close()


def test_an_ingest_on_two_workers_of_which_one_is_killed_has_each_row_once(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    dice = Random(13)
    rows = random_journal(dice, 200)
    for segment in cut(rows, dice, longest=2):
        send(tmp_path / "journal", segment)
    command = (
        *(sys.executable, "-m", "rostra", "history", "ingest", "--master", cluster.master),
        *("-j", str(tmp_path / "journal"), "-t", str(tmp_path / "tables")),
        *("--files", str(FEW + 2), "--compact-every", "0"),  # so many that tasks are worth it
    )
    env = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DRIVER_MEMORY": "1g",
        "ROSTRA_HISTORY_HOME": str(tmp_path / "home"),
    }
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ingest:
        assert ingest.stderr is not None
        assert any(line.startswith("batch 0: ") for line in ingest.stderr), "it ended before its first batch"
        executors = cluster.kill(0)
        assert executors, "nothing ran on the worker that was killed"
        said, told = ingest.communicate(timeout=400)
    assert ingest.returncode == 0, told
    tables = Tables(tmp_path / "tables")
    found: Counter[tuple[str, str, int, int]] = Counter()
    for directory in tables.directories("events"):
        table = pq.read_table(directory.removeprefix("file://"), columns=["world", "writer", "epoch", "seq"])
        found.update(tuple(row.values()) for row in table.to_pylist())
    assert found == keys_of(rows)
    assert re.search(rf"^events +{len(rows)}$", said, re.M), said
