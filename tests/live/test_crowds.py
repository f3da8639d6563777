"""Many programs on one agent, and more than it can have. Larger ones: `make watchers`, `make crowd`."""

import asyncio
import sys
from pathlib import Path

from support.lab import WITHIN_S, until

import rostra
from benchmarks import crowd, watchers
from rostra.errors import Unreachable

FILES = 200


async def test_five_hundred_watchers_on_as_many_connections_all_hear_of_a_join() -> None:
    outcome = await watchers.measure(watchers=500, processes=2, joins=2)

    assert len(outcome.join_ms) == 2  # each of them was heard of by all, or we would not be here
    assert outcome.links_lost == 0
    assert outcome.agent_kb_each < 64


async def test_fifty_programs_that_join_a_fifo_group_at_once_all_have_the_whole_list() -> None:
    scene = crowd.Scene("fifo, 2 agents", 50, 2, "fifo", None, None)

    outcome = await crowd.measure(scene, processes=2)  # it ends only when all of them have it

    assert outcome.links_lost == 0


async def test_an_agent_that_runs_out_of_files_says_so_counts_and_serves_those_it_has(tmp_path: Path) -> None:
    world, path = tmp_path / "world.toml", tmp_path / "agent"
    world.write_text('[world]\nname = "test"\n[servers]\nlab = "127.0.0.1:1"\n')
    agent = await asyncio.create_subprocess_exec(
        *("sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh"),
        *(sys.executable, "-m", "rostra", "agent", "lab.h1", "--world", str(world), "--socket", str(path)),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await until(lambda: _comes_in(str(path)), "it listens")
        inside: list[rostra.Me] = []
        refused: list[Unreachable] = []
        for _ in range(FILES):
            try:
                inside.append(await rostra.connect(str(path), on_lost="raise"))
            except Unreachable as error:
                refused.append(error)

        assert len(inside) > FILES // 2 and refused
        assert {(error.what, error.retriable) for error in refused} == {
            (f"lab.h1 has no room for more callers: it may open {FILES} files", True)
        }
        assert all("LimitNOFILE" in error.fix for error in refused)
        document = await inside[0].inspect()
        assert document["counters"]["callers_turned_away"] == len(refused)

        at_once = await asyncio.gather(
            *(rostra.connect(str(path)).__aenter__() for _ in range(3 * FILES)), return_exceptions=True
        )
        assert {type(each) for each in at_once} == {Unreachable}
        assert not [each for each in at_once if "did not answer" in str(each)], "nobody is left hanging"
        async with inside[0].join("chess", scope="lab.h1") as chess:
            await chess.ready(deadline_s=WITHIN_S)
        await inside.pop().close()
        await until(lambda: _comes_in(str(path)), "there is room again")
        await asyncio.gather(*(each.close() for each in inside))
    finally:
        agent.terminate()
        _, said = await agent.communicate()
    assert agent.returncode == 0
    assert said.decode().count(" callers_turned_away ") == 1


async def _comes_in(path: str) -> bool:
    try:
        async with rostra.connect(path):
            return True
    except Unreachable:
        return False
