"""Every request of a program, with every kind of name and scope: the agent answers or waits, and lives."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from rostra.names import OPEN, ROOT, Domain, Group
from rostra.protocols.relaxed.requests import Close, Join, Leave
from rostra.sim import World
from tests.cores.test_front import HOST, Caller
from tests.support.samples import REQUESTS

NAMES = ("chess", "acme!payroll", "acme/hr!payroll", f"{HOST}/app-2000#7~7-1718-5", "authority/acme")
SCOPES = (ROOT, Domain("haifa"), Domain(HOST), Domain("oslo"), Domain("haifa.h2"), OPEN)
KINDS = sorted({type(each) for each in REQUESTS} - {Close}, key=lambda kind: kind.__name__)


def variants(request: Any) -> Iterator[Any]:
    """The same about groups of other names and scopes."""
    yield request
    fields = [name for name in request.__struct_fields__ if isinstance(getattr(request, name), Group)]
    for field in fields:
        for name in NAMES:
            for scope in SCOPES:
                yield msgspec.structs.replace(request, **{field: Group(name, scope)})
    if {"name", "scope"} <= set(request.__struct_fields__):
        for name in NAMES:
            for scope in (*SCOPES, None):
                yield msgspec.structs.replace(request, name=name, scope=scope)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_request_about_any_name_ends_its_agent(kind: type) -> None:
    world = World(1, domains={"haifa": 2}, fifo=True).settle()
    ann = Caller(world)
    for request in [each for sample in REQUESTS if type(sample) is kind for each in variants(sample)]:
        for _ in range(2):
            ann.ask(request)
        world.run(0.1)
    world.run(60.0)
    last = Caller(world, 2001)
    for group in (Group("chess", ROOT), Group("go", Domain("haifa"))):
        last.ask(Join(group))
        last.ask(Leave(group))
    assert not last.ended
