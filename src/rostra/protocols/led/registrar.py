"""The registrar: settles who leads each set, and tells those who ask. It holds no lists.

    Assert ──┬── no leader, or its lease is over, or it cannot be reached: the asserter leads ──┐
             ├── of the leader itself: its lease is longer ─────────────────────────────────────┤
             ├── another leads ─────────────────────────────────────────────────────────────────┤
             ├── the asserter would lead, and has no room for one more, or no claim ──▶ LeadRefused
             └── another leads, and is suspected ──▶ LeaderProbe ──┬── it leads ────────────────┤
                                                                   └── it does not, or is silent┤
                                                                                     AssertReply ◀┘

Every `Assert` is answered, also the winner's (S-034), except while the leader is probed: the asserter repeats
it. The table is volatile: leaders assert to a new registrar, and three times within a lease.
"""

from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import CancelTimer, Effect, Ignored, Instant, Noted, SetTimer, TimerKey
from rostra.core.room import SharedRoom
from rostra.errors import NotAllowed, TooLarge
from rostra.names import Domain, Group, parent
from rostra.protocols.led.config import NAMES_MAX, NAMES_OF_AGENT_MAX, LedConfig
from rostra.protocols.led.core import PostLetter
from rostra.protocols.led.messages import (
    Assert,
    AssertReply,
    LeaderAsked,
    LeaderProbe,
    LeaderProbed,
    LeaderTold,
    LeadRefused,
    SetReleased,
)
from rostra.protocols.led.observed import LeaderRefused

REFUSED_MAX: Final = 1_024
"""Clusters whose refusals of one kind observers were shown."""

PROBE: Final = "probe"
LEASES: Final[TimerKey] = ("led", "leases")

RegistrarLetter = Assert | SetReleased | LeaderProbed | LeaderAsked


class Criterion(Enum):
    """Which of two leaders wins (S-032)."""

    FIRST = "first"
    HIGHER = "higher"
    LARGER = "larger"


class Asserter(Struct, frozen=True):
    agent: Domain
    life: int
    number: int
    size: int = 0


class LeaderEntry(Struct, frozen=True):
    leader: Asserter
    until: float  # the end of its lease
    probe: int = 0  # the number of the probe under way, if there is one
    next: Asserter | None = None  # who leads if the probe fails


class Registrar:
    def __init__(
        self,
        config: LedConfig,
        reaches: Callable[[Domain], bool] = lambda agent: True,
        criterion: Criterion = Criterion.FIRST,
        claims: Callable[[Domain, Group], bool] = lambda agent, group: True,
    ) -> None:
        self.entries: dict[Group, LeaderEntry] = {}
        self.config = config
        self._reaches = reaches
        self._criterion = criterion
        self._claims = claims
        self._probes = 0
        self._names: Counter[Domain] = Counter()  # how many each leads
        self._names_in = SharedRoom(NAMES_MAX)  # and the agents of each cluster
        self._refused: dict[tuple[Domain, str], Instant] = {}  # clusters, and since when observers know of it
        self._waits = False  # for LEASES

    def step(self, now: Instant, sender: Domain, letter: RegistrarLetter) -> list[Effect]:
        out: list[Effect] = []
        group = letter.group
        match letter:
            case Assert():
                self._asserted(now, sender, letter, out)
            case SetReleased(number=number, life=life):
                entry = self._entry(now, group)
                if entry is None or entry.leader.agent != sender:
                    out.append(Ignored("SetReleased", "not the leader"))
                elif (life, number) < (entry.leader.life, entry.leader.number):
                    out.append(Ignored("SetReleased", "late reply"))
                else:
                    self._give_up(now, group, entry, out)
            case LeaderProbed(number=number, leading=leading):
                entry = self._entry(now, group)
                if entry is None or not entry.probe or (entry.leader.agent, entry.probe) != (sender, number):
                    out.append(Ignored("LeaderProbed", "late reply"))
                elif leading:
                    self._confirm(group, entry, out)
                else:
                    self._give_up(now, group, entry, out)
            case LeaderAsked(number=number):
                entry = self._entry(now, group)
                leader = None if entry is None else entry.leader.agent
                out.append(PostLetter(sender, LeaderTold(group, number, leader)))
        self._watch_leases(out)
        return out

    def fired(self, now: Instant, timer: TimerKey) -> list[Effect]:
        out: list[Effect] = []
        if timer == LEASES:
            self._waits = False
            for group in [group for group, entry in self.entries.items() if now >= entry.until]:
                self._forget(group, out)
        else:
            group = Group(str(timer[2]), Domain(str(timer[3])))
            entry = self._entry(now, group)
            if entry is not None and entry.probe:
                self._give_up(now, group, entry, out)
        self._watch_leases(out)
        return out

    def drop(self, scopes: "frozenset[Domain] | None" = None) -> list[Effect]:
        """We are not the registrar of these scopes any more (S-058); none: of any."""
        out: list[Effect] = []
        for group in [group for group in self.entries if scopes is None or group.scope in scopes]:
            self._forget(group, out)
        self._watch_leases(out)
        return out

    def _entry(self, now: Instant, group: Group) -> LeaderEntry | None:
        entry = self.entries.get(group)
        return None if entry is None or now >= entry.until else entry

    def _asserted(self, now: Instant, sender: Domain, said: Assert, out: list[Effect]) -> None:
        group = said.group
        asserter = Asserter(sender, said.life, said.number, said.size)
        entry = self._entry(now, group)
        if (entry is None or entry.leader.agent != sender) and not self._claims(sender, group):
            # A leader whose last member left has no claim any more, and children: it may go on.
            why = f"{sender} holds no claim of {group} as a led group"
            self._refuse(now, asserter, group, NotAllowed.code, why, out)
        elif entry is None:
            self._replace(now, group, asserter, out)
        elif entry.leader.agent == sender:
            if (asserter.life, asserter.number) < (entry.leader.life, entry.leader.number):
                out.append(Ignored("Assert", "late reply"))
                return
            if entry.next is not None:
                self._confirm(group, entry, out)
            self._lead(now, group, asserter, out)
        elif not self._reaches(entry.leader.agent):
            self._replace(now, group, asserter, out)
        elif self._wins(asserter, entry.leader) and not self._why_full(sender):
            self._lead(now, group, asserter, out)
        elif entry.probe:
            out.append(Ignored("Assert", "the leader is probed"))
        elif said.suspect == entry.leader.agent:
            self._probes += 1
            self.entries[group] = replace(entry, probe=self._probes, next=asserter)
            out.append(PostLetter(entry.leader.agent, LeaderProbe(group, self._probes)))
            out.append(SetTimer(probe_timer(group), self.config.assert_s))
        else:
            out.append(_named(group, asserter, entry.leader.agent))

    def _why_full(self, agent: Domain) -> str:
        """Why there is no room for one more set of this agent; empty if there is."""
        cluster = parent(agent)
        if self._names[agent] >= NAMES_OF_AGENT_MAX:
            return f"{agent} leads {NAMES_OF_AGENT_MAX} sets"
        if not self._names_in.has_room(cluster):
            return f"the agents of {cluster} lead {self._names_in.held[cluster]} sets, as many as are free"
        return ""

    def _refuse(
        self, now: Instant, asserter: Asserter, group: Group, code: str, why: str, out: list[Effect]
    ) -> None:
        """It may ask again and again: observers are shown it once in a lease for each cluster and code."""
        sender, of = asserter.agent, (parent(asserter.agent), code)
        out.append(PostLetter(sender, LeadRefused(group, asserter.number, code, why)))
        if now - self._refused.get(of, -self.config.lease_s) >= self.config.lease_s:
            self._refused.pop(of, None)
            self._refused[of] = now
            if len(self._refused) > REFUSED_MAX:
                del self._refused[next(iter(self._refused))]
            out.append(LeaderRefused(sender, group, why))

    def _wins(self, asserter: Asserter, leader: Asserter) -> bool:
        match self._criterion:
            case Criterion.FIRST:
                return False
            case Criterion.HIGHER:
                return asserter.agent > leader.agent
            case Criterion.LARGER:
                return (asserter.size, asserter.agent) > (leader.size, leader.agent)

    def _lead(self, now: Instant, group: Group, asserter: Asserter, out: list[Effect]) -> None:
        known = self.entries.get(group)
        if known is not None and known.probe:
            out.append(CancelTimer(probe_timer(group)))
        if known is None or known.leader.agent != asserter.agent:
            self._forget_name(group)
            self._names[asserter.agent] += 1
            self._names_in.take(parent(asserter.agent))
            out.append(Noted("leader registered", f"{group} {asserter.agent}"))
        self.entries[group] = LeaderEntry(asserter, now + self.config.lease_s)
        out.append(_named(group, asserter, asserter.agent))

    def _confirm(self, group: Group, entry: LeaderEntry, out: list[Effect]) -> None:
        """It leads: its suspecter was wrong."""
        assert entry.next is not None, "a probe without an asker"
        out.append(CancelTimer(probe_timer(group)))
        out.append(_named(group, entry.next, entry.leader.agent))
        self.entries[group] = LeaderEntry(entry.leader, entry.until)

    def _give_up(self, now: Instant, group: Group, entry: LeaderEntry, out: list[Effect]) -> None:
        """It does not lead any more."""
        if entry.next is not None:
            self._replace(now, group, entry.next, out)
        else:
            self._forget(group, out)

    def _replace(self, now: Instant, group: Group, asserter: Asserter, out: list[Effect]) -> None:
        """Nobody leads, or who did does not any more."""
        if group in self.entries:
            self._forget(group, out)
        if why := self._why_full(asserter.agent):
            self._refuse(now, asserter, group, TooLarge.code, why, out)
        else:
            self._lead(now, group, asserter, out)

    def _forget(self, group: Group, out: list[Effect]) -> None:
        self._forget_name(group)
        if self.entries.pop(group).probe:
            out.append(CancelTimer(probe_timer(group)))

    def _forget_name(self, group: Group) -> None:
        known = self.entries.get(group)
        if known is not None:
            agent = known.leader.agent
            self._names_in.give(parent(agent))
            self._names[agent] -= 1
            if not self._names[agent]:
                del self._names[agent]

    def _watch_leases(self, out: list[Effect]) -> None:
        wanted = bool(self.entries)
        if wanted and not self._waits:
            out.append(SetTimer(LEASES, self.config.lease_s))
        elif self._waits and not wanted:
            out.append(CancelTimer(LEASES))
        self._waits = wanted


def probe_timer(group: Group) -> TimerKey:
    return ("led", PROBE, group.name, group.scope)


def _named(group: Group, asserter: Asserter, leader: Domain) -> PostLetter:
    return PostLetter(asserter.agent, AssertReply(group, asserter.number, leader))
