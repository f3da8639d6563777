"""Starting, stopping and starting again: what is left behind, and what is said when it cannot work."""

import asyncio
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lab import FORGIVING, ROSTRA, WITHIN_S, Lab, member, until, why_no_namespaces

from rostra.client import Cause, Joined, Left, View, connect_admin
from rostra.errors import GroupIsPermanent, NoSuchPermanentGroup, NotAllowed, Unreachable


@pytest.fixture(params=["namespaces", "loopback"], scope="module")
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two levels and two hosts, on machines of their own and on loopback; the upper levels share a
    process."""
    if request.param == "namespaces" and not request.getfixturevalue("namespaces"):
        pytest.skip(f"cables cannot be cut here: {why_no_namespaces()}")
    with Lab(
        tmp_path_factory.mktemp(request.param),
        servers=("world", "eu", "eu.fr"),
        hosts=("eu.fr.h1", "eu.fr.h2"),
        together=(("world", "eu"),),
        namespaces=request.param == "namespaces",
        more=FORGIVING,
        forked=False,
    ) as lab:
        yield lab


@pytest.mark.spec("C-155", "A-03")
async def test_a_clean_shutdown_is_a_leave_and_is_known_before_the_process_ends(two: Lab) -> None:
    async with two.program("eu.fr.h1", "ann") as ann, ann.join("shutdown") as group:
        changes = aiter(group)
        assert isinstance(await anext(changes), View)
        with member(two.socket("eu.fr.h2"), "bob", "shutdown", "world") as bob:
            joined = await anext(changes)
            assert isinstance(joined, Joined)
            two["eu.fr.h2"].signal(signal.SIGTERM)
            assert await two["eu.fr.h2"].ended() == 0
            # Acknowledged by the domain before the process ended, so asking now cannot find it any more.
            assert joined.members[0].endpoint not in (await ann.resolve("shutdown", fresh=True)).endpoints
            assert await anext(changes) == Left((joined.members[0].endpoint,), Cause.LEAVE)
            bob.wait(WITHIN_S)
        said = "link_down node=eu.fr peer=eu.fr.h2 because=closed"
        await until(lambda: said in two["eu.fr"].log, "it was told why")
    await two.calm()


async def test_a_program_that_closes_leaves_its_groups_and_last_words_are_passed_on(two: Lab) -> None:
    async with two.program("eu.fr.h1", "ann") as ann, ann.join("closing") as group:
        changes = aiter(group)
        assert isinstance(await anext(changes), View)
        async with two.program("eu.fr.h2", "bob") as bob:
            membership = await bob.join("closing", meta=b"hi")
            joined = await anext(changes)
            assert isinstance(joined, Joined) and joined.members[0].meta == b"hi"
            await membership.leave(b"bye")
            assert await anext(changes) == Left((bob.endpoint,), Cause.LEAVE, b"bye")
            await bob.join("closing")
            await anext(changes)
        assert await anext(changes) == Left((bob.endpoint,), Cause.LEAVE)


async def test_an_agent_that_shuts_down_ends_its_programs_streams_with_a_reason(two: Lab) -> None:
    async with two.program("eu.fr.h2", "bob") as bob, bob.join("ending") as group:
        changes = aiter(group)
        assert isinstance(await anext(changes), View)
        two["eu.fr.h2"].signal(signal.SIGTERM)
        with pytest.raises(Unreachable, match=r"goodbye|gone"):
            async with asyncio.timeout(WITHIN_S):
                await anext(changes)
        with pytest.raises(Unreachable):
            await bob.resolve("ending")
        with pytest.raises(Unreachable):
            assert group.members
        assert await two["eu.fr.h2"].ended() == 0
    await two.calm()


async def test_a_second_signal_ends_a_process_at_once(two: Lab) -> None:
    """The domain cannot acknowledge anything, so a clean shutdown takes its time; who insists need not
    wait."""
    async with two.program("eu.fr.h2", "bob") as bob, bob.join("insisting"):
        two["eu.fr"].signal(signal.SIGSTOP)
        await bob.join("insisting", scope="eu")
        before = two["eu.fr.h2"].log.count(" shutting_down")
        two["eu.fr.h2"].signal(signal.SIGTERM)
        await until(lambda: two["eu.fr.h2"].log.count(" shutting_down") > before, "it shuts down")
        two["eu.fr.h2"].signal(signal.SIGTERM)
        assert await two["eu.fr.h2"].ended() == 128 + signal.SIGTERM  # and not 0, as after a clean end
    await two.calm()


@pytest.mark.spec("C-012", "C-013", "A-24")
async def test_permanent_groups_are_known_in_their_scope_and_survive_restarts(two: Lab) -> None:
    group = "news"
    await two.register(group, "eu")
    async with two.program("eu.fr.h1", "ann") as ann:
        with pytest.raises(NoSuchPermanentGroup):
            await ann.join(group, "eu.fr", permanent=True)
        await until(lambda: _is_permanent(two, "eu.fr.h1", group, "eu"), "the agent of h1 knows")
        with pytest.raises(GroupIsPermanent):
            await ann.join(group, "eu")
        async with ann.join(group, "eu", permanent=True):
            pass
        assert (await ann.resolve(group, "eu")).members == ()
    for node in ("eu", "eu.fr", "eu.fr.h1"):
        two[node].kill()
    # From its own disk: nobody who could tell it is running.
    two["eu.fr.h1"].start()
    await until(lambda: _is_permanent(two, "eu.fr.h1", group, "eu"), "the agent of h1 remembers")
    await two.calm()
    assert await _is_permanent(two, "eu", group, "eu")
    await until(lambda: _is_permanent(two, "eu.fr.h2", group, "eu"), "the agent of h2 knows")
    async with two.program("eu.fr.h2", "bob") as bob, bob.join(group, "eu", permanent=True):
        pass


async def _is_permanent(lab: Lab, node: str, group: str, scope: str) -> bool:
    core = (await lab.inspect(node))["core"]
    lists = core.get("permanent") or {record["scope"]: record for record in core["registry"]}
    return group in lists.get(scope, {}).get("names", ())


async def test_only_the_server_of_a_scope_registers_its_groups(two: Lab) -> None:
    async with connect_admin(two.socket("eu.fr"), domain="eu.fr") as admin:
        assert admin.path == "eu.fr"
        with pytest.raises(NotAllowed):
            await admin.register("news", "eu")
    with pytest.raises(NotAllowed, match="us is not served here"):
        async with connect_admin(two.socket("eu.fr"), domain="us"):
            pass


async def test_a_left_over_socket_file_does_not_keep_an_agent_from_starting(two: Lab) -> None:
    two["eu.fr.h2"].kill()
    assert Path(two.socket("eu.fr.h2")).is_socket()
    two["eu.fr.h2"].start()
    await two.calm()


# What is said when it cannot work


def rostra(*arguments: str) -> tuple[int, list[str]]:
    done = subprocess.run([*ROSTRA, *arguments], capture_output=True, text=True, timeout=WITHIN_S)
    return done.returncode, [
        line for line in done.stderr.splitlines() if " node_" not in line and " listening " not in line
    ]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return _world(tmp_path, '[world]\nname = "w"\n[servers]\neu = "127.0.0.1:0"\n"eu.fr" = "127.0.0.1:0"\n')


def _world(directory: Path, text: str) -> Path:
    file = directory / "world.toml"
    file.write_text(text)
    return file


def test_a_missing_world_file_is_one_clear_line(tmp_path: Path) -> None:
    code, lines = rostra("agent", "eu.h1", "--world", str(tmp_path / "none.toml"))
    assert code == 2
    assert lines[0] == f"error: cannot read world file {tmp_path}/none.toml: No such file or directory"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[world", "not valid TOML"),
        ('[world]\nname = "w"\nprofil = "lan"\n[servers]\neu = "h:1"', "did you mean 'profile'?"),
        ('[world]\nname = "w"\n[servers]\neu.fr = "h:1"', 'put keys with dots in quotes: "eu.fr"'),
        ('[world]\nname = "w"\n[servers]\n"EU" = "h:1"', "'EU' in domain path 'EU' is not a label"),
        ('[world]\nname = "w"\n[servers]\neu = "h"', "'h' is not an address"),
        ('[world]\nname = "w"\n[servers]\n"eu.fr" = "h:1"', "its enclosing domain eu has no server"),
    ],
)
def test_a_bad_world_file_is_one_clear_line_and_a_fix(tmp_path: Path, text: str, said: str) -> None:
    code, lines = rostra("agent", "eu.fr.h1", "--world", str(_world(tmp_path, text)))
    assert (code, len(lines)) == (2, 2)
    assert said in "\n".join(lines)


def test_a_host_outside_every_cluster_is_one_clear_line(world: Path) -> None:
    assert rostra("agent", "eu.h1", "-w", str(world)) == (
        2,
        ["error: eu holds domains, so eu.h1 cannot be a host in it", "  choose a host inside one of: eu.fr"],
    )
    code, lines = rostra("server", "-d", "eu.de", "-w", str(world))
    assert (code, lines[0]) == (2, "error: the world 'w' has no server for eu.de")


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = _world(tmp_path, f'[world]\nname = "w"\n[servers]\neu = "127.0.0.1:{port}"\n')
        code, lines = rostra("server", "-d", "eu", "-w", str(file))
    assert (code, lines[0]) == (2, f"error: port {port} of 127.0.0.1 is in use")


def test_a_second_agent_at_the_same_socket_or_state_is_one_clear_line(tmp_path: Path) -> None:
    lab = Lab(tmp_path, servers=("eu",), hosts=("eu.h1",), together=(("eu", "eu.h1"),), namespaces=False)
    asyncio.run(lab.start())
    try:
        world, socket_path = str(lab.world_file), lab.socket("eu.h1")
        code, lines = rostra("agent", "eu.h2", "-w", world, "--socket", socket_path)
        assert (code, lines[0]) == (2, f"error: another agent listens at {socket_path}")
        code, lines = rostra(
            "agent", "eu.h1", "-w", world, "--socket", f"{socket_path}2", "--state", f"{tmp_path}/state"
        )
        assert code == 2
        assert lines[0].startswith("error: another process is running as eu.h1")
    finally:
        lab.close()
