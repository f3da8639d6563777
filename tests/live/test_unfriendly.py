"""Programs and neighbours that send garbage, flood, stall, never read, or are not who they should be."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.callers import call
from support.lab import FORGIVING, WITHIN_S, Lab, Process, until

from rostra.client import Gap, Joined, Me, Membership, View, connect
from rostra.names import Domain, incarnation_of, make_group
from rostra.protocols.links.packets import Hello
from rostra.protocols.relaxed.requests import Done, Join, Leave, Open, Resolve, SendTo
from rostra.wire import Ask, Encoder, FrameKind, FrameReader, ProgramHello, Refusal
from rostra.wire.frames import world_tag


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One cluster on loopback, where a test can reach the servers' ports; its server shares a process with
    h1."""
    with Lab(
        tmp_path_factory.mktemp("loopback"),
        servers=("lab",),
        hosts=("lab.h1", "lab.h2"),
        together=(("lab", "lab.h1"),),
        namespaces=False,
        more=FORGIVING,
    ) as lab:
        yield lab


@contextlib.asynccontextmanager
async def all_is_well(lab: Lab, group: str) -> AsyncIterator[None]:
    """Two programs on two hosts hear of each other, before and after and promptly; the same processes run."""
    before = {node: process.pid for node, process in lab.processes.items()}
    async with (
        lab.program("lab.h1", "ann") as ann,
        lab.program("lab.h2", "bob") as bob,
        ann.join(group) as anns,
    ):
        await anns.ready()
        yield
        async with bob.join(group):
            await until(lambda: len(anns.members) == 2, "they see each other")
    assert {node: process.pid for node, process in lab.processes.items() if process.is_running} == before


GARBAGE = {
    "zeros": bytes(100),
    "noise": bytes(range(256)) * 8,
    "a web browser": b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n",
    "a huge length": struct.pack(">IBB4s", 2**31, 1, 1, world_tag("lab")),
    "no greeting": Encoder("lab").asks([Ask(1, 0, Open("x"))]),
    "a broken body": struct.pack(">IBB4s", 9, 1, 2, world_tag("lab")) + b"\xc1\xc1\xc1",
}


@pytest.mark.spec("C-084")
@pytest.mark.parametrize("place", ["lab", "lab.h2"])
@pytest.mark.parametrize("garbage", sorted(GARBAGE))
async def test_garbage_is_refused_with_a_reason_and_harms_nobody(
    loopback: Lab, garbage: str, place: str
) -> None:
    async with all_is_well(loopback, "garbage"), call(loopback, place) as caller:
        caller.writer.write(GARBAGE[garbage])
        *_, last = await caller.said(FrameKind.TO_PROGRAM)
        assert isinstance(last, Refusal)
        assert last.code in ("MALFORMED", "WRONG_VERSION", "WRONG_WORLD")


async def test_a_caller_that_says_nothing_is_shown_out(loopback: Lab) -> None:
    async with all_is_well(loopback, "silent"), call(loopback, "lab") as caller:
        (last,) = await caller.said(FrameKind.TO_PROGRAM)
        assert isinstance(last, Refusal)
        assert "no hello" in last.what


@pytest.mark.spec("C-184")
async def test_a_neighbour_of_another_version_is_told_which(loopback: Lab) -> None:
    async with call(loopback, "lab") as caller:
        caller.writer.write(struct.pack(">IBB4s", 6, 77, FrameKind.LINK, world_tag("lab")))
        (last,) = await caller.said(FrameKind.LINK)
        assert isinstance(last, Refusal)
        assert (last.code, "version 77" in last.what) == ("WRONG_VERSION", True)


@pytest.mark.spec("C-021")
async def test_a_child_with_a_wrong_path_is_refused(loopback: Lab) -> None:
    async with call(loopback, "lab") as caller:
        caller.writer.write(Encoder("lab").packet(Hello(1, 0, "lab", Domain("eu.h1"), 1, 0, Domain("lab"))))
        (last,) = await caller.said(FrameKind.LINK)
        assert isinstance(last, Refusal)
        assert (last.code, "eu.h1 is no neighbour of lab" in last.what) == ("NOT_ALLOWED", True)


async def test_an_agent_of_another_world_is_refused_by_name_and_says_so_once(
    loopback: Lab, tmp_path: Path
) -> None:
    stranger = Lab(tmp_path, servers=("lab",), hosts=("lab.h9",), world="elsewhere", namespaces=False)
    stranger._addresses = {Domain("lab"): loopback._addresses[Domain("lab")]}
    stranger._write_world()
    nodes = (Domain("lab.h9"),)
    stranger.processes[nodes[0]] = agent = Process(
        stranger, nodes, loopback["lab"].machine, stranger._arguments(nodes)
    )
    try:
        async with all_is_well(loopback, "worlds"):
            agent.start()
            refused = await until(
                lambda: [line for line in agent.log.splitlines() if " link_refused " in line], "it says why"
            )
            assert "world 'lab'" in refused[0] and "world 'elsewhere'" in refused[0]
            tries = loopback["lab"].log.count("WRONG_WORLD")
            # It calls for ever, and each time for the same reason: one line each is enough.
            await until(lambda: _counted(loopback, "lab", "refused{WRONG_WORLD}", 3), "it tries again")
            assert agent.log.count(" link_refused ") == 1
            assert loopback["lab"].log.count("WRONG_WORLD") <= tries + 1
    finally:
        stranger.close()


async def _counted(lab: Lab, node: str, counter: str, at_least: int) -> bool:
    return bool((await lab.inspect(node))["counters"].get(counter, 0) >= at_least)


@pytest.mark.spec("C-016")
async def test_a_second_agent_for_a_host_is_refused_while_the_first_is_alive(loopback: Lab) -> None:
    first = loopback["lab.h2"]
    arguments = [word if "state" not in word else f"{word}2" for word in first.arguments]
    arguments[arguments.index("--state2")] = "--state"
    arguments[arguments.index("--socket") + 1] += "2"
    second = Process(loopback, (Domain("lab.h2-again"),), first.machine, arguments)
    try:
        async with all_is_well(loopback, "twice"):
            second.start()
            await until(lambda: "NAME_IN_USE" in second.log, "the second is refused")
            assert (await loopback.inspect("lab"))["links"]["lab.h2"]["up"]
        first.kill()
        await until(lambda: " link_up " in second.log, "the second takes over when the first is gone")
    finally:
        second.kill()
        os.unlink(arguments[arguments.index("--socket") + 1])
        await loopback.calm()


async def test_a_program_that_floods_does_not_delay_the_others_for_long(loopback: Lab) -> None:
    encoder = Encoder("lab")
    flood = encoder.asks([Ask(number, 0, Resolve("x" * 200, Domain("lab"))) for number in range(3000)])
    async with all_is_well(loopback, "flood"), call(loopback, "lab.h1") as caller:
        caller.writer.write(encoder.to_agent(ProgramHello("lab", "flood")))
        drain = asyncio.create_task(caller.reader.read(-1))
        feed = asyncio.create_task(_write_for_ever(caller.writer, flood))
        async with loopback.program("lab.h1", "eve") as eve:
            for _ in range(20):
                async with asyncio.timeout(WITHIN_S):  # a turn of hers, and not the end of the flood
                    await eve.resolve("flood", fresh=True)
        for task in (drain, feed):
            task.cancel()


async def _write_for_ever(writer: asyncio.StreamWriter, data: bytes) -> None:
    while True:
        writer.write(data)
        await writer.drain()


async def test_a_flood_of_joins_and_messages_parts_no_host_from_the_others(loopback: Lab) -> None:
    """Every question of this flood reaches the domain's server, and half of them every other host."""
    async with (
        loopback.program("lab.h2", "ann") as ann,
        loopback.program("lab.h1", "bob") as bob,
        ann.join("calm") as calm,
        bob.join("calm"),
    ):
        await until(lambda: len(calm.members) == 2, "both are there")
        before = loopback.counted("lab.h2", "link_down")
        async with loopback.program("lab.h2", "flood") as flood:
            number, connection = incarnation_of(flood.endpoint), flood._connection
            groups = [make_group(f"flood{n}", "lab") for n in range(500)]
            answers = []
            for _ in range(20):
                for group in groups:
                    answers.append(connection.post(number, Join(group)))
                    answers.append(connection.post(number, SendTo((bob.endpoint,), bytes(5_000))))
                    answers.append(connection.post(number, Leave(group)))
                await asyncio.sleep(0)
            async with asyncio.timeout(WITHIN_S):
                assert len((await ann.resolve("calm", fresh=True)).members) == 2
            async with asyncio.timeout(2 * WITHIN_S):
                assert {type(answer) for answer in await asyncio.gather(*answers)} == {Done}
        assert len(calm.members) == 2
        assert loopback.counted("lab.h2", "link_down") == before
        counters = (await loopback.inspect("lab.h2"))["counters"]
        assert counters.get("programs_held_back", 0) > 0  # it had to wait; nobody else was told anything


async def test_a_program_that_never_reads_its_answers_is_stopped_from_asking(loopback: Lab) -> None:
    encoder = Encoder("lab")
    questions = encoder.asks([Ask(number, 0, Resolve("x" * 200, Domain("lab"))) for number in range(3000)])
    async with all_is_well(loopback, "deaf"), call(loopback, "lab.h1") as caller:
        caller.writer.write(encoder.to_agent(ProgramHello("lab", "deaf")))
        sent = 0
        with contextlib.suppress(TimeoutError, ConnectionError):
            while sent < 50:  # far more than any buffer holds
                caller.writer.write(questions)
                async with asyncio.timeout(0.5):
                    await caller.writer.drain()
                sent += 1
        assert sent < 50, "back-pressure, or the end of the connection, stops it"


@pytest.mark.spec("C-180")
async def test_a_slow_program_is_told_what_it_missed_and_gets_a_fresh_list(loopback: Lab) -> None:
    """It stops reading while thousands come and go; when it reads again: old news, a gap, and the truth."""
    async with (
        connect(loopback.socket("lab.h2"), name="slow") as slow,
        loopback.program("lab.h1", "busy") as busy,
        slow.join("slow") as group,
        busy.join("slow"),
    ):
        changes = aiter(group)
        assert isinstance(await anext(changes), View)
        transport = slow._connection._connection._transport
        assert transport is not None
        transport.pause_reading()
        extra = [await busy.open(f"busy-{number}") for number in range(50)]

        async def come_and_go() -> bool:
            entered = await asyncio.gather(*(_in(each, "slow") for each in extra))
            await asyncio.gather(*(membership.leave(bytes(200)) for membership in entered))
            return bool((await loopback.inspect("lab.h2"))["counters"].get("notices_missed"))

        await until(come_and_go, "it has fallen behind")
        last = await extra[0].join("slow")
        transport.resume_reading()
        seen = []
        async with asyncio.timeout(WITHIN_S):
            while not isinstance(change := await anext(changes), Gap):
                seen.append(change)
            assert change.missed > 0
            view = await anext(changes)
        assert isinstance(view, View)
        # What came before the gap is a true beginning of the story, in order and complete.
        assert isinstance(seen[0], Joined)
        await until(
            lambda: (
                sorted(m.endpoint for m in group.members)
                == sorted([slow.endpoint, busy.endpoint, last.me.endpoint])
            ),
            "the copy is right again",
        )


async def _in(me: Me, group: str) -> Membership:
    return await me.join(group, meta=bytes(200))


async def test_half_open_callers_do_not_keep_others_out(loopback: Lab) -> None:
    """More silent connections than may wait as strangers: those who are in stay in, the door opens again, and
    nobody is left hanging, not even the last of them."""
    crowd: list[socket.socket] = []
    try:
        async with all_is_well(loopback, "crowd"):
            for _ in range(1100):
                caller = socket.socket(socket.AF_UNIX)
                caller.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    caller.connect(loopback.socket("lab.h2"))
                crowd.append(caller)
            async with asyncio.timeout(WITHIN_S):
                await until(lambda: loopback.inspect("lab.h2"), "the door opens again")
                told = await asyncio.get_running_loop().sock_recv(crowd[-1], 4096)
            (refusal,) = FrameReader("lab", FrameKind.TO_PROGRAM).feed(told)
            assert isinstance(refusal, Refusal) and "too many callers wait" in refusal.what
    finally:
        for caller in crowd:
            caller.close()


async def test_requests_for_somebody_elses_endpoint_are_refused(loopback: Lab) -> None:
    encoder = Encoder("lab")
    async with loopback.program("lab.h1", "ann") as ann, call(loopback, "lab.h1") as caller:
        number = int(ann.endpoint.rpartition("#")[2])
        caller.writer.write(encoder.to_agent(ProgramHello("lab", "thief")))
        caller.writer.write(encoder.asks([Ask(1, number, Join(make_group("theft", "lab")))]))
        reader = FrameReader("lab", FrameKind.TO_PROGRAM)
        items: list[object] = []
        async with asyncio.timeout(WITHIN_S):
            while len(items) < 2:
                items += reader.feed(await caller.reader.read(65536))
        assert items[1].answer.code == "BAD_ARGUMENT"  # type: ignore[attr-defined]
