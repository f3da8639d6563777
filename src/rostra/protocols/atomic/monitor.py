"""The group monitor: suspends traffic, finds out what was decided, installs the next view (A-057 to A-074).

    standby ── a station failed, a gate opens or closes ──▶ candidate: INVESTIGATE, with a suspension level
       ▲                                                       │ each member answers, or is silent w + 1 times
       │ a higher level was seen                               ▼
       └────────────────────────────────────────────── proposing: NEWVIEW ── acknowledged ──▶ accept, Resume

Suspension levels are the ballots of a consensus on the successor of one view: an answer to INVESTIGATE is a
promise to refuse lower levels, and carries the proposal that the station has stored. The next monitor
completes the stored proposal of the highest level before it does anything of its own (A-072).

**Where we differ from the paper.** Its recovery rests on a bus where no frame is late and a silent station is
dead. In the `async` model an answer to INVESTIGATE freezes what it reports (TA22), the new view must have a
majority of the old one, and it is applied only when the accept arrives (TA14). In the `bounded` model NEWVIEW
is applied as it comes, in two rounds; there, too, it settles every run that is undecided instead of waiting
for their emitters: one that dies while the others flush would leave them waiting in two views.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from rostra.protocols.atomic import executing, installing, rounds
from rostra.protocols.atomic.amp_config import AGREED_SHIFT, AmpConfig
from rostra.protocols.atomic.amp_state import (
    ActionKind,
    FailureReported,
    GateTurn,
    GivenReport,
    MonitorAction,
    SuspendedTraffic,
    ViewExecuted,
)
from rostra.protocols.atomic.frames import (
    ACK,
    FLUSH,
    RESUME,
    SUSPEND,
    WAIT,
    AmpStationId,
    AmpView,
    AmpViewId,
    CloseGateFrame,
    DataId,
    DecidedEntry,
    DecisionFrame,
    FrameControl,
    FrameRef,
    GetViewFrame,
    InvestigateFrame,
    NewViewFrame,
    OpenGateFrame,
    ResponseFrame,
    RunOutcome,
    StationReport,
    StoredChange,
    SuspensionLevel,
    ViewChange,
)

Stations = tuple[AmpStationId, ...]


# Suspension


def take_suspension(turn: GateTurn, control: FrameControl, ref: FrameRef) -> bool:
    """A frame with a suspension level arrived. True if it stands; else its sender is told what is higher."""
    s, sl = turn.s, control.sl
    assert sl is not None
    if s.suspended is not None and sl == s.suspended.sl:
        _restart_timer(turn)
        return True
    if s.top is not None and sl <= s.top:
        turn.respond(control.sa, ref, "SUSPENDED", sl=s.top, held=s.suspended is not None)
        return False
    turn.note("suspended", f"{sl.counter} {sl.station}")
    if s.suspended is None and s.view is not None and needs_majority(turn.config):
        turn.put(heard=())
        turn.timer(2 * turn.config.suspend_s, "majority")
    frozen = s.suspended is not None and s.suspended.frozen
    turn.put(suspended=SuspendedTraffic(sl, frozen), top=sl, flush=None)
    _restart_timer(turn)
    if s.action is not None and s.action.sl < sl:
        withdraw(turn)
    return True


def needs_majority(config: AmpConfig) -> bool:
    return config.faults == "async" and config.policy == "majority" and config.decides == "own"


def on_majority_timer(turn: GateTurn) -> None:
    """Suspended, and how many members did we hear of? Without a majority we are out (A-056). A standby hears
    only its active monitor, which must find the majority for both."""
    view, held, me = turn.s.view, turn.s.suspended, turn.s.me
    if view is None or held is None:
        return
    led = held.sl.station != me and held.sl.station in turn.s.heard
    if led or has_quorum(view, {*turn.s.heard, me}):
        turn.put(heard=())
        turn.timer(2 * turn.config.suspend_s, "majority")
    else:
        installing.fence(turn, "no majority")


def _restart_timer(turn: GateTurn) -> None:
    rank = turn.members.index(turn.s.me) if turn.s.me in turn.members else len(turn.members)
    turn.timer(turn.config.suspend_s + rank * turn.config.stagger_s, "suspended")


def resume_block(turn: GateTurn, sa: AmpStationId) -> None:
    """The last decision of an urgent block ends the suspension of its emitter, and no other."""
    held = turn.s.suspended
    if held is not None and held.sl.station == sa and not held.frozen and turn.s.action is None:
        turn.note("resumed")
        turn.cancel("suspended")
        turn.cancel("majority")
        turn.put(suspended=None, flush=None)


def withdraw(turn: GateTurn) -> None:
    """Another monitor has the higher level; what we wanted is tried again when it is done (A-059, A-065)."""
    action = turn.s.action
    turn.note("monitor_standby")
    turn.cancel("monitor")
    turn.put(action=None)
    if action is not None and action.kind == "open":
        # By a different time for every station, so that two openers do not meet again.
        turn.timer((turn.config.again_s or turn.config.suspend_s) * (1 + _spread(turn.s.me)), "open")


def _spread(me: AmpStationId) -> float:
    return (sum(str(me).encode()) % 16) / 16


def on_suspend_timer(turn: GateTurn) -> None:
    """The active monitor is silent (A-062)."""
    s = turn.s
    if s.suspended is None or s.action is not None:
        return
    if s.view is None and not (turn.config.executes and s.stored is not None):
        turn.put(suspended=None)  # else the others may have our first view, and its monitor is done with it
    elif turn.config.executes:
        turn.do(FailureReported((s.suspended.sl.station,)))
        executing.ask_view(turn)
        _restart_timer(turn)
    elif s.transfer is not None and s.transfer.phase != "stalled" and not turn.frozen:
        turn.timer(turn.config.response_s, "suspended")  # a transfer is not interrupted
    else:
        begin(turn, "recover", s.suspects)


# Suspicion


def suspect(turn: GateTurn, stations: Stations, because: str) -> None:
    known = {*turn.s.suspects, turn.s.me}
    new = [each for each in stations if each in turn.members and each not in known]
    if not new:
        return
    turn.note("suspect", f"{', '.join(map(str, new))}: {because}")
    if turn.config.executes:
        turn.do(FailureReported(tuple(new)))
    else:
        turn.put(suspects=tuple(sorted([*turn.s.suspects, *new])))


# The action: first ask


def begin(
    turn: GateTurn,
    kind: ActionKind,
    failed: Stations = (),
    agreed: ViewExecuted | None = None,
    attempt: int = 0,
) -> None:
    top = turn.s.top
    counter = top.counter + 1 if top is not None else 1
    if agreed is not None:
        counter = (agreed.number << AGREED_SHIFT) + min(attempt, (1 << AGREED_SHIFT) - 1)
    action = MonitorAction(
        kind,
        SuspensionLevel(counter, turn.s.me),
        base=turn.s.view,
        failed=failed,
        investigating=kind in ("recover", "agreed"),
        agreed=agreed,
        attempt=attempt,
    )
    turn.note("monitor_active", kind)
    turn.put(action=action)
    if kind == "close":
        _propose_close(turn)
    else:
        ask(turn)


def ask(turn: GateTurn) -> None:
    action = turn.s.action
    assert action is not None
    mtn = turn.next_mtn()
    turn.put(action=replace(action, mtn=mtn, since=action.since or mtn, rounds=action.rounds + 1))
    attributes = ACK | SUSPEND
    if action.investigating:
        control = _control(turn, attributes, mtn)
        turn.cast(InvestigateFrame(control, action.failed, turn.s.last))
    else:
        turn.cast(GetViewFrame(turn.control(attributes | FLUSH, 0, mtn, action.sl), turn.s.last))
    turn.timer(_patience_s(turn), "monitor")


def _patience_s(turn: GateTurn) -> float:
    action = turn.s.action
    assert action is not None
    return turn.config.patience_s(action.rounds + action.attempt * turn.config.rounds)


def _control(turn: GateTurn, attributes: int, mtn: int) -> FrameControl:
    action = turn.s.action
    assert action is not None
    base = base_view(turn)
    control = turn.control(attributes, 0, mtn, action.sl if attributes & SUSPEND else None)
    return replace(control, view=base.id if base is not None else None)


def base_view(turn: GateTurn) -> AmpView | None:
    """The view that is to be changed: ours, or the highest that a newcomer was told of (A-078)."""
    action = turn.s.action
    return turn.s.view if turn.s.view is not None or action is None else action.base


def _hear_view(turn: GateTurn, frame: ResponseFrame) -> None:
    action = turn.s.action
    heard = frame.report.view if frame.report is not None else None
    if action is not None and heard is not None and (action.base is None or heard.id > action.base.id):
        turn.put(action=replace(action, base=heard))


def expected(turn: GateTurn) -> Stations:
    """The stations that must answer the present round."""
    action, base = turn.s.action, base_view(turn)
    assert action is not None
    members = base.members if base is not None else ()
    if action.change is None:
        if action.agreed is not None:
            return action.agreed.members
        asked = tuple([each for each in members if each not in action.failed])
        # Without those that we suspect there is no majority: they must be heard before that is believed.
        enough = not needs_majority(turn.config) or base is None or has_quorum(base, set(asked))
        return asked if enough or not action.investigating else members
    if action.kind == "close" and not action.investigating:
        return members
    proposed = action.change.view.members
    if action.agreed is not None:
        return tuple([each for each in proposed if each in action.agreed.members])
    return proposed


def on_answer(turn: GateTurn, frame: ResponseFrame) -> None:
    action, station = turn.s.action, frame.control.sa
    if action is None or frame.ref.mtn < action.since:
        turn.ignore(frame, "no such action")
        return
    if station in action.failed and turn.config.faults == "bounded":
        turn.ignore(frame, "named as failed")
        return
    _hear_view(turn, frame)
    action = turn.s.action
    assert action is not None
    match frame.answer:
        case "SUSPENDED" if frame.sl is not None:
            _contend(turn, frame.sl, held=frame.held)
        case "FLUSHING":
            others = [each for each in action.flushing if each.host != station.host]
            turn.put(action=replace(action, flushing=tuple(sorted([*others, station]))))
        case "FAILURE_SEEN":
            _investigate(turn, frame.seen)
        case "CAN_ACCEPT":
            if (action.change is None) == (frame.report is None):
                turn.ignore(frame, "another round")
                return
            # One of each host: it may be one that we do not know, and invents lives of its own.
            given = [each for each in action.answers if each.station.host != station.host]
            turn.put(action=replace(action, answers=(*given, GivenReport(station, frame.report))))
            _look(turn)
        case _:
            turn.ignore(frame, "no answer")


def _contend(turn: GateTurn, sl: SuspensionLevel, *, held: bool) -> None:
    action = turn.s.action
    assert action is not None
    if sl <= action.sl:
        return
    if held and sl.station != turn.s.me:
        withdraw(turn)
        return
    # It is only remembered there, from an action that is over: ours goes above it.
    own = SuspensionLevel(sl.counter + 1, turn.s.me)
    turn.put(action=replace(action, sl=own, rounds=0, since=0, answers=(), misses=(), change=None))
    if action.kind == "close" and not action.investigating:
        _propose_close(turn)
    else:
        ask(turn)


def _investigate(turn: GateTurn, failed: Stations) -> None:
    """A failure came to light inside an action: recover under the same suspension (A-071, A-079)."""
    action, base = turn.s.action, base_view(turn)
    assert action is not None
    if base is None:
        turn.note("no_view", "who saw a failure did not say in which view")
        return
    failed = tuple([each for each in failed if each in base.members])
    if action.change is None and action.investigating and set(failed) <= set(action.failed):
        return
    turn.note("restarted", ", ".join(map(str, failed)))
    turn.put(
        action=replace(
            action,
            investigating=True,
            change=None,
            failed=tuple(sorted({*action.failed, *failed})),
            rounds=0,
            since=0,
            flushing=(),
            waited_s=0.0,
            misses=(),
            answers=(),
        )
    )
    ask(turn)


def _answered(turn: GateTurn) -> set[AmpStationId]:
    action = turn.s.action
    assert action is not None
    return {each.station for each in action.answers}


def _look(turn: GateTurn) -> None:
    """Have all answered?"""
    action = turn.s.action
    assert action is not None
    if action.change is None and base_view(turn) is None and action.agreed is None:
        return
    if set(expected(turn)) - _answered(turn):
        return
    if action.change is not None:
        conclude(turn)
    elif action.investigating:
        propose_recovery(turn)
    else:
        _propose_open(turn)


def on_monitor_timer(turn: GateTurn) -> None:
    action = turn.s.action
    if action is None:
        return
    answered = _answered(turn)
    missing = tuple([each for each in expected(turn) if each not in answered])
    end = rounds.ended(turn.config, missing, action.flushing, action.misses, action.waited_s)
    unknown = action.change is None and base_view(turn) is None and action.agreed is None
    turn.put(action=replace(action, misses=end.misses, flushing=(), waited_s=end.waited_s))
    if not end.over or (unknown and action.rounds < turn.config.rounds):
        if action.change is None:
            ask(turn)
        else:
            propose(turn)
        return
    silent = end.silent
    if action.agreed is not None:
        turn.do(FailureReported(silent))
        begin(turn, "agreed", (), action.agreed, action.attempt + 1)
    elif action.change is not None:
        _proposal_exhausted(turn, silent)
    elif action.investigating:
        failed = tuple(sorted({*action.failed, *silent}))
        turn.put(action=replace(action, failed=failed, flushing=()))
        propose_recovery(turn)
    elif base_view(turn) is None and turn.s.exists:
        withdraw(turn)  # a directory knows better
    elif base_view(turn) is None:
        found(turn)
    else:
        _investigate(turn, silent)


def _proposal_exhausted(turn: GateTurn, silent: Stations) -> None:
    action, base = turn.s.action, base_view(turn)
    assert action is not None and action.change is not None
    if not action.investigating:
        _investigate(turn, silent)
    elif turn.config.faults == "bounded":
        turn.put(action=None)  # those who acknowledged have it; the silent ones are next
        suspect(turn, silent, "no response")
    elif turn.config.policy == "majority" and base is not None and has_quorum(base, _answered(turn)):
        conclude(turn)
    elif turn.config.policy == "any":
        _investigate(turn, silent)
    else:
        give_up(turn)


def has_quorum(base: AmpView, stations: set[AmpStationId]) -> bool:
    """More than half of the view, or half of it with its rank 0."""
    count = sum(each in stations for each in base.members)
    return 2 * count > len(base.members) or (2 * count == len(base.members) and base.members[0] in stations)


def give_up(turn: GateTurn) -> None:
    """No majority answers: stay suspended, and try again."""
    turn.note("no_majority")
    turn.cancel("monitor")
    turn.put(action=None)
    if turn.s.view is None:
        turn.timer((turn.config.again_s or turn.config.suspend_s) * (1 + _spread(turn.s.me)), "open")
    else:
        _restart_timer(turn)


def force(turn: GateTurn, members: Stations) -> None:
    """Management decides who goes on (TA24)."""
    base = turn.s.view
    if base is None or turn.s.me not in members:
        turn.ignore(members, "not a member")
        return
    failed = tuple([each for each in base.members if each not in members])
    turn.note("forced", ", ".join(map(str, members)))
    begin(turn, "recover", failed)
    action = turn.s.action
    assert action is not None
    turn.put(action=replace(action, forced=True))


# Then propose


def propose_recovery(turn: GateTurn) -> None:
    action, base = turn.s.action, base_view(turn)
    assert action is not None
    reports = {each.station: each.report for each in action.answers if each.report is not None}
    if action.agreed is not None:
        propose_change(turn, executing.next_change(turn, action.agreed, reports))
        return
    stored = _stored(turn, base)
    if stored is not None:
        _complete(turn, stored)
        return
    old = base.members if base is not None else ()
    failed_before = action.failed if turn.config.faults == "bounded" else ()
    survivors = tuple([each for each in old if each in reports and each not in failed_before])
    assert base is not None
    allowed = turn.config.policy == "any" or turn.config.faults == "bounded" or action.forced
    if not survivors or not (allowed or has_quorum(base, set(survivors))):
        give_up(turn)
        return
    failed = tuple([each for each in old if each not in survivors])
    joining = action.kind == "open" and turn.config.faults == "async"
    members = (*survivors, turn.s.me) if joining else survivors
    view = AmpView(AmpViewId(base.id.number + 1, turn.s.me), members)
    propose_change(turn, make_change(turn, base, view, survivors, failed, reports))


def _stored(turn: GateTurn, base: AmpView | None) -> StoredChange | None:
    """The proposal that may have been accepted already: the one with the highest level. One of a gate needs
    all members, flushed: it was not accepted if any of them has another, or holds an undecided run."""
    action = turn.s.action
    assert action is not None
    reports = [each.report for each in action.answers if each.report is not None]
    found = [each.stored for each in reports if each.stored is not None]
    fitting = [each for each in found if base is not None and each.change.base == base.id]
    views = [each for each in fitting if not each.change.gate]
    if not views and any(report.pending for report in reports):
        return None
    return max(views or fitting, key=lambda each: each.sl, default=None)


def _complete(turn: GateTurn, stored: StoredChange) -> None:
    turn.note("completing", stored.change.view.id.number)
    action = turn.s.action
    assert action is not None
    if turn.s.view is not None and turn.s.me not in stored.change.view.members and action.kind != "close":
        installing.fence(turn, "not in the next view")
        return
    propose_change(turn, stored.change)


def make_change(
    turn: GateTurn,
    base: AmpView | None,
    view: AmpView,
    survivors: Stations,
    failed: Stations,
    reports: Mapping[AmpStationId, StationReport],
    body: bytes = b"",
) -> ViewChange:
    outcomes = exception_decisions(turn.config, survivors, reports)
    accepted = {each.data for each in outcomes if each.accept}
    delivered = 0
    if survivors:
        first = reports[survivors[0]]
        delivered = first.ready + sum(each.messages for each in first.pending if each.data in accepted)
    entries: dict[AmpStationId, DecidedEntry] = {}
    for each in [*reports.values()]:
        for entry in each.table:
            before = entries.get(entry.sa, DecidedEntry(entry.sa))
            entries[entry.sa] = DecidedEntry(
                entry.sa,
                max(before.decided, entry.decided),
                *max((before.accepted, before.position), (entry.accepted, entry.position)),
                max(before.mtn, entry.mtn),
            )
    for outcome in outcomes:
        before = entries.get(outcome.data.sa, DecidedEntry(outcome.data.sa))
        entries[outcome.data.sa] = replace(before, decided=max(before.decided, outcome.data.mdn))
    table = tuple([entries[sa] for sa in sorted(entries) if sa in view.members])
    clock = max([each.clock for each in reports.values()], default=0)
    old = base.id if base is not None else None
    return ViewChange(old, view, failed, outcomes, table, clock, delivered, body=body)


def exception_decisions(
    config: AmpConfig, survivors: Stations, reports: Mapping[AmpStationId, StationReport]
) -> tuple[RunOutcome, ...]:
    """A decision for every run that any answer reports undecided, whether its emitter is dead or alive
    (A-069, A-070)."""
    pending = sorted({each.data for report in reports.values() for each in report.pending})
    return tuple([_outcome(config, data, survivors, reports) for data in pending])


def _outcome(
    config: AmpConfig, data: DataId, survivors: Stations, reports: Mapping[AmpStationId, StationReport]
) -> RunOutcome:
    own = reports.get(data.sa)
    if own is not None and own.last is not None and own.last.data == data:
        return own.last
    for report in reports.values():
        for entry in report.table:
            if entry.sa == data.sa and entry.accepted == data.mdn:
                return RunOutcome(data, accept=True, position=entry.position)
    places = [each.position for member in survivors for each in reports[member].pending if each.data == data]
    transmitting = own is not None and own.transmitting == data
    # On a medium members may hold different copies, which have different places.
    if transmitting and len(places) == len(survivors) and config.order == "negotiated":
        return RunOutcome(data, accept=True, position=max(places))
    return RunOutcome(data, accept=False)


def _propose_open(turn: GateTurn) -> None:
    base, action = base_view(turn), turn.s.action
    assert base is not None and action is not None
    reports = {each.station: each.report for each in action.answers if each.report is not None}
    view = AmpView(AmpViewId(base.id.number + 1, turn.s.me), (*base.members, turn.s.me))
    propose_change(turn, replace(make_change(turn, base, view, base.members, (), reports), gate=True))


def _propose_close(turn: GateTurn) -> None:
    base = turn.s.view
    assert base is not None
    members = tuple([each for each in base.members if each != turn.s.me])
    view = AmpView(AmpViewId(base.id.number + 1, turn.s.me), members)
    propose_change(turn, ViewChange(base.id, view, gate=True))


def propose_change(turn: GateTurn, change: ViewChange) -> None:
    action = turn.s.action
    assert action is not None
    fresh = replace(
        action, change=change, rounds=0, since=0, flushing=(), waited_s=0.0, misses=(), answers=()
    )
    turn.put(action=fresh)
    propose(turn)


def propose(turn: GateTurn) -> None:
    action = turn.s.action
    assert action is not None and action.change is not None
    mtn = turn.next_mtn()
    turn.put(action=replace(action, mtn=mtn, since=action.since or mtn, rounds=action.rounds + 1))
    change = action.change
    if action.investigating:
        extra = RESUME if turn.config.faults == "bounded" else 0
    else:
        extra = FLUSH | WAIT
    control = turn.control(ACK | SUSPEND | extra, 0, mtn, action.sl)
    control = replace(control, view=change.base)
    if action.investigating:
        turn.cast(NewViewFrame(control, change))
    elif action.kind == "open":
        turn.cast(OpenGateFrame(control, change))
    else:
        turn.cast(CloseGateFrame(control, change))
    turn.timer(_patience_s(turn), "monitor")


def conclude(turn: GateTurn) -> None:
    """All that must have acknowledged: the accept ends the suspension (A-072)."""
    action = turn.s.action
    assert action is not None and action.change is not None
    turn.cancel("monitor")
    if action.investigating and turn.config.faults == "bounded":
        turn.put(action=None)  # it was applied with the acknowledgement
        if action.kind == "open":
            begin(turn, "open")
        return
    control = replace(turn.control(RESUME, 0, turn.next_mtn()), view=action.change.base)
    turn.cast(DecisionFrame(control, accept=True, change=action.change))


def found(turn: GateTurn) -> None:
    """No member answered, or there is none to ask: we are the first (A-080)."""
    view = AmpView(AmpViewId(1, turn.s.me), (turn.s.me,))
    installing.install(turn, ViewChange(None, view))
