"""A program that is in one group until it or its agent ends: ``python member.py SOCKET NAME GROUP SCOPE``."""

import asyncio
import sys

from rostra.client import connect


async def main(socket: str, name: str, group: str, scope: str) -> None:
    async with connect(socket, name=name, on_lost="raise") as me, me.join(group, scope) as membership:
        await membership.ready()  # the servers have heard of us, so whoever asks them now is told
        print(me.endpoint, flush=True)
        async for _ in membership:
            pass


asyncio.run(main(*sys.argv[1:]))
