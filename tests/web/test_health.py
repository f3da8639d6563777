"""Health and metrics: what supervisors and Prometheus are told, and that asking harms nobody."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from support.lab import WITHIN_S, until

from rostra.client import connect
from rostra.config import parse_world
from rostra.errors import BadInput
from rostra.names import Domain
from rostra.observe.log import EventLog
from rostra.runtime.lag import BUCKETS_S, Lag
from rostra.runtime.process import Process
from rostra.runtime.run import Settings, running
from rostra.runtime.vitals import RELATIONS, LinkVitals, NodeVitals, Vitals
from rostra.transport.addresses import SocketPath, TcpAddress
from rostra.web.beside import http_beside
from rostra.web.health import COUNTED, Ask, exposition, families, health, readiness

SOURCE = Path(__file__).parents[2] / "src" / "rostra"

AGENT = NodeVitals(
    Domain("eu.h1"),
    True,
    7,
    {"parent": LinkVitals(1, 1, 0, 0.1), "sibling": LinkVitals(), "child": LinkVitals()},
    {},
    programs=2,
    programs_suspected=1,
    programs_behind=0,
    groups=3,
    endpoints=4,
    open_questions=0,
    unsynced=0,
)
VITALS = Vitals(
    at=0.0,
    world="w",
    profile="lan",
    draining=False,
    nodes=(AGENT,),
    counters={("ignored", "late reply"): 3, ("links_down", "silent"): 1, ("notices_missed", ""): 12},
    forgotten=0,
    turns=99,
    lag_counts=(5, *[0] * (len(BUCKETS_S) - 1), 1),
    lag_sum_s=7.5,
    lag_worst_s=0.004,
    silent_s=0.02,
    turn_cpu_s=0.01,
)


async def answer(ask: Ask, path: str) -> httpx.Response:
    app = httpx.ASGITransport(app=Starlette(routes=health(ask)))
    async with httpx.AsyncClient(transport=app, base_url="http://127.0.0.1") as client:
        return await client.get(path)


def saying(vitals: Vitals) -> Ask:
    async def ask() -> Vitals:
        return vitals

    return ask


async def stuck() -> Vitals:
    raise TimeoutError


# Alive, ready


async def test_a_loop_that_answers_is_alive_and_one_that_does_not_is_not() -> None:
    assert (await answer(saying(VITALS), "/livez")).status_code == 200
    dead = await answer(stuck, "/livez")
    assert (dead.status_code, dead.text) == (503, "the loop has not answered for 2 s\n")
    assert (await answer(stuck, "/readyz")).status_code == 503
    assert (await answer(stuck, "/metrics")).status_code == 503


async def test_an_agent_is_ready_while_its_cluster_hears_it() -> None:
    assert (await answer(saying(VITALS), "/readyz")).text == "ok\n"
    alone = replace(
        AGENT,
        links={**AGENT.links, "parent": LinkVitals(1, 0)},
        wanting={Domain("eu"): "down, last heard 3.0 s ago"},
    )
    cut_off = await answer(saying(replace(VITALS, nodes=(alone,))), "/readyz")
    assert (cut_off.status_code, cut_off.text) == (503, "eu.h1 above: eu down, last heard 3.0 s ago\n")


async def test_a_sibling_that_is_down_is_shown_and_is_not_our_trouble() -> None:
    server = replace(
        AGENT, path=Domain("eu"), is_agent=False, wanting={Domain("us"): "never seen"}, unsynced=2
    )
    shown = await answer(saying(replace(VITALS, nodes=(server,))), "/readyz?verbose")
    assert shown.status_code == 200
    assert shown.text.splitlines() == [
        "[+] loop: answers; 4 ms late at worst in the last minute",
        "[+] staying: not leaving",
        "[+] eu above: up",
        "[+] eu beside: us never seen",
        "[+] eu children: 2 still registering",
        "ready",
    ]


async def test_a_process_that_is_leaving_is_not_ready() -> None:
    leaving = await answer(saying(replace(VITALS, draining=True)), "/readyz?verbose")
    assert leaving.status_code == 503
    assert "[-] staying: leaving" in leaving.text and leaving.text.endswith("not ready\n")
    assert not all(check.ok for check in readiness(replace(VITALS, draining=True)))


# Metrics


async def test_prometheus_can_read_it_and_names_follow_the_house() -> None:
    scraped = await answer(saying(VITALS), "/metrics")
    assert scraped.headers["content-type"].startswith("text/plain; version=")
    found = {family.name: family for family in text_string_to_metric_families(scraped.text)}
    ours = {name: family for name, family in found.items() if name.startswith("rostra_")}
    assert len(ours) > 25
    for name, family in ours.items():
        assert re.fullmatch(r"rostra_(runtime|resolve|links|wire|journal)_[a-z_]+", name), name
        assert re.search(r"better\.|good or bad\.|Which process", family.documentation), name
    assert "process_resident_memory_bytes" in found


def test_values_are_what_was_counted() -> None:
    text = exposition(VITALS).decode()
    for line in (
        'rostra_resolve_ignored_total{why="late reply"} 3.0',
        'rostra_links_down_total{because="silent"} 1.0',
        "rostra_runtime_notices_missed_total 12.0",
        'rostra_links_up{node="eu.h1",relation="parent"} 1.0',
        'rostra_runtime_programs_suspected{node="eu.h1"} 1.0',
        'rostra_runtime_loop_lag_seconds_bucket{le="0.001"} 5.0',
        'rostra_runtime_loop_lag_seconds_bucket{le="+Inf"} 6.0',
        "rostra_runtime_loop_lag_seconds_sum 7.5",
    ):
        assert line in text.splitlines(), line


def test_everything_that_is_counted_has_a_metric() -> None:
    counted = set()
    for file in SOURCE.rglob("*.py"):
        counted |= set(re.findall(r"record\.count\(\s*\"([a-z_]+)\"", file.read_text()))
    assert counted and counted <= COUNTED.keys()


def test_labels_are_small_sets_and_never_names_of_members() -> None:
    labels = {
        label for family in families(VITALS) for sample in family.samples for label in sample.labels
    } - {"le"}
    assert labels <= {
        *("node", "relation", "why", "because", "code", "event", "what"),
        *("role", "world", "profile", "incarnation"),
    }


# Beside a real node


@contextlib.asynccontextmanager
async def agent(tmp_path: Path) -> AsyncIterator[tuple[Process, str]]:
    world = parse_world('[world]\nname = "w"\nprofile = "lan"\n[servers]\neu = "127.0.0.1:1"\n')
    own = SocketPath(str(tmp_path / "a.sock"))
    settings = Settings(world=world, host=Domain("eu.h1"), socket=own)
    async with (
        running(settings, EventLog(quiet=True)) as process,
        http_beside(process, TcpAddress("127.0.0.1", 0), own),
    ):
        assert process.http is not None
        yield process, process.http
        await process.shut_down("test over")


async def get(address: str, path: str) -> tuple[int, str]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


async def test_a_real_agent_answers_in_a_thread_of_its_own(tmp_path: Path) -> None:
    async with agent(tmp_path) as (process, http), connect(str(tmp_path / "a.sock")) as me, me.join("chess"):
        assert (await get(http, "/livez"))[0] == 200
        status, body = await get(http, "/readyz?verbose")
        assert status == 503 and "[-] eu.h1 above: eu never seen" in body
        text = (await get(http, "/metrics"))[1]
        assert 'rostra_resolve_groups{node="eu.h1"} 1.0' in text
        assert (await get(http, "/api"))[0] == 200
        assert (await get(http, "/"))[0] == 200
        assert not process.failed.done()


async def test_a_loop_that_is_stuck_is_found_out_and_lateness_is_recorded(tmp_path: Path) -> None:
    async with agent(tmp_path) as (process, http):
        host, _, port = http.rpartition(":")

        def ask() -> bytes:
            import socket

            with socket.create_connection((host, int(port)), timeout=WITHIN_S) as caller:
                caller.sendall(f"GET /livez HTTP/1.1\r\nHost: {http}\r\nConnection: close\r\n\r\n".encode())
                return caller.recv(4096)

        with ThreadPoolExecutor(1) as elsewhere:
            answer = elsewhere.submit(ask).result(WITHIN_S)  # the node's loop stands still, on purpose
        assert b" 503 " in answer.partition(b"\r\n")[0]
        await until(lambda: process.lag.worst_s > 1.0, "its lateness is measured")
        assert process.record.counters["event", "loop_late"] >= 1

        async def answers() -> bool:
            return (await get(http, "/livez"))[0] == 200

        await until(answers, "it turns again")


async def test_http_that_cannot_be_served_says_so_and_a_node_can_end_while_it_is_read(tmp_path: Path) -> None:
    async with agent(tmp_path) as (process, http):
        host, _, port = http.rpartition(":")
        with pytest.raises(BadInput, match="Address already in use"):
            async with http_beside(process, TcpAddress(host, int(port)), SocketPath("/nowhere")):
                pass
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET /api/events HTTP/1.1\r\nHost: {http}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def test_whoever_does_not_speak_http_leaves_no_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent(tmp_path) as (_, http):
        host, _, port = http.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\0\0\0\5hello")
        assert b" 400 " in await reader.readline()
        writer.close()
    assert caplog.messages == []


def test_lag_is_put_into_buckets() -> None:
    async def measure() -> Lag:
        lag = Lag(asyncio.get_running_loop(), EventLog(quiet=True), time.thread_time)
        lag.start()
        await asyncio.sleep(0.3)
        time.sleep(0.3)
        await asyncio.sleep(0.3)
        lag.stop()
        return lag

    lag = asyncio.run(measure())
    assert sum(lag.counts) >= 2 and lag.worst_s > 0.05 and lag.sum_s >= lag.worst_s


def test_every_relation_is_shown() -> None:
    assert set(AGENT.links) == set(RELATIONS)
