"""Drivers know no core by its class: they ask a stack for a service by its name.

A core is a class with `step(self, now, event)`. Of those, services are never told apart by their class
outside of `core/`; the machines inside a service only by their own protocol.
"""

import ast
from collections.abc import Iterator
from functools import cache
from inspect import isabstract
from pathlib import Path

import pytest

from rostra.core.stack import Service
from rostra.protocols.channel.relay import FrameRelay
from rostra.stacks import SERVICES
from rostra.wire.numbers import BLOCKS, MESSAGES, REQUESTS

SOURCE = Path(__file__).parents[2] / "src" / "rostra"


@cache
def cores() -> dict[str, str]:
    """Every core, and where only it may be told from others: its protocol; nowhere, if it is a service."""
    services = {each.__name__ for each in SERVICES}
    found: dict[str, str] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any(map(_is_step, node.body)):
                home = "" if node.name in services else str(path.parent.relative_to(SOURCE))
                found[node.name] = home
    return found


def _is_step(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.FunctionDef)
        and node.name == "step"
        and [each.arg for each in node.args.args][:3] == ["self", "now", "event"]
    )


def type_tests(source: str) -> Iterator[tuple[int, str]]:
    """Where a class is asked for, and its name."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(ast.Name("isinstance" | "issubclass"), [_, kinds]):
                yield from ((node.lineno, name) for name in _names(kinds))
            case ast.Compare(ast.Call(ast.Name("type")), comparators=kinds_):
                yield from ((node.lineno, name) for kinds in kinds_ for name in _names(kinds))
            case ast.MatchClass(kind):
                yield from ((kind.lineno, name) for name in _names(kind))


def _names(kinds: ast.expr) -> Iterator[str]:
    for node in ast.walk(kinds):
        match node:
            case ast.Name(name) | ast.Attribute(attr=name):
                yield name


def wrong(path: str, source: str) -> list[str]:
    if path.startswith("core/"):
        return []
    return [
        f"{path}:{line} looks for a {name}"
        for line, name in type_tests(source)
        if name in cores() and not (cores()[name] and path.startswith(f"{cores()[name]}/"))
    ]


@pytest.mark.parametrize("path", sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")))
def test_no_file_tells_cores_apart_by_their_class(path: str) -> None:
    assert wrong(path, (SOURCE / path).read_text()) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("runtime/data.py", "isinstance(core, HostCore)"),
        ("sim/world.py", "if isinstance(core, LocalServer | DomainServer): pass"),
        ("replica.py", "server = core.server if isinstance(core, (ElectionCore, ClusterCore)) else core"),
        ("sim/lies.py", "match core:\n    case LocalServer(open=open): pass"),
        ("runtime/process.py", "match core:\n    case local.LocalServer() | 3: pass"),
        ("node.py", "type(self.core) is DomainServer"),
        ("protocols/fifo/core.py", "isinstance(service, HostCore)"),
        ("runtime/inspect.py", "isinstance(each, MemberCore)"),
        ("protocols/relaxed/local.py", "isinstance(each, DelegateCore)"),
    ],
)
def test_a_planted_type_test_is_found(path: str, source: str) -> None:
    assert wrong(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("core/stack.py", "isinstance(core, HostCore)"),
        ("protocols/fifo/cluster.py", "isinstance(machine, DelegateCore)"),
        ("runtime/data.py", "isinstance(event, Heard)\nstack.find(HOST)"),
    ],
)
def test_what_may_be_told_apart_is_left_alone(path: str, source: str) -> None:
    assert wrong(path, source) == []


def concrete(base: type[Service]) -> Iterator[type[Service]]:
    for each in base.__subclasses__():
        if isabstract(each):
            yield from concrete(each)
        else:
            yield each


def test_every_service_has_a_block_of_numbers_and_takes_no_message_of_another() -> None:
    ours = {each for each in concrete(Service) if each.__module__.startswith("rostra.")}
    assert ours == set(SERVICES), "the builder of stacks lists them"
    for service in SERVICES:
        if service is FrameRelay:
            continue  # it has no messages of its own, and carries the kinds that it is built with
        protocol = service.name.protocol
        assert protocol in BLOCKS["message"], f"{service.name} has no block of messages"
        for table, numbers in (("message", MESSAGES), ("request", REQUESTS)):
            for number, kind in numbers.items():
                owner = next(name for name, block in BLOCKS[table].items() if any(number in r for r in block))
                if kind in service.takes and owner != protocol:
                    assert kind.__name__ in LENT[service.name], f"{service.name} takes {kind.__name__}"


LENT = {
    "fifo host": {"Close"},  # the last messages of an endpoint are cared for before it ends
    "fifo cluster": {"Routed"},  # the first message to a delegate brings it to life
    "atomic agent": {"Close"},  # of groups with a monitor of their own
    "access unique": {"Close"},  # a program that ends founds nothing
    "agreed agent": {"Close"},  # an endpoint that is closed leaves, and did not crash
    "agreed server": {"SyncDone"},  # then the child has said all that it holds
    "led agent": {"Close", "Resolve"},  # it remembers the name that is asked for without a scope
    # What it may join ends with it; and a leave takes back a join about which an authority is asked.
    "access agent": {"Close", "Leave", "LeaveLed"},
    "access names": {"Claim"},  # the first claim of a name that nobody was assigned is shown
    "scopes open agent": {"Close"},  # an endpoint that is closed leaves
    "scopes foreign agent": {"Resolve"},  # of a scope that the host is not in
    "election replica": {"Inspect"},
}
"""Kinds of another protocol that a service takes as well, and why."""
