import asyncio
import contextlib

import rostra


async def main() -> None:
    async with rostra.connect() as me:
        while True:
            try:
                async with me.lead("scheduler", scope="eu") as term:  # waits for its turn
                    while True:
                        print("we lead; write with fence", term.fence, flush=True)
                        await asyncio.sleep(10)
            except rostra.errors.Unreachable as lost:  # the body was cancelled: another may lead now
                print(lost, flush=True)
                await asyncio.sleep(1)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
