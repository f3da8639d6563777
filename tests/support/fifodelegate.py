"""A delegate on the bench that is in its group: with members of its own LAN, with peers, in a tree."""

from support.fifobench import (
    DelegateBench,
    G,
    cut,
    delegate,
    entry,
    speech,
    user,
)

from rostra.groups.attributes import Role
from rostra.names import Domain
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.messages import (
    CutReply,
    StartSync,
    ViewId,
)
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import (
    Data,
    ForwardingTree,
)

A = user("huji.h1/a")
B = user("huji.h3/b")
READER = user("huji.h2/reader", role=Role.RECEIVE)
FAR = user("mit.h1/far")
MIT, NTU = delegate("mit"), delegate("ntu")
HUJI = Domain("huji")


def inside(*members, **settings):
    """In the group with a sender `a` and a receiver `reader` of its own LAN, both with their numbers."""
    bench = DelegateBench(config=FifoConfig(**settings))
    bench.inside(*members)
    bench.joined(A)
    bench.joined(READER)
    sync(bench, A)
    sync(bench, READER)
    return bench


def sync(bench, member, *, first=1, have=()):
    return bench.message(member.endpoint, StartSync(G, 1, Role.BOTH, 1, first, have))


def with_mit(*, start=1, **settings):
    """And a peer that both sides know, with a sender `far`."""
    bench = inside(FAR, MIT, **settings)
    bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, start), h1=1)))
    bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))
    return bench


def sent(effects, kind=Data):
    """Who was sent what of the data channel."""
    return [
        (each.to if isinstance(each, ev.Transmit) else "LAN", each.message)
        for each in speech(effects)
        if isinstance(each.message, kind)
    ]


def between(start=1):
    """HUJI in the middle of a tree: a stream comes from MIT, and NTU is behind us."""
    bench = with_mit(start=start)
    bench.joined(NTU)
    bench.message(NTU.endpoint, ViewId(G, 9, 1, 1))
    links = ((HUJI, Domain("mit")), (HUJI, Domain("ntu")))
    bench.message(MIT.endpoint, ForwardingTree(G, 5, Domain("aaa"), links))
    bench.fire("settled")
    return bench
