"""Audits say what the simulator's checkers say: of the same worlds, well kept and spoilt.

A bug is planted where a node's orders leave it, so that the history, which checkers read, and the journal,
which audits read, are of one and the same world. All worlds are judged together: see `support.court`.

`make parity-history STORMS=50` compares both over many storms.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from faults.test_fifo_checkers import Stalling
from msgspec.structs import replace
from support.calm import calm_world
from support.court import Court, quiet
from support.journal import Row
from support.parity import AUDITED, CALM_BOUND_S, STORM_BOUND_S, Compared, bounds_of, rows_of, slowed
from support.segments import SCHEMA

from rostra.core.effects import Tell
from rostra.core.stack import Stack
from rostra.groups.attributes import Role
from rostra.impair.quality import Constant, LineQuality
from rostra.node import Node
from rostra.protocols.fifo.cluster import CLUSTER
from rostra.protocols.fifo.events import Aggregated, Deliver, Delivered
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Joined, Left, Without
from rostra.sim import World, fifo_checkers
from rostra.sim.network import LinkModel

HERE = "haifa.a"

Spoil = Callable[[list[Any]], list[Any]]


def calm(journal: Path) -> World:
    world = calm_world(journal=journal)
    world.run(2 * CALM_BOUND_S)
    return world.settle()


def two_sites(seed: int, journal: Path) -> World:
    """Of two hosts each; messages are kept for a second for those who are cut off."""
    return World(
        seed,
        domains={"haifa": ("a", "b"), "paris": ("c", "d")},
        links=LinkModel(lan=LineQuality(Constant(0.0002)), wan=LineQuality(Constant(0.05))),
        timers=LinkConfig.lan().over_datagrams(),
        fifo=FifoConfig(resume_s=1.0),
        journal=journal,
    ).settle()


def talking(journal: Path) -> World:
    """Streams from two sites; one comes, one leaves, and a cut longer than anybody keeps messages."""
    world = two_sites(1, journal)
    a, b, c, d = (world.program(host) for host in world.tree.hosts)
    for program in (a, b, c):
        program.join_fifo("g")
    world.run(1.0)
    a.stream("g", 0.1)
    c.stream("g", 0.1)
    world.run(1.0)
    d.join_fifo("g")
    world.run(1.0)
    b.leave("g")
    world.run(1.0)
    world.cut("haifa | paris").run(8.0)
    world.heal().run(5.0)
    a.hush("g")
    c.hush("g")
    world.run(3.0)
    return world


def saying_little(journal: Path) -> World:
    """Two streams of two seconds, to be spoilt: their faults are in what is said first."""
    world = two_sites(1, journal)
    speakers = [world.program(host) for host in ("haifa.a", "paris.c")]
    for program in speakers:
        program.join_fifo("g")
    world.run(1.0)
    for program in speakers:
        program.stream("g", 0.1, count=20)
    return world.run(4.0)


def submitting_little(journal: Path) -> World:
    """The same through the delegates of both clusters."""
    world = two_sites(2, journal)
    a, b, c, d = (world.program(host) for host in world.tree.hosts)
    for receiver in (a, c):
        receiver.join_fifo("g", role=Role.RECEIVE)
    world.run(2.0)
    for origin in (b, d):
        origin.join_fifo("g", role=Role.SUBMIT)
        origin.stream("g", 0.1, count=20)
    return world.run(4.0)


def submitting(journal: Path) -> World:
    """Two who speak through the delegate of their cluster, and a cut longer than anybody keeps messages:
    receivers on both sides of it have each origin's messages by its own numbers, with a gap on one side."""
    world = two_sites(2, journal)
    a, b, c, d = (world.program(host) for host in world.tree.hosts)
    for receiver in (a, c):
        receiver.join_fifo("g", role=Role.RECEIVE)
    world.run(2.0)
    for origin in (b, d):
        origin.join_fifo("g", role=Role.SUBMIT)
        origin.stream("g", 0.1, count=120)
    world.run(3.0)
    world.cut("haifa | paris").run(8.0)
    return world.heal().run(8.0)


def coming_and_going(journal: Path | None, stall_s: float) -> World:
    """A stream from one site to another. With a journal, others come and go meanwhile; a stall is what a
    delegate with a bug makes of that."""

    def watching(path: str, stack: Stack) -> Stack:
        return Stalling(stack, stall_s) if stall_s and CLUSTER in stack else stack

    world = World(
        3,
        domains={"haifa": 3, "paris": 1},
        links=LinkModel(lan=LineQuality(Constant(0.0002)), wan=LineQuality(Constant(0.05))),
        fifo=True,
        watching=watching,
        journal=journal,
    )
    world.settle()
    world.run(12.0)  # so that nothing is excused by the world's beginning
    speaker, listener = world.program("haifa.h1"), world.program("paris.h1")
    speaker.join_fifo("g")
    listener.join_fifo("g")
    world.run(3.0)
    speaker.stream("g", 0.1, count=120)
    world.run(4.0)
    others = [world.program(host) for host in ("haifa.h2", "haifa.h3")] if journal else []
    for other in others:
        other.join_fifo("g")
    world.run(4.0)
    for other in others:
        other.leave("g")
    return world.run(8.0)


# What a node may do wrong, in what it tells the programs on its host


def _is(effect: Any, notice: type, **fields: Any) -> bool:
    return (
        isinstance(effect, Tell)
        and isinstance(effect.notice, notice)
        and all(getattr(effect.notice, name) == value for name, value in fields.items())
    )


def nothing(orders: list[Any]) -> list[Any]:
    return orders


def keeps_a_cut_to_itself(orders: list[Any]) -> list[Any]:
    return [order for order in orders if not _is(order, Without)]


def tells_a_cut_twice(orders: list[Any]) -> list[Any]:
    return [each for order in orders for each in ([order] * (2 if _is(order, Without) else 1))]


def forgets_a_merge(orders: list[Any]) -> list[Any]:
    return [o for o in orders if not (_is(o, Joined) and o.notice.complete_for is not None)]


def loses_one_of_a_merge(orders: list[Any]) -> list[Any]:
    return [
        replace(o, notice=replace(o.notice, members=o.notice.members[1:]))
        if _is(o, Joined) and o.notice.complete_for is not None
        else o
        for o in orders
    ]


def keeps_a_leave_to_itself(orders: list[Any]) -> list[Any]:
    return [order for order in orders if not _is(order, Left)]


def tells_a_leave_twice(orders: list[Any]) -> list[Any]:
    return [each for order in orders for each in ([order] * (2 if _is(order, Left) else 1))]


def _is_message(order: Any, number: int) -> bool:
    return (
        isinstance(order, Deliver)
        and isinstance(order.item, Delivered | Aggregated)
        and order.item.run.first == number
    )


def _sender(order: Any) -> str:
    return str(order.item.stream if isinstance(order.item, Delivered) else order.item.origin)


def leaves_a_message_out(orders: list[Any]) -> list[Any]:
    return [order for order in orders if not _is_message(order, 7)]


def delivers_a_message_twice(orders: list[Any]) -> list[Any]:
    return [each for order in orders for each in ([order] * (2 if _is_message(order, 7) else 1))]


class swaps_two_messages:
    """The seventh comes after the eighth."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def __call__(self, orders: list[Any]) -> list[Any]:
        given: list[Any] = []
        for order in orders:
            if _is_message(order, 7):
                self.held[_sender(order)] = order
            else:
                given.append(order)
                if _is_message(order, 8) and _sender(order) in self.held:
                    given.append(self.held.pop(_sender(order)))
        return given


SPOILT: dict[str, tuple[Callable[[Path], World], Callable[[], Spoil], str]] = {
    "keeps-a-cut-to-itself": (calm, lambda: keeps_a_cut_to_itself, "both-sides-told"),
    "tells-a-cut-twice": (calm, lambda: tells_a_cut_twice, "both-sides-told"),
    "forgets-a-merge": (calm, lambda: forgets_a_merge, "heals-alone"),
    "loses-one-of-a-merge": (calm, lambda: loses_one_of_a_merge, "heals-alone"),
    "keeps-a-leave-to-itself": (calm, lambda: keeps_a_leave_to_itself, "watch-complete"),
    "tells-a-leave-twice": (calm, lambda: tells_a_leave_twice, "watch-complete"),
    "leaves-a-message-out": (saying_little, lambda: leaves_a_message_out, "fifo-gap-free"),
    "delivers-a-message-twice": (saying_little, lambda: delivers_a_message_twice, "fifo-gap-free"),
    "swaps-two-messages": (saying_little, swaps_two_messages, "fifo-gap-free"),
    "leaves-out-what-was-submitted": (submitting_little, lambda: leaves_a_message_out, "fifo-gap-free"),
    "delivers-twice-what-was-submitted": (
        submitting_little,
        lambda: delivers_a_message_twice,
        "fifo-gap-free",
    ),
    "swaps-what-was-submitted": (submitting_little, swaps_two_messages, "fifo-gap-free"),
}
FINE = {"calm": calm, "talking": talking, "submitting": submitting}
SPEAKING = (talking, submitting, saying_little, submitting_little)
SMOOTH = {"others-come-and-go": 0.0, "stalls-at-a-join": 0.12}
SMOOTH_BOUND_S = 0.03
"""Nothing takes a moment longer in these worlds, unless somebody waits."""

STORMS = [(0, "pair"), (4, "single"), (6, "fifo")]


class Brought:
    """Every world, run once, and what the checkers say of it."""

    def __init__(self, directory: Path) -> None:
        self.said: dict[str, Compared] = {}
        self.speaking = {name for name, make in FINE.items() if make in SPEAKING}
        self.speaking |= {name for name, (make, _, _) in SPOILT.items() if make in SPEAKING}
        self.speaking |= {f"storm-{shape}-{seed}" for seed, shape in STORMS if shape == "fifo"}
        rows: list[Row] = []
        for name, make in FINE.items():
            rows += self._add(name, make(directory / name), directory / name)
        for name, (make, spoil, _) in SPOILT.items():
            with pytest.MonkeyPatch.context() as patch:
                self._plant(patch, spoil())
                rows += self._add(name, make(directory / name), directory / name)
        self.speaking |= set(SMOOTH)
        self.smooth: dict[str, str] = {}
        for name, stall_s in SMOOTH.items():
            among, alone = coming_and_going(directory / name, stall_s), coming_and_going(None, stall_s)
            assert among.history is not None and alone.history is not None
            self.smooth[name] = fifo_checkers.smooth_join(among.history, alone.history).answer
            rows += self._add(name, among, directory / name)
        for seed, shape in STORMS:
            storm = Compared.of_storm(seed, shape, directory / f"{shape}-{seed}")
            self.said[storm.world] = storm
            rows += storm.rows
        self.table = pa.Table.from_pylist(quiet(rows), SCHEMA)

    def _plant(self, patch: pytest.MonkeyPatch, spoil: Spoil) -> None:
        perform = Node._perform

        def spoilt(node: Node, orders: Any, outputs: list[Any]) -> None:
            perform(node, spoil(list(orders)) if node.path == HERE else orders, outputs)

        patch.setattr(Node, "_perform", spoilt)

    def _add(self, name: str, world: World, journal: Path) -> list[Row]:
        world.close()
        assert world.history is not None
        self.said[name] = Compared(name, world.history, CALM_BOUND_S)
        return slowed(rows_of(journal, name))


@pytest.fixture(scope="module")
def worlds(court: Court) -> Brought:
    brought: Brought = court.brought[__name__]
    return brought


def audit(court: Court, worlds: Brought, promise: str) -> dict[str, str]:
    """What the audit says of every world; calm ones have a shorter bound, and are shown to it slowed down."""
    found = court.verdicts(promise, bounds_of(promise, STORM_BOUND_S))
    return {name: found[name]["answer"] for name in worlds.said}


@pytest.mark.parametrize("promise", AUDITED)
def test_audits_and_checkers_say_the_same_of_the_same_worlds(
    promise: str, court: Court, worlds: Brought
) -> None:
    audited = audit(court, worlds, promise)
    checked = {world: each.answers[promise] for world, each in worlds.said.items()}
    # Checkers pass over what programs are told of a group that speaks: there, audits may know more.
    same = {world for world in checked if promise == "fifo-gap-free" or world not in worlds.speaking}
    assert {world: audited[world] for world in same} == {world: checked[world] for world in same}
    assert "no" not in {answer for world, answer in audited.items() if world not in same}
    for world, (_, _, broken) in SPOILT.items():
        if broken == promise:
            assert checked[world] == "no", f"{world} is what {promise} is about"


def test_both_find_a_stream_that_stalls_when_somebody_joins(court: Court, worlds: Brought) -> None:
    found = court.verdicts("smooth-join", SMOOTH_BOUND_S)
    audited = {world: found[world]["answer"] for world in SMOOTH}
    assert audited == worlds.smooth == {"others-come-and-go": "yes", "stalls-at-a-join": "no"}


@pytest.mark.spec("X-055", "X-064")
def test_what_was_submitted_is_judged_by_origin_with_the_gap_that_its_receiver_was_told(
    court: Court,
    worlds: Brought,
) -> None:
    """So that a yes means something: rows name the origins, and one of them was missed for a while."""
    assert worlds.said["submitting"].answers["fifo-gap-free"] == "yes"
    rows = court.events.where("world = 'submitting'")
    heard = {row["member"] for row in rows.where("kind = 'delivered'").select("member").collect()}
    assert {origin.partition("/")[0] for origin in heard} == {"haifa.b", "paris.d"}
    assert rows.where("kind = 'stream-gap'").select("member").distinct().count() > 0
