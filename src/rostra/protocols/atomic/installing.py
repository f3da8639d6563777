"""What every station does for a monitor: it answers, stores what is proposed, and installs the next view.

    INVESTIGATE ──▶ frozen: report of everything that is undecided here
    GETVIEW, OPENGATE, CLOSEGATE ──▶ flushed: report, or store          NEWVIEW ──▶ stored
    accept ──▶ exception decisions, deliveries, the next view, traffic resumes

A view is installed from one `ViewChange`, which is the same at all stations: a station that missed the
accept gets it from any member that has it (A-099).
"""

from msgspec.structs import replace

from rostra.protocols.atomic import emitter, executing, monitor, receiver
from rostra.protocols.atomic.amp_state import (
    FlushWait,
    GateClosed,
    GateOpened,
    GateTurn,
    QueuedRun,
    RunEnded,
    ViewIndicated,
)
from rostra.protocols.atomic.frames import (
    ORDER,
    AmpStationId,
    DataId,
    FrameRef,
    GetViewFrame,
    InvestigateFrame,
    NewViewFrame,
    PendingRun,
    ProposalFrame,
    RunOutcome,
    StationReport,
    StoredChange,
    ViewChange,
)

Stations = tuple[AmpStationId, ...]


def on_investigate(turn: GateTurn, frame: InvestigateFrame) -> None:
    control = frame.control
    ref = FrameRef(control.sa, 0, control.mtn)
    if turn.s.me in frame.failed and turn.config.faults == "bounded":
        turn.ignore(frame, "names us as failed")
        return
    if not monitor.take_suspension(turn, control, ref):
        return
    freeze(turn, control.sa, ref)


def freeze(turn: GateTurn, to: AmpStationId, ref: FrameRef) -> None:
    """Report all that is undecided here; nothing of it is decided but by a new view (A-022)."""
    held = turn.s.suspended
    assert held is not None
    turn.put(suspended=replace(held, frozen=True), flush=None)
    turn.respond(to, ref, "CAN_ACCEPT", report=report(turn))


def report(turn: GateTurn) -> StationReport:
    s = turn.s
    decided = sum(each.messages for each in s.queue if each.decided)
    transmitting = None
    if s.transfer is not None and (s.last is None or s.last.data.mdn != s.transfer.mdn):
        transmitting = DataId(s.me, s.transfer.mdn)
    return StationReport(
        s.view,
        s.table,
        tuple([_pending(each) for each in turn.undecided()]),
        transmitting,
        s.last,
        s.clock,
        s.delivered + decided,
        s.stored,
    )


def _pending(run: QueuedRun) -> PendingRun:
    return PendingRun(run.data, run.place, run.messages if run.attributes & ORDER else 0)


def on_get_view(turn: GateTurn, frame: GetViewFrame) -> None:
    """A station wants to come in: answered when nothing is undecided here (A-077)."""
    control = frame.control
    ref = FrameRef(control.sa, 0, control.mtn)
    if turn.s.view is None and turn.s.standing != "opening":
        turn.ignore(frame, "gate is not open")
    elif not monitor.take_suspension(turn, control, ref) or turn.s.view is None:
        return
    elif _sees_failure(turn):
        turn.respond(control.sa, ref, "FAILURE_SEEN", seen=_failed(turn), report=report(turn))
    elif turn.undecided():
        turn.put(flush=FlushWait(control.sa, ref, "report", control.sl))
        turn.respond(control.sa, ref, "FLUSHING", report=report(turn))
    else:
        turn.respond(control.sa, ref, "CAN_ACCEPT", report=report(turn))


def _sees_failure(turn: GateTurn) -> bool:
    return turn.frozen or turn.s.stored is not None or bool(_failed(turn))


def _failed(turn: GateTurn) -> Stations:
    return tuple([each for each in turn.s.suspects if each in turn.members])


def on_proposal(turn: GateTurn, frame: ProposalFrame) -> None:
    control, change = frame.control, frame.change
    ref = FrameRef(control.sa, 0, control.mtn)
    if not monitor.take_suspension(turn, control, ref):
        return
    assert control.sl is not None
    stored = turn.s.stored
    gate = not isinstance(frame, NewViewFrame)
    if gate and (turn.frozen or (stored is not None and stored.change != change) or _failed(turn)):
        turn.respond(control.sa, ref, "FAILURE_SEEN", seen=_failed(turn))
    elif not gate and turn.config.faults == "bounded":
        learn(turn, change)
        if turn.s.view is not None and turn.s.view.id == change.view.id:
            turn.respond(control.sa, ref, "CAN_ACCEPT")
    elif gate:
        _when_flushed(turn, FlushWait(control.sa, ref, "store", control.sl, change))
    else:
        store(turn, FlushWait(control.sa, ref, "store", control.sl, change))


def _when_flushed(turn: GateTurn, wait: FlushWait) -> None:
    if turn.undecided():
        turn.put(flush=wait)
        turn.respond(wait.to, wait.ref, "FLUSHING")
    else:
        turn.put(flush=wait)
        flushed(turn)


def flushed(turn: GateTurn) -> None:
    """Nothing is undecided any more: do what waited for it."""
    wait = turn.s.flush
    assert wait is not None
    turn.put(flush=None)
    match wait.then:
        case "report":
            turn.respond(wait.to, wait.ref, "CAN_ACCEPT", report=report(turn))
        case "store":
            store(turn, wait)
        case "install":
            assert wait.change is not None
            install(turn, wait.change)


def store(turn: GateTurn, wait: FlushWait) -> None:
    assert wait.change is not None and wait.sl is not None
    turn.put(stored=StoredChange(wait.sl, wait.change))
    turn.respond(wait.to, wait.ref, "CAN_ACCEPT")


def learn(turn: GateTurn, change: ViewChange) -> None:
    """A change that is known to be accepted, from its monitor or from a member that has it (A-099)."""
    s = turn.s
    if turn.config.executes:
        executing.learn(turn, change)
    elif s.view is not None and change.view.id <= s.view.id:
        turn.ignore(change, "known view")
    elif s.view is None and s.me not in change.view.members:
        turn.ignore(change, "gate is not open")
    elif s.view is None or (change.base == s.view.id and s.me in change.view.members):
        if change.gate and turn.undecided():
            _decide_first(turn, change)
        else:
            install(turn, change)
    elif change.base == s.view.id and s.standing == "closing" and s.me not in change.failed:
        install(turn, change)  # without us, as we asked for
    else:
        fence(turn, "not in the next view")


def _decide_first(turn: GateTurn, change: ViewChange) -> None:
    """A gate was completed without us, by members that had flushed. It says nothing of what is undecided
    here: those runs have their emitters' decisions, and belong to the view before."""
    held = turn.s.suspended
    turn.put(flush=FlushWait(turn.s.me, FrameRef(turn.s.me, 0), "install", None, change))
    if held is not None:
        turn.put(suspended=replace(held, frozen=False))
    for each in turn.undecided():
        turn.timer(turn.config.response_s, "decision", each.data.sa.host, each.data.sa.life)


def _settle(turn: GateTurn, change: ViewChange) -> None:
    """Exception decisions, of everything that is undecided here."""
    by_data = {each.data: each for each in change.outcomes}
    for run in turn.undecided():
        outcome = by_data.get(run.data, RunOutcome(run.data, accept=False))
        turn.note("exception_decision", f"{run.data.sa} {run.data.mdn} {outcome.accept}")
        receiver.apply(turn, outcome)


def install(turn: GateTurn, change: ViewChange) -> None:
    s = turn.s
    turn.put(suspended=None, flush=None)
    if s.view is not None:
        _settle(turn, change)
        emitter.settled(turn, change.outcomes)
    old = s.view.members if s.view is not None else ()
    new = change.view.members
    comes_in = s.view is None
    for sa in old:
        if sa not in new:
            turn.cancel("decision", sa.host, sa.life)
    delivered = (change.delivered if comes_in else turn.s.delivered) + 1  # a view has a place too
    kept = change.table if comes_in else tuple([each for each in turn.s.table if each.sa in new])
    turn.put(
        view=change.view,
        applied=change,
        stored=None,
        top=None,
        table=kept,
        clock=max(turn.s.clock, change.clock),
        delivered=delivered,
        suspects=(),  # who is in the new view has answered
        heard=(),
        agreed=tuple([each for each in s.agreed if each.number > change.view.id.number]),
    )
    turn.cancel("suspended")
    turn.cancel("majority")
    _end_action(turn, change)
    if s.me not in new:
        close(turn, "left")
        return
    turn.note("resumed")
    failed = tuple([each for each in change.failed if each in old])
    gone = tuple([each for each in old if each not in new and each not in failed])
    joined = tuple([each for each in new if each not in old])
    turn.do(ViewIndicated(change.view, joined, gone, failed, delivered, change.body))
    if comes_in:
        turn.put(standing="open")
        turn.cancel("open")
        turn.do(GateOpened())
    if turn.config.beacon_s and new[0] == s.me:
        turn.timer(turn.config.beacon_s, "beacon")


def _end_action(turn: GateTurn, change: ViewChange) -> None:
    action = turn.s.action
    if action is None:
        return
    still = action.investigating and turn.config.faults == "bounded" and action.change == change
    if still:
        return  # its acknowledgements are still to come
    turn.cancel("monitor")
    turn.note("monitor_standby")
    turn.put(action=None)


# Endings


def fence(turn: GateTurn, because: str) -> None:
    """We are not in the group any more: nothing is delivered or sent from here on (A-056)."""
    turn.note("excluded", because)
    close(turn, "excluded")


def close(turn: GateTurn, because: str) -> None:
    s = turn.s
    left = [*([s.transfer.run] if s.transfer else []), *s.waiting]
    for run in left:
        for token in run.tokens:
            turn.do(RunEnded(token, "excluded", because))
    for timer in ("round", "monitor", "suspended", "majority", "open", "beacon"):
        turn.cancel(timer)
    for sa in turn.members:
        turn.cancel("decision", sa.host, sa.life)
    turn.s = type(s)(s.me, s.group, mtn=s.mtn, mdn=s.mdn, access=s.access)
    turn.own.clear()
    turn.do(GateClosed(because, tail_in_doubt=because == "excluded"))
