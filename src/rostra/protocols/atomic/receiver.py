"""The receiver: queues data frames, answers them, applies decisions, delivers in order.

    DataFrame ──▶ queued ── accept ──▶ delivered, when it is first in the queue
                    │ └──── reject, exception decision ──▶ dropped
                    └ no decision for WaitDecisionT: DecisionRequestFrame, up to w + 1 times, then the emitter
                      counts as failed

A newer frame of the same emitter brings the decision before with it (A-049). Late copies are dropped by two
numbers: a decided run is never queued again, and an emitter's frames are taken in rising order (A-043).
"""

from msgspec.structs import replace

from rostra.protocols.atomic import installing, monitor
from rostra.protocols.atomic.amp_state import GateTurn, QueuedRun, RunDelivered
from rostra.protocols.atomic.frames import (
    ACK,
    FLUSH,
    ORDER,
    RESUME,
    SUSPEND,
    WAIT,
    AmpStationId,
    DataFrame,
    DataId,
    DecisionFrame,
    DecisionRequestFrame,
    FrameRef,
    PendingFrame,
    RunOutcome,
)
from rostra.protocols.atomic.positions import final_place, order_key, place_of


def on_data(turn: GateTurn, frame: DataFrame) -> None:
    control = frame.control
    sa, ref = control.sa, FrameRef(control.sa, control.mdn, control.mtn)
    entry, held = turn.entry(sa), held_run(turn, DataId(sa, control.mdn))
    if control.mtn <= entry.mtn or control.mdn <= entry.decided:
        _late_copy(turn, frame, held)
        return
    if not _decide_earlier(turn, frame):
        return
    turn.enter(replace(turn.entry(sa), mtn=control.mtn))
    if control.has(SUSPEND):
        if not monitor.take_suspension(turn, control, ref):
            return
    elif held is None and _refuses(turn, sa):
        turn.respond(sa, ref, "SUSPENDED", sl=turn.s.top, held=True)
        return
    if not control.has(WAIT):
        _take_undecided(turn, frame, ref)
    elif held is None and not _has_room(turn):
        turn.note("inaccessible", turn.s.access.because or "queue")
        turn.respond(sa, ref, "INACCESSIBLE")
    else:
        _queue(turn, frame, held)
        respond_held(turn, DataId(sa, control.mdn))


def _late_copy(turn: GateTurn, frame: DataFrame, held: QueuedRun | None) -> None:
    control = frame.control
    if held is not None and not held.decided:
        respond_held(turn, held.data)
    elif control.has(ACK) and not control.has(WAIT) and control.mdn == turn.entry(control.sa).decided:
        turn.respond(control.sa, FrameRef(control.sa, control.mdn, control.mtn), "CAN_ACCEPT")
    else:
        turn.ignore(frame, "late copy")


def _decide_earlier(turn: GateTurn, frame: DataFrame | DecisionFrame) -> bool:
    """A run of the same emitter that is still undecided here was decided before this frame was sent. A reject
    brings that decision too: of a run that was never here, it may be all that arrives."""
    control = frame.control
    for each in turn.undecided():
        if each.data.sa != control.sa or each.data.mdn == control.mdn:
            continue
        if each.data.mdn > control.mdn:
            turn.ignore(frame, "late copy")
            return False
        if turn.frozen and isinstance(frame, DecisionFrame):
            turn.ignore(frame, "frozen")
            return False
        if turn.frozen:
            turn.respond(
                control.sa,
                FrameRef(control.sa, control.mdn, control.mtn),
                "SUSPENDED",
                sl=turn.s.top,
                held=True,
            )
            return False
        if frame.previous is None or frame.previous.data != each.data:
            _ask_decision(turn, each)
            turn.ignore(frame, "decision before unknown")
            return False
        turn.note("implicit_accept", each.data.mdn)
        apply(turn, frame.previous)
    return True


def _refuses(turn: GateTurn, sa: AmpStationId) -> bool:
    held = turn.s.suspended
    return held is not None and held.sl.station != sa


def _has_room(turn: GateTurn) -> bool:
    return turn.s.access.accessible and len(turn.s.queue) < turn.config.queue_max


def _take_undecided(turn: GateTurn, frame: DataFrame, ref: FrameRef) -> None:
    """Profiles `reliable` and `best-effort`: delivered as it comes."""
    control = frame.control
    if not turn.s.access.accessible:
        if control.has(ACK):
            turn.respond(control.sa, ref, "INACCESSIBLE")
        turn.ignore(frame, "inaccessible")
        return
    entry = turn.entry(control.sa)
    turn.enter(replace(entry, decided=control.mdn, accepted=control.mdn, position=0))
    _deliver(turn, DataId(control.sa, control.mdn), frame.items, 0)
    if control.has(ACK):
        turn.respond(control.sa, ref, "CAN_ACCEPT")


def _queue(turn: GateTurn, frame: DataFrame, held: QueuedRun | None) -> None:
    control, s = frame.control, turn.s
    place = place_of(turn.config, s.clock, held)
    data = DataId(control.sa, control.mdn)
    others = tuple([each for each in s.queue if each.data != data])
    behind: tuple[DataId, ...] = ()
    if control.has(FLUSH):
        behind = held.behind if held is not None else _before(data, others)
    messages = turn.config.weigh(frame.items)
    run = QueuedRun(data, control.mtn, place, control.attributes, frame.items, messages, behind=behind)
    turn.put(queue=tuple(sorted([*others, run], key=order_key)), clock=max(s.clock, place))
    turn.timer(turn.config.wait_decision_s, "decision", data.sa.host, data.sa.life)


def _before(data: DataId, queue: tuple[QueuedRun, ...]) -> tuple[DataId, ...]:
    """What a frame with FLUSH waits for. Of two of them only one waits for the other, everywhere the same:
    they may have arrived in different orders, and would wait for each other for ever."""
    return tuple(
        [
            each.data
            for each in queue
            if not each.decided and not (each.attributes & FLUSH and each.data > data)
        ]
    )


def held_run(turn: GateTurn, data: DataId) -> QueuedRun | None:
    return next((each for each in turn.s.queue if each.data == data), None)


def is_undecided(turn: GateTurn, data: DataId) -> bool:
    return any(each.data == data for each in turn.undecided())


def respond_held(turn: GateTurn, data: DataId) -> None:
    run = held_run(turn, data)
    if run is None or not run.attributes & ACK:
        return
    ref = FrameRef(data.sa, data.mdn, run.mtn)
    waits = {each.data for each in turn.undecided()}.intersection(run.behind)
    if waits:
        turn.respond(data.sa, ref, "FLUSHING")
    else:
        turn.respond(data.sa, ref, "CAN_ACCEPT", position=run.place)


# Decisions


def on_decision(turn: GateTurn, frame: DecisionFrame) -> None:
    control = frame.control
    data = DataId(control.sa, control.mdn)
    held, entry = held_run(turn, data), turn.entry(control.sa)
    if control.sa not in turn.members:
        turn.ignore(frame, "not a member")
        return
    if not _decide_earlier(turn, frame):
        return
    if held is not None and not held.decided:
        if turn.frozen:
            turn.ignore(frame, "frozen")
            return
        apply(turn, RunOutcome(data, frame.accept, frame.position))
    elif control.mdn > entry.decided:
        if frame.accept:
            turn.ignore(frame, "unknown frame")
            return
        turn.enter(replace(entry, decided=control.mdn))
    if control.has(ACK):
        turn.respond(control.sa, FrameRef(control.sa, control.mdn, control.mtn), "CAN_ACCEPT")
    if control.has(RESUME):
        monitor.resume_block(turn, control.sa)


def apply(turn: GateTurn, outcome: RunOutcome) -> None:
    """Decide a run that is queued here; deliver what has become first."""
    data, s = outcome.data, turn.s
    run = held_run(turn, data)
    assert run is not None
    entry = turn.entry(data.sa)
    if outcome.accept:
        entry = replace(entry, accepted=data.mdn, position=outcome.position)
    turn.enter(replace(entry, decided=max(entry.decided, data.mdn)))
    turn.cancel("decision", data.sa.host, data.sa.life)
    turn.note("decision", f"{data.sa} {data.mdn} {'accept' if outcome.accept else 'reject'}")
    others = [each for each in s.queue if each.data != data]
    if outcome.accept and run.attributes & ORDER:
        place = final_place(turn.config, run, outcome.position)
        others.append(replace(run, decided=True, place=place))
        turn.put(clock=max(s.clock, outcome.position))
    turn.put(queue=tuple(sorted(others, key=order_key)))
    if outcome.accept and not run.attributes & ORDER:
        _deliver(turn, data, run.items, 0)
    _deliver_ready(turn)
    _flushed(turn)


def _deliver_ready(turn: GateTurn) -> None:
    while True:
        ordered = [each for each in turn.s.queue if each.attributes & ORDER]
        if not ordered or not ordered[0].decided:
            return
        first = ordered[0]
        position = turn.s.delivered + 1
        turn.put(
            queue=tuple([each for each in turn.s.queue if each.data != first.data]),
            delivered=turn.s.delivered + first.messages,
        )
        _deliver(turn, first.data, first.items, position)


def _deliver(turn: GateTurn, data: DataId, items: tuple[bytes, ...], position: int) -> None:
    number = turn.s.view.id.number if turn.s.view else 0
    turn.do(RunDelivered(data, items, position, number))


def _flushed(turn: GateTurn) -> None:
    """Something was decided: runs that waited for it are looked at (A-024)."""
    waits = {each.data for each in turn.undecided()}
    for each in turn.undecided():
        if each.behind and not waits.intersection(each.behind):
            respond_held(turn, each.data)
    if turn.s.flush is not None and not waits:
        installing.flushed(turn)


# When no decision comes


def on_wait_timer(turn: GateTurn, sa: AmpStationId) -> None:
    for each in turn.undecided():
        if each.data.sa == sa and not turn.frozen:
            if each.asked < turn.config.rounds or turn.config.executes:
                _ask_decision(turn, each)
            else:
                monitor.suspect(turn, (sa,), "no decision")


def _ask_decision(turn: GateTurn, run: QueuedRun) -> None:
    data = run.data
    asked = replace(run, asked=run.asked + 1)
    turn.put(queue=tuple([asked if each.data == data else each for each in turn.s.queue]))
    ref = FrameRef(data.sa, data.mdn)
    turn.note("decision_req", data.mdn)
    turn.post(data.sa, DecisionRequestFrame(turn.control(mdn=data.mdn), ref))
    turn.timer(turn.config.patience_s(run.asked), "decision", data.sa.host, data.sa.life)


def on_pending(turn: GateTurn, frame: PendingFrame) -> None:
    run = held_run(turn, DataId(frame.control.sa, frame.ref.mdn))
    if run is None or run.decided:
        turn.ignore(frame, "nothing pending")
        return
    calm = replace(run, asked=0)
    turn.put(queue=tuple([calm if each.data == run.data else each for each in turn.s.queue]))
    turn.timer(turn.config.wait_decision_s, "decision", run.data.sa.host, run.data.sa.life)
