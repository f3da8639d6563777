"""Lists of led groups for watchers and online members of this host, sent whenever they change.

    watcher, online member ──▶ LedFollows ── the next list after this one? ──▶ the leader
                           ◀── Absolute ◀──┘ ◀── ListTold, when it changed, or after `follow_s`

One question to the leader is open for each group that is followed, for all its followers on this host. While
there is no leader the registrar is asked every `follow_s`.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rostra.core.effects import SetTimer, Tell
from rostra.groups.kinds import LED, DeliveryKind, MembershipKind
from rostra.groups.members import Member
from rostra.names import Domain, Endpoint, Group, host_of
from rostra.protocols.led.queries import ListQuery, ListResult, QueryEnding
from rostra.protocols.led.stays import LedFollow, listed
from rostra.protocols.relaxed.local_state import LocalGroup
from rostra.protocols.relaxed.requests import Absolute

if TYPE_CHECKING:
    from rostra.protocols.led.agent import LedAgent

AGAIN = "again"


class LedFollows:
    """The followed groups of one agent; part of `LedAgent`."""

    def __init__(self, agent: "LedAgent") -> None:
        self.groups: dict[Group, LedFollow] = {}
        self._agent = agent

    def follow(self, group: Group, told: tuple[Endpoint, ...], found: Member | None = None) -> None:
        follow = self.groups.setdefault(group, LedFollow())
        if found is not None:
            follow.signpost, follow.group_kind = host_of(found.endpoint), found.kind or LED
        if told and follow.members is not None:
            self._agent.out.append(Tell(told, Absolute(group, follow.members)))
        self.ask(group, follow)

    def _followers(self, group: Group) -> tuple[Endpoint, ...]:
        table, known = self._agent.directory.groups.get(group), self._agent.sets.get(group)
        watchers = (
            [] if table is None else [each for each in table.followers() if not is_speaker(table, each)]
        )
        online = () if known is None else [me for me, stay in known.members.items() if stay.online]
        return tuple(sorted({*watchers, *online}))

    def ask(self, group: Group, follow: LedFollow) -> None:
        if follow.query is not None:
            return

        def hear(result: ListResult) -> None:
            if self.groups.get(group) is follow:
                self._follow_told(group, follow, result)

        follow.query = 0  # while we ask: the answer may come at once
        asker = self._agent.directory.user_of(next(iter(self._followers(group)), Endpoint("")))
        is_expected = follow.signpost is not None
        query = ListQuery(group, hear, follow.known, follow.signpost, expected=is_expected, asker=asker)
        number = self._agent.ask(query)
        if follow.query == 0:
            follow.query = number

    def _follow_told(self, group: Group, follow: LedFollow, result: ListResult) -> None:
        follow.query = None
        followers = self._followers(group)
        if not followers:
            self.end(group)
            return
        if result.ending is QueryEnding.UNAVAILABLE:
            # The agent that we knew of may have left while we were cut off: the registrar's word counts then.
            follow.known = follow.signpost = None
            self._ask_later(group, self._agent.config.assert_s)
            return
        follow.known = None
        if result.ending is QueryEnding.LIST:
            assert result.leader is not None, "a list of no leader"
            follow.known = (result.leader, result.life, result.version)
        is_restricted = "!" in group.name
        if result.entries is not None or result.ending is QueryEnding.NONE or is_restricted:
            entries = listed(result.entries or (), follow.group_kind)
            if (
                is_restricted
            ):  # a member whose agent keeps it when its proof has ended is no news of the leader
                is_same = result.entries is None and result.ending is QueryEnding.LIST
                follow.listed = entries = follow.listed if is_same else entries
            members = tuple([without_doubt(each) for each in self._agent.proven(group, entries)])
            if members != follow.members:
                follow.members = members
                self._agent.out.append(Tell(followers, Absolute(group, members)))
        if result.ending is QueryEnding.NONE:
            # Its members may contend: then there is a leader soon, and no notice of the directory tells so.
            follow.signpost = None
            self._ask_later(group, self._agent.config.follow_s)
        else:
            self.ask(group, follow)

    def doubt(self, group: Group, host: Domain | None) -> None:
        """The agent that we ask may be unreachable: look for the leader again."""
        follow = self.groups[group]
        leader = None if follow.known is None else follow.known[0]
        if host is None or host in (leader, follow.signpost):
            follow.known = None
            if host is None or follow.signpost == host:
                follow.signpost = None
            if follow.query:
                number, follow.query = follow.query, None
                self._agent.with_(lambda out: self._agent.queries.give_up(number, out))
            self._ask_later(group, self._agent.config.assert_s)

    def doubt_all(self) -> None:
        """A domain is out of reach: programs have dropped some members by themselves."""
        for group in list(self.groups):
            self.groups[group].members = None
            self.doubt(group, None)

    def _ask_later(self, group: Group, after_s: float) -> None:
        self._agent.out.append(SetTimer(("led", AGAIN, group.name, group.scope), after_s))

    def end(self, group: Group) -> None:
        follow = self.groups.pop(group)
        if follow.query:
            number = follow.query
            self._agent.with_(lambda out: self._agent.queries.give_up(number, out))


def without_doubt(member: Member) -> Member:
    """The list without marks of doubt: followers are not notified of a circuit that broke for a moment
    (S-063); a query shows it."""
    return replace(member, attributes=None) if member.in_doubt else member


def is_speaker(table: LocalGroup, endpoint: Endpoint) -> bool:
    """Has this member a stream? Then it follows the directory, which streams depend on."""
    member = table.members.get(endpoint)
    kind = None if member is None else member.kind
    return (
        kind is not None and kind.membership is MembershipKind.LED and kind.delivery is not DeliveryKind.NONE
    )
