"""Commands that ask: who is there, which groups, which domains; for people and for programs."""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster, rostra
from support.lab import WITHIN_S, member

from rostra.cli.asking import within_scope
from rostra.cli.groups import is_all_in_sight
from rostra.client.sight import Sight
from rostra.errors import NotInScope
from rostra.names import Domain, parse_group

pytestmark = pytest.mark.usefixtures("cluster")


@contextlib.contextmanager
def somebody(cluster: Cluster, group: str, scope: str = "world") -> Iterator[None]:
    with (
        member(cluster.socket("eu.h1"), "ann", group, scope),
        member(cluster.socket("eu.h2"), "bob", group, scope),
    ):
        yield


def test_resolve_prints_one_endpoint_per_line(cluster: Cluster) -> None:
    with somebody(cluster, "plain"):
        answer = cluster.run("resolve", "plain")
    assert (answer.code, answer.err) == (0, "")
    assert [line.partition("#")[0] for line in answer.lines] == ["eu.h1/ann", "eu.h2/bob"]


def test_resolve_says_the_same_to_programs(cluster: Cluster) -> None:
    with somebody(cluster, "programs"):
        whole = cluster.run("resolve", "programs", "-o", "json").json
        rows = cluster.run("resolve", "programs@world", "-o", "jsonl").jsonl
    assert (whole["group"], whole["isolated"], len(whole["members"])) == ("programs@world", False, 2)
    assert [row["endpoint"] for row in rows] == [each["endpoint"] for each in whole["members"]]


def test_resolve_everywhere_asks_every_scope_around_the_host(cluster: Cluster) -> None:
    with (
        member(cluster.socket("eu.h1"), "ann", "scoped", "eu"),
        member(cluster.socket("us.h1"), "cid", "scoped", "world"),
    ):
        answer = cluster.run("resolve", "scoped", "--everywhere", "-o", "json").json
    found = {
        part["group"]: [m["endpoint"].partition("#")[0] for m in part["members"]] for part in answer["scopes"]
    }
    assert found == {"scoped@eu.h1": [], "scoped@eu": ["eu.h1/ann"], "scoped@world": ["us.h1/cid"]}


def test_members_is_a_table_that_fits_eighty_columns(cluster: Cluster) -> None:
    with somebody(cluster, "table"):
        answer = cluster.run("members", "table", env={"COLUMNS": "80"})
    assert answer.code == 0
    heading, columns, *rows = answer.lines
    assert heading.startswith("table@world   2 members   as eu.h1 sees it   ")
    assert columns.split() == ["MEMBER", "HOST", "HEALTH"]
    assert [row.split()[1:] for row in rows] == [["eu.h1", "alive"], ["eu.h2", "alive"]]
    assert all(len(line) <= 80 and line == line.rstrip() for line in answer.lines)
    assert "health is seen from eu.h1" in answer.err


def test_nothing_but_the_answer_is_on_stdout(cluster: Cluster) -> None:
    with somebody(cluster, "remarks"):
        answer = cluster.run("members", "remarks", "-o", "json")
    assert {row["health"] for row in answer.json["members"]} == {"alive"}


def test_a_group_that_nobody_is_in_names_the_closest(cluster: Cluster) -> None:
    with somebody(cluster, "chess"):
        answer = cluster.run("members", "ches")
        programs = cluster.run("resolve", "ches", "-o", "json")
        led = cluster.run("set", "ches")
    assert (answer.code, answer.out) == (1, "")
    first, second = answer.err.splitlines()[:2]
    assert first == "eu.h1 knows no group 'ches@world'"
    assert second.startswith("  closest of the ") and second.endswith("names it knows: chess@world")
    assert (programs.code, programs.json["members"]) == (1, [])
    assert led.code == 1 and answer.err.splitlines()[:2] == led.err.splitlines()[1:3]


def test_a_group_that_is_like_no_other_is_told_which_there_are(cluster: Cluster) -> None:
    with somebody(cluster, "chess"):
        answer = cluster.run("members", "nosuch")
    first, second = answer.err.splitlines()[:2]
    assert (answer.code, first) == (1, "eu.h1 knows no group 'nosuch@world'")
    assert second.startswith("  it knows: ") and "@" in second


def test_groups_says_from_where_it_was_seen_and_what_it_does_not_know(cluster: Cluster) -> None:
    with (
        somebody(cluster, "wide"),
        member(cluster.socket("us.h1"), "cid", "far", "us"),
    ):
        answer = cluster.run("groups")
        rows = {row["group"]: row for row in cluster.run("groups", "-o", "jsonl").jsonl}
    assert answer.code == 0
    assert (rows["wide@world"]["members"], rows["wide@world"]["complete"]) == (2, True)
    # us tells its row; who is in it, nobody in sight knows.
    assert "far@us" not in rows or rows["far@us"]["complete"] is False
    assert "seen from eu.h1, eu, us" in answer.err
    if any(line.split()[2].endswith("+") for line in answer.lines[1:]):
        assert answer.err.startswith("N+ means at least N: not every host of that scope")
    assert "groups elsewhere are not shown" in answer.err


def seen(**links: tuple[str, ...]) -> Sight:
    """What can be seen if these nodes can be asked, and have those links."""
    documents = {
        Domain(node.replace("_", ".")): {"links": dict.fromkeys(peers)} for node, peers in links.items()
    }
    return Sight(Domain("eu.h1"), "lab", documents, {})


def test_a_count_is_complete_where_every_host_of_the_scope_is_in_sight() -> None:
    us = Domain("us")
    assert is_all_in_sight(us, seen(us=("eu", "us.h1"), us_h1=("us",)))
    assert not is_all_in_sight(us, seen(us=("eu", "us.h1", "us.h2"), us_h1=("us",)))
    assert not is_all_in_sight(us, seen(us_h1=("us",)))
    world = Domain("world")
    assert is_all_in_sight(world, seen(us=("us.h1",), us_h1=("us",)))
    assert not is_all_in_sight(world, seen(us=("eu", "us.h1"), us_h1=("us",)))


def test_domains_shows_the_tree_as_it_is_seen(cluster: Cluster) -> None:
    answer = cluster.run("domains")
    states = {row.split()[0]: row.split()[2] for row in answer.lines[2:]}
    assert states == dict.fromkeys(["eu", "eu.h1", "eu.h2", "us", "us.h1"], "up")
    whole = cluster.run("domains", "-o", "json").json
    assert whole["world"] == "lab" and {link["state"] for link in whole["links"]} == {"up"}


def test_a_server_that_is_down_is_shown_as_down(cluster: Cluster) -> None:
    cluster["us"].kill()
    try:
        deadline = time.monotonic() + WITHIN_S
        while True:
            answer = cluster.run("domains", "-o", "json").json
            if {s["path"]: s["state"] for s in answer["servers"]}["us"] == "down":
                break
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)
        assert "us" in answer["unseen"]
        whole = cluster.run("domains")
        assert "nodes could not be asked: us" in whole.err
    finally:
        cluster.calmly()


# What cannot be right


def test_a_scope_that_does_not_contain_the_host_is_refused_with_those_that_do(cluster: Cluster) -> None:
    answer = cluster.run("resolve", "chess@us")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.splitlines() == [
        "error: eu.h1 is outside us, the scope of chess@us",
        "  use a scope that contains it: eu.h1, eu, world",
        "  or ask an agent inside us:  --agent HOST:PORT",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("resolve", "chess", "-s", "euu"),
        ("join", "chess@euu", "--", "true"),
        ("watch", "chess@euu"),
        ("lead", "chess@euu", "--", "true"),
        ("views", "chess@euu"),
        ("set", "chess@euu"),
    ],
)
def test_a_scope_that_no_node_has_is_called_so(cluster: Cluster, words: tuple[str, ...]) -> None:
    answer = cluster.run(*words)
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.splitlines() == [
        "error: no domain euu is known here, the scope of chess@euu",
        "  closest: eu",
    ]


def test_one_label_below_a_cluster_may_be_a_host_and_is_not_called_unknown(cluster: Cluster) -> None:
    assert "eu.h1 is outside us.h7" in cluster.run("resolve", "chess@us.h7").err
    answer = cluster.run("resolve", "chess@us.h7.x")
    assert answer.err.startswith("error: no domain us.h7.x is known here")


def test_in_a_small_world_the_agent_to_ask_is_named(tmp_path: Path) -> None:
    home = tmp_path / "up-1"
    home.mkdir()
    for node in ("eu.paris.h1", "us", "us.sf", "us.sf.h1"):
        (home / f"{node}.sock").touch()
    with (
        pytest.raises(NotInScope) as told,
        within_scope(parse_group("chess@us"), str(home / "eu.paris.h1.sock")),
    ):
        raise NotInScope("eu.paris.h1 is outside us", fix="use another")
    assert told.value.fix == f"use another\nor ask an agent inside us:  --agent {home}/us.sf.h1.sock"


def test_a_question_that_takes_too_long_says_so(cluster: Cluster) -> None:
    cluster["us"].signal(signal.SIGSTOP)
    try:
        answers = [cluster.run(word, "late", "--deadline", "0.2") for word in ("resolve", "members")]
    finally:
        cluster["us"].resume()
        cluster.calmly()
    for answer in answers:
        assert answer.code in (1, 5)  # 1: the silent server was given up before, and the rest answered
        if answer.code == 5:
            assert answer.err.startswith("error: not all have answered within 0.2 s\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resolve", "a//b"], "'a//b' is not a group name"),
        (["resolve", "chess@EU"], "'EU' in scope path 'EU' is not a label"),
        (["resolve", "chess@eu", "--scope", "eu"], "'chess@eu' and --scope eu both say the scope"),
        (["resolve", "chess@eu", "--everywhere"], "--everywhere and a scope"),
        (["resolve", " "], "has spaces at an end of a part"),
        (["members", "chess @eu"], "has spaces at an end of a part"),
        (["watch", "a  b"], "or several in a row"),
        (["join", "chess ", "--name", "ann"], "has spaces at an end of a part"),
        (["join", "x~y"], "'x~y' is not a group name: 'x' is not an endpoint\n  write a or a/b"),
        (["why", "EU/x"], "is not a label"),
        (["why", "a b"], "'a b' is no name"),
        (["why", ""], "write an endpoint (eu.paris.h1/ann), its name alone (ann), a host or a domain"),
        (["watch", "chess", "--"], "nothing stands after --"),
        (["watch", "chess", "--", "-odd"], "too many words: -odd"),
        (["join", "lounge@"], "'lounge@' has no scope after the '@'\n  write name@scope, such as"),
        (["join", "@eu"], "'@eu' has no name before the '@'"),
        (["join", "lounge", "--scope", ""], "the scope is empty"),
        (["join", ""], "the group's name is empty"),
        (["members", "x@-eu"], "-eu has a label that begins with '-': those are reserved for the system"),
        (["tail", "x@eu.-delegate"], "those are reserved for the system"),
        (["join", "chess", "--name", "a b"], "is not an endpoint name"),
    ],
)
def test_a_word_that_cannot_be_right_is_wrong_use(cluster: Cluster, words: list[str], said: str) -> None:
    answer = cluster.run(*words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err and answer.err.startswith("error: ")


def test_a_restricted_name_without_an_authority_is_not_joined(cluster: Cluster) -> None:
    answer = cluster.run("join", "acme!payroll")
    assert (answer.code, answer.out) == (4, "")
    assert "acme" in answer.err and answer.err.startswith("error: "), answer.err


def test_an_agent_that_is_not_there_is_unreachable(cluster: Cluster, tmp_path: object) -> None:
    answer = rostra("members", "chess", "--agent", f"{tmp_path}/none.sock")
    assert answer.code == 4
    assert answer.err.startswith(
        f"error: no agent at {tmp_path}/none.sock: No such file or directory\n  start one"
    )
