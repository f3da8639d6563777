"""Watches of programs: the agent follows each watched group once, with an endpoint of its own.

    program ── Watch ──▶ Watching ── Watch, as the agent's own endpoint ──▶ node
            ◀── Snapshot, Changed ── Watches ◀── notices to that endpoint ────┘

The endpoint is opened with the first watch. Its notices go to `Watches`, which numbers them, keeps the
latest, and sends them to all watchers.
"""

from typing import TYPE_CHECKING, Any, Final

from rostra.core.effects import Effect
from rostra.errors import NotMember
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.front.events import WatchBegan, WatchEnded
from rostra.protocols.front.session import ProgramSession
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import Denied, Done, Open, Opened, Unwatch, Watch, denied
from rostra.protocols.relaxed.watches import Watches

if TYPE_CHECKING:
    from rostra.protocols.front.core import FrontCore

OWN_NAME: Final = "rostra.watch"
"""What the agent calls the endpoint with which it follows groups; with a number, if a program was first."""


class WatchTable:
    def __init__(self, front: "FrontCore", host: Domain, config: RelaxedConfig) -> None:
        self.watches = Watches(host, config)
        self.own: Endpoint | None = None  # the endpoint with which we follow groups
        self._front = front
        self._waiting: list[tuple[ProgramSession, int, Endpoint, Watch, bool]] = []  # while it is opened

    def watch(
        self, session: ProgramSession, token: int, watcher: Endpoint, watch: Watch, *, is_new: bool
    ) -> None:
        """Follow the group with the agent's own endpoint; the node's answer is the watcher's."""
        front = self._front
        if self.own is None:
            self._waiting.append((session, token, watcher, watch, is_new))
            if len(self._waiting) == 1:
                self._open()
            return

        def hear(result: Any) -> None:
            if session.number in front.by_number:
                front.settled(session, watcher, watch, result, is_new=is_new)
                session.answer(token, result)
            if type(result) is Done:
                front.port.report(WatchBegan(watcher, watch.group))
                front.carry_out(self.watches.watch(watcher, watch.group, (watch.period, watch.number)))
                if not front.is_here(watcher):  # it died while we asked
                    self.gone(watcher)

        front.ask_ourselves(self.own, watch, hear)

    def unwatch(self, watcher: Endpoint, group: Group) -> Any:
        try:
            self.watches.unwatch(self._front.port.now, watcher, group)
        except NotMember as error:
            return denied(error)
        self._front.port.report(WatchEnded(watcher, group))
        return Done()

    def gone(self, watcher: Endpoint) -> None:
        """The watcher's endpoint was closed, or its program died."""
        self.watches.gone(self._front.port.now, watcher)

    def hear(self, notice: Any) -> None:
        """A notice to the agent's own endpoint."""
        self._front.carry_out(self.watches.told(notice))

    def skipped(self, watcher: Endpoint, group: Group, number: int) -> list[Effect]:
        return self.watches.skipped(watcher, group, number)

    def tick(self) -> None:
        if self.own is not None:
            for group in self.watches.expire(self._front.port.now):
                self._front.ask_ourselves(self.own, Unwatch(group))

    def _open(self) -> None:
        agent, name, number = self._front.port.stack[AGENT], OWN_NAME, 1
        while name in agent.names:
            number += 1
            name = f"{OWN_NAME}-{number}"
        if (refusal := self._front.port.reserve_number()) is not None:
            self._opened(refusal)
        else:
            self._front.ask_ourselves(Endpoint(""), Open(name), self._opened)

    def _opened(self, answer: Opened | Denied) -> None:
        if isinstance(answer, Opened):
            self.own = answer.endpoint
            self._front.forget_routes()
        waiting, self._waiting = self._waiting, []
        for session, token, watcher, watch, is_new in waiting:
            if self.own is not None:
                self.watch(session, token, watcher, watch, is_new=is_new)
            elif session.number in self._front.by_number:
                self._front.settled(session, watcher, watch, answer, is_new=is_new)
                session.answer(token, answer)
