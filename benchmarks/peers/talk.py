"""What is said in W4 and W5, and how receivers check it: the same for every peer.

A payload begins with its number among its sender's messages and the number of its sender, eight bytes each; a
timed one with the moment at which it was sent instead of its number.
"""

import asyncio
import struct
import time
from collections.abc import Iterator
from hashlib import blake2b

HEAD = struct.Struct(">QQ")


def payloads(sender: int, count: int, size: int) -> Iterator[bytes]:
    rest = bytes(size - HEAD.size)
    pack = HEAD.pack
    return (pack(number, sender) + rest for number in range(count))


def timed(sender: int, size: int) -> bytes:
    return HEAD.pack(time.monotonic_ns(), sender) + bytes(size - HEAD.size)


class Check:
    """One receiver's: everything of each sender, in order, nothing twice."""

    def __init__(self, senders: int, count: int) -> None:
        self._heads = [b"".join([HEAD.pack(n, sender) for n in range(count)]) for sender in range(senders)]
        self._next = [0] * senders
        self._left = senders * count
        self.finished_ns = 0
        self.finished = asyncio.Event()
        self.late_ns: list[int] | None = None  # of timed messages: how late each was

    def time(self) -> None:
        """From now on messages are timed, if they are not already."""
        if self.late_ns is None:
            self.late_ns = []

    def one(self, body: bytes) -> None:
        if self.late_ns is not None:
            self.late_ns.append(time.monotonic_ns() - HEAD.unpack_from(body)[0])
            return
        sender = body[15]
        at = self._next[sender]
        if body[:16] != self._heads[sender][at : at + 16]:
            raise AssertionError(f"message {HEAD.unpack_from(body)} instead of number {at // 16}")
        self._next[sender] = at + 16
        self._count(1)

    def many(self, bodies: list[bytes]) -> None:
        """Of one sender."""
        if self.late_ns is not None:
            for body in bodies:
                self.one(body)
            return
        sender = bodies[0][15]
        at = self._next[sender]
        end = at + 16 * len(bodies)
        if b"".join([body[:16] for body in bodies]) != self._heads[sender][at:end]:
            raise AssertionError(f"messages out of order after number {at // 16} of sender {sender}")
        self._next[sender] = end
        self._count(len(bodies))

    def _count(self, messages: int) -> None:
        self._left -= messages
        if self._left == 0:
            self.finished_ns = time.monotonic_ns()
            self.finished.set()


class OrderCheck(Check):
    """The same, and a digest of the order in which everything came: it must be that of all members."""

    def __init__(self, senders: int, count: int) -> None:
        super().__init__(senders, count)
        self._order = blake2b(digest_size=16)

    @property
    def order(self) -> str:
        return self._order.hexdigest()

    def one(self, body: bytes) -> None:
        if self.late_ns is None:
            self._order.update(body[: HEAD.size])
        super().one(body)

    def many(self, bodies: list[bytes]) -> None:
        if self.late_ns is None:
            self._order.update(b"".join([body[: HEAD.size] for body in bodies]))
        super().many(bodies)
