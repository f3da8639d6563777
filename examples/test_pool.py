"""The pool of `pool.py`, put to the test in simulated worlds: nothing here waits, and every run is the same.

pytest examples/test_pool.py
pytest examples/test_pool.py --rostra-seeds 50        the same in fifty different worlds
"""

from collections import Counter

from examples.pool import SHARDS, Worker
from rostra.testing import World, Worlds

NOTICED_S = 6.0
"""Within this time a silent host is given up, in the world's usual settings, and all have heard of it."""


def start(world: World) -> dict[str, Worker]:
    """A worker on every host."""
    workers = {str(host): Worker() for host in world.hosts}
    for host, worker in workers.items():
        world.start(host, worker.run())
    world.run(for_s=5)
    return workers


def owners(workers: dict[str, Worker], where: str = "") -> Counter[int]:
    """How many do each shard, of the workers in this part of the world."""
    return Counter(
        shard for host, worker in workers.items() if host.startswith(where) for shard in worker.shards
    )


EACH_ONCE = Counter(SHARDS)


def test_every_shard_is_done_by_one_worker(rostra_world: Worlds) -> None:
    workers = start(rostra_world({"eu.paris": 2, "us.boston": 2}))

    assert owners(workers) == EACH_ONCE
    assert all(worker.shards for worker in workers.values())


def test_each_side_of_a_cut_does_all_of_the_work_and_they_share_again_when_it_heals(
    rostra_world: Worlds,
) -> None:
    world = rostra_world({"eu.paris": 2, "us.boston": 2})
    workers = start(world)

    world.cut("eu | us")
    world.run(for_s=NOTICED_S)
    assert owners(workers, "eu") == owners(workers, "us") == EACH_ONCE

    world.heal()
    world.run(for_s=NOTICED_S)
    assert owners(workers) == EACH_ONCE


def test_the_shards_of_a_crashed_host_are_taken_over_and_no_others_move(rostra_world: Worlds) -> None:
    world = rostra_world({"eu.paris": 3})
    workers = start(world)
    before = {host: worker.shards for host, worker in workers.items()}

    world.crash("eu.paris.h1")
    world.run(for_s=NOTICED_S)

    del workers["eu.paris.h1"]
    assert owners(workers) == EACH_ONCE
    assert all(before[host] <= worker.shards for host, worker in workers.items())


def test_a_short_stall_moves_nothing(rostra_world: Worlds) -> None:
    world = rostra_world({"eu.paris": 3})
    moves: list[float] = []
    workers = [Worker(lambda: moves.append(world.now)) for _ in world.hosts]
    for host, worker in zip(world.hosts, workers, strict=True):
        world.start(host, worker.run())
    world.run(for_s=5)
    moves.clear()

    world.pause("eu.paris.h2")
    world.run(for_s=2)
    world.resume("eu.paris.h2")
    world.run(for_s=30)

    assert moves == []


def test_a_worker_that_lost_its_agent_does_nothing_until_it_is_back(rostra_world: Worlds) -> None:
    world = rostra_world({"eu.paris": 2})
    workers = start(world)
    cut_off = workers["eu.paris.h1"]
    seen: list[frozenset[int]] = []
    cut_off._changed = lambda: seen.append(cut_off.shards)

    world.drop("eu.paris.h1")  # the connection between the program and its agent; both live
    world.run(for_s=5)

    assert seen[0] == frozenset()
    assert owners(workers) == EACH_ONCE


async def test_a_test_may_be_a_coroutine_and_then_lives_in_the_worlds_time(rostra_world: Worlds) -> None:
    world = rostra_world({"eu.paris": 1, "us.boston": 1})
    workers = {str(host): Worker() for host in world.hosts}
    for host, worker in workers.items():
        world.start(host, worker.run())

    await world.settled()

    assert owners(workers) == EACH_ONCE
