"""Real processes that stand still, and cables that fail one way: never two living sides (`make live-views`).

    rounds: SIGSTOP of an agent or a server, for about as long as a bound; a cut one way, or of one site
            from one other ──▶ SIGCONT, heal ──▶ until all three live in one view again, or not
    then:   all servers end and start again, one after the other
    judged: from the agents' journals alone, whatever the timing was; and by the audits of the history (Spark)

Three sites, one member each of a group with ``survive="majority"``. Asserted is only what must hold however
slow this machine is:

    a fence stands for one view, and those that a member is given do not fall
    of two members that live at one instant, neither is outside of the other's later view

An agent that stands still does nothing, so it does not live meanwhile; its programs may (docs/protocols).
"""

import argparse
import asyncio
import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.lab import Lab, until, why_no_namespaces

import rostra
from rostra.errors import RostraError
from rostra.journal.segments import read

SITES: Final = ("eu.fr", "eu.de", "eu.it")
SERVERS: Final = ("eu", *SITES)
HOSTS: Final = tuple(f"{site}.h1" for site in SITES)
BOUNDS_S: Final = (0.25, 0.75, 0.8, 1.0, 1.75, 3.0)
"""Of the profile lan: a lease is renewed, runs out, a link is in doubt, is down, both, a host is given up."""


class Watched(Lab):
    """A lab with journals."""

    @property
    def journal(self) -> Path:
        return self.directory / "journal"

    def _write_world(self) -> None:
        super()._write_world()
        with self.world_file.open("a") as file:
            file.write(f'\n[journal]\nat = "{self.journal}"\nsegment_s = 0.5\n')


class Stood(NamedTuple):
    """A process stood still; in seconds since 1970."""

    node: str
    since: float
    until: float


class Life(NamedTuple):
    """A host's members lived in this view."""

    host: str
    view: str
    fence: int
    members: frozenset[str]
    since: float
    until: float


# What is done


async def stay(lab: Lab, host: str, views: dict[str, rostra.View | None]) -> None:
    """In the group, and in it again whenever that ends."""
    while True:
        with contextlib.suppress(RostraError):
            async with (
                rostra.connect(lab.socket(host)) as me,
                me.join("ledger", "eu", membership="agreed", survive="majority") as ledger,
            ):
                async for item in ledger:
                    views[host] = item if isinstance(item, rostra.View) else None
        views[host] = None
        await asyncio.sleep(0.1)


async def trouble(lab: Lab, luck: Random) -> Stood | None:
    """One process or one cable, for about as long as a bound."""
    length_s = max(0.05, luck.choice(BOUNDS_S) + luck.uniform(-0.1, 0.1))
    if lab.has_cables and luck.random() < 0.4:
        one, other = luck.sample(SITES, 2)
        some, others = lab.side(one), lab.side(other)
        luck.choice((lab.cut, lab.cut_one_way))(some, others)
        await asyncio.sleep(length_s)
        lab.heal()
        return None
    node = luck.choice((*SERVERS, *HOSTS))
    lab[node].signal(signal.SIGSTOP)
    since = time.time()
    await asyncio.sleep(length_s)
    lab[node].resume()
    return Stood(node, since, time.time())


async def rounds(lab: Watched, luck: Random, count: int) -> list[Stood]:
    views: dict[str, rostra.View | None] = dict.fromkeys(HOSTS)
    stood = []
    members = [asyncio.create_task(stay(lab, host, views)) for host in HOSTS]

    def is_calm() -> bool:
        return all(view is not None and len(view.members) == len(HOSTS) for view in views.values())

    await until(is_calm, "all three live")
    for number in range(count):
        found = await trouble(lab, luck)
        if found is not None:
            stood.append(found)
        with contextlib.suppress(AssertionError):  # slow is no offence
            await until(is_calm, "all three live again", within_s=20.0)
        print(
            f"round {number + 1}: {found or 'a cut'}, {'calm' if is_calm() else 'not calm yet'}", flush=True
        )
    for server in SERVERS:
        lab[server].signal(signal.SIGTERM)
        await lab[server].ended()
        lab[server].start()
        with contextlib.suppress(AssertionError):
            await until(is_calm, "all three live again", within_s=20.0)
        print(f"{server} restarted, {'calm' if is_calm() else 'not calm yet'}", flush=True)
    for task in members:
        task.cancel()
    await asyncio.gather(*members, return_exceptions=True)
    for process in lab.processes.values():
        process.signal(signal.SIGTERM)
    for process in lab.processes.values():
        await process.ended()
    return stood


# What is judged


def lives(rows: Iterable[dict[str, Any]], stood: Iterable[Stood]) -> list[Life]:
    """From the rows of agents, in their order: from each living view to the next row that ends it. A life
    ends at the latest when its agent is stopped."""
    found: list[Life] = []
    members: dict[str, frozenset[str]] = {}
    now: dict[str, tuple[str, int, float]] = {}  # by host: view, fence and since when
    news: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def end(host: str, at: float) -> None:
        if host in now:
            view, fence, since = now.pop(host)
            found.append(Life(host, view, fence, members[host], since, at))

    def settle(host: str) -> None:
        """The rows of one view are whole: what is its list?"""
        rows = news.pop(host, [])
        if not rows:
            return
        come = {row["member"] for row in rows if row["change"] == "joined"}
        gone = {row["member"] for row in rows if row["change"] == "left"}
        is_whole = not any(row["change"] == "kept" for row in rows)
        kept = frozenset() if is_whole else members.get(host, frozenset())
        members[host] = (kept - gone) | come
        if (fence := rows[0]["fence"]) is not None:
            now[host] = (rows[0]["view"], fence, _seconds(rows[0]["at"]))

    for row in rows:
        host = row["writer"]
        is_next = bool(news[host]) and (row["kind"] != "view" or row["view"] != news[host][0]["view"])
        if is_next:
            settle(host)
        if row["kind"] == "view":
            if not news[host]:
                end(host, _seconds(row["at"]))
            news[host].append(row)
        elif row["kind"] in ("blocked", "started", "closing"):
            end(host, _seconds(row["at"]))
    for host in list(news):
        settle(host)
    for host in list(now):
        end(host, now[host][2])  # of the last one it is not known how long it lasted
    return [each for life in found for each in _awake(life, stood)]


def _awake(life: Life, stood: Iterable[Stood]) -> list[Life]:
    cuts = [
        each
        for each in stood
        if each.node == life.host and life.since < each.until and each.since < life.until
    ]
    if not cuts:
        return [life]
    first = min(cuts, key=lambda each: each.since)
    rest = life._replace(since=first.until)
    before = [life._replace(until=first.since)] if life.since < first.since else []
    # What it does first when it goes on is to look at its lease: up to its next row it may not know.
    later = [each for each in cuts if each is not first]
    return [*before, *(_awake(rest, later) if later else [])]


def offences(lived: list[Life]) -> list[str]:
    wrong = []
    views: dict[int, str] = {}
    last: dict[str, int] = {}
    for life in sorted(lived, key=lambda each: each.since):
        if views.setdefault(life.fence, life.view) != life.view:
            wrong.append(f"fence {life.fence} is view {views[life.fence]}, and {life.view} at {life.host}")
        if life.fence < last.get(life.host, 0):
            wrong.append(f"{life.host} was given fence {life.fence} after {last[life.host]}")
        last[life.host] = life.fence
    for one in lived:
        for other in lived:
            at = max(one.since, other.since)
            is_at_once = at < min(one.until, other.until)
            is_inside = any(member.startswith(f"{one.host}/") for member in other.members)
            if is_at_once and not is_inside and one.host != other.host and one.fence <= other.fence:
                wrong.append(
                    f"at {at:.3f} {one.host} lives with fence {one.fence}, and {other.host} with"
                    f" {other.fence} without it"
                )
    return wrong


def _seconds(at: Any) -> float:
    return float(at.timestamp())


def judged(
    journal: Path, stood: list[Stood], hosts: Sequence[str] = HOSTS, group: str = "ledger@eu"
) -> tuple[list[Life], list[str]]:
    rows = [row for row in read(journal).to_pylist() if row["writer"] in hosts]
    rows = [row for row in rows if row["group"] in (None, group)]
    lived = lives(rows, stood)
    return lived, offences(lived)


def audited(journal: Path) -> int:
    """The same rows, on Spark: by an audit that knows nothing of what was done."""
    words = ["history", "audit", "-p", "one-living", "-p", "same-view", "-j", str(journal)]
    return subprocess.run([sys.executable, "-m", "rostra", *words]).returncode


def main(seed: int, count: int, *, audit: bool) -> int:
    with tempfile.TemporaryDirectory() as directory:
        why = why_no_namespaces()
        if why is not None:
            print(f"no cuts: {why}")
        lab = Watched(Path(directory), servers=SERVERS, hosts=HOSTS, namespaces=why is None)

        async def whole() -> list[Stood]:
            await lab.start()
            try:
                return await rounds(lab, Random(seed), count)
            finally:
                lab.close()

        stood = asyncio.run(whole())
        lived, wrong = judged(lab.journal, stood)
        broken = audited(lab.journal) if audit else 0
    for each in wrong:
        print(f"VIOLATED: {each}")
    fences = {life.fence for life in lived}
    print(f"seed {seed}, {count} rounds: {len(lived)} lives, {len(fences)} fences, {len(wrong)} violations")
    return 1 if wrong or broken or not lived else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--audit", action="store_true", help="judge the journals on Spark, too")
    asked = parser.parse_args()
    sys.exit(main(asked.seed, asked.rounds, audit=asked.audit))
