"""A plain member of a group in which others speak was told of its delegates, with the keys they attach."""

from typing import Any

from support.fifonet import G, Net
from support.lab import WITHIN_S, Lab, until

from rostra.core.effects import Asked, Tell
from rostra.groups.members import Member
from rostra.names import Domain, host_of
from rostra.protocols.relaxed import requests as ns


class Overheard(Net):
    """It remembers what plain members were told."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.told: list[Any] = []
        super().__init__(*arguments, **named)

    def _perform(self, node: Domain, effect: Any) -> None:
        if isinstance(effect, Tell):
            self.told.append(effect.notice)
        super()._perform(node, effect)


def test_whoever_comes_and_goes_is_a_program_to_a_plain_member() -> None:
    net = Overheard(lans={"a": 2, "b": 1})
    ann, plain = net.join("a.h1/ann"), net.open("a.h2/plain")
    net.run(3.0)
    net.step(Domain("a.h2"), Asked(plain, 1, ns.Join(G, meta=b"of plain")))
    net.run(3.0)
    bob = net.join("b.h1/bob")
    net.run(3.0)
    net.leave(bob)
    net.run(60.0)  # and the delegate of b goes after it
    listed, *changes = net.told
    assert isinstance(listed, ns.Absolute)
    assert _seen(listed.members) == {(ann, b""), (plain, b"of plain")}
    joined, left = changes
    assert isinstance(joined, ns.Joined) and _seen(joined.members) == {(bob, b"")}
    assert isinstance(left, ns.Left) and (left.endpoint, left.meta) == (bob, b"")


def _seen(members: tuple[Member, ...]) -> set[tuple[str, bytes]]:
    return {(each.endpoint, each.meta) for each in members}


async def test_a_plain_member_of_a_real_world_sees_programs_alone(world: Lab) -> None:
    async with (
        world.program("eu.h2", "ann") as ann,
        world.program("us.h1", "bob") as bob,
        world.program("eu.h1", "plain") as plain,
        ann.join("spoken", delivery="fifo", meta=b"of ann") as anns,
        bob.join("spoken", delivery="fifo", meta=b"of bob"),
    ):
        await until(lambda: len(anns.members) == 2, "ann and bob see each other")
        async with plain.join("spoken", meta=b"of plain") as joined:
            await joined.ready(deadline_s=WITHIN_S)
            await until(lambda: len(joined.members) == 3, "it sees ann and bob, and nobody else")
            assert {(host_of(each.endpoint), each.meta) for each in joined.members} == {
                ("eu.h1", b"of plain"),
                ("eu.h2", b"of ann"),
                ("us.h1", b"of bob"),
            }
