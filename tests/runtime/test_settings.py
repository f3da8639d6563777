"""Flags before variables, variables before the file, the file before defaults; and what SIGHUP takes over."""

import asyncio
from math import inf
from pathlib import Path

import pytest

from rostra.config import WorldFile, parse_world, read_world
from rostra.errors import BadInput
from rostra.names import Domain
from rostra.observe.log import EventLog
from rostra.protocols.links.config import LinkConfig
from rostra.runtime.notify import Systemd
from rostra.runtime.process import Process
from rostra.runtime.reload import Reloaded, reload
from rostra.runtime.run import Settings, running
from rostra.runtime.settings import SETTINGS, settle
from rostra.testing.loop import PretendLoop
from rostra.transport.addresses import SocketPath, TcpAddress

TEXT = """
[world]
name = "w"
profile = "lan"
[servers]
eu = "10.0.0.1:7700"
[agents]
socket = "/from/file.sock"
state = "/from/file"
[http]
agents = "127.0.0.1:7780"
servers = "127.0.0.1:7781"
"""


@pytest.fixture
def file(tmp_path: Path) -> WorldFile:
    path = tmp_path / "world.toml"
    path.write_text(TEXT)
    return read_world(path)


def test_a_flag_counts_before_a_variable_before_the_file_before_the_default(file: WorldFile) -> None:
    flags, variables = {"socket": "/from/flag.sock"}, {"ROSTRA_SOCKET": "/from/variable.sock"}
    for flag, variable, path, origin in (
        (flags, variables, "/from/flag.sock", "--socket"),
        ({}, variables, "/from/variable.sock", "ROSTRA_SOCKET"),
        ({}, {}, "/from/file.sock", f"{file.path} [agents] socket"),
    ):
        chosen = settle(file, "agent", flag, variable).chosen["socket"]
        assert (chosen.value, chosen.origin) == (SocketPath(path), origin)
    assert settle(file, "agent", {}, {}).chosen["programs_at"].origin == "default"


def test_http_is_for_agents_or_for_servers(file: WorldFile) -> None:
    assert settle(file, "agent", {}, {})["http"] == TcpAddress("127.0.0.1", 7780)
    assert settle(file, "server", {}, {})["http"] == TcpAddress("127.0.0.1", 7781)
    assert settle(file, "server", {"http": "none"}, {})["http"] is None


def test_the_world_is_as_patient_as_was_said_last(file: WorldFile) -> None:
    assert settle(file, "agent", {}, {}).world.links == LinkConfig.lan()
    assert settle(file, "agent", {"profile": "wan"}, {}).world.links == LinkConfig.wan()
    patient = settle(file, "agent", {}, {"ROSTRA_DETECT_DOWN_AFTER_S": "3.5"})
    assert patient.world.links.detect.down_after_s == 3.5
    assert patient.chosen["detect.suspect_phi"].origin == "default of profile lan"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ROSTRA_PROFILE": "moon"}, "ROSTRA_PROFILE 'moon' is unknown"),
        ({"ROSTRA_DETECT_DOWN_AFTER_S": "soon"}, "ROSTRA_DETECT_DOWN_AFTER_S 'soon' is not a number"),
        ({"ROSTRA_DETECT_DOWN_AFTER_S": "0.1"}, "down_after_s must be longer than a heartbeat interval"),
        ({"ROSTRA_DETECT_MEMORY_GAPS": "1.5"}, "ROSTRA_DETECT_MEMORY_GAPS '1.5' is not a number"),
        ({"ROSTRA_JSON_LOGS": "maybe"}, "ROSTRA_JSON_LOGS 'maybe' is neither yes nor no"),
        ({"ROSTRA_SOCKET_MODE": "777"}, "ROSTRA_SOCKET_MODE '777' is not usable"),
        ({"ROSTRA_HTTP": "h3:80"}, "ROSTRA_HTTP 'h3:80' can be reached from other machines"),
    ],
)
def test_a_variable_that_cannot_be_right_is_named(
    file: WorldFile, variables: dict[str, str], said: str
) -> None:
    with pytest.raises(BadInput) as caught:
        settle(file, "agent", {}, variables)
    assert said in caught.value.what


def test_every_setting_has_a_variable_of_its_own() -> None:
    variables = [setting.variable for setting in SETTINGS]
    assert len(set(variables)) == len(variables)
    assert all(variable.startswith("ROSTRA_") for variable in variables)


# SIGHUP


def reloaded(change: tuple[str, str], *, after: str = TEXT) -> tuple[Reloaded, Process]:
    async def take_over() -> tuple[Reloaded, Process]:
        old = parse_world(TEXT.replace("10.0.0.1:7700", "127.0.0.1:0"))
        new = parse_world(after.replace("10.0.0.1:7700", "127.0.0.1:0").replace(*change))
        world = running(Settings(world=old, domains=(Domain("eu"),)), EventLog(quiet=True))
        async with world as process:
            taken = reload(process, world.listeners, new)
            await process.shut_down("test over")
        return taken, process

    return asyncio.run(take_over())


def test_a_new_neighbour_is_met_and_an_address_is_taken_over() -> None:
    taken, process = reloaded(("[agents]", 'us = "10.0.0.2:7700"\n[agents]'))
    assert taken == Reloaded(("[servers] us",), ())
    assert "us" in process.hosted_nodes[Domain("eu")].node.links
    assert process.world.servers[Domain("us")] == TcpAddress("10.0.0.2", 7700)


@pytest.mark.spec("C-181")
def test_a_neighbour_that_is_gone_from_the_file_is_none_any_more() -> None:
    async def both() -> tuple[Reloaded, list[str], bool]:
        with_us = TEXT.replace("10.0.0.1:7700", "127.0.0.1:0").replace(
            "[agents]", 'us = "127.0.0.1:9"\n[agents]'
        )
        old, new = parse_world(with_us), parse_world(TEXT.replace("10.0.0.1:7700", "127.0.0.1:0"))
        world = running(Settings(world=old, domains=(Domain("eu"),)), EventLog(quiet=True))
        async with world as process:
            hosted = process.hosted_nodes[Domain("eu")]
            assert list(hosted.node.links) == ["us"] and process.accepts(hosted, Domain("us"))
            taken = reload(process, world.listeners, new)
            left = list(hosted.node.links), process.accepts(hosted, Domain("us"))
            await process.shut_down("test over")
        return taken, *left

    assert asyncio.run(both()) == (Reloaded(("[servers] us: no longer there",), ()), [], False)


@pytest.mark.spec("C-020")
def test_the_root_is_a_neighbour_only_where_somebody_serves_it() -> None:
    """It carries no traffic and may be absent; then nobody waits for it, counts it or shows it as missing."""
    _, process = reloaded(("[agents]", "[agents]"))
    assert list(process.hosted_nodes[Domain("eu")].node.links) == []
    taken, process = reloaded(("[agents]", 'world = "10.0.0.9:7700"\n[agents]'))
    assert taken == Reloaded(("[servers] world",), ())
    assert list(process.hosted_nodes[Domain("eu")].node.links) == ["world"]


def test_the_number_of_lanes_is_of_the_world_file_and_bounded() -> None:
    assert parse_world(TEXT).agreed.lanes == 0
    assert parse_world(f"{TEXT}[agreed]\nlanes = 64\n").agreed.lanes == 64
    for wrong in ("129", "-1", '"many"', "true"):
        with pytest.raises(BadInput, match=r"\[agreed\] lanes"):
            parse_world(f"{TEXT}[agreed]\nlanes = {wrong}\n")


def test_an_early_flush_is_chosen_in_the_world_file() -> None:
    assert not parse_world(TEXT).agreed.early_flush
    assert parse_world(f"{TEXT}[agreed]\nearly_flush = true\n").agreed.early_flush


def test_a_blocked_side_is_ended_only_if_the_world_file_says_after_how_long() -> None:
    assert parse_world(TEXT).agreed.settle_s == inf
    assert parse_world(f"{TEXT}[agreed]\nsettle_s = 3\n").agreed.settle_s == 3.0
    for wrong in ("0", "-1", "nan", '"3"'):
        with pytest.raises(BadInput, match=r"\[agreed\] settle_s"):
            parse_world(f"{TEXT}[agreed]\nsettle_s = {wrong}\n")


@pytest.mark.parametrize(
    ("change", "restart"),
    [
        (('"lan"', '"wan"'), "[world] profile"),
        (('name = "w"', 'name = "v"'), "[world] name"),
        (("/from/file.sock", "/x.sock"), "[agents] socket"),
        (('"/from/file"', '"/x"'), "[agents] state"),
        (("127.0.0.1:7780", "127.0.0.1:7790"), "[http]"),
        (("[agents]", "[agreed]\nlanes = 64\n[agents]"), "[agreed]"),
        (("[agents]", '"eu.fr" = "10.0.0.3:7700"\n[agents]'), "[servers] eu: holds domains now"),
        (('eu = "127.0.0.1:0"', 'eu = "127.0.0.1:9"'), "[servers] eu: where we listen ourselves"),
        (('eu = "127.0.0.1:0"', 'us = "127.0.0.1:9"'), "[servers] eu: no longer there"),
    ],
)
def test_what_cannot_be_taken_over_is_named(change: tuple[str, str], restart: str) -> None:
    taken, process = reloaded(change)
    assert restart in taken.needs_restart
    assert process.world.name == "w" and process.world.profile == "lan"


# systemd


def test_systemd_is_told_what_becomes_of_us(tmp_path: Path) -> None:
    import socket

    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(path)
        systemd = Systemd({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"})

        async def live() -> None:
            systemd.ready("eu of world w")
            systemd.feed(asyncio.get_running_loop())
            await asyncio.sleep(0.15)  # the supervisor asks for a word in 0.2 s, and gets two
            systemd.reloading()
            systemd.stopping("SIGTERM received")
            systemd.close()

        with asyncio.Runner(loop_factory=PretendLoop) as runner:
            runner.run(live())
        supervisor.setblocking(False)
        told = []
        while True:
            try:
                told.append(supervisor.recv(4096).decode().splitlines()[0])
            except BlockingIOError:
                break
    assert told == ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "RELOADING=1", "STOPPING=1"]


def test_without_systemd_nothing_is_said_and_a_broken_one_does_no_harm() -> None:
    Systemd({}).ready("fine")
    Systemd({"NOTIFY_SOCKET": "/nowhere/notify"}).ready("fine")
