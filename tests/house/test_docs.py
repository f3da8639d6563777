"""The examples of the documents are run."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rostra
from rostra.testing import World

DOCS = Path(__file__).parents[2] / "docs"
HOSTS = {"eu.paris": 1, "us.boston": 1}


def examples(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.S | re.M)


async def company() -> None:
    """Somebody who comes and goes, so that the examples have something to see."""
    async with rostra.connect("us.boston.h1", name="company") as me:
        while True:
            for scope in ("world", "us"):
                async with me.join("chess", scope):
                    await asyncio.sleep(1)


ELSEWHERE = ("# threads", "# with real agents")
IN_THE_WORLD = [each for each in examples("api.md") if not each.startswith(ELSEWHERE)]


@pytest.mark.parametrize("number", range(len(IN_THE_WORLD)))
def test_every_example_of_the_api_runs(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Its programs are in the world for a minute; most of them would stay for ever."""
    names: dict[str, object] = {}
    exec(compile(IN_THE_WORLD[number], "docs/api.md", "exec"), names)
    programs = [names[name] for name in ("main", "asking") if name in names]
    assert programs
    world = World(HOSTS)
    world.start("us.boston.h1", company())
    for program in programs:
        world.start("eu.paris.h1", program())  # type: ignore[operator]
    world.run(for_s=60)
    world.close()
    assert capsys.readouterr().out


def test_a_watch_of_the_page_goes_on_where_it_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = [each for each in IN_THE_WORLD if "resume=" in each]
    names: dict[str, object] = {}
    exec(compile(source, "docs/api.md", "exec"), names)
    world = World(HOSTS)
    world.start("us.boston.h1", company())
    watching = world.start("eu.paris.h1", names["follow"](None))  # type: ignore[operator]
    world.run(for_s=20)
    token = watching.result()
    assert token.startswith("eu.paris.h1:") and token.endswith(":3")
    capsys.readouterr()
    world.start("eu.paris.h1", names["follow"](token))  # type: ignore[operator]
    world.run(for_s=5)
    said = capsys.readouterr().out
    assert said.startswith("4 ") and "missed" not in said and "everybody" not in said
    world.close()


def test_the_tests_of_the_page_about_tests_pass(tmp_path: Path) -> None:
    (source,) = examples("testing.md")
    (tmp_path / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "3 passed" in done.stdout, done.stdout


def test_the_page_of_the_api_speaks_of_everything_that_is_exported() -> None:
    page = (DOCS / "api.md").read_text()
    unsaid = {"Because", "Cause", "Change", "Domain", "Endpoint", "Group", "Item", "Me", "Member", "Members"}
    unsaid |= {"Admin", "Life", "Membership", "Message", "NotDelivered", "Resolution", "State", "Watch"}
    for name in set(rostra.__all__) - unsaid:
        assert re.search(rf"\b{name}\b", page), name
    for error in vars(rostra.errors).values():
        if isinstance(error, type) and issubclass(error, rostra.RostraError) and error.__name__ != "BadStory":
            assert error.__name__ in page
