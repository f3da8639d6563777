"""The house keeps its own plan: who may lean on whom, and who may not know of time, chance, network and disk.

Imports are read from the source, wherever they stand in a file: one inside a function or behind an `if`
counts too; `TYPE_CHECKING` is no excuse either, because a type that is known is a thing that is leant on.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rostra"

ROOMS = [
    "errors",
    "names",
    "groups",
    "core",
    "protocols",
    "wire",
    "node",
    "replica",
    "stacks",
    "impair",
    "transport",
    "journal",
    "observe",
    "config",
    "client",
    "sync",
    "runtime",
    "sim",
    "testing",
    "history",
    "web",
    "up",
    "lab",
    "cli",
]
"""From the ground up: a room leans only on those before it. A command may start anything: `cli` is on top."""

FRONT_DOOR = "client"
"""Where one comes in by ``import rostra``."""

MAY_NOT_EITHER = {
    "node": {"wire"},  # a node speaks in messages; only its driver knows that they are bytes somewhere
    "replica": {"wire"},
    "stacks": {"wire"},
    "runtime": {"client"},  # programs and nodes meet on the wire only
    "sim": {"runtime", "client"},  # virtual time and real sockets never meet
}

DOORS = {"__init__", "__main__"}
"""They open onto every room."""

ALLOWED = {
    ("names/checks.py", "builtins.exec"),  # compiles what it wrote itself, from the fields of our own classes
    ("up/child.py", "rostra.cli.main"),  # a process of a small world runs the command that anybody would type
}

PROTOCOLS = [
    "detect",
    "links",
    "relaxed",
    "claims",
    "election",
    "flow",
    "channel",
    "fifo",
    "led",
    "agreed",
    "access",
    "scopes",
    "atomic",
    "front",
]
"""From the ground up, inside `protocols`."""

SURPRISES = {
    *(
        "asyncio",
        "concurrent",
        "contextvars",
        "multiprocessing",
        "queue",
        "sched",
        "selectors",
        "signal",
        "threading",
    ),
    *("_thread", "datetime", "time", "zoneinfo", "uvloop"),
    *("numpy", "random", "secrets", "uuid"),
    *("http", "select", "socket", "socketserver", "ssl", "subprocess", "urllib"),
    *(
        "builtins",
        "ctypes",
        "fcntl",
        "glob",
        "importlib",
        "io",
        "logging",
        "mmap",
        "os",
        "pathlib",
        "platform",
    ),
    *("resource", "shelve", "shutil", "sqlite3", "sys", "tempfile", "dbm", "pyarrow", "pickle"),
}
"""Where time, chance, network, disk and other processes come from."""

PURE = {"errors", "names", "groups", "core", "protocols", "node", "replica", "stacks"}
"""Rooms that surprise reaches only as data."""

SPARK = {"pyspark", "pandas", "py4j"}


class Import:
    def __init__(self, module: str, line: int) -> None:
        self.module, self.line = module, line


def imports(source: str) -> Iterator[Import]:
    """Every module that this source mentions in an import, as an absolute name; names from it included."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                for alias in names:
                    yield Import(alias.name, node.lineno)
            case ast.ImportFrom(module, names, level):
                assert level == 0, f"line {node.lineno}: write imports in full"
                for alias in names:
                    yield Import(f"{module}.{alias.name}", node.lineno)
            case ast.Call(ast.Name("__import__")):
                yield Import("builtins.__import__", node.lineno)
            case ast.Call(ast.Name("open" | "exec" | "eval" | "input" as name)):
                yield Import(f"builtins.{name}", node.lineno)


def trespasses(path: str, source: str) -> list[str]:
    """What this file, named from `src/rostra/`, imports and should not."""
    room = path.partition("/")[0].removesuffix(".py")
    if room in DOORS:
        return []
    found = []
    for each in imports(source):
        top, _, below = each.module.partition(".")
        forbidden = (
            not_in_order(path, room, below)
            if top == "rostra"
            else not_for(room, top)
            if top in SURPRISES | SPARK
            else ""
        )
        if forbidden and (path, each.module) not in ALLOWED:
            found.append(f"{path}:{each.line} imports {each.module}: {forbidden}")
    return found


def not_in_order(path: str, room: str, module: str) -> str:
    other, _, below = module.partition(".")
    if other not in ROOMS:
        other = FRONT_DOOR
    if ROOMS.index(other) > ROOMS.index(room):
        return f"{room} comes before {other}"
    if other in MAY_NOT_EITHER.get(room, ()):
        return f"{room} may not know of {other}"
    if room == other == "protocols":
        mine = path.split("/")[1].removesuffix(".py")
        theirs = below.partition(".")[0]
        if mine in PROTOCOLS and theirs in PROTOCOLS and PROTOCOLS.index(theirs) > PROTOCOLS.index(mine):
            return f"{mine} comes before {theirs}"
    return ""


def not_for(room: str, module: str) -> str:
    if module in SPARK:
        return "" if room == "history" else "only history knows of Spark"
    return "surprise enters as data only" if room in PURE else ""


def source_files() -> list[str]:
    return sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", source_files())
def test_every_file_leans_only_on_what_is_below_it(path: str) -> None:
    assert trespasses(path, (SOURCE / path).read_text()) == []


def test_every_room_is_on_the_plan() -> None:
    rooms = {path.partition("/")[0].removesuffix(".py") for path in source_files()} - DOORS
    assert rooms <= set(ROOMS)
    protocols = {
        path.split("/")[1].removesuffix(".py") for path in source_files() if path.startswith("protocols/")
    }
    assert protocols - {"__init__"} <= set(PROTOCOLS)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("protocols/relaxed/local.py", "import asyncio"),
        ("protocols/relaxed/local.py", "from time import monotonic"),
        ("protocols/relaxed/local.py", "import os.path as p"),
        ("protocols/detect/core.py", "def roll():\n    import random\n    return random.random()"),
        ("protocols/links/core.py", "if True:\n    from socket import socket"),
        ("core/effects.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sqlite3"),
        ("protocols/relaxed/local.py", "from rostra.runtime import node"),
        ("protocols/relaxed/local.py", "import rostra.sim.world"),
        ("protocols/relaxed/local.py", "from rostra import wire"),
        ("protocols/relaxed/local.py", "from rostra.node import Node"),
        ("protocols/relaxed/local.py", "__import__('random')"),
        ("protocols/relaxed/registry.py", "open('/etc/passwd')"),
        ("protocols/links/core.py", "from rostra.protocols.relaxed.messages import Message"),
        ("protocols/detect/core.py", "from rostra.protocols.links.core import Link"),
        ("protocols/relaxed/local.py", "import rostra"),
        ("runtime/process.py", "from rostra import connect"),
        ("web/places.py", "from rostra.cli.members import table"),
        ("node.py", "import threading"),
        ("node.py", "from rostra.wire import Encoder"),
        ("node.py", "from rostra.runtime.links import Links"),
        ("names/groups.py", "from rostra.core.effects import Event"),
        ("names/groups.py", "import uuid"),
        ("errors.py", "from rostra.names import Domain"),
        ("errors.py", "import logging"),
        ("wire/reader.py", "from rostra.transport.connection import Connection"),
        ("wire/reader.py", "from rostra.sim import world"),
        ("wire/reader.py", "from rostra.client import connect"),
        ("wire/reader.py", "from rostra.cli import main"),
        ("sim/world.py", "from rostra.runtime.store import Store"),
        ("observe/trace.py", "from rostra.sim.programs import SimProgram"),
        ("node.py", "from rostra.observe.recording import Recorder"),
        ("client/me.py", "from rostra.runtime.process import Process"),
        ("core/effects.py", "from rostra.protocols.links.core import Link"),
        ("protocols/flow/streams.py", "from rostra.protocols.fifo.messages import Role"),
        ("runtime/process.py", "import pyspark"),
        ("client/me.py", "from pandas import DataFrame"),
        ("client/me.py", "def later():\n    from pyspark.sql import SparkSession"),
        ("cli/history.py", "import pyspark"),
    ],
)
def test_a_planted_trespass_is_found(path: str, source: str) -> None:
    assert len(trespasses(path, source)) >= 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "protocols/relaxed/local.py",
            "import math\nfrom rostra.names import Domain\nfrom rostra.errors import Refused",
        ),
        ("protocols/links/core.py", "from rostra.protocols.detect.core import Detector"),
        ("node.py", "from rostra.protocols.links.core import Link"),
        ("names/groups.py", "from rostra.errors import BadName\nfrom rostra.names.domains import Domain"),
        ("wire/reader.py", "import sys\nfrom rostra.core.effects import Because"),
        (
            "runtime/process.py",
            "import asyncio, os\nfrom rostra.node import Node\nfrom rostra.wire import Encoder",
        ),
        ("history/jobs.py", "from pyspark.sql import DataFrame"),
        ("cli/sim.py", "from rostra.sim.story import tell"),
        ("__init__.py", "from rostra.client import connect"),
    ],
)
def test_what_the_plan_allows_is_left_alone(path: str, source: str) -> None:
    assert trespasses(path, source) == []


def test_an_import_that_does_not_say_from_where_is_refused() -> None:
    with pytest.raises(AssertionError, match="write imports in full"):
        trespasses("protocols/relaxed/local.py", "from . import messages")
