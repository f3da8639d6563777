"""Groups whose messages have one order, in journals: who was given which order up to where, and who was put
out."""

from pathlib import Path
from typing import Any

import pytest

from rostra.core.observer import BESIDE
from rostra.journal.entries import Entry, Identity
from rostra.journal.schema import KINDS
from rostra.journal.segments import read, table_of
from rostra.names import Domain, Endpoint, Group
from rostra.observe.order_rows import POINTS_APART
from rostra.observe.scribe import Scribe
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.events import OrderLeft, OrderSubmitted, ViewPlaced
from rostra.protocols.atomic.messages import ViewKey
from rostra.protocols.atomic.requests import OrderedRun
from rostra.protocols.fifo.events import Deliver, DeliverAll
from rostra.protocols.flow.messages import Run
from rostra.protocols.links.config import LinkConfig
from rostra.sim import LAN, World
from rostra.sim.journal import SimJournal
from rostra.sim.replay import recordings, replay
from rostra.sim.shapes import clusters

Row = dict[str, Any]
LEDGER = Group("ledger", Domain("eu"))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """Three members; the orderer's host dies while they speak."""
    directory = tmp_path_factory.mktemp("orders")
    world = World(
        1,
        tree=clusters({"eu.fr": 2, "eu.de": 1}),
        links=LAN,
        timers=LinkConfig.lan().over_datagrams(),
        journal=SimJournal(directory, record=True),
        fifo=True,
    )
    world.run(4.0)
    programs = [world.program(host) for host in world.tree.hosts]
    for program in programs:
        program.join_ordered(LEDGER, survive="majority", meta=b"a secret of ours")
        world.run(2.0)
    for nth in range(20):
        for program in programs:
            program.say_in_order(LEDGER, b"a secret", b"word %d" % nth)
        world.run(0.1)
    world.crash(programs[0].host)
    world.run(8.0)
    programs[1].say_in_order(LEDGER, b"more")
    world.run(6.0)
    programs[2].leave_ordered(LEDGER)
    world.run(2.0)
    world.close()
    return directory, read(directory).to_pylist()


def ordered(rows: list[Row], **values: Any) -> list[Row]:
    return [
        row
        for row in rows
        if row["kind"] == "ordered" and all(row[name] == value for name, value in values.items())
    ]


def test_members_that_were_given_the_same_have_the_same_digest(told: tuple[Path, list[Row]]) -> None:
    digests: dict[tuple[str, int], set[tuple[int, int]]] = {}
    writers: dict[tuple[str, int], set[str]] = {}
    for row in ordered(told[1]):
        key = (row["view"], row["last"])
        digests.setdefault(key, set()).add((row["digest"], row["count"]))
        writers.setdefault(key, set()).add(row["writer"])
    assert all(len(each) == 1 for each in digests.values())
    assert len([each for each in writers.values() if len(each) > 1]) >= 4
    assert len({digest for each in digests.values() for digest, _ in each}) == len(digests)
    assert all(row["count"] == row["last"] - row["first"] for row in ordered(told[1]))


def test_a_view_has_its_place_its_orderer_and_its_promise(told: tuple[Path, list[Row]]) -> None:
    begun = [row for row in ordered(told[1], writer="eu.fr.h2") if row["peer"] is not None]
    assert [row["peer"] for row in begun] == ["eu.de.h1", "eu.fr.h1"]
    assert {row["what"] for row in begun} == {"all"} and all(row["fence"] for row in begun)
    over = [row for row in ordered(told[1], writer="eu.fr.h2") if row["cause"] == "view"]
    assert [(row["view"], row["last"] + 1) for row in over] == [
        (row["base"], row["first"]) for row in begun if row["base"]
    ]
    (flushed,) = [row for row in told[1] if row["kind"] == "flushed" and row["virtual_s"] > 11]
    assert flushed["count"] == 2 and flushed["view"] in {row["view"] for row in begun}


def test_a_row_names_the_last_sender_and_how_long_receipts_took(told: tuple[Path, list[Row]]) -> None:
    spoken = [row for row in ordered(told[1]) if row["member"] is not None]
    assert {row["number"] for row in spoken} & {40, 41}
    assert any(row["latency_us"] for row in spoken)


def test_rows_hold_no_message_and_only_documented_columns(told: tuple[Path, list[Row]]) -> None:
    said = {kind.name: set(kind.columns.split()) for kind in KINDS}
    always = {"world", "writer", "role", "epoch", "seq", "at", "kind", "nth", "of", "virtual_s"}
    for row in told[1]:
        assert {name for name, value in row.items() if value is not None} <= said[row["kind"]] | always
    assert "secret" not in repr(told[1])


def test_every_node_replays_byte_for_byte(told: tuple[Path, list[Row]]) -> None:
    replayed = [replay(recording) for recording in recordings(told[0])]
    assert len(replayed) > 5 and [each.difference for each in replayed] == [None] * len(replayed)


# One scribe


A, B = Endpoint("eu.h1/a#1"), Endpoint("eu.h1/b#1")
FAR = Endpoint("eu.h2/c#1")
GROUP = Group("g", Domain("eu"))


class Written:
    def __init__(self, host: str = "eu.h1") -> None:
        self.entries: list[Entry] = []
        self.now = 1.0
        self.host = Domain(host)
        self.scribe = Scribe(self.host, "agent", 7, self.entries.append, wall_us=lambda: 0, heartbeat_s=10.0)

    def saw(self, *effects: Any, event: Any = BESIDE, after_s: float = 0.0) -> "Written":
        self.now += after_s
        self.scribe.saw(self.now, self.host, event, effects)
        return self

    def view(self, number: int, position: int, *to: Endpoint) -> "Written":
        members = tuple([(each, b"") for each in (A, B, FAR)])
        placed = ViewPlaced(GROUP, ViewKey(number, 0, "p"), position, Domain("eu.h2"), "all", number)
        return self.saw(placed, DeliverAll(to, GROUP, MemberView(number, 0, "p", members)))

    def rows(self, kind: str = "ordered") -> list[Row]:
        table = table_of(Identity("w", self.host, "agent", 7), 1, self.entries)
        return [row for row in table.to_pylist() if row["kind"] == kind]


def run(sender: Endpoint, first: int, count: int, position: int) -> OrderedRun:
    return OrderedRun(sender, Run(first, count, b"", 0.0), position)


def test_a_digest_does_not_depend_on_how_messages_came_together() -> None:
    one, many = Written().view(1, 10, A), Written().view(1, 10, A)
    one.saw(DeliverAll((A,), GROUP, run(FAR, 1, 4, 11)))
    for nth in range(4):
        many.saw(DeliverAll((A,), GROUP, run(FAR, 1 + nth, 1, 11 + nth)))
    swapped = Written().view(1, 10, A)
    for nth in (1, 0, 2, 3):
        swapped.saw(DeliverAll((A,), GROUP, run(FAR, 1 + nth, 1, 11 + nth)))
    lasts = [each.view(2, 15, A).rows()[1] for each in (one, many, swapped)]
    assert [row["last"] for row in lasts] == [14] * 3 and [row["count"] for row in lasts] == [4] * 3
    assert lasts[0]["digest"] == lasts[1]["digest"] != lasts[2]["digest"]


def test_a_member_that_reads_late_has_the_same_digests_later() -> None:
    written = Written().view(1, 1, A, B)
    item = run(FAR, 1, 20, 2)
    written.saw(DeliverAll((A,), GROUP, item)).saw(Deliver(B, GROUP, item))
    begun, *points = written.rows()
    assert begun["observers"] == [A, B] and begun["base"] is None
    assert [(row["observers"], row["last"], row["count"]) for row in points] == [([A], 17, 16), ([B], 17, 16)]
    assert points[0]["digest"] == points[1]["digest"]


def test_rows_are_few_while_messages_are_many() -> None:
    written = Written().view(1, 1, A)
    for nth in range(100):
        written.saw(DeliverAll((A,), GROUP, run(A, 1 + nth * 1_000, 1_000, 2 + nth * 1_000)))
    assert len(written.rows()) < 20
    assert {row["last"] % POINTS_APART for row in written.rows()[6:]} == {1}


def test_what_was_left_out_shows_in_the_count() -> None:
    written = Written().view(1, 1, A).saw(DeliverAll((A,), GROUP, run(FAR, 1, 2, 2)))
    written.saw(DeliverAll((A,), GROUP, run(FAR, 5, 1, 6))).view(2, 7, A)
    over = written.rows()[-2]
    assert (over["cause"], over["count"], over["last"] - over["first"]) == ("view", 3, 5)


def test_receipts_and_rejects_of_a_member() -> None:
    written = Written().view(1, 1, A)
    written.saw(event=OrderSubmitted(A, GROUP, 2, b""))
    written.saw(DeliverAll((A,), GROUP, run(A, 1, 2, 2)), after_s=0.25)
    written.saw(OrderLeft(GROUP, A, "the group went on without this host", False, 2, 5, 7))
    left, out = written.rows()[-1], written.rows("rejected")[0]
    assert (left["latency_us"], left["cause"], left["last"]) == (250_000, "left", 3)
    assert (out["member"], out["number"], out["first"], out["last"], out["count"]) == (A, 2, 5, 7, 3)
    quiet = Written().view(1, 1, A).saw(OrderLeft(GROUP, A, "it left the group", True, 2, 3, 2))
    assert quiet.rows("rejected") == []
