"""Daemons as their operator meets them: settings, JSON logs, SIGHUP, SIGTERM, HTTP."""

import signal
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from support.cluster import start
from support.lab import WITHIN_S

pytestmark = pytest.mark.live

FILE = '[world]\nname = "w"\nprofile = "lan"\n[servers]\neu = "127.0.0.1:0"\n'


def event(process: "subprocess.Popen[str]", name: str) -> dict[str, Any]:
    """The next event of that name. Every line is one JSON document."""
    assert process.stderr is not None
    for line in process.stderr:
        document: dict[str, Any] = msgspec.json.decode(line)
        assert document["at"].endswith("Z")
        if document["event"] == name:
            return document
    raise AssertionError(f"no {name}")


@pytest.fixture
def world(tmp_path: Path) -> Path:
    file = tmp_path / "world.toml"
    file.write_text(FILE)
    return file


def test_a_daemon_says_what_it_was_told_reloads_and_leaves(world: Path, tmp_path: Path) -> None:
    words = ("server", "--domain", "eu", "--http", "127.0.0.1:0", "--json-logs")
    with start(*words, env={"ROSTRA_WORLD": str(world), "ROSTRA_STATE": str(tmp_path / "state")}) as server:
        try:
            told = event(server, "configured")
            assert told["world_file"] == str(world)
            assert told["http"] == "127.0.0.1:0 (from --http)"
            assert told["state"] == f"{tmp_path}/state (from ROSTRA_STATE)"
            assert told["profile"] == f"lan (from {world} [world] profile)"

            world.write_text(FILE.replace('"lan"', '"wan"') + 'us = "127.0.0.1:9"\n')
            server.send_signal(signal.SIGHUP)
            taken = event(server, "reloaded")
            assert (taken["changed"], taken["needs_restart"]) == ("[servers] us", "[world] profile")

            world.write_text("[world")
            server.send_signal(signal.SIGHUP)
            assert "not valid TOML" in event(server, "reload_failed")["because"]

            server.send_signal(signal.SIGTERM)
            assert event(server, "stopped")["because"] == "SIGTERM received"
            assert server.wait(WITHIN_S) == 0
        finally:
            server.kill()


def test_an_agent_serves_health_metrics_and_the_dashboard(world: Path, tmp_path: Path) -> None:
    with start(
        *("agent", "eu.h1", "-w", str(world), "--socket", str(tmp_path / "s")),
        *("--http", "127.0.0.1:0", "--json-logs"),
    ) as agent:
        try:
            http = f"http://{event(agent, 'http_listening')['address']}"
            assert urlopen(f"{http}/livez", timeout=WITHIN_S).read() == b"ok\n"
            assert (
                b"rostra_runtime_loop_lag_seconds_bucket"
                in urlopen(f"{http}/metrics", timeout=WITHIN_S).read()
            )
            assert b"<!doctype html>" in urlopen(http, timeout=WITHIN_S).read().lower()
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(WITHIN_S) == 0
        finally:
            agent.kill()
