"""An ingest that dies: ``python -m history.dying JOURNAL TABLES POINT FILES [rebuild] [tasks]``.

It ends at that point as by kill -9. With `rebuild` it makes the stays anew when everything is read, with
`tasks` even the smallest batch is written by tasks of Spark. It says on stdout which point it reached, so
that whoever started it can also kill it from outside. What is left behind is what a real crash leaves: the
Java machine lives on for a moment, with a write half done.
"""

import os
import sys
import tempfile
from pathlib import Path

from support.spark import SMALL

from rostra.history import compact, ingest
from rostra.history.ingest import Ingest, locked
from rostra.history.rebuild import rebuild
from rostra.history.session import start
from rostra.history.tables import Tables


def main(journal: str, tables: str, point: str, files: int, *more: str) -> None:
    def reach(here: str) -> None:
        print(here, flush=True)
        if here == point:
            os._exit(137)

    spark = start("local[1]", settings=SMALL, log=Path(tempfile.gettempdir()) / f"dying-{os.getpid()}.log")
    print("ready", flush=True)
    if "tasks" in more:
        ingest.FEW = compact.FEW_ROWS = 0  # type: ignore[misc]
    Ingest(
        spark, journal, tables, files_per_batch=files, hole_after_s=10.0**9, compact_every=3, reach=reach
    ).once()
    if "rebuild" in more:
        made = Tables(tables)
        with locked(spark, made):
            rebuild(spark, made, ["stays"], reach=reach)
    spark.stop()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), *sys.argv[5:])
