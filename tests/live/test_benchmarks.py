"""The benchmarks measure what they say they do. Nothing here looks at how fast anything was."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from benchmarks import order_load, workloads
from benchmarks.__main__ import BARS, PLAN
from benchmarks.crew import Crew, HandFailed
from benchmarks.figures import Bar, Measures, Row, judge, middle, percentile
from benchmarks.peers.bare import BareService
from benchmarks.peers.base import Service
from benchmarks.peers.echo import EchoService
from benchmarks.peers.rostra import Deployment, RostraService
from benchmarks.peers.rostra_loaded import LoadedService
from benchmarks.peers.talk import Check, payloads
from benchmarks.workloads import Incomplete, Size

pytestmark = pytest.mark.live

SMOKE = Size.smoke()


def run(service: Service, *works: Callable[[Service, Size], Awaitable[Measures]]) -> Measures:
    """What they measure, one after the other on the same service."""

    async def measured() -> Measures:
        found: Measures = {}
        async with service:
            for work in works:
                found |= await work(service, SMOKE)
        return found

    return asyncio.run(measured())


def redis() -> Service:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: apt-get install -y redis-server")
    from benchmarks.peers.redis import RedisService

    return RedisService(ttl_ms=300)


def apart() -> Service:
    return RostraService(Deployment.APART, profile="lan")


def two_agents() -> Service:
    return RostraService(Deployment.TWO_AGENTS, profile="lan")


@pytest.mark.parametrize("make", [EchoService, redis, two_agents])
def test_every_workload_runs_on_every_peer(make):
    works = (
        workloads.who_is_there,  # first: it wants a list with nothing else in it
        workloads.join_until_all_know,
        workloads.killed_until_all_know,
        workloads.storm,
    )
    found = run(make(), *works)
    assert all(found[measure] > 0 for measure in ("p50 ms", "16: per s", "max ms", "per s"))


def zeromq() -> Service:
    pytest.importorskip("zmq")
    from benchmarks.peers.zeromq import ZeroMqService

    return ZeroMqService()


@pytest.mark.parametrize("make", [BareService, zeromq])
def test_messages_are_counted_and_timed_on_every_peer(make):
    messages_were_timed(run(make(), *MESSAGES))


MESSAGES = (workloads.one_to_eight, workloads.four_to_four)


def messages_were_timed(measures: Measures) -> None:
    assert measures["100 B: per s"] > 0 and measures["100/s: p99 ms"] > 0 and measures["4 to 4: per s"] > 0


def test_an_agent_and_a_server_are_measured_apart() -> None:
    """Messages, memory and a program's own copy of a list; and processor time by role, where that is asked
    for."""

    async def by_role(service: Service, size: Size) -> Measures:
        return await workloads.who_is_there(service, replace(size, by_role=True))

    measures = run(apart(), by_role, workloads.own_copy, *MESSAGES, workloads.memory_per_member)
    messages_were_timed(measures)
    assert {"1: client cpu us", "1: agent cpu us", "1: server cpu us"} <= set(measures)
    assert measures["own copy: per s"] > 0 and "KB per member" in measures


@pytest.mark.parametrize("told", [[0, 2], [1], [0, 0]], ids=["a hole", "not the first", "twice"])
def test_a_receiver_that_is_told_the_wrong_thing_ends_the_run(told):
    said = list(payloads(0, 3, 100))
    for hear in (lambda check, bodies: check.many(bodies), lambda check, bodies: [*map(check.one, bodies)]):
        with pytest.raises(AssertionError):
            hear(Check(1, 3), [said[number] for number in told])


@pytest.mark.parametrize("make", [redis, two_agents])
def test_a_silent_member_is_removed(make):
    assert run(make(), workloads.silent_until_all_know)["silent: max ms"] > 0


@pytest.mark.parametrize("work", [workloads.program_stopped, workloads.host_stopped])
def test_a_short_stop_costs_nobody_a_membership(work):
    measures = run(RostraService(Deployment.TWO_AGENTS), work)

    assert "kept" in measures.values()


def test_memory_is_weighed():
    assert "KB per member" in run(redis(), workloads.memory_per_member)


def test_a_notice_that_does_not_reach_everybody_ends_the_run():
    class Forgetful(EchoService):
        async def start(self) -> None:
            await super().start()
            self._asked = 0

        def door(self, place: int = 0):
            self._asked += 1
            # The last program to connect, the joiner, is sent to a hub of its own.
            return {"path": self._path if self._asked <= SMOKE.processes else self._other}

    async def measured() -> None:
        async with EchoService() as other, Forgetful() as service:
            service._other = other._path
            with pytest.raises(Incomplete):
                await workloads.join_until_all_know(service, replace(SMOKE, patience_s=1.0))

    asyncio.run(measured())


def test_a_failure_in_a_client_process_is_shown():
    async def hired() -> None:
        async with Crew() as crew:
            with pytest.raises(HandFailed, match="no peer named 'nobody'"):
                await crew.hire(1, "nobody")

    asyncio.run(hired())


def test_a_percentile_is_a_value_that_was_measured():
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile([7], 0.99) == 7


def test_the_middle_of_repeats_is_shown_and_words_are_not_averaged():
    rows = [
        Row("W1", "redis", n, {"p50 ms": p50, "stopped": "kept"}) for n, p50 in enumerate([9.0, 1.0, 2.0])
    ]

    assert middle(rows) == {"W1": {"redis": {"p50 ms": 2.0, "stopped": "kept"}}}


def test_a_bar_is_judged_against_the_peer_of_the_same_run():
    peers = {"ours": {"p50 ms": 2.0}, "redis": {"p50 ms": 3.0}}
    easy = Bar("W1", "not slower", "p50 ms", 1, "redis")
    hard = Bar("W1", "3x faster", "p50 ms", 1 / 3, "redis")

    assert judge(easy, peers, "ours").reached
    assert "missed by 2x" in str(judge(hard, peers, "ours"))
    assert judge(hard, {"ours": {"p50 ms": 2.0}}, "ours") is None


def test_every_bar_is_about_something_that_is_planned():
    for bar in BARS:
        labels = {make().label for make, _ in PLAN[bar.workload].work}
        assert not bar.of_peer or bar.of_peer in labels
        assert any(label.startswith("rostra") for label in labels)


def test_agreed_joins_are_measured_by_the_lines_of_relaxed_ones():
    from benchmarks.peers.rostra_agreed import AgreedService

    found = run(AgreedService(Deployment.APART, profile="lan"), workloads.join_until_all_know)
    assert float(found["p50 ms"]) > 0


@pytest.mark.parametrize(
    ("work", "measure"),
    [
        (order_load.joins_under_load, "join p50 ms"),
        (order_load.orderer_killed, "detection max ms"),
        (order_load.donor_killed, "longest ms"),
    ],
)
def test_an_atomic_group_is_measured_under_load(work, measure):
    assert run(LoadedService(), work)[measure] > 0


def test_a_receipt_that_is_not_true_ends_the_run() -> None:
    class Told:
        """Answers of a member's process."""

        def __init__(self, places: str, came: list[int]) -> None:
            self.places, self.came = places, came

        async def do(self, order: str, what: str, details: dict[str, object]) -> object:
            receipts = {"acknowledged": 2, "places": "two", "rejected": [2], "in_doubt": []}
            return receipts if what == "receipts" else (self.places, self.came)

    asyncio.run(order_load.receipts_hold({0: Told("two", [])}, [Told("two", [])]))  # type: ignore[dict-item, list-item]
    for liar in (Told("one", []), Told("two", [2])):
        with pytest.raises(Incomplete):
            asyncio.run(order_load.receipts_hold({0: Told("two", [])}, [liar]))  # type: ignore[dict-item, list-item]
