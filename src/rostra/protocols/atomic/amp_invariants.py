"""What must hold of a group with AMp (A-100 to A-108): of one gate after every event, and of all logs.

A log is what a user of one station saw: messages and views, in order. Logs are compared view by view: members
that went on from one view to the next must have delivered the same in it, in one order.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rostra.protocols.atomic.amp_state import GateState, RunDelivered, ViewIndicated
from rostra.protocols.atomic.frames import AmpStationId, AmpView, AmpViewId, DataId


class LogMark(Struct, frozen=True):
    """Something in a log that is neither a message nor a view: crash, closed."""

    what: str
    because: str = ""


class DeliveredRun(Struct, frozen=True):
    data: DataId
    items: tuple[bytes, ...]
    position: int
    at: float = 0.0


class ViewLog(Struct):
    """What one station delivered in one view."""

    view: AmpView
    at: float = 0.0
    runs: list[DeliveredRun] = []


class AmpLog:
    def __init__(self) -> None:
        self.views: list[ViewLog] = []
        self.marks: list[LogMark] = []

    def viewed(self, at: float, effect: ViewIndicated) -> None:
        self.views.append(ViewLog(effect.view, at, []))

    def delivered(self, at: float, effect: RunDelivered) -> None:
        self.views[-1].runs.append(DeliveredRun(effect.data, effect.items, effect.position, at))

    def messages(self) -> list[bytes]:
        """The messages of the common order, from the first view on."""
        return [item for view in self.views for run in view.runs if run.position for item in run.items]

    def runs(self) -> list[DeliveredRun]:
        return [run for view in self.views for run in view.runs]


Logs = Mapping[AmpStationId, AmpLog]


def violations_of(state: GateState) -> list[str]:
    """IA-7, and what else one gate can break by itself."""
    found = []
    undecided = [each.data.sa for each in state.queue if not each.decided]
    if len(undecided) != len(set(undecided)):
        found.append(f"IA-7: {state.me} holds two undecided runs of one emitter")
    decided = {each.sa: each.decided for each in state.table}
    found += [
        f"IA-7: {state.me} holds {each.data.sa} {each.data.mdn}, which is decided"
        for each in state.queue
        if not each.decided and each.data.mdn <= decided.get(each.data.sa, 0)
    ]
    return found


def check_logs(logs: Logs, sent: Sequence[tuple[AmpStationId, tuple[bytes, ...]]] | None = None) -> list[str]:
    """All that logs can show: IA-1 to IA-6 and IA-8."""
    return [
        *one_successor(logs),
        *view_synchrony(logs),
        *total_order(logs),
        *integrity(logs, sent),
    ]


def one_successor(logs: Logs) -> list[str]:
    """IA-8: equal ids mean equal members, and one view has one successor."""
    members: dict[AmpViewId, tuple[AmpStationId, ...]] = {}
    after: dict[AmpViewId, AmpViewId] = {}
    found = []
    for who, log in logs.items():
        for place, each in enumerate(log.views):
            if members.setdefault(each.view.id, each.view.members) != each.view.members:
                found.append(f"IA-8: {who} has other members in view {each.view.id.number}")
            if place:
                before = log.views[place - 1].view.id
                if after.setdefault(before, each.view.id) != each.view.id:
                    found.append(f"IA-8: two views follow view {before.number}, one of them at {who}")
    return found


def view_synchrony(logs: Logs) -> list[str]:
    """IA-2, IA-4, IA-6: members that go on from a view together delivered the same in it."""
    found = []
    went_on: dict[tuple[AmpViewId, AmpViewId], tuple[AmpStationId, list[DataId], set[DataId]]] = {}
    for who, log in logs.items():
        for this, following in zip(log.views, log.views[1:], strict=False):
            ordered = [run.data for run in this.runs if run.position]
            loose = {run.data for run in this.runs if not run.position}
            key = this.view.id, following.view.id
            if key not in went_on:
                went_on[key] = who, ordered, loose
                continue
            other, theirs, also = went_on[key]
            if ordered != theirs:
                found.append(f"IA-6: in view {this.view.id.number} {who} and {other} delivered differently")
            if loose != also:
                found.append(f"IA-2: in view {this.view.id.number} {who} and {other} delivered other runs")
    return found


def total_order(logs: Logs) -> list[str]:
    """IA-1: within one view members deliver one sequence, or a beginning of it. Of a station that failed or
    was excluded in that view, the tail is in doubt (TA10): what it has in common stands in one order."""
    found = []
    by_view: dict[AmpViewId, list[tuple[AmpStationId, list[DeliveredRun], bool]]] = {}
    for who, log in logs.items():
        for place, each in enumerate(log.views):
            runs = [run for run in each.runs if run.position]
            last = place == len(log.views) - 1 and bool(log.marks)
            by_view.setdefault(each.view.id, []).append((who, runs, last))
    for view, lists in by_view.items():
        longest = max(lists, key=lambda each: (not each[2], len(each[1])))[1]
        for who, runs, ended in lists:
            theirs = longest[: len(runs)]
            if ended:
                both = {run.data for run in runs}.intersection([run.data for run in longest])
                runs = [run for run in runs if run.data in both]
                theirs = [run for run in longest if run.data in both]
            if [run.data for run in runs] != [run.data for run in theirs]:
                found.append(f"IA-1: in view {view.number} {who} has another order")
            elif not ended and [run.position for run in runs] != [run.position for run in theirs]:
                found.append(f"IA-1: in view {view.number} {who} has other positions")
    return found


def integrity(logs: Logs, sent: Sequence[tuple[AmpStationId, tuple[bytes, ...]]] | None = None) -> list[str]:
    """IA-3 and the emitter's part of IA-5: once, only what was sent, in the order of its emitter."""
    found = []
    known = {(who, item) for who, items in sent for item in items} if sent is not None else None
    for who, log in logs.items():
        runs = log.runs()
        if len({run.data for run in runs}) != len(runs):
            found.append(f"IA-3: {who} delivered a run twice")
        last: dict[AmpStationId, int] = {}
        for run in runs:
            if run.position and last.get(run.data.sa, 0) > run.data.mdn:
                found.append(f"IA-5: {who} delivered {run.data.sa} {run.data.mdn} after a later one")
            if run.position:
                last[run.data.sa] = run.data.mdn
            if known is not None and any((run.data.sa, item) not in known for item in run.items):
                found.append(f"IA-3: {who} delivered what {run.data.sa} did not send")
    return found


def at_rest(states: Sequence[GateState]) -> list[str]:
    """IA-9, when faults have stopped and time has passed: nothing is undecided, and no station is
    suspended."""
    return [
        f"IA-9: {state.me} {what}"
        for state in states
        if state.view is not None
        for what, wrong in (
            ("holds an undecided run", any(not each.decided for each in state.queue)),
            ("is suspended", state.suspended is not None),
            ("has a transfer", state.transfer is not None),
        )
        if wrong
    ]
