"""`rostra why` over real processes: programs that die, agents that stand still, servers that go away."""

import os
import signal
import subprocess
import time
from typing import Any

import pytest
from support.cluster import Answer, Cluster
from support.lab import FORGIVING_S, WITHIN_S, member

pytestmark = pytest.mark.usefixtures("cluster")


def until(cluster: Cluster, *words: str, host: str = "eu.h1", verdict: str) -> dict[str, Any]:
    """The story, once it is this one."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        story: dict[str, Any] = cluster.run("why", *words, "-o", "json", host=host).json
        if story["verdict"] == verdict:
            return story
        assert time.monotonic() < deadline, story
        time.sleep(0.1)


def told(story: dict[str, Any], node: str) -> list[str]:
    """But for how late its loop was: that is this machine's doing."""
    return [step["text"] for step in story["steps"] if step["node"] == node and step["what"] != "late"]


def sees(watch: "subprocess.Popen[str]", change: str) -> None:
    """Until the watch has told of this change."""
    assert watch.stdout is not None
    while f'"change":"{change}"' not in (line := watch.stdout.readline()):
        assert line, "the watch has ended"


def endpoint_of(answer: Answer) -> str:
    (line,) = answer.lines
    return line


def test_a_program_that_was_killed_is_a_crash_told_along_the_way(cluster: Cluster) -> None:
    watcher = cluster.begin("watch", "killed", "-o", "jsonl")
    sees(watcher, "view")
    with watcher, member(cluster.socket("us.h1"), "bob", "killed", "world") as bob:
        sees(watcher, "joined")
        endpoint = endpoint_of(cluster.run("resolve", "killed"))
        os.kill(bob.pid, signal.SIGKILL)
        sees(watcher, "left")  # so everybody on the way has been told, and not only his own agent
        story = until(cluster, "us.h1/bob", verdict="crashed")
        watcher.send_signal(signal.SIGINT)
    assert story["about"] == endpoint and story["settings"] == []
    assert story["way"] == ["eu.h1", "eu", "us", "us.h1"]
    assert told(story, "us.h1") == ["told us: it is gone (closed by the peer)"]
    assert told(story, "eu") == ["heard from us, told eu.h1: it is gone"]
    assert told(story, "eu.h1")[0].startswith("heard from eu, told 1 endpoint here")


def test_an_agent_that_stood_still_is_told_from_both_sides(cluster: Cluster) -> None:
    watcher = cluster.begin("watch", "stopped", "-o", "jsonl")
    sees(watcher, "view")
    with watcher, member(cluster.socket("us.h1"), "bob", "stopped", "world"):
        sees(watcher, "joined")
        endpoint = endpoint_of(cluster.run("resolve", "stopped"))
        cluster["us.h1"].signal(signal.SIGSTOP)
        lost = until(cluster, endpoint, verdict="lost")
        assert (lost["accuser"], lost["accused"]) == ("us", "us.h1")
        assert lost["evidence"]["silence_s"] >= lost["evidence"]["down_after_s"] == FORGIVING_S
        assert lost["health"]["us.h1"] == "not known: us cannot reach us.h1"
        for_people = cluster.run("why", endpoint, env={"COLUMNS": "80"})
        cluster["us.h1"].signal(signal.SIGCONT)
        back = until(cluster, endpoint, verdict="there")
        watcher.send_signal(signal.SIGINT)
    assert for_people.code == 0 and all(len(line) <= 80 for line in for_people.lines)
    assert "us heard nothing from us.h1 for" in " ".join(for_people.out.split())
    assert "is there again; it was out of sight for" in back["summary"]
    assert back["health"]["us.h1"].startswith("stood still for ")
    assert any(step["what"] == "suspected" for step in back["steps"])
    (setting,) = back["settings"]
    assert setting["name"] == "detect.down_after_s" and "nobody would have been removed" in setting["text"]


def test_a_program_that_stood_still_is_told_with_the_bound_that_it_broke(cluster: Cluster) -> None:
    with member(cluster.socket("eu.h2"), "bob", "hangs", "world") as bob:
        endpoint = endpoint_of(cluster.run("resolve", "hangs"))
        os.kill(bob.pid, signal.SIGSTOP)
        story = until(cluster, endpoint, verdict="stalled")
        os.kill(bob.pid, signal.SIGKILL)
    assert "left a ping unanswered for 10 s, and 10 s is allowed" in story["summary"]
    assert [each["name"] for each in story["settings"]] == ["detect.program_down_after_s"]


def test_a_server_that_is_gone_is_out_of_sight_and_said_to_be(cluster: Cluster) -> None:
    cluster["us"].kill()
    try:
        story = until(cluster, "us", verdict="lost")
        never_was = cluster.run("why", "us.nowhere/nobody", env={"COLUMNS": "80"})
    finally:
        cluster.calmly()
    assert (story["accuser"], story["accused"]) == ("eu", "us")
    assert story["unseen"] == {"us": "eu cannot reach us"}
    assert never_was.code == 1
    assert " ".join(never_was.out.split()).startswith(
        "nobody in sight knows us.nowhere/nobody; but all of us is out of sight: "
    )


def test_a_refusal_is_told_with_its_reason(cluster: Cluster) -> None:
    with member(cluster.socket("eu.h1"), "ann", "refusals", "world"):
        assert cluster.run("join", "refusals", "--name", "ann").code == 3
        story = cluster.run("why", "eu.h1/ann", "-o", "json").json
    assert "another program asked for that name, and was refused: eu.h1/ann#" in story["summary"]


def test_what_its_users_mistyped_is_no_part_of_a_hosts_story(cluster: Cluster) -> None:
    assert cluster.run("resolve", "mistyped@us").code == 3
    story = cluster.run("why", "eu.h1", "-o", "json").json
    assert "refused" not in story["summary"]
    assert not any(step["what"] == "refused" for step in story["steps"])


def test_what_nobody_remembers_is_exit_code_1(cluster: Cluster) -> None:
    answer = cluster.run("why", "eu.h2/nobody#1")
    assert answer.code == 1
    assert "nobody knows eu.h2/nobody#1: the agent of eu.h2 remembers no such name" in " ".join(
        answer.out.split()
    )


# Names that are not whole, or wrong


def test_a_name_alone_is_enough_if_only_one_has_it(cluster: Cluster) -> None:
    with member(cluster.socket("us.h1"), "solo", "named", "world"):
        endpoint = endpoint_of(cluster.run("resolve", "named", host="us.h1"))
        for name in ("solo", f"solo#{endpoint.partition('#')[2]}"):
            story = cluster.run("why", name, "-o", "json").json
            assert (story["about"], story["verdict"]) == (endpoint, "there")


def test_a_name_that_several_have_lists_them(cluster: Cluster) -> None:
    with (
        member(cluster.socket("eu.h1"), "twin", "twins", "world"),
        member(cluster.socket("us.h1"), "twin", "twins", "world"),
    ):
        answer = cluster.run("why", "twin")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines() == [
        "error: 2 endpoints are called 'twin'",
        "  say which one:",
        "  rostra why eu.h1/twin",
        "  rostra why us.h1/twin",
    ]


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("margaret", "eu.h1/margarete"),
        ("Margarete", "eu.h1/margarete"),
        ("eu.h1/margarte", "eu.h1/margarete"),
        ("eu.h2/margarete", "eu.h1/margarete"),
        ("eu.h7/margarete", "eu.h1/margarete"),
        ("eu.h11", "eu.h1"),
    ],
)
def test_a_mistyped_name_gets_the_closest(cluster: Cluster, mistyped: str, meant: str) -> None:
    with member(cluster.socket("eu.h1"), "margarete", "closest", "world"):
        answer = cluster.run("why", mistyped)
        told = cluster.run("why", mistyped, "-o", "json")
    assert (answer.code, told.code) == (1, 1)
    assert told.json["verdict"] == "unknown" and meant in told.json["closest"]
    assert answer.out.startswith(f"nobody knows {mistyped}: ")
    assert meant in next(line for line in answer.lines if line.startswith("closest")).replace(",", "").split()


def test_a_name_without_its_number_is_the_newest_and_names_the_others(cluster: Cluster) -> None:
    with member(cluster.socket("eu.h1"), "again", "again", "world"):
        first = endpoint_of(cluster.run("resolve", "again"))
    with member(cluster.socket("eu.h1"), "again", "again", "world"):
        story = cluster.run("why", "eu.h1/again", "-o", "json").json
        lines = cluster.run("why", "eu.h1/again").lines
    assert story["verdict"] == "there" and story["about"] != first and story["earlier"] == [first]
    assert f"earlier   of that name: {first}" in lines


def test_the_root_has_no_story_without_a_server(cluster: Cluster) -> None:
    answer = cluster.run("why", "world")
    assert (answer.code, answer.err.splitlines()[0]) == (2, "error: the world has no server of its own")


def test_a_server_can_be_asked_instead_of_an_agent(cluster: Cluster) -> None:
    """It asks nobody for us, so the others are asked directly, where the world file says."""
    answer = cluster.run("why", "us", "-o", "json", env={"ROSTRA_AGENT": cluster.socket("eu")})
    assert answer.json["verdict"] in ("there", "lost")
    assert answer.json["directly"] == ["us"]
