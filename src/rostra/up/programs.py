"""The sample programs of one host, which come and go so that a small world has members.

    lounge@world        any program that is around
    chess@eu            two or more of a region, for a game
    web@eu.paris        a server that is nearly always there, and is sometimes replaced
    chat@world          one program of each host sends sentences, and receives the others'
    ledger@eu           a clerk on each host of a region; views are agreed, and in a cut a majority goes on

They use the public API only, at a human pace, with random choices from a seed:
``python -m rostra.up.programs HOST SOCKET SEED NAME...``. When their host's agent is gone, they wait, and
come back with it.
"""

import asyncio
import contextlib
import signal
import sys
from random import Random
from typing import Final

import rostra
from rostra.client import Conversation, Me
from rostra.errors import RostraError
from rostra.names import Domain, labels, parent

NAMES: Final = (
    *("ann", "bob", "cleo", "dan", "eve", "finn", "gwen", "hugo", "ida", "jon", "kim", "leo"),
    *("mia", "noah", "olga", "paul", "quinn", "rosa", "sam", "tess", "uma", "vera", "will", "yara"),
)
PEOPLE_PER_HOST: Final = 2

LOUNGE: Final = "lounge"
CHESS: Final = "chess"
WEB: Final = "web"
CHAT: Final = "chat"
LEDGER: Final = "ledger"

SENTENCES: Final = (
    *("good morning", "who is up for a game?", "e4", "e5", "the coffee is ready", "back in five minutes"),
    *("did anybody see the cut?", "all well here", "see you in the lounge"),
)

ASK_AGAIN_S: Final = 0.2


def people_of(number: int) -> tuple[str, ...]:
    """The programs of host number so and so, counted from 0. Names repeat in a large world, but on no
    host."""
    first = number * PEOPLE_PER_HOST
    return tuple(NAMES[(first + each) % len(NAMES)] for each in range(PEOPLE_PER_HOST))


class TrafficPace:
    """How long things take, in seconds: a seed's luck, the same for every run."""

    def __init__(self, seed: str) -> None:
        self._luck = Random(seed)

    async def between(self, shortest_s: float, longest_s: float) -> None:
        await asyncio.sleep(self._luck.uniform(shortest_s, longest_s))

    def likely(self, chance: float) -> bool:
        return self._luck.random() < chance


async def person(me: Me, name: str, pace: TrafficPace) -> None:
    """Comes to the lounge, plays a game now and then, goes, and comes back as a new incarnation."""
    region = labels(me.host)[0]
    while True:
        async with me.open(name) as self, self.join(LOUNGE):
            await pace.between(4, 20)
            if pace.likely(0.6):
                async with self.join(CHESS, scope=region):
                    await pace.between(10, 60)
            await pace.between(4, 30)
        await pace.between(4, 20)


async def web_server(me: Me, pace: TrafficPace) -> None:
    """Serves its cluster; is replaced every few minutes."""
    while True:
        async with me.open("web-1") as self, self.join(WEB, scope=parent(me.host)):
            await pace.between(60, 240)
        await pace.between(2, 5)


async def chat(me: Me, name: str, pace: TrafficPace) -> None:
    """Talks and listens, a few sentences at a time; goes now and then, or is lost, and comes back."""
    while True:
        with contextlib.suppress(RostraError):
            async with me.open(name) as self, self.join(CHAT, delivery="fifo") as conversation:
                listening = asyncio.create_task(_listen(conversation))
                try:
                    for number in range(80):
                        await conversation.send(SENTENCES[number % len(SENTENCES)].encode())
                        await pace.between(0.5, 4.5)
                finally:
                    listening.cancel()
        await pace.between(4, 10)


async def clerk(me: Me, pace: TrafficPace) -> None:
    """Keeps a book with the others: is always there, unless its host is not."""
    while True:
        with contextlib.suppress(RostraError):
            async with (
                me.open("clerk") as self,
                self.join(LEDGER, scope=labels(me.host)[0], membership="agreed", survive="majority") as book,
            ):
                async for _ in book:
                    pass
        await pace.between(1, 3)


async def _listen(conversation: Conversation) -> None:
    async for _ in conversation.items(batch=100):
        pass


async def live(host: Domain, socket: str, seed: str, people: tuple[str, ...]) -> None:
    """The programs of one host, started again after its agent was away."""
    while True:
        try:
            async with rostra.connect(socket, name="concierge") as me, asyncio.TaskGroup() as lives:
                lives.create_task(web_server(me, TrafficPace(f"{seed} {host} web")))
                lives.create_task(clerk(me, TrafficPace(f"{seed} {host} clerk")))
                lives.create_task(chat(me, f"{people[0]}-talks", TrafficPace(f"{seed} {host} chat")))
                for name in people:
                    lives.create_task(person(me, name, TrafficPace(f"{seed} {host} {name}")))
        except* RostraError:
            pass  # the agent is not there, or went away: its host is starting, or crashed
        await asyncio.sleep(ASK_AGAIN_S)


async def run_until_told(host: Domain, socket: str, seed: str, people: tuple[str, ...]) -> None:
    lives = asyncio.create_task(live(host, socket, seed, people))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lives.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await lives


if __name__ == "__main__":
    _, host, socket, seed, *people = sys.argv
    asyncio.run(run_until_told(Domain(host), socket, seed, tuple(people)))
