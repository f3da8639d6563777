"""Notices, the snapshot and the delegate's numbers reach a joiner in many orders; what it ends with is one.

The servers promise order per source and nothing between sources, and the delegate answers at some moment of
its own. Whatever the interleaving, the member ends with the same people, and is owed each from a number
that its delegate gave or its notice said.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fifobench import G, MemberBench, controls, cut, entry, user

from rostra.groups.members import Cause
from rostra.protocols.fifo.messages import Channel, CutReply, CutRequest, SyncReply
from rostra.protocols.fifo.sender import SenderActive
from rostra.protocols.relaxed.requests import Joined, Left

HOSTS = ("h2", "h3", "h4")


class Source:
    """One host's life: joins and leaves of its one program, in order, with growing stamps."""

    def __init__(self, host: str, steps: int) -> None:
        self.host = host
        self.events: list[Joined | Left] = []
        self.states = [None]
        for step in range(1, steps + 1):
            member = user(f"huji.{host}/p", next_seq=10 * step, stamp=step)
            if step % 2:
                self.events.append(Joined(G, (member,), Cause.JOIN))
                self.states.append(member)
            else:
                self.events.append(Left(G, member.endpoint, (1, step), Cause.LEAVE, last=10 * step))
                self.states.append(None)


def listed(sources, upto):
    """Who is there when that many events of each source have happened, and how far that is."""
    people = [source.states[upto[source.host]] for source in sources]
    floors = {source.host: upto[source.host] for source in sources if upto[source.host]}
    return [person for person in people if person is not None], floors


@pytest.mark.spec("X-030", "X-007", "X-127")
@given(st.data())
def test_whatever_the_order_the_view_is_the_same(data):
    sources = [Source(host, data.draw(st.integers(0, 4), label=host)) for host in HOSTS]

    def moment(label, least=None):
        return {
            source.host: data.draw(
                st.integers((least or {}).get(source.host, 0), len(source.events)),
                label=f"{label} {source.host}",
            )
            for source in sources
        }

    snapshot_at = moment("snapshot")
    reply_at = moment("reply", snapshot_at)  # the delegate has seen what we had seen when we asked
    bench = MemberBench()
    bench.join()
    early = {source.host: data.draw(st.integers(0, snapshot_at[source.host])) for source in sources}
    queue = {source.host: list(source.events) for source in sources}

    def notices(counts):
        """Tell so many of each source's notices, in any order between sources."""
        left = dict(counts)
        while any(left.values()):
            host = data.draw(st.sampled_from(sorted(host for host, n in left.items() if n)))
            left[host] -= 1
            answer(bench.tell(queue[host].pop(0)))

    def answer(effects):
        """The delegate answers questions about its own LAN from all that ever happened."""
        for question in controls(effects):
            if isinstance(question, CutRequest):
                everybody, floors = listed(sources, {s.host: len(s.events) for s in sources})
                given = tuple(entry(member, 500) for member in everybody)
                reply = CutReply(G, question.req, 1, cut("huji", *given, h1=1, **floors))
                answer(bench.message(bench.source, reply))

    notices(early)
    people, _ = listed(sources, snapshot_at)
    [question] = controls(bench.listed(bench.me, bench.delegate, *people))
    between = {
        source.host: data.draw(st.integers(0, len(queue[source.host])), label=f"between {source.host}")
        for source in sources
    }
    notices(between)
    people, floors = listed(sources, reply_at)
    given = tuple(entry(member, 400) for member in people)
    answer(
        bench.message(
            bench.source, SyncReply(G, question.req, 1, (cut("huji", *given, h1=1, **floors),), Channel())
        )
    )
    notices({host: len(rest) for host, rest in queue.items()})
    answer(bench.fire("cut", "huji"))
    for source in sources:
        bench.fire("drain", user(f"huji.{source.host}/p").endpoint)

    everybody, _ = listed(sources, {source.host: len(source.events) for source in sources})
    running = bench.core.senders.running
    assert sorted(running) == sorted(member.endpoint for member in everybody)
    for member in everybody:
        sender = running[member.endpoint]
        assert (sender.state, sender.stamp) == (SenderActive(), member.stamp)
        assert sender.inbound.start in (400, 500, 10 * member.stamp[1])
