"""Speaking to a group without being in it, one step at a time: the submitter, the aggregate that its delegate
is for it, and what a receiver makes of what it is brought (X-054, X-055)."""

import pytest
from support.fifobench import (
    G,
    asked,
    controls,
    cut,
    delegate,
    ignored,
    items,
    noted,
    speech,
    timers,
)

from rostra.core.effects import CancelTimer, Effect, EndpointGone, Noted, SetTimer, TimerFired
from rostra.groups.attributes import FifoAttributes, Role
from rostra.groups.kinds import FIFO
from rostra.groups.members import Member
from rostra.names import Domain, Endpoint
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.aggregate import Aggregate
from rostra.protocols.fifo.member import MemberCore
from rostra.protocols.fifo.messages import (
    Channel,
    Envelope,
    StartSync,
    SyncReply,
    decode_envelope,
    encode,
)
from rostra.protocols.fifo.origins import Origins
from rostra.protocols.fifo.readers import HostContext
from rostra.protocols.fifo.submitter import Asking, Closing, Over, Submitter, Submitting
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Data, Heartbeat, Nak, Pulse, Run, StartSubmit, SubmitReply
from rostra.protocols.flow.runs import block_of, payloads
from rostra.protocols.relaxed import requests as ns

HUJI = Domain("huji")
H1, H2 = Domain("huji.h1"), Domain("huji.h2")
ANN, BOB = Endpoint("huji.h1/ann#1"), Endpoint("huji.h2/bob#1")
MOUTH = Endpoint("huji.-delegate/aggregate#7")
OURS = delegate("huji", epoch=7)


def block(first: int, count: int) -> bytes:
    return block_of([b"%d" % number for number in range(first, first + count)])


def data(of: Endpoint, first: int, count: int = 1, *, stable: int = 0, **more: object) -> Data:
    return Data(of, Run(first, count, block(first, count)), first + count - 1, stable, **more)  # type: ignore[arg-type]


def transmit(to: Domain, message: object) -> ev.Transmit:
    return ev.Transmit(to, G, message)  # type: ignore[arg-type]


def key(of: Endpoint, what: str) -> tuple[str, ...]:
    return ("fifo", "g", "world", of, what, "")


# The submitter


class Speaker:
    """`huji.h1/ann`, which submits to g."""

    def __init__(self, next_seq: int = 1, config: FifoConfig | None = None) -> None:
        self.core = Submitter(G, ANN, config or FifoConfig(), luck=1, next_seq=next_seq)
        self.now = 0.0

    def step(self, event: object, after_s: float = 0.0) -> list[Effect]:
        self.now += after_s
        return self.core.step(self.now, event)  # type: ignore[arg-type]

    def ask(self) -> list[Effect]:
        return self.step(ev.JoinAsked(ANN, 1, G, 1, Role.SUBMIT))

    def submitting(self) -> "Speaker":
        self.ask()
        self.hear(SubmitReply(ANN, 1, 7))
        return self

    def submit(self, count: int) -> list[Effect]:
        first = self.core.sending.next_seq + self.core.sending.queued
        return self.step(ev.Submitted(ANN, G, count, block(first, count)))

    def hear(self, *messages: object, after_s: float = 0.0) -> list[Effect]:
        return self.step(ev.Heard(G, HUJI, messages), after_s)  # type: ignore[arg-type]

    def fire(self, what: str, after_s: float) -> list[Effect]:
        return self.step(TimerFired(key(ANN, what)), after_s)


@pytest.mark.spec("X-054")
def test_a_submitter_asks_its_delegate_and_is_told_how_much_it_may_hand_over():
    assert Speaker(next_seq=42).ask() == [
        ev.Deliver(ANN, G, ev.Credit(1024)),
        transmit(HUJI, StartSubmit(ANN, 1, 42, 42)),
        SetTimer(key(ANN, "patience"), 0.25),
    ]


@pytest.mark.spec("X-054")
def test_what_is_said_before_the_answer_is_handed_over_with_it_to_the_delegate_alone():
    speaker = Speaker()
    speaker.ask()
    assert speaker.submit(3) == [] and speaker.core.state == Asking()
    assert speaker.hear(SubmitReply(ANN, 1, 7)) == [
        Noted("submitter is", "Submitting"),
        ev.Deliver(ANN, G, ev.Ready(())),
        transmit(HUJI, data(ANN, 1, 3)),
        SetTimer(key(ANN, "heartbeat"), 0.05),
    ]
    assert speaker.core.state == Submitting(7)


@pytest.mark.spec("X-013", "X-092")
def test_what_waits_is_bounded_in_bytes_as_well_and_refused_as_a_whole():
    speaker = Speaker(config=FifoConfig(queue_bytes=len(block(1, 3))))
    speaker.ask()
    assert ignored(speaker.submit(3)) == []
    assert ignored(speaker.submit(1)) == [("Submitted", "beyond the credit")]
    assert speaker.core.sending.queued == 3
    speaker.hear(SubmitReply(ANN, 1, 7))
    assert ignored(speaker.submit(1)) == [] and speaker.core.sending.last_seq == 4


@pytest.mark.spec("X-055")
def test_nobody_answers_so_it_asks_again_under_a_new_number_and_an_old_answer_counts_no_more():
    speaker = Speaker()
    speaker.ask()
    assert speech(speaker.fire("patience", 0.25)) == [transmit(HUJI, StartSubmit(ANN, 2, 1, 1))]
    assert ignored(speaker.hear(SubmitReply(ANN, 1, 7))) == [("SubmitReply", "not asked for")]
    assert speaker.hear(SubmitReply(BOB, 2, 7)) == [], "of another program of this host"
    assert speaker.core.state == Asking()


@pytest.mark.spec("X-055", "X-087")
def test_nothing_is_forgotten_before_it_is_acknowledged():
    speaker = Speaker().submitting()
    speaker.submit(3)
    speaker.submit(2)
    assert items(speaker.hear(Heartbeat((Pulse(BOB, 9, 9), Pulse(ANN, 5, 3))))) == [ev.Sent(3)]
    assert (speaker.core.sending.stable, speaker.core.sending.store.messages) == (3, 2)
    assert items(speaker.hear(Heartbeat((Pulse(ANN, 5, 2),)))) == [], "an old one, come late"


@pytest.mark.spec("X-055")
def test_what_the_delegate_misses_is_given_to_it_again():
    speaker = Speaker().submitting()
    speaker.submit(5)
    again = Data(ANN, Run(2, 2, block(2, 2)), 5, 0, repair=True)
    assert speech(speaker.hear(Nak(ANN, ((2, 3),), HUJI, 1))) == [transmit(HUJI, again)]
    assert speaker.hear(Nak(BOB, ((2, 3),), HUJI, 1)) == []


@pytest.mark.spec("X-055", "X-102")
def test_a_delegate_that_falls_silent_is_looked_for_and_another_one_is_given_all_that_nobody_acknowledged():
    speaker = Speaker().submitting()
    speaker.submit(3)
    speaker.submit(2)
    speaker.hear(Heartbeat((Pulse(ANN, 5, 3),)), after_s=0.5)
    assert timers(speaker.fire("patience", 0.5)) == {"patience": 0.5}, "it spoke half a second ago"
    assert speech(speaker.fire("patience", 0.5)) == [transmit(HUJI, StartSubmit(ANN, 2, 1, 4))]
    rest = Data(ANN, Run(4, 2, block(4, 2)), 5, 3, repair=True)
    effects = speaker.hear(SubmitReply(ANN, 2, 8))
    assert noted(effects, "submits again") == [f"{ANN} from 4"]
    assert speech(effects) == [transmit(HUJI, rest)]
    assert speaker.core.state == Submitting(8)


@pytest.mark.spec("X-055")
def test_a_delegate_that_was_only_slow_is_given_nothing_twice():
    speaker = Speaker().submitting()
    speaker.submit(5)
    speaker.fire("patience", 1.0)
    assert speech(speaker.hear(SubmitReply(ANN, 2, 7))) == []


@pytest.mark.spec("X-054")
def test_who_owes_nothing_looks_for_nobody():
    speaker = Speaker().submitting()
    speaker.submit(1)
    speaker.hear(Heartbeat((Pulse(ANN, 1, 1),)))
    assert speaker.fire("patience", 5.0) == []


@pytest.mark.spec("X-047", "X-055")
@pytest.mark.parametrize("end", [ev.LeaveAsked(ANN, 2, G), EndpointGone(ANN)])
def test_a_leave_waits_until_everybody_has_the_last_words(end):
    """Whether the program left or died: what it had handed over is said."""
    speaker = Speaker().submitting()
    speaker.submit(2)
    effects = speaker.step(end)
    assert items(effects) == [] and timers(effects)["farewell"] == 30.0
    assert speaker.core.state == Closing(7) and not speaker.core.over
    assert ignored(speaker.submit(1)) == [("Submitted", "beyond the credit")]
    assert items(speaker.hear(Heartbeat((Pulse(ANN, 2, 1),)))) == [ev.Sent(1)]
    assert not speaker.core.over, "one of the two is still owed"
    effects = speaker.hear(Heartbeat((Pulse(ANN, 2, 2),)))
    assert items(effects) == [ev.Sent(2), ev.Parted(0, 0)]
    assert CancelTimer(key(ANN, "farewell")) in effects and speaker.core.over


@pytest.mark.spec("X-055")
def test_a_leave_that_nobody_confirms_ends_in_time_and_says_so():
    speaker = Speaker().submitting()
    speaker.submit(2)
    speaker.step(ev.LeaveAsked(ANN, 2, G))
    assert items(speaker.fire("farewell", 30.0)) == [ev.Parted(2, 0)]
    assert speaker.core.state == Over()
    assert ignored(speaker.fire("heartbeat", 0.1)) == [("TimerFired", "no longer submits")]


@pytest.mark.spec("X-055")
def test_who_leaves_before_any_answer_is_told_how_much_was_never_said():
    speaker = Speaker()
    speaker.ask()
    speaker.submit(3)
    assert items(speaker.step(ev.LeaveAsked(ANN, 2, G))) == [ev.Parted(0, 3)]


# The aggregate


class Mouth:
    """The aggregate of `huji` in g; `wait` is how long it must hold its tongue."""

    def __init__(self, config: FifoConfig | None = None, next_seq: int = 1) -> None:
        self.wait: float | None = 0.0
        self.core = Aggregate(
            G,
            MOUTH,
            config or FifoConfig(),
            epoch=7,
            luck=1,
            next_seq=next_seq,
            wait=lambda now: self.wait,
        )
        self.now = 0.0

    def step(self, event: object, after_s: float = 0.0) -> list[Effect]:
        self.now += after_s
        return self.core.step(self.now, event)  # type: ignore[arg-type]

    def hear(self, source: Domain, *messages: object) -> list[Effect]:
        return self.step(ev.Heard(G, source, messages))  # type: ignore[arg-type]

    def start(self, who: Endpoint = ANN, *, req: int = 1, since: int = 1, first: int = 1) -> list[Effect]:
        return self.hear(Domain(who.partition("/")[0]), StartSubmit(who, req, since, first))

    def fire(self, what: str, after_s: float = 0.0) -> list[Effect]:
        return self.step(TimerFired(key(MOUTH, what)), after_s)

    def active(self) -> list[Effect]:
        """Its member is let into the group: see `test_fifo_member.py`."""
        me = Member(MOUTH, (7, 1), b"", FIFO, FifoAttributes(Role.SEND, 1))
        listed = ns.Absolute(G, tuple(sorted((me, OURS), key=lambda each: each.endpoint)))
        [question] = controls(self.step(ev.Noticed(listed)))
        assert isinstance(question, StartSync)
        reply = SyncReply(G, question.req, 7, (cut("huji", epoch=7),), Channel())
        return self.step(ev.Noticed(ns.Message(OURS.endpoint, encode(reply))))


def envelopes(effects: list[Effect]) -> list[tuple[Endpoint, int, int]]:
    """What the aggregate said to the group: of whom, from which of its numbers on, how many."""
    found = []
    for effect in effects:
        if isinstance(effect, ev.Cast) and isinstance(effect.message, Data):
            for each in payloads(effect.message.run):
                envelope = decode_envelope(each)
                assert envelope is not None and len(payloads(envelope.run)) == envelope.count
                found.append((envelope.origin, envelope.first, envelope.count))
    return found


def told(effects: list[Effect], host: Domain) -> list[object]:
    """What was said to this host alone."""
    return [each.message for each in effects if isinstance(each, ev.Transmit) and each.to == host]


@pytest.mark.spec("X-054")
def test_the_first_who_submits_is_answered_and_brings_the_aggregate_into_the_group_as_one_that_only_sends():
    mouth = Mouth()
    effects = mouth.start(req=5)
    assert told(effects, H1) == [SubmitReply(ANN, 5, 7)]
    [join] = asked(effects)
    assert isinstance(join, ns.Join) and join.attributes == FifoAttributes(Role.SEND, 1)
    assert noted(effects, "origin begins") == [f"{ANN} at 1"]
    assert timers(effects)["submitted idle"] == 10.0
    assert asked(mouth.start(BOB)) == [], "however many submit"
    assert items(effects) == [], "it has no program"


@pytest.mark.spec("X-054")
def test_nobody_speaks_for_a_program_of_another_host():
    mouth = Mouth()
    assert ignored(mouth.hear(H2, StartSubmit(ANN, 1, 1, 1))) == [("StartSubmit", "not for an aggregate")]
    mouth.start()
    assert ignored(mouth.hear(H2, data(ANN, 1))) == [("Data", "not for an aggregate")]
    assert not mouth.core.concerns(data(BOB, 1)) and mouth.core.concerns(data(ANN, 1))


@pytest.mark.spec("X-055")
def test_origins_take_turns_and_what_they_say_has_their_own_numbers():
    mouth = Mouth(FifoConfig(datagram_bytes=300))
    mouth.start(ANN)
    mouth.start(BOB, since=11, first=11)
    mouth.hear(H1, Data(ANN, Run(1, 3, block_of([b"x" * 30] * 3)), 3, 0))
    mouth.hear(H2, Data(BOB, Run(11, 2, block_of([b"y" * 30] * 2)), 12, 0))
    assert envelopes(mouth.active()) == [(ANN, 1, 1), (BOB, 11, 1), (ANN, 2, 1), (BOB, 12, 1), (ANN, 3, 1)]


@pytest.mark.spec("X-055")
def test_it_says_nothing_before_everybody_can_hear_it():
    mouth = Mouth()
    mouth.start()
    mouth.wait = None
    mouth.active()
    effects = mouth.hear(H1, data(ANN, 1, 2))
    assert envelopes(effects) == [] and "submitted context" not in timers(effects), (
        "that is not for time to say"
    )
    assert mouth.core.waits
    mouth.wait = 0.3
    assert timers(mouth.core.feed(mouth.now)) == {"submitted context": 0.3}
    mouth.wait = 0.0
    assert envelopes(mouth.fire("submitted context", 0.3)) == [(ANN, 1, 2)]
    assert not mouth.core.waits


@pytest.mark.spec("X-055", "X-088")
def test_a_message_is_acknowledged_when_it_is_stable_in_the_aggregates_own_stream():
    mouth = Mouth()
    mouth.start(ANN)
    mouth.start(BOB)
    mouth.active()
    mouth.hear(H1, data(ANN, 1, 3))
    mouth.hear(H2, data(BOB, 1, 2))
    assert [(number, last) for number, _, last in mouth.core._emitted] == [(1, 3), (2, 2)]
    effects = mouth.hear(HUJI, Heartbeat((Pulse(MOUTH, 1, 1),)))
    assert told(effects, H1) == [Heartbeat((Pulse(ANN, 3, 3),))]
    assert told(effects, H2) == [], "nobody has it yet"
    effects = mouth.hear(HUJI, Heartbeat((Pulse(MOUTH, 2, 2),)))
    assert told(effects, H2) == [Heartbeat((Pulse(BOB, 2, 2),))]


@pytest.mark.spec("X-055")
def test_a_submitter_that_has_fallen_silent_is_told_where_it_stands_and_asked_for_what_is_missing():
    mouth = Mouth()
    mouth.start()
    mouth.active()
    mouth.hear(H1, data(ANN, 1))
    effects = mouth.hear(H1, Heartbeat((Pulse(ANN, 4, 0),)))
    assert told(effects, H1) == [Heartbeat((Pulse(ANN, 1, 0),))]
    assert timers(effects) == {"submitted holes": 0.0}
    assert told(mouth.fire("submitted holes"), H1) == [Nak(ANN, ((2, 4),), HUJI, 1)]
    assert told(mouth.fire("submitted holes", 0.02), H1) == [Nak(ANN, ((2, 4),), HUJI, 2)], "and again"
    assert envelopes(mouth.hear(H1, data(ANN, 2, 3))) == [(ANN, 2, 3)]


@pytest.mark.spec("X-055")
def test_what_comes_out_of_turn_waits_for_its_turn_and_what_came_before_is_a_duplicate():
    mouth = Mouth()
    mouth.start()
    mouth.active()
    assert envelopes(mouth.hear(H1, data(ANN, 3))) == []
    assert envelopes(mouth.hear(H1, data(ANN, 1, 2))) == [(ANN, 1, 2), (ANN, 3, 1)]
    assert ignored(mouth.hear(H1, data(ANN, 2))) == [("Data", "duplicate")]


@pytest.mark.spec("X-055")
def test_more_than_there_is_room_for_is_not_taken_and_asked_for_later():
    mouth = Mouth(FifoConfig(queue_bytes=250))
    mouth.start()
    mouth.hear(H1, Data(ANN, Run(1, 1, block_of([b"x" * 150])), 1, 0))
    effects = mouth.hear(H1, Data(ANN, Run(2, 1, block_of([b"x" * 150])), 2, 0))
    assert ignored(effects) == [("Data", "no room for what is submitted")]
    assert envelopes(mouth.active()) == [(ANN, 1, 1)]
    assert told(mouth.fire("submitted holes"), H1) == [Nak(ANN, ((2, 2),), HUJI, 1)]


@pytest.mark.spec("X-054")
def test_a_new_submission_of_the_same_endpoint_begins_anew_and_a_repeated_question_does_not():
    mouth = Mouth()
    mouth.start()
    mouth.active()
    mouth.hear(H1, data(ANN, 1, 3))
    assert noted(mouth.start(req=2, first=1), "origin begins") == []
    assert mouth.core.origins[ANN].inbound.next == 4
    effects = mouth.start(req=1, since=4, first=4)
    assert noted(effects, "origin ends") == [ANN] and noted(effects, "origin begins") == [f"{ANN} at 4"]


@pytest.mark.spec("X-054", "X-044")
def test_after_a_long_silence_it_leaves_the_group_and_forgets_nobody_too_early():
    mouth = Mouth()
    mouth.start()
    mouth.active()
    mouth.hear(H1, data(ANN, 1))
    assert asked(mouth.fire("submitted idle", 10.0)) == [], "somebody may lack its last words"
    mouth.hear(HUJI, Heartbeat((Pulse(MOUTH, 1, 1),)))
    effects = mouth.fire("submitted idle", 10.0)
    assert [type(each) for each in asked(effects)] == [ns.Leave]
    mouth.hear(HUJI, Heartbeat((Pulse(MOUTH, 1, 1, True),)))
    assert mouth.core.member is None and mouth.core.next_seq == 2, "numbers go on if it comes back"
    assert not mouth.core.over and list(mouth.core.origins) == [ANN]
    effects = mouth.fire("submitted idle", 600.0)
    assert noted(effects, "origin ends") == [ANN] and mouth.core.over


# What receivers are given


class Ears:
    """`mit.h1/eve`, to whom aggregates bring things."""

    def __init__(self) -> None:
        eve = MemberCore(G, Endpoint("mit.h1/eve#1"), FifoConfig(), luck=1)
        eve.ready = True
        self.context = HostContext(G, eve.me, FifoConfig(), 1)
        self.context.readers.read(eve)
        self.core = Origins(self.context)

    def brought(self, by: Endpoint, number: int, *envelopes: Envelope) -> list[Effect]:
        effects = self.context.effects = []
        run = Run(number, len(envelopes), block_of([encode(each) for each in envelopes]))
        self.core.hand_on(by, run)
        return effects


NEXT_MOUTH = Endpoint("huji.-delegate/aggregate#8")


def envelope(of: Endpoint, first: int, count: int = 1, since: int = 1) -> Envelope:
    return Envelope(of, since, first, count, block(first, count))


def aggregated(effects: list[Effect]) -> list[tuple[Endpoint, list[bytes]]]:
    found = [each for each in items(effects) if isinstance(each, ev.Aggregated)]
    return [(each.origin, payloads(each.run)) for each in found]


@pytest.mark.spec("X-055")
def test_an_envelope_is_its_origins_messages_brought_by_the_aggregate():
    effects = Ears().brought(MOUTH, 1, envelope(ANN, 1, 2), envelope(BOB, 9, since=9))
    assert items(effects) == [
        ev.Aggregated(ANN, Run(1, 2, block(1, 2)), MOUTH),
        ev.Aggregated(BOB, Run(9, 1, block(9, 1)), MOUTH),
    ]


@pytest.mark.spec("X-055")
def test_what_a_successor_brings_once_more_is_dropped_by_origin():
    ears = Ears()
    ears.brought(MOUTH, 1, envelope(ANN, 1, 3), envelope(BOB, 1))
    effects = ears.brought(NEXT_MOUTH, 1, envelope(ANN, 2), envelope(ANN, 3, 3), envelope(BOB, 2))
    assert ignored(effects) == [("Data", "origin duplicate")]
    assert aggregated(effects) == [(ANN, [b"4", b"5"]), (BOB, [b"2"])]


@pytest.mark.spec("X-064")
def test_what_was_left_out_is_told_before_what_comes_after_it():
    ears = Ears()
    ears.brought(MOUTH, 1, envelope(ANN, 1, 2))
    assert items(ears.brought(NEXT_MOUTH, 1, envelope(ANN, 6))) == [
        ev.Gap(ANN, 3, 5),
        ev.Aggregated(ANN, Run(6, 1, block(6, 1)), NEXT_MOUTH),
    ]


@pytest.mark.spec("X-055")
def test_numbers_that_an_origin_said_elsewhere_are_no_gap():
    """It was a member in between, or left and came back: `since` says where its submission begins."""
    ears = Ears()
    ears.brought(MOUTH, 1, envelope(ANN, 1, 2))
    assert items(ears.brought(MOUTH, 2, envelope(ANN, 6, since=6))) == [
        ev.Aggregated(ANN, Run(6, 1, block(6, 1)), MOUTH)
    ]


@pytest.mark.spec("X-054")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (envelope(Endpoint("mit.h2/dan#1"), 1), "an origin of another LAN"),
        (Envelope(Endpoint("no name"), 1, 1, 1, block(1, 1)), "not an envelope"),
        (Envelope(ANN, 1, 1, 2, block(1, 1)), "not an envelope"),
    ],
)
def test_an_aggregate_speaks_for_programs_of_its_own_lan_and_in_whole_messages(said, why):
    effects = Ears().brought(MOUTH, 1, said)
    assert items(effects) == [] and ignored(effects) == [("Data", why)]


@pytest.mark.spec("X-055")
def test_an_origin_is_forgotten_after_long_silence_and_not_while_its_last_words_may_come_again():
    ears = Ears()
    ears.brought(MOUTH, 1, envelope(ANN, 1))
    ears.brought(MOUTH, 2, envelope(BOB, 1))
    ears.context.now = 601.0
    ears.core.tidy({MOUTH: 1})
    assert list(ears.core.known) == [BOB], "ann's is stable, bob's is not"
    ears.core.ended(MOUTH, 1)
    ears.core.tidy({})
    assert list(ears.core.known) == [BOB]
    ears.core.ended(MOUTH, 2)
    ears.core.tidy({})
    assert ears.core.known == {}
