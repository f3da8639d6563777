"""A program as a user would write it: `test_api.py` has it checked with ``mypy --strict``."""

import asyncio

import rostra
from rostra import Connected, Gap, Joined, Left, Lost, Message, Only, Suspended, View, Without
from rostra.testing import Worlds


def stands(state: rostra.State) -> str:
    match state:
        case Connected():
            return "fine"
        case Suspended(since, deadline):
            return f"silent for a while, lost in {deadline - since} s"
        case Lost(reason):
            return f"{reason.code}: {reason.what}; {reason.fix}" if state.is_final else "calling again"


def shown(item: rostra.Item) -> str:
    match item:
        case View(members):
            return " ".join(member.endpoint for member in members)
        case Joined(members, cause):
            return f"{len(members)} {cause.value}"
        case Left(endpoints, cause, meta):
            return f"{endpoints[0]} {cause.value} {meta.decode()}"
        case Without(domain, _, because) | Only(domain, _, because):
            return f"{domain}: {because.what}"
        case Gap(missed):
            return f"missed {'some' if missed is None else missed + 0}"
        case Message(source, data):
            return source + data.decode()


async def main() -> str:
    token = ""
    async with rostra.connect("h3:7701", "secret", name="web-1", on_state=lambda s: print(stands(s))) as me:
        async with me.join("chess", scope="eu", membership="relaxed", delivery="none") as chess:
            async for item in chess:
                print(shown(item))
            async for items in chess.batches(16):
                print(*map(shown, items))
        members = await me.resolve("chess", scope="eu", deadline_s=2.0)
        print(members.endpoints, members.from_copy)
        async for change in me.watch("chess", resume=token or None):
            token = change.token
        try:
            await me.connected(deadline_s=1.0)
        except rostra.errors.DeadlineExceeded as late:
            print(late.fix)
    return token


def threads() -> None:
    with rostra.sync.connect() as me, me.join("chess") as chess, me.watch("go") as go:
        for item in chess:
            print(shown(item))
        for change in go.changes(timeout_s=5.0):
            print(change.token)
        for items in chess.batches():
            print(len(items))


def test_it(rostra_world: Worlds) -> None:
    world = rostra_world({"eu.paris": 2})
    result: str = world.run(main())
    world.cut("eu.paris.h1")
    world.run(for_s=3)
    print(result, world.trace)


if __name__ == "__main__":
    asyncio.run(main())
