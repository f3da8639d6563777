"""Merging the partitions of a set of servers (V-103 to V-106). The most senior server of each part probes the
other; the senior one of the two coordinates the merge, a commit across both parts.

    a, b, c start, or a cut between {a b} and {c} heals:

    a ── SetProbe ▶ c         the speakers, of rank 0, see each other
    a ◀── Offer ── c          c is junior: it starts nothing more, and sends what its groups are
    a ── Initiate ─▶ b c      a merge is a change like others, with three differences:
    a ◀── Ack ── b, c         its electorate are the servers of both parts, it follows the last commit of
    a ── Commit ──▶ b c       each part, and it carries to each part the groups of the other

An acknowledgement is a lock here too, on the server's own base: within each part one change at most is
committed on that base, the merge or another, and the argument at the head of `core.py` holds for each part by
itself. A server acknowledges if it stands where the merge says and is linked to all of both parts.

A merge that loses a server is called off (`Yield`), unless one of its servers has committed it: then the
election commits it everywhere. So a cut in the middle leaves parts as they were, and never a view of servers
that were only hoped for. After `probe_s` the speakers try again.

Where we differ from the paper, and why:

- The spec counts a merge that was interrupted among changes to be completed by three phases. Ours is not
  repeated after an election: with a server lost, the parts may not be linked any more, and a merge is seen
  from the links again. A lost request would be a broken promise; a merge was not requested.
- `SetProbe` goes over links as soon as they come up, and not to a multicast address after a wait.
- A server that was alone since it started goes last, as one that joins (V-094); servers that start together
  are founders, in the order of the configuration.
"""

from math import inf
from typing import Final

from rostra.core.effects import Send
from rostra.names import Domain
from rostra.protocols.agreed.changes import (
    AnyChange,
    PartGaveUp,
    PartReopened,
    PartsMerged,
    Pid,
    Proposal,
    Round,
    ServerId,
    ServersFailed,
    SetPart,
    SetSplit,
    name_of_part,
    part_of,
    priority_of,
)
from rostra.protocols.agreed.config import SET_MEMBERS_MAX
from rostra.protocols.agreed.groups import AgreedGroup, CarriedGroups, are_sound
from rostra.protocols.agreed.lanes import Lanes, next_era
from rostra.protocols.agreed.messages import (
    Ack,
    AgreementStatus,
    Commit,
    CoordinatorFailed,
    Declined,
    Initiate,
    Offer,
    PartedFromSet,
    SetEvidence,
    SetMessage,
    SetProbe,
    Yield,
)
from rostra.protocols.agreed.state import Coordinating, Holding, Idle, Offering, PartOffer

OVER_MAX: Final = 16
"""Merges that were called off, of which a server can still say so."""

NAME_MAX: Final = 1_024
"""Of the name of a part of a part: each time that it gives others up, it gets longer (V-108)."""


REACHED_MAX: Final = 3 << 60
"""Of the numbers that a part says it has come to. A merge counts on from the highest, and a message can have
a third more."""

AHEAD_MAX: Final = 1 << 40
"""So far may it be ahead of ours, whatever ours is. A server that starts has none, and may come to more."""


def is_merge(proposal: Proposal) -> bool:
    return isinstance(proposal.change, PartsMerged)


def is_sound(part: SetPart) -> bool:
    """Each server once, in order of seniority."""
    gids = [each.gid for each in part.view.members]
    return gids == sorted(gids) and len({each.server for each in part.view.servers}) == len(gids)


def highest_of(known: AgreedGroup | None) -> int:
    """Of its numbers, from which others are counted on."""
    if known is None:
        return 0
    numbers = [0]
    for part in known.parts:
        numbers += [part.living.fence, *[each.fence for each in part.living.attempts]]
        numbers += [each.joined for each in part.view.members]
        for view in part.views:
            numbers += [view.number, view.revision]
    return max(numbers)


class Reforming(Lanes):
    """Probes, offers, and what comes from servers that are not in our view."""

    @property
    def _speaks(self) -> bool:
        return self.config.reform_s > 0 and self.state.view.servers[0] == self.state.me

    def _seeks(self) -> bool:
        """Does the timer for probes run: is there another part to find, or a time to give up?"""
        waits = self.state.apart_since is not None and self.config.reform_s < inf
        return self._speaks and (waits or (not self.state.gave_up and bool(self._outsiders())))

    def _is_open_to(self, part: SetPart) -> bool:
        """After we gave up, only to a server that has just started: it joins (V-107)."""
        return not self.state.gave_up or part.view.number == 0

    def _note_reforming(self, change: AnyChange) -> None:
        """What a commit means for our search for other parts."""
        state = self.state
        match change:
            case ServersFailed() if state.apart_since is None:
                self._set(apart_since=self._now)
            case PartsMerged():
                self._set(apart_since=None)
            case PartGaveUp():
                name = name_of_part(state.gave_up or self.set, state.view)
                self._set(gave_up=name if len(name) <= NAME_MAX else state.gave_up, apart_since=None)
            case SetSplit(first, _, names):
                if name := names[0] if state.me in first else names[1]:
                    self._set(gave_up=f"{state.gave_up or self.set}#{name}")
            case PartReopened():
                self._set(gave_up="", apart_since=None)
                self._probe()

    def _give_up(self) -> None:
        since = self.state.apart_since
        is_late = since is not None and self._now - since >= self.config.reform_s
        if is_late and self._speaks:
            self._enqueue(PartGaveUp(self.state.view.number), 0)

    def _outsiders(self) -> list[Domain]:
        return sorted(self.state.linked.difference([each.server for each in self.state.view.servers]))

    def _is_whole(self, *parts: SetPart) -> bool:
        """Could we merge with these: do we see all of them, and our own part, and none accuses another?"""
        state = self.state
        servers = [each for part in (state.part, *parts) for each in part.view.servers]
        return (
            len(servers) <= SET_MEMBERS_MAX
            and not state.isolated
            and not any(whom for _, whom in state.evidence)
            and len({each.server for each in servers}) == len(servers)
            and all(each.server in state.linked for each in servers if each != state.me)
        )

    def _is_in_reach(self, part: SetPart, groups: CarriedGroups = ()) -> bool:
        """Could it have come to these numbers? After the highest of all there is none."""
        state = self.state
        most = REACHED_MAX if state.view.number else (1 << 62) - AHEAD_MAX
        own = max(state.view.number, state.part.slot)
        numbers = [part.view.number, part.slot, *[each.joined for each in part.view.members]]
        if max(numbers) > max(most, own + AHEAD_MAX):
            return False
        high = {each.name: found for each in groups if (found := highest_of(each.group)) > most}
        return all(found <= highest_of(state.table.get(name)) + AHEAD_MAX for name, found in high.items())

    # From outside

    def _is_let_in(self, who: ServerId, message: SetMessage) -> bool:
        """May this message of a server outside our view be handled?"""
        state = self.state
        match message:
            case Initiate(proposal=proposal) if part_of(proposal, state.me) is not None:
                return True
            case SetProbe(part=part):
                self._probed(who, part)
            case Offer():
                self._offered(who, message)
            case Declined():
                self._declined(who, message)
            case Yield():
                self._ignored("Yield", "of a round that is over")
            case Ack(round=round) if round.coordinator == state.me and round.pid in state.over:
                self._send(who, Yield(*self._head(), round))
            case Ack(round=round) | CoordinatorFailed(round=round) if self._was_left_by(who, round):
                assert state.last is not None
                self._send(who, Commit(*self._head(), state.last))
            case CoordinatorFailed(proposal=proposal) if part_of(proposal, state.me) is not None:
                self._say_over(who, message)
            case _:
                self._turn_away(who, message, "not of our view")
        return False

    def _was_left_by(self, who: ServerId, round: Round) -> bool:
        """Did our last commit make two sets of one, and has a server of the other one not heard of it?"""
        last = self.state.last
        if last is None or last.proposal.pid != round.pid or who in last.cut:
            return False
        match last.proposal.change:
            case SetSplit(first, second):
                return who in first or who in second
        return False

    def _is_of_before(self, who: ServerId, message: SetMessage) -> bool:
        """Sent before its sender agreed to the merge that made us meet: whom it had isolated does not matter
        any more (V-093)."""
        state = self.state
        return message.view < (state.merged if who in state.view.servers else state.number)

    def _turn_away(self, who: ServerId, message: SetMessage, why: str) -> None:
        self._ignored(type(message).__name__, why)
        if not isinstance(message, PartedFromSet | SetProbe | SetEvidence):
            self._part_from(who)

    def _may_merge(self, who: ServerId, message: Initiate) -> bool:
        """Could we take part in this merge, if we are free to?"""
        state, proposal, round = self.state, message.proposal, message.round
        part = part_of(proposal, state.me)
        change = proposal.change
        assert isinstance(change, PartsMerged)
        speakers = [each.view.servers[0] for each in change.parts]
        slot = max([each.slot for each in change.parts])
        makes_sense = (
            part is not None
            and who in speakers
            and round.attempt == 0
            and not message.cut
            and proposal.slot in (slot + 1, next_era(slot))
            and all(map(is_sound, change.parts))
            and are_sound(message.groups)
            and all(self._is_in_reach(each, message.groups) for each in change.parts)
        )
        if not makes_sense:
            self._ignored("Initiate", "a merge that makes no sense")
            return False
        if state.lock is not None and state.lock[0].pid == proposal.pid:
            return True
        others = [each for each in change.parts if each is not part]
        is_open = all(map(self._is_open_to, others))
        if (
            proposal.pid in state.over
            or not self._stands(who, part)
            or not is_open
            or not self._is_whole(*others)
        ):
            self._send(who, Declined(*self._head(), round))
            return False
        return True

    def _stands(self, who: ServerId, part: SetPart | None) -> bool:
        """Is that our part as it is now, or a server of it that is behind, to which we send more?"""
        state = self.state
        is_behind = part is not None and part.base != state.base
        return part == state.part or (who in state.view.servers and is_behind)

    def _say_over(self, who: ServerId, message: CoordinatorFailed) -> None:
        """How do we stand in a merge that we do not know, or know to be off? We never follow it now."""
        if message.status is AgreementStatus.ACKED:
            self._called_off(message.proposal.pid)
            self._send(who, self._status(message.proposal, message.round, AgreementStatus.UNAWARE))
        else:
            self._ignored("CoordinatorFailed", "of a round that is over")

    def _called_off(self, pid: Pid) -> None:
        if pid not in self.state.over:
            self._set(over=(*self.state.over, pid)[-OVER_MAX:])

    # Speakers

    def _probe(self, only: Domain | None = None) -> None:
        """Servers that are linked to us and not in our view. Only a speaker answers."""
        state = self.state
        if self._speaks and state.merging is None and self._is_whole():
            for each in self._outsiders():
                if only in (None, each) and not state.gave_up:
                    self._out.append(Send(each, SetProbe(*self._head(), state.part)))

    def _probed(self, who: ServerId, part: SetPart) -> None:
        state = self.state
        if not is_sound(part) or part.view.servers[0] != who:
            return self._ignored("SetProbe", "not its speaker")
        if not self._speaks:
            return self._ignored("SetProbe", "we do not speak for our part")
        if state.merging is not None or not self._is_open_to(part) or not self._is_whole(part):
            return self._ignored("SetProbe", "we cannot merge now")
        if state.view.members[0].gid < part.view.members[0].gid:
            return self._send(who, SetProbe(*self._head(), state.part))
        if (
            isinstance(state.phase, Offering) and who > state.phase.to
        ):  # all to one, or each waits for the next
            return self._ignored("SetProbe", "we offered a merge to another part")
        if isinstance(state.phase, Idle | Holding | Offering):
            return self._offer(who)
        return self._set(probed_by=who)

    def _offer(self, to: ServerId) -> None:
        self._set(phase=Offering(to, is_sent=False), probed_by=None)

    def _offer_now(self) -> bool:
        """A change has ended during which we were probed: where one follows the other, none finds us idle."""
        state = self.state
        if (to := state.probed_by) is None:
            return False
        self._set(probed_by=None)
        may = self._speaks and self._is_whole() and to.server in self._outsiders()
        if may:
            self._offer(to)
        return may

    def _send_offer(self, to: ServerId) -> None:
        self._set(phase=Offering(to))
        self._send(to, Offer(*self._head(), self.state.part, self.state.table.carried()))

    def _offered(self, who: ServerId, message: Offer) -> None:
        state, part = self.state, message.part
        if not is_sound(part) or part.view.servers[0] != who or not are_sound(message.groups):
            return self._ignored("Offer", "not its speaker")
        if not self._is_in_reach(part, message.groups):
            return self._ignored("Offer", "numbers that no part comes to")
        if not self._speaks or state.view.members[0].gid > part.view.members[0].gid:
            return self._send(who, Declined(*self._head()))
        others = [each for each in state.offers if each.speaker != who]
        return self._set(offers=(*others, PartOffer(part, message.groups)))

    def _next_offer(self) -> PartOffer | None:
        """One that can be taken now; those that cannot are declined."""
        while self.state.offers:
            offer, *rest = self.state.offers
            self._set(offers=tuple(rest))
            if self._speaks and self._is_whole(offer.part):
                return offer
            self._send(offer.speaker, Declined(*self._head()))
        return None

    def _propose_merge(self, offer: PartOffer) -> None:
        state = self.state
        pid = Pid(state.me, state.count)
        change = PartsMerged((state.part, offer.part))
        slot = self._next_slot(max(state.part.slot, offer.part.slot))
        proposal = Proposal(pid, slot, state.base, change, priority_of(change, state.view, pid))
        self._set(
            count=state.count + 1,
            phase=Coordinating(proposal, Round(pid, 0, state.me)),
            carried=offer.groups,
        )
        self._send_initiate(self._awaited())

    def _forget_offers(self, of: frozenset[Domain]) -> None:
        """Drop offers of parts with one of these servers in them."""
        kept = [
            each
            for each in self.state.offers
            if not of.intersection([server.server for server in each.part.view.servers])
        ]
        self._set(offers=tuple(kept))

    def _declined(self, who: ServerId, message: Declined) -> None:
        match self.state.phase, message.refused:
            case Offering(to), None if to == who:
                self._set(phase=Idle())
            case Coordinating(proposal, own), refused if own == refused and is_merge(proposal):
                self._call_off()
            case _:
                self._ignored("Declined", "of a round that is over")

    def _call_off(self) -> None:
        """Our own merge: all stay where they were."""
        phase = self.state.phase
        assert isinstance(phase, Coordinating) and is_merge(phase.proposal), "only a merge is called off"
        self._send_all(Yield(*self._head(), phase.round))
        self._leave_merge(phase.proposal.pid)

    def _leave_merge(self, pid: Pid) -> None:
        state = self.state
        ours = frozenset(state.view.servers)
        evidence = [(who, whom & ours) for who, whom in state.evidence if who in ours]
        self._set(
            phase=Idle(),
            isolated=state.isolated & ours,
            accused_since=state.accused_since if state.isolated & ours else None,
            evidence=tuple([(who, whom) for who, whom in evidence if whom]),
            carried=(),
        )
        self._called_off(pid)
