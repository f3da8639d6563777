"""Views that agreed membership has decided, carried out by the group's monitor (A-089).

    servers agree on view n ──▶ every station in it: ViewExecuted(n)
    rank 0 of n ── INVESTIGATE ──▶ all of n: frozen, report ── NEWVIEW n ──▶ stored ── accept ──▶ installed

Both rounds need the answer of every station of the agreed view. So a station that goes on can have missed
only the accept: it has stored the proposal, and is one view behind. The next monitor completes that view
first. A station freezes only for a view that its own servers have sent it, and only if the first station of
that view asks.

A silent station is asked until membership removes it. A station whose view is not among the predecessors of
the most senior station's view was behind a partition: the group went on without it.
"""

from collections.abc import Mapping

from rostra.protocols.atomic import emitter, installing, monitor
from rostra.protocols.atomic.amp_config import AGREED_SHIFT
from rostra.protocols.atomic.amp_state import FlushWait, GateTurn, ViewExecuted
from rostra.protocols.atomic.frames import (
    AmpStationId,
    AmpView,
    AmpViewId,
    DecisionRequestFrame,
    FrameRef,
    InvestigateFrame,
    NewViewFrame,
    StationReport,
    ViewChange,
)
from rostra.protocols.atomic.requests import WENT_ON

Reports = Mapping[AmpStationId, StationReport]


def on_executed(turn: GateTurn, event: ViewExecuted) -> None:
    """There is a new view. Its rank 0 carries it out; a newer one takes over from an older."""
    s = turn.s
    newest = max([each.number for each in s.agreed], default=s.view.id.number if s.view else 0)
    if not turn.config.executes or event.number <= newest or not event.members:
        turn.ignore(event, "known view")
    elif s.me not in event.members:
        if s.standing != "closed":
            installing.close(turn, "left" if s.standing == "closing" else "excluded")
    else:
        turn.put(agreed=(event,))
        if s.action is not None:
            turn.cancel("monitor")
            turn.put(action=None)


def schedule(turn: GateTurn) -> None:
    """A view comes before messages, and waits for no transfer: one may be stuck without that view."""
    s = turn.s
    if s.action is not None:
        return
    if s.agreed and s.agreed[-1].members[0] == s.me:
        monitor.begin(turn, "agreed", (), s.agreed[-1])
    elif s.view is not None and s.suspended is None and s.transfer is None and s.waiting:
        emitter.begin(turn)


def on_monitor_frame(turn: GateTurn, frame: InvestigateFrame | NewViewFrame) -> None:
    s, control = turn.s, frame.control
    ref = FrameRef(control.sa, 0, control.mtn)
    newest = s.agreed[-1] if s.agreed else None
    if control.sl is None or s.standing == "closed":
        turn.ignore(frame, "gate is not open")
        return
    number = control.sl.counter >> AGREED_SHIFT
    if s.view is not None and number <= s.view.id.number:
        turn.ignore(frame, "older view")
    elif newest is None or newest.number < number:
        turn.respond(control.sa, ref, "FLUSHING")  # our servers have not told us of it yet
    elif newest.number > number or newest.members[0] != control.sa:
        turn.ignore(frame, "older view")
    elif monitor.take_suspension(turn, control, ref):
        if isinstance(frame, InvestigateFrame):
            installing.freeze(turn, control.sa, ref)
        else:
            _proposed(turn, frame, ref)


def _proposed(turn: GateTurn, frame: NewViewFrame, ref: FrameRef) -> None:
    s, control, change = turn.s, frame.control, frame.change
    if s.view is not None and change.view.id == s.view.id:
        turn.respond(control.sa, ref, "CAN_ACCEPT")  # applied already
    elif s.view is not None and change.base != s.view.id:
        installing.fence(turn, WENT_ON)
    elif s.me not in change.view.members:
        turn.ignore(frame, "not in that view")
    else:
        assert control.sl is not None
        installing.store(turn, FlushWait(control.sa, ref, "store", control.sl, change))


def learn(turn: GateTurn, change: ViewChange) -> None:
    """A change that was accepted, from its monitor or from a member that has it. What we have not stored was
    not accepted with us in it."""
    s = turn.s
    if s.view is not None and change.view.id == s.view.id:
        _completed(turn, change)
        turn.ignore(change, "known view")
    elif s.stored is None or s.stored.change.view.id != change.view.id:
        _completed(turn, change)
        turn.ignore(change, "not in that view")
    else:
        installing.install(turn, s.stored.change)


def _completed(turn: GateTurn, change: ViewChange) -> None:
    """A view before the agreed one, that we have already or are not in: those that lacked it have it now, and
    our own is next."""
    if turn.s.action is not None and turn.s.action.change == change:
        turn.cancel("monitor")
        turn.put(action=None)


# A lost accept


def ask_view(turn: GateTurn) -> None:
    """We have stored a view, and its monitor is silent: was it accepted?"""
    if (stored := turn.s.stored) is not None:
        ref = FrameRef(stored.sl.station, 0)
        turn.post(stored.sl.station, DecisionRequestFrame(turn.control(), ref))


def on_view_request(turn: GateTurn, frame: DecisionRequestFrame) -> None:
    s, asker = turn.s, frame.control.sa
    if s.view is None or asker not in s.view.members or frame.control.view == s.view.id:
        turn.ignore(frame, "not a member")
    else:
        turn.respond(asker, frame.ref, "NEWER", change=s.applied)


# What is proposed


def next_change(turn: GateTurn, agreed: ViewExecuted, reports: Reports) -> ViewChange:
    """All stations of the agreed view have reported. A view that may have been accepted comes first."""
    ranked = [(id, reports[id]) for id in agreed.members]
    senior = next((each.view for _, each in ranked if each.view is not None), None)
    view = AmpView(AmpViewId(agreed.number, agreed.members[0]), agreed.members)
    if senior is not None and (unfinished := _unfinished(senior, [each for _, each in ranked])) is not None:
        turn.note("completing", unfinished.view.id.number)
        return unfinished
    old = senior.members if senior is not None else ()
    counted = {id: each for id, each in ranked if each.view is None or each.view == senior}
    survivors = tuple([id for id, each in counted.items() if each.view is not None])
    failed = tuple([each for each in old if each not in agreed.members])
    return monitor.make_change(turn, senior, view, survivors, failed, counted, agreed.body)


def _unfinished(senior: AmpView, reports: list[StationReport]) -> ViewChange | None:
    stored = [each.stored for each in reports if each.stored is not None]
    views = {each.view.id for each in reports if each.view is not None}
    line = [each for each in stored if senior.id in (each.change.base, each.change.view.id)]
    accepted = [each for each in line if each.change.view.id in views]
    ahead = [each for each in line if each.change.base == senior.id]
    return max(accepted or ahead, key=lambda each: each.sl).change if accepted or ahead else None
