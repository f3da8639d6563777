"""`send` and `tail`: pipes that lead through a group."""

import base64
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.cluster import Cluster
from support.lab import WITHIN_S

pytestmark = pytest.mark.usefixtures("cluster")


def listening(process: "subprocess.Popen[str]") -> None:
    """Until it is in the group."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        if "listens in" in line:
            return
        lines.append(line)
    raise AssertionError(f"it never listened: {lines}")


def test_lines_of_a_pipe_come_out_of_a_pipe_on_another_host(cluster: Cluster) -> None:
    lines = "".join(f"line {number}\n" for number in range(3000))
    with cluster.begin("tail", "pipes", "--count", "3000", host="eu.h2") as tail:
        listening(tail)
        with cluster.begin("send", "pipes", stdin=subprocess.PIPE) as send:
            assert send.communicate(lines, timeout=WITHIN_S) == ("", "")
            assert send.returncode == 0
        assert tail.stdout is not None and tail.stdout.read() == lines
        assert tail.wait(WITHIN_S) == 0


def test_one_message_and_who_said_it(cluster: Cluster) -> None:
    with cluster.begin("tail", "one", "-o", "jsonl") as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["change"] == "view"
        assert cluster.run("send", "one", "lunch is ready", "--name", "ann").code == 0
        said = [json.loads(tail.stdout.readline()) for _ in range(3)]
        assert [each["change"] for each in said] == ["joined", "message", "left"]
        assert said[1]["body"] == "lunch is ready" and said[1]["number"] == 1
        assert "/ann#" in said[1]["sender"]
        tail.send_signal(signal.SIGINT)
        assert tail.wait(WITHIN_S) == 0


def test_what_is_submitted_is_heard_and_nobody_sees_who_did(cluster: Cluster) -> None:
    with cluster.begin("tail", "submitted", "-o", "jsonl") as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["change"] == "view"
        assert cluster.run("send", "submitted", "lunch is ready", "--name", "ann", "--submit").code == 0
        joined, message = [json.loads(tail.stdout.readline()) for _ in range(2)]
        assert [each["endpoint"].partition("#")[0] for each in joined["members"]] == [
            "eu.-delegate/aggregate"
        ]
        assert message["body"] == "lunch is ready" and "/ann#" in message["sender"]
        tail.send_signal(signal.SIGINT)
        assert tail.wait(WITHIN_S) == 0


def test_who_submits_cannot_wait_for_others(cluster: Cluster) -> None:
    refused = cluster.run("send", "submitted", "hello", "--submit", "--wait", "1")
    assert refused.code == 2 and "who submits does not see the others" in refused.err


def test_what_is_no_text_is_shown_so_that_programs_get_it_back(cluster: Cluster) -> None:
    with cluster.begin("tail", "bytes", "-o", "jsonl", "--count", "2") as tail:
        listening(tail)
        with cluster.begin("send", "bytes", stdin=subprocess.PIPE) as send:
            assert send.stdin is not None
            send.stdin.buffer.write(b"a\x00\xff b\n61 00\n")
            send.stdin.close()
            assert send.wait(WITHIN_S) == 0
        assert tail.stdout is not None
        said = [json.loads(line) for line in tail.stdout]
        bodies = [each for each in said if each["change"] == "message"]
        assert base64.b64decode(bodies[0]["body_base64"]) == b"a\x00\xff b" and "body" not in bodies[0]
        assert bodies[1]["body"] == "61 00" and "body_base64" not in bodies[1]
        assert tail.wait(WITHIN_S) == 0


def test_nobody_there_is_remarked(cluster: Cluster) -> None:
    sent = cluster.run("send", "empty-room", "hello?")
    assert sent.code == 0 and sent.err == "nobody else is in empty-room@world: nobody has heard it\n"


def test_listeners_that_have_left_meanwhile_are_not_taken_for_none(cluster: Cluster) -> None:
    with (
        cluster.begin("tail", "emptied", "--count", "1") as tail,
        cluster.begin("send", "emptied", "--wait", "1", stdin=subprocess.PIPE) as send,
    ):
        assert send.stdin is not None and tail.stdout is not None
        send.stdin.write("heard\n")
        send.stdin.flush()
        assert tail.stdout.readline() == "heard\n" and tail.wait(WITHIN_S) == 0
        _, remarks = send.communicate("not heard\n", timeout=WITHIN_S)
        assert send.returncode == 0
    assert remarks.splitlines()[-1] == (
        "all others have left emptied@world: nobody has heard what was sent after that"
    )


def test_what_is_submitted_to_nobody_is_remarked(cluster: Cluster) -> None:
    sent = cluster.run("send", "empty-room", "hello?", "--submit")
    assert sent.err == "nobody is in empty-room@world now: perhaps nobody has heard it\n"


@pytest.mark.parametrize("more", [[], ["--submit"]])
def test_an_empty_stdin_is_not_something_that_nobody_heard(cluster: Cluster, more: list[str]) -> None:
    with cluster.begin("send", "nothing", *more, stdin=subprocess.DEVNULL) as send:
        assert send.communicate(timeout=WITHIN_S)[1] == "nothing was sent: no line came on stdin\n"
        assert send.returncode == 0


def test_a_group_without_delivery_is_refused_by_what_it_is(cluster: Cluster) -> None:
    with cluster.begin("join", "quiet") as join:
        assert join.stderr is not None and "is in quiet@world" in join.stderr.readline()
        refused = cluster.run("send", "quiet", "hello?")
        assert refused.code == 3 and 'is a group with delivery="none"' in refused.err
        join.send_signal(signal.SIGINT)
        assert join.wait(WITHIN_S) == 0


def test_a_group_with_members_is_not_made_atomic_by_who_sends(cluster: Cluster) -> None:
    """Joined so, a relaxed group would become atomic, and put its members out."""
    with cluster.begin("tail", "stays@eu", "--count", "1") as tail:
        listening(tail)
        refused = cluster.run("send", "stays@eu", "hello", "--delivery", "atomic")
        assert refused.code == 3 and 'stays@eu has members, with delivery="fifo"' in refused.err
        assert cluster.run("send", "stays@eu", "hello").code == 0
        assert tail.stdout is not None and tail.stdout.readline() == "hello\n"
        assert tail.wait(WITHIN_S) == 0


@pytest.mark.parametrize("words", [["send", "mute@eu", "hello"], ["tail", "mute@eu"]])
def test_an_agreed_group_without_delivery_is_refused_by_what_it_is(
    cluster: Cluster, words: list[str]
) -> None:
    cluster.run("group", "create", "mute@eu")
    refused = cluster.run(*words)
    assert refused.code == 3
    assert 'mute@eu is agreed, with delivery="none"' in refused.err and "rostra views mute@eu" in refused.err


def test_a_reader_that_goes_away_ends_a_tail_without_a_word(cluster: Cluster) -> None:
    with cluster.begin("tail", "shut") as tail:
        listening(tail)
        assert tail.stdout is not None
        tail.stdout.close()  # and nobody says anything that could be written there
        assert tail.wait(WITHIN_S) == 141
        assert tail.stderr is not None and "Traceback" not in tail.stderr.read()


def test_ctrl_c_ends_a_send_that_waits_for_its_input(cluster: Cluster) -> None:
    with cluster.begin("tail", "cut", "--count", "1") as tail:
        listening(tail)
        with cluster.begin("send", "cut", stdin=subprocess.PIPE) as send:
            assert send.stdin is not None
            send.stdin.write("half a stream\n")
            send.stdin.flush()
            assert tail.stdout is not None and tail.stdout.readline() == "half a stream\n"
            send.send_signal(signal.SIGINT)
            assert send.wait(WITHIN_S) == 0


# Groups with one order


def test_messages_of_two_senders_come_out_in_one_order_with_their_positions(cluster: Cluster) -> None:
    with (
        cluster.begin("tail", "ordered@eu", "--delivery", "atomic", "-o", "jsonl") as tail,
        cluster.begin("tail", "ordered@eu", "--delivery", "atomic", "--count", "3", host="eu.h2") as other,
    ):
        assert tail.stdout is not None and other.stdout is not None
        listening(other)
        first = cluster.run("send", "ordered@eu", "lunch", "--name", "ann")
        assert first.code == 0 and first.out.startswith("position "), first
        with cluster.begin("send", "ordered@eu", stdin=subprocess.PIPE) as send:
            out, err = send.communicate("is\nready\n", timeout=WITHIN_S)
        assert send.returncode == 0 and out.startswith("2 messages, positions "), err
        assert other.stdout.read() == "lunch\nis\nready\n" and other.wait(WITHIN_S) == 0
        said: list[dict[str, object]] = []
        while len([each for each in said if each["change"] == "message"]) < 3:
            said.append(json.loads(tail.stdout.readline()))
        messages = [each for each in said if each["change"] == "message"]
        assert [each["body"] for each in messages] == ["lunch", "is", "ready"]
        assert f"position {messages[0]['position']}, view" in first.out and "/ann#" in str(
            messages[0]["sender"]
        )
        views = [each for each in said if each["change"] == "view"]
        assert len(views) > 2 and all(each["count"] == len(each["members"]) for each in views)  # type: ignore[arg-type]
        tail.send_signal(signal.SIGINT)
        assert tail.wait(WITHIN_S) == 0


def test_who_submits_has_no_place_in_an_order(cluster: Cluster) -> None:
    refused = cluster.run("send", "places@eu", "hello", "--submit", "--delivery", "atomic")
    assert refused.code == 2 and "only members have places in its order" in refused.err


def test_receipts_are_one_document_for_each_line(cluster: Cluster) -> None:
    with cluster.begin(
        "send", "receipts@eu", "--delivery", "atomic", "-o", "jsonl", stdin=subprocess.PIPE
    ) as send:
        out, _ = send.communicate("one\ntwo\n", timeout=WITHIN_S)
    places = [json.loads(line) for line in out.splitlines()]
    assert [each["position"] for each in places] == [2, 3] and places[0]["view"] == places[1]["view"]


def test_receipts_as_json_are_one_document(cluster: Cluster) -> None:
    with cluster.begin(
        "send", "receipt-json@eu", "--delivery", "atomic", "-o", "json", stdin=subprocess.PIPE
    ) as send:
        out, _ = send.communicate("one\ntwo\n", timeout=WITHIN_S)
    said = json.loads(out)
    assert said["group"] == "receipt-json@eu"
    assert [each["position"] for each in said["receipts"]] == [2, 3]


REPLICA = """
import asyncio, sys, rostra
from examples.counter import Counter

async def main():
    async with rostra.connect(sys.argv[1]) as me, me.replicate("visits", Counter(), scope="eu") as counter:
        print("in", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(await counter.add(int(line)), flush=True)

asyncio.run(main())
"""


def test_a_replicated_object_is_tailed_as_its_commands_and_who_sends_to_it_is_told(cluster: Cluster) -> None:
    words = [sys.executable, "-c", REPLICA, cluster.socket("eu.h2")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as replica:
        try:
            assert replica.stdin is not None and replica.stdout is not None
            assert replica.stdout.readline() == "in\n"
            with (
                cluster.begin("tail", "visits@eu") as tail,
                cluster.begin("tail", "visits@eu", "-o", "jsonl") as documents,
            ):
                assert tail.stdout is not None and documents.stdout is not None
                listening(tail)
                while json.loads(documents.stdout.readline()).get("change") != "message":
                    pass  # its state, for who joined
                replica.stdin.write("5\n")
                replica.stdin.flush()
                shown = next(line for line in tail.stdout if "add" in line)
                said = next(
                    each for each in map(json.loads, documents.stdout) if "add" in each.get("command", "")
                )
                with cluster.begin("send", "visits@eu", stdin=subprocess.PIPE) as send:
                    assert send.stderr is not None and send.stdin is not None
                    told = send.stderr.readline()
                    send.stdin.close()
                    assert send.wait(WITHIN_S) == 0
                for each in (tail, documents):
                    each.send_signal(signal.SIGINT)
                    assert each.wait(WITHIN_S) == 0
        finally:
            replica.kill()
    assert shown == "replicated object: command add(5)\n"
    assert said["command"] == "command add(5)" and "body_base64" in said
    assert "visits@eu is of a replicated object" in told


LISTENER = """
import asyncio, sys, rostra

async def main():
    async with rostra.connect(sys.argv[1]) as me:
        group, membership, delivery = sys.argv[2:]
        async with me.join(group, "eu", membership=membership, delivery=delivery) as own:
            print("in", flush=True)
            async for item in own:
                if isinstance(item, rostra.Message):
                    print(item.body.decode(), flush=True)
                    return

asyncio.run(main())
"""


@contextlib.contextmanager
def listener(
    cluster: Cluster, group: str, membership: str, delivery: str
) -> Iterator["subprocess.Popen[str]"]:
    words = [sys.executable, "-c", LISTENER, cluster.socket("eu.h2"), group, membership, delivery]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()  # it waits for a message, which may not have come


def test_a_group_with_a_monitor_of_its_own_is_joined_as_it_is(cluster: Cluster) -> None:
    with listener(cluster, "own", "relaxed", "atomic") as other:
        assert other.stdout is not None and other.stdout.readline() == "in\n"
        said = cluster.run("send", "own@eu", "hello")
        assert said.code == 0 and said.out.startswith("position "), said
        assert other.stdout.readline() == "hello\n" and other.wait(WITHIN_S) == 0


@pytest.mark.parametrize(
    ("membership", "more"),
    [("led", []), ("led", ["--submit"]), ("led", ["--delivery", "fifo"]), ("agreed", [])],
)
def test_a_group_with_fifo_is_joined_with_the_membership_it_has(
    cluster: Cluster, membership: str, more: list[str]
) -> None:
    group = f"{membership}{''.join(more)}"
    with listener(cluster, group, membership, "fifo") as other:
        assert other.stdout is not None and other.stdout.readline() == "in\n"
        with cluster.begin("tail", f"{group}@eu", "--count", "1") as tail:
            listening(tail)
            said = cluster.run("send", f"{group}@eu", "hello", *more)
            assert said.code == 0, said.err
            assert tail.stdout is not None and tail.stdout.read() == "hello\n" and tail.wait(WITHIN_S) == 0
        assert other.stdout.readline() == "hello\n" and other.wait(WITHIN_S) == 0
