"""In a partial cut servers say whom they lost, and wait for what others say, before they remove one."""

from itertools import permutations, product
from random import Random

import pytest
from support.setnet import SetNet, join

from rostra.core.effects import LinkDown
from rostra.groups.members import Because
from rostra.names import Domain
from rostra.protocols.agreed.messages import SetEvidence
from rostra.protocols.agreed.state import Holding

PAIRS = tuple(product("cde", "ab"))
"""Three lose two, who are the most senior; f and g see all."""


def partly_cut(pairs: tuple[tuple[str, str], ...], gather_s: float) -> SetNet:
    """Links end one after the other, and what is sent meanwhile arrives."""
    net = SetNet("abcdefg", gather_s=gather_s)
    for one, other in pairs:
        net.cut(one, other)
        net.flow()
    net.settle()
    return net


def parts(net: SetNet) -> list[str]:
    return sorted({net.view(name) for name in net.cores})


@pytest.mark.spec("V-091")
def test_those_who_see_all_go_with_the_larger_side_in_whatever_order_links_end() -> None:
    orders = list(permutations(PAIRS))
    Random(7).shuffle(orders)
    for order in orders[:40]:
        assert parts(partly_cut(order, 0.5)) == ["ab", "cdefg"], order


def test_without_a_wait_they_go_with_whom_is_first() -> None:
    assert parts(partly_cut(PAIRS, 0.0)) != ["ab", "cdefg"]


def test_a_dead_server_is_removed_as_soon_as_all_others_have_lost_it() -> None:
    net = SetNet("abc", gather_s=0.5)
    net.crash("c")
    net.flow()
    assert net.now == 0.0 and net.view("a") == net.view("b") == "ab", "nobody waited"
    assert [type(message) for _, _, message in net.sent].count(SetEvidence) == 2


def test_a_server_that_one_other_lost_is_removed_after_a_while() -> None:
    net = SetNet("abc", gather_s=0.5)
    net.cut("a", "c")
    net.flow()
    assert net.cores["a"].state.phase == Holding(gathers=True) and net.waits["a"] == 0.5
    net.settle()
    assert parts(net) == ["ab", "c"]


def test_changes_of_others_do_not_put_off_a_removal() -> None:
    """The time is counted from the first loss, not from the last commit."""
    net = SetNet("abc", gather_s=0.5)
    net.cut("a", "c")
    net.flow()
    net.now = 0.4
    net.ask("b", join("ann"))
    net.flow()
    assert net.waits["a"] <= 0.5


def lose(net: SetNet, name: str, lost: str) -> None:
    net.step(name, LinkDown(Domain(lost), Because(Domain(name), Domain(lost), "silent")))


@pytest.mark.spec("V-084", "V-091")
def test_who_follows_the_winner_of_an_election_is_not_taken_for_the_winner() -> None:
    """a took no part in the round that failed, and follows b, which won; asked late by c, it must not say
    that it had acknowledged: c would wait for a, and give it up. By `explore set`, servers=4 gathers=1."""
    net = SetNet("abcd", gather_s=0.5)
    net.ask("d", join("ann"))
    net.deliver("d", "b")
    net.deliver("d", "c")
    net.gone.add("d")
    lose(net, "b", "d")
    net.deliver("b", "a")
    net.deliver("b", "a")
    lose(net, "a", "d")
    for sender, to in ("ab", "bc", "cb", "ba", "ca", "ab", "ac"):
        net.deliver(sender, to)
    lock = net.cores["c"].state.lock
    assert lock is not None and lock[1].coordinator.server == "b"
    lose(net, "c", "d")
    net.settle()
    assert parts(net) == ["abc", "abcd"] and {pair[1] for pair in net.isolations()} == {"d"}
    assert [join("ann") in net.commits(name) for name in "abc"] == [True] * 3
