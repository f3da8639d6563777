"""What the documents say exists, exists; what they show, runs."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rostra.client
import rostra.protocols.relaxed.requests as requests
from rostra.cli import app
from rostra.history.audits import PROMISES
from rostra.protocols.relaxed import messages
from rostra.sim import checkers, fifo_checkers

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


def make(*arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def test_the_first_target_lists_every_target():
    listed = set(re.findall(r"^  make (\S+)", make(), re.M))

    assert listed == targets()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_a_page_names_exists(page: Path):
    named = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", page.read_text(), re.M))

    assert named <= targets()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_rostra_command_that_a_page_names_exists(page: Path):
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    commands |= {group.name for group in app.registered_groups}
    named = set(re.findall(r"`rostra ([a-z]+)", page.read_text()))

    assert named <= commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_in_a_page_leads_somewhere(page: Path):
    """Files and headings of ours; whatever is elsewhere is not ours to promise."""
    for target, _, heading in re.findall(r"\]\((?!https?:)([^)#]*)(#?)([^)]*)\)", page.read_text()):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not heading or heading in headings(there), f"{target}#{heading}"


def headings(page: Path) -> set[str]:
    """As they are linked to."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_of_ours_that_a_page_names_exists(page: Path):
    named = re.findall(r"`((?:src|tests|examples|docs|benchmarks)/[\w./-]+)`", page.read_text())

    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path):
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text()):
        assert re.search(rf"^(?:async )?def {name}\(", (ROOT / path).read_text(), re.M), f"{path}::{name}"


def test_the_glossary_names_every_message_that_travels():
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    kinds = {kind.__name__ for module in (messages, requests) for kind in structs_with_numbers(module)}

    assert {kind for kind in kinds if f"`{kind}`" not in glossary} == set()


def structs_with_numbers(module: object) -> Iterator[type]:
    for kind in vars(module).values():
        config = getattr(kind, "__struct_config__", None)
        if isinstance(kind, type) and config is not None and isinstance(config.tag, int):
            yield kind


def test_the_readme_shows_the_examples_as_they_are():
    shown = dict(re.findall(r"<!-- (examples/\S+) -->\n```python\n(.*?)```", README, re.S))

    assert len(shown) == 3
    assert shown == {path: (ROOT / path).read_text() for path in shown}


def test_the_changes_that_the_readme_names_are_those_that_the_client_gives():
    for change in ("View", "Joined", "Left", "Without", "Only", "Gap"):
        assert f"`{change}`" in README
        assert hasattr(rostra.client, change)


def test_every_promise_of_the_readme_has_a_checker():
    promised = set(re.findall(r"^\| `([a-z-]+)` \|", README, re.M))
    checked = {name.replace("_", "-") for name in (*vars(checkers), *vars(fifo_checkers))} | set(PROMISES)

    assert promised == {
        "per-source-order",
        "stable-truth",
        "watch-complete",
        "both-sides-told",
        "heals-alone",
        "fifo-gap-free",
        "smooth-join",
        "same-view",
        "every-change",
        "one-living",
        "total-order",
        "all-or-none",
    }
    assert promised <= checked


def test_the_example_sees_who_comes_and_goes_needs_no_argument_and_ends_cleanly(tmp_path: Path):
    world = tmp_path / "world.toml"
    world.write_text('[world]\nname = "test"\n[servers]\nlab = "127.0.0.1:1"\n')
    path = tmp_path / "agent"
    example = [sys.executable, str(ROOT / "examples" / "join.py"), "chess"]
    env = {**os.environ, "ROSTRA_AGENT": str(path)}
    with subprocess.Popen(
        [sys.executable, "-m", "rostra", "agent", "lab.h1", "--world", str(world), "--socket", str(path)],
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        try:
            assert agent.stderr is not None and "listening" in agent.stderr.readline()
            with subprocess.Popen(example, env=env, stdout=subprocess.PIPE, text=True) as first:
                assert first.stdout is not None
                try:
                    assert first.stdout.readline().startswith("View of 1 member")
                    assert first.stdout.readline().count("lab.h1/join-") == 1
                    with subprocess.Popen(example, env=env, stdout=subprocess.DEVNULL) as second:
                        try:
                            assert first.stdout.readline().startswith("Joined: lab.h1/join-")
                            assert first.stdout.readline().count("lab.h1/join-") == 2
                        finally:
                            second.kill()
                    assert first.stdout.readline().startswith("Left by crash: lab.h1/join-")
                    assert first.stdout.readline().count("lab.h1/join-") == 1
                    unnamed = subprocess.Popen(
                        example[:-1], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                    )
                    with unnamed:
                        try:
                            assert unnamed.stdout is not None and unnamed.stderr is not None
                            assert unnamed.stdout.readline().startswith(b"View of 1 member")
                            unnamed.send_signal(signal.SIGINT)
                            assert (unnamed.wait(60), unnamed.stderr.read()) == (0, b"")
                        finally:
                            unnamed.kill()
                finally:
                    first.kill()
        finally:
            agent.kill()
