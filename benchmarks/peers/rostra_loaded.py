"""Members of an atomic group that speak all the time, and note what they are given, when, and at which place.

    three hosts  a cluster's server and three agents on loopback, a process each; profile `lan`
    three sites  the namespaces of `rostra_lab`; profile `wan`

Agents can be killed and started again. When servers agreed on a view without the members of one is in their
own logs.
"""

import asyncio
import os
import signal
import time
import zlib
from abc import abstractmethod
from array import array
from collections.abc import AsyncIterator, Awaitable, Iterable
from datetime import datetime
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from random import Random
from struct import Struct
from typing import Any, Final

from benchmarks.peers.base import Service
from benchmarks.peers.processes import READY_WITHIN_S, listening
from benchmarks.peers.rostra import CLUSTER, Deployment, RostraProgram, RostraService
from benchmarks.peers.rostra_lab import OrderedLabService, three_sites
from benchmarks.peers.talk import HEAD
from rostra.client import Messages, Ordered, Receipt, View
from rostra.errors import Rejected, RostraError
from rostra.lab.urgency import become_urgent
from rostra.names import ROOT, Domain, Group

HOSTS: Final = 3
STATE: Final = Struct(">QQ")
PIECE_BYTES: Final = 1 << 20
ENOUGH_MS: Final = 1.0  # log lines have whole milliseconds


class Loaded(Service):
    name = "rostra-loaded"

    @abstractmethod
    async def kill(self, place: int) -> None:
        """kill -9 of the agent there."""

    @abstractmethod
    async def start_again(self, place: int) -> None: ...

    @abstractmethod
    def agreed_at(self, group: str, after: float) -> float | None:
        """When the first server had a view of this group from which members were lost."""


class LoadedService(Loaded, RostraService):
    def __init__(self) -> None:
        super().__init__(Deployment.TWO_AGENTS, profile="lan", places=HOSTS)
        self.label = "rostra, three hosts"

    async def kill(self, place: int) -> None:
        process = self._processes.pop(f"agent {place}")
        process.kill()
        await process.wait()

    async def start_again(self, place: int) -> None:
        await self._run_agent(place)
        await listening(self._socket(place))
        await self._linked()

    def agreed_at(self, group: str, after: float) -> float | None:
        return first_agreed([Path(self._home.name) / "server.log"], Group(group, Domain(CLUSTER)), after)


class LoadedLabService(Loaded, OrderedLabService):
    """All of it runs before other processes of this machine: what is measured are the ways."""

    urgent = True

    def __init__(self, *hosts: str) -> None:
        super().__init__(f"rostra, three sites, orderer at {hosts[0]}", three_sites(), hosts, root="mit")

    async def kill(self, place: int) -> None:
        process = self._world.processes.pop(self._hosts[place])
        process.kill()
        await asyncio.to_thread(process.wait)

    def door(self, place: int = 0) -> dict[str, Any]:
        return {**super().door(place), "urgent": True}

    async def start_again(self, place: int) -> None:
        self._world.start_agent(self._hosts[place])
        async with asyncio.timeout(READY_WITHIN_S):
            while await self._world.unlinked():
                await asyncio.sleep(0.1)

    def agreed_at(self, group: str, after: float) -> float | None:
        servers = [ROOT, *{host.partition(".")[0] for host in self._hosts}]
        return first_agreed([self._world.log(each) for each in servers], Group(group, ROOT), after)


def first_agreed(logs: Iterable[Path], group: Group, after: float) -> float | None:
    found = []
    for log in logs:
        for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
            at, event, *values = line.split()
            if event == "view_agreed" and f"group={group}" in values:
                found.append(datetime.fromisoformat(at).timestamp())
    return min((at for at in found if at >= after - ENOUGH_MS / 1e3), default=None)


class LoadedProgram(RostraProgram):
    """A member. Its state is how many messages it was given and a sum over their order, and a blob."""

    _ordered: Ordered
    _reading: asyncio.Task[None]
    _speaking: asyncio.Task[None] | None = None

    def __init__(self, address: str, scope: str, separate: bool, urgent: bool = False) -> None:
        super().__init__(address, scope, separate)
        if urgent:
            become_urgent()

    async def take_part(  # type: ignore[override]
        self, group: str, sender: int, state_bytes: int, seed: int, has_state: bool
    ) -> float:
        """Join as sender number so and so; how long it took, the state included. The founder makes one."""
        self._sender, self._dies_after = sender, 0
        self._blob = Random(seed).randbytes(state_bytes) if sender == 0 else b""
        self._count = self._order = 0
        self._places: dict[int, tuple[int, array[int]]] = {}  # by sender: its first number here; positions
        self._last = 0
        self._at: array[int] = array("Q")  # when something was given to us
        self._lost_ns = self._next_ns = 0
        self._acknowledged: array[int] = array("Q")  # positions of our own, by number
        self._rejected: list[int] = []
        self._in_doubt: list[int] = []
        self._took = asyncio.Event()
        state: dict[str, Any] = {"give": self._give, "take": self._take} if has_state else {}
        began = time.monotonic()
        self._ordered = await self._me.join(
            group, self._scope, membership="agreed", delivery="atomic", survive="majority", **state
        )
        self._reading = asyncio.create_task(self._read())
        await self._ordered.ready()
        if has_state and self._ordered.rank != 0:
            await self._or_reader(self._took.wait())
        return time.monotonic() - began

    async def die_after(self, given: int) -> None:
        """This process kills itself when it has given so many bytes of its state to one joiner."""
        self._dies_after = given

    async def part(self) -> None:
        await self._ordered.leave()
        await self._reading

    async def _or_reader(self, waiting: Awaitable[Any]) -> None:
        """Wait, but not for a reader that has failed."""
        task = asyncio.ensure_future(waiting)
        await asyncio.wait({task, self._reading}, return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        self._check_reader()

    def _check_reader(self) -> None:
        if self._reading.done():
            self._reading.result()

    # Reading

    async def _read(self) -> None:
        async for item in self._ordered.items(batch=10_000):
            match item:
                case Messages():
                    now = time.monotonic_ns()
                    self._at.append(now)
                    if self._lost_ns and not self._next_ns:
                        self._next_ns = now
                    self._given(item.bodies, item.position)
                case View(failed=failed) if failed:
                    self._lost_ns = time.monotonic_ns()

    def _given(self, bodies: list[bytes], position: int) -> None:
        """Of one sender: in its order, without a hole, nothing twice, at places that rise."""
        number, sender = HEAD.unpack_from(bodies[0])
        first, places = self._places.setdefault(sender, (number, array("Q")))
        due = first + len(places)
        heads = b"".join([body[: HEAD.size] for body in bodies])
        if heads != b"".join([HEAD.pack(n, sender) for n in range(due, due + len(bodies))]):
            raise AssertionError(f"message {number} of sender {sender} instead of number {due}")
        if position <= self._last:
            raise AssertionError(f"position {position} after {self._last}")
        self._last = position + len(bodies) - 1
        places.extend(range(position, position + len(bodies)))
        self._count += len(bodies)
        self._order = zlib.crc32(heads, self._order)

    # State

    def _give(self) -> AsyncIterator[bytes]:
        """As it is now; pieces of the blob, which never changes, are fetched while we go on."""
        return self._pieces(STATE.pack(self._count, self._order))

    async def _pieces(self, head: bytes) -> AsyncIterator[bytes]:
        blob = self._blob
        yield head
        for at in range(0, len(blob), PIECE_BYTES):
            if self._dies_after and at >= self._dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
            yield blob[at : at + PIECE_BYTES]

    def _take(self, state: bytes) -> None:
        self._count, self._order = STATE.unpack_from(state)
        self._blob = state[STATE.size :]
        self._took.set()

    # Speaking

    async def speak_on(self, size: int, together: int, waiting: int, per_s: float) -> None:
        """Until `fall_silent`: so many messages at a time, and so many such portions without a receipt;
        portions per second, or as many as go."""
        self._speaking = asyncio.create_task(self._speak(size, together, waiting, per_s))

    async def fall_silent(self) -> None:
        """Say nothing more, and wait for what becomes of what was said."""
        assert self._speaking is not None
        self._falls_silent = True
        await self._or_reader(self._speaking)
        self._speaking.result()

    async def _speak(self, size: int, together: int, waiting: int, per_s: float) -> None:
        said: asyncio.Queue[tuple[int, Awaitable[list[Receipt]]] | None] = asyncio.Queue(waiting)
        self._falls_silent = False
        hearing = asyncio.create_task(self._hear_receipts(said, together))
        rest, number, due = bytes(size - HEAD.size), 0, time.monotonic()
        while not self._falls_silent:
            bodies = [HEAD.pack(n, self._sender) + rest for n in range(number, number + together)]
            try:
                portion = self._portion(bodies)
            except RostraError:  # our agent is gone
                break
            await said.put((number, portion))
            number += together
            if per_s:
                due += 1 / per_s
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        await said.put(None)
        await hearing

    async def _hear_receipts(
        self, said: "asyncio.Queue[tuple[int, Awaitable[list[Receipt]]] | None]", together: int
    ) -> None:
        while (portion := await said.get()) is not None:
            first, receipts = portion
            try:
                self._acknowledged.extend([each.position for each in await receipts])
            except RostraError as error:
                self._falls_silent = True
                what = self._rejected if isinstance(error, Rejected) else self._in_doubt
                what.extend(range(first, first + together))

    def _portion(self, bodies: list[bytes]) -> Awaitable[list[Receipt]]:
        if len(bodies) == 1:
            return self._alone(self._ordered.send_soon(bodies[0]))
        return self._ordered.send_many(bodies)

    async def _alone(self, receipt: Awaitable[Receipt]) -> list[Receipt]:
        return [await receipt]

    # What was found

    async def mark(self) -> None:
        """From now on intervals are looked at."""
        self._check_reader()
        del self._at[:]

    async def intervals(self) -> list[int]:
        """Between what we were given since then, in ns."""
        self._check_reader()
        return [later - earlier for earlier, later in pairwise(self._at)]

    async def sees_new(self) -> bool:
        """Were we given something after a view that lacks a lost member?"""
        self._check_reader()
        return self._next_ns > 0

    async def went_on(self) -> tuple[int, int]:
        """When we were given the first message after the longest interval; and the first after that view."""
        return max([(later - earlier, later) for earlier, later in pairwise(self._at)])[1], self._next_ns

    async def given(self) -> tuple[int, int, str]:
        """All that was given, as a number and a sum over its order; and a digest of the blob."""
        self._check_reader()
        return self._count, self._order, blake2b(self._blob, digest_size=16).hexdigest()

    async def receipts(self) -> dict[str, Any]:
        """What became of our messages."""
        return {
            "acknowledged": len(self._acknowledged),
            "places": _sum_of(self._acknowledged),
            "rejected": self._rejected,
            "in_doubt": self._in_doubt,
        }

    async def places(self, sender: int, first: int, count: int, rejected: list[int]) -> tuple[str, list[int]]:
        """A sum over the positions of so many messages of this sender; and which of `rejected` came here."""
        since, places = self._places.get(sender, (first, array("Q")))
        if since > first:
            raise AssertionError(f"the first message of sender {sender} here is number {since}, not {first}")
        at = first - since
        return _sum_of(places[at : at + count]), [n for n in rejected if since <= n < since + len(places)]


def _sum_of(places: "array[int]") -> str:
    return blake2b(places.tobytes(), digest_size=16).hexdigest()
