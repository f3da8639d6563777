"""Questions for the list of a set: found by way of an agent that is in it, or of the registrar.

    start ──┬── we lead ──────────────────────────────────────────────────────────────▶ the list
            ├── our parent, or an agent in the directory ◀───┐
            │      └─ ListAsked ──▶ ListTold ──┬── it leads ──────────────────────────▶ the list
            │                                  ├── its parent ──┘
            └── LeaderAsked ──▶ registrar ◀────┴── nothing, or no answer: `query_tries` times
                                  └─ LeaderTold ──┬── a leader ──▶ ListAsked
                                                  └── none ──▶ no such set, or ask again while one is expected

A partial list is never taken for the list (S-054): only a leader's counts. Out of tries: `UNAVAILABLE`.

**Following.** A question that names the version that is known is answered when there is another one. Its
sender asks again after each answer, so each change costs one question and one answer.
"""

from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from rostra.core.effects import CancelTimer, Effect, Ignored, SetTimer, TimerKey
from rostra.core.room import SharedRoom
from rostra.names import Domain, Group, inside
from rostra.protocols.led.config import QUERIES_MAX, STEPS_MAX, LedConfig
from rostra.protocols.led.core import PostLetter
from rostra.protocols.led.messages import Entries, LeaderAsked, LeaderTold, ListAsked, ListTold, is_sound

QUERY = "query"


class QueryEnding(Enum):
    LIST = "list"
    NONE = "no such set"
    UNAVAILABLE = "unavailable"


class ListResult(Struct, frozen=True):
    ending: QueryEnding
    leader: Domain | None = None
    life: int = 0
    version: int = 0
    entries: Entries | None = None  # none, of a list: the one that was named


Hear = Callable[[ListResult], None]


class ListQuery(Struct, eq=False):
    group: Group
    hear: Hear
    known: tuple[Domain, int, int] | None = None  # the leader, and the version that it told us
    first: Domain | None = None  # whom to ask before the registrar
    asked: Domain | None = None  # none: the registrar
    steps: int = 0
    tries: int = 0
    home: Domain | None = None  # of a transient set: the agent that leads it for ever
    expected: bool = False  # there are members: a set without a leader will have one
    asker: str = ""  # the user, or the cluster, for whom we ask


class ListQueries:
    def __init__(self, config: LedConfig) -> None:
        self.open: dict[int, ListQuery] = {}
        self._config = config
        self._room = SharedRoom(QUERIES_MAX)
        self._number = 0

    def ask(self, query: ListQuery, out: list[Effect]) -> int | None:
        if not self._room.has_room(query.asker):
            query.hear(ListResult(QueryEnding.UNAVAILABLE))
            return None
        self._room.take(query.asker)
        self._number += 1
        number = self._number
        self.open[number] = query
        if query.known is not None:
            self._ask_agent(number, query, query.known[0], out)
        elif query.first is not None and query.home is None:
            self._ask_agent(number, query, query.first, out)
        else:
            self._ask_registrar(number, query, out)
        return number

    def give_up(self, number: int, out: list[Effect]) -> None:
        if (query := self.open.pop(number, None)) is not None:
            self._room.give(query.asker)
            out.append(CancelTimer(_timer(number)))

    def leader_told(self, told: LeaderTold, out: list[Effect]) -> None:
        query = self.open.get(told.number)
        if query is None or query.group != told.group or query.asked is not None:
            out.append(Ignored("LeaderTold", "late reply"))
        elif told.leader is not None and not inside(told.group.scope, told.leader):
            out.append(Ignored("LeaderTold", "out of scope"))
        elif told.leader is not None:
            self._ask_agent(told.number, query, told.leader, out)
        elif not query.expected:
            self._end(told.number, query, ListResult(QueryEnding.NONE), out)
        # Otherwise the timer asks again: its members contend.

    def list_told(self, sender: Domain, told: ListTold, out: list[Effect]) -> None:
        query = self.open.get(told.number)
        if query is None or query.group != told.group or query.asked != sender:
            out.append(Ignored("ListTold", "late reply"))
            return
        entries = told.entries or ()
        if not is_sound(entries) or not all(inside(told.group.scope, each.origin) for each in entries):
            out.append(Ignored("ListTold", "not a list"))
            return
        if told.leading:
            found = ListResult(QueryEnding.LIST, sender, told.life, told.version, told.entries)
            if told.entries is not None or query.known == (sender, told.life, told.version):
                self._end(told.number, query, found, out)
            else:
                out.append(Ignored("ListTold", "another version"))
            return
        if query.home is not None:
            self._end(told.number, query, ListResult(QueryEnding.NONE), out)
            return
        query.known = None
        query.steps += 1
        above = told.parent is not None and inside(told.group.scope, told.parent)
        if told.parent is not None and above and query.steps <= STEPS_MAX:
            self._ask_agent(told.number, query, told.parent, out)
        elif query.steps <= STEPS_MAX + 1:
            self._ask_registrar(told.number, query, out)
        # Otherwise the timer asks again: the registrar names an agent that does not lead.

    def fired(self, number: int, out: list[Effect]) -> None:
        query = self.open.get(number)
        if query is None:
            out.append(Ignored("TimerFired", "nothing waits for it"))
            return
        query.known, query.steps = None, 0
        query.tries += 1
        if query.tries >= self._config.query_tries:
            self._end(number, query, ListResult(QueryEnding.UNAVAILABLE), out)
        else:
            self._ask_registrar(number, query, out)

    def _ask_agent(self, number: int, query: ListQuery, agent: Domain, out: list[Effect]) -> None:
        query.asked = agent
        life, version = (0, 0) if query.known is None else query.known[1:]
        after_s = self._config.query_s + (self._config.follow_s if query.known else 0.0)
        out.append(SetTimer(_timer(number), after_s))
        out.append(PostLetter(agent, ListAsked(query.group, number, life, version)))

    def _ask_registrar(self, number: int, query: ListQuery, out: list[Effect]) -> None:
        if query.home is not None:
            self._ask_agent(number, query, query.home, out)
            return
        query.asked = None
        out.append(SetTimer(_timer(number), self._config.query_s))
        out.append(PostLetter(None, LeaderAsked(query.group, number)))

    def _end(self, number: int, query: ListQuery, result: ListResult, out: list[Effect]) -> None:
        del self.open[number]
        self._room.give(query.asker)
        out.append(CancelTimer(_timer(number)))
        query.hear(result)


def _timer(number: int) -> TimerKey:
    return ("led", QUERY, number)
