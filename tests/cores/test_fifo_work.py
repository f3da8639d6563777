"""What a datagram costs a receiver or a delegate that misses very much: the same as one that misses little.

Work is counted in executed lines of the protocol, and not in time.
"""

from collections.abc import Callable
from typing import Any

import pytest
from support.counting import lines
from support.fifobench import (
    DelegateBench,
    G,
    MemberBench,
    cut,
    data,
    delegate,
    entry,
    user,
)

from rostra.core.effects import TimerFired
from rostra.names import Domain
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.messages import CutReply, ViewId
from rostra.protocols.fifo.slow import is_behind
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Heartbeat, Nak, Pulse

NEAR = user("huji.h2/near")
FAR = user("mit.h1/far")
MIT = delegate("mit")
CONFIG = FifoConfig(held_messages=100_000)
LITTLE, MUCH = 50, 3_000


class Receiver:
    """A member that misses every second message of one sender."""

    def __init__(self, holes: int) -> None:
        bench = MemberBench(config=CONFIG)
        bench.active(cut("huji", entry(NEAR, 1), h1=1, h2=1), members=(NEAR,))
        self.core, self.sender, self.source = bench.core, NEAR, Domain("huji.h2")
        self.last = 2 * holes
        self._miss()

    def _miss(self) -> None:
        for number in range(2, self.last + 1, 2):
            self.hear(data(self.sender, number))

    def hear(self, *messages: Any, now: float = 0.0) -> None:
        self.core.step(now, ev.Heard(G, self.source, messages))

    def recover(self) -> None:
        self.core.step(1.0, TimerFired(self.core.context._key("recover", "")))


class Delegate(Receiver):
    """The same at a delegate, of a sender elsewhere."""

    def __init__(self, holes: int) -> None:
        bench = DelegateBench(config=CONFIG)
        bench.inside(FAR, MIT)
        bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 1), h1=1)))
        bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))
        self.core, self.sender, self.source = bench.core, FAR, Domain("mit")
        self.last = 2 * holes
        self._miss()


DEEDS: dict[str, Callable[[Receiver], None]] = {
    "news": lambda at: at.hear(data(at.sender, at.last + 1)),
    "another hole": lambda at: at.hear(data(at.sender, at.last + 4)),
    "a repair in the middle": lambda at: at.hear(
        data(at.sender, at.last // 2 + 1 - at.last // 2 % 2, repair=True)
    ),
    "a duplicate": lambda at: at.hear(data(at.sender, at.last)),
    "a heartbeat": lambda at: at.hear(Heartbeat((Pulse(at.sender.endpoint, at.last, 0),))),
    "a question": lambda at: at.hear(Nak(at.sender.endpoint, ((at.last - 9, at.last),), at.source)),
    "its own question": lambda at: at.recover(),
}


@pytest.mark.spec("X-080", "X-092")
@pytest.mark.parametrize("kind", [Receiver, Delegate])
@pytest.mark.parametrize("deed", DEEDS)
def test_what_a_datagram_costs_does_not_depend_on_how_much_is_missing(deed, kind):
    """A receiver that was 20 s behind went through all its holes for each datagram, and caught up with a
    twelfth of what it was sent."""
    few, many = kind(LITTLE), kind(MUCH)
    at_few, at_many = (lines(lambda at=at: DEEDS[deed](at)) for at in (few, many))
    assert 5 < at_many < 1.5 * at_few + 100


@pytest.mark.spec("X-080", "X-092")
@pytest.mark.parametrize("kind", [Receiver, Delegate])
def test_to_catch_up_costs_as_much_for_each_message_however_many_there_are(kind):
    def catches_up(holes: int) -> float:
        at = kind(holes)
        return lines(lambda: [at.hear(data(at.sender, n, repair=True)) for n in range(1, at.last, 2)]) / holes

    assert catches_up(MUCH) < 1.5 * catches_up(LITTLE)


@pytest.mark.spec("X-091")
def test_whether_a_receiver_is_behind_costs_as_much_however_much_is_held():
    """A delegate looks at it with every datagram, for each receiver that may not wait."""
    config = FifoConfig(window_messages=100_000, held_messages=100_000, window_bytes=1000)

    def looks(held: int) -> int:
        at = Delegate(0)
        for number in range(1, held + 1):
            at.hear(data(at.sender, number))
        relay = at.core.relays.running[at.sender.endpoint]
        assert relay.inbound.store.messages == held
        return lines(lambda: is_behind(relay, 1, config))

    assert 3 < looks(MUCH) < looks(LITTLE) + 10
