"""Agreed groups in journals: who had which view when, who agreed on it, and who must not go on (V-120)."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from rostra.core.effects import Answer, Tell
from rostra.core.observer import BESIDE
from rostra.errors import NotAllowed
from rostra.groups.members import Cause
from rostra.journal.entries import Entry, Identity
from rostra.journal.schema import KINDS
from rostra.journal.segments import read, table_of
from rostra.journal.view_lists import digest_of, whole_views
from rostra.names import Domain, Endpoint, Group
from rostra.observe.scribe import Scribe
from rostra.protocols.agreed.events import AgreedJoinAsked
from rostra.protocols.agreed.groups import AGREED
from rostra.protocols.agreed.observed import AgreedListed, AgreedUnlisted
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.fifo.events import Deliver
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Done, PutOut, denied
from rostra.sim import LAN, World
from rostra.sim.journal import SimJournal
from rostra.sim.replay import recordings, replay
from rostra.sim.shapes import clusters

WIDE = Group("ledger", Domain("eu"))
Row = dict[str, Any]


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, World]:
    """Five members in three sites; one site is cut off, loses a member, and comes back."""
    directory = tmp_path_factory.mktemp("views")
    world = World(
        1,
        tree=clusters({"eu.fr": 2, "eu.de": 2, "eu.it": 1}),
        links=LAN,
        timers=LinkConfig.lan().over_datagrams(),
        journal=SimJournal(directory, record=True),
    )
    world.run(4.0)
    programs = [world.program(host) for host in world.tree.hosts]
    programs.append(world.program("eu.it.h1", "second"))
    for program in programs:
        program.join_agreed(WIDE, survive="majority", meta=b"a secret of ours")
    world.run(4.0)
    for other in ("eu.de", "eu.it", "eu"):
        world.cut(f"eu.fr | {other}")
    world.run(6.0)
    next(each for each in programs if each.host == "eu.fr.h1").kill()
    world.run(2.0)
    world.heal().run(8.0)
    programs[-1].leave_agreed(WIDE)
    world.run(2.0)
    world.close()
    return directory, world


@pytest.fixture(scope="module")
def rows(partition: tuple[Path, World]) -> list[Row]:
    found: list[Row] = read(partition[0]).to_pylist()
    return found


def of_writer(rows: list[Row], kind: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] == kind:
            found[row["writer"]].append(row)
    return found


def test_rows_give_every_view_that_programs_were_given_whole_and_in_order_of_rank(
    partition: tuple[Path, World], rows: list[Row]
) -> None:
    by_writer = of_writer(rows, "view")
    for program in partition[1].programs:
        views = [
            each for each in whole_views(by_writer[program.host]) if program.address in each.row["observers"]
        ]
        stay = program.agreed.get(WIDE)
        if stay is None:
            continue  # it left
        given = [item for item in stay.items if isinstance(item, MemberView)]
        assert [each.row["first"] for each in views] == [item.number for item in given]
        assert views[-1].members == stay.members
        assert [each.row["fence"] for each in views] == [item.fence for item in given]


def test_equal_ids_are_equal_lists_and_digests_at_agents_and_at_servers(rows: list[Row]) -> None:
    lists: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for kind in ("view", "view-agreed"):
        for writer in of_writer(rows, kind).values():
            for view in whole_views(writer):
                assert view.members is not None
                assert view.row["digest"] == digest_of([Endpoint(each) for each in view.members])
                lists[view.row["view"]].add(view.members)
    assert len(lists) > 6 and all(len(each) == 1 for each in lists.values())


def test_the_side_that_must_not_go_on_is_blocked_and_says_why(rows: list[Row]) -> None:
    blocked = of_writer(rows, "blocked")
    assert "2 of 6 who lived last are here" in {row["what"] for row in blocked["eu.fr.h2"]}
    assert {row["what"] for row in blocked["eu.de.h1"]} <= {"two parts have just met"}


def test_a_server_writes_which_change_made_a_view_and_who_noticed_it(rows: list[Row]) -> None:
    agreed = of_writer(rows, "view-agreed")["eu.it"]
    lost = [row for row in agreed if row["change"] == "left" and row["member"].startswith("eu.fr")]
    assert {(row["cause"], row["accused"]) for row in lost[:2]} == {("servers failed", "eu.fr")}
    assert lost[0]["accuser"] in ("eu.de", "eu.it", "eu") and lost[0]["peer"] in ("eu.de", "eu.it", "eu")
    assert lost[0]["cut"] == ["eu.fr"] and "eu.fr" not in lost[0]["acks"]
    assert lost[0]["fence"] is not None and lost[0]["base"] < lost[0]["view"]
    isolated = of_writer(rows, "isolated")
    assert {row["peer"] for row in isolated["eu.it"]} == {"eu.fr"}
    assert {row["peer"] for row in isolated["eu.fr"]} == {"eu", "eu.de", "eu.it"}


def test_members_of_agreed_groups_stand_in_the_truth_with_the_stamps_that_servers_have(
    rows: list[Row],
) -> None:
    joined = {(row["member"], row["life"], row["stamp"]) for row in rows if row["kind"] == "member-joined"}
    listed = {
        (row["member"], row["life"], row["stamp"])
        for row in rows
        if row["kind"] == "view-agreed" and row["change"] == "joined"
    }
    assert len(joined) == 6 and listed == joined
    left = {(row["member"].partition("/")[0], row["cause"]) for row in rows if row["kind"] == "member-left"}
    assert left == {("eu.fr.h1", "crash"), ("eu.it.h1", "leave")}


def test_rows_hold_no_attachment_and_only_documented_columns(rows: list[Row]) -> None:
    said = {kind.name: set(kind.columns.split()) for kind in KINDS}
    always = {"world", "writer", "role", "epoch", "seq", "at", "kind", "nth", "of", "virtual_s"}
    for row in rows:
        assert {name for name, value in row.items() if value is not None} <= said[row["kind"]] | always
    assert "secret" not in repr(rows)


def test_every_node_of_an_agreed_world_replays_byte_for_byte(partition: tuple[Path, World]) -> None:
    replayed = [replay(recording) for recording in recordings(partition[0])]
    assert len(replayed) > 8 and [each.difference for each in replayed] == [None] * len(replayed)


# One scribe


A, B, C = (Endpoint(f"eu.h1/{name}#1") for name in "abc")
GROUP = Group("g", Domain("eu"))


class Written:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.scribe = Scribe(
            Domain("eu.h1"), "agent", 7, self.entries.append, wall_us=lambda: 0, heartbeat_s=60.0
        )

    def saw(self, *effects: Any, event: Any = BESIDE) -> "Written":
        self.scribe.saw(1.0, Domain("eu.h1"), event, effects)
        return self

    def rows(self, *kinds: str) -> list[Row]:
        table = table_of(Identity("w", "eu.h1", "agent", 7), 1, self.entries)
        return [row for row in table.to_pylist() if row["kind"] in kinds]


def view(number: int, *members: Endpoint, pid: str = "", **fields: Any) -> MemberView:
    listed = tuple([(each, b"") for each in members])
    return MemberView(number, 0, pid or f"eu:1#{number}", listed, **fields)


def test_members_of_one_host_share_the_rows_of_a_view_in_one_step() -> None:
    both = view(2, A, B, joined=((B, b""),))
    written = (
        Written().saw(Deliver(A, GROUP, view(1, A))).saw(Deliver(A, GROUP, both), Deliver(B, GROUP, both))
    )
    one, two, kept = written.rows("view")
    assert (one["observers"], one["member"], one["last"]) == ([A], A, 0)
    assert (two["observers"], two["told"], two["member"], two["last"]) == ([A, B], 2, B, 1)
    assert (kept["change"], kept["count"]) == ("kept", 1)


def test_a_member_that_reads_late_is_given_older_views_which_change_nothing_on_its_host() -> None:
    second, third = view(2, A, B, C), view(3, A, B, left=(C,))
    written = (
        Written().saw(Deliver(A, GROUP, second), Deliver(B, GROUP, second)).saw(Deliver(A, GROUP, third))
    )
    written.saw(Deliver(B, GROUP, MemberBlocked("cut off")), Deliver(B, GROUP, third))
    views = list(whole_views(written.rows("view")))
    assert [(each.row["first"], each.row["observers"]) for each in views] == [(2, [A, B]), (3, [A]), (3, [B])]
    assert [each.members for each in views] == [(A, B, C), (A, B), (A, B)]
    assert [(row["what"], row["first"]) for row in written.rows("blocked")] == [("cut off", 2)]


def test_a_view_in_another_order_has_a_row_for_every_member() -> None:
    merged = view(5, C, A, B, joined=((C, b""),), parts=((A, B), (C,)))
    written = Written().saw(Deliver(A, GROUP, view(1, A, B))).saw(Deliver(A, GROUP, merged))
    *_, last = whole_views(written.rows("view"))
    assert last.members == (C, A, B) and last.joined == (C,)
    assert all(row["change"] == "joined" and row["cause"] == "merge" for row in written.rows("view")[2:])


def test_a_view_has_no_list_while_rows_before_it_are_missing() -> None:
    written = Written().saw(Deliver(A, GROUP, view(1, A, B)))
    written.saw(Deliver(A, GROUP, view(2, A, B, C, joined=((C, b""),))))
    written.saw(Deliver(A, GROUP, view(3, C, A, parts=((C,), (A,)))))
    rows = written.rows("view")
    assert [each.members for each in whole_views(rows)] == [(A, B), (A, B, C), (C, A)]
    assert [each.members for each in whole_views(rows[1:])] == [None, (C, A)]
    assert [each.members for each in whole_views(rows[2:])] == [None, (C, A)]
    assert [each.members for each in whole_views([*rows[:3], *rows[4:]])] == [(A, B), (C, A)]


def test_a_list_that_only_looks_whole_is_found_by_its_digest() -> None:
    written = Written().saw(Deliver(A, GROUP, view(1, A, B)))
    written.saw(Deliver(A, GROUP, view(2, A, C, joined=((C, b""),), left=(B,))))
    written.saw(Deliver(A, GROUP, view(3, A, C, B, joined=((B, b""),))))
    rows = written.rows("view")
    assert [each.members for each in whole_views(rows)] == [(A, B), (A, C), (A, C, B)]
    unseen = [row for row in rows if row["first"] != 2]
    assert [each.members for each in whole_views(unseen)] == [(A, B), None]


def test_joins_of_agreed_groups_count_among_the_joins_and_leaves_of_an_agent() -> None:
    """Stamps of other groups are right only if these are counted too."""
    written = Written().saw(AgreedListed(A, GROUP, (7, 4)), event=AgreedJoinAsked(A, 3, GROUP, AGREED))
    written.saw(Answer(3, Done()), AgreedUnlisted(A, GROUP, (7, 9), Cause.LEAVE))
    assert [(row["kind"], row["stamp"]) for row in written.rows("member-joined", "member-left")] == [
        ("member-joined", 4),
        ("member-left", 9),
    ]


def test_a_member_that_a_claim_puts_out_has_left() -> None:
    written = Written().saw(AgreedListed(A, GROUP, (7, 1)))
    written.saw(Tell((A,), PutOut(GROUP, denied(NotAllowed("it is fifo")))))
    assert [row["stamp"] for row in written.rows("member-left")] == [2]


def test_a_join_that_is_refused_is_written_as_such() -> None:
    refusal = denied(NotAllowed("it is fifo"))
    written = Written().saw(Answer(3, refusal), event=AgreedJoinAsked(A, 3, GROUP, AGREED))
    (row,) = written.rows("refused")
    assert (row["member"], row["group"], row["message"]) == (A, "g@eu", "JoinAgreed")
