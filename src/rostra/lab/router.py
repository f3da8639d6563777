"""The router between the sites of a lab: ``python -m rostra.lab.router DIRECTORY``, started by `Lab`.

    site's namespace ── wan0 (TUN) ══ this process ══ wan0 (TUN) ── site's namespace

One thread waits until a packet arrives or is due, reads what has arrived, and writes what is due. What
happens to a packet in between is decided in `ways`, which knows neither clock nor network. It waits by
`select`, whose timeout counts in microseconds where epoll's counts in milliseconds; a lab has few sites. As
root the process has real-time priority, so that a busy machine does not look like a slow link; it reports how
late it was (`Now`).
"""

import contextlib
import fcntl
import gc
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from rostra.errors import UNDECODABLE, BadInput
from rostra.lab.control import PACKET_MAX, Answer, LabChange, LabDenied, Now, Question, WayNow, questions
from rostra.lab.namespaces import TUN, inside
from rostra.lab.plan import LabPlan
from rostra.lab.urgency import become_urgent
from rostra.lab.ways import LabWay, Wan

WAN: Final = "wan0"
READY: Final = "ready"
ORDER_NAME: Final = "order.json"
READS_MAX: Final = 64
"""Packets taken from one site before the others have their turn and what is due is handed over."""

TOO_SLOW: Final = "the router was too slow"
LATE_S: Final = 0.001
MTU: Final = 1500
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000


class Order(msgspec.Struct, frozen=True):
    """A router's configuration at its start."""

    plan: LabPlan
    namespaces: dict[str, str]  # of each site
    control: str

    @classmethod
    def read(cls, directory: Path) -> "Order":
        return msgspec.json.decode((directory / ORDER_NAME).read_bytes(), type=cls)

    def write(self, directory: Path) -> None:
        (directory / ORDER_NAME).write_bytes(msgspec.json.encode(self))


class LabRouter:
    def __init__(self, order: Order) -> None:
        self._wan = Wan(order.plan.new_ways(), {site.network: site.name for site in order.plan.sites})
        self._device = {site: _open_device(name) for site, name in order.namespaces.items()}
        self._namespaces = tuple(order.namespaces.values())
        self._site = {device: site for site, device in self._device.items()}
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.bind(order.control)
        self._door.listen()
        self._lines: dict[int, socket.socket] = {}
        self._began_s = time.monotonic()
        self._late_sum_s = self._late_max_s = 0.0
        self._handed_over = self._handed_over_late = 0
        self._is_urgent = become_urgent()

    def run(self) -> None:
        door = self._door.fileno()
        while True:
            next_s = self._wan.next_s
            timeout_s = None if next_s is None else max(0.0, next_s - self._now())
            ready, _, _ = select.select([*self._site, door, *self._lines], [], [], timeout_s)
            for each in ready:
                if each in self._site:
                    self._take(each)
                elif each == door:
                    self._welcome()
                else:
                    self._hear(self._lines[each])
            self._hand_over()

    def _now(self) -> float:
        """Seconds since the start, so that what chance depends on the time is the same in every run."""
        return time.monotonic() - self._began_s

    # Packets

    def _take(self, device: int) -> None:
        site, now_s = self._site[device], self._now()
        with contextlib.suppress(BlockingIOError):
            for _ in range(READS_MAX):
                self._wan.send(now_s, site, os.read(device, MTU))

    def _hand_over(self) -> None:
        now_s = self._now()
        for due_s, way, packet in self._wan.due(now_s):
            late_s = now_s - due_s
            self._late_sum_s += late_s
            self._late_max_s = max(self._late_max_s, late_s)
            self._handed_over += 1
            self._handed_over_late += late_s > LATE_S
            try:
                os.write(self._device[way.to], packet)
            except OSError:  # its queue is full, or the device is down
                way.refused(len(packet))

    # Control

    def _welcome(self) -> None:
        line, _ = self._door.accept()
        line.setblocking(False)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PACKET_MAX)
        self._lines[line.fileno()] = line

    def _hear(self, line: socket.socket) -> None:
        try:
            said = line.recv(PACKET_MAX)
            if said:
                line.send(msgspec.json.encode(self._answer(said)))
                return
        except OSError:
            pass
        del self._lines[line.fileno()]
        line.close()

    def _answer(self, said: bytes) -> Answer:
        try:
            question: Question = questions.decode(said)
            if isinstance(question, LabChange):
                self._change(question)
            return self._state()
        except BadInput as error:
            return LabDenied(error.what, error.fix)
        except (TypeError, *UNDECODABLE) as error:
            return LabDenied(f"the router does not understand this: {error}", "see rostra.lab.control")

    def _never_taken(self) -> dict[str, int]:
        """What the kernel threw away because we did not come for it in time; only it knows."""
        dropped = 0
        for namespace in self._namespaces:
            with inside(namespace):
                lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
            dropped += sum(int(line.split()[12]) for line in lines if line.split()[0] == f"{WAN}:")
        return {TOO_SLOW: dropped} if dropped else {}

    def _change(self, change: LabChange) -> None:
        """All of it or nothing."""
        ways = [self._way(source, to) for source, to in change.ways]
        qualities = [way.quality.but(**change.settings) for way in ways]
        for way, quality in zip(ways, qualities, strict=True):
            if change.settings:
                way.change(quality)
            if change.cut is not None:
                way.cut = change.cut

    def _way(self, source: str, to: str) -> LabWay:
        try:
            return self._wan.ways[source, to]
        except KeyError:
            links: Iterable[str] = (f"{a} to {b}" for a, b in self._wan.ways)
            raise BadInput(
                f"no link leads from {source} to {to}", fix=f"there are: {', '.join(links)}"
            ) from None

    def _state(self) -> Now:
        now_s = self._now()
        ways = [
            WayNow(way.sender, way.to, way.quality, way.cut, way.quality.loss_at(now_s), way.counts)
            for way in self._wan.ways.values()
        ]
        handed_over = self._handed_over or 1
        return Now(
            ways,
            {**self._wan.strays, **self._never_taken()},
            self._late_sum_s / handed_over,
            self._late_max_s,
            self._handed_over_late / handed_over,
            self._is_urgent,
        )


def _open_device(namespace: str) -> int:
    """A TUN device in that namespace, which vanishes with this process."""
    with inside(namespace):
        device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", WAN.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def main() -> None:
    router = LabRouter(Order.read(Path(sys.argv[1])))
    # Nothing here makes cycles, and a collection in between would look like a late packet.
    gc.freeze()
    gc.disable()
    print(READY, flush=True)
    router.run()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
