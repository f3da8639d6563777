"""Ports for servers that must know theirs before they start, because others are told of it in a file."""

import os
import socket
from random import Random

# Below those that the system lends to whoever connects: none of those who call meanwhile is lent ours. And of
# two workers each has its own: a server that is down for a moment must find its port free when it is back.
WORKERS = 8
_OURS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
_ORDER = list(range(12_000 + _OURS, 32_000, WORKERS))
Random(os.getpid()).shuffle(_ORDER)


def free_port() -> int:
    """A port of loopback, for TCP and UDP, that nobody uses; and nobody in this process is told of twice."""
    while True:
        port = _ORDER.pop()
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(type=kind) as probe:
                    probe.bind(("127.0.0.1", port))
            return port
        except OSError:
            continue
