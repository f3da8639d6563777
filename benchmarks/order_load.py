"""W11 to W13: what holds up an atomic group that is under load, with real agents, servers and programs.

    W11  a member joins, on a host that is new to the group, while four send as fast as they can: intervals
         between what a member is given, in windows with a join and without, in turn
    W12  kill -9 of the agent whose station orders: until the last of the others is given the next message.
         Detection is the time until the first server has the view without its members, flush the rest
    W13  a member joins that gets a large state, whose donor is killed half way, while two send

Every workload checks what it times: the members that go on have one order without a hole, every receipt is
true at each of them, the killed host's too, what was rejected is at none, and a joiner has the exact state.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from msgspec.structs import replace

from benchmarks.crew import Crew, Hand, everybody
from benchmarks.figures import Measures, percentile
from benchmarks.peers.base import Service
from benchmarks.peers.rostra_loaded import Loaded
from benchmarks.workloads import GROUP, Incomplete, Size

BYTES: Final = 100
FULL: Final = {"size": BYTES, "together": 2000, "waiting": 1, "per_s": 0.0}
SINGLY: Final = {"size": BYTES, "together": 1, "waiting": 1000, "per_s": 0.0}
STEADY: Final = {"size": BYTES, "together": 10, "waiting": 1000, "per_s": 100.0}
"""A joiner keeps up to 64 MB unread while it waits for its state: then senders wait for it."""

REST_S: Final = 0.3
WITHIN_S: Final = 60.0


class LoadedCrew(Crew):
    """Members of one group, in order of their ranks, each a process."""

    def __init__(self, service: Service, state_bytes: int = 0) -> None:
        super().__init__()
        self._service = service
        self._state_bytes = state_bytes
        self.group = f"{GROUP}-{time.monotonic_ns()}"

    async def ready(self, place: int) -> Hand:
        (hand,) = await self.hire(1, self._service.name, **self._service.door(place=place))
        return hand

    async def joined(self, hand: Hand, sender: int, *, has_state: bool = True, dies_after: int = 0) -> float:
        took_s: float = await loaded(
            hand,
            "take_part",
            group=self.group,
            sender=sender,
            state_bytes=self._state_bytes,
            seed=sender,
            has_state=has_state,
        )
        return took_s

    async def one_order(self, hands: Sequence[Hand]) -> None:
        """All have been given the same messages in the same order."""
        until = time.monotonic() + WITHIN_S
        while len({*(found := [tuple(each[:2]) for each in await all_loaded(hands, "given")])}) != 1:
            if time.monotonic() > until:
                raise Incomplete(f"members of {self.group} differ: {found}")
            await asyncio.sleep(0.1)


async def loaded(hand: Hand, what: str, **details: Any) -> Any:
    return await hand.do("loaded", what=what, details=details)


async def all_loaded(hands: Sequence[Hand], what: str, **details: Any) -> list[Any]:
    return await everybody(list(hands), "loaded", what=what, details=details)


# W11


async def joins_under_load(service: Service, size: Size) -> Measures:
    async with LoadedCrew(service) as crew:
        members = [await crew.ready(place) for place in (0, 1, 0, 1)]
        joiner = await crew.ready(2)
        for sender, hand in enumerate(members):
            await crew.joined(hand, sender)
        await all_loaded(members, "speak_on", **FULL)
        await asyncio.sleep(size.settle_s)
        began, before = time.monotonic(), (await loaded(members[0], "given"))[0]

        took: list[float] = []

        async def window(joins: bool) -> list[int]:
            await all_loaded(members, "mark")
            await asyncio.sleep(size.window_s / 4)
            if joins:
                took.append(await crew.joined(joiner, len(members)))
            await asyncio.sleep(size.window_s * 3 / 4)
            found = [ns for each in await all_loaded(members, "intervals") for ns in each]
            if joins:
                await loaded(joiner, "part")
            await asyncio.sleep(REST_S)
            return found

        pairs: list[tuple[list[int], list[int]]] = []
        for nth in range(size.pairs):
            found = {joins: await window(joins) for joins in (nth % 2 == 0, nth % 2 == 1)}
            pairs.append((found[True], found[False]))
        spent_s, after = time.monotonic() - began, (await loaded(members[0], "given"))[0]
        await crew.joined(joiner, len(members))
        await all_loaded(members, "fall_silent")
        await crew.one_order([*members, joiner])
    p999 = [(percentile(one, 0.999) / 1e6, percentile(other, 0.999) / 1e6) for one, other in pairs]
    longest = [(max(one) / 1e6, max(other) / 1e6) for one, other in pairs]
    return {
        "per s": (after - before) / spent_s,
        "intervals a window": median(len(each) for pair in pairs for each in pair),
        "join p50 ms": percentile(took, 0.5) * 1e3,
        "p99.9 ms with / without": _pairs(p999),
        "p99.9: median of differences ms": median(one - other for one, other in p999),
        "longest ms with / without": _pairs(longest),
        "longest: median of differences ms": median(one - other for one, other in longest),
    }


def _pairs(pairs: Sequence[tuple[float, float]]) -> str:
    return "\n".join(f"{one:.1f} / {other:.1f}" for one, other in pairs)


# W12


async def orderer_killed(service: Service, size: Size) -> Measures:
    assert isinstance(service, Loaded)
    found = []
    for nth in range(size.orderer_kills):
        if nth:
            await service.start_again(0)
        found.append(await _kill_the_orderer(service, size))
    detections, flushes, fresh, counts = zip(*found, strict=True)
    return {
        "each: detection + flush ms": "\n".join(f"{one:.0f} + {other:.0f}" for one, other, *_ in found),
        "detection p50 ms": median(detections),
        "detection max ms": max(detections),
        "flush p50 ms": median(flushes),
        "flush max ms": max(flushes),
        "until a new message p50 ms": median(fresh),
        "acknowledged": float(sum(counts)),
        "of these lost": 0.0,  # else it has ended with `Incomplete`
    }


async def far_orderer_killed(service: Service, size: Size) -> Measures:
    """The same, less often: at three sites it takes longer to begin anew."""
    return await orderer_killed(service, replace(size, orderer_kills=max(1, size.orderer_kills * 3 // 5)))


async def _kill_the_orderer(service: Loaded, size: Size) -> tuple[float, float, float, int]:
    """Detection in ms; from then on until the next message, and until one that has its place after the new
    view; how many messages were acknowledged."""
    async with LoadedCrew(service) as crew:
        hands = [await crew.ready(place) for place in range(service.places)]
        for sender, hand in enumerate(hands):
            await crew.joined(hand, sender)
        others = hands[1:]
        await all_loaded(hands, "speak_on", **SINGLY)
        await asyncio.sleep(size.window_s)
        await all_loaded(others, "mark")
        killed, killed_ns = time.time(), time.monotonic_ns()
        await service.kill(0)
        async with asyncio.timeout(WITHIN_S):
            while not all(await all_loaded(others, "sees_new")):
                await asyncio.sleep(0.1)
        await asyncio.sleep(size.settle_s)
        await all_loaded(hands, "fall_silent")
        await crew.one_order(others)
        agreed = service.agreed_at(crew.group, killed)
        if agreed is None:
            raise Incomplete(f"no server has a view of {crew.group} without the killed host")
        detection = (agreed - killed) * 1e3
        went_on = await all_loaded(others, "went_on")
        nexts, news = ((max(each) - killed_ns) / 1e6 - detection for each in zip(*went_on, strict=True))
        return detection, nexts, news, await receipts_hold(dict(enumerate(hands)), others)


async def receipts_hold(hands: Mapping[int, Hand], survivors: Sequence[Hand]) -> int:
    """What was acknowledged is with all who went on, at its position; what was rejected is with none."""
    acknowledged = 0
    for sender, hand in hands.items():
        receipts = await loaded(hand, "receipts")
        for survivor in survivors:
            places, rejected = await loaded(
                survivor,
                "places",
                sender=sender,
                first=0,
                count=receipts["acknowledged"],
                rejected=receipts["rejected"],
            )
            if places != receipts["places"] or rejected:
                raise Incomplete(f"sender {sender} has receipts that are not true: {receipts}, {rejected}")
        if hand in survivors and (receipts["rejected"] or receipts["in_doubt"]):
            raise Incomplete(f"sender {sender} went on and was refused: {receipts}")
        acknowledged += receipts["acknowledged"]
    return acknowledged


# W13


async def donor_killed(service: Service, size: Size) -> Measures:
    async with LoadedCrew(service, size.state_bytes) as crew:
        donor, one, other, joiner = [await crew.ready(place) for place in (0, 1, 0, 2)]
        await crew.joined(donor, 0)
        calm_s = await crew.joined(one, 1)
        await crew.joined(other, 2, has_state=False)
        senders = [one, other]
        await all_loaded(senders, "speak_on", **STEADY)
        await asyncio.sleep(size.settle_s)
        await all_loaded(senders, "mark")
        await asyncio.sleep(size.window_s)
        before = [ns for each in await all_loaded(senders, "intervals") for ns in each]
        await loaded(donor, "die_after", given=size.state_bytes // 2)
        await all_loaded(senders, "mark")
        took_s, _ = await asyncio.gather(crew.joined(joiner, 3), donor.ended())
        during = [ns for each in await all_loaded(senders, "intervals") for ns in each]
        await all_loaded(senders, "fall_silent")
        await crew.one_order([*senders, joiner])
        blobs = {blob for *_, blob in await all_loaded([one, joiner], "given")}
        if len(blobs) != 1:
            raise Incomplete(f"the joiner has another state than its donor: {blobs}")
        acknowledged = await receipts_hold({1: one, 2: other}, senders)
    return {
        "state MB": size.state_bytes / (1 << 20),
        "without load, s": calm_s,
        "donor killed, s": took_s,
        "longest ms before": max(before) / 1e6,
        "longest ms": max(during) / 1e6,
        "p99.9 ms before": percentile(before, 0.999) / 1e6,
        "p99.9 ms": percentile(during, 0.999) / 1e6,
        "acknowledged": float(acknowledged),
    }
