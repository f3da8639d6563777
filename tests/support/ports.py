"""Ports for servers that must know theirs before they start, because others are told of it in a file."""

import os
import socket
from random import Random

# Below those that the system lends to whoever connects: none of those who call meanwhile is lent ours.
_ORDER = list(range(12_000, 32_000))
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
