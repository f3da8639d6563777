"""The checkers of groups that speak can fail: each kind of broken promise, planted in a history that was fine
or in a core that was, is found and pointed at."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from support.planted import keep_late_parts

from rostra.core.effects import Effect, Event
from rostra.core.stack import Stack
from rostra.groups.attributes import Role
from rostra.impair.quality import Constant, LineQuality
from rostra.names import Domain, Group
from rostra.protocols.fifo.cluster import CLUSTER
from rostra.protocols.fifo.events import Cast, Delivered, Gap, Joined, Left, Ready
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Data, Run
from rostra.protocols.flow.runs import block_of
from rostra.protocols.links.config import LinkConfig
from rostra.sim import World
from rostra.sim.fifo_checkers import fifo_gap_free, fifo_live, smooth_join
from rostra.sim.history import (
    AnyRecord,
    DataChanged,
    DeliveryRecord,
    FifoStateChanged,
    History,
    LineChanged,
    SubmissionRecord,
)
from rostra.sim.network import LinkModel

G = Group("g", Domain("world"))
NETWORK = LinkModel(lan=LineQuality(Constant(0.0002)), wan=LineQuality(Constant(0.05)))


@pytest.fixture(scope="module")
def fine() -> History:
    """Streams from two sites; one comes, one leaves, and a cut that is longer than anybody keeps messages."""
    world = World(
        1,
        domains={"haifa": ("a", "b"), "paris": ("c", "d")},
        links=NETWORK,
        timers=LinkConfig.lan().over_datagrams(),
        fifo=FifoConfig(resume_s=1.0),
    )
    world.settle()
    a, b, c, d = (world.program(host) for host in world.tree.hosts)
    for program in (a, b, c):
        program.join_fifo("g")
    world.run(1.0)
    a.stream("g", 0.1)
    c.stream("g", 0.1)
    world.run(1.0)
    d.join_fifo("g")
    world.run(1.0)
    b.say("g", b"goodbye")
    b.leave("g")
    world.run(1.0)
    world.cut("haifa | paris").run(8.0)
    world.heal().run(5.0)
    a.hush("g")
    c.hush("g")
    world.run(3.0)
    assert world.history is not None
    return world.history


@pytest.mark.spec("X-004", "X-005", "X-006", "X-120", "X-121", "X-122")
def test_a_peaceful_history_is_gap_free_and_complete(fine):
    verdict = fifo_gap_free(fine, complete=True)
    assert verdict.ok and verdict.promise == "fifo-gap-free", verdict
    kinds = {type(record.item) for record in fine if isinstance(record, DeliveryRecord)}
    assert {Ready, Joined, Left, Gap, Delivered} <= kinds, "everything that can be said is in it"


# Planting


def find(history: History, who: str, kind: type, nth: int = 0, **fields: object) -> int:
    """Where somebody was given something."""
    return [
        place
        for place, record in enumerate(history)
        if isinstance(record, DeliveryRecord)
        and record.endpoint.startswith(who)
        and isinstance(record.item, kind)
        and all(getattr(record.item, name) == value for name, value in fields.items())
    ][nth]


def moved(history: History, place: int, to: int) -> History:
    record = history[place]
    rest = [*history[:place], *history[place + 1 :]]
    return [*rest[:to], record, *rest[to:]]


def changed(history: History, place: int, **fields: object) -> History:
    item = replace(history[place].item, **fields)
    return [*history[:place], replace(history[place], item=item), *history[place + 1 :]]


def a_message_lost(history: History) -> tuple[History, int]:
    place = find(history, "paris.c", Delivered, 5)
    following = find(history, "paris.c", Delivered, 6)
    return [*history[:place], *history[place + 1 :]], following - 1


def a_message_doubled(history: History) -> tuple[History, int]:
    place = find(history, "paris.c", Delivered, 5)
    return [*history[: place + 1], history[place], *history[place + 1 :]], place + 1


def two_messages_swapped(history: History) -> tuple[History, int]:
    one, two = find(history, "haifa.a", Delivered, 5), find(history, "haifa.a", Delivered, 6)
    return moved(history, two, one), one


def a_message_after_left(history: History) -> tuple[History, int]:
    left = find(history, "haifa.a", Left)
    who = history[left].item.endpoint
    last = find(history, "haifa.a", Delivered, -1, stream=who)
    broken = moved(history, last, left) if last < left else history
    return broken, left


def a_message_before_joined(history: History) -> tuple[History, int]:
    joined = find(history, "haifa.a", Joined)
    who = history[joined].item.endpoint
    first = find(history, "haifa.a", Delivered, 0, stream=who)
    return moved(history, first, joined), joined


def other_bytes(history: History) -> tuple[History, int]:
    place = find(history, "paris.c", Delivered, 3)
    run = history[place].item.run
    other = Run(run.first, run.count, block_of([b"forged"] * run.count), run.at)
    return changed(history, place, run=other), place


def a_number_that_nobody_said(history: History) -> tuple[History, int]:
    place = find(history, "paris.c", Delivered, 3)
    said = next(
        n
        for n, r in enumerate(history)
        if isinstance(r, SubmissionRecord) and r.endpoint == history[place].item.stream
    )
    return moved(history, place, said), said


def a_gap_without_a_reason(history: History) -> tuple[History, int]:
    gap = find(history, "paris.c", Gap)
    left = find(history, "paris.c", Left, -1, endpoint=history[gap].item.endpoint)
    assert left < gap
    return [*history[:left], *history[left + 1 :]], gap - 1


def a_gap_with_wrong_bounds(history: History) -> tuple[History, int]:
    gap = find(history, "paris.c", Gap)
    return changed(history, gap, first=history[gap].item.first + 1), gap


def a_gap_that_is_not_told(history: History) -> tuple[History, int]:
    """The stream is said to go on where it was, and does not."""
    gap = find(history, "paris.c", Gap)
    who = history[gap].item.endpoint
    joined = find(history, "paris.c", Joined, -1, endpoint=who)
    broken = changed(history, joined, resumed=True)
    first = next(
        n for n, r in enumerate(broken) if n > joined and r == history[n] and _brings(r, "paris.c", who)
    )
    return [*broken[:gap], *broken[gap + 1 :]], first - 1


def _brings(record: AnyRecord, me: str, who: str) -> bool:
    return (
        isinstance(record, DeliveryRecord)
        and record.endpoint.startswith(me)
        and isinstance(record.item, Delivered)
        and record.item.stream == who
    )


def a_leaver_not_heard_to_the_end(history: History) -> tuple[History, int]:
    left = find(history, "haifa.a", Left, 0, why="left")
    who = history[left].item.endpoint
    record = next(r for r in history if isinstance(r, SubmissionRecord) and r.endpoint == who)
    more = replace(record, run=Run(2, 1, block_of([b"unheard"]), 0.0))
    said = history.index(record)
    return [*history[: said + 1], more, *history[said + 1 :]], left + 1


def joined_again(history: History) -> History:
    """Before `a` is told that `b` left, `b` is back and speaks."""
    left = find(history, "haifa.a", Left, 0, why="left")
    who = history[left].item.endpoint
    said = [r.run.end for r in history[:left] if isinstance(r, SubmissionRecord) and r.endpoint == who]
    at = history[left].at
    back = FifoStateChanged(at, 0, who, G, "joined")
    more = SubmissionRecord(at, 0, who, G, Run(said[-1], 1, block_of([b"again"]), at))
    return [*history[:left], back, more, *history[left:]]


def a_leaver_not_heard_to_the_end_that_joined_again(history: History) -> tuple[History, int]:
    broken, left = a_leaver_not_heard_to_the_end(history)
    return joined_again(broken), left + 2


def a_wrong_end(history: History) -> tuple[History, int]:
    left = find(history, "haifa.a", Left, 0, why="left")
    return changed(history, left, last=7), left


def a_second_join(history: History) -> tuple[History, int]:
    joined = find(history, "haifa.a", Joined)
    return [*history[: joined + 1], history[joined], *history[joined + 1 :]], joined + 1


def a_message_to_somebody_outside(history: History) -> tuple[History, int]:
    joined = next(
        n
        for n, r in enumerate(history)
        if isinstance(r, FifoStateChanged) and r.endpoint.startswith("paris.d")
    )
    first = find(history, "paris.d", Delivered)
    return moved(history, first, joined), joined


PLANTED = [
    a_message_lost,
    a_message_doubled,
    two_messages_swapped,
    a_message_after_left,
    a_message_before_joined,
    other_bytes,
    a_number_that_nobody_said,
    a_gap_without_a_reason,
    a_gap_with_wrong_bounds,
    a_gap_that_is_not_told,
    a_leaver_not_heard_to_the_end,
    a_leaver_not_heard_to_the_end_that_joined_again,
    a_wrong_end,
    a_second_join,
    a_message_to_somebody_outside,
]


@pytest.mark.spec("X-004", "X-005", "X-006", "X-048", "X-120", "X-121", "X-122")
@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_violation_is_found_and_pointed_at(plant, fine):
    broken, place = plant(fine)
    verdict = fifo_gap_free(broken)
    assert verdict.broken and verdict.why, verdict
    assert verdict.where == broken[place], f"{verdict}: {verdict.where}"


@pytest.mark.spec("X-048")
def test_who_left_and_joined_again_owes_its_first_membership_no_word_of_the_second(fine):
    assert fifo_gap_free(joined_again(fine)).ok


@pytest.mark.spec("X-006")
def test_a_stream_of_which_nothing_came_goes_on_where_it_began(fine):
    """A second membership of a sender is lost from sight and found again before its first word: what is due
    then is that word, and not the first number after what came of the membership before."""
    gone = find(fine, "haifa.a", Left, why="disconnected")
    end = fine[gone].item.last
    who, at = fine[gone].item.endpoint, fine[gone].at
    meanwhile = [
        DeliveryRecord(at, 0, fine[gone].endpoint, G, item)
        for item in (Joined(who, Role.BOTH), Left(who, "disconnected", end + 3))
    ]
    later = [*fine[: gone + 1], *meanwhile, *fine[gone + 1 :]]
    verdict = fifo_gap_free(later)
    assert verdict.broken and f"gap in {who} from {end + 1}, not from where it was" in verdict.why, verdict


@pytest.mark.spec("X-126")
def test_a_lost_last_message_is_found_once_the_history_is_complete(fine):
    place = find(fine, "paris.c", Delivered, -1)
    broken = [*fine[:place], *fine[place + 1 :]]
    assert fifo_gap_free(broken).ok
    assert fifo_gap_free(broken, complete=True).broken


def test_silence_and_half_a_history_tell_nothing(fine):
    assert fifo_gap_free([]).answer == "cannot tell"
    said = [record for record in fine if isinstance(record, SubmissionRecord)]
    assert fifo_gap_free(said[1:]).answer == "cannot tell"


# Smooth joins: two runs with one seed


class Stalling(Stack):
    """A delegate with a bug that looks like care: whenever somebody joins or leaves, it holds what it has to
    pass on to its LAN until the dust has settled."""

    def __init__(self, stack: Stack, for_s: float) -> None:
        super().__init__(*stack.services)
        self._for_s = for_s
        self._members = 0
        self._until = 0.0
        self._held: list[Effect] = []

    def step(self, now: float, event: Event) -> Sequence[Effect]:
        effects = super().step(now, event)
        members = sum(len(delegate.view.members) for delegate in self[CLUSTER].groups.values())
        if members != self._members:
            self._members, self._until = members, now + self._for_s
        passed: list[Effect] = []
        if now >= self._until:
            passed, self._held = self._held, []
        for effect in effects:
            stalled = now < self._until and isinstance(effect, Cast) and isinstance(effect.message, Data)
            (self._held if stalled else passed).append(effect)
        return passed


# Streams that stand still


def without(history: History, who: str, *, since: float, upto: float = 1e9) -> History:
    """The same, had this receiver been given no message meanwhile."""
    return [
        record
        for record in history
        if not (
            isinstance(record, DeliveryRecord)
            and record.endpoint.startswith(who)
            and isinstance(record.item, Delivered)
            and since <= record.at < upto
        )
    ]


def when(history: History, kind: type, **fields: object) -> float:
    return next(
        record.at
        for record in history
        if isinstance(record, kind) and all(getattr(record, name) == each for name, each in fields.items())
    )


@pytest.mark.spec("X-005", "X-084")
def test_in_a_peaceful_history_no_stream_stands_still(fine):
    verdict = fifo_live(fine, within_s=1.0)
    assert verdict.ok and verdict.promise == "fifo-live", verdict


@pytest.mark.spec("X-005", "X-084")
def test_a_stream_that_stands_still_is_found_whether_it_goes_on_later_or_not(fine):
    cut_at, healed_at = (when(fine, LineChanged, change=change) for change in ("cut", "healed"))
    for history in (
        without(fine, "haifa.a", since=cut_at - 2.0, upto=cut_at - 0.5),  # and goes on
        without(fine, "haifa.a", since=cut_at - 1.5, upto=cut_at),  # while it stands still, peace ends
        without(fine, "haifa.a", since=healed_at + 3.0),  # to the end
    ):
        verdict = fifo_live(history, within_s=1.0)
        assert verdict.broken and "in peace" in verdict.why, verdict


@pytest.mark.spec("X-005")
def test_what_fails_or_does_not_read_is_owed_nothing_meanwhile(fine):
    """The cut is longer than the bound, and is no offence; nor is a program that does not read, or a way of
    the data channel that is bad."""
    end = when(fine, LineChanged, change="cut") - 0.1
    begin = end - 1.8
    stands_still = without(fine, "paris.c", since=begin, upto=end)
    assert fifo_live(stands_still, within_s=1.0).broken
    paris = fine[find(fine, "paris.c", Ready)].endpoint
    for bad, good in (
        (DataChanged(begin, 0, "haifa | paris", "cut", True), DataChanged(end, 0, "", "cut", False)),
        (FifoStateChanged(begin, 0, paris, G, "paused"), FifoStateChanged(end, 0, paris, G, "resumed")),
    ):
        excused = sorted([*stands_still, bad, good], key=lambda record: record.at)
        assert not fifo_live(excused, within_s=1.0).broken


def test_where_nobody_waits_nothing_can_be_told():
    assert fifo_live([], within_s=1.0).answer == "cannot tell"


def large() -> World:
    """Twenty seconds of 3,000 bytes, of which a fifth is lost, and a tenth comes twice."""
    world = World(
        1,
        domains={"haifa": 1, "paris": 1},
        links=NETWORK,
        data=LinkModel(NETWORK.lan, replace(NETWORK.wan, loss=0.2, duplicate=0.1)),
        timers=LinkConfig.wan().over_datagrams(),
        fifo=True,
    )
    world.settle()
    speaker, listener = world.program("haifa.h1"), world.program("paris.h1")
    speaker.join_fifo("g")
    listener.join_fifo("g", role=Role.RECEIVE)
    world.run(3.0)
    speaker.stream("g", 0.01, count=2000, size=3000)
    world.run(50.0)
    return world


@pytest.mark.spec("X-084", "X-105")
def test_a_core_whose_streams_of_large_messages_stand_still_is_found(monkeypatch):
    world = large()
    assert fifo_live(world.history, within_s=3.0, until=world.now).ok
    assert fifo_gap_free(world.history, complete=True).ok
    keep_late_parts(monkeypatch)
    world = large()
    verdict = fifo_live(world.history, within_s=3.0, until=world.now)
    assert verdict.broken and "for haifa.h1/app" in verdict.why, verdict


def stream(*, joins: bool, stall_s: float = 0.0, loss: float = 0.0) -> History:
    """One speaks at haifa and one listens at paris, while two more come and go at haifa, or do not."""

    def watching(path: Domain, stack: Stack) -> Stack:
        return Stalling(stack, stall_s) if stall_s and CLUSTER in stack else stack

    world = World(3, domains={"haifa": 3, "paris": 1}, links=NETWORK, fifo=True, watching=watching)
    world.settle()
    speaker, listener = world.program("haifa.h1"), world.program("paris.h1")
    speaker.join_fifo("g")
    listener.join_fifo("g")
    world.run(3.0)
    world.lose(loss, "haifa | paris", only="data")
    speaker.stream("g", 0.1, count=120)
    world.run(4.0)
    others = [world.program(host) for host in ("haifa.h2", "haifa.h3")] if joins else []
    for other in others:
        other.join_fifo("g")
    world.run(4.0)
    for other in others:
        other.leave("g")
    world.run(8.0)
    assert world.history is not None
    return world.history


@pytest.mark.spec("X-002")
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_others_come_and_go_and_nobody_waits(loss):
    verdict = smooth_join(stream(joins=True, loss=loss), stream(joins=False, loss=loss))
    assert verdict.ok and verdict.promise == "smooth-join", verdict


@pytest.mark.spec("X-002")
def test_a_core_that_stalls_at_a_join_is_found():
    verdict = smooth_join(stream(joins=True, stall_s=0.12), stream(joins=False, stall_s=0.12))
    assert verdict.broken and "ms more for haifa.h1/app" in verdict.why, verdict
    assert isinstance(verdict.where, DeliveryRecord) and verdict.where.endpoint.startswith("paris.h1/")


@pytest.mark.spec("X-002")
def test_a_message_that_only_the_disturbed_lost_is_found():
    alone, among = stream(joins=False), stream(joins=True)
    last = find(among, "paris.h1", Delivered, -1)
    assert smooth_join([*among[:last], *among[last + 1 :]], alone).broken
    nothing = [r for r in among if not (isinstance(r, DeliveryRecord) and isinstance(r.item, Delivered))]
    assert smooth_join(nothing, alone).broken


def test_without_anybody_who_joined_nothing_can_be_told():
    alone = stream(joins=False)
    assert smooth_join(alone, alone).answer == "cannot tell"
    assert smooth_join(stream(joins=True), []).answer == "cannot tell"
