"""Rates and lags, made of what hosts say of their members' streams."""

import math
from typing import Any

from rostra.names import Domain
from rostra.web.observatory import Observatory
from rostra.web.places import Silent, StateKnown
from rostra.web.streams import RECEIVERS_MAX, StreamReader

HOST = Domain("eu.paris.h1")
ANN, BOB = "eu.paris.h1/ann#1", "us.boston.h1/bob#1"


def member(sent: int = 0, next_number: int = 1, **values: Any) -> dict[str, Any]:
    heard = {"first": 1, "next": next_number, "emitted": next_number - 1, "missing": 0, "repaired": 0}
    heard |= {name: values.pop(name) for name in list(values) if name in heard}
    said = {"group": "chat@world", "member": ANN, "role": "both", "paused": False, "sent": sent}
    said |= {"confirmed": sent, "waiting": 0, "blocked": False, "hears": {BOB: heard}}
    return said | values


def document(*members: dict[str, Any]) -> dict[str, Any]:
    core = {"server": "agent", "groups": {}}
    return {
        "world": "w",
        "profile": "lan",
        "node": HOST,
        "incarnation": 1,
        "core": core,
        "links": {},
        "programs": [],
        "watches": {},
        "streams": list(members),
    }


class Quiet:
    """A place that says nothing by itself."""

    path, address = HOST, "nowhere"

    async def run(self, hear: Any) -> None: ...

    def follow(self, groups: Any) -> None: ...


def test_two_documents_far_enough_apart_make_a_rate() -> None:
    listener = StreamReader(HOST)
    assert listener.hear(10.0, [member(100, 50)]).senders[0].rate is None
    assert listener.hear(10.1, [member(900, 90)]).senders[0].rate is None, "too soon to tell"
    found = listener.hear(12.0, [member(120, 70)])
    assert math.isclose(found.senders[0].rate or 0, 10.0) and math.isclose(found.receivers[0].rate or 0, 10.0)
    again = listener.hear(12.5, [member(500, 70)])
    assert again.senders[0].rate == found.senders[0].rate, "until the next is known"
    assert listener.hear(14.0, [member(0, 1)]).senders[0].rate == 0.0, "a new life counts from nothing"


def test_a_receiver_is_behind_by_what_was_emitted_and_not_handed_to_it() -> None:
    troubles = {"paused": True, "confirmed": 5, "waiting": 2, "blocked": True}
    late = member(7, 41, emitted=60, missing=3, repaired=12, **troubles)
    found = StreamReader(HOST).hear(1.0, [late])
    (hearing,), (speaker,) = found.receivers, found.senders
    assert (hearing.heard, hearing.behind, hearing.missing, hearing.repaired) == (40, 20, 3, 12)
    assert hearing.paused and (hearing.sender, hearing.member) == (BOB, ANN)
    assert (speaker.sent, speaker.unconfirmed, speaker.waiting, speaker.blocked) == (7, 2, 2, True)


def test_who_only_listens_is_no_speaker() -> None:
    assert StreamReader(HOST).hear(1.0, [member(role="receive")]).senders == ()


def test_who_submits_is_a_speaker_that_hears_nobody_and_is_marked() -> None:
    found = StreamReader(HOST).hear(1.0, [member(7, role="submit", confirmed=4, hears={}), member(2)])
    assert [(each.sent, each.unconfirmed, each.submits) for each in found.senders] == [
        (7, 3, True),
        (2, 0, False),
    ]
    assert len(found.receivers) == 1


def test_those_that_are_furthest_behind_are_shown_first_and_the_rest_is_counted() -> None:
    hears = {
        f"us.h{n}/s#1": {"first": 1, "next": 1, "emitted": n, "missing": 0, "repaired": 0}
        for n in range(RECEIVERS_MAX + 5)
    }
    found = StreamReader(HOST).hear(1.0, [member(hears=hears)])
    assert len(found.receivers) == RECEIVERS_MAX and found.more == 5
    assert found.receivers[0].behind == RECEIVERS_MAX + 4 and found.receivers[-1].behind == 5


async def test_subscribers_hear_of_speech_and_of_its_end() -> None:
    async with Observatory([Quiet()]) as observatory, observatory.subscribe() as news:
        await news.next(0.1)
        observatory.hear(HOST, StateKnown(1.0, document()))
        observatory.hear(HOST, StateKnown(2.0, document(member(5))))
        observatory.hear(HOST, Silent(3.0, "gone"))
        kinds = [frame.kind for frame in await news.next(1.0) or ()]
        assert kinds.count("streams") == 2, "none for a host that never spoke"
        assert observatory.streams() == [] and observatory.snapshot()["streams"] == []
