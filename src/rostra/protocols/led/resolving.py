"""Questions of programs for the lists of led groups.

Resolve ──▶ the directory ── SignpostsFound ──▶ LedResolves ── ListQuery ──▶ the leader ──▶ its list
ResolveSet, of a transient set ───────────────────┘
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rostra.core.effects import Answer
from rostra.errors import BadInput, NoSuchGroup, Unreachable
from rostra.groups.kinds import LED
from rostra.groups.members import Members, is_led, names_led
from rostra.names import Domain, Endpoint, Group, host_of
from rostra.protocols.led.core import spread
from rostra.protocols.led.queries import ListQuery, ListResult, QueryEnding
from rostra.protocols.led.stays import led_member, listed
from rostra.protocols.led.transient import check_inside, owner_of
from rostra.protocols.relaxed.events import SignpostsFound
from rostra.protocols.relaxed.requests import Absolute, Denied, Resolved, denied

if TYPE_CHECKING:
    from rostra.protocols.led.agent import LedAgent


class LedResolves:
    """The open queries of one agent; part of `LedAgent`."""

    def __init__(self, agent: "LedAgent") -> None:
        self._agent = agent
        self._asked = 0

    def resolve_set(self, me: Endpoint, token: int, group: Group) -> None:
        owner = owner_of(group)
        if owner is None:
            raise BadInput(f"{group} is not a transient set", fix="resolve it")
        check_inside(group.scope, self._agent.host)
        self._ask_list(me, group, (), self._answer_list(token, group), host_of(owner))

    def _answer_list(
        self, token: int, group: Group, isolated: bool = False
    ) -> Callable[[Members | Denied], None]:
        def hear(members: Members | Denied) -> None:
            if isinstance(members, Denied):
                self._agent.out.append(Answer(token, members))
            else:
                self._agent.out.append(Answer(token, Absolute(group, members, isolated)))

        return hear

    def _parts(self, me: Endpoint, token: int, name: str, found: Resolved) -> None:
        """The same for several groups of one name: answered when the last list is here."""
        parts = dict(found.parts)
        asked = [scope for scope, members in found.parts if names_led(members)]
        waiting = set(asked)

        def heard(scope: Domain) -> Callable[[Members | Denied], None]:
            def hear(members: Members | Denied) -> None:
                if not waiting:
                    return  # another one did not answer
                waiting.discard(scope)
                if isinstance(members, Denied):
                    waiting.clear()
                    self._agent.out.append(Answer(token, members))
                else:
                    parts[scope] = members
                    if not waiting:
                        self._agent.out.append(Answer(token, replace(found, parts=tuple(parts.items()))))

            return hear

        for scope in asked:
            self._ask_list(me, Group(name, scope), parts[scope], heard(scope))

    def _ask_list(
        self,
        me: Endpoint,
        group: Group,
        found: Members,
        hear: Callable[[Members | Denied], None],
        home: Domain | None = None,
    ) -> None:
        def took(result: ListResult) -> None:
            if result.ending is QueryEnding.UNAVAILABLE:
                hear(denied(Unreachable(f"the leader of {group} did not answer", fix="ask again")))
            elif home is not None and result.ending is QueryEnding.NONE:
                hear(denied(NoSuchGroup(f"there is no set {group}", fix="its owner has ended it")))
            else:
                entries = listed(result.entries or (), led_member(found).kind if found else LED)
                hear(self._agent.proven(group, entries))

        asker = self._agent.directory.user_of(me)
        if home is not None:
            self._agent.ask(ListQuery(group, took, home=home, asker=asker))
            return
        hosts = sorted({host_of(member.endpoint) for member in found if is_led(member)})
        self._asked += 1
        first = hosts[int(spread(self._agent.me, self._asked) * len(hosts))]
        self._agent.ask(ListQuery(group, took, first=first, expected=True, asker=asker))

    def found(self, found: SignpostsFound) -> None:
        """Go on to the leader's list."""
        me, token, result = found.asker, found.token, found.result
        if isinstance(result, Absolute):
            hear = self._answer_list(token, result.group, result.isolated)
            self._ask_list(me, result.group, result.members, hear)
        else:
            self._parts(me, token, found.name, result)
