"""Notifications to systemd, if it started us (`sd_notify`): ready, reloading, stopping, watchdog.

The watchdog is fed from the node's own event loop, so a daemon whose loop is stuck is restarted.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Mapping


class Systemd:
    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        microseconds = environ.get("WATCHDOG_USEC", "")
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._feed_every_s = int(microseconds) / 2e6 if microseconds.isdigit() and mine else 0.0
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        self._tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, why: str) -> None:
        self._tell("STOPPING=1", f"STATUS={why}")

    def feed(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on, for as long as the loop turns."""
        if self._address and self._feed_every_s:
            self._tell("WATCHDOG=1")
            self._timer = loop.call_later(self._feed_every_s, self.feed, loop)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, *lines: str) -> None:
        """Send a notification. Errors are ignored: they must not keep a node from working."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), address)
