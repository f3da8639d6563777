"""`rostra why`: the explanation of a removal, from what the nodes on the path remember.

An endpoint disappears because of something on the unique path between its host and us: at its own agent, or
at a link of that path that broke. So every node of the path is asked, and their memories
(`protocols/relaxed/trail.py`) are put in order.

    us ── our cluster ── ... ── the accuser ──╳── the accused ── ... ── its agent
                                evidence: what was missed, against which bound
                                                  its own health, if it can be reached

A part of the path that cannot be reached is reported as out of sight. What no node remembers is not guessed,
and a name that no node knows has no story.

Nodes report ages and not times, so their clocks need not agree; but a slow answer makes its events look
younger. Steps are therefore ordered first by cause (`steps`), and only then by time.

recalled   the memories of all nodes on the path, side by side
grounds    the evidence, health and settings behind a broken link
steps      what happened around a moment, causes above effects
story      the kinds of explanations
words      durations and lists for people
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from msgspec.structs import replace

from rostra.client.why.grounds import GroundSetting
from rostra.client.why.recalled import NodeMemory
from rostra.client.why.steps import Step
from rostra.client.why.story import Explanation, Verdict, tell
from rostra.client.why.words import seconds
from rostra.errors import RostraError
from rostra.names import Domain, Endpoint, host_of, parse_subject, route

Recall = Callable[[Domain], Awaitable[Mapping[str, Any]]]
"""Ask a server what it remembers about the subject; a `RostraError` says why it cannot be asked. One that was
asked past the world's own links says so in the document: ``"directly": true``."""


async def explain(
    about: str, start: Domain, recall: Recall, *, from_host: bool = True, known: Collection[Domain] = ()
) -> Explanation:
    """Ask every node on the way, and tell the story. `start` is whom we are connected to; `known` are domains
    and hosts that there are, whether or not a node remembers them."""
    subject = parse_subject(about)
    way = route(start, host_of(Endpoint(subject)), from_host=from_host)
    memories: dict[Domain, NodeMemory] = {}
    unseen: dict[Domain, str] = {}

    async def ask(node: Domain) -> None:
        try:
            memories[node] = NodeMemory(await recall(node), time.time())
        except RostraError as error:
            unseen[node] = error.what.removeprefix(f"{node} is out of sight: ")

    async with asyncio.TaskGroup() as asking:
        for node in way:
            asking.create_task(ask(node))
    ordered = {node: memories[node] for node in way if node in memories}
    story = tell(subject, way, ordered, {node: unseen[node] for node in way if node in unseen}, known)
    directly = tuple(node for node, memory in ordered.items() if memory.document.get("directly"))
    return replace(story, directly=directly)


__all__ = [
    "Explanation",
    "GroundSetting",
    "NodeMemory",
    "Recall",
    "Step",
    "Verdict",
    "explain",
    "seconds",
    "tell",
]
