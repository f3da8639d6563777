"""Between sites by a tree, or by multicast: the same promises, and the same recovery (X-108).

Scenarios of `test_fifo_scenarios.py` in small, in both modes; and what only multicast has.
"""

import pytest
from msgspec.structs import replace
from support.fifonet import Net

from rostra.names import Domain
from rostra.protocols.fifo import events as ev
from rostra.protocols.flow.config import FifoConfig

BOTH = pytest.mark.parametrize("between", ["tree", "multicast"])
MULTICAST = FifoConfig(between="multicast")


def sites(between: str, *, seed: int = 1, hosts: int = 1, **how) -> Net:
    config = FifoConfig(between=between)
    return Net(seed, {"huji": hosts, "mit": hosts, "ntu": hosts, "oslo": 1}, config=config, **how)


def all_have_all(net, members):
    for program in net.programs.values():
        program.silent = True
    net.run(10.0)
    net.everybody_has_everything(members)


@BOTH
@pytest.mark.spec("X-108", "X-084")
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_everybody_hears_everybody_whatever_is_lost(between, loss):
    net = sites(between, wan_loss=loss, lan_loss=loss / 4, duplicate=loss / 4, jitter=loss)
    members = [net.join(f"{site}.h1/a") for site in ("huji", "mit", "ntu", "oslo")]
    net.run(4.0)
    for member in members:
        net.stream(member, every_s=0.05, count=60)
    net.run(8.0)
    all_have_all(net, members)
    for at in members:
        assert net.items(at, ev.Gap, ev.Excluded) == []


@BOTH
@pytest.mark.spec("X-108", "X-066", "XX-16")
def test_a_short_cut_and_who_comes_and_goes_cost_nothing(between):
    net = sites(between, wan_loss=0.05)
    a, b = net.join("huji.h1/a"), net.join("mit.h1/b")
    net.run(3.0)
    net.stream(a, every_s=0.05)
    net.stream(b, every_s=0.05)
    net.run(2.0)
    c = net.join("ntu.h1/c")
    net.cut(["mit"], ["huji", "ntu", "oslo", "world"], exact=["world"])
    net.run(4.0)
    net.heal()
    net.run(4.0)
    net.leave(c)
    d = net.join("oslo.h1/d")
    net.run(3.0)
    all_have_all(net, [a, b, d])
    for at in (a, b, d):
        assert net.items(at, ev.Gap, ev.Excluded) == []


@BOTH
@pytest.mark.spec("X-108", "X-101")
def test_a_delegate_that_is_replaced_loses_nothing(between):
    net = sites(between, wan_loss=0.1, replicas=True)
    members = [net.join(f"{site}.h1/a") for site in ("huji", "mit", "ntu")]
    net.run(3.0)
    for member in members:
        net.stream(member, every_s=0.05)
    for site in ("mit", "huji"):
        net.run(1.0)
        net.take_over(site)
    net.run(4.0)
    all_have_all(net, members)
    for at in members:
        assert net.items(at, ev.Gap, ev.Excluded, ev.Left) == []


@pytest.mark.spec("X-108")
def test_by_multicast_each_message_leaves_its_site_once_and_nobody_passes_it_on():
    net = sites("multicast")
    members = [net.join(f"{site}.h1/a") for site in ("huji", "mit", "ntu", "oslo")]
    net.run(4.0)
    net.counts.clear()
    for number in range(50):
        net.at(0.02 * number, lambda: net.send(members[0]))
    net.run(3.0)
    assert net.counts["broadcast Data"] == 50
    assert "wan Data" not in net.counts and "wan Repair" not in net.counts
    net.everybody_has_everything(members)


@pytest.mark.spec("X-108", "X-083")
def test_a_site_that_hears_no_multicast_at_all_gets_everything_by_repair():
    net = sites("multicast")
    a, b, c = (net.join(f"{site}.h1/a") for site in ("huji", "mit", "ntu"))
    net.data_filter = lambda source, to, message: (to, getattr(message, "hop", 0)) != ("mit", net.config.hops)
    net.run(3.0)
    net.stream(a, every_s=0.02, count=200)
    net.run(10.0)
    for at in (b, c):
        assert net.numbers(at, a) == list(range(1, 201))
    assert net.items(b, ev.Gap, ev.Excluded) == []


@pytest.mark.spec("X-108", "X-071")
def test_a_way_that_is_silent_is_gone_around_by_the_tree():
    net = sites("multicast")
    a, b, c = (net.join(f"{site}.h1/a") for site in ("huji", "mit", "ntu"))
    net.run(3.0)
    net.stream(a, every_s=0.05)
    net.data_filter = lambda source, to, message: {source, to} != {"huji", "mit"}
    net.run(20.0)
    assert len(net.numbers(b, a)) > 300
    net.data_filter = lambda source, to, message: True
    net.run(10.0)
    before = net.counts["broadcast Data"]
    net.run(2.0)
    assert net.counts["broadcast Data"] >= before + 35  # and at once to all, when it is heard again
    all_have_all(net, [a, b, c])


@pytest.mark.spec("X-108")
def test_sites_of_both_kinds_hear_each_other():
    """Who speaks by multicast reaches all; what came by the tree is passed on by all."""
    net = Net(
        3, {"huji": 1, "mit": 1, "ntu": 1, "oslo": 1}, config=replace(MULTICAST, fanout=1), wan_loss=0.05
    )
    for site in ("huji", "mit"):
        net.nodes[Domain(site)].config = FifoConfig(fanout=1)  # a chain
    members = [net.join(f"{site}.h1/a") for site in ("huji", "mit", "ntu", "oslo")]
    net.run(5.0)
    for member in members:
        net.stream(member, every_s=0.05, count=60)
    net.run(6.0)
    all_have_all(net, members)
