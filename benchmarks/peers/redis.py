"""Redis with the usual recipe for membership: a set, expiring keys for life signs, and pub/sub for notices.

    join      MULTI  SADD members:G m   SET alive:G:m  PX ttl   PUBLISH changes:G +m  EXEC
    leave     MULTI  SREM members:G m   DEL alive:G:m           PUBLISH changes:G -m  EXEC
    follow    SUBSCRIBE changes:G, and the keyspace's "expired" events
    live      every member sets its key anew, three times per ttl
    crash     the key expires; whoever hears of it takes the member out of the set

What the recipe does not give: a snapshot that fits the stream of changes, notice of lost messages, scopes, or
any reason for a removal. Two ways to use it are measured. `one connection per member` is the usual one: every
member is a client of its own, as if written without knowledge of its neighbours. `one per process` shares a
subscription among the members of a process, which nobody's library does but anybody could.
"""

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from benchmarks.peers.base import OnChange, Program, Service, nobody
from benchmarks.peers.processes import listening, start, stop

BEATS_PER_TTL = 3
EXPIRED = "__keyevent@0__:expired"


class RedisService(Service):
    name = "redis"

    def __init__(self, *, shared: bool = False, ttl_ms: int = 10_000) -> None:
        self._server = shutil.which("redis-server")
        self._shared = shared
        self._ttl_ms = ttl_ms
        self.label = "redis, one connection per process" if shared else "redis"
        if ttl_ms != 10_000:
            self.label += f", expiry {ttl_ms} ms"

    def missing(self) -> str:
        return "" if self._server else "redis-server is not installed: apt-get install -y redis-server"

    async def start(self) -> None:
        assert self._server is not None
        self._home = tempfile.TemporaryDirectory(prefix="rostra-bench-")
        self._path = str(Path(self._home.name) / "redis")
        options = {
            "port": "0",  # the Unix socket only, as programs reach their Rostra agent
            "unixsocket": self._path,
            "dir": self._home.name,
            "save": "",
            "appendonly": "no",
            "notify-keyspace-events": "Ex",
            "maxclients": "10000",
        }
        arguments = [word for option, value in options.items() for word in (f"--{option}", value)]
        self._process = await start(self._server, *arguments)
        await listening(self._path)

    async def stop(self) -> None:
        await stop(self._process)
        self._home.cleanup()

    def pids(self) -> list[int]:
        return [self._process.pid]

    def door(self, place: int = 0) -> dict[str, Any]:
        return {"path": self._path, "shared": self._shared, "ttl_ms": self._ttl_ms}


class RedisProgram(Program):
    def __init__(self, path: str, shared: bool, ttl_ms: int) -> None:
        self._path = path
        self._shared = shared
        self._ttl_ms = ttl_ms
        self._asking = Redis(unix_socket_path=path)
        self._clients: dict[str, Redis] = {}
        self._alive: set[tuple[str, str]] = set()
        self._heard: dict[str, list[OnChange]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._subscriptions: list[PubSub] = []

    async def begin(self) -> None:
        await self._asking.ping()
        self._tasks.append(asyncio.create_task(self._beat()))

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for subscription in self._subscriptions:
            await subscription.aclose()  # type: ignore[no-untyped-call]
        for client in (self._asking, *self._clients.values()):
            await client.aclose()

    async def prepare(self, name: str) -> None:
        if not self._shared and name not in self._clients:
            self._clients[name] = Redis(unix_socket_path=self._path)
            await self._clients[name].ping()

    async def enter(self, group: str, name: str, on_change: OnChange) -> None:
        await self.prepare(name)
        if self._shared:
            heard = self._heard.get(group)
            if heard is None:
                heard = self._heard[group] = []
                await self._subscribe(self._asking, group, heard)
        else:
            heard = []
            await self._subscribe(self._clients[name], group, heard)
        if on_change is not nobody:
            heard.append(on_change)
        await self.join(group, name)

    async def join(self, group: str, name: str) -> None:
        await self.prepare(name)
        async with self._client(name).pipeline(transaction=True) as all_at_once:
            all_at_once.sadd(f"members:{group}", name)
            all_at_once.set(f"alive:{group}:{name}", 1, px=self._ttl_ms)
            all_at_once.publish(f"changes:{group}", f"+{name}")
            await all_at_once.execute()
        self._alive.add((group, name))

    async def leave(self, group: str, name: str) -> None:
        self._alive.discard((group, name))
        async with self._client(name).pipeline(transaction=True) as all_at_once:
            all_at_once.srem(f"members:{group}", name)
            all_at_once.delete(f"alive:{group}:{name}")
            all_at_once.publish(f"changes:{group}", f"-{name}")
            await all_at_once.execute()

    async def members(self, group: str) -> int:
        return len(await self._asking.smembers(f"members:{group}"))

    def _client(self, name: str) -> Redis:
        return self._asking if self._shared else self._clients[name]

    async def _subscribe(self, client: Redis, group: str, heard: list[OnChange]) -> None:
        subscription = client.pubsub(ignore_subscribe_messages=True)
        await subscription.subscribe(f"changes:{group}", EXPIRED)
        self._subscriptions.append(subscription)
        self._tasks.append(asyncio.create_task(self._listen(subscription, group, heard)))

    async def _listen(self, subscription: PubSub, group: str, heard: list[OnChange]) -> None:
        changes = f"changes:{group}".encode()
        expired = f"alive:{group}:"
        async for message in subscription.listen():
            text = message["data"].decode()
            if message["channel"] == changes:
                for told in heard:
                    told(text[1:], text[0] == "+")
            elif text.startswith(expired):
                name = text.removeprefix(expired)
                for told in heard:
                    told(name, False)
                await self._asking.srem(f"members:{group}", name)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_ms / 1000 / BEATS_PER_TTL)
            async with self._asking.pipeline(transaction=False) as beats:
                for group, name in self._alive:
                    beats.set(f"alive:{group}:{name}", 1, px=self._ttl_ms)
                with contextlib.suppress(ConnectionError):
                    await beats.execute()
