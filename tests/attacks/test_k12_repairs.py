"""K12: a host of a LAN asks for repairs. What it names costs as much as it is, and goes to nobody else."""

from typing import Any

import pytest

from rostra.names import Domain, Endpoint, Group
from rostra.protocols.channel.messages import LAN, Datagram, Unreadable
from rostra.protocols.flow import fragments
from rostra.protocols.flow.fragments import places
from rostra.protocols.flow.messages import RANGES_MAX, Nak
from rostra.wire.datagrams import Datagrams
from tests.support.fifobench import MemberBench, cut, data, entry, ignored, user
from tests.support.fifodelegate import A, sent, with_mit

G, HOST = Group("chess", Domain("huji")), Domain("huji.h1")
ANN = Endpoint("huji.h1/ann#1")
NEAR = user("huji.h2/near", next_seq=1)


def read(nak: Nak) -> Datagram | Unreadable:
    datagrams = Datagrams("lab")
    octets = b"".join(next(iter(datagrams.pack(G, HOST, LAN, (nak,), 60_000))))
    return datagrams.read(octets)


@pytest.mark.parametrize(
    "nak",
    [
        Nak(ANN, ((0, 65_535),) * (RANGES_MAX + 1), HOST),
        Nak(ANN, ((1, 1),), HOST, 1, tuple([(n, ()) for n in range(RANGES_MAX + 1)])),
        Nak(ANN, ((1, 1),), HOST, 1, ((1, ((0, 1),) * (RANGES_MAX + 1)),)),
    ],
)
def test_a_request_names_so_many_ranges_and_no_more(nak: Nak) -> None:
    """Of one datagram 6,000 ranges with 6,000 numbers in each were 40 million, and memory for all of them."""
    assert isinstance(read(nak), Unreadable)
    most = ((0, 65_535),) * RANGES_MAX
    assert isinstance(read(Nak(ANN, most, HOST, 1, tuple([(n, most) for n in range(2)]))), Datagram)


def test_each_number_is_looked_at_once_however_often_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    within = fragments._within

    def counted(*args: Any) -> list[int]:
        nonlocal looked_at
        found = within(*args)
        looked_at += len(found)
        return found

    monkeypatch.setattr(fragments, "_within", counted)
    parts = tuple([(n, ((0, 9),)) for n in range(1, 128, 2)])
    asked = places(Nak(ANN, ((0, 127),) * RANGES_MAX, HOST, 1, parts))
    assert looked_at == 64
    assert asked == places(Nak(ANN, ((0, 127),), HOST, 1, parts))


def test_repairs_go_to_whom_the_request_comes_from() -> None:
    """Each name that was invented had its own congestion control at the delegate."""
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 5))
    for source in ("huji.h2", "mit"):
        effects = bench.hear(source, Nak(A.endpoint, ((1, 5),), Domain("nowhere"), 2))
        assert not sent(effects)
        assert ("Nak", "in the name of another") in ignored(effects)
    assert sent(bench.hear("mit", Nak(A.endpoint, ((1, 5),), Domain("mit"))))


def test_a_wait_that_others_put_off_grows_to_a_bound() -> None:
    """It was doubled for each request that was overheard, as a number of so many bits."""
    bench = MemberBench()
    bench.active(cut("huji", entry(NEAR, 1), h1=1, h2=1), members=(NEAR,))
    bench.hear("huji.h2", data(NEAR, 2))
    (hole,) = bench.core.senders.running[NEAR.endpoint].inbound.holes.holes
    hole.pushed = 1 << 70
    bench.hear("huji.h3", Nak(NEAR.endpoint, ((1, 1),), Domain("huji.h3")))
    assert hole.due < 60.0
