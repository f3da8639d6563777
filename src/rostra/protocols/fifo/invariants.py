"""Invariants after every step, as plain functions that return a list of violations (IX-1..IX-8).

They look at one core alone; invariants between cores (IX-3, IX-4, IX-7, IX-8) are checked by the simulator
and the tests.
"""

from collections.abc import Iterator
from itertools import pairwise

from rostra.protocols.fifo.delegate import DelegateCore
from rostra.protocols.fifo.member import Leaving, MemberCore
from rostra.protocols.fifo.reception import Outside, sends
from rostra.protocols.fifo.relay import Relay
from rostra.protocols.flow.messages import Range
from rostra.protocols.flow.streams import Inbound


def member_violations(core: MemberCore) -> list[str]:
    """Violations at a member; those of a shared reception are reported with its first member."""
    wrong = list(_own_stream(core))
    if core.reception.context.speaks_as == core.me:
        wrong += [*_senders(core), *_speakers(core)]
    return wrong


def delegate_violations(core: DelegateCore) -> list[str]:
    return [*_relays(core), *_peers(core)]


def _own_stream(core: MemberCore) -> Iterator[str]:
    sending, config = core.sending, core.config
    if sending.last_seq - sending.stable > config.window_messages:
        yield f"{core.me} is {sending.last_seq - sending.stable} ahead, more than the window"
    if sending.store.end not in (0, sending.next_seq):
        yield f"{core.me} keeps up to {sending.store.end} and emitted up to {sending.last_seq}"
    if sending.store.holes(sending.stable + 1, sending.last_seq):
        yield f"{core.me} has forgotten messages that are not stable"


def _senders(core: MemberCore) -> Iterator[str]:
    for stream, sender in core.senders.running.items():
        yield from _inbound(stream, sender.inbound)
        if sender.inbound.store.messages > core.config.held_messages + core.config.window_messages:
            yield f"{stream} fills {sender.inbound.store.messages} places"
    for stream in core.senders.announced:
        if stream in core.senders.running:
            yield f"{stream} has begun, and its number is asked for"
    if any(core.reception.context.is_alone(who) for who in (*core.senders.running, *core.senders.announced)):
        yield "a member hears itself"


def _speakers(core: MemberCore) -> Iterator[str]:
    if not core.view.known or isinstance(core.state, Leaving | Outside):
        return
    sending = {member.endpoint: member for member in core.view.members if sends(member)}
    if core.lans.speakers != sending:
        yield f"{core.me} takes {sorted(core.lans.speakers)} for speakers, and {sorted(sending)} are"


def _inbound(stream: str, inbound: Inbound) -> Iterator[str]:
    if not inbound.start <= inbound.told <= inbound.next <= inbound.high + 1:
        yield (
            f"{stream}: start {inbound.start}, told {inbound.told}, next {inbound.next}, high {inbound.high}"
        )
    if inbound.store.holes(inbound.told, inbound.next - 1):
        yield f"{stream}: {inbound.told} to {inbound.next - 1} came, and are not all there"
    holes = [(hole.first, hole.last) for hole in inbound.holes.holes]
    if _joined(holes) != inbound.store.holes(inbound.next, inbound.holes.upto):
        yield f"{stream}: {holes} are taken for missing, from {inbound.next} to {inbound.holes.upto}"
    runs = inbound.store.runs
    if any(one.end > other.first for one, other in pairwise(runs)):
        yield f"{stream}: runs overlap"
    if sum(run.count for run in runs) != inbound.store.messages:
        yield f"{stream}: messages are miscounted"


def _joined(ranges: list[Range]) -> list[Range]:
    """The same ranges, with adjacent ones joined."""
    joined: list[Range] = []
    for first, last in ranges:
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def _relays(core: DelegateCore) -> Iterator[str]:
    for stream, relay in core.relays.running.items():
        yield from _inbound(stream, relay.inbound)
        yield from _pins(core, relay)


def _pins(core: DelegateCore, relay: Relay) -> Iterator[str]:
    pins = relay.pins
    for receiver in pins.local:
        if receiver not in core.relays.sharing:
            yield f"{relay.stream} is pinned for {receiver}, which is not here"
    if relay.lan != core.lan:
        return
    for who, next in [*pins.local.items(), *((lan, next) for lan, (_, next) in pins.lans.items())]:
        if next <= pins.stable:
            yield f"{relay.stream} is stable up to {pins.stable}, and {who} is owed {next}"
    if pins.stable >= relay.inbound.next:
        yield f"{relay.stream} is stable up to {pins.stable}, and its home misses {relay.inbound.next}"
    if relay.inbound.store.holes(pins.stable + 1, relay.inbound.next - 1):
        yield f"{relay.stream}: its home has forgotten messages that are not stable"


def _peers(core: DelegateCore) -> Iterator[str]:
    if core.lan in core.peers.machines:
        yield "a delegate is its own peer"
    for lan in core.forwarding.present:
        if lan not in core.relays.pinned:
            yield f"data goes to {lan}, which is owed nothing"
