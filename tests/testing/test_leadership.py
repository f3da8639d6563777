"""Leaders and locks in a pretended world: through crashes, cuts and pauses."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rostra
from rostra.errors import BadInput, BadName, DeadlineExceeded, LeadershipLost
from rostra.names import Domain, Group
from rostra.protocols.agreed import groups, keep
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.testing import World

HOSTS = ("paris.h1", "paris.h2", "paris.h3")


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 3}, seed=5)
    yield world
    world.close()


class Scheduler:
    """A candidate that writes down when it leads, for all candidates into one list."""

    def __init__(
        self, name: str, log: list[tuple[str, str, int]], *, terms: int = 1, for_s: float = 1e9
    ) -> None:
        self.name, self.log, self.terms, self.for_s = name, log, terms, for_s
        self.lost: list[LeadershipLost] = []

    async def run(self) -> None:
        async with rostra.connect() as me:
            for _ in range(self.terms):
                try:
                    async with me.lead("scheduler", scope="paris") as term:
                        self.log.append((self.name, "leads", term.fence))
                        try:
                            await asyncio.sleep(self.for_s)
                        finally:
                            self.log.append((self.name, "ends", term.fence))
                except LeadershipLost as lost:
                    self.lost.append(lost)


def started(
    world: World, *, terms: int = 1, for_s: float = 1e9
) -> tuple[list[Scheduler], list[tuple[str, str, int]]]:
    log: list[tuple[str, str, int]] = []
    schedulers = [Scheduler(host[-2:], log, terms=terms, for_s=for_s) for host in HOSTS]
    for host, scheduler in zip(HOSTS, schedulers, strict=True):
        world.start(host, scheduler.run())
        world.run(for_s=2)
    return schedulers, log


def never_two(log: list[tuple[str, str, int]]) -> None:
    """One after the other, each with a larger fence."""
    fences = [fence for _, what, fence in log if what == "leads"]
    assert fences == sorted(set(fences))
    for (name, what, fence), (next_name, next_what, next_fence) in zip(log[::2], log[1::2], strict=False):
        assert (name, what, fence) == (next_name, "leads", next_fence)
        assert next_what == "ends"


@pytest.mark.parametrize(
    ("order", "terms"), [((1, 2, 0), ["h1", "h2"]), ((0, 1, 2), ["h1", "h2", "h3", "h1"])]
)
def test_in_a_rolling_restart_a_leader_moves_once_if_its_host_is_the_last(
    world: World, order: tuple[int, ...], terms: list[str]
) -> None:
    """Candidates of a host that was restarted stand last."""
    _, log = started(world)
    for number in order:
        world.restart(HOSTS[number])
        world.run(for_s=2)
        world.start(HOSTS[number], Scheduler(HOSTS[number][-2:], log).run())
        world.run(for_s=20)
    assert [name for name, what, _ in log if what == "leads"] == terms
    fences = [fence for _, what, fence in log if what == "leads"]
    assert fences == sorted(set(fences))


def test_candidates_lead_in_the_order_in_which_they_joined(world: World) -> None:
    _, log = started(world, for_s=10)
    world.run(for_s=60)

    assert [(name, what) for name, what, _ in log] == [
        *(("h1", "leads"), ("h1", "ends")),
        *(("h2", "leads"), ("h2", "ends")),
        *(("h3", "leads"), ("h3", "ends")),
    ]
    never_two(log)


def test_the_next_leads_when_the_host_of_the_leader_dies(world: World) -> None:
    _, log = started(world)
    world.crash("paris.h1")
    world.run(for_s=20)

    assert [(name, what) for name, what, _ in log if what == "leads"] == [("h1", "leads"), ("h2", "leads")]


def test_a_leader_that_is_cut_off_is_cancelled_before_another_begins(world: World) -> None:
    """H2: the side that loses is in doubt, by its lease, before another side can live."""
    schedulers, log = started(world)
    world.cut("paris.h1 | paris")
    world.run(for_s=20)

    assert [(name, what) for name, what, _ in log] == [("h1", "leads"), ("h1", "ends"), ("h2", "leads")]
    never_two(log)
    (lost,) = schedulers[0].lost
    assert "in doubt" in lost.what and "lead/scheduler@paris" in lost.what
    assert lost.retriable


def test_a_leader_that_lost_goes_to_the_end_of_the_line(world: World) -> None:
    log: list[tuple[str, str, int]] = []
    first = Scheduler("h1", log)

    async def again() -> None:
        await first.run()
        await asyncio.sleep(30)  # until the cut is over
        await first.run()

    world.start(HOSTS[0], again())
    world.run(for_s=2)
    others = [Scheduler(host[-2:], log, for_s=60) for host in HOSTS[1:]]
    for host, each in zip(HOSTS[1:], others, strict=True):
        world.start(host, each.run())
        world.run(for_s=2)
    world.cut("paris.h1 | paris")
    world.run(for_s=20)
    world.heal()
    world.run(for_s=300)

    assert [name for name, what, _ in log if what == "leads"] == ["h1", "h2", "h3", "h1"]
    never_two(log)


def test_a_lost_agent_ends_the_term(world: World) -> None:
    schedulers, log = started(world)
    world.drop("paris.h1")
    world.run(for_s=20)

    assert log[1] == ("h1", "ends", log[0][2])
    assert "the agent is lost" in schedulers[0].lost[0].what
    assert log[2][0] == "h2"
    never_two(log)


def test_a_cancelled_waiter_leaves_the_line(world: World) -> None:
    log: list[tuple[str, str, int]] = []
    tasks = []
    for host in HOSTS:
        tasks.append(world.start(host, Scheduler(host[-2:], log, for_s=10).run()))
        world.run(for_s=2)
    tasks[1].cancel()
    world.run(for_s=30)

    assert [name for name, what, _ in log if what == "leads"] == ["h1", "h3"]


def test_a_deadline_bounds_the_wait_and_leaves_the_line(world: World) -> None:
    log: list[tuple[str, str, int]] = []

    async def impatient() -> None:
        async with rostra.connect() as me:
            with pytest.raises(DeadlineExceeded, match=r"the turn of paris.h2/.* in lead/scheduler@paris"):
                async with me.lead("scheduler", scope="paris", deadline_s=5):
                    raise AssertionError("it is not our turn")
            assert len((await me.resolve("lead/scheduler", "paris", fresh=True)).members) == 1

    world.start(HOSTS[0], Scheduler("h1", log).run())
    world.run(for_s=2)
    done = world.start(HOSTS[1], impatient())
    world.run(for_s=30)
    assert done.done()


def test_tasks_of_one_program_wait_for_each_other(world: World) -> None:
    log: list[tuple[str, str, int]] = []

    async def work(me: rostra.Me, name: str) -> None:
        async with me.lock("invoice/42", scope="paris") as held:
            log.append((name, "leads", held.fence))
            await asyncio.sleep(1)
            log.append((name, "ends", held.fence))

    async def program() -> None:
        async with rostra.connect() as me, asyncio.TaskGroup() as group:
            for name in ("one", "two", "three"):
                group.create_task(work(me, name))

    world.start(HOSTS[0], program())
    world.start(HOSTS[1], program())
    world.run(for_s=60)

    assert len(log) == 12
    never_two(log)
    assert [name for name, what, _ in log if what == "leads"] == [
        "one",
        "one",
        "two",
        "two",
        "three",
        "three",
    ]


@pytest.mark.parametrize("restarts", [False, True])
def test_the_fence_of_a_lock_grows_though_its_group_was_forgotten_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    """With more empty groups than a set remembers; and by a server that does not know that there was one."""
    monkeypatch.setattr(groups, "EMPTIED_MAX", 2)
    fences: list[int] = []

    async def lock(*names: str) -> None:
        async with rostra.connect() as me:
            for name in names:
                async with me.lock(name, scope="paris") as held:
                    if name == "invoice":
                        fences.append(held.fence)

    world.start(HOSTS[0], lock("invoice", "invoice", "invoice", "one", "two", "three"))
    world.run(for_s=20)
    server = world.sim.processes[Domain("paris")].stack[AGREED_SERVER]
    assert Group("lock/invoice", Domain("paris")) not in server.sets[Domain("paris")].table.groups
    if restarts:
        world.restart("paris")
        world.run(for_s=20)
    world.start(HOSTS[1], lock("invoice"))
    world.run(for_s=20)
    assert len(fences) == 4 and fences == sorted(set(fences)), fences


def test_the_fence_of_a_lock_grows_though_nobody_is_left_who_remembers_its_group(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too large to be kept, and its holder's host dies with its server: only how far fences went is there."""
    monkeypatch.setattr(keep, "RECORD_BYTES_MAX", 0)
    fences: list[int] = []

    async def hold(times: int) -> None:
        async with rostra.connect() as me:
            for _ in range(times):
                async with me.lock("invoice", scope="paris") as held:
                    fences.append(held.fence)

    world.start(HOSTS[0], hold(3))
    world.run(for_s=20)
    world.crash(HOSTS[0])
    world.restart("paris")
    world.run(for_s=30)
    world.start(HOSTS[1], hold(1))
    world.run(for_s=30)
    assert len(fences) == 4 and fences == sorted(set(fences)), fences


def test_locks_of_two_names_are_held_at_once(world: World) -> None:
    async def program() -> tuple[str, str]:
        async with (
            rostra.connect() as me,
            me.lock("a", scope="paris") as one,
            me.lock("b", scope="paris") as two,
        ):
            assert one.is_held and two.is_held
            one.check()
            return str(one.group), str(two.group)

    done = world.start(HOSTS[0], program())
    world.run(for_s=10)
    assert done.result() == ("lock/a@paris", "lock/b@paris")


def test_errors_of_the_body_are_its_own(world: World) -> None:
    async def program() -> str:
        async with rostra.connect() as me:
            with pytest.raises(ZeroDivisionError):
                async with me.lead("scheduler", scope="paris"):
                    1 / 0  # noqa: B018
            async with me.lead("scheduler", scope="paris", deadline_s=10) as term:
                return repr(term)

    done = world.start(HOSTS[0], program())
    world.run(for_s=20)
    assert done.result().startswith("<lead/scheduler@paris, fence ")


def test_a_body_that_is_cancelled_from_outside_is_cancelled(world: World) -> None:
    log: list[tuple[str, str, int]] = []
    task = world.start(HOSTS[0], Scheduler("h1", log).run())
    world.run(for_s=2)
    task.cancel()
    world.run(for_s=2)
    assert task.cancelled()
    assert [what for _, what, _ in log] == ["leads", "ends"]


def test_a_cancellation_from_outside_is_not_hidden_by_a_loss(world: World) -> None:
    async def slow_to_end() -> None:
        async with rostra.connect() as me, me.lead("scheduler", scope="paris"):
            try:
                await asyncio.sleep(1e9)
            finally:
                await asyncio.sleep(10)

    task = world.start(HOSTS[0], slow_to_end())
    world.run(for_s=2)
    world.cut("paris.h1 | paris")
    world.run(for_s=8)  # the term is lost, and the body unwinds
    task.cancel()
    world.run(for_s=20)
    assert task.cancelled()


def test_the_example_of_the_readme_leads_and_stands_again(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    source = (Path(__file__).parents[2] / "examples" / "lead.py").read_text()
    exec(compile(source.replace('scope="eu"', 'scope="paris"'), "examples/lead.py", "exec"), names)
    world.start(HOSTS[0], names["main"]())
    world.run(for_s=15)
    world.drop("paris.h1")
    world.run(for_s=15)
    first, second, lost, *_, last = capsys.readouterr().out.splitlines()
    assert first == second and first.startswith("we lead; write with fence ")
    assert "the agent is lost" in lost
    assert int(last.split()[-1]) > int(first.split()[-1])


def test_a_body_that_hides_its_cancellation_is_told_at_its_end(world: World) -> None:
    async def stubborn() -> str:
        async with rostra.connect() as me:
            with pytest.raises(LeadershipLost):
                async with me.lead("scheduler", scope="paris") as term:
                    try:
                        await asyncio.sleep(1e9)
                    except asyncio.CancelledError:
                        with pytest.raises(LeadershipLost):
                            term.check()
            await asyncio.sleep(1)  # nothing of the cancellation is left
            return "went on"

    done = world.start(HOSTS[0], stubborn())
    world.run(for_s=2)
    world.cut("paris.h1 | paris")
    world.run(for_s=20)
    assert done.result() == "went on"


def test_what_cannot_be_led_is_refused_before_anything_is_asked(world: World) -> None:
    async def program() -> None:
        async with rostra.connect() as me:
            with pytest.raises(BadInput, match="lets more than one side"):
                me.lead("scheduler", survive="any")
            with pytest.raises(BadInput, match="lets more than one side"):
                me.lock("x", survive="size > 1")
            with pytest.raises(BadInput):
                me.lead("scheduler", survive="majority and")
            with pytest.raises(BadName):
                me.lead("")
            turn = me.lead("scheduler", scope="paris")
            async with turn:
                pass
            async with me.lead("scheduler", scope="paris"):
                pass

    done = world.start(HOSTS[0], program())
    world.run(for_s=30)
    assert done.done()
