"""`rostra views`, `rostra group` and `rostra rehearse`: agreed groups, for people and for programs."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import Cluster

import rostra
from rostra.cli.members import agreed_here
from rostra.cli.views import history_lines
from rostra.groups.items import AgreedViewId
from rostra.names import Endpoint, parse_group

pytestmark = pytest.mark.usefixtures("cluster")


@contextlib.contextmanager
def two_members(
    cluster: Cluster, group: str, survive: str = "majority", **attributes: str
) -> Iterator[list[str]]:
    with (
        rostra.sync.connect(cluster.socket("eu.h1"), name="ann") as ann,
        ann.join(group, "eu", membership="agreed", survive=survive, attributes=attributes) as anns,
        rostra.sync.connect(cluster.socket("eu.h2"), name="bob") as bob,
        bob.join(group, "eu", membership="agreed", survive=survive) as bobs,
    ):
        for stay in (anns, bobs):
            for item in stay.items(timeout_s=60):
                if isinstance(item, rostra.View) and len(item.members) == 2:
                    break
        yield [ann.endpoint, bob.endpoint]


def test_views_shows_ranks_and_whether_the_rule_is_exclusive(cluster: Cluster) -> None:
    with two_members(cluster, "ranked", tier="gold") as members:
        shown = cluster.run("views", "ranked@eu")
        whole = cluster.run("views", "ranked@eu", "--history", "-o", "json").json
        lines = cluster.run("views", "ranked@eu", "--history", "-o", "jsonl").jsonl
        first = cluster.run("views", "ranked@eu", "--at", "1", "-o", "json").json
        future = cluster.run("views", "ranked@eu", "--at", "99")
    assert shown.code == 0 and shown.lines[0].startswith("ranked@eu   view 2   2 members   fence ")
    assert [line.split()[:2] for line in shown.lines[2:]] == [["0", members[0]], ["1", members[1]]]
    assert "tier=gold" in shown.lines[2]
    assert "exclusive: yes, at most one side" in shown.err and "agreed by eu" in shown.err
    assert [each["endpoint"] for each in whole["view"]["members"]] == members
    assert (whole["exclusive"], [each["number"] for each in whole["history"]]) == ("yes", [0, 1])
    assert [each["number"] for each in lines] == [0, 1, 2]
    assert [each["endpoint"] for each in first["view"]["members"]] == members[:1]
    assert (future.code, future.out) == (3, "")
    assert "is at view 2, and 99 is not agreed yet\n  wait for it, or ask for the present one" in future.err


def test_a_group_that_is_not_there_says_what_to_do(cluster: Cluster) -> None:
    answer = cluster.run("views", "nowhere@eu")
    assert answer.code == 3
    assert answer.err.startswith("error: there is no agreed group nowhere@eu\n  create it")


def test_a_group_of_another_kind_is_called_so_with_the_command_that_shows_it(cluster: Cluster) -> None:
    with (
        rostra.sync.connect(cluster.socket("eu.h1"), name="ann") as ann,
        ann.join("plain-kind", "eu"),
        ann.join("spoken-kind", "eu", delivery="fifo"),
        ann.join("led-kind", "eu", membership="led"),
        ann.join("agreed-kind", "eu", membership="agreed", delivery="fifo"),
    ):
        plain, led = cluster.run("views", "plain-kind@eu"), cluster.run("views", "led-kind@eu")
        agreed = cluster.run("set", "agreed-kind@eu")
        rehearsed = cluster.run("rehearse", "plain-kind@eu", "--cut", "eu.h1")
        deleted = cluster.run("group", "delete", "plain-kind@eu")
        kinds = {each["name"]: each for each in cluster.run("groups", "-o", "jsonl").jsonl}
        table = {line.split()[0]: line.split()[4:] for line in cluster.run("groups").lines}
    assert (plain.code, led.code, agreed.code) == (3, 3, 3)
    assert plain.err.splitlines() == [
        "error: plain-kind@eu is not agreed: its kind is relaxed",
        "  to see it:  rostra members plain-kind@eu",
    ]
    assert rehearsed.err == deleted.err == plain.err
    assert "its kind is led\n  to see it:  rostra set led-kind@eu" in led.err
    assert "is not led: its kind is agreed fifo\n  to see it:  rostra views agreed-kind@eu" in agreed.err
    assert {
        name: (each["membership"], each["delivery"]) for name, each in kinds.items() if "-kind" in name
    } == {
        "plain-kind": ("relaxed", "none"),
        "spoken-kind": ("relaxed", "fifo"),
        "led-kind": ("led", "none"),
        "agreed-kind": ("agreed", "fifo"),
    }
    assert (table["plain-kind"], table["agreed-kind"]) == (["relaxed"], ["agreed", "fifo"])


def test_a_command_whose_membership_is_refused_is_ended_with_the_reason(cluster: Cluster) -> None:
    """A plain join may be let in before the kind of the group is known."""
    with two_members(cluster, "guarded"):
        answer = cluster.run("join", "guarded@eu", "--", "sleep", "60")
    assert answer.code == 3
    assert "error: guarded@eu is agreed, none, survive='majority'\n  join it so" in answer.err
    assert "from a shell:  rostra watch guarded@eu, or" in answer.err


def test_groups_are_created_changed_and_deleted(cluster: Cluster) -> None:
    made = cluster.run("group", "create", "made@eu", "--survive", "size > 1", "--set", "tier=gold")
    assert (made.code, made.lines[0]) == (0, "made@eu   view 0   0 members")
    assert "exclusive: no" in made.err or "exclusive: depends" in made.err
    assert cluster.run("group", "create", "made@eu").code == 3
    changed = cluster.run("group", "set", "made@eu", "tier=", "owner=ann", "-o", "json").json
    assert (changed["attributes"], changed["view"]["revision"]) == ({"owner": "ann"}, 1)
    assert cluster.run("group", "set", "made@eu", "owner").code == 2
    assert cluster.run("group", "delete", "made@eu").code == 0
    assert cluster.run("views", "made@eu").code == 3
    bad = cluster.run("group", "create", "bad@eu", "--survive", "majority andd")
    assert (bad.code, "majority ▸andd" in bad.err) == (2, True)


def test_a_group_that_nobody_could_join_is_not_created(cluster: Cluster) -> None:
    """The root of this world has no server, which joins claim a group at."""
    refused = cluster.run("group", "create", "wide@world", "--survive", "majority")
    assert (refused.code, refused.out) == (3, "")
    assert refused.err.splitlines() == [
        "error: wide@world cannot be claimed: world has no server",
        "  choose a narrower scope; rostra domains shows which have servers",
    ]
    assert cluster.run("views", "wide@world").code == 3


def test_members_of_a_host_that_is_cut_off_are_shown_with_why_they_stand_still(cluster: Cluster) -> None:
    with (
        rostra.sync.connect(cluster.socket("us.h1"), name="ann") as ann,
        ann.join("alone", "us", membership="agreed", survive="majority") as stay,
    ):
        cluster["us"].kill()
        for item in stay.items(timeout_s=60):
            if isinstance(item, rostra.Blocked):
                break
        shown = cluster.run("members", "alone@us", host="us.h1")
        rows = cluster.run("members", "alone@us", "-o", "jsonl", host="us.h1").jsonl
        nobody = cluster.run("members", "empty@us", host="us.h1")
    assert shown.code == 0 and ann.endpoint.partition("/")[2] in shown.lines[-1], shown
    assert "us.h1 is cut off from us" in shown.err and "nobody is in" not in shown.err
    assert "members here stand still in view 1 of alone@us: " in shown.err
    assert [each["endpoint"] for each in rows] == [ann.endpoint]
    assert nobody.code == 1 and "us.h1 is cut off from us" in nobody.err


def test_members_that_no_list_has_are_known_by_their_agent() -> None:
    known = {"group": "db@eu", "number": 3, "here": ["eu.h1/ann#1"], "blocked": "1 of 3 are here"}
    still = "members here stand still in view 3 of db@eu: 1 of 3 are here"
    at_server = {"group": "go@eu", "number": 3, "blocked": "1 of 3 are here"}
    document = {"agreed": [known, {**known, "group": "ok@eu", "blocked": ""}, at_server]}
    assert agreed_here(document, parse_group("db@eu")) == (["eu.h1/ann#1"], still)
    assert agreed_here(document, parse_group("ok@eu")) == (["eu.h1/ann#1"], "")
    assert agreed_here(document, parse_group("go@eu")) == ([], "")


def past(number: int, revision: int = 0, pid: str = "eu 1", **changes: Any) -> rostra.View:
    return rostra.View((), number=number, id=AgreedViewId(number, revision, pid), **changes)


def test_the_history_says_what_is_known_of_each_view_and_says_it_once() -> None:
    ann, bob = Endpoint("eu.h1/ann#1"), Endpoint("eu.h2/bob#1")
    views = [
        past(0, pid=""),
        past(1, joined=(ann, bob)),
        past(1, 1),
        past(1, 2),
        past(2, failed=(bob,)),
        past(2, pid="us 1", failed=(bob,)),
        past(2, pid="us 2", failed=(ann,)),
        past(3),
        past(4, left=(ann,)),
    ]
    assert history_lines(views) == [
        "view 4   left eu.h1/ann#1",
        "view 3   the same members, whose order may have changed",
        "view 2, of another side   failed eu.h1/ann#1",
        "view 2   failed eu.h2/bob#1",
        "view 1.1 to 1.2   the same members: attributes changed, or whether it may go on",
        "view 1   joined eu.h1/ann#1, eu.h2/bob#1",
        "view 0   it began",
    ]


def test_groups_are_split_and_merged(cluster: Cluster) -> None:
    with two_members(cluster, "whole", disk="ssd") as members:
        assert cluster.run("group", "split", "whole@eu", "hot", "cold", "--where", "disk=ssd").code == 0
        hot = cluster.run("views", "hot@eu", "-o", "json").json
        assert [each["endpoint"] for each in hot["view"]["members"]] == members[:1]
        assert cluster.run("group", "merge", "cold@eu", "hot", "again").code == 0
        again = cluster.run("views", "again@eu", "-o", "json").json
        assert [each["endpoint"] for each in again["view"]["members"]] == members[::-1]
        assert cluster.run("group", "remove", "again@eu", members[0]).code == 0
        left = cluster.run("views", "again@eu", "-o", "json").json
        assert [each["endpoint"] for each in left["view"]["members"]] == members[1:]


def test_a_group_is_kept_in_a_split_and_keeps_as_many_views_as_it_was_created_with(cluster: Cluster) -> None:
    made = cluster.run("group", "create", "short@eu", "--history", "3", "-o", "json").json
    assert made["history_length"] == 3
    assert cluster.run("group", "create", "none@eu", "--history", "0").code == 2
    with two_members(cluster, "kept", disk="ssd") as members:
        split = cluster.run("group", "split", "kept@eu", "fast", "slow", "--where", "disk=ssd", "--keep")
        assert (split.code, "kept@eu goes on" in split.err) == (0, True)
        shown = {
            name: cluster.run("views", f"{name}@eu", "-o", "json").json for name in ("kept", "fast", "slow")
        }
        there = {name: [each["endpoint"] for each in one["view"]["members"]] for name, one in shown.items()}
        assert there == {"kept": members, "fast": members[:1], "slow": members[1:]}
        assert (shown["fast"]["within"], shown["slow"]["within"]) == ("kept", "kept")


def test_a_cut_is_rehearsed_by_the_rule_of_the_group(cluster: Cluster) -> None:
    with two_members(cluster, "cut"):
        alone = cluster.run("rehearse", "cut@eu", "--cut", "eu.h1", "-o", "json")
        assert alone.code == 0  # half, with the senior one
        assert cluster.run("rehearse", "cut@eu", "--cut", "eu.h1 |").code == 2
        with (
            rostra.sync.connect(cluster.socket("eu.h1"), name="cid") as cid,
            cid.join("cut", "eu", membership="agreed", survive="majority") as cids,
        ):
            cids.ready(deadline_s=60)
            shown = cluster.run("rehearse", "cut@eu", "--cut", "eu.h1 | eu.h2")
            whole = cluster.run("rehearse", "cut@eu", "--cut", "eu.h1 | eu.h2", "-o", "json").json
    assert [side["lives"] for side in alone.json["sides"]] == [True, False]
    assert shown.code == 0
    assert [(side["name"], side["lives"]) for side in whole["sides"]] == [("eu.h1", True), ("eu.h2", False)]
    assert "1 of 3 who lived last are here" in whole["sides"][1]["why"]


def test_a_rehearsal_says_if_two_sides_would_live(cluster: Cluster) -> None:
    with two_members(cluster, "both", survive="any"):
        answer = cluster.run("rehearse", "both@eu", "--cut", "eu.h1")
        wrong = cluster.run("rehearse", "both@eu", "--cut", "euu | us")
    assert (wrong.code, wrong.err) == (2, "error: no domain euu is known here\n  closest: eu\n")
    assert "on none of these sides" not in answer.err, "the others are one side"
    assert (answer.code, [line.split()[:3] for line in answer.lines[2:]]) == (
        1,
        [["eu.h1", "1", "yes"], ["the", "rest", "1"]],
    )
    assert "several sides of a partition may live" in answer.err


def test_under_primary_a_rehearsal_asks_on_which_side_the_server_of_the_scope_is(cluster: Cluster) -> None:
    with two_members(cluster, "decided", survive="primary"):
        answer = cluster.run("rehearse", "decided@eu", "--cut", "eu.h1", "-o", "json")
    assert (answer.code, [side["lives"] for side in answer.json["sides"]]) == (0, [False, True])


def test_a_rehearsal_names_each_member_once(cluster: Cluster) -> None:
    with two_members(cluster, "twice"):
        answer = cluster.run("rehearse", "twice@eu", "--cut", "eu | eu.h2")
    assert (answer.code, "on two sides" in answer.err) == (2, True)


def test_it_all_runs_in_one_loop_too(cluster: Cluster) -> None:
    async def program() -> tuple[str, ...]:
        async with rostra.connect(cluster.socket("eu.h1")) as me:
            await me.groups.create("loop", "eu")
            listed = await me.groups.list("eu")
            await me.groups.delete("loop", "eu")
            return tuple([each.name for each in listed])

    assert "loop" in asyncio.run(program())
