"""A station with ``stable="disk"``, step by step: nothing is seen before what it rests on is written."""

from types import SimpleNamespace
from typing import Any

from rostra.core.effects import Effect, Persist
from rostra.groups.attributes import Slow
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.events import AgreedChanged
from rostra.protocols.atomic.agent import OrderAgent
from rostra.protocols.atomic.events import FramesHeard, HubPost
from rostra.protocols.atomic.feeds import InFeed, OutFeed, feed_name
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.messages import (
    HubData,
    HubHave,
    HubStart,
    MarkEntry,
    RunEntry,
    ShownView,
    StationId,
    ViewKey,
    Way,
    encode_entry,
)
from rostra.protocols.atomic.state import AgreedNow, StationFollows, StationReports
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import block_of

GROUP = Group("ledger", Domain("eu"))
ORDERER, OURS = StationId(Domain("eu.h1"), 1), StationId(Domain("eu.h2"), 1)
SENDER = Endpoint("eu.h1/ann#1")


def data(key: ViewKey, entries: list[Any], *, begins: int) -> tuple[HubData, ...]:
    """As the orderer sends them, from the entry at `begins` on."""
    feed = OutFeed(feed_name(ORDERER.host))
    run = feed.add([encode_entry(each) for each in entries], [each.end for each in entries])
    return tuple([HubData(key, Way.DOWN, begins, 0, each) for each in feed.data(run, 1400)])


def test_what_calls_within_a_step_write_comes_before_all_that_the_step_shows() -> None:
    """A slow member is expelled while a message is delivered, and the group is looked at again meanwhile."""
    agent, key = OrderAgent(OURS.host), ViewKey(1, 1, "")

    class Services:
        def __getitem__(self, name: object) -> SimpleNamespace:
            return SimpleNamespace(begun={GROUP}, made=set(), groups={}, up=True)

        def call(self, *asked: object) -> list[Effect]:
            return [AgreedChanged(GROUP)]

    agent.stack = Services()  # type: ignore[assignment]
    agent._look = lambda now, group, out: None  # type: ignore[method-assign]
    station = agent.stations[GROUP] = Station(GROUP, OURS, "disk", 1400)
    assert station.disk is not None
    station.chain = station.disk.claims = ((key, (ORDERER, OURS)),)
    station.disk.origin = key
    station.stage, station._in = StationFollows(ORDERER, 0), InFeed(feed_name(ORDERER.host), 1)
    slow, fast = Endpoint("eu.h2/slow#1"), Endpoint("eu.h2/fast#2")
    for member, how in ((slow, Slow.EXPEL), (fast, Slow.THROTTLE)):
        station.gallery.enter(member, how)
        station.gallery.members[member].knows = True
    station.gallery.reads(slow, False, [])
    station.gallery.members[slow].waiting_bytes = 9 << 20

    run = RunEntry(1, SENDER, Run(1, 1, block_of([b"e4"])))
    effects = list(agent.step(0.0, FramesHeard(GROUP, ORDERER.host, data(key, [run], begins=2))))

    written = [number for number, each in enumerate(effects) if isinstance(each, Persist)]
    assert written == list(range(len(written))) and written


def test_a_station_that_has_not_written_what_it_was_given_does_not_count_it() -> None:
    """Behind an epoch that it did not see, entries stay in memory until those before them are here."""
    old, key = ViewKey(1, 1, ""), ViewKey(5, 1, "")
    station = Station(GROUP, OURS, "disk", 1400)
    station.agreed, station.stage = AgreedNow(key, None, (ORDERER, OURS), 5), StationReports(ORDERER)
    out: list[Effect] = []
    start = HubStart(key, ((old, (ORDERER,)), (key, (ORDERER, OURS))), 1, 1, 9, True, old)
    station.heard(0.0, ORDERER.host, start, out)
    shown = ShownView(old, ((SENDER, b""), (Endpoint("eu.h2/bob#1"), b"")), 1)
    run = RunEntry(2, SENDER, Run(1, 1, block_of([b"e4"])))
    for each in data(key, [MarkEntry(1, shown, (ORDERER, OURS), True), run], begins=0):
        station.heard(0.0, ORDERER.host, each, out)

    reports = [
        each.message for each in out if isinstance(each, HubPost) and isinstance(each.message, HubHave)
    ]
    assert station.unwritten() is None
    assert reports and {each.next for each in reports} == {1}
