"""What a group that speaks costs: memory per sender, receiver and group, and datagrams between sites, as
members become ten thousand (`spec/xpand.md`, X-045, X-046, X-053).

    python -m benchmarks.xpand_state             a minute or two; prints tables in Markdown
    python -m benchmarks.xpand_state --quick     a tenth of everything
    python -m benchmarks.xpand_state --joins     XX-22: joins at a delegate in groups of many sizes

One real core is measured alone, with nobody to share anything with: the delegate of one site, or one member,
told of all the others by notices as the servers would (whole worlds: `benchmarks.xpand_sim --growth`).
Bytes are what Python's allocator handed out and still holds (`tracemalloc`).
"""

import argparse
import gc
import heapq
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from time import process_time
from typing import Final

from rostra.core.effects import CancelTimer, Effect, Event, SetTimer, TimerFired, TimerKey
from rostra.groups.attributes import DelegateAttributes, FifoAttributes, Role
from rostra.groups.kinds import FIFO
from rostra.groups.members import Cause, Member
from rostra.names import ROOT, Domain, Endpoint, Group, host_of, parent
from rostra.protocols.fifo.delegate import DelegateCore
from rostra.protocols.fifo.events import AskMembership, Heard, JoinAsked, Noticed, Transmit
from rostra.protocols.fifo.member import MemberCore
from rostra.protocols.fifo.messages import (
    Channel,
    Cut,
    CutEntry,
    CutReply,
    ForceJoin,
    StartSync,
    SyncReply,
    ViewId,
    decode_control,
    encode,
)
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Data, Report, Run, Status
from rostra.protocols.flow.runs import block_of
from rostra.protocols.relaxed import requests as ns

G: Final = Group("table", ROOT)
HUJI, MIT = Domain("huji"), Domain("mit")


def person(name: str, role: Role) -> Member:
    return Member(Endpoint(f"{name}#1"), (1, 1), b"", FIFO, FifoAttributes(role, 1))


def delegate_at(lan: Domain) -> Member:
    return Member(Endpoint(f"{lan}.-delegate/adhoc#1"), (1, 1), b"", FIFO, DelegateAttributes())


def people(site: str, role: Role, count: int, *, after: int = 0, hosts: int = 50) -> Iterator[Member]:
    """Spread over some hosts, as in a site."""
    for number in range(after, after + count):
        yield person(f"{site}.h{number % hosts}/p{number}", role)


class Driver:
    """One delegate in virtual time. What it sends to other sites is counted; receivers confirm at once."""

    def __init__(self) -> None:
        self.core = DelegateCore(G, delegate_at(HUJI).endpoint, FifoConfig(), luck=1, channel=Channel())
        self.now = 0.0
        self.sent: Counter[str] = Counter()
        self._timers: dict[TimerKey, float] = {}
        self._heap: list[tuple[float, TimerKey]] = []

    def step(self, event: Event) -> list[Effect]:
        effects = self.core.step(self.now, event)
        for effect in effects:
            match effect:
                case Transmit(to, _, message) if not to.startswith("huji"):
                    self.sent[type(message).__name__] += 1
                case SetTimer(timer, after_s):
                    self._timers[timer] = self.now + after_s
                    heapq.heappush(self._heap, (self.now + after_s, timer))
                case CancelTimer(timer):
                    self._timers.pop(timer, None)
        return effects

    def tell(self, notice: object) -> list[Effect]:
        return self.step(Noticed(notice))

    def run(self, for_s: float) -> None:
        end = self.now + for_s
        while self._heap and self._heap[0][0] <= end:
            at, timer = heapq.heappop(self._heap)
            if self._timers.get(timer) == at:
                del self._timers[timer]
                self.now = at
                self.step(TimerFired(timer))
        self.now = end

    def enter(self, senders: int) -> None:
        """In the group, beside MIT with so many senders."""
        self.tell(ns.Message(Endpoint("huji.h0/first#1"), encode(ForceJoin(G, 1))))
        far = tuple(people("mit", Role.SEND, senders))
        for effect in self.tell(ns.Absolute(G, (delegate_at(HUJI), delegate_at(MIT), *far))):
            if isinstance(effect, AskMembership) and isinstance(effect.request, ns.SendTo):
                question = decode_control(effect.request.data)
                if isinstance(question, ViewId):
                    floors = tuple(sorted({host_of(each.endpoint): (1, 1) for each in far}.items()))
                    entries = tuple([CutEntry(each.endpoint, each.stamp, Role.SEND, 1) for each in far])
                    reply = CutReply(G, question.req, 1, Cut(MIT, 1, floors, True, entries))
        self.tell(ns.Message(delegate_at(MIT).endpoint, encode(reply)))
        self.tell(ns.Message(delegate_at(MIT).endpoint, encode(ViewId(G, 9, 1, 1))))

    def enter_among(self, sites: int, each: int, senders: int) -> None:
        """In the group, beside so many sites with so many members each, of whom so many speak."""
        self.tell(ns.Message(Endpoint("huji.h0/first#1"), encode(ForceJoin(G, 1))))
        names = [Domain(f"site{number:02}") for number in range(sites)]
        speak = {name: tuple(people(name, Role.BOTH, senders)) for name in names}
        listen = [tuple(people(name, Role.RECEIVE, each - senders, after=senders)) for name in names]
        delegates = [delegate_at(name) for name in (HUJI, *names)]
        everybody = (*delegates, *chain(*speak.values()), *chain(*listen))
        asked = {}
        for effect in self.tell(ns.Absolute(G, everybody)):
            if isinstance(effect, AskMembership) and isinstance(effect.request, ns.SendTo):
                question = decode_control(effect.request.data)
                if isinstance(question, ViewId):
                    (to,) = effect.request.destinations
                    asked[parent(host_of(to))] = question.req
        for name in names:
            floors = tuple(sorted({host_of(each.endpoint): (1, 1) for each in speak[name]}.items()))
            entries = tuple([CutEntry(each.endpoint, each.stamp, Role.BOTH, 1) for each in speak[name]])
            reply = CutReply(G, asked[name], 1, Cut(name, 1, floors, True, entries))
            self.tell(ns.Message(delegate_at(name).endpoint, encode(reply)))
            self.tell(ns.Message(delegate_at(name).endpoint, encode(ViewId(G, 9, 1, 1))))

    def let_in(self, member: Member) -> list[Effect]:
        """Everything that a delegate does when one of its own site joins; the last effects are its answer."""
        told = self.tell(ns.Joined(G, (member,), Cause.JOIN))
        question = StartSync(G, 1, Role.RECEIVE, 1, 1)
        return told + self.tell(ns.Message(member.endpoint, encode(question)))

    def have_receivers(self, count: int) -> list[Member]:
        """Members of our own site, with their numbers."""
        members = list(people("huji", Role.RECEIVE, count))
        for member in members:
            self.let_in(member)
        return members


def weighed(build: Callable[[], object]) -> int:
    """How many bytes what was built keeps."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = build()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
        del kept
        return size
    finally:
        tracemalloc.stop()


def delegate(*, senders: int = 1, receivers: int = 0, elsewhere: int = 0) -> Driver:
    driver = Driver()
    driver.enter(senders)
    driver.have_receivers(receivers)
    for begin in range(0, elsewhere, 1000):
        some = tuple(people("mit", Role.RECEIVE, min(1000, elsewhere - begin), after=begin))
        driver.tell(ns.Joined(G, some, Cause.JOIN))
    return driver


def member(*, senders: int = 1, others: int = 0) -> MemberCore:
    """One that receives, of a site whose delegate is in."""
    core = MemberCore(G, Endpoint("huji.h0/me#1"), FifoConfig(), luck=1, role=Role.RECEIVE)
    core.step(0.0, JoinAsked(core.me, 1, G, 1, Role.RECEIVE))
    near = tuple(people("huji", Role.SEND, senders))
    rest = tuple(people("mit", Role.RECEIVE, others))
    core.step(0.0, Noticed(ns.Absolute(G, (delegate_at(HUJI), *near, *rest))))
    floors = tuple(sorted({host_of(each.endpoint): (1, 1) for each in near}.items()))
    entries = tuple([CutEntry(each.endpoint, each.stamp, Role.SEND, 1) for each in near])
    reply = SyncReply(G, 1, 1, (Cut(HUJI, 1, floors, True, entries),), Channel())
    core.step(0.0, Noticed(ns.Message(delegate_at(HUJI).endpoint, encode(reply))))
    return core


def between_sites(receivers: int, messages: int) -> Counter[str]:
    """What a delegate with so many receivers says to other sites about a stream from one of them."""
    driver = Driver()
    driver.enter(1)
    members = driver.have_receivers(receivers)
    driver.run(5.0)
    driver.step(Heard(G, MIT, (Report(()),)))  # so long is the way there
    driver.sent.clear()
    [stream] = [each.endpoint for each in people("mit", Role.SEND, 1)]
    block = block_of([b"x" * 100])
    for number in range(1, messages + 1):
        driver.step(Heard(G, MIT, (Data(stream, Run(number, 1, block), number, 0),)))
        driver.run(0.05)
        if number % 2 == 0:
            for each in members:
                driver.step(
                    Heard(G, host_of(each.endpoint), (Status(each.endpoint, ((stream, number + 1),)),))
                )
        driver.run(0.05)
    return driver.sent


def tables(many: int) -> Iterator[str]:
    few = many // 10
    base = weighed(lambda: delegate())
    yield "| kept by a delegate | bytes |"
    yield "|---|---:|"
    yield f"| the group itself, one stream from elsewhere | {base:,} |"
    more = weighed(lambda: delegate(senders=few))
    yield f"| each further sender elsewhere ({few:,} of them) | {(more - base) / (few - 1):,.0f} |"
    for count in (few, many):
        more = weighed(partial(delegate, receivers=count))
        yield f"| each receiver of its own site ({count:,}) | {(more - base) / count:,.0f} |"
    for count in (many, 5 * many):
        more = weighed(partial(delegate, elsewhere=count))
        yield f"| each receiver elsewhere ({count:,}) | {(more - base) / count:,.1f} |"
    yield ""
    base = weighed(lambda: member())
    yield "| kept by a member | bytes |"
    yield "|---|---:|"
    yield f"| the group itself, one stream | {base:,} |"
    more = weighed(lambda: member(senders=few))
    yield f"| each further sender ({few:,}) | {(more - base) / (few - 1):,.0f} |"
    more = weighed(lambda: member(others=many))
    yield f"| each member that only receives: its line in the list ({many:,}) | {(more - base) / many:,.0f} |"
    yield ""
    yield "| receivers of a site | datagrams to other sites, per 20 messages from one |"
    yield "|---:|---|"
    for count in (10, few, many):
        said = between_sites(count, 20)
        yield f"| {count:,} | {', '.join(f'{number} {kind}' for kind, number in sorted(said.items()))} |"


CROWDS: Final = {"40 sites of 5": (40, 5), "40 sites of 200": (40, 200), "40 sites of 1,250": (40, 1250)}
"""Five speak at each site; the last are the 50,000 who only listen, and a few."""


def join_table(rounds: int = 5, joins: int = 200) -> Iterator[str]:
    """XX-22: what a join costs its delegate, as the group grows. Processor time; the groups take turns."""
    took: dict[str, list[float]] = {name: [] for name in CROWDS}
    kept: dict[str, int] = {}
    for turn in range(rounds):
        for name, (sites, each) in CROWDS.items():
            driver = Driver()
            driver.enter_among(sites, each, 5)
            if turn == 0:
                kept[name] = len(driver.core.view.members)
            gc.collect()
            gc.disable()
            for member in people("huji", Role.RECEIVE, joins):
                began = process_time()
                driver.let_in(member)
                took[name].append(process_time() - began)
            gc.enable()
    yield "| group | members that a delegate keeps a line of | a join costs it: p50, p99 (ms) |"
    yield "|---|---:|---:|"
    for name, times in took.items():
        times.sort()
        median, late = (1000 * times[int(share * len(times))] for share in (0.5, 0.99))
        yield f"| {name} | {kept[name]:,} | {median:.2f}, {late:.2f} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.xpand_state",
        description="What a group that speaks costs, up to ten thousand receivers.",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--joins", action="store_true", help="only what a join costs, as the group grows")
    arguments = parser.parse_args()
    try:
        for line in join_table() if arguments.joins else tables(1000 if arguments.quick else 10_000):
            print(line, flush=True)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
