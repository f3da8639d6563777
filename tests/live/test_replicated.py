"""Replicated objects with real processes: threads, kill -9 in the middle of commands, a joiner after it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.lab import WITHIN_S, Lab

import rostra
from examples.counter import Counter

ROOT = Path(__file__).parents[2]

CALLER = """
import asyncio, sys, rostra
from examples.counter import Counter

async def main():
    async with rostra.connect(sys.argv[1]) as me, me.replicate("killed", Counter(), "eu") as counter:
        while True:
            print(await counter.add(1), flush=True)

asyncio.run(main())
"""


class Visits(rostra.Replicated):
    def __init__(self) -> None:
        self.by: dict[str, int] = {}

    @rostra.command
    def note(self, who: str) -> int:
        self.by[who] = self.by.get(who, 0) + 1
        if who == "nobody":
            raise KeyError(who)
        return self.by[who]


def test_threads_use_a_replicated_object_of_two_programs(lab: Lab) -> None:
    with (
        rostra.sync.connect(lab.socket("eu.h1"), name="ann") as ann,
        ann.replicate("visits", Visits(), "eu", meta=b"door 1", deadline_s=WITHIN_S) as here,
        rostra.sync.connect(lab.socket("eu.h1"), name="bob") as bob,
        bob.replicate("visits", Visits(), "eu", deadline_s=WITHIN_S) as there,
    ):
        assert [here.note("eve"), there.note("eve"), here.note("eve")] == [1, 2, 3]
        with pytest.raises(KeyError, match="nobody"):
            there.note("nobody")
        here.fresh()
        assert here.by == {"eve": 3, "nobody": 1}
        items = there.items(timeout_s=WITHIN_S)
        view = next(items)
        assert isinstance(view, rostra.View) and [each.meta for each in view.members] == [b"door 1", b""]


def test_threads_share_out_keys_and_release_them_at_the_end_of_the_loop(lab: Lab) -> None:
    keys = {"a", "b", "c"}
    with (
        rostra.sync.connect(lab.socket("eu.h1"), name="ann") as ann,
        rostra.sync.connect(lab.socket("eu.h1"), name="bob") as bob,
    ):
        for member in (ann, bob):
            for mine in member.shares("threads", keys, "eu"):
                if mine == keys:  # else another one has some
                    break


async def test_what_a_killed_program_was_answered_is_kept_and_a_joiner_gets_it(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        ann.replicate("killed", Counter(), "eu", deadline_s=WITHIN_S) as counter,
    ):
        with subprocess.Popen(
            [sys.executable, "-c", CALLER, lab.socket("eu.h1")],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as victim:
            assert victim.stdout is not None
            answered = [int(await asyncio.to_thread(victim.stdout.readline)) for _ in range(20)]
            os.kill(victim.pid, signal.SIGKILL)
            answered += [int(line) for line in victim.stdout.read().split()[:-1]]
        await counter.fresh()
        assert answered == list(range(1, len(answered) + 1))
        assert counter.total >= len(answered)
        async with (
            lab.program("eu.h1", "bob") as bob,
            bob.replicate("killed", Counter(), "eu", deadline_s=WITHIN_S) as joined,
        ):
            before = counter.total
            assert joined.total == before
            assert await joined.add(1) == before + 1
