"""L3: a group is called what our rules refuse. The place that knows it is not taken for silent."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import rostra
from support.hostile_node import HostileNode, document
from support.lab import until

from rostra.names import Domain, make_group
from rostra.web.observatory import Observatory
from rostra.web.places import ClientPlace

pytestmark = pytest.mark.live

BAD = ("a  b@world", "\x1b[2J@world", "@", "chess@..")
TABLE: dict[str, Any] = {"members": [["lab.h1/ann#1", [1, 1], ""]], "watchers": [], "online": []}
GROUPS = dict.fromkeys((*BAD, "chess@world"), TABLE)


@pytest.fixture
def nodes() -> Iterator[dict[str, HostileNode]]:
    documents = {
        "lab": document("lab", core={"server": "domain", "rows": {"a  b@world": {}}}),
        "eu": document("eu", core={"server": "domain", "groups": GROUPS}),
        "us": document("us", core={"server": "domain"}),
        "mars": document("mars", links={"lab": "up"}, programs=7),
        "moon": document("moon", core={"server": "domain"}, streams=[{"group": []}]),
    }
    nodes = {path: HostileNode({path: said}, path) for path, said in documents.items()}
    yield nodes
    for node in nodes.values():
        node.close()


async def test_names_that_are_refused_are_shown_as_refused(nodes: dict[str, HostileNode]) -> None:
    places = [ClientPlace(Domain(path), node.address) for path, node in nodes.items()]
    async with Observatory(places, stays_awake=True) as observatory:
        await observatory.awake()
        stations = {path: observatory._stations[Domain(path)] for path in nodes}
        await until(lambda: make_group("chess", "world") in observatory.groups, "the good name is there")
        await until(lambda: all(stations[path].shown.why for path in ("mars", "moon")), "two are refused")
        await until(lambda: stations["lab"].shown.refused, "its bad name is refused")
        shown = {path: station.shown for path, station in stations.items()}
        happened = [entry.text for entry in observatory.timeline if "moon" in entry.about]
    assert {path: each.state for path, each in shown.items()} == {
        "lab": "answers",
        "eu": "answers",
        "us": "answers",
        "mars": "silent",  # these two say what no node would say
        "moon": "silent",
    }
    assert shown["moon"].why.startswith("it says what cannot be read")
    assert not happened  # it never answered, so that it cannot have fallen silent either
    assert shown["mars"].why.startswith("mars answers with something else than its state")
    assert set(shown["eu"].refused) == set(BAD)
    assert shown["lab"].refused == ("a  b@world",)
    assert list(observatory.groups) == []  # asleep again


def test_commands_name_what_they_leave_out(nodes: dict[str, HostileNode]) -> None:
    answer = rostra("groups", "-a", nodes["lab"].address)
    assert "not shown, because no group may be called so: 'a  b@world'" in answer.err
