"""Kill an ingest again and again, at random moments and at chosen points, and count: ``make storm-history``.

    python -m tests.history.storm --kills 20 --seed 1

A journal arrives bit by bit, out of order, some of it twice. Each round sends a little more of it and starts
a real ingest, which also compacts, and rebuilds the stays when it is done. It is killed: from outside after
a random time (with -9, the Python process alone or the Java machine too), or by itself at a point of its own.
In the end everything is sent and one ingest is left alone. Then every row must be in the tables once, and the
stays must be those of the whole journal. With ``ARGS=--s3`` both are in an object
store, a server on loopback.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from history.test_dying import POINTS
from history.test_ingest import keys, keys_of, random_journal, same, truth
from support.segments import Row, cut, send
from support.spark import SMALL
from support.store import s3_store, up

from rostra.history.questions.stays import stays
from rostra.history.session import start
from rostra.history.tables import Tables

LATEST_KILL_S = 12.0
ALL_POINTS = (*POINTS, "rebuilt stays", "stays committed")


def one_ingest(place: str, point: str, dice: Random, *, kill: bool, tasks: bool) -> str:
    """What it reached last, and how it ended."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "history.dying"),
            *(f"{place}/journal", f"{place}/tables", point, "3", "rebuild"),
            *(("tasks",) if tasks else ()),
        ],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    reached = process.stdout.readline().strip()
    timer = None
    if kill:
        timer = threading.Timer(dice.uniform(0, LATEST_KILL_S), _kill, (process, dice.random() < 0.5))
        timer.start()
    for line in process.stdout:
        reached = line.strip()
    code = process.wait()
    if timer is not None:
        timer.cancel()
    return f"{reached!r}, exit {code}"


def _kill(process: subprocess.Popen[str], all_of_it: bool) -> None:
    if process.poll() is None:
        if all_of_it:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def storm(kills: int, seed: int, rows_wanted: int, tasks: bool, store: str | None) -> None:
    dice = Random(seed)
    local = Path(tempfile.mkdtemp(prefix="rostra-storm-history-"))
    place = store or str(local)

    def deliver(segment: list[Row]) -> None:
        name = f"{next(names)}.parquet"
        send(local / "journal", segment, name=name)
        if store is not None:
            up(local / "journal", f"{store}/journal")

    rows = random_journal(dice, rows_wanted)
    waiting = cut(rows, dice)
    waiting += [segment for segment in cut(rows, dice) if dice.random() < 0.3]
    dice.shuffle(waiting)
    names = iter(range(10**9))
    for nth in range(kills):
        for _ in range(-(-len(waiting) // (kills - nth + 1))):
            if waiting:
                deliver(waiting.pop())
        chosen = nth % 2 == 0
        point = ALL_POINTS[nth // 2 % len(ALL_POINTS)] if chosen else "nowhere"
        began = time.monotonic()
        ended = one_ingest(place, point, dice, kill=not chosen, tasks=tasks)
        print(f"{nth + 1:3} of {kills}: died after {ended}, {time.monotonic() - began:.0f} s", flush=True)
    while waiting:
        deliver(waiting.pop())
    print("left alone:", one_ingest(place, "nowhere", dice, kill=False, tasks=tasks), flush=True)

    spark = start("local[1]", settings=SMALL)
    tables = Tables(f"{place}/tables")
    found, expected = keys(tables.read(spark, "events")), keys_of(rows)
    lost, doubled = expected - found, Counter({key: n for key, n in found.items() if n > 1})
    assert not lost, f"lost: {lost} in {place}"
    assert not doubled, f"doubled: {doubled} in {place}"
    assert found == expected
    same(tables.read(spark, "stays"), stays(truth(spark, rows, local / "whole")))
    spark.stop()
    print(f"{len(rows)} rows, {kills} kills: none lost, none doubled, stays as in the whole journal")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--tasks", action="store_true", help="even the smallest batch by tasks of Spark")
    parser.add_argument("--s3", action="store_true", help="journal and tables in an object store")
    asked = parser.parse_args()
    with s3_store() if asked.s3 else nullcontext() as store:
        storm(asked.kills, asked.seed, asked.rows, asked.tasks, store)


if __name__ == "__main__":
    main()
