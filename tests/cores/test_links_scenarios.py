"""One end of a link, told by hand what arrives: the rules of section 3.3, and the traps behind them."""

import math

import pytest
from support.links import (
    HOST,
    PARIS,
    WORLD,
    Pair,
    assert_once_in_order_without_gaps,
    assert_settled,
    transmissions,
)

from rostra.core.effects import Ignored, LinkDown, LinkUp, Received
from rostra.errors import BadInput
from rostra.groups.members import Because
from rostra.names import Domain
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.core import OLDER, SESSIONS_PER_LIFE, Link, Report
from rostra.protocols.links.events import (
    BatchSubmitted,
    ChannelClosed,
    ChannelOpened,
    PacketArrived,
    Removed,
    Stopped,
    Suspected,
    Ticked,
    Transmit,
    Trusted,
)
from rostra.protocols.links.packets import NOBODY, AnyPacket, Beat, Bye, Data, Hello

MINE = 7 * SESSIONS_PER_LIFE + 1
THEIRS = 5 * SESSIONS_PER_LIFE + 1
SMALL = LinkConfig(queue_messages_max=5, window_packets_max=3, packet_messages_max=2, acknowledge_messages=3)


def greeting(mine: int = THEIRS, yours: int = NOBODY, *, received: int = 0, **other: object) -> Hello:
    hello = {"world": WORLD, "path": HOST, "incarnation": 5, "received": received, "to": PARIS} | other
    return Hello(mine, yours, **hello)  # type: ignore[arg-type]


def our_hello(mine: int, yours: int, received: int = 0) -> Transmit:
    return Transmit(HOST, Hello(mine, yours, WORLD, PARIS, 7, received, HOST))


def arrives(link: Link, now: float, packet: AnyPacket) -> list[Report]:
    return link.step(now, PacketArrived(HOST, packet))


def new_link(config: LinkConfig | None = None) -> Link:
    return Link(WORLD, PARIS, HOST, incarnation=7, config=config or LinkConfig.wan())


def up_link(config: LinkConfig | None = None) -> Link:
    """A link that came up at time 0, in the epoch (MINE, THEIRS)."""
    link = new_link(config)
    link.step(0.0, ChannelOpened(HOST))
    arrives(link, 0.0, greeting(THEIRS, MINE))
    assert link.epoch == (MINE, THEIRS)
    return link


def packets(reports: list[Report]) -> list[AnyPacket]:
    return [report.packet for report in reports if isinstance(report, Transmit)]


def silence(link: Link, now: float, *, for_s: float = math.inf, until_down: bool = False) -> float:
    """Ticks and nothing else; the answer is what time it is then."""
    until = now + for_s
    while now < until and not (until_down and not link.up):
        now += link.config.tick_s
        link.step(now, Ticked())
    return now


def told(reports: list[Report]) -> list[Report]:
    """What the core above is told."""
    return [report for report in reports if isinstance(report, LinkUp | LinkDown | Received)]


# Coming together


def test_a_new_channel_begins_with_a_hello() -> None:
    assert new_link().step(0.0, ChannelOpened(HOST)) == [our_hello(MINE, NOBODY)]


@pytest.mark.spec("C-027")
def test_a_link_is_up_when_the_peer_echoes_our_session_and_not_before() -> None:
    link = new_link()
    assert not link.up
    link.step(0.0, ChannelOpened(HOST))

    assert arrives(link, 0.1, greeting(THEIRS, NOBODY)) == [our_hello(MINE, THEIRS)]
    assert not link.up
    assert arrives(link, 0.2, greeting(THEIRS, MINE)) == [
        LinkUp(HOST, 5),
        Transmit(HOST, Beat(MINE, THEIRS, 0)),
    ]
    assert link.up


@pytest.mark.spec("C-028")
def test_a_message_that_proves_life_is_delivered_after_up() -> None:
    link = new_link()
    link.step(0.0, ChannelOpened(HOST))
    arrives(link, 0.1, greeting(THEIRS, NOBODY))

    assert arrives(link, 0.2, Data(THEIRS, MINE, 1, 0, ("first",))) == [
        LinkUp(HOST, 5),
        Received(HOST, "first"),
    ]


def test_while_apart_hellos_are_repeated_at_growing_intervals() -> None:
    link = new_link()
    link.step(0.0, ChannelOpened(HOST))

    ticks = [count * 0.25 for count in range(1, 120)]
    sent = [now for now in ticks if link.step(now, Ticked())]

    gaps = [later - earlier for earlier, later in zip([0.0, *sent], sent, strict=False)]
    assert gaps == [0.25, 0.5, 1.0, 1.75, 3.25, 5.0, 5.0, 5.0, 5.0]


def test_without_a_channel_nothing_is_transmitted() -> None:
    link = new_link()
    assert link.step(1.0, Ticked()) == []
    assert arrives(link, 1.1, greeting(THEIRS, NOBODY)) == []
    assert told(arrives(link, 1.2, greeting(THEIRS, MINE))) == [LinkUp(HOST, 5)]
    assert link.step(1.3, BatchSubmitted(("waits",))) == []


@pytest.mark.parametrize(
    ("stranger", "why"),
    [
        (greeting(world="mars"), "another world"),
        (greeting(path=Domain("eu.paris.h2")), "not meant for this link"),
        (greeting(to=Domain("eu.lyon")), "not meant for this link"),
    ],
)
def test_a_hello_of_another_world_or_for_another_link_never_leads_up(stranger: Hello, why: str) -> None:
    link = new_link()
    link.step(0.0, ChannelOpened(HOST))

    assert arrives(link, 0.1, stranger) == [Ignored("Hello", why)]
    assert arrives(link, 0.2, Beat(THEIRS, MINE, 0)) == [Ignored("Beat", "old epoch")]
    assert not link.up


@pytest.mark.parametrize("field", [{"world": "mars"}, {"path": Domain("eu.paris.h2")}])
def test_a_stranger_that_guesses_the_epoch_cannot_acknowledge_for_the_peer(field: dict[str, object]) -> None:
    link = up_link()
    link.step(0.1, BatchSubmitted(("kept",)))

    assert isinstance(arrives(link, 0.2, greeting(THEIRS, MINE, received=1, **field))[0], Ignored)

    assert not link.drained


@pytest.mark.spec("C-016", "C-182")
def test_of_two_servers_with_one_name_the_larger_incarnation_is_accepted_and_the_other_reported() -> None:
    link = up_link()
    twin = 6 * SESSIONS_PER_LIFE + 1

    assert told(arrives(link, 0.1, greeting(twin, NOBODY, incarnation=6))) == [
        LinkDown(HOST, Because(PARIS, HOST, "restarted"))
    ]
    assert told(arrives(link, 0.2, greeting(twin, MINE + 1, incarnation=6))) == [LinkUp(HOST, 6)]
    assert arrives(link, 0.3, greeting(THEIRS, MINE + 1)) == [Ignored("Hello", "older incarnation")]
    assert arrives(link, 0.3, Beat(THEIRS, MINE, 0)) == [Ignored("Beat", "old epoch")]
    assert link.epoch == (MINE + 1, twin)


@pytest.mark.spec("C-005", "C-182")
def test_we_notice_when_a_later_life_of_ours_is_known_to_the_peer() -> None:
    link = new_link()
    link.step(0.0, ChannelOpened(HOST))

    later_life = 8 * SESSIONS_PER_LIFE + 1
    assert arrives(link, 0.1, greeting(THEIRS, later_life)) == [
        Ignored("Hello", "we are an older incarnation")
    ]
    assert not link.up


@pytest.mark.spec("C-005", "C-182")
def test_a_life_that_is_silent_for_long_is_forgotten_and_an_earlier_number_is_let_in() -> None:
    """The clock of the peer went back, or somebody else came in its name with a later number."""
    link = up_link()
    down_after_s = link.config.detect.down_after_s
    earlier = 3 * SESSIONS_PER_LIFE + 1

    now = silence(link, 0.0, until_down=True)
    assert arrives(link, now, greeting(earlier, NOBODY, incarnation=3)) == [Ignored("Hello", OLDER)]
    now = silence(link, now, for_s=down_after_s - 0.5)
    assert arrives(link, now, greeting(earlier, NOBODY, incarnation=3)) == [Ignored("Hello", OLDER)]
    now = silence(link, now, for_s=1.0)
    arrives(link, now, greeting(earlier, NOBODY, incarnation=3))

    assert told(arrives(link, now, greeting(earlier, MINE + 1, incarnation=3))) == [LinkUp(HOST, 3)]


def test_a_life_that_is_heard_of_is_not_forgotten_however_long_it_takes_to_meet() -> None:
    """It hears nothing of us, as in a one-way cut."""
    link = up_link()
    now = silence(link, 0.0, until_down=True)
    for _ in range(10):
        arrives(link, now, greeting(THEIRS + 1, MINE))
        now = silence(link, now, for_s=link.config.detect.down_after_s / 2)

    assert arrives(link, now, greeting(THEIRS, MINE + 1)) == [Ignored("Hello", "old epoch")]


@pytest.mark.parametrize(
    ("numbers", "ahead_ms"),
    [
        ({"incarnation": 2_000}, 1_000),
        ({"incarnation": 2_000, "mine": 2_500 * SESSIONS_PER_LIFE + 9}, 1_500),
        ({"yours": 4_000 * SESSIONS_PER_LIFE}, 3_000),
        ({"incarnation": 2**63 - 1}, 2**63 - 1 - 1_000),
        ({"mine": 2**63 - 1}, 2**43 - 1 - 1_000),
    ],
)
def test_a_hello_tells_by_how_much_it_is_ahead_of_a_clock(numbers: dict[str, int], ahead_ms: int) -> None:
    hello = Hello(**{"mine": 1, "yours": 0, "incarnation": 7, **numbers}, world=WORLD, path=HOST, received=0)
    assert hello.ahead_ms(1_000) == ahead_ms


# Saying and hearing


@pytest.mark.spec("C-026")
def test_data_is_handed_up_once_and_in_order_however_it_arrives() -> None:
    link = up_link(LinkConfig().over_datagrams())
    one, two, three = (Data(THEIRS, MINE, number, 0, (f"m{number}",)) for number in (1, 2, 3))

    assert told(arrives(link, 0.1, two)) == []
    assert arrives(link, 0.1, two) == [Ignored("Data", "duplicate")]
    assert told(arrives(link, 0.2, three)) == []
    assert told(arrives(link, 0.3, one)) == [Received(HOST, f"m{number}") for number in (1, 2, 3)]
    assert arrives(link, 0.4, two) == [Ignored("Data", "duplicate")]


def test_data_from_beyond_the_window_is_not_kept() -> None:
    link = up_link(SMALL.over_datagrams())
    assert arrives(link, 0.1, Data(THEIRS, MINE, 4, 0, ("x",))) == [Ignored("Data", "beyond the window")]
    assert arrives(link, 0.1, Data(THEIRS, MINE, 3, 0, ("x",))) == []


def test_where_the_channel_keeps_the_order_nothing_is_kept_that_came_out_of_it() -> None:
    link = up_link()
    assert arrives(link, 0.1, Data(THEIRS, MINE, 2, 0, ("x",))) == [Ignored("Data", "out of order")]
    assert told(arrives(link, 0.1, Data(THEIRS, MINE, 1, 0, ("m1",)))) == [Received(HOST, "m1")]


def test_for_hellos_that_come_at_once_what_is_in_flight_is_sent_once() -> None:
    link = up_link()
    link.step(0.1, BatchSubmitted(("m1",)))
    (again, _beat) = packets(arrives(link, 0.2, greeting(THEIRS, MINE)))
    assert isinstance(again, Data)
    for _ in range(100):
        assert arrives(link, 0.2, greeting(THEIRS, MINE)) == []
    assert packets(arrives(link, 0.3, greeting(THEIRS, MINE)))[0] == again


def test_what_messages_carry_is_bounded_too() -> None:
    link = Link(
        WORLD, PARIS, HOST, incarnation=7, config=LinkConfig(queue_bytes_max=1 << 20), weigh=lambda _: 1 << 18
    )
    link.step(0.0, ChannelOpened(HOST))
    arrives(link, 0.0, greeting(THEIRS, MINE))
    for number in range(4):
        assert packets(link.step(0.1, BatchSubmitted((f"m{number}",))))
    arrives(link, 0.1, Beat(THEIRS, MINE, 1))
    assert packets(link.step(0.1, BatchSubmitted(("there is room again",))))
    assert told(link.step(0.1, BatchSubmitted(("too much",)))) == [
        LinkDown(HOST, Because(PARIS, HOST, "overflow"))
    ]


def test_what_was_received_is_acknowledged_on_the_next_tick_and_only_once() -> None:
    link = up_link()
    arrives(link, 0.1, Data(THEIRS, MINE, 1, 0, ("m1",)))

    assert link.step(0.25, Ticked()) == [Transmit(HOST, Beat(MINE, THEIRS, 1))]
    assert link.step(0.5, Ticked()) == []


def test_what_we_say_carries_the_acknowledgement_along() -> None:
    link = up_link()
    arrives(link, 0.1, Data(THEIRS, MINE, 1, 0, ("m1",)))

    assert link.step(0.2, BatchSubmitted(("answer",))) == [
        Transmit(HOST, Data(MINE, THEIRS, 1, 1, ("answer",)))
    ]
    assert link.step(0.25, Ticked()) == []


def test_under_load_acknowledgements_do_not_wait_for_the_tick() -> None:
    link = up_link(SMALL)
    assert packets(arrives(link, 0.1, Data(THEIRS, MINE, 1, 0, ("a", "b")))) == []
    assert packets(arrives(link, 0.1, Data(THEIRS, MINE, 2, 0, ("c",)))) == [Beat(MINE, THEIRS, 2)]


def test_a_repeated_packet_is_acknowledged_again_because_the_acknowledgement_was_lost() -> None:
    link = up_link()
    arrives(link, 0.1, Data(THEIRS, MINE, 1, 0, ("m1",)))
    link.step(0.25, Ticked())

    arrives(link, 0.3, Data(THEIRS, MINE, 1, 0, ("m1",)))

    assert link.step(0.5, Ticked()) == [Transmit(HOST, Beat(MINE, THEIRS, 1))]


def test_a_large_batch_is_sent_as_several_packets_within_the_window() -> None:
    link = up_link(LinkConfig(window_packets_max=3, packet_messages_max=2, acknowledge_messages=3))

    assert packets(link.step(0.1, BatchSubmitted(tuple("abcdefg")))) == [
        Data(MINE, THEIRS, 1, 0, ("a", "b")),
        Data(MINE, THEIRS, 2, 0, ("c", "d")),
        Data(MINE, THEIRS, 3, 0, ("e", "f")),
    ]
    assert link.step(0.1, BatchSubmitted(("h",))) == [], "it must not overtake what waits"
    assert packets(arrives(link, 0.2, Beat(THEIRS, MINE, 2))) == [
        Data(MINE, THEIRS, 4, 0, ("g",)),
        Data(MINE, THEIRS, 5, 0, ("h",)),
    ]


def test_an_acknowledgement_of_what_was_never_said_changes_nothing() -> None:
    link = up_link()
    arrives(link, 0.1, Beat(THEIRS, MINE, 99))
    link.step(0.2, BatchSubmitted(("m1",)))
    assert not link.drained
    arrives(link, 0.3, Beat(THEIRS, MINE, 99))
    link.step(0.4, BatchSubmitted(("m2",)))
    assert not link.drained
    arrives(link, 0.5, Beat(THEIRS, MINE, 2))
    assert link.drained


def test_lost_packets_are_sent_again_where_the_channel_loses_packets() -> None:
    link = up_link(LinkConfig.wan().over_datagrams(round_trip_s=0.5))
    [data] = packets(link.step(0.1, BatchSubmitted(("m1",))))

    assert data not in packets(link.step(1.0, Ticked()))
    assert packets(link.step(1.25, Ticked())) == [data]
    assert packets(link.step(2.25, Ticked()))[0] == data
    arrives(link, 2.3, Beat(THEIRS, MINE, 1))
    assert data not in packets(link.step(4.0, Ticked()))


def test_a_connection_is_trusted_to_carry_what_it_was_given() -> None:
    link = up_link()
    [data] = packets(link.step(0.1, BatchSubmitted(("m1",))))
    for count in range(1, 12):
        arrives(link, count * 0.25, Beat(THEIRS, MINE, 0))
        assert data not in packets(link.step(count * 0.25, Ticked()))


@pytest.mark.spec("C-180")
def test_a_queue_that_overflows_ends_the_epoch_and_drops_no_single_message() -> None:
    link = up_link(SMALL)
    link.step(0.1, BatchSubmitted(("a", "b")))
    link.step(0.1, BatchSubmitted(("c", "d", "e")))
    assert link.up

    reports = link.step(0.2, BatchSubmitted(("f",)))

    assert told(reports) == [LinkDown(HOST, Because(PARIS, HOST, "overflow"))]
    assert packets(reports) == [our_hello(MINE + 1, THEIRS).packet]
    assert not link.up


@pytest.mark.spec("C-180")
def test_a_peer_that_stops_reading_for_less_than_the_bound_loses_nothing() -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(2.0)
    pair.pause(pair.b, 3.2)
    for count in range(3000):
        pair.say(pair.a, f"m{count}")
        pair.run(0.001)
    pair.run(3.0)

    assert pair.a.ups_and_downs() == pair.b.ups_and_downs() == ["up"]
    assert_settled(pair)
    assert sum(map(len, pair.b.heard.values())) == 3000


def test_speaking_into_a_link_that_is_down_is_our_own_bug() -> None:
    with pytest.raises(AssertionError):
        new_link().step(0.0, BatchSubmitted(("m",)))


# Resuming


@pytest.mark.spec("C-032")
def test_a_channel_that_closes_is_no_failure_and_what_was_in_it_is_sent_again() -> None:
    link = up_link()
    link.step(0.1, BatchSubmitted(("m1",)))
    link.step(0.1, BatchSubmitted(("m2",)))
    assert link.step(0.2, ChannelClosed(HOST, "reset")) == []
    assert link.up
    assert link.step(0.3, BatchSubmitted(("m3",))) == [], "there is no channel to say it on"

    assert link.step(0.4, ChannelOpened(HOST)) == [our_hello(MINE, THEIRS)]
    assert link.step(0.4, BatchSubmitted(("m4",))) == [], "the peer has not said yet how far it got"
    assert packets(arrives(link, 0.5, greeting(THEIRS, MINE, received=1))) == [
        Data(MINE, THEIRS, 2, 0, ("m2",)),
        Data(MINE, THEIRS, 3, 0, ("m3",)),
        Data(MINE, THEIRS, 4, 0, ("m4",)),
        Beat(MINE, THEIRS, 0),
    ]


@pytest.mark.spec("C-032")
def test_a_channel_that_replaces_an_open_one_carries_data_only_after_the_peer_was_heard_on_it() -> None:
    link = up_link()
    link.step(0.1, ChannelOpened(HOST))

    assert link.step(0.2, BatchSubmitted(("m1",))) == []
    assert packets(arrives(link, 0.3, Beat(THEIRS, MINE, 0)))[0] == Data(MINE, THEIRS, 1, 0, ("m1",))


@pytest.mark.spec("C-032")
def test_a_hello_on_a_new_channel_says_how_far_we_got() -> None:
    link = up_link()
    arrives(link, 0.1, Data(THEIRS, MINE, 1, 0, ("m1",)))
    link.step(0.2, ChannelClosed(HOST, "reset"))

    assert link.step(0.3, ChannelOpened(HOST)) == [our_hello(MINE, THEIRS, received=1)]
    # Lost on the way, it is repeated until the peer is heard on this channel.
    assert packets(link.step(1.25, Ticked())) == [our_hello(MINE, THEIRS, received=1).packet]
    arrives(link, 1.3, Beat(THEIRS, MINE, 0))
    assert packets(link.step(2.25, Ticked())) == [Beat(MINE, THEIRS, 1)]


@pytest.mark.spec("C-032")
def test_a_peer_whose_channel_stayed_open_resumes_as_well() -> None:
    link = up_link()
    [data] = packets(link.step(0.1, BatchSubmitted(("m1",))))

    assert packets(arrives(link, 0.2, greeting(THEIRS, MINE, received=0))) == [data, Beat(MINE, THEIRS, 0)]


@pytest.mark.spec("C-029", "C-032")
def test_a_channel_that_stays_closed_ends_in_silence() -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(2.0)
    pair.close_channels()
    pair.run(5.0)

    assert pair.a.ups_and_downs() == pair.b.ups_and_downs() == ["up", "down: silent"]


def test_closing_a_channel_that_is_not_open_leaves_a_mark() -> None:
    assert new_link().step(0.0, ChannelClosed(HOST, "reset")) == [Ignored("ChannelClosed", "no channel")]


# Ending


@pytest.mark.spec("C-030")
def test_a_newer_session_of_the_peer_means_down_before_the_next_up() -> None:
    link = up_link()

    assert told(arrives(link, 1.0, greeting(THEIRS + 1, MINE))) == [
        LinkDown(HOST, Because(PARIS, HOST, "ended by peer"))
    ]
    assert told(arrives(link, 1.1, greeting(THEIRS + 1, MINE))) == [], (
        "an echo of our old session proves nothing"
    )
    assert told(arrives(link, 1.2, greeting(THEIRS + 1, MINE + 1))) == [LinkUp(HOST, 5)]


@pytest.mark.spec("C-030")
def test_when_only_one_side_suspects_both_report_down_and_up() -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(3.0)
    pair.cut(pair.b)
    pair.run(6.0)

    assert pair.a.ups_and_downs() == ["up", "down: silent"]
    assert pair.b.ups_and_downs() == ["up", "down: ended by peer"]
    pair.heal()
    pair.run(6.0)
    assert pair.a.ups_and_downs() == ["up", "down: silent", "up"]
    assert pair.b.ups_and_downs() == ["up", "down: ended by peer", "up"]
    assert_settled(pair)


@pytest.mark.spec("C-029", "C-030")
@pytest.mark.parametrize("deaf", ["a", "b"])
def test_while_only_one_direction_works_neither_side_stays_up(deaf: str) -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(3.0)
    pair.cut(pair.b if deaf == "a" else pair.a)
    pair.run(15.0)
    settled = len(pair.a.history), len(pair.a.ups_and_downs()), len(pair.b.ups_and_downs())

    pair.run(60.0)

    assert not pair.a.link.up and not pair.b.link.up
    assert (len(pair.a.ups_and_downs()), len(pair.b.ups_and_downs())) == settled[1:]


@pytest.mark.spec("C-029")
def test_a_peer_that_says_hello_and_never_hears_us_is_given_up() -> None:
    link = up_link()
    now, story = 0.0, []
    while now < 6.0:
        now += 0.25
        arrives(link, now, greeting(THEIRS, MINE))
        story += told(link.step(now, Ticked()))

    assert story == [LinkDown(HOST, Because(PARIS, HOST, "silent"))]


@pytest.mark.spec("C-031")
def test_packets_of_an_ended_epoch_are_ignored_and_prove_nothing() -> None:
    link = up_link()
    arrives(link, 1.0, greeting(THEIRS + 1, MINE))
    arrives(link, 1.1, greeting(THEIRS + 1, MINE + 1))
    assert link.up

    for held in (Data(THEIRS, MINE, 1, 0, ("ghost",)), Beat(THEIRS, MINE, 0), Bye(THEIRS, MINE, "shutdown")):
        assert arrives(link, 1.2, held) == [Ignored(type(held).__name__, "old epoch")]
    assert arrives(link, 1.2, greeting(THEIRS, MINE)) == [Ignored("Hello", "old epoch")]
    assert arrives(link, 1.2, greeting(THEIRS + 1, MINE)) == [Ignored("Hello", "old epoch")]
    assert link.epoch == (MINE + 1, THEIRS + 1)


@pytest.mark.spec("C-031")
def test_the_old_life_of_a_peer_that_came_back_while_we_were_apart_is_ignored() -> None:
    link = new_link()
    link.step(0.0, ChannelOpened(HOST))
    arrives(link, 0.1, greeting(THEIRS, NOBODY))
    reborn = 6 * SESSIONS_PER_LIFE + 1
    arrives(link, 0.2, greeting(reborn, NOBODY, incarnation=6))

    assert arrives(link, 0.3, Data(THEIRS, MINE, 1, 0, ("ghost",))) == [Ignored("Data", "old epoch")]
    assert arrives(link, 0.3, greeting(THEIRS, MINE)) == [Ignored("Hello", "older incarnation")]
    assert not link.up


@pytest.mark.spec("C-031")
def test_a_hello_of_a_session_that_the_peer_has_left_does_not_lead_up() -> None:
    link = new_link()
    link.step(0.0, ChannelOpened(HOST))
    arrives(link, 0.1, greeting(THEIRS + 1, NOBODY))

    assert arrives(link, 0.2, greeting(THEIRS, MINE)) == [Ignored("Hello", "old epoch")]
    assert not link.up


@pytest.mark.spec("C-031")
def test_a_packet_held_across_a_cut_and_released_after_the_merge_is_counted_as_dropped() -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(2.0)
    pair.cut()
    pair.say(pair.b, "held")
    [held] = transmissions(pair, Data)
    pair.run(6.0)
    pair.heal()
    pair.run(6.0)
    assert pair.a.link.up

    pair.step(pair.a, PacketArrived(HOST, held))

    assert pair.a.reports(Ignored)[-1] == Ignored("Data", "old epoch")
    assert pair.a.reports(Received) == []


@pytest.mark.spec("C-005", "C-030")
def test_a_peer_that_restarted_is_down_at_once_and_up_as_a_new_incarnation() -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(2.0)
    pair.say(pair.b, "before")
    pair.restart(pair.b)
    pair.run(1.0)

    assert pair.a.ups_and_downs() == ["up", "down: restarted", "up"]
    assert pair.a.reports(LinkUp)[-1] == LinkUp(HOST, 2)
    assert_once_in_order_without_gaps(pair)


def test_a_goodbye_ends_the_epoch_at_once_on_the_other_side() -> None:
    link = up_link()
    reports = arrives(link, 1.0, Bye(THEIRS, MINE, "shutdown"))

    assert told(reports) == [LinkDown(HOST, Because(PARIS, HOST, "closed"))]
    assert packets(reports) == [], "nobody is there to hear a hello"
    assert packets(link.step(1.25, Ticked())) == [our_hello(MINE + 1, THEIRS).packet]


def test_a_link_that_was_stopped_says_goodbye_and_nothing_more() -> None:
    link = up_link()
    reports = link.step(1.0, Stopped())

    assert packets(reports) == [Bye(MINE, THEIRS, "shutdown")]
    assert told(reports) == [LinkDown(HOST, Because(PARIS, HOST, "closed"))]
    assert arrives(link, 1.1, greeting(THEIRS + 1, MINE)) == [Ignored("Hello", "link is over")]
    assert link.step(1.1, ChannelOpened(HOST)) == [Ignored("ChannelOpened", "link is over")]
    assert link.step(9.0, Ticked()) == []
    assert link.step(9.0, Stopped()) == []


def test_a_link_is_drained_when_the_peer_has_everything() -> None:
    link = up_link()
    assert link.drained
    link.step(0.1, BatchSubmitted(("leave",)))
    assert not link.drained
    arrives(link, 0.2, Beat(THEIRS, MINE, 1))
    assert link.drained


# Suspicion


@pytest.mark.spec("C-028", "C-029")
def test_silence_is_suspected_first_and_a_word_in_time_restores_trust_before_it_is_heard() -> None:
    link = up_link()
    suspicion = next(now for now in (count * 0.25 for count in range(1, 16)) if told_of_suspicion(link, now))
    assert 1.5 <= suspicion <= 1.8
    assert link.up and link.suspected

    reports = arrives(link, 2.0, Data(THEIRS, MINE, 1, 0, ("still here",)))

    assert reports == [Trusted(HOST, 2.0), Received(HOST, "still here")]
    assert not link.suspected


def told_of_suspicion(link: Link, now: float) -> bool:
    return any(isinstance(report, Suspected) for report in link.step(now, Ticked()))


@pytest.mark.spec("C-029")
def test_every_removal_comes_with_its_evidence() -> None:
    link = up_link()
    link.step(0.5, ChannelClosed(HOST, "reset"))
    reports: list[Report] = []
    now = 0.5
    while link.up:
        now += 0.25
        reports += link.step(now, Ticked())

    suspected, removed, down = reports
    assert isinstance(suspected, Suspected) and isinstance(removed, Removed) and isinstance(down, LinkDown)
    assert removed.because == down.because == Because(PARIS, HOST, "silent")
    evidence = removed.evidence
    assert (evidence.accuser, evidence.accused, evidence.at) == (PARIS, HOST, 4.0)
    assert (evidence.silence_s, evidence.expected_s, evidence.down_after_s) == (4.0, 1.0, 4.0)
    assert evidence.phi > evidence.phi_threshold == 8.0
    assert evidence.own_lateness_s == 0.0 and not evidence.channel_open


@pytest.mark.spec("C-180")
def test_an_end_for_any_other_reason_has_evidence_too() -> None:
    link = up_link()
    removed, down = arrives(link, 1.0, Bye(THEIRS, MINE, "shutdown"))
    assert isinstance(removed, Removed) and isinstance(down, LinkDown)
    assert removed.because == down.because and removed.evidence.silence_s == 1.0


# Keeping quiet


def test_a_beat_is_sent_only_if_nothing_else_was() -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(2.0)
    quiet_from = pair.now
    pair.run(20.0)
    assert 38 <= len(list(transmissions(pair, Beat, since=quiet_from))) <= 42, "one per second and direction"

    busy_from = pair.now
    for count in range(200):
        pair.say(pair.a, count)
        pair.run(0.1)
    beats = [
        sender for at, sender, packet in pair.transmitted if at > busy_from + 0.1 and isinstance(packet, Beat)
    ]
    assert beats.count(PARIS) == 0, "its data says that it lives"
    assert 78 <= beats.count(HOST) <= 82, "one acknowledgement per tick"


# Settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"reconnect_backoff_s": 9.0},
        {"reconnect_backoff_s": 0.0},
        {"queue_messages_max": 0},
        {"packet_messages_max": 0},
        {"acknowledge_messages": 2000},
        {"resend_after_s": 0.0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        LinkConfig(**wrong)  # type: ignore[arg-type]


def test_the_default_profile_is_wan() -> None:
    assert LinkConfig() == LinkConfig.wan()
    assert LinkConfig.wan().tick_s == 0.25
    assert LinkConfig.lan().tick_s == pytest.approx(0.05)
