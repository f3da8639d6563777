"""What a node sees becomes rows that say who, what, as seen from where, and why."""

from pathlib import Path
from typing import Any

import pytest

from rostra.core.effects import Answer, Asked, Effect, EndpointGone, Event, LinkUp, Tell, TimerFired
from rostra.core.observer import BESIDE, TURN_ENDED, FramesWritten
from rostra.groups.attributes import Role
from rostra.groups.members import Because, Cause, Member
from rostra.journal.entries import OBSERVERS_MAX, Entry
from rostra.names import Domain, Endpoint, Group
from rostra.observe.scribe import Scribe
from rostra.protocols.detect.programs import ProgramEvidence
from rostra.protocols.fifo import events as fifo_events
from rostra.protocols.fifo.events import Deliver, JoinAsked, LeaveAsked
from rostra.protocols.flow.messages import Run
from rostra.protocols.front.events import EndpointsSuspected, EndpointsTrusted, WatchBegan, WatchEnded
from rostra.protocols.links.events import ChannelClosed, PacketArrived, Transmit
from rostra.protocols.links.packets import Beat, Data
from rostra.protocols.relaxed.messages import Interest, InterestChanged, MessageId
from rostra.protocols.relaxed.requests import (
    Absolute,
    Changed,
    Close,
    Denied,
    Done,
    Join,
    Joined,
    Left,
    Open,
    Opened,
    Resolve,
    Resolved,
    Snapshot,
    Watch,
    Without,
)
from rostra.sim import World
from rostra.sim.journal import journal_of

HOST, EU, WORLD = Domain("eu.h1"), Domain("eu"), Domain("world")
ANN, BOB = Endpoint("eu.h1/ann#1"), Endpoint("eu.h2/bob#2")
CHESS = Group("chess", WORLD)
ID = MessageId(EU, 1, 1)


class Desk:
    """A scribe of an agent, and what it wrote."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.now = 1.0
        self.scribe = Scribe(
            HOST, "agent", 7, self.entries.append, wall_us=lambda: round(self.now * 1e6), heartbeat_s=10.0
        )
        self._token = 0

    def saw(self, event: Event | None, effects: list[Any]) -> None:
        """A step; without an event, the end of a turn."""
        self.scribe.saw(self.now, HOST, event or TURN_ENDED, effects)

    def saw_beside(self, *effects: Effect) -> None:
        self.scribe.saw(self.now, HOST, BESIDE, effects)

    def heartbeat(self) -> None:
        self.now = 12.0
        self.saw(TimerFired(("tick",)), [])

    def asks(self, endpoint: Endpoint, request: Any, answer: Any, *more: Any, later_s: float = 0.0) -> None:
        self._token += 1
        asked, answered = Asked(endpoint, self._token, request), Answer(self._token, answer)
        if not later_s:
            self.saw(asked, [answered, *more])
            return
        self.saw(asked, [])
        self.now += later_s
        self.saw(None, [answered, *more])

    def opened(self, endpoint: Endpoint) -> "Desk":
        self.asks(Endpoint(""), Open("x"), Opened(endpoint))
        return self

    def take(self) -> list[tuple[str, dict[str, Any]]]:
        """What was written since the last look, without what is not said."""
        taken = [
            (entry.kind, {name: value for name, value in entry.columns.items() if value is not None})
            for entry in self.entries
        ]
        self.entries.clear()
        return taken


@pytest.fixture
def desk() -> Desk:
    desk = Desk().opened(ANN)
    desk.take()
    return desk


def test_a_join_is_a_membership_and_a_following_in_the_order_in_which_they_came_about(desk: Desk) -> None:
    desk.asks(ANN, Join(CHESS), Done(), Tell((ANN,), Absolute(CHESS, (Member(ANN, (7, 1)),))))
    kinds = [entry.kind for entry in desk.entries]
    assert kinds == ["member-joined", "followed", "absolute"]
    joined, _, absolute = desk.entries
    assert joined.columns | {"cause": None} == {
        "group": "chess@world",
        "member": ANN,
        "life": 7,
        "stamp": 1,
        "cause": None,
    }
    assert absolute.lines is not None
    assert [(line.member, line.change, line.news) for line in absolute.lines] == [(ANN, "joined", True)]


def test_a_join_that_was_denied_is_a_refusal_and_nothing_else(desk: Desk) -> None:
    desk.asks(ANN, Join(CHESS), Denied("NOT_IN_SCOPE", "no"))
    assert desk.take() == [
        ("refused", {"member": ANN, "group": "chess@world", "what": "NOT_IN_SCOPE", "message": "Join"})
    ]


def test_a_program_that_died_left_its_groups_by_crashing(desk: Desk) -> None:
    desk.asks(ANN, Join(CHESS), Done(), Tell((ANN,), Absolute(CHESS, (Member(BOB, (3, 4)),))))
    desk.take()
    desk.saw(EndpointGone(ANN, "closed by the peer"), [])
    kinds = {entry.kind: entry for entry in desk.entries}
    assert list(kinds) == ["member-left", "unfollowed", "closed"]
    assert kinds["member-left"].columns["cause"] == "crash"
    assert kinds["member-left"].columns["stamp"] == 2
    (lost,) = kinds["unfollowed"].lines or ()
    assert (lost.member, lost.change, lost.cause) == (BOB, "left", "unfollowed")
    assert kinds["closed"].columns["what"] == "closed by the peer"


def test_a_question_of_a_program_that_died_is_forgotten(desk: Desk) -> None:
    desk.saw(Asked(ANN, 900, Resolve("chess", WORLD)), [])
    desk.saw(EndpointGone(ANN), [])
    desk.take()
    desk.saw(None, [Answer(900, Absolute(CHESS, ()))])
    assert desk.take() == []


def test_a_program_that_closes_leaves(desk: Desk) -> None:
    desk.asks(ANN, Join(CHESS, online=False), Done())
    desk.take()
    desk.asks(ANN, Close(), Done())
    assert [(kind, columns["cause"]) for kind, columns in desk.take()] == [
        ("member-left", "leave"),
        ("closed", "leave"),
    ]


@pytest.mark.parametrize(
    ("answer", "by"),
    [(Absolute(CHESS, (Member(BOB, (1, 1)),)), "eu"), (Absolute(CHESS, (), isolated=True), "agent")],
)
def test_an_answer_says_how_long_it_took_and_who_gave_it(desk: Desk, answer, by) -> None:
    desk.asks(ANN, Resolve("chess", WORLD), answer, later_s=0.25)
    ((kind, columns),) = desk.take()
    assert kind == "resolved"
    assert columns["latency_us"] == 250_000
    assert (columns["answered_by"], columns["count"]) == (by, len(answer.members))
    assert columns["observers"] == (ANN,)


def test_an_answer_for_all_scopes_is_a_row_for_each(desk: Desk) -> None:
    parts = ((WORLD, (Member(BOB, (1, 1)),)), (EU, ()), (HOST, ()))
    desk.asks(ANN, Resolve("chess", None), Resolved(parts), later_s=0.1)
    rows = [(columns["group"], columns["count"], columns["answered_by"]) for _, columns in desk.take()]
    assert rows == [("chess@world", 1, "eu"), ("chess@eu", 0, "eu"), ("chess@eu.h1", 0, "agent")]


def test_a_crowd_is_counted_and_its_first_are_named(desk: Desk) -> None:
    crowd = tuple(Endpoint(f"eu.h1/w{n:03d}#{n}") for n in range(40))
    for each in crowd:
        desk.opened(each)
        desk.asks(each, Watch(CHESS), Done())
    desk.take()
    for n in range(2):
        desk.saw(None, [Tell(crowd, Joined(CHESS, (Member(BOB, (1, n + 1)),), Cause.JOIN))])
    first, second = desk.entries
    assert first.columns["told"] == 40
    assert first.columns["observers"] == crowd[:OBSERVERS_MAX]
    assert second.columns["observers"] is first.columns["observers"], "shared, not copied"


def test_what_repeats_is_told_but_is_no_news(desk: Desk) -> None:
    desk.asks(ANN, Watch(CHESS), Done())
    for _ in range(2):
        desk.saw(None, [Tell((ANN,), Left(CHESS, BOB, (1, 2), Cause.LEAVE))])
    left = [entry.lines[0].news for entry in desk.entries if entry.kind == "left" and entry.lines]
    assert left == [False, False]


def test_a_connection_that_broke_and_came_back_is_not_a_link_that_went_down(desk: Desk) -> None:
    desk.saw(None, [LinkUp(EU, 3)])
    desk.saw(ChannelClosed(EU, "reset"), [])
    desk.now = 3.0
    desk.saw(PacketArrived(EU, Beat(1, 1, 0)), [])
    desk.saw(PacketArrived(EU, Beat(1, 1, 0)), [])
    assert desk.take() == [
        ("link-up", {"peer": "eu", "life": 3, "cause": "first contact"}),
        ("link-broken", {"peer": "eu", "what": "reset"}),
        ("link-resumed", {"peer": "eu", "latency_us": 2_000_000}),
    ]


def test_traffic_is_summed_and_written_with_the_heartbeat(desk: Desk) -> None:
    said = (InterestChanged(ID, CHESS, Interest.ALL), InterestChanged(ID, CHESS, Interest.NONE))
    for number in (1, 2, 2):
        desk.saw(None, [Transmit(EU, Data(1, 1, number, 0, said))])
    desk.saw_beside(FramesWritten(EU, 3, 500))
    desk.saw(PacketArrived(EU, Data(1, 1, 1, 0, said[:1])), [])
    assert desk.take() == []
    desk.heartbeat()
    rows = desk.take()
    assert rows[-1] == ("heartbeat", {})
    assert [(kind, columns["message"], columns["count"]) for kind, columns in rows[:-1]] == [
        ("received", "InterestChanged", 1),
        ("sent", "InterestChanged", 4),
        ("sent", "again", 2),
        ("sent", "frame", 3),
    ]
    assert all((columns["peer"], columns["level"]) == ("eu", 1) for _, columns in rows[:-1])
    assert rows[-2][1]["bytes"] == 500


def test_a_watch_is_followed_by_its_watchers_and_its_changes_are_numbered(desk: Desk) -> None:
    desk.saw_beside(WatchBegan(ANN, CHESS))
    desk.saw_beside(WatchBegan(ANN, CHESS))
    desk.saw_beside(Tell((ANN,), Snapshot(CHESS, (Member(BOB, (1, 1)),), period=4, number=9)))
    desk.saw_beside(Tell((ANN,), Changed(CHESS, 10, left=(BOB,), cause=Cause.CRASH)))
    desk.saw_beside(WatchEnded(ANN))
    rows = desk.take()
    assert [kind for kind, _ in rows] == ["followed", "snapshot", "changed", "unfollowed"]
    assert (rows[1][1]["period"], rows[1][1]["number"], rows[1][1]["count"]) == (4, 9, 1)
    assert rows[2][1] == {
        "group": "chess@world",
        "member": BOB,
        "change": "left",
        "observers": (ANN,),
        "told": 1,
        "count": 1,
        "number": 10,
        "cause": "crash",
    }


def test_a_program_that_stalls_is_suspected_with_its_evidence(desk: Desk) -> None:
    desk.saw_beside(EndpointsSuspected((ANN,), ProgramEvidence(5.0, 1.3, 0.8, 0.75, 10.0)))
    desk.saw_beside(EndpointsTrusted((ANN,), 2.5))
    assert desk.take() == [
        ("program-suspected", {"member": ANN, "silence_s": 0.8, "limit_s": 10.0}),
        ("program-trusted", {"member": ANN, "latency_us": 2_500_000}),
    ]


def test_a_domain_that_is_lost_is_a_row_for_each_member_and_says_on_whose_word(tmp_path: Path) -> None:
    world = World(2, domains={"eu": 2, "us": 1}, journal=tmp_path)
    ann, bob = world.program("eu.h1", "ann"), world.program("us.h1", "bob")
    ann.join("chess@world")
    bob.join("chess@world")
    world.settle().cut("eu | us").settle().heal().settle()
    world.close()
    rows = journal_of(world).to_pylist()

    (lost,) = [row for row in rows if row["kind"] == "without" and row["writer"] == "eu.h1"]
    assert (lost["member"], lost["change"], lost["news"]) == (bob.address, "left", True)
    assert (lost["domain"], lost["accuser"], lost["accused"], lost["what"]) == ("us", "eu", "us", "silent")
    back = [row for row in rows if row["member"] == bob.address and row["writer"] == "eu.h1"][-1]
    assert (back["change"], back["cause"], back["domain"]) == ("joined", "merge", "us")
    servers = {(row["kind"], row["writer"], row["domain"]) for row in rows}
    assert ("domain-failed", "eu", "us") in servers and ("domain-returned", "eu", "us") in servers
    (down,) = [row for row in rows if row["kind"] == "link-down" and row["writer"] == "eu"]
    assert down["silence_s"] >= down["limit_s"] > 0 and down["phi"] >= down["threshold"]


def test_a_notice_about_nobody_that_was_seen_is_still_a_row(desk: Desk) -> None:
    desk.asks(ANN, Watch(CHESS), Done())
    desk.take()
    desk.saw(None, [Tell((ANN,), Without(Domain("us"), Because(EU, Domain("us"), "silent")))])
    (entry,) = desk.entries
    assert (entry.kind, entry.lines, entry.rows) == ("without", [], 1)


def hears(desk: Desk, who: Endpoint, item: Any) -> None:
    desk.saw(None, [Deliver(who, CHESS, item)])


def test_in_a_group_with_messages_a_member_is_seen_by_what_its_program_is_handed(desk: Desk) -> None:
    desk.saw(JoinAsked(ANN, 9, CHESS, luck=1), [Answer(9, Done())])
    hears(desk, ANN, fifo_events.Ready(((ANN, Role.BOTH, b""),)))
    hears(desk, ANN, fifo_events.Joined(BOB, Role.BOTH))
    hears(desk, ANN, fifo_events.Left(BOB, "failed", None))
    lines = [
        (entry.kind, [(line.member, line.change, line.cause) for line in entry.lines or ()])
        for entry in desk.entries
    ]
    assert lines == [
        ("member-joined", []),
        ("followed", []),
        ("absolute", [(ANN, "joined", "snapshot")]),
        ("joined", [(BOB, "joined", "join")]),
        ("left", [(BOB, "left", "crash")]),
    ]


def test_messages_are_written_as_runs_with_the_heartbeat_once_for_all_who_got_the_same(desk: Desk) -> None:
    eve = Endpoint("eu.h1/eve#5")
    desk.opened(eve)
    for who in (ANN, eve):
        desk.saw(JoinAsked(who, 9, CHESS, luck=1), [Answer(9, Done())])
        for first in (4, 6, 8):
            hears(desk, who, fifo_events.Delivered(BOB, Run(first, 2, b"0123456789")))
    desk.take()
    desk.heartbeat()
    (delivered,) = [columns for kind, columns in desk.take() if kind == "delivered"]
    assert delivered == {
        "group": "chess@world",
        "member": BOB,
        "first": 4,
        "last": 9,
        "count": 6,
        "bytes": 30,
        "observers": (ANN, eve),
        "told": 2,
    }


def test_a_stream_begins_and_ends_and_what_is_missing_in_it_is_said(desk: Desk) -> None:
    desk.saw(JoinAsked(ANN, 9, CHESS, luck=1), [Answer(9, Done())])
    desk.take()
    hears(desk, ANN, fifo_events.Delivered(BOB, Run(1, 1, b"x")))
    hears(desk, ANN, fifo_events.Gap(BOB, 2, 5))
    hears(desk, ANN, fifo_events.Delivered(BOB, Run(6, 1, b"x")))
    desk.saw(LeaveAsked(ANN, 10, CHESS), [Answer(10, Done())])
    rows = [(kind, columns.get("first"), columns.get("last")) for kind, columns in desk.take()]
    assert rows == [
        ("stream-started", 1, None),
        ("delivered", 1, 1),
        ("stream-gap", 2, 5),
        ("member-left", None, None),
        ("delivered", 6, 6),
        ("stream-ended", None, 6),
        ("unfollowed", None, None),
    ]


def test_a_stream_that_ends_again_before_it_went_on_behind_a_gap_has_an_end(desk: Desk) -> None:
    """Else what is said in its next membership would be taken for what was due behind the gap."""
    desk.saw(JoinAsked(ANN, 9, CHESS, luck=1), [Answer(9, Done())])
    desk.take()
    hears(desk, ANN, fifo_events.Gap(BOB, 2, 5))
    hears(desk, ANN, fifo_events.Left(BOB, "disconnected", 5))
    hears(desk, ANN, fifo_events.Gap(BOB, 6, 7))
    desk.saw(LeaveAsked(ANN, 10, CHESS), [Answer(10, Done())])
    rows = [(kind, columns.get("first"), columns.get("last")) for kind, columns in desk.take()]
    assert [row for row in rows if row[0].startswith("stream")] == [
        ("stream-gap", 2, 5),
        ("stream-ended", None, 5),
        ("stream-gap", 6, 7),
        ("stream-ended", None, 7),
    ]


def test_a_member_of_unknown_stamp_is_the_one_that_is_known(desk: Desk) -> None:
    desk.asks(ANN, Watch(CHESS), Done(), Tell((ANN,), Absolute(CHESS, (Member(BOB, (3, 4)),))))
    desk.saw(JoinAsked(ANN, 9, CHESS, luck=1), [Answer(9, Done())])
    desk.take()
    hears(desk, ANN, fifo_events.Ready(((BOB, Role.BOTH, b""),)))
    (entry,) = desk.entries
    assert (entry.lines, entry.kept) == ([], 1)
    assert desk.scribe.sight.seen[CHESS] == {BOB: (3, 4)}


def test_what_is_told_to_somebody_who_only_speaks_to_a_group_is_not_what_its_host_sees(desk: Desk) -> None:
    desk.saw(JoinAsked(ANN, 9, CHESS, luck=1), [Answer(9, Done())])
    hears(desk, ANN, fifo_events.Ready(((ANN, Role.BOTH, b""), (BOB, Role.BOTH, b""))))
    desk.saw(JoinAsked(BOB, 10, CHESS, luck=1, role=Role.SUBMIT), [Answer(10, Done())])
    before = len(desk.entries)
    hears(desk, BOB, fifo_events.Ready(()))
    assert desk.entries[before:] == []
