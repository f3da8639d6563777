"""Recordings that every later version must replay byte for byte, until it means to behave otherwise.

    python -m tests.journal.corpus            make them anew, all: a minute  (make corpus)
    python -m tests.journal.corpus relaxed    one of them
    python -m tests.journal.corpus --again    the same inputs, with what comes of them now: for a change that
                                              adds to an effect and alters nothing else

Simulated worlds come out the same each time. `real` is a handful of processes on loopback, with clocks,
sockets and disks of their own; it comes out different each time, and takes as long as it takes.

Each is small, and between them they show what a refactoring must not change: programs come, go, watch and
ask; hosts die, sites lose sight of each other and meet again; groups speak between sites over a lossy
network; servers agree on views; replicas take each other's place; permanent groups stay.
"""

import argparse
import asyncio
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from msgspec import msgpack
from support.lab import FORGIVING, Lab, Process, until

from rostra.journal.segments import Place
from rostra.journal.writer import INPUTS, RecordingPart, unpacked
from rostra.names import Domain, Group
from rostra.observe.recording import (
    Began,
    Gave,
    RecordingEnded,
    ToServer,
    ToVoter,
    Turn,
    effects_of,
    words,
)
from rostra.protocols.links.config import LinkConfig
from rostra.sim import LAN, World
from rostra.sim.journal import SimJournal
from rostra.sim.replay import recordings
from rostra.sim.replayed_node import ReplayedNode
from rostra.sim.shapes import clusters, shape

CORPUS = Path(__file__).parent / "corpus"
TIMERS = LinkConfig.lan().over_datagrams()


def relaxed(directory: Path) -> None:
    """Who is in which group, in clusters at three depths."""
    world = World(
        1, tree=shape("uneven"), links=LAN, timers=TIMERS, journal=SimJournal(directory, record=True)
    )
    world.settle()
    ann, bob, eve, dan = (
        world.program(host, name)
        for host, name in (
            ("lab.h1", "ann"),
            ("eu.paris.h1", "bob"),
            ("us.ca.la.h1", "eve"),
            ("us.ca.sf.h1", "dan"),
        )
    )
    everywhere, inside = Group("chess", Domain("world")), Group("chess", Domain("us.ca"))
    kept = Group("kept", Domain("eu"))
    world.register(kept)
    for program in (ann, bob, eve, dan):
        program.join(everywhere, meta=b"plays")
    eve.join(inside)
    world.run(1.0)
    ann.watch(everywhere)
    bob.join(kept, permanent=True)
    dan.join(inside, online=False)
    dan.resolve(inside)
    bob.resolve_everywhere("chess")
    ann.watch_life(bob)
    eve.send(b"hello", ann, bob)
    world.run(1.0)
    dan.go_online(inside)
    eve.leave(everywhere, meta=b"bye")
    world.deafen(ann)
    world.run(0.5)
    eve.join(everywhere)
    bob.kill()
    world.run(0.5)
    world.undeafen(ann)
    world.settle()
    world.crash("us.ca.la.h1").settle()
    world.restart("us.ca.la.h1")
    world.cut("eu | us").settle()
    ann.resolve(everywhere)
    ann.leave(everywhere)
    world.heal().settle()
    world.cut("us.ca > us.ny").settle()
    world.restart("us.ca")
    world.heal().settle()
    world.reset("eu | us").run(1.0)
    ann.unwatch(everywhere)
    world.unregister(kept)
    dan.close()
    world.settle()
    world.close()


def fifo(directory: Path) -> None:
    """What is said in groups, between sites, with losses; one receiver reads slowly, one site is cut off, and
    a delegate dies."""
    world = World(
        2,
        domains={"haifa": 2, "paris": 2},
        links=LAN.losing(0.1),
        timers=TIMERS,
        fifo=True,
        journal=SimJournal(directory, record=True),
    )
    world.run(3.0)
    ann, cat, bob, dan = (world.program(host) for host in world.tree.hosts)
    for program in (ann, bob):
        program.join_fifo("news")
    world.run(2.0)
    ann.stream("news", 0.2)
    bob.stream("news", 0.3)
    ann.say("news", b"long " * 1_000)
    world.run(1.5)
    cat.join_fifo("news")
    dan.join_fifo("news")
    bob.pause("news")
    world.run(1.5)
    bob.resume("news")
    world.cut("haifa | paris").run(2.5)
    world.heal().run(2.0)
    world.crash("paris").run(1.5)
    world.restart("paris").run(2.0)
    cat.leave("news")
    ann.hush("news")
    bob.hush("news")
    dan.kill()
    world.run(2.0)
    world.close()


def agreed(directory: Path) -> None:
    """Agreed groups of a cluster and of several; a site is cut off and comes back, a member dies meanwhile, a
    server and a host are lost and start again."""
    world = World(
        4,
        tree=clusters({"eu.fr": 2, "eu.de": 2, "eu.it": 1}),
        links=LAN,
        timers=TIMERS,
        journal=SimJournal(directory, record=True),
    )
    wide, narrow = Group("ledger", Domain("eu")), Group("local", Domain("eu.fr"))
    world.run(4.0)
    ann, bob, eve, dan, zoe = (world.program(host) for host in world.tree.hosts)
    for program in (ann, bob, eve, dan, zoe):
        program.join_agreed(wide, survive="majority", meta=b"books")
    for program in (eve, dan):
        program.join_agreed(narrow)
    ann.join_agreed(Group("wrong", Domain("eu")), survive="majority of")
    zoe.watch(wide)
    world.run(4.0)
    dan.join_agreed(wide)
    for other in ("eu.de", "eu.it", "eu"):
        world.cut(f"eu.fr | {other}")
    world.run(4.0)
    eve.kill()
    world.run(2.0)
    world.heal().run(8.0)
    bob.leave_agreed(wide)
    world.crash("eu.de").run(5.0)
    world.restart("eu.de").run(8.0)
    world.crash("eu.fr").run(4.0)
    world.restart("eu.fr").run(8.0)
    world.crash("eu.it.h1").run(4.0)
    world.restart("eu.it.h1").run(4.0)
    dan.close()
    world.run(2.0)
    world.close()


def replicas(directory: Path) -> None:
    """The replica that leads dies, stands still, is cut off from the others; then all die and return."""
    world = World(
        3,
        domains={"huji": 2, "mit": 1},
        replicas={"huji": 3},
        timers=TIMERS,
        fifo=True,
        journal=SimJournal(directory, record=True),
    )
    huji = Domain("huji")
    world.run(3.0)
    programs = [world.program(host) for host in world.tree.hosts]
    for program in programs:
        program.join("g")
        program.join_fifo("news")
    world.run(1.0)
    programs[0].stream("news", 0.4)
    programs[2].stream("news", 0.4)
    first = world.replicas.leaders[huji]
    world.crash("huji").run(3.0)
    world.register(Group("kept", huji))
    programs[1].join(Group("kept", huji), permanent=True)
    world.restart(first).run(2.0)
    world.register(Group("more", huji))
    world.run(0.5)
    world.unregister(Group("more", huji))
    world.run(0.5)
    world.pause("huji").run(3.0)
    for path, process in world.processes.items():
        if process.paused:
            world.resume(path)
    world.run(2.0)
    leader = world.replicas.leaders[huji]
    for voter in world.replicas.of[huji]:
        if voter != leader:
            world.cut(f"link {leader} | {voter}")
    world.run(3.0)
    world.heal().run(2.0)
    for voter in world.replicas.of[huji]:
        world.crash(voter)
    world.run(4.5)
    for voter in world.replicas.of[huji]:
        world.restart(voter)
    world.run(4.0)
    world.close()


class Recorded(Lab):
    """Real processes that keep every input."""

    def _write_world(self) -> None:
        super()._write_world()
        with self.world_file.open("a") as file:
            file.write(f'\n[journal]\nat = "{self.directory}"\nsegment_s = 0.5\nrecord = true\n')

    async def kill(self, process: Process) -> None:
        """When all that it was given up to now is on the disk."""

        now = time.time_ns() // 1000

        def last() -> int:
            parts = sorted((self.directory / INPUTS).glob(f"{process.nodes[0]}-*"))
            found = words(unpacked(parts[-1].read_bytes())) if parts else ()
            return max([word.at for word in found if isinstance(word, Turn)], default=0)

        await until(lambda: last() >= now, "what it was given is on the disk")
        process.kill()


async def _real(directory: Path) -> None:
    """Agents, a server, and a server with replicas: the same again, on loopback."""
    hosts = ("eu.h1", "eu.h2", "us.h1")
    lab = Recorded(
        directory, servers=("eu", "us"), hosts=hosts, replicas={"eu": 3}, namespaces=False, more=FORGIVING
    )
    await lab.start()
    try:
        async with (
            lab.program("eu.h1", "ann") as ann,
            lab.program("us.h1", "bob") as bob,
            ann.join("chess") as chess,
            bob.join("chess"),
            ann.join("news", delivery="fifo") as said,
            bob.join("news", delivery="fifo") as heard,
        ):
            await lab.register("kept", "eu")
            async with lab.program("eu.h2", "eve") as eve, eve.join("chess"):
                await until(lambda: len(chess.members) == 3, "ann sees all")
                await until(lambda: len(said.members) == 2, "ann sees bob listen")
                await ann.resolve("chess", fresh=True)
                for number in range(20):
                    await said.send(b"%d" % number)
                await until(lambda: anext(aiter(heard)), "bob hears ann")
                await lab.kill(lab["eu.h2"])
                await until(lambda: len(chess.members) == 2, "the host is given up")
            leader = await lab.leader("eu")
            await lab.kill(leader)
            await lab.leader("eu")
            leader.start()
            lab["eu.h2"].start()
            await said.send(b"after the failover")
            await until(lambda: anext(aiter(heard)), "bob hears ann")
            lab["us"].signal(signal.SIGSTOP)
            await until(lambda: len(chess.members) == 1, "the other site is given up")
            lab["us"].resume()
            await until(lambda: len(chess.members) == 2, "they meet again")
        for again in (leader, lab["eu.h2"]):
            await until(lambda again=again: lab.inspect(again.nodes[0]), "who was started again answers")
        await asyncio.sleep(2.0)  # and has something to do
        for process in lab.processes.values():
            process.signal(signal.SIGTERM)
        for process in lab.processes.values():
            assert await process.ended() == 0, process.log
    finally:
        lab.close()


def real(directory: Path) -> None:
    asyncio.run(_real(directory))


MAKERS: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (relaxed, fifo, agreed, replicas, real)
}


def make(name: str) -> None:
    """A new recording in the place of the old one."""
    with tempfile.TemporaryDirectory() as scratch:
        MAKERS[name](Path(scratch))
        shutil.rmtree(CORPUS / name, ignore_errors=True)
        (CORPUS / name).mkdir(parents=True)
        sizes: list[int] = []
        for each in recordings(Path(scratch)):
            kept = b"".join([unpacked(part.read_bytes()) for part in each.parts])
            whole = RecordingPart(
                f"{each.path}-{each.epoch}-000000.inputs", kept, lambda _, size: sizes.append(size)
            )
            whole.write(Place(CORPUS / name))
    print(f"{name}: {len(sizes)} recordings, {sum(sizes) / 1024:.0f} KiB")


def word_bytes(word: Any) -> bytes:
    encoded = msgpack.encode(word)
    return struct.pack("<I", len(encoded)) + encoded


def again(name: str) -> None:
    """What nodes order now, in the place of what they ordered; their inputs stay."""
    changed = 0
    for each in recordings(CORPUS / name):
        node, kept, now = ReplayedNode(each.began()), [], 0.0
        given: list[Any] | None = None  # what came of the last input
        for word in (*each.words(), None):
            match word:
                case Gave():
                    changed += given is None or effects_of(given).digest != word.digest
                    continue
                case _ if given:
                    kept.append(word_bytes(effects_of(given)))
            given = None
            match word:
                case None:
                    break
                case Turn():
                    now = word.now
                case ToServer() | ToVoter():
                    node.turn(word)
                case Began() | RecordingEnded():
                    pass
                case _:
                    given = node.give(now, word)
            kept.append(word_bytes(word))
        whole = RecordingPart(f"{each.path}-{each.epoch}-000000.inputs", b"".join(kept), lambda *_: None)
        for part in each.parts:
            part.unlink()
        whole.write(Place(CORPUS / name))
    print(f"{name}: {changed} steps have other effects")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[[], *MAKERS], metavar="NAME", help=", ".join(MAKERS))
    parser.add_argument("--again", action="store_true", help="keep the inputs")
    asked = parser.parse_args()
    for name in asked.names or MAKERS:
        (again if asked.again else make)(name)
