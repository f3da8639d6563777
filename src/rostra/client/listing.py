"""A join of a led group that waits until the leader's list has us (S-030).

    join ── the agent accepted it ──▶ a member ──┬── the leader's list has it: the call returns
                                                 └── the deadline has passed: `DeadlineExceeded`. It stays a
                                                     member, and the next join that waits goes on with it

Members that are sent the list look at it when it changes. The others ask the leader, again and again.
"""

import asyncio
from typing import Final, TypeVar

from rostra.client.conversation import Conversation
from rostra.client.group import Membership
from rostra.client.streams import again
from rostra.errors import DeadlineExceeded, NoSuchGroup, RostraError, Unreachable
from rostra.groups.members import Members

AGAIN_S: Final = 0.25
"""Between two questions. Each is answered with the whole list."""

J = TypeVar("J", Membership, Conversation)


def waited_for(known: J | None, wanted: J) -> J | None:
    """The member that an earlier call, with the same settings, did not see listed in time."""
    if known is None or not known.unlisted or known.asks_as != wanted.asks_as:
        return None
    return known


async def until_listed(joined: Membership | Conversation, since_s: float, deadline_s: float | None) -> None:
    """By the clock of the running loop."""
    joined.unlisted = True
    try:
        async with asyncio.timeout_at(None if deadline_s is None else since_s + deadline_s):
            await _listed(joined)
    except TimeoutError as late:
        if isinstance(late, RostraError):
            raise
        raise DeadlineExceeded(
            f"{joined.me.endpoint} is in {joined.group}, but no leader listed it within {deadline_s:g} s",
            fix="the join goes on: to wait for it, join again with wait=True and the same settings",
        ) from None
    except asyncio.CancelledError:
        await joined.close()
        raise
    joined.unlisted = False


async def _listed(joined: Membership | Conversation) -> None:
    me, group = joined.me, joined.group
    if isinstance(joined, Membership) and joined.is_online:
        async for _ in joined:
            if joined.is_known and _is_in(joined, joined.members):
                return
    while (ended := joined.ended) is None:
        try:
            found = await me.resolve(group.name, group.scope, fresh=True)
        except (Unreachable, NoSuchGroup):
            if me.is_closed:
                raise
        else:
            if _is_in(joined, found.members):
                return
        await asyncio.sleep(AGAIN_S)
    raise again(ended)


def _is_in(joined: Membership | Conversation, members: Members) -> bool:
    return any(member.endpoint == joined.me.endpoint for member in members)
