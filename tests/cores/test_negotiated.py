"""Stations in negotiated order, frame by frame: receipts, and frames that no honest station sends."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.stations import GROUP, A, B, C, StationNet, member

from rostra.core.effects import Ignored
from rostra.groups.attributes import Slow
from rostra.names import Domain, Endpoint
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.atomic.amp_config import AGREED_SHIFT
from rostra.protocols.atomic.frames import (
    ACK,
    ORDER,
    SUSPEND,
    WAIT,
    AmpStationId,
    AmpView,
    AmpViewId,
    DataFrame,
    DecisionFrame,
    FrameControl,
    FramePart,
    NewViewFrame,
    ResponseFrame,
    SuspensionLevel,
    ViewChange,
)
from rostra.protocols.atomic.logs import MovesBetween
from rostra.protocols.atomic.messages import RunEntry, ShownView, StationId, ViewKey, encode_entry
from rostra.protocols.atomic.negotiated import NegotiatedStation, amp_number
from rostra.protocols.atomic.state import AgreedNow
from rostra.protocols.flow.messages import Data, Run
from rostra.protocols.flow.runs import block_of


def agreed(number: int, hosts: Sequence[Domain]) -> AgreedNow:
    members = tuple([AgreedMember(MemberId(member(host), (1, 1)), 1) for host in hosts])
    stations = tuple([StationId(host, 1) for host in hosts])
    return AgreedNow(ViewKey(number, 0, ""), AgreedView(number, members=members), stations)


class Hosts(StationNet[NegotiatedStation]):
    def __init__(self, *hosts: Domain) -> None:
        super().__init__()
        for each in hosts:
            self.stations[each] = NegotiatedStation(GROUP, StationId(each, 1), "all", 1400)
            self.stations[each].gallery.enter(member(each), Slow.THROTTLE)
        self.agree(agreed(1, hosts), *hosts)

    def agree(self, view: AgreedNow, *hosts: Domain) -> None:
        for each in reversed(hosts):  # the first of them asks the others at once
            self.do(each, lambda station, out: station.look(0.0, view, "", out))

    def control(self, host: Domain, attributes: int = 0, **fields: Any) -> FrameControl:
        view = self.stations[B].gate.state.view
        assert view is not None
        return FrameControl(GROUP, AmpStationId(host, 1), 90, 90, view.id, attributes, **fields)


def data(host: Domain, control: FrameControl) -> DataFrame:
    return DataFrame(control, (encode_entry(RunEntry(0, member(host), Run(1, 1, block_of([b"x"])))),))


@pytest.mark.spec("A-003", "A-052")
def test_a_sender_that_is_excluded_is_given_no_receipt_for_what_was_not_confirmed() -> None:
    """It has decided, the other host's confirmation is lost, and the group went on without both."""
    net = Hosts(A, B)
    net.say(A, b"all have it")
    assert net.runs(A) == net.runs(B) == 1
    net.loses = lambda to, message: to == B and isinstance(message, DecisionFrame)
    net.say(A, b"B does not know that it is decided")
    assert net.runs(A) == net.runs(B) == 1

    merged = agreed(5, (C, A, B))
    net.agree(merged, A)
    elsewhere = AmpViewId(amp_number(ViewKey(4, 0, "")), AmpStationId(C, 1))
    number = amp_number(merged.key)
    level = SuspensionLevel(number << AGREED_SHIFT, AmpStationId(C, 1))
    view = AmpView(
        AmpViewId(number, AmpStationId(C, 1)), tuple([AmpStationId(each, 1) for each in (C, A, B)])
    )
    body = net.stations[A].gate.state.applied
    assert body is not None
    control = FrameControl(GROUP, AmpStationId(C, 1), 7, 0, elsewhere, ACK | SUSPEND, level)
    net.hear(A, C, NewViewFrame(control, ViewChange(elsewhere, view, body=body.body)))
    assert net.stations[A].excluded
    assert net.runs(A) == 1


@pytest.mark.spec("A-016")
def test_a_host_sends_parts_in_one_stream_only() -> None:
    """Whatever it makes up is not kept."""
    net = Hosts(A, B)
    receiver = net.stations[B]._receiver
    for number in range(100):
        for stream in (f"{A}/order#{number + 2}", f"{A}/any{number}#1"):
            part = Data(Endpoint(stream), Run(1, 1, b"x" * 1000), 1, 0, offset=0, size=100_000)
            net.hear(B, A, FramePart(part))
    assert receiver.bytes == 0 and not receiver.lacks
    own = Data(Endpoint(f"{A}/order#1"), Run(1, 1, b"x" * 1000), 1, 0, offset=0, size=100_000)
    net.hear(B, A, FramePart(own))
    assert receiver.bytes > 1000 and receiver.lacks
    for number in (2, 3):  # with the second, A has no part in any view
        net.agree(agreed(number, (B,)), B)
    assert receiver.bytes == 0 and not receiver.lacks


@pytest.mark.spec("A-021", "A-028")
@pytest.mark.parametrize("attributes", [0, ACK, ACK | WAIT, ACK | WAIT | ORDER | SUSPEND])
def test_a_run_without_an_order_or_that_suspends_is_not_taken(attributes: int) -> None:
    """One would reach members at no position, the other hold up every later view."""
    net = Hosts(A, B)
    level = SuspensionLevel(1 << 62, AmpStationId(A, 1)) if attributes & SUSPEND else None
    out = net.hear(B, A, data(A, net.control(A, attributes, sl=level)))
    assert any(isinstance(each, Ignored) for each in out)
    assert net.runs(B) == 0 and net.stations[B].gate.state.top is None
    net.hear(B, A, data(A, net.control(A, ACK | WAIT | ORDER)))
    assert len(net.stations[B].gate.state.queue) == 1


@pytest.mark.spec("A-042")
def test_what_a_member_sent_before_it_left_is_not_sent_again_for_it_when_it_is_back() -> None:
    net = Hosts(A, B)
    station = net.stations[A]
    station.gallery.enter(Endpoint(f"{A}/ben#1"), Slow.THROTTLE)
    net.loses = lambda to, message: isinstance(message, ResponseFrame | DataFrame)
    net.say(A, b"on its way")
    net.do(A, lambda station, out: station.gone(member(A), "it did not read", out))
    station.gallery.enter(member(A), Slow.THROTTLE)
    net.loses = lambda to, message: False
    net.agree(agreed(2, (A, B)), A, B)
    assert station.gallery.view is not None and station.gallery.view.number == 2
    assert net.runs(A) == net.runs(B) == 0
    again = station.gallery.members[member(A)]
    assert (again.handed, again.placed, again.bytes) == (0, 0, 0)


def test_a_view_that_overtook_the_one_before_it_says_who_joined_since_that() -> None:
    """Who made its body had not given its members view 2 yet, and says that B joined, too."""
    ids = [MemberId(member(host), (1, 1)) for host in (A, B, C)]
    moves = MovesBetween()
    for number, joined in ((2, ids[1]), (3, ids[2])):
        shown = AgreedView(number, members=tuple([AgreedMember(each, 1) for each in ids]), joined=(joined,))
        moves.agreed(AgreedNow(ViewKey(number, 0, ""), shown, ()))
    listed = tuple([(each.endpoint, b"") for each in ids])
    made = ShownView(ViewKey(3, 0, ""), listed, None, (member(B), member(C)))
    moves.placed(ViewKey(2, 0, ""))
    assert moves.upto(made).joined == (member(C),)
