"""What rests on a record is not said before a majority of the replicas has it."""

from rostra.core.effects import Answer, Effect, Secure, Send
from rostra.core.records import KeyedRecord
from rostra.core.secure import WaitingEffects
from rostra.names import Domain

FR, DE = Domain("eu.fr"), Domain("eu.de")


def record(version: int) -> Secure:
    return Secure(KeyedRecord("key", version, b""))


def performed(waiting: WaitingEffects, effects: list[Effect]) -> list[Effect]:
    """As a node does it."""
    done: list[Effect] = []
    for effect in (rest := iter(effects)):
        if not isinstance(effect, Secure):
            done.append(effect)
            continue
        if waiting.must_write(effect):
            done.append(effect)
        if waiting.must_wait(effect):
            done += waiting.wait(effect, rest)
    return done


def test_without_replicas_nothing_waits_and_nothing_is_written_twice() -> None:
    waiting = WaitingEffects(replicated=False)
    assert performed(waiting, [record(1), Answer(1, None)]) == [record(1), Answer(1, None)]
    assert performed(waiting, [record(1), Answer(2, None)]) == [Answer(2, None)]


def test_what_follows_a_record_waits_and_what_comes_before_does_not() -> None:
    waiting = WaitingEffects(replicated=True)
    said = [Answer(1, None), record(5), Send(FR, "a"), Answer(2, None)]
    assert performed(waiting, said) == [Answer(1, None), record(5)]
    assert performed(waiting, [Send(DE, "other")]) == [Send(DE, "other")], "another step"
    assert waiting.unanswered() == [2]
    assert waiting.secured(4) == []
    assert waiting.secured(5) == [Send(FR, "a"), Answer(2, None)]
    assert performed(waiting, [record(5), Answer(3, None)]) == [Answer(3, None)]


def test_what_rests_on_a_record_of_an_earlier_leader_waits_for_the_first_commit() -> None:
    waiting = WaitingEffects(replicated=True)
    assert performed(waiting, [record(3), Answer(1, None)]) == [record(3)]
    assert waiting.secured(1 << 10) == [Answer(1, None)]


def test_records_are_written_in_the_order_of_their_versions_though_they_wait_for_each_other() -> None:
    waiting = WaitingEffects(replicated=True)
    assert performed(waiting, [record(5), Answer(1, None), record(6), Answer(2, None)]) == [
        record(5),
        record(6),
    ]
    assert performed(waiting, [record(7), Answer(3, None)]) == [record(7)]
    assert performed(waiting, waiting.secured(5)) == [Answer(1, None)]
    assert performed(waiting, waiting.secured(7)) == [Answer(2, None), Answer(3, None)]


def test_what_was_to_be_said_to_a_neighbour_is_not_said_in_its_next_epoch() -> None:
    waiting = WaitingEffects(replicated=True)
    performed(waiting, [record(5), Send(FR, "a"), Send(DE, "b")])
    waiting.forget(FR)
    assert waiting.secured(5) == [Send(DE, "b")]
