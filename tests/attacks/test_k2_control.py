"""K2: bytes sent to a delegate, which decodes them as a control message."""

import pytest
from support.bystanders import unnoticed
from support.fifonet import Net
from support.lab import Lab

from rostra.core.effects import Asked
from rostra.errors import BadInput
from rostra.names import Domain, Endpoint
from rostra.protocols.relaxed import requests as ns

HOSTILE = {
    "bad UTF-8": b"\x93\x01\x92\xa1\xff\xa5world\x01",
    "a bad name": b"\x93\x01\x92\xa4chat\xa6eu..fr\x01",
    "nesting": b"\x94\x01\x92\xa4chat\xa5world\x01" + b"\x91" * 20_000,
    "another type": b"\x01",
    "nothing": b"",
}


@pytest.mark.parametrize("to", ["us.-delegate/adhoc#0", "eu.-delegate/adhoc#0", "eu.-seat-1/adhoc#0"])
async def test_a_program_may_not_speak_to_the_system(world: Lab, to: str) -> None:
    async with unnoticed(world, f"k2-{to.partition('/')[0]}"), world.program("eu.h1", "mallory") as mallory:
        for octets in HOSTILE.values():
            with pytest.raises(BadInput, match="is part of the system"):
                await mallory.send_to(to, octets)


@pytest.mark.parametrize("octets", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("lan", ["a", "b"])
def test_what_a_hostile_agent_lets_through_ends_no_delegate(octets: bytes, lan: str) -> None:
    net = Net(lans={"a": 2, "b": 1})
    ann, bob = net.join("a.h1/ann"), net.join("b.h1/bob")
    net.run(3.0)
    mallory = net.open("a.h2/mallory")
    net.step(Domain("a.h2"), Asked(mallory, 1, ns.SendTo((Endpoint(f"{lan}.-delegate/adhoc#0"),), octets)))
    net.send(ann)
    net.run(3.0)
    assert net.numbers(bob, ann) == [1]
    assert net.ignored["Message", "not a control message"] == 1
