"""Reports before the view is agreed: one flush for both (`[agreed] early_flush`).

    the servers propose a view without the orderer ── ViewComing ──▶ stations: HubReport(early) to the first
        one, and the old orderer is ignored from here on; HubAsk(early) to stations that have not reported
    the view is agreed ──▶ all reports are there: a new epoch begins at once
    it is not, within a bound ── HubAsk(release) ──▶ the others: accept the old orderer's runs again

A station reports early only for views that its own server has told it of, and to their first station: no host
of the group makes it stop on its own.

A station that has reported early takes nothing of the old epoch until the receiver of its report releases it,
or another living view is agreed. So if the proposed view is agreed, the station's log is as reported.
Messages that it refused meanwhile are requested again, like lost ones. The first station never uses a report
for a view that it gave up. If the view is agreed on a side that a station does not see, the station remembers
where its log ended and does not continue from another place (`_is_astray`).

Used only in groups of which at most one side goes on: there, of two views with the same predecessor, only one
can live.

Where we differ from the design: there the reports travel in `Ack` and the decision in `Commit`, and servers
wait for their hosts. Here reports are separate messages, so no agreement waits for a host.
"""

from typing import Final

from msgspec.structs import replace

from rostra.core.effects import Effect, Ignored, Instant
from rostra.names import Domain
from rostra.protocols.atomic.hub_flush import HubFlush
from rostra.protocols.atomic.messages import HubAsk, HubReport, StationId, ViewKey
from rostra.protocols.atomic.state import AgreedNow, EarlyReports, StationFollows

EARLY_S: Final = 2.0
"""So long a view that is proposed may take, before stations hear their old orderer again. Raising it: if the
servers withdraw it, the group stands still for longer."""

PROMISES_MAX: Final = 4
VOID_MAX: Final = 16


class HubEarly(HubFlush):
    """A station while the servers agree."""

    @property
    def _may_promise(self) -> bool:
        return (
            self.early_flush
            and self.disk is None
            and self._stable != "sent"
            and self.agreed is not None
            and self.agreed.is_exclusive
            and isinstance(self.stage, StationFollows)
            and self.log.next > self.stage.mark
        )

    def coming(self, now: Instant, view: AgreedNow, out: list[Effect]) -> None:
        """A view that is proposed, in which we stay."""
        is_first = view.first == self.me
        self._proposed[view.key] = view.first
        while len(self._proposed) > VOID_MAX:
            del self._proposed[next(iter(self._proposed))]
        if self._early is not None and self._early.view.key == view.key:
            return
        if (
            not self._may_follow(view.first, view.key)
            or self.orderer in view.stations
            or (is_first and view.key in self._void)
        ):
            out.append(Ignored("ViewComing", "it changes nothing here"))
            return
        self._promise(view.key, view.first)
        if is_first:
            self._give_up_early(out)
            self._early = EarlyReports(view, {self.me: self._early_report(view.key)}, now)
        else:
            self._post(view.first.host, self._early_report(view.key), out)
        self._end(now, out)

    def _ask_early(self, out: list[Effect]) -> None:
        assert self._early is not None
        for each in self._early.view.stations:
            if each not in self._early.reports:
                self._post(each.host, HubAsk(self._early.view.key, early=True), out)

    def _promise(self, view: ViewKey, to: StationId) -> None:
        self._promises[view] = to
        self._vows.setdefault(view, self.log.next)
        while len(self._vows) > VOID_MAX:
            del self._vows[next(iter(self._vows))]

    def _early_report(self, view: ViewKey) -> HubReport:
        return replace(self._own_report(), view=view, early=True)

    def _give_up_early(self, out: list[Effect]) -> None:
        """What was reported for it is used no more: those who did hear their orderer again."""
        early, self._early = self._early, None
        if early is None:
            return
        key = early.view.key
        self._void = (*self._void, key)[-VOID_MAX:]
        self._promises.pop(key, None)
        self._vows.pop(key, None)
        for each in early.view.stations:
            if each != self.me:
                self._post(each.host, HubAsk(key, release=True), out)

    def _asked_early(self, now: Instant, source: Domain, ask: HubAsk, out: list[Effect]) -> None:
        """By the first station of a view that is proposed: our report was lost, or could not be made yet."""
        assert self.agreed is not None
        to = next((each for each in self.agreed.stations if each.host == source), None)
        if ask.release:
            if to is not None and self._promises.get(ask.view) == to:
                del self._promises[ask.view]
                self._vows.pop(ask.view, None)
                self._says_have = self._progress = True
                self._end(now, out)
        elif to is None or self._proposed.get(ask.view) != to or not self._may_follow(to, ask.view):
            out.append(Ignored("HubAsk", "not early"))
        else:
            self._promise(ask.view, to)
            self._post(source, self._early_report(ask.view), out)
            self._end(now, out)

    def _may_follow(self, to: StationId, view: ViewKey) -> bool:
        assert self.agreed is not None
        return (
            self._may_promise
            and to != self.orderer
            and view.number == self.agreed.key.number + 1
            and (view in self._promises or len(self._promises) < PROMISES_MAX)
        )

    def _reported_early(self, source: Domain, report: HubReport, out: list[Effect]) -> None:
        """To the station that has asked; or to one that does so no more, and says it again."""
        id, early = StationId(source, report.life), self._early
        if early is None or early.view.key != report.view:
            self._post(source, HubAsk(report.view, release=True), out)
        elif id in early.view.stations:
            early.reports[id] = report
        else:
            out.append(Ignored("HubReport", "not in the view"))

    def _say_early_again(self, now: Instant, out: list[Effect]) -> None:
        if self._early is not None:
            if now - self._early.since >= EARLY_S:
                self._give_up_early(out)
            else:
                self._ask_early(out)
        for view, to in sorted(self._promises.items()):
            if to != self.me:
                self._post(to.host, self._early_report(view), out)

    def _view_changed(self, now: Instant, out: list[Effect]) -> None:
        """It is agreed; or another one, and lives: so this one does not, or comes before it."""
        super()._view_changed(now, out)
        self._promises.clear()
        self._proposed.clear()
        if self._early is not None and self.agreed is not None and self._early.view.key != self.agreed.key:
            self._give_up_early(out)
        self._early = None

    def _reports_before(self) -> dict[StationId, HubReport]:
        early, agreed = self._early, self.agreed
        if early is None or agreed is None or early.view.key != agreed.key:
            return {}
        return {id: replace(each, early=False) for id, each in early.reports.items()}
