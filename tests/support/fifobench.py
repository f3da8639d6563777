"""One member or one delegate on the bench: hand it notices and messages, read its effects."""

from typing import Any

from rostra.core.effects import CancelTimer, Effect, Ignored, Noted, SetTimer, TimerFired
from rostra.groups.attributes import DelegateAttributes, FifoAttributes, Role
from rostra.groups.kinds import FIFO
from rostra.groups.members import Because, Cause, Member, Part
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.context import delegate_host
from rostra.protocols.fifo.delegate import DelegateCore
from rostra.protocols.fifo.invariants import delegate_violations, member_violations
from rostra.protocols.fifo.member import MemberCore
from rostra.protocols.fifo.messages import Channel, Cut, CutEntry, decode_control, encode
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Data, Run
from rostra.protocols.flow.runs import block_of, payloads
from rostra.protocols.relaxed import requests as ns

G = Group("g", ROOT)
SILENT = Because(Domain("accuser"), Domain("accused"), "silent")


def user(name: str, *, next_seq: int = 1, stamp: int = 1, role: Role = Role.BOTH, life: int = 1) -> Member:
    return Member(Endpoint(f"{name}#{life}"), (1, stamp), b"", FIFO, FifoAttributes(role, next_seq))


def delegate(lan: str, epoch: int = 1, stamp: int = 1) -> Member:
    me = Endpoint(f"{delegate_host(Domain(lan))}/adhoc#{epoch}")
    return Member(me, (epoch, stamp), b"", FIFO, DelegateAttributes())


def cut(lan: str, *entries: CutEntry, epoch: int = 1, complete: bool = True, **floors: int) -> Cut:
    at = tuple((Domain(f"{lan}.{host}"), (1, stamp)) for host, stamp in sorted(floors.items()))
    return Cut(Domain(lan), epoch, at, complete, entries)


def entry(member: Member, start: int) -> CutEntry:
    return CutEntry(member.endpoint, member.stamp, Role.BOTH, start)


def data(
    sender: Member, first: int, count: int = 1, *, high: int = 0, stable: int = 0, repair: bool = False
) -> Data:
    block = block_of([b"%d" % number for number in range(first, first + count)])
    run = Run(first, count, block)
    return Data(sender.endpoint, run, max(high, first + count - 1), stable, repair)


class _Bench:
    core: Any

    def __init__(self) -> None:
        self.now = 0.0

    def step(self, event: Any, now: float | None = None) -> list[Effect]:
        self.now = self.now if now is None else now
        effects: list[Effect] = self.core.step(self.now, event)
        self.check()
        return effects

    def check(self) -> None:
        raise NotImplementedError

    def tell(self, notice: Any) -> list[Effect]:
        return self.step(ev.Noticed(notice))

    def joined(self, *members: Member, cause: Cause = Cause.JOIN, part: Part | None = None) -> list[Effect]:
        return self.tell(ns.Joined(G, members, cause, part))

    def left(self, member: Member, *, last: int | None = None, stamp: int = 99) -> list[Effect]:
        cause = Cause.CRASH if last is None else Cause.LEAVE
        return self.tell(ns.Left(G, member.endpoint, (1, stamp), cause, last=last))

    def listed(self, *members: Member) -> list[Effect]:
        return self.tell(ns.Absolute(G, tuple(sorted(members, key=lambda member: member.endpoint))))

    def without(self, domain: str) -> list[Effect]:
        return self.tell(ns.Without(Domain(domain), SILENT))

    def message(self, source: Endpoint, message: Any) -> list[Effect]:
        return self.tell(ns.Message(source, encode(message)))

    def hear(self, source: str, *messages: Any) -> list[Effect]:
        return self.step(ev.Heard(G, Domain(source), messages))

    def fire(self, what: str, which: str = "", now: float | None = None) -> list[Effect]:
        return self.step(TimerFired(self.core.context._key(what, which)), now)


class MemberBench(_Bench):
    """`huji.h1/me` in group g."""

    def __init__(
        self, *, role: Role = Role.BOTH, config: FifoConfig | None = None, next_seq: int = 1
    ) -> None:
        super().__init__()
        self.me = user("huji.h1/me", next_seq=next_seq, role=role)
        self.core = MemberCore(
            G, self.me.endpoint, config or FifoConfig(), luck=1, role=role, next_seq=next_seq
        )
        self.delegate = delegate("huji")
        self.source = self.delegate.endpoint

    def check(self) -> None:
        assert member_violations(self.core) == []

    def join(self) -> list[Effect]:
        return self.step(ev.JoinAsked(self.me.endpoint, 1, G, 1))

    def active(self, *cuts: Cut, members: tuple[Member, ...] = ()) -> list[Effect]:
        """Go all the way to state 3, with these cuts, and these members noticed."""
        from rostra.protocols.fifo.messages import SyncReply

        self.join()
        said = controls(self.listed(self.me, self.delegate, *members))
        [question] = said
        own = [each for each in cuts if each.lan == "huji"] or [cut("huji", h1=1)]
        others = [each for each in cuts if each.lan != "huji"]
        return self.message(self.source, SyncReply(G, question.req, 1, (*own, *others), Channel()))

    def submit(self, count: int) -> list[Effect]:
        block = block_of([b"m"] * count)
        return self.step(ev.Submitted(self.me.endpoint, G, count, block))


class DelegateBench(_Bench):
    """The delegate of `huji` in group g."""

    def __init__(self, *, config: FifoConfig | None = None) -> None:
        super().__init__()
        self.me = delegate("huji")
        self.core = DelegateCore(G, self.me.endpoint, config or FifoConfig(), luck=1, channel=Channel())

    def check(self) -> None:
        assert delegate_violations(self.core) == []

    def inside(self, *members: Member) -> list[Effect]:
        """Go to state 2, with these members listed."""
        from rostra.protocols.fifo.messages import ForceJoin

        self.message(Endpoint("huji.h9/someone#1"), ForceJoin(G, 1))
        return self.listed(self.me, *members)


def controls(effects: list[Effect]) -> list[Any]:
    """What was said through the servers."""
    return [
        decode_control(effect.request.data)
        for effect in effects
        if isinstance(effect, ev.AskMembership) and isinstance(effect.request, ns.SendTo)
    ]


def asked(effects: list[Effect]) -> list[Any]:
    """Other questions to the notice service."""
    return [
        effect.request
        for effect in effects
        if isinstance(effect, ev.AskMembership) and not isinstance(effect.request, ns.SendTo)
    ]


def items(effects: list[Effect]) -> list[ev.Item]:
    """What readers are delivered, one by one."""
    found = [effect.item for effect in effects if isinstance(effect, ev.Deliver)]
    return [
        one for item in found for one in (item.items if isinstance(item, ev.ChangesTogether) else (item,))
    ]


def numbers(effects: list[Effect]) -> list[int]:
    return [
        int(body) for item in items(effects) if isinstance(item, ev.Delivered) for body in payloads(item.run)
    ]


def speech(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, ev.Cast | ev.Transmit)]


def timers(effects: list[Effect]) -> dict[str, float]:
    """What is waited for, and for how long."""
    waits: dict[str, float] = {}
    for effect in effects:
        match effect:
            case SetTimer(timer, after_s):
                waits[" ".join(str(word) for word in timer[4:] if word)] = after_s
            case CancelTimer(timer):
                waits.pop(" ".join(str(word) for word in timer[4:] if word), None)
    return waits


def ignored(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(effect.what, effect.why) for effect in effects if isinstance(effect, Ignored)]


def noted(effects: list[Effect], what: str) -> list[str]:
    return [effect.about for effect in effects if isinstance(effect, Noted) and effect.what == what]
