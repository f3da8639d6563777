"""K5: data of another cluster led astray, and its key replaced, by one who is not its delegate."""

from typing import Any

import pytest
from support.bystanders import unnoticed
from support.fifobench import cut, entry, user
from support.fifonet import G, Net
from support.lab import WITHIN_S, Lab, until

from rostra.core.effects import Asked
from rostra.errors import BadInput
from rostra.groups.attributes import DelegateAttributes
from rostra.groups.kinds import FIFO
from rostra.groups.members import Cause, Member
from rostra.names import Domain, Endpoint
from rostra.protocols.fifo.events import Located
from rostra.protocols.fifo.messages import (
    CutReply,
    DelegateMoved,
    ForceJoin,
    decode_control,
    encode,
    whereabouts,
)
from rostra.protocols.relaxed import requests as ns
from rostra.protocols.relaxed.messages import EndpointsJoined, MessageId
from rostra.wire.checks import check_message

ELSEWHERE = "6.6.6.6:666 " + "00" * 16

NOWHERE = {
    "no port": "6.6.6.6",
    "port 0": "6.6.6.6:0",
    "no number": "6.6.6.6:x",
    "no key": "6.6.6.6:666 xyz",
    "a long key": "6.6.6.6:666 " + "00" * 65,
    "a long label": "a" * 64 + ":666",
    "an empty label": "a..b:666",
    "no host name": "a\x00b:666",
    "no group": "6.6.6.6:666 00 nowhere",
    "without end": "6.6.6.6:666 00 " + "1" * 600 + ":1",
}


class Watched(Net):
    """It remembers where cores were led."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.located: list[tuple[Domain, Located]] = []
        super().__init__(*arguments, **named)

    def _perform(self, node: Domain, effect: Any) -> None:
        if isinstance(effect, Located):
            self.located.append((node, effect))
        super()._perform(node, effect)


@pytest.mark.parametrize("of", ["a", "b"])
@pytest.mark.parametrize("to", ["a", "b"])
@pytest.mark.parametrize("inside", [True, False], ids=["a member", "a stranger"])
def test_no_program_says_where_a_delegate_is(to: str, of: str, inside: bool) -> None:
    net = Watched(lans={"a": 2, "b": 1})
    ann, bob = net.join("a.h1/ann"), net.join("b.h1/bob")
    net.run(3.0)
    mallory = net.join("a.h2/mallory") if inside else net.open("a.h2/mallory")
    net.run(3.0)
    for message in (ForceJoin(G, 1), DelegateMoved(G, Domain(of), 1, 99, ELSEWHERE)):
        delegate = Endpoint(f"{to}.-delegate/adhoc#0")
        net.step(Domain("a.h2"), Asked(mallory, 1, ns.SendTo((delegate,), encode(message))))
    net.send(ann)
    net.run(3.0)
    assert net.located == []
    assert net.numbers(bob, ann) == [1]
    assert sum(times for (what, _), times in net.ignored.items() if what == "DelegateMoved") == 1


def test_a_delegate_joins_no_group_for_one_who_is_not_in_it() -> None:
    net = Net(lans={"a": 1, "b": 1})
    mallory = net.open("a.h1/mallory")
    delegate = Endpoint("a.-delegate/adhoc#0")
    net.step(Domain("a.h1"), Asked(mallory, 1, ns.SendTo((delegate,), encode(ForceJoin(G, 1)))))
    net.run(3.0)
    assert net.nodes[Domain("a")].groups == {}
    assert net.ignored["ForceJoin", "nobody there is in the group"] == 1


def test_the_attributes_of_a_delegate_make_a_program_none() -> None:
    net = Watched(lans={"a": 2, "b": 1})
    ann, bob = net.join("a.h1/ann"), net.join("b.h1/bob")
    net.run(3.0)
    mallory = net.open("a.h2/mallory")
    claim = DelegateAttributes(ELSEWHERE)
    net.step(Domain("a.h2"), Asked(mallory, 1, ns.Join(G, group_kind=FIFO, attributes=claim)))
    net.run(3.0)
    net.send(ann)
    net.send(bob)
    net.run(3.0)
    assert net.located == []
    assert net.delegate("b").peers.delegates == {Domain("a"): {1}}
    assert net.member(bob).lans.delegates == {Domain("a"): {1}, Domain("b"): {1}}
    assert net.numbers(bob, ann) == net.numbers(ann, bob) == [1]


@pytest.mark.parametrize("address", NOWHERE.values(), ids=NOWHERE)
def test_an_address_that_is_none_is_refused_where_it_is_decoded(address: str) -> None:
    with pytest.raises(ValueError):
        whereabouts(address)
    assert decode_control(encode(DelegateMoved(G, Domain("a"), 1, 2, address))) is None
    member = Member(Endpoint("a.-delegate/adhoc#1"), (1, 1), b"", FIFO, DelegateAttributes(address))
    with pytest.raises(BadInput):
        check_message(EndpointsJoined(MessageId(Domain("a"), 1, 1), G, (member,), Cause.JOIN))


def test_a_delegate_answers_for_its_own_lan_alone() -> None:
    """A hostile one, of a: it must not say who speaks in b, nor from which number on."""
    net = Net(lans={"a": 1, "b": 1, "c": 1})
    members = [net.join(f"{lan}.h1/m") for lan in "abc"]
    net.run(3.0)
    forged = cut("b", entry(user("b.h1/x"), 7))
    smuggled = cut("a", entry(user("b.h1/x"), 7))
    for each in (forged, smuggled):
        req = net.delegate("c").peers.machines[each.lan].req = 7
        notice = ns.Message(Endpoint("a.-delegate/adhoc#1"), encode(CutReply(G, req, 1, each)))
        net.nodes[Domain("c")]._told(net.now, (net.nodes[Domain("c")].me,), notice, [])
    assert Endpoint("b.h1/x#1") not in net.delegate("c").relays.running
    net.send(members[0])
    net.run(3.0)
    assert net.numbers(members[2], members[0]) == [1]


@pytest.mark.parametrize("address", [ELSEWHERE, "nowhere"], ids=["elsewhere", "nowhere"])
async def test_it_joins_with_a_delegates_attachment(world: Lab, address: str) -> None:
    group = f"k5-{len(address)}"
    async with (
        unnoticed(world, group),
        world.program("eu.h1", "mallory") as mallory,
        mallory.join(group, meta=encode(DelegateAttributes(address))) as joined,
    ):
        await joined.ready(deadline_s=WITHIN_S)
        await until(lambda: len(joined.members) >= 3, "it sees the bystanders")
