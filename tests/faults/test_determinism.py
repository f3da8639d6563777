"""A seed is a whole history, byte for byte: in this process, in another one, with another hash seed."""

import hashlib
import os
import subprocess
import sys

import pytest

from rostra.observe.trace import Names, Trace
from rostra.sim import WILD, World, shape
from rostra.sim.storm import storm


def fingerprint(seed: int) -> str:
    """A stormy minute with everything written down that can be, as a hash of its trace."""
    world = World(
        seed, shape("uneven"), links=WILD.losing(0.05).duplicating(0.05).reordering(0.1), stagger=True
    )
    trace = Trace(Names(world.tree), ("links", "notes"))
    world.observe(trace)
    world.run(2.0)
    programs = [world.program(host, "app") for host in world.tree.hosts]
    for number, program in enumerate(programs):
        program.join("chess", online=number % 3 > 0)
        program.join(f"go@{program.host.split('.')[0]}")
        world.run(0.3)
    world.cut("eu | us")
    world.pause("lab.h1")
    world.run(7.0)
    world.restart("us.ca")
    world.kill(programs[-1])
    world.heal()
    world.resume("lab.h1")
    for program in programs[:4]:
        program.resolve("chess")
    world.run(20.0)
    return hashlib.sha256("\n".join(trace.lines()).encode()).hexdigest()


def elsewhere(seed: int, hash_seed: str) -> str:
    """The same in a process of its own."""
    code = f"from test_determinism import fingerprint; print(fingerprint({seed}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.path.dirname(__file__)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_same_seed_gives_the_same_trace_in_every_process():
    here = fingerprint(7)
    assert here == fingerprint(7) == elsewhere(7, "1") == elsewhere(7, "4711")


def test_another_seed_gives_another_trace():
    assert len({fingerprint(seed) for seed in range(3)}) == 3


@pytest.mark.parametrize("name", ["pair", "uneven"])
def test_a_storm_is_the_same_storm_every_time(name):
    assert storm(11, name) == storm(11, name)


def test_bytes_on_the_wire_change_nothing():
    """Encoding and decoding every packet gives the very history that passing objects gives."""

    def history(wire: bool) -> list[object]:
        world = World(5, shape("pair"), links=WILD, wire=wire)
        for host in world.tree.hosts:
            world.program(host).join("chess")
        world.settle()
        world.cut("haifa | paris")
        world.settle()
        world.heal()
        world.settle()
        assert (world.bytes > 0) == wire
        return list(world.history or ())

    assert history(wire=True) == history(wire=False)
