"""What a program can do, against real agents."""

import asyncio
import gc
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from support.lab import WITHIN_S, Lab, member, until

import rostra
from rostra.client import Cause, Joined, Left, Message, NotDelivered, View
from rostra.errors import (
    AlreadyMember,
    BadInput,
    BadName,
    NameInUse,
    NotInScope,
    NotMember,
    TooLarge,
    Unreachable,
)
from rostra.names import Endpoint


@pytest.mark.spec("C-045", "C-047")
async def test_a_lone_joiner_gets_one_list_with_itself(lab: Lab) -> None:
    async with lab.program("eu.h1", "ann") as me, me.join("alone", meta=b"me") as group:
        changes = aiter(group)
        view = await anext(changes)
        assert isinstance(view, View)
        assert [(m.endpoint, m.meta) for m in view.members] == [(me.endpoint, b"me")]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await anext(changes)


async def test_a_watcher_sees_everything_and_is_seen_by_nobody(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        lab.program("us.h1", "bob") as bob,
        bob.join("seen") as group,
    ):
        await group.ready()
        seen = []
        async for change in ann.watch("seen"):
            seen.append(change)
            if len(seen) == 1:
                assert isinstance(change, View)
                assert [m.endpoint for m in change.members] == [bob.endpoint]
                await (await bob.open("cid")).join("seen")
            if len(seen) == 2:
                assert isinstance(change, Joined) and change.members[0].endpoint.startswith("us.h1/cid#")
                break
        async with ann.watch("seen") as watch:
            await watch.ready()
            assert len(watch.members) == 2
            assert (await ann.resolve("seen")).from_copy
        assert not (await ann.resolve("seen")).from_copy
        assert ann.endpoint not in [m.endpoint for m in group.members]
        gc.collect()
        await until(lambda: _watchers(lab, "eu.h1", "seen@world", 0), "the agent forgets the watch")


async def _watchers(lab: Lab, host: str, group: str, expected: int) -> bool:
    watched = (await lab.inspect(host))["watches"].get(group, {})
    return len(watched.get("watchers", ())) == expected


@pytest.mark.spec("C-036", "C-037", "C-038", "C-046", "A-01")
async def test_a_question_is_answered_from_the_copy_or_by_the_servers_and_says_which(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        lab.program("us.h1", "bob") as bob,
        ann.join("asked", online=False) as offline,
        bob.join("asked") as bobs,
        ann.join("asked", "eu"),
    ):
        await bobs.ready()
        both = sorted([ann.endpoint, bob.endpoint])
        answer = await ann.resolve("asked")
        assert (sorted(answer.endpoints), answer.from_copy) == (both, False)
        with pytest.raises(BadInput, match="not followed"):
            assert offline.members
        await offline.set_online(True)
        await offline.ready()
        answer = await ann.resolve("asked", ".")  # the specs' name for the world is understood, too
        assert (sorted(answer.endpoints), answer.from_copy) == (both, True)
        assert not (await ann.resolve("asked", fresh=True)).from_copy
        await offline.set_online(False)
        assert not (await ann.resolve("asked")).from_copy
        everywhere = await ann.resolve("asked", scope=None, deadline_s=WITHIN_S)
        assert {scope: len(members) for scope, members in everywhere.scopes} == {
            "eu.h1": 0,
            "eu": 1,
            "world": 2,
        }
        assert everywhere.endpoints == tuple(both)


async def test_equal_questions_of_one_tick_share_one_request(lab: Lab) -> None:
    async with lab.program("eu.h1", "ann") as ann:
        before = ann._connection.asked
        answers = await asyncio.gather(*(ann.resolve("shared") for _ in range(16)), ann.resolve("other"))
        assert len(answers) == 17
        # Whoever asks first while nobody waits leaves at once; the others share one, and one is different.
        assert ann._connection.asked - before in (2, 3)
        # One that is cancelled takes nobody with it.
        tasks = [asyncio.create_task(ann.resolve("shared")) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        assert [len((await task).members) for task in tasks[1:]] == [0, 0]


@pytest.mark.spec("C-151", "C-152", "C-153", "C-156", "A-21")
async def test_messages_arrive_in_order_after_the_join_they_follow(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        lab.program("us.h1", "bob") as bob,
        bob.join("mail") as group,
    ):
        inbox = bob.messages()
        changes = aiter(group)
        await anext(changes)
        async with ann.join("mail"):
            for number in range(3):
                await ann.send_to([bob.endpoint], b"%d" % number)
            async with asyncio.timeout(WITHIN_S):
                assert [await anext(inbox) for _ in range(3)] == [
                    Message(ann.endpoint, b"%d" % number) for number in range(3)
                ]
            # The join was told before the messages, in one stream.
            assert len(group.members) == 2
            assert isinstance(await anext(changes), Joined)
        outbox = ann.messages()
        nobody = Endpoint("us.h1/nobody#1")
        await ann.send_to(nobody, b"?")
        async with asyncio.timeout(WITHIN_S):
            returned = await anext(outbox)
        assert isinstance(returned, NotDelivered) and returned.destinations == (nobody,)


@pytest.mark.spec("C-157")
async def test_a_watched_life_ends_when_its_program_does(lab: Lab) -> None:
    async with lab.program("eu.h1", "ann") as ann, ann.join("lives") as group:
        changes = aiter(group)
        await anext(changes)
        with member(lab.socket("us.h1"), "bob", "lives", "world") as bob:
            joined = await anext(changes)
            assert isinstance(joined, Joined)
            lives = ann.watch_life(joined.members[0].endpoint)
            async with asyncio.timeout(WITHIN_S):
                assert (await anext(lives)).alive
                bob.kill()
                assert not (await anext(lives)).alive
            await lives.aclose()


@pytest.mark.spec("C-008", "C-039", "C-043", "C-049", "C-051", "C-053")
async def test_a_refusal_is_the_exception_that_it_means_and_says_what_to_try(lab: Lab) -> None:
    async with lab.program("eu.h1", "ann") as ann, ann.join("refused") as group:
        for wrong, error in (
            (ann.join("refused", "us"), NotInScope),
            (ann.join("refused"), AlreadyMember),
            (ann.join("meta", meta=bytes(10_000)), TooLarge),
            (ann.open("ann"), NameInUse),
            (ann.watch("refused", "us.h1"), NotInScope),
        ):
            with pytest.raises(error) as caught:
                await wrong
            assert caught.value.fix
        with pytest.raises(NotInScope):
            await ann.resolve("refused", "us")
        with pytest.raises(BadName):
            ann.join("bad\x00name")
        with pytest.raises(BadInput):
            await ann.resolve("refused", deadline_s=-1.0, fresh=True)
        # What was refused changed nothing.
        await group.ready()
        assert [m.endpoint for m in group.members] == [ann.endpoint]
        await group.leave()
        with pytest.raises(NotMember):
            await group.leave()
        with pytest.raises(NotMember):
            assert group.members


async def test_a_cancelled_join_leaves_nothing_behind(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        lab.program("us.h1", "bob") as bob,
        bob.join("cancelled") as group,
    ):
        changes = aiter(group)
        await anext(changes)
        for _ in range(20):
            joining = asyncio.ensure_future(_enter(ann.join("cancelled")))
            opening = asyncio.ensure_future(_enter(ann.open("short-lived")))
            await asyncio.sleep(0)
            joining.cancel()
            opening.cancel()
            await asyncio.gather(joining, opening, return_exceptions=True)
        await until(lambda: _is_alone(lab, ann.endpoint), "every endpoint that nobody waited for is closed")
        async with ann.open("short-lived") as short, short.join("cancelled"):
            await until(lambda: len(group.members) == 2, "only the last one is in")
            document = await lab.inspect("eu.h1")
            assert sorted(document["core"]["groups"]["cancelled@world"]["online"]) == [short.endpoint]
            assert _of_programs(document) == sorted([ann.endpoint, short.endpoint])


async def _is_alone(lab: Lab, endpoint: str) -> bool:
    return _of_programs(await lab.inspect("eu.h1")) == [endpoint]


def _of_programs(document: dict[str, Any]) -> list[str]:
    """The open endpoints, without the one with which the agent itself follows what is watched."""
    return [each for each in document["core"]["endpoints"] if "/rostra.watch#" not in each]


async def _enter(entering: object) -> object:
    return await entering  # type: ignore[misc]


@pytest.mark.spec("C-052")
async def test_silence_after_leaving(lab: Lab) -> None:
    async with lab.program("eu.h1", "ann") as ann, lab.program("us.h1", "bob") as bob:
        group = await ann.join("silence")
        changes = aiter(group)
        assert isinstance(await anext(changes), View)
        await (await bob.join("silence")).ready()
        await group.leave()
        with pytest.raises(StopAsyncIteration):
            while True:
                assert isinstance(await anext(changes), Joined)
        again = await ann.join("silence")
        assert {m.endpoint for m in (await again.ready()).members} == {ann.endpoint, bob.endpoint}


async def test_the_end_of_an_agent_ends_everything_with_a_reason(lab: Lab) -> None:
    async with lab.program("eu.h2", "ann") as ann, ann.join("ended") as group, ann.open("second") as second:
        changes, inbox, lives = aiter(group), second.messages(), ann.watch_life("us.h1/x#1")
        await anext(changes)
        waiting = [
            asyncio.ensure_future(_next(changes)),
            asyncio.ensure_future(_next(inbox)),
        ]
        await anext(lives)
        waiting.append(asyncio.ensure_future(_next(lives)))
        await asyncio.sleep(0)
        lab["eu.h2"].kill()
        async with asyncio.timeout(WITHIN_S):
            ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(end) for end in ends] == [Unreachable] * 3
        assert not ann.is_open and not second.is_open
        for refused in (ann.resolve("ended"), second.join("ended"), ann.inspect()):
            with pytest.raises(Unreachable):
                await refused


async def _next(stream: object) -> object:
    return await anext(stream)  # type: ignore[call-overload]


async def test_no_agent_is_one_clear_error_that_says_what_to_do() -> None:
    with pytest.raises(Unreachable, match=r"no agent at /nowhere/agent\.sock") as caught:
        async with rostra.connect("/nowhere/agent.sock"):
            pass
    assert "rostra agent" in caught.value.fix
    with pytest.raises(Unreachable, match="no agent at 127"):
        await rostra.connect("127.0.0.1:1")


async def test_an_agent_that_hangs_up_before_it_answers_is_no_riddle(tmp_path: Path) -> None:
    """It may have run out of files, or be ending; the system only says that a pipe is broken."""
    path = str(tmp_path / "agent")
    async with await asyncio.start_unix_server(lambda _, writer: writer.close(), path):
        with pytest.raises(Unreachable, match="hung up before it said hello") as caught:
            await rostra.connect(path)
    assert caught.value.retriable and "try again" in caught.value.fix


DOCS = Path(__file__).parents[2] / "docs"
AS_WRITTEN = re.findall(r"## Ending.*?```python\n(.*?)```", (DOCS / "api.md").read_text(), re.S)[0]
UNPREPARED = "\n".join(line for line in AS_WRITTEN.splitlines() if "add_signal_handler" not in line)
OF_THREADS = """
import signal, sys
import rostra.sync

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
with rostra.sync.connect(name="web-1") as me, me.join("chess"):
    while True:
        signal.pause()
"""


@pytest.mark.parametrize(
    ("program", "cause"),
    [
        (f"{AS_WRITTEN}\nasyncio.run(main())", Cause.LEAVE),
        (OF_THREADS, Cause.LEAVE),
        (f"{UNPREPARED}\nasyncio.run(main())", Cause.CRASH),
    ],
    ids=["as the page says", "threads", "unprepared"],
)
async def test_sigterm_is_a_leave_if_a_program_says_so(lab: Lab, program: str, cause: Cause) -> None:
    async with lab.program("eu.h2", "eve") as eve, eve.watch("chess") as watch:
        changes = aiter(watch)
        assert isinstance(await anext(changes), View)
        web = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program),
            env={**os.environ, "ROSTRA_AGENT": lab.socket("eu.h1")},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(WITHIN_S):
            joined = await anext(changes)
            assert isinstance(joined, Joined)
            web.send_signal(signal.SIGTERM)
            left = await anext(changes)
            await web.wait()
        assert isinstance(left, Left) and left.cause is cause
        assert left.endpoints == tuple(each.endpoint for each in joined.members)
