"""A gate: one station's port into one group, as one core.

    GateAsked ──▶ opening ── GETVIEW, OPENGATE, accept ──▶ open ── CLOSEGATE, accept ──▶ closed
                     └ no answer: it is the first member       └ excluded: fenced, and closed

Opening and closing are actions of the monitor (`monitor.py`); what is here decides which machine an event is
for. A frame is looked at in the view that it names: from an older one it is answered `NEWER`, so that a
member that missed an accept follows (A-099), and from a station that is not in the view `NOT_MEMBER` (A-013).
"""

from rostra.core.effects import Effect, Event, Instant, TimerFired
from rostra.names import Domain, Group
from rostra.protocols.atomic import access, emitter, executing, installing, monitor, receiver
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.amp_state import (
    AccessExceeded,
    AccessGained,
    AccessLost,
    FrameReceived,
    GateAsked,
    GateLeft,
    GateState,
    GateTurn,
    RunGiven,
    StationSuspected,
    ViewExecuted,
    ViewForced,
)
from rostra.protocols.atomic.frames import (
    AmpStationId,
    AnyAmpFrame,
    BeaconFrame,
    CloseGateFrame,
    DataFrame,
    DataId,
    DecisionFrame,
    DecisionRequestFrame,
    FrameRef,
    GetViewFrame,
    InvestigateFrame,
    NewViewFrame,
    OpenGateFrame,
    PendingFrame,
    ResponseFrame,
)

Effects = list[Effect]


def step(config: AmpConfig, state: GateState, now: Instant, event: Event) -> tuple[GateState, Effects]:
    """One event at one gate. Nothing outside of the state is read or changed."""
    turn = GateTurn(config, state, now)
    _handle(turn, event)
    while True:
        while turn.own:
            on_frame(turn, turn.own.popleft())
        before = turn.s
        _schedule(turn)
        if not turn.own and turn.s is before:
            return turn.s, turn.effects


def _handle(turn: GateTurn, event: Event) -> None:
    match event:
        case FrameReceived(source, frame):
            if frame.control.sa.host != source or frame.control.group != turn.s.group:
                turn.ignore(frame, "not from there")
            elif frame.control.sa == turn.s.me and turn.config.order != "medium":
                turn.ignore(frame, "our own")
            else:
                on_frame(turn, frame)
        case TimerFired(timer):
            _on_timer(turn, timer[1:])
        case RunGiven():
            emitter.on_given(turn, event)
        case GateAsked(exists):
            _open(turn, exists)
        case GateLeft():
            _leave(turn)
        case AccessLost(cause) if cause in access.LIMITS:
            turn.put(access=access.lost(turn.s.access, turn.now, cause))
            turn.timer(access.LIMITS[cause].longest_s, "access")
            _check_access(turn)
        case AccessGained(cause):
            turn.put(access=access.gained(turn.s.access, cause))
        case StationSuspected(station):
            monitor.suspect(turn, (station,), "reported")
        case ViewExecuted():
            executing.on_executed(turn, event)
        case ViewForced(members):
            monitor.force(turn, members)
        case _:
            turn.ignore(event, "unknown event")


def _schedule(turn: GateTurn) -> None:
    """What comes next, if nothing is being done: the monitor's work before a user's (A-034)."""
    s = turn.s
    if turn.config.executes:
        executing.schedule(turn)
        return
    if s.action is not None or s.view is None:
        return
    if s.transfer is not None and s.transfer.phase != "stalled" and not turn.frozen:
        return
    if s.suspended is not None and s.suspended.sl != s.block:
        return
    suspects = tuple([each for each in s.suspects if each in turn.members])
    if suspects:
        monitor.begin(turn, "recover", suspects)
    elif s.transfer is None and s.waiting:
        emitter.begin(turn)
    elif s.transfer is None and s.standing == "closing" and not s.waiting:
        if turn.members == (s.me,):
            installing.close(turn, "left")
        else:
            monitor.begin(turn, "close")


# Opening and closing


def _open(turn: GateTurn, exists: bool | None) -> None:
    if turn.s.standing != "closed":
        turn.ignore(GateAsked(), "gate is open")
        return
    turn.put(standing="opening", exists=exists)
    if exists is False:
        monitor.found(turn)
    elif not turn.config.executes:
        monitor.begin(turn, "open")


def _leave(turn: GateTurn) -> None:
    if turn.config.executes and turn.s.standing != "closed":
        installing.close(turn, "left")  # the others hear of it from membership
    elif turn.s.standing == "open":
        turn.put(standing="closing")
    elif turn.s.standing == "opening":
        installing.close(turn, "left")
    else:
        turn.ignore(GateLeft(), "gate is not open")


def _check_access(turn: GateTurn) -> None:
    if turn.s.standing == "open" and (cause := access.exceeded(turn.s.access, turn.now)):
        turn.note("access_exceeded", cause)
        if turn.config.reports_access:
            turn.do(AccessExceeded(cause))
        else:
            _leave(turn)


# Frames


def on_frame(turn: GateTurn, frame: AnyAmpFrame) -> None:
    s, sa = turn.s, frame.control.sa
    if s.suspended is not None and sa not in s.heard and sa in turn.members:
        turn.put(heard=tuple(sorted([*s.heard, sa])))
    match frame:
        case ResponseFrame():
            _on_response(turn, frame)
        case DecisionRequestFrame():
            emitter.on_decision_request(turn, frame)
        case BeaconFrame():
            _on_beacon(turn, frame)
        case InvestigateFrame() | NewViewFrame() if turn.config.executes:
            executing.on_monitor_frame(turn, frame)
        case DecisionFrame(change=change) if turn.config.executes and change is not None:
            executing.learn(turn, change)
        case GetViewFrame() | OpenGateFrame() | CloseGateFrame() if turn.config.executes:
            turn.ignore(frame, "views are agreed elsewhere")
        case GetViewFrame():
            installing.on_get_view(turn, frame)
        case _ if turn.s.view is None:
            _before_view(turn, frame)
        case _ if _in_view(turn, frame):
            _dispatch(turn, frame)


def _before_view(turn: GateTurn, frame: AnyAmpFrame) -> None:
    """We are coming in: only what brings our first view is for us."""
    match frame:
        case DecisionFrame(change=change) if change is not None and turn.s.standing == "opening":
            if turn.s.me in change.view.members:
                installing.learn(turn, change)
        case OpenGateFrame() | NewViewFrame() if (
            turn.s.standing == "opening" and turn.s.me in frame.change.view.members
        ):
            installing.on_proposal(turn, frame)
        case DataFrame() if turn.s.standing == "closed":
            control = frame.control
            turn.respond(control.sa, FrameRef(control.sa, control.mdn, control.mtn), "NOT_MEMBER")
        case _:
            turn.ignore(frame, "gate is not open")


def _in_view(turn: GateTurn, frame: AnyAmpFrame) -> bool:
    """Is it from our view? Those behind are brought up to date, those outside are told."""
    view, control = turn.s.view, frame.control
    assert view is not None
    ref = FrameRef(control.sa, control.mdn, control.mtn)
    known = control.view
    if known == view.id:
        if isinstance(frame, DataFrame) and control.sa not in view.members:
            turn.respond(control.sa, ref, "NOT_MEMBER")
            return False
        return True
    if isinstance(frame, OpenGateFrame | CloseGateFrame | NewViewFrame) and frame.change.view.id == view.id:
        turn.respond(control.sa, ref, "CAN_ACCEPT")  # applied already
        return False
    if isinstance(frame, DecisionFrame) and frame.change is not None:
        if frame.change.base == view.id or frame.change.view.id > view.id:
            installing.learn(turn, frame.change)
        else:
            turn.ignore(frame, "known view")
        return False
    if isinstance(frame, DecisionFrame) and receiver.is_undecided(turn, DataId(control.sa, control.mdn)):
        return True  # its emitter has a newer view, and the run is of ours
    if known is None or known.number < view.id.number:
        turn.ignore(frame, "older view")
        if control.sa in view.members:
            turn.respond(control.sa, ref, "NEWER", change=turn.s.applied)
        else:
            turn.respond(control.sa, ref, "NOT_MEMBER")
    elif known.number > view.id.number:
        turn.ignore(frame, "newer view")
        turn.respond(control.sa, ref, "FLUSHING")  # and it will answer that there is a newer one
    else:
        turn.ignore(frame, "foreign view")
    return False


def _dispatch(turn: GateTurn, frame: AnyAmpFrame) -> None:
    match frame:
        case DataFrame():
            receiver.on_data(turn, frame)
        case DecisionFrame(change=None):
            receiver.on_decision(turn, frame)
        case DecisionFrame(change=change) if change is not None:
            installing.learn(turn, change)
        case PendingFrame():
            receiver.on_pending(turn, frame)
        case InvestigateFrame():
            installing.on_investigate(turn, frame)
        case OpenGateFrame() | CloseGateFrame() | NewViewFrame():
            installing.on_proposal(turn, frame)
        case _:
            turn.ignore(frame, "unknown frame")


def _on_response(turn: GateTurn, frame: ResponseFrame) -> None:
    s, control = turn.s, frame.control
    if frame.answer == "NOT_MEMBER":
        if turn.config.executes:
            turn.ignore(frame, "views are agreed elsewhere")
        else:
            _on_not_member(turn, frame)
        return
    if frame.answer == "NEWER":
        if frame.change is not None and (s.view is not None or turn.config.executes):
            installing.learn(turn, frame.change)
        return
    if frame.ref.sa != s.me:
        turn.ignore(frame, "not for us")
        return
    if turn.config.executes and frame.ref.mdn == 0:
        monitor.on_answer(turn, frame)
        return
    if s.view is not None and control.view is not None and control.view.number < s.view.id.number:
        turn.ignore(frame, "older view")
        if control.sa in s.view.members:
            turn.respond(control.sa, frame.ref, "NEWER", change=s.applied)
        if frame.answer != "FLUSHING":
            return
    if frame.ref.mdn == 0:
        monitor.on_answer(turn, frame)
    else:
        emitter.on_response(turn, frame)


def _on_not_member(turn: GateTurn, frame: ResponseFrame) -> None:
    """Either we are out, or a station that we waited for has restarted and remembers nothing (TA6)."""
    s, control = turn.s, frame.control
    if frame.ref.sa == s.me:
        view = control.view
        if s.view is not None and view is not None and view.number > s.view.id.number:
            installing.fence(turn, "not a member")
        elif control.sa.host in [each.host for each in turn.members if each != control.sa]:
            _restarted(turn, control.sa)
        else:
            turn.ignore(frame, "no newer view")
    elif frame.ref.sa.host == control.sa.host and frame.ref.sa != control.sa:
        _restarted(turn, control.sa)
    else:
        turn.ignore(frame, "not for us")


def _restarted(turn: GateTurn, now: AmpStationId) -> None:
    earlier = tuple([each for each in turn.members if each.host == now.host and each != now])
    monitor.suspect(turn, earlier, "restarted")


def _on_beacon(turn: GateTurn, frame: BeaconFrame) -> None:
    """Two groups of one name: the smaller one gives up, and its members open their gates again (A-082)."""
    view, control = turn.s.view, frame.control
    if view is None or control.view is None or control.view == view.id or control.sa in view.members:
        turn.ignore(frame, "own group")
        return
    if (len(view.members), view.members[0]) < (frame.size, control.sa):
        installing.fence(turn, "a larger group of this name exists")
    else:
        turn.ignore(frame, "smaller group")


# Timers


def _on_timer(turn: GateTurn, timer: tuple[str | int, ...]) -> None:
    match timer:
        case ("round",):
            emitter.on_round_timer(turn)
        case ("decision", str(host), int(life)):
            receiver.on_wait_timer(turn, AmpStationId(Domain(host), life))
        case ("monitor",):
            monitor.on_monitor_timer(turn)
        case ("suspended",):
            monitor.on_suspend_timer(turn)
        case ("majority",):
            monitor.on_majority_timer(turn)
        case ("open",):
            if turn.s.standing == "opening" and turn.s.action is None:
                turn.put(suspended=None, stored=None)
                monitor.begin(turn, "open")
        case ("access",):
            _check_access(turn)
        case ("beacon",):
            view = turn.s.view
            if view is not None and view.members[0] == turn.s.me:
                turn.cast(BeaconFrame(turn.control(), len(view.members)))
                turn.timer(turn.config.beacon_s, "beacon")


class AmpGate:
    """A gate that keeps its state, for drivers."""

    def __init__(self, config: AmpConfig, me: AmpStationId, group: Group) -> None:
        self.config = config
        self.state = GateState(me, group)

    def step(self, now: Instant, event: Event) -> Effects:
        self.state, effects = step(self.config, self.state, now, event)
        return effects
