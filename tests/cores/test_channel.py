"""The data channel's core by itself; in worlds it is tried by `tests/faults/test_channels.py`."""

import pytest

from rostra.names import Domain
from rostra.names.addresses import TcpAddress
from rostra.sim import World


@pytest.mark.spec("X-108")
def test_only_servers_that_named_the_same_group_are_reached_at_once() -> None:
    world = World(1, domains={"eu": 1, "us": 1, "ap": 1, "af": 1}, fifo=True)
    eu, us, ap, af = (Domain(each) for each in ("eu", "us", "ap", "af"))
    core, at = world.channels.of[eu].core, TcpAddress("10.0.0.1", 7000)
    assert core.reached_at_once(eu, [us, ap]) == []
    core.serve_wide(eu, ("239.192.0.1", 7790))
    core.located(us, at, b"", TcpAddress("239.192.0.1", 7790))
    core.located(ap, at, b"", TcpAddress("239.192.0.2", 7790))
    core.located(af, at, b"", None)
    assert core.reached_at_once(eu, [us, ap, af]) == [us]
    core.located(ap, at, b"", TcpAddress("239.192.0.1", 7790))
    core.located(us, at, b"", None)  # it was started again, and uses the tree
    assert core.reached_at_once(eu, [us, ap, af]) == [ap]
