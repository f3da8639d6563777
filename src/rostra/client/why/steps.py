"""What happened around a moment, node by node, causes above effects."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.client.why.recalled import Break, NodeMemories, NodeMemory
from rostra.client.why.words import passed, seconds
from rostra.names import Domain

BEFORE_S: Final = 15.0
AFTER_S: Final = 60.0
"""What happened this long before and after a removal may belong to it."""

LATE: Final = "late"
"""The topic of steps in which a node found that its own loop had stood still."""


class Step(Struct, frozen=True):
    """One thing that one node remembers."""

    at: float  # seconds since 1970, on the asker's clock; never before what caused it
    node: Domain
    what: str
    text: str


class StepTrace(Struct, frozen=True):
    """A step, and what tells which other step caused it."""

    step: Step
    topic: str  # steps about the same thing have the same
    heard_from: Domain | None = None  # the cause happened there
    late_s: float = 0.0  # of those whose topic is that


def steps(recalled: NodeMemories, *moments: float, broken: Break | None = None) -> tuple[Step, ...]:
    """What happened around these moments: to the endpoint itself, and of this break."""
    traces = [
        trace
        for node in reversed(recalled.way)  # who is nearer to the subject knew first
        if node in recalled.memories
        for trace in _traces_of(recalled, node, recalled.memories[node], broken)
        if any(at - BEFORE_S <= trace.step.at <= at + AFTER_S for at in moments)
    ]
    return _in_order(list(_with_lates_in_one(traces)))


def _with_lates_in_one(traces: Sequence[StepTrace]) -> Iterator[StepTrace]:
    """A node of a busy machine is late again and again. It says so once, where it was late the longest: what
    matters must not be looked for between its excuses."""
    lates: dict[Domain, list[StepTrace]] = {}
    for trace in traces:
        if trace.topic == LATE:
            lates.setdefault(trace.step.node, []).append(trace)
    for trace in traces:
        same = lates.get(trace.step.node, [])
        if trace.topic != LATE or len(same) == 1:
            yield trace
        elif trace is max(same, key=lambda each: each.late_s):
            text = f"found {len(same)} times that it had stood still, for {seconds(trace.late_s)} at most"
            yield replace(trace, step=replace(trace.step, text=text))


def _traces_of(
    recalled: NodeMemories, node: Domain, memory: NodeMemory, broken: Break | None
) -> Iterator[StepTrace]:
    if broken is not None:
        yield from _traces_of_break(node, memory, broken)
    for at, note in memory.notes("departures"):
        if note["endpoint"] == recalled.about:
            verb = "left" if note["cause"] == "leave" else "is gone"
            why = f" ({note['why']})" if note["why"] else ""
            step = Step(at, node, "told", f"{passed(note)}: it {verb}{why}")
            yield StepTrace(step, f"{note['cause']} of {recalled.about}", _heard_from(note))
    for at, note in memory.notes("views"):
        if recalled.is_touched_by(note):
            yield StepTrace(Step(at, node, note["what"], note["text"]), "views")
    for at, note in memory.notes("late"):
        step = Step(at, node, LATE, f"found that it had stood still for {seconds(note['late_s'])}")
        yield StepTrace(step, LATE, late_s=note["late_s"])
    for at, note in memory.notes("refusals"):
        if recalled.is_own(note):
            yield StepTrace(Step(at, node, "refused", f"refused {note['asked']}: {note['what']}"), "refused")


def _traces_of_break(node: Domain, memory: NodeMemory, broken: Break) -> Iterator[StepTrace]:
    if node in broken.between:
        peer = broken.accused if node == broken.accuser else broken.accuser
        notes = memory.link(peer)
        began = max((at for at, note in notes if note["what"] == "up" and at < broken.at), default=0.0)
        for at, note in notes:
            if at > began:
                left = peer if note["because"] == "ended by peer" else None
                yield StepTrace(_link_step(at, node, peer, note), note["what"], left)
    for at, note in memory.notes("failures"):
        because = note["because"]
        if (because["accuser"], because["accused"]) == broken.between:
            loss = f"only {note['domain']} remains" if note["keep"] else f"{note['domain']} is lost"
            yield StepTrace(Step(at, node, "told", f"{passed(note)}: {loss}"), "loss", _heard_from(note))
    for at, note in memory.notes("returns"):
        if at > broken.at:
            text = f"heard from {note['heard_from']} that all {note['part']} is back"
            yield StepTrace(Step(at, node, "up", text), "up", Domain(note["heard_from"]))


def _in_order(traces: Sequence[StepTrace]) -> tuple[Step, ...]:
    """By time, and everything below what caused it.

    What one node remembers happened in its own order. What it heard from another was caused by what that one
    remembers of the same topic, nearest in time. An effect that seems older than its cause is as old as it.
    """
    by_node: dict[Domain, list[int]] = {}
    for number in sorted(range(len(traces)), key=lambda number: traces[number].step.at):
        by_node.setdefault(traces[number].step.node, []).append(number)
    causes: dict[int, list[int]] = {number: [] for number in range(len(traces))}
    for own in by_node.values():
        for earlier, later in itertools.pairwise(own):
            causes[later].append(earlier)
    for number, trace in enumerate(traces):
        there = [
            other
            for other in (by_node.get(trace.heard_from, ()) if trace.heard_from is not None else ())
            if traces[other].topic == trace.topic
        ]
        if there:
            at = trace.step.at
            causes[number].append(min(there, key=lambda other: abs(traces[other].step.at - at)))

    # When each can have happened at the earliest, and how many steps must stand above it.
    places = [(trace.step.at, 0) for trace in traces]
    by_time = [number for own in by_node.values() for number in own]
    for _ in traces:  # no chain is longer; and if two steps seem to cause each other, this ends all the same
        before = list(places)
        for number in by_time:
            for at, above in (places[cause] for cause in causes[number]):
                places[number] = (max(places[number][0], at), max(places[number][1], above + 1))
        if places == before:
            break
    ordered = sorted(range(len(traces)), key=lambda number: (*places[number], number))
    return tuple(replace(traces[number].step, at=places[number][0]) for number in ordered)


def _heard_from(note: Mapping[str, Any]) -> Domain | None:
    return Domain(note["heard_from"]) if note["heard_from"] else None


def _link_step(at: float, node: Domain, peer: Domain, note: Mapping[str, Any]) -> Step:
    evidence = note.get("evidence")
    match note["what"], note["because"]:
        case "up", _:
            text = f"linked with {peer}"
        case "suspected", _ if evidence is not None:
            text = (
                f"suspected {peer}: silent {seconds(evidence['silence_s'])}, usually heard every "
                f"{seconds(evidence['expected_s'])} (suspicion phi {evidence['phi']:.1f}, limit "
                f"{evidence['phi_threshold']:g})"
            )
        case "trusted", _:
            text = f"heard {peer} again in time"
        case "down", "silent" if evidence is not None:
            text = (
                f"gave up {peer}: silent {seconds(evidence['silence_s'])}, limit "
                f"{seconds(evidence['down_after_s'])}"
                + ("" if evidence["channel_open"] else "; the connection was closed")
            )
        case what, because:
            text = f"gave up {peer}: {because}" if what == "down" else f"{what} {peer}"
    return Step(at, node, note["what"], text)
