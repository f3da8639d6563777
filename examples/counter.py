import asyncio

import rostra


class Counter(rostra.Replicated):
    def __init__(self) -> None:
        self.total = 0

    @rostra.command
    def add(self, amount: int) -> int:
        self.total += amount
        return self.total


async def main() -> None:
    async with rostra.connect() as me, me.replicate("visits", Counter(), scope="eu") as counter:
        print("total", await counter.add(1))


if __name__ == "__main__":
    asyncio.run(main())
