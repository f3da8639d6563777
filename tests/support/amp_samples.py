"""One frame of AMp of each kind, with every field in use."""

from typing import Any

from rostra.names import Domain, Endpoint, Group
from rostra.protocols.atomic.frames import (
    ACK,
    FLUSH,
    ORDER,
    RESUME,
    SUSPEND,
    WAIT,
    AmpStationId,
    AmpView,
    AmpViewId,
    BeaconFrame,
    CloseGateFrame,
    DataFrame,
    DataId,
    DecidedEntry,
    DecisionFrame,
    DecisionRequestFrame,
    FrameControl,
    FrameNak,
    FramePart,
    FrameRef,
    GetViewFrame,
    InvestigateFrame,
    NewViewFrame,
    OpenGateFrame,
    PendingFrame,
    PendingRun,
    ResponseFrame,
    RunOutcome,
    StationReport,
    StoredChange,
    SuspensionLevel,
    ViewChange,
)
from rostra.protocols.flow.messages import Data, Nak, Run

GROUP = Group("lounge/chess", Domain("eu"))
A, B, C = [AmpStationId(Domain(f"eu.fr.paris.h{number}"), number) for number in (1, 2, 3)]
V3, V4 = AmpViewId(3, A), AmpViewId(4, B)
SL = SuspensionLevel(7, B)
STREAM = Endpoint("eu.fr.paris.h1/order#1")
CHANGE = ViewChange(
    V3,
    AmpView(V4, (A, B)),
    (C,),
    (RunOutcome(DataId(C, 5), accept=True, position=41), RunOutcome(DataId(A, 2), accept=False)),
    (DecidedEntry(A, 1, 1, 40, 9),),
    41,
    17,
    body=b"shown",
)
REPORT = StationReport(
    AmpView(V3, (A, B, C)),
    (DecidedEntry(A, 1, 1, 40, 9),),
    (PendingRun(DataId(C, 5), 41, 2),),
    DataId(A, 2),
    RunOutcome(DataId(A, 1), accept=True, position=40),
    41,
    15,
    StoredChange(SL, CHANGE),
)


def control(attributes: int = 0, mdn: int = 0, mtn: int = 12) -> FrameControl:
    return FrameControl(GROUP, A, mtn, mdn, V3, attributes, SL if attributes & SUSPEND else None)


AMP_FRAMES: list[Any] = [
    DataFrame(
        control(ACK | WAIT | ORDER, 5), (b"e4", b"e5"), RunOutcome(DataId(A, 4), accept=True, position=39)
    ),
    ResponseFrame(control(mdn=5, mtn=0), FrameRef(A, 5, 12), "CAN_ACCEPT", 41),
    ResponseFrame(control(mtn=0), FrameRef(B, 0, 12), "SUSPENDED", sl=SL, held=True),
    ResponseFrame(control(mtn=0), FrameRef(B, 0, 12), "CAN_ACCEPT", report=REPORT),
    ResponseFrame(control(mtn=0), FrameRef(B, 0, 12), "FAILURE_SEEN", seen=(C,)),
    ResponseFrame(control(mtn=0), FrameRef(B, 5, 12), "NEWER", change=CHANGE),
    DecisionFrame(
        control(ACK | RESUME, 5), False, 0, None, RunOutcome(DataId(A, 4), accept=True, position=39)
    ),
    DecisionFrame(control(RESUME), True, 0, CHANGE),
    DecisionRequestFrame(control(mdn=5, mtn=0), FrameRef(B, 5)),
    PendingFrame(control(mdn=5, mtn=0), FrameRef(B, 5)),
    GetViewFrame(control(ACK | SUSPEND | FLUSH)),
    OpenGateFrame(control(ACK | SUSPEND | FLUSH | WAIT), CHANGE),
    CloseGateFrame(control(ACK | SUSPEND | FLUSH | WAIT), CHANGE),
    InvestigateFrame(control(ACK | SUSPEND), (C,), RunOutcome(DataId(A, 4), accept=True)),
    NewViewFrame(control(ACK | SUSPEND), CHANGE),
    BeaconFrame(control(), 2),
]

AMP_PARTS: list[Any] = [
    FramePart(Data(STREAM, Run(3, 1, b"a part of it"), 3, 0, True, 0, 1200, 3600)),
    FrameNak(Nak(STREAM, ((3, 3),), A.host, 1, ((3, ((1200, 2399),)),))),
]
