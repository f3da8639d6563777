"""The same seed gives the same history, byte for byte: in another process, and whatever strings hash to."""

import hashlib
import os
import subprocess
import sys

import msgspec
import pytest

from rostra.names import ROOT, Group
from rostra.sim.network import WILD
from rostra.sim.shapes import shape
from rostra.sim.world import World

CHESS = Group("chess", ROOT)
LIFE = "from test_determinism import fingerprint; print(fingerprint({seed}))"


def fingerprint(seed: int) -> str:
    """One eventful life of a small world, as a hash of everything that was written down about it."""
    world = World(
        seed, shape("pair"), links=WILD.losing(0.05).duplicating(0.05).reordering(0.05), stagger=True
    )
    world.run(1.0)
    programs = [world.program(host, name) for host in world.tree.hosts for name in ("one", "two")]
    for program in programs:
        program.join(CHESS)
    world.run(3.0).cut("haifa | paris").run(7.0)
    world.crash("haifa.a").run(6.0)
    world.heal().restart("haifa.a").settle()
    assert world.history is not None
    return hashlib.sha256(msgspec.msgpack.encode(world.history)).hexdigest()


@pytest.mark.parametrize("hash_seed", ["0", "1", "12345"])
def test_another_process_with_other_hashes_writes_the_same_history(hash_seed):
    other = subprocess.run(
        [sys.executable, "-c", LIFE.format(seed=7)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.path.dirname(__file__)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == fingerprint(7)


def test_another_seed_writes_another_history():
    assert len({fingerprint(seed) for seed in range(4)}) == 4
