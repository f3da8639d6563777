"""`join`, `watch` and `leave`: as a user at a terminal, and as a script."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.cluster import Cluster, python
from support.lab import WITHIN_S, member

from rostra.cli.changes import NAMES_ALL, NAMES_MAX, document, lines
from rostra.client import Cause, Gap, Joined, Left, Member, View
from rostra.groups.kinds import LED
from rostra.names import Endpoint, make_group

pytestmark = pytest.mark.usefixtures("cluster")

LOOK_S = 0.02


def first(process: "subprocess.Popen[str]", said: str) -> str:
    """The first line on stdout that says this."""
    assert process.stdout is not None
    for line in process.stdout:
        if said in line:
            return line.rstrip("\n")
    raise AssertionError(f"it never said {said!r}: {process.stderr and process.stderr.read()}")


def remark(process: "subprocess.Popen[str]", said: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if said in line:
            return line.rstrip("\n")
    raise AssertionError(f"it never remarked {said!r}")


def test_watch_shows_a_list_and_then_every_change(cluster: Cluster) -> None:
    with cluster.begin("watch", "shown") as watch:
        assert first(watch, "=").endswith("= shown@world: 0 members")
        with member(cluster.socket("eu.h2"), "bob", "shown", "world") as bob:
            assert first(watch, "+").endswith(" joined")
            os.kill(bob.pid, signal.SIGKILL)
            assert first(watch, "-").endswith(" crashed")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(WITHIN_S) == 0
        assert watch.stderr is not None and watch.stderr.read() == ""


def test_watch_and_join_remark_if_another_name_was_probably_meant(cluster: Cluster) -> None:
    with member(cluster.socket("eu.h1"), "bob", "orchestra", "world"):
        watched = cluster.run("watch", "orchestr", "-n", "1")
        with cluster.begin("join", "orchester") as join:
            said = remark(join, "closest of the names")
            join.send_signal(signal.SIGINT)
            assert join.wait(WITHIN_S) == 0
    assert watched.code == 0 and watched.lines[0].endswith("= orchestr@world: 0 members")
    assert watched.err == (
        "nobody else is in orchestr@world; closest of the names in sight: orchestra@world\n"
    )
    assert said.startswith("nobody else is in orchester@world; ") and "orchestra@world" in said


@pytest.mark.parametrize("word", ["join", "watch"])
def test_a_group_whose_name_begins_with_a_dash_stands_after_two(cluster: Cluster, word: str) -> None:
    with cluster.begin(word, "-o", "jsonl", "--", "-odd") as followed:
        assert json.loads(first(followed, "view"))["group"] == "-odd@world"
        followed.send_signal(signal.SIGINT)
        assert followed.wait(WITHIN_S) == 0
    command = python("import os; print('in', os.environ['ROSTRA_GROUP'], flush=True)")
    with cluster.begin(word, "--", "-odd", "--", *command) as followed:
        assert first(followed, "in ") == "in -odd"
        followed.send_signal(signal.SIGINT)
        assert followed.wait(WITHIN_S) == 0


def test_watch_names_members_or_only_counts_them() -> None:
    members = [{"endpoint": f"eu.h1/p{number}#1", "meta": ""} for number in range(12)]
    view = {"change": "view", "group": "g@world", "isolated": False, "count": 12, "members": members}
    lost = {
        "change": "without",
        "group": "g@world",
        "count": 0,
        "domain": "us",
        "endpoints": ["us.h1/a#1"],
        "because": {"accuser": "eu", "accused": "us", "what": "silent"},
    }
    left = {"change": "left", "group": "g@world", "count": 1, "cause": "leave", "meta": ""}
    left["endpoints"] = ["eu.h1/p1#1"]

    def shown(said: dict[str, object], names_max: int = NAMES_MAX) -> list[str]:
        return [line.plain[10:] for line in lines(said, 0.0, names_max)]

    assert len(shown(view)) == 12 and shown(view)[-1] == "= and 2 more"
    assert len(shown(view, NAMES_ALL)) == 13
    assert shown(view, 0) == ["= g@world: 12 members"]
    assert shown(lost, 0) == ["- without us: eu gave up us (silent)", "- 1 member"]
    assert shown(left, 0) == ["- eu.h1/p1#1 left"]


def test_a_list_counts_whom_it_names_whatever_has_become_of_the_group_meanwhile() -> None:
    alone = View((Member(Endpoint("eu.h1/ann#1"), (1, 1), b""),), isolated=True)
    said = document(make_group("chess", "world"), alone, (), 0.0)
    assert [line.plain[10:] for line in lines(said, 0.0)] == [
        "= chess@world: 1 member, of this host only: it is cut off",
        "= eu.h1/ann#1",
    ]


def test_the_options_of_watch_say_how_many_names(cluster: Cluster) -> None:
    with member(cluster.socket("eu.h1"), "bob", "counted", "world"):
        assert len(cluster.run("watch", "counted", "-n", "1").lines) == 2
        assert len(cluster.run("watch", "counted", "-n", "1", "--members").lines) == 2
        assert len(cluster.run("watch", "counted", "-n", "1", "--no-members").lines) == 1


def test_watch_is_one_document_per_line_for_programs_and_can_be_resumed(cluster: Cluster) -> None:
    with cluster.begin("watch", "numbered", "-o", "jsonl") as watch:
        view = json.loads(first(watch, "view"))
        assert (view["count"], view["members"], view["isolated"]) == (0, [], False)
        with member(cluster.socket("eu.h2"), "bob", "numbered", "world"):
            joined = json.loads(first(watch, "joined"))
            assert (joined["count"], joined["cause"], joined["number"]) == (1, "join", view["number"] + 1)
            watch.send_signal(signal.SIGTERM)
            assert watch.wait(WITHIN_S) == 0
    answer = cluster.run("watch", "numbered", "--resume", joined["token"], "-n", "1", "-o", "jsonl")
    assert [(row["change"], row["number"]) for row in answer.jsonl] == [("left", joined["number"] + 1)]


def test_a_reader_that_goes_away_ends_a_watch_without_a_word(cluster: Cluster) -> None:
    with cluster.begin("watch", "piped") as watch:
        first(watch, "=")
        assert watch.stdout is not None and watch.stderr is not None
        watch.stdout.close()
        with member(cluster.socket("eu.h2"), "bob", "piped", "world"):
            assert watch.wait(WITHIN_S) == 141
        assert watch.stderr.read() == ""


def test_a_command_runs_at_every_change_and_is_told_of_it(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = (
        "import os, sys; say = {k[7:]: v for k, v in os.environ.items() if k.startswith('ROSTRA_')};"
        f"print(say['CHANGE'], say['GROUP'], say['SCOPE'], say['COUNT'], say['ENDPOINTS'].partition('#')[0],"
        f" say['CAUSE'], sys.stdin.read().count('token'), file=open({str(log)!r}, 'a'), flush=True)"
    )
    with cluster.begin("watch", "told", "-n", "3", "--", *python(script)) as watch:
        while not log.exists() or not log.read_text():
            assert watch.poll() is None
            time.sleep(LOOK_S)
        with member(cluster.socket("eu.h2"), "bob", "told", "world"):
            while len(log.read_text().splitlines()) < 2:
                assert watch.poll() is None
                time.sleep(LOOK_S)
        assert watch.wait(WITHIN_S) == 0
    assert log.read_text().splitlines() == [
        "view told world 0   1",
        "joined told world 1 eu.h2/bob join 1",
        "left told world 0 eu.h2/bob crash 1",
    ]


def test_a_command_that_fails_is_remarked_and_may_end_the_watch(cluster: Cluster) -> None:
    goes_on = cluster.run("watch", "failing", "-n", "1", "--", "sh", "-c", "exit 3")
    assert (goes_on.code, goes_on.err) == (0, "sh ended with exit code 3 at view\n")
    ends = cluster.run("watch", "failing", "--stop-on-error", "--", "sh", "-c", "exit 3")
    assert ends.code == 3


def test_a_command_that_does_not_exist_is_wrong_use(cluster: Cluster) -> None:
    answer = cluster.run("watch", "missing", "--", "no-such-program")
    assert answer.code == 2
    assert answer.err.startswith("error: cannot run 'no-such-program': No such file or directory\n")


def test_join_stays_until_ctrl_c_and_then_leaves_in_good_order(cluster: Cluster) -> None:
    with cluster.begin("watch", "stays", "-o", "jsonl", host="eu.h2") as watch:
        first(watch, "view")
        with cluster.begin("join", "stays", "--name", "zoe", "--note", "hi") as join:
            assert "eu.h1/zoe#" in remark(join, "is in stays@world")
            joined = json.loads(first(watch, "joined"))
            assert joined["members"][0]["meta"] == "hi"
            join.send_signal(signal.SIGINT)
            assert join.wait(WITHIN_S) == 0
        assert json.loads(first(watch, "left"))["cause"] == "leave"
        watch.send_signal(signal.SIGINT)


def test_join_lasts_as_long_as_its_command_and_ends_with_its_code(cluster: Cluster) -> None:
    script = (
        "import os; print(os.environ['ROSTRA_ENDPOINT'], os.environ['ROSTRA_GROUP']); raise SystemExit(7)"
    )
    with cluster.begin("join", "lasts", "--name", "kid", "--", *python(script)) as join:
        assert first(join, "eu.h1/kid#").endswith(" lasts")
        assert join.wait(WITHIN_S) == 7
    assert cluster.run("resolve", "lasts").code == 1


def test_sigterm_ends_the_command_of_a_join_first(cluster: Cluster) -> None:
    with cluster.begin("join", "first", "--", "sleep", "60") as join:
        remark(join, "is in first@world")
        join.send_signal(signal.SIGTERM)
        assert join.wait(WITHIN_S) == 0


def test_a_name_that_is_taken_is_refused(cluster: Cluster) -> None:
    with member(cluster.socket("eu.h1"), "ann", "taken", "world"):
        answer = cluster.run("join", "taken", "--name", "ann")
    assert answer.code == 3
    assert answer.err.splitlines()[0].startswith("error: eu.h1/ann#")
    assert answer.err.splitlines()[0].endswith(" is open already")


def test_leave_asks_a_join_of_this_host_to_leave(cluster: Cluster) -> None:
    with cluster.begin("watch", "asked", "-o", "jsonl") as watch:
        first(watch, "view")
        with cluster.begin("join", "asked", "--name", "zoe") as join:
            remark(join, "is in asked@world")
            answer = cluster.run("leave", "asked", "--note", "bye")
            assert answer.code == 0 and answer.err.endswith(" left asked@world\n")
            assert join.wait(WITHIN_S) == 0
            assert join.stderr is not None
            assert join.stderr.read() == "left asked@world, as rostra leave asked\n"
        left = json.loads(first(watch, "left"))
        assert (left["cause"], left["meta"]) == ("leave", "bye")
        watch.send_signal(signal.SIGINT)


def test_leave_says_who_could_be_meant(cluster: Cluster) -> None:
    nobody = cluster.run("leave", "meant")
    assert (nobody.code, nobody.err.splitlines()[0]) == (3, "error: nobody of eu.h1 is in meant@world")
    with (
        cluster.begin("join", "meant", "--name", "a") as one,
        cluster.begin("join", "meant", "--name", "b") as two,
    ):
        for each in (one, two):
            remark(each, "is in meant@world")
        several = cluster.run("leave", "meant")
        assert several.code == 3 and several.err.endswith("choose with --name, or --all: a, b\n")
        assert cluster.run("leave", "meant", "--name", "c").code == 3
        mistyped = cluster.run("leave", "maent")
        assert mistyped.code == 3
        assert mistyped.err.endswith("closest of the groups that have members of this host: meant@world\n")
        assert cluster.run("leave", "meant", "--all").code == 0
        assert (one.wait(WITHIN_S), two.wait(WITHIN_S)) == (0, 0)


def test_a_program_that_takes_no_orders_is_named(cluster: Cluster) -> None:
    with member(cluster.socket("eu.h1"), "ann", "orders", "world") as ann:
        answer = cluster.run("leave", "orders")
    assert answer.code == 3
    assert f" member pid {ann.pid} takes no orders" in answer.err


def test_a_group_outside_the_scope_of_the_host_is_refused(cluster: Cluster) -> None:
    for words in (["join", "chess@us"], ["watch", "chess@us"]):
        answer = cluster.run(*words)
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.startswith("error: eu.h1 is outside us, the scope of chess@us\n")


def test_a_permanent_group_must_be_registered(cluster: Cluster) -> None:
    answer = cluster.run("join", "news", "--permanent")
    assert answer.code == 3 and "news@world is not registered as a permanent group" in answer.err


def test_a_group_is_registered_as_permanent_and_joined_as_that(cluster: Cluster) -> None:
    at_eu = ("--agent", cluster.socket("eu"))
    assert cluster.run("name", "register", "paper@eu", *at_eu).err == "paper@eu is permanent\n"
    try:
        deadline = time.monotonic() + WITHIN_S
        while "is a permanent group" not in cluster.run("join", "paper@eu", "--", "true").err:
            assert time.monotonic() < deadline, "no agent knows that it is one"
        assert cluster.run("join", "paper@eu", "--permanent", "--", "true").code == 0
    finally:
        answer = cluster.run("name", "unregister", "paper@eu", *at_eu)
    assert answer.err == "paper@eu is not permanent\n"


def test_a_led_group_is_joined_and_its_list_says_no_cause(cluster: Cluster) -> None:
    with cluster.begin("join", "team@eu", "--membership", "led") as join:
        remark(join, "is in team@eu")
        assert cluster.run("set", "team@eu", host="eu.h1").out.startswith("team@eu   led by eu.h1   1 member")
        join.send_signal(signal.SIGINT)
        assert join.wait(WITHIN_S) == 0
    led = Member(Endpoint("eu.h1/ann#7"), (1, 1), kind=LED)
    said = document(make_group("team", "eu"), Joined((led,), Cause.MERGE), (led,), 0.0)
    assert [line.plain[10:] for line in lines(said, 0.0)] == ["+ eu.h1/ann#7 is listed"]
    said = document(make_group("team", "eu"), Left((Endpoint("eu.h1/bob#8"),), Cause.MERGE), (led,), 0.0)
    assert [line.plain[10:] for line in lines(said, 0.0)] == ["- eu.h1/bob#8 is not listed any more"]


def test_a_gap_in_what_is_said_names_the_sender_and_its_first_message_that_is_missing() -> None:
    bob = Endpoint("eu.h1/bob#7")
    said = document(make_group("news", "world"), Gap(13, sender=bob, first=5), (), 0.0)
    assert (said["missed"], said["sender"], said["first"]) == (13, bob, 5)
    assert "sender" not in document(make_group("news", "world"), Gap(13), (), 0.0)
