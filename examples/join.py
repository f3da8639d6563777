import asyncio
import contextlib
import sys

import rostra


async def main(group: str) -> None:
    async with rostra.connect() as me, me.join(group, scope="world") as members:
        async for change in members:
            print(change)
            print("here now:", *[member.endpoint for member in members.members], flush=True)


with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C leaves the group, as others will see
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else "lounge"))
