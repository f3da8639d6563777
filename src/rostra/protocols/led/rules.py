"""Which agent or server is the registrar of a group: functions of the group and of those that are reachable.

    scope     the server of the group's scope; where it is out of reach, the widest domain's that is left
    highest   the agent with the highest address (the paper's)
    hash      the agent for which a hash of name and address is the highest: names are spread over agents

All agents that reach the same nodes compute the same registrar (P-1). No other part of led membership depends
on which rule is used.

Where we differ from the paper, and why: `scope` is the default. With `highest` every agent must know all
others, and each agent with a higher address that starts takes all names over (TS20).
"""

from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from typing import Final

from rostra.names import Domain, Group, depth, inside, labels
from rostra.protocols.led.state import AgentId

ANY_NAME: Final = "any"
"""The rule of scopes does not look at names."""

Rule = Callable[[Group, Collection[AgentId]], AgentId | None]


def _address(agent: AgentId) -> tuple[tuple[str, ...], int]:
    """Addresses are ordered by the components of the path, then by the life."""
    return labels(agent.path), agent.life


def scope_rule(group: Group, reachable: Collection[AgentId]) -> AgentId | None:
    """`reachable`: servers, and our own agent for when there is none. The one nearest to the scope, and of
    several the highest."""
    inner = [each for each in reachable if inside(group.scope, each.path)]
    return max(inner, key=lambda each: (-depth(each.path), _address(each)), default=None)


def highest_rule(group: Group, reachable: Collection[AgentId]) -> AgentId | None:
    """`reachable`: the agents of this partition."""
    inner = [each for each in reachable if inside(group.scope, each.path)]
    return max(inner, key=_address, default=None)


def hash_rule(group: Group, reachable: Collection[AgentId]) -> AgentId | None:
    inner = [each for each in reachable if inside(group.scope, each.path)]
    return max(inner, key=lambda each: (_weight(group, each.path), _address(each)), default=None)


def is_lost(scope: Domain, old: AgentId, new: AgentId) -> bool:
    """Is the old registrar lost? Then another life of it, or a worse one by the rule, takes its place."""
    return new.path == old.path or scope_rule(Group(ANY_NAME, scope), (old, new)) == old


def _weight(group: Group, path: Domain) -> bytes:
    return blake2b(f"{group} {path}".encode(), digest_size=8, person=b"rostra-led").digest()


RULES: Final[Mapping[str, Rule]] = {"scope": scope_rule, "highest": highest_rule, "hash": hash_rule}
