"""What happens to a packet between two sites: given packets, times and a seed, when does each arrive?"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rostra.errors import BadInput
from rostra.impair.quality import LineQuality, Wander
from rostra.lab.ways import ON_THE_WAY_BYTES_MAX, Counts, LabWay, Wan

MIT, NTU, HUJI = bytes((10, 78, 2)), bytes((10, 78, 3)), bytes((10, 78, 1))


def way(seed: int = 1, **quality: object) -> LabWay:
    return LabWay("mit", "ntu", LineQuality().but(**quality), seed)


def packet(to: bytes, body: bytes = b"") -> bytes:
    """As much of an IPv4 packet as a router looks at."""
    return b"\x45" + bytes(15) + to + b"\x01" + body


def arrivals(wan: Wan, until_s: float = 1e9) -> list[tuple[float, str, bytes]]:
    return [(due_s, way.to, packet) for due_s, way, packet in wan.due(until_s)]


def test_a_packet_takes_the_delay() -> None:
    assert way(delay_s=0.115).offer(2.0, 100) == (2.115,)


def test_a_rate_sends_one_packet_after_the_other() -> None:
    slow = way(delay_s=1.0, rate_bps=8000)  # a thousand bytes a second
    assert [slow.offer(0.0, 500) for _ in range(3)] == [(1.5,), (2.0,), (2.5,)]
    assert slow.offer(10.0, 500) == (11.5,)


def test_a_full_queue_drops_the_newcomer_and_says_so() -> None:
    slow = way(rate_bps=8000, queue_bytes=1000)
    assert [len(slow.offer(0.0, 500)) for _ in range(3)] == [1, 1, 0]
    assert slow.counts.dropped == {"queue": 1}
    assert slow.offer(0.5, 500) == (1.5,)  # half a second later there is room for one


def test_a_copy_arrives_with_its_original() -> None:
    doubling = way(delay_s=0.1, duplicate=1.0)
    assert doubling.offer(0.0, 100) == (0.1, 0.1)
    assert doubling.counts.copies == 1


def test_a_packet_that_is_held_back_is_overtaken() -> None:
    holding = way(delay_s=0.1, reorder=1.0, reorder_s=0.05)
    (late,) = holding.offer(0.0, 100)
    holding.change(holding.quality.but(reorder=0.0))
    (early,) = holding.offer(0.01, 100)
    assert early < late == pytest.approx(0.15)
    assert holding.counts.held_back == 1


def test_a_link_that_was_made_faster_lets_nobody_overtake() -> None:
    faster = way(delay_s=0.2)
    faster.offer(0.0, 100)
    faster.change(LineQuality(Wander(0.01)))
    assert faster.offer(0.05, 100) == (0.2,)
    assert faster.offer(0.3, 100) == (0.31,)


def test_nothing_enters_a_cut_and_nothing_comes_out_of_it() -> None:
    cut = way(delay_s=0.1)
    assert cut.offer(0.0, 100) == (0.1,)
    cut.cut = True
    assert cut.offer(0.05, 100) == ()
    assert not cut.arrive(100)
    cut.cut = False
    assert cut.offer(0.2, 100) == (pytest.approx(0.3),)
    assert cut.arrive(100)
    assert cut.counts == Counts(3, 300, 1, 100, 0, 0, {"cut": 2})


def test_memory_has_an_end() -> None:
    long = way(delay_s=1000.0)
    size = ON_THE_WAY_BYTES_MAX // 4
    assert [len(long.offer(0.0, size)) for _ in range(5)] == [1, 1, 1, 1, 0]
    assert long.counts.dropped == {"full": 1}
    long.arrive(size)
    assert long.offer(0.0, size)


def test_what_the_receiving_site_does_not_take_has_not_arrived() -> None:
    refused = way()
    refused.offer(0.0, 100)
    assert refused.arrive(100)
    refused.refused(100)
    assert (refused.counts.arrived_packets, refused.counts.dropped) == (0, {"kernel": 1})


@pytest.mark.parametrize("share", [0.01, 0.05, 0.20])
def test_loss_is_as_often_as_it_was_asked_for(share: float) -> None:
    losing = way(loss=share)
    for number in range(20_000):
        losing.offer(number / 1000, 100)
    assert losing.counts.dropped["loss"] / 20_000 == pytest.approx(share, rel=0.1)


def test_a_drifting_loss_goes_there_and_back() -> None:
    drifting = LineQuality(loss=0.05, loss_to=0.25, drift_s=100.0)
    assert [round(drifting.loss_at(at), 3) for at in (0, 25, 50, 75, 100, 125)] == [
        *(0.05, 0.15, 0.25),
        *(0.15, 0.05, 0.15),
    ]


def test_the_luck_of_a_packet_does_not_depend_on_the_settings() -> None:
    """So that a run with 5 % loss loses what the same run with 1 % lost, and more."""
    little, much, slow = way(loss=0.01), way(loss=0.05), way(loss=0.05, delay_s=0.1, jitter_s=0.05)
    fates = [(little.offer(n / 10, 9), much.offer(n / 10, 9), slow.offer(n / 10, 9)) for n in range(2000)]
    assert all(not in_much for in_little, in_much, _ in fates if not in_little)
    assert all(bool(in_much) == bool(in_slow) for _, in_much, in_slow in fates)


def test_the_two_ways_of_a_link_have_luck_of_their_own() -> None:
    there, back = (
        LabWay("mit", "ntu", LineQuality(loss=0.5), 1),
        LabWay("ntu", "mit", LineQuality(loss=0.5), 1),
    )
    assert [there.offer(n, 9) for n in range(50)] != [back.offer(n, 9) for n in range(50)]


def test_jitter_has_the_delay_as_its_mean() -> None:
    wandering = way(delay_s=0.1, jitter_s=0.005)
    delays = [wandering.offer(n / 100, 9)[0] - n / 100 for n in range(20_000)]
    assert sum(delays) / len(delays) == pytest.approx(0.1, rel=0.005)
    assert min(delays) < 0.0965 and max(delays) > 0.1035


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"loss": 1.5}, "share"),
        ({"loss": [0.1, -0.1]}, "share"),
        ({"loss": "much"}, "number"),
        ({"delay_s": -1}, "0 or more"),
        ({"delay_s": float("nan")}, "0 or more"),
        ({"jitter_s": 0.2}, "before it was sent"),
        ({"drift_s": 0}, "more than 0"),
        ({"delay": 1}, "it has: delay_s"),
        ({"duplicate": True}, "number"),
    ],
)
def test_a_quality_that_cannot_be_is_refused_with_a_way_out(settings: dict[str, object], word: str) -> None:
    with pytest.raises(BadInput, match=word):
        LineQuality(Wander(0.1)).but(**settings)


# All ways together


def wan(**quality: object) -> Wan:
    pairs = [("mit", "ntu"), ("ntu", "mit"), ("mit", "huji")]
    ways = [LabWay(source, to, LineQuality().but(**quality)) for source, to in pairs]
    return Wan(ways, {MIT: "mit", NTU: "ntu", HUJI: "huji"})


def test_a_packet_goes_where_its_address_says() -> None:
    net = wan(delay_s=0.1)
    net.send(0.0, "mit", packet(NTU, b"n"))
    net.send(0.05, "mit", packet(HUJI, b"h"))
    assert net.next_s == 0.1
    assert arrivals(net, 0.12) == [(0.1, "ntu", packet(NTU, b"n"))]
    assert arrivals(net) == [(pytest.approx(0.15), "huji", packet(HUJI, b"h"))]
    assert net.next_s is None


def test_what_is_for_no_way_is_counted() -> None:
    net = wan()
    net.send(0.0, "mit", packet(bytes((239, 1, 1))))
    net.send(0.0, "mit", packet(bytes((8, 8, 8))))
    net.send(0.0, "huji", packet(NTU))
    net.send(0.0, "mit", b"\x60" + bytes(60))
    net.send(0.0, "mit", b"")
    assert net.strays == {"multicast": 1, "for no site": 1, "no link": 1, "not IPv4": 2}
    assert net.next_s is None


QUALITIES = st.builds(
    LineQuality,
    st.builds(Wander, st.floats(0.02, 0.5), st.floats(0.0, 0.02)),
    loss=st.floats(0, 0.5),
    duplicate=st.floats(0, 0.5),
    rate_bps=st.sampled_from([0.0, 1e5, 1e7]),
    queue_bytes=st.sampled_from([2000, 50_000]),
)
GAPS = st.lists(st.floats(0.0, 0.05), min_size=1, max_size=60)
SIZES = st.integers(20, 1500)


@given(QUALITIES, GAPS, st.integers(), st.data())
def test_without_reordering_packets_arrive_in_the_order_they_were_sent(
    quality: LineQuality, gaps: list[float], seed: int, data: st.DataObject
) -> None:
    one = LabWay("a", "b", quality, seed)
    now, arrived = 0.0, []
    for gap in gaps:
        now += gap
        arrived += one.offer(now, data.draw(SIZES))
    assert all(earlier <= later for earlier, later in pairwise(arrived))


@given(QUALITIES, GAPS, st.integers())
def test_a_packet_takes_at_least_the_least_delay_and_at_most_the_queue_more(
    quality: LineQuality, gaps: list[float], seed: int
) -> None:
    one = LabWay("a", "b", quality, seed)
    queue_s = quality.queue_bytes * 8 / quality.rate_bps if quality.rate_bps else 0.0
    now = 0.0
    for gap in gaps:
        now += gap
        for arrives in one.offer(now, 1000):
            delay_s, jitter_s = quality.wander.delay_s, quality.wander.jitter_s
            least, most = delay_s - jitter_s, delay_s + jitter_s + queue_s
            assert least - 1e-9 <= arrives - now <= most + 1e-9


@given(QUALITIES, st.floats(0, 1), GAPS, st.integers(), st.lists(st.booleans(), max_size=60))
def test_every_packet_is_accounted_for(
    quality: LineQuality, reorder: float, gaps: list[float], seed: int, cuts: list[bool]
) -> None:
    """What was offered, and its copies, has arrived or was dropped, once nothing is under way."""
    one = LabWay("mit", "ntu", quality.but(reorder=reorder), seed)
    net = Wan([one], {NTU: "ntu"})
    now, handed_over = 0.0, 0
    for number, gap in enumerate(gaps):
        now += gap
        one.cut = number < len(cuts) and cuts[number]
        net.send(now, "mit", packet(NTU, bytes(80)))
        handed_over += len(arrivals(net, now))
    handed_over += len(arrivals(net))
    counts = one.counts
    assert counts.packets == len(gaps) and counts.bytes == 100 * len(gaps)
    assert counts.arrived_packets == handed_over and counts.arrived_bytes == 100 * handed_over
    assert counts.packets + counts.copies == counts.arrived_packets + counts.dropped_packets


@given(QUALITIES, GAPS, st.integers())
def test_the_same_seed_gives_the_same_arrivals(quality: LineQuality, gaps: list[float], seed: int) -> None:
    def run() -> list[tuple[float, ...]]:
        one, now, found = LabWay("a", "b", quality, seed), 0.0, []
        for gap in gaps:
            now += gap
            found.append(one.offer(now, 100))
        return found

    assert run() == run()
