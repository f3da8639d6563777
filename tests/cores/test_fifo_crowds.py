"""What a crowd costs: questions, items and lines for each notice, and not for each member that it names."""

import pytest
from support.counting import Counted, lines
from support.fifobench import DelegateBench, G, MemberBench, controls, cut, entry, items, user

from rostra.core.effects import Answer, Effect, Tell
from rostra.groups.members import Cause
from rostra.names import Domain, Endpoint
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.member import MemberCore
from rostra.protocols.fifo.messages import Channel, CutReply, CutRequest, SyncReply, encode
from rostra.protocols.fifo.pieces import pieces_of
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.relaxed import requests as ns
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.local_state import Presence
from rostra.protocols.relaxed.messages import MessageId
from rostra.protocols.relaxed.resolves import AUTO, OpenQuery, QueryKind, Resolves

FEW, MANY = 20, 200


def crowd(host: str, count: int, *, first: int = 10):
    """They joined in another order than that of their names."""
    return tuple(user(f"{host}/m{number:04}", stamp=first + count - number) for number in range(count))


def active_in_huji(*members):
    bench = MemberBench()
    bench.active(cut("huji", *(entry(member, 1) for member in members), h1=1, h2=1), members=members)
    return bench


@pytest.mark.spec("X-015", "X-028")
def test_members_that_one_notice_names_in_any_order_begin_with_it_and_nobody_is_asked():
    bench = active_in_huji()
    newcomers = crowd("huji.h2", MANY)
    told = bench.joined(*newcomers)
    assert controls(told) == []
    [together] = items(told)
    assert [who for who, _, _ in together.members] == [member.endpoint for member in newcomers]
    assert bench.core.lans.machines[Domain("huji")].floors[Domain("huji.h2")] == (1, 10 + MANY)


@pytest.mark.spec("X-015", "TX-2")
def test_members_that_were_noticed_before_the_cut_begin_with_it_in_whatever_order_they_joined():
    bench = MemberBench()
    bench.join()
    [question] = controls(bench.listed(bench.me, bench.delegate))
    newcomers = crowd("huji.h2", MANY)
    assert controls(bench.joined(*newcomers)) == []
    reply = SyncReply(G, question.req, 1, (cut("huji", h1=1, h2=1),), Channel())
    told = bench.message(bench.source, reply)
    assert controls(told) == [] and bench.core.senders.announced == set()
    [ready] = [item for item in items(told) if isinstance(item, ev.Ready)]
    assert {member.endpoint for member in newcomers} <= {who for who, _, _ in ready.members}


@pytest.mark.spec("TX-8")
@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_merge_asks_one_question_for_all_whom_it_brings_and_tells_of_them_in_one_item(count):
    bench = active_in_huji()
    back = crowd("huji.h2", count)
    asked = bench.joined(*back, cause=Cause.MERGE)
    [question] = controls(asked)
    assert isinstance(question, CutRequest) and len(question.members) == count and items(asked) == []
    entries = [entry(member, 5) for member in back]
    reply = CutReply(bench.core.group, question.req, 1, cut("huji", *entries, h1=1, h2=10 + count))
    [together] = items(bench.message(bench.source, reply))
    assert [who for who, _, _ in together.members] == [member.endpoint for member in back]


@pytest.mark.spec("X-031")
def test_a_leave_costs_a_delegate_the_same_however_many_speak():
    """Whether its own numbers are complete is known, and not counted each time."""

    def leave(count: int) -> int:
        bench = DelegateBench()
        bench.inside()
        members = crowd("huji.h1", count)
        bench.joined(*members)
        left = ns.Left(G, members[0].endpoint, (1, 2 * count + 10), Cause.LEAVE, last=0)
        return lines(lambda: bench.core.step(1.0, ev.Noticed(left)))

    assert leave(MANY) < leave(FEW) + 10


def test_a_question_for_many_is_looked_through_once_and_not_for_each_stream():
    bench = DelegateBench()
    bench.inside()
    asker, *others = crowd("huji.h1", MANY)
    bench.joined(asker, *others)
    Counted.compared = 0
    named = tuple([Counted(member.endpoint) for member in others])
    relays = [bench.core.relays.running[member.endpoint] for member in others]
    entries = bench.core._entries(relays, Endpoint("huji.h1"), {}, named)
    assert len(entries) == len(others) and Counted.compared <= len(others)


def test_a_reader_that_comes_where_others_read_goes_on_with_no_stream_that_they_have():

    def comes(count: int) -> int:
        bench = active_in_huji(*crowd("huji.h2", count))
        senders = bench.core.senders
        late = MemberCore(G, Endpoint("huji.h1/late#2"), FifoConfig(), luck=1)
        late.ready = True
        senders.came(late)
        return lines(lambda: senders._read([late]))

    assert comes(MANY) < comes(FEW) + 3 * (MANY - FEW), "one look at each, and no more"


@pytest.mark.parametrize("count", [FEW, MANY])
def test_an_answer_that_many_wait_for_is_told_to_all_of_them_in_one_notice(count):
    """Each of them was told of its own accord by the agent, and asked for itself as well."""
    endpoints = [Endpoint(f"huji.h1/m{number:04}#1") for number in range(count)]
    resolves = Resolves(Domain("huji"), {me: Presence() for me in endpoints}, lambda: MessageId("h", 1, 1))
    out: list[Effect] = []
    entry_ = resolves.ask(0.0, G, QueryKind.RESOLVE, True, out)
    for token, me in enumerate(endpoints):
        entry_.waiters[me, AUTO] = None
        question = OpenQuery(me, token, None, timed=False, waits_for={entry_.id: entry_})
        resolves.wait(question, None, out)
        entry_.waiters[me, token] = None
    early = OpenQuery(endpoints[0], count, None, timed=False, waits_for={entry_.id: entry_})
    resolves.wait(early, None, out)
    entry_.waiters = {(endpoints[0], count): None, **entry_.waiters}
    out.clear()
    resolves.settle(entry_, ns.Absolute(G, ()), out)
    before, told, *answers = out
    assert isinstance(before, Answer) and before.token == count, "each hears in the order of its own calls"
    assert isinstance(told, Tell) and told.endpoints == tuple(endpoints)
    assert [answer.token for answer in answers] == list(range(count))


@pytest.mark.parametrize("count", [0, 1, 400, 401, 2_000])
def test_what_a_request_names_is_cut_into_pieces_of_which_one_is_the_last(count):
    """1,810 streams in one request were 71,935 bytes, which the mail refuses: it was repeated for ever."""
    have = tuple((f"lab.h0/crowd-14170-{number}#1794936458621", 1) for number in range(count))
    parts = pieces_of(have)
    assert sum((some for some, _ in parts), ()) == have
    assert [last for _, last in parts] == [*[False] * (len(parts) - 1), True]
    requests = [CutRequest(G, 1, 1, Domain("huji"), (), some, last) for some, last in parts]
    assert all(len(encode(each)) < RelaxedConfig().ns_message_bytes_max for each in requests)
