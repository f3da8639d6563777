"""The pages that operators read say what the code does: events, metrics, settings, units, commands."""

import ast
import configparser
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rostra.cli import COMMANDS, application
from rostra.cli.page import page
from rostra.config import read_world
from rostra.runtime.lag import BUCKETS_S
from rostra.runtime.settings import SETTINGS
from rostra.runtime.vitals import RELATIONS, LinkVitals, NodeVitals, Vitals
from rostra.web.health import families

ROOT = Path(__file__).parents[2]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
CLI = ROOT / "docs" / "cli.md"

UNITS = sorted((ROOT / "deploy").glob("*.service"))


def section(title: str) -> str:
    return OPERATIONS.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def events_in_source() -> set[str]:
    names: set[str] = set()
    for file in (ROOT / "src" / "rostra").rglob("*.py"):
        if "protocols" in file.parts and file.parent.name not in ("channel", "front"):
            continue  # what these note becomes no line of the log
        text = file.read_text()
        names |= set(re.findall(r"\.note\(\s*\"([a-z_]+)\"", text))
        names |= set(re.findall(r"\.note_rarely\(\s*[^,]+,\s*\"([a-z_]+)\"", text))
    return names | {"link_refused", "link_unreachable"}  # chosen by a condition, in runtime/links.py


def test_every_event_of_the_log_is_explained_and_no_other() -> None:
    explained = set(re.findall(r"^\| `([a-z_]+)` \|", section("Logs"), re.M))
    assert explained == events_in_source()


def test_every_transition_of_the_log_says_because_of_what() -> None:
    rostra = ROOT / "src" / "rostra"
    for file in (*(rostra / "runtime").glob("*.py"), *(rostra / "protocols" / "front").glob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            match call:
                case ast.Call(ast.Attribute(attr="note"), [ast.Constant(str(event))], keywords):
                    if event.startswith(("link_", "program_")):
                        assert "because" in [keyword.arg for keyword in keywords], f"{file.name}: {event}"


def test_every_metric_is_listed_with_its_help() -> None:
    node = NodeVitals(
        "eu",  # type: ignore[arg-type]
        False,
        1,
        {relation: LinkVitals() for relation in RELATIONS},
        {},
        *[0] * 7,
    )
    lag = tuple([0] * (len(BUCKETS_S) + 1))
    vitals = Vitals(0.0, "w", "wan", False, (node,), {}, 0, 0, lag, 0.0, 0.0, 0.0, 0.0)
    ending = {"counter": "_total", "info": "_info"}
    rows = {
        f"| `{each.name}{ending.get(each.type, '')}` | {each.type} | {each.documentation} |"
        for each in families(vitals)
    }
    assert {line for line in section("Metrics").splitlines() if line.startswith("| `rostra_")} == rows


def test_every_setting_is_listed() -> None:
    table = section("Settings")
    for setting in SETTINGS:
        if not setting.name.startswith("detect.") or setting.name == "detect.down_after_s":
            assert f"`{setting.variable}`" in table, setting.variable
            assert not setting.flag or f"`{setting.flag}`" in table, setting.flag


def test_the_page_of_commands_is_current(rewrite_goldens: bool) -> None:
    if rewrite_goldens:
        CLI.write_text(page())
    assert CLI.read_text() == page(), "run  pytest tests/house --rewrite-goldens"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples_that_fits_eighty_columns(command: str) -> None:
    shown = CliRunner().invoke(application(), [command, "--help"])
    assert shown.exit_code == 0
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    if command not in ("sim", "up"):
        assert "Examples:" in shown.stdout


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_units_start_what_exists_and_are_hardened(unit: Path) -> None:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit.read_text())
    service = parser["Service"]
    program, command, *words = service["ExecStart"].split()
    assert program == "/usr/local/bin/rostra" and command in COMMANDS
    help_text = CliRunner().invoke(application(), [command, "--help"]).stdout
    assert all(word in help_text for word in words if word.startswith("--"))
    known = {setting.variable for setting in SETTINGS} | {"ROSTRA_WORLD"}
    assert set(re.findall(r"^Environment=(\w+)=", unit.read_text(), re.M)) <= known
    assert service["Type"] == "notify" and "HUP" in service["ExecReload"]
    for hardening in ("NoNewPrivileges", "ProtectSystem", "PrivateDevices", "SystemCallFilter"):
        assert hardening in service


def test_there_is_a_unit_for_agents_and_one_for_servers_and_a_world_file() -> None:
    assert [unit.name for unit in UNITS] == ["rostra-agent@.service", "rostra-server@.service"]
    assert read_world(ROOT / "deploy" / "world.toml").world.name == "acme"
