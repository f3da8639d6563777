"""What a conversation makes of what its agent tells: members that are lost with a domain, and come back."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rostra.client import Cause, Conversation, Joined, View, Without
from rostra.client import conversation as conversations
from rostra.groups.attributes import Role, Slow
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.fifo import events as told

ANN, BOB, CID = Endpoint("eu.h1/ann#1"), Endpoint("us.h1/bob#1"), Endpoint("us.h1/cid#1")
LOST = {"only": told.Only(Domain("eu")), "without": told.Without(Domain("us"))}


def conversation() -> Conversation:
    me: Any = SimpleNamespace(host=Domain("eu.h1"), endpoint=ANN, is_closed=False)
    talk = Conversation(me, Group("chess", Domain("world")), role=Role.BOTH, slow=Slow.THROTTLE, meta=b"")
    talk.hear(told.Ready(((ANN, Role.BOTH, b""), (BOB, Role.BOTH, b""))))
    return talk


def heard(talk: Conversation, *items: told.Item, count: int = 0) -> list[Any]:
    """What its reader gets for these, after the first list."""

    async def read() -> list[Any]:
        for item in items:
            talk.hear(item)
        return [await anext(talk.items()) for _ in range(1 + (count or len(items)))]

    got = asyncio.run(read())
    assert isinstance(got[0], View)
    return got[1:]


@pytest.mark.spec("X-064", "C-058")
@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
@pytest.mark.parametrize("missed", [False, True], ids=["resumed", "gap"])
def test_a_member_that_was_lost_with_a_domain_comes_back_by_merge(lost: told.Item, missed: bool) -> None:
    gap = (told.Gap(BOB, 4, 9),) if missed else ()
    *_, joined = heard(conversation(), lost, *gap, told.Joined(BOB, Role.BOTH, resumed=not missed))
    assert isinstance(joined, Joined) and (joined.members[0].endpoint, joined.cause) == (BOB, Cause.MERGE)


@pytest.mark.spec("X-064", "C-058")
def test_members_that_come_back_together_are_one_change_and_their_losses_are_no_news() -> None:
    changes = heard(
        conversation(),
        told.JoinedTogether(((CID, Role.BOTH, b""),)),
        told.Without(Domain("us")),
        told.ChangesTogether((told.Left(BOB, "disconnected", 3), told.Left(CID, "disconnected", 0))),
        told.ChangesTogether((told.Joined(BOB, Role.BOTH, resumed=True), told.Joined(CID, Role.BOTH))),
        count=3,
    )
    assert [(type(each), getattr(each, "cause", None)) for each in changes] == [
        (Joined, Cause.JOIN),
        (Without, None),
        (Joined, Cause.MERGE),
    ]
    assert [member.endpoint for member in changes[-1].members] == [BOB, CID]


def test_of_members_that_come_together_those_that_were_lost_are_back() -> None:
    dan = Endpoint("us.h1/dan#1")
    together = told.JoinedTogether(((BOB, Role.RECEIVE, b""), (dan, Role.RECEIVE, b"")))
    *_, bob, other = heard(conversation(), LOST["without"], together, count=3)
    assert [(each.cause, each.members[0].endpoint) for each in (bob, other)] == [
        (Cause.MERGE, BOB),
        (Cause.JOIN, dan),
    ]


def test_one_that_was_not_there_before_joins_and_so_does_one_that_left() -> None:
    changes = heard(
        conversation(),
        told.Without(Domain("us")),
        told.Joined(CID, Role.BOTH),
        told.Joined(BOB, Role.BOTH),
        told.Left(BOB, "left", 3),
        told.Joined(BOB, Role.BOTH),
    )
    causes = [change.cause for change in changes if isinstance(change, Joined)]
    assert causes == [Cause.JOIN, Cause.MERGE, Cause.JOIN]


def test_the_latest_lost_members_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "LOST_MAX", 1)
    back = [told.Joined(each, Role.BOTH) for each in (BOB, CID)]
    *_, bob, cid = heard(conversation(), told.Joined(CID, Role.BOTH), LOST["without"], *back)
    assert (bob.cause, cid.cause) == (Cause.JOIN, Cause.MERGE)
