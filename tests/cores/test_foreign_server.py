"""A server that is asked about a group of its scope by a host outside it (C-186)."""

import pytest

from rostra.core.effects import LinkUp, Received, Send
from rostra.core.records import Records
from rostra.core.stack import Stack
from rostra.names import Domain, Group
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.scopes.config import ScopesConfig
from rostra.protocols.scopes.foreign import ForeignServer
from rostra.protocols.scopes.messages import ForeignAsked, ForeignTold

EU, FR, STRANGER = Domain("eu"), Domain("eu.fr"), Domain("us.ny.h1")


@pytest.mark.spec("C-186")
@pytest.mark.parametrize(
    ("allowed", "why"), [(False, "this world answers questions from inside only"), (True, "")]
)
def test_a_server_answers_a_stranger_only_where_the_world_allows_it(allowed: bool, why: str) -> None:
    """The stranger's agent may have another world file: the server does not rely on it."""
    foreign = ForeignServer(FR, ScopesConfig(foreign=allowed))
    server = Stack(foreign, DomainServer(FR, cluster=True, incarnation=5, registry=Registry(Records())))
    server.step(0.0, LinkUp(EU, 1))
    asked = ForeignAsked(STRANGER, 1, Group("chess", FR))
    effects = server.step(0.0, Received(EU, asked))
    told = ForeignTold(STRANGER, 1, asked.group, why=why)
    assert [each for each in effects if isinstance(each, Send)] == [Send(EU, told)]
