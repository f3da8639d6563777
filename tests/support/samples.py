"""At least one value of everything that has a number on the wire, the corners included."""

from typing import Any

from rostra.core.records import KeyedRecord
from rostra.groups.attributes import (
    DelegateAttributes,
    DoubtAttributes,
    FifoAttributes,
    ProofAttributes,
    ProvenFifoAttributes,
    Role,
    Slow,
)
from rostra.groups.items import AgreedViewId, SentIn
from rostra.groups.kinds import FIFO, DeliveryKind, GroupKind, MembershipKind
from rostra.groups.members import Because, Cause, Member, Part
from rostra.names import OPEN, ROOT, Domain, Endpoint, Group
from rostra.protocols.access.messages import ClosedTold, ProofShown, RevocationsTold
from rostra.protocols.access.proofs import Revocation
from rostra.protocols.access.requests import (
    AssignName,
    CloseGroup,
    JoinRestricted,
    JoinUnique,
    NamesAsked,
    NamesTold,
    ReleaseName,
    ReopenGroup,
    Revoke,
)
from rostra.protocols.agreed import branch, calls, orders
from rostra.protocols.agreed import messages as agreed
from rostra.protocols.agreed.casting import SetCarried, SetNumber
from rostra.protocols.agreed.changes import (
    CommitRecord,
    GroupChange,
    GroupPlace,
    GroupPlaced,
    GroupVerb,
    MemberId,
    PartsMerged,
    Pid,
    PlaceStep,
    Priority,
    Proposal,
    Round,
    ServerId,
    ServersFailed,
    SetMember,
    SetPart,
    SetSplit,
    SetView,
)
from rostra.protocols.agreed.groups import AgreedGroup, AgreedMember, AgreedView, CarriedGroup, Outcome
from rostra.protocols.agreed.requests import JoinAgreed, LeaveAgreed, MemberBlocked, MemberView
from rostra.protocols.agreed.rules import LivingState, RuleMember
from rostra.protocols.atomic import messages as hub
from rostra.protocols.atomic import requests as ordered
from rostra.protocols.claims import messages as claims
from rostra.protocols.election import messages as voter
from rostra.protocols.fifo import events as spoken
from rostra.protocols.fifo.requests import Enter, Exit
from rostra.protocols.flow import messages as speech
from rostra.protocols.flow.messages import Run
from rostra.protocols.front.messages import (
    NO_ENDPOINT,
    Answered,
    Ask,
    Goodbye,
    Ping,
    Pong,
    Reading,
    Submit,
    Told,
)
from rostra.protocols.led import messages as led
from rostra.protocols.led import requests as led_program
from rostra.protocols.led.requests import JoinLed, LeaveLed
from rostra.protocols.links.packets import NOBODY, Beat, Bye, Data, Hello
from rostra.protocols.relaxed import messages as server
from rostra.protocols.relaxed import requests as program
from rostra.protocols.relaxed.gate import ClosedList
from rostra.protocols.relaxed.messages import Interest, MessageId
from rostra.protocols.scopes import messages as scopes
from rostra.protocols.scopes.requests import JoinOpen, LeaveOpen
from rostra.wire.frames import ANY_WORLD
from rostra.wire.programs import (
    Arena,
    Asks,
    Delivery,
    DeliveryToAll,
    Lent,
    Mapped,
    ProgramHello,
    ProgramWelcome,
    Retired,
    Returned,
    Tells,
)

WORLD = "T-REF"

PARIS = Domain("eu.fr.paris")
H1, H2 = Domain("eu.fr.paris.h1"), Domain("eu.fr.paris.h2")
ANN, BOB = Endpoint("eu.fr.paris.h1/ann#7"), Endpoint("eu.fr.paris.h2/Bob_2.x#9223372036854775807")
CHESS = Group("lounge/chess", Domain("eu"))
PAYROLL = Group("acme/hr!payroll", ROOT)
SIDE_TABLE = Group(f"{ANN}~7-1718-5", H1)
CAFE = Group("café/日本", PARIS)

ID = MessageId(H1, 7, 42)
OWN_SET = Group(f"{ANN}~7-1718-5", PARIS)
STRONG = GroupKind(MembershipKind.AGREED, DeliveryKind.ATOMIC, "hub", "all", "primary")
LATE_ID = MessageId(ROOT, 2**63 - 1, 2**63 - 1)
DELEGATE = Endpoint("eu.fr.paris.-delegate/adhoc#7")
MEMBERS = (
    Member(ANN, (7, 1)),
    Member(BOB, (2**63 - 1, 0), b"\x00\xffmeta", FIFO, FifoAttributes(Role.BOTH, 43, Slow.SPILL)),
    Member(DELEGATE, (7, 2), b"", FIFO, DelegateAttributes("10.0.0.5:7700")),
)
SILENT = Because(Domain("eu"), Domain("us"), "silent")

AGREED = GroupKind(MembershipKind.AGREED, survive="majority")
ASKED = branch.HostQuestion(H1, 7, 3)
ANNS, BOBS = MemberId(ANN, (7, 1)), MemberId(BOB, (2**62, 0))
VIEW_1 = (1, 0, Pid(ServerId(PARIS, 7), 1))
VIEW_2 = (2, 1, Pid(ServerId(PARIS, 7), 2))
LISTED = (AgreedMember(ANNS, 1), AgreedMember(BOBS, 2, b"\x00\xffmeta"))
PAST = calls.PastView(VIEW_1, 1, (ANNS,), parts=((ANNS,), (BOBS,)))
SHOWN = calls.GroupState(VIEW_2, LISTED, (BOBS,), (), (), b"", AGREED, (PARIS,), 7, "", (PAST,))

FR, DE = ServerId(Domain("eu.fr"), 7), ServerId(Domain("eu.de"), 2**62)
SET_VIEW = SetView(
    2, Pid(FR, 1), (SetMember(FR), SetMember(DE, 1, 2), SetMember(ServerId(Domain("eu"), 3), parent=True))
)
HEAD = (Domain("eu"), 7, 3, (DE,))
JOINS = GroupChange(CHESS, GroupVerb.JOIN, (ANNS,), "eu.fr.paris.h1:7:3", 0, b"white", AGREED)
PROPOSED = Proposal(Pid(FR, 2), 3, Pid(FR, 1), JOINS, Priority(1, 1, 2, 0, 0, ANN, 0, 2))
ROUND = Round(Pid(FR, 2), 0, FR)
RECORD = CommitRecord(PROPOSED, ROUND, (DE,), (DE,), (PROPOSED,))
PART = SetPart(SET_VIEW, 3, Pid(FR, 1))
APART = AgreedGroup((AgreedView(1, 0, VIEW_1[2], LISTED[1:]),))
CARRIED = CarriedGroup(
    CHESS,
    AgreedGroup(
        (AgreedView(*VIEW_2, LISTED, (BOBS,), (), (), b"", ((ANNS,), (BOBS,))),),
        (Outcome(CHESS, "eu.fr.paris.h1:7:3", "NotMember"),),
        AGREED,
        (APART,),
        LivingState(7, (RuleMember(ANNS, (("type", "db"),)),), (), ((ANNS, 6),)),
        "1 of 3 are here",
    ),
)


def proposed(change: Any) -> Proposal:
    return Proposal(Pid(FR, 2), 3, Pid(FR, 1), change, Priority(0, 1, 0, -1, 1, "", 0, 2))


SENT_IN = SentIn(CHESS, AgreedViewId(7, 1, "eu.fr:3:9"))

MESSAGES: list[Any] = [
    server.EndpointsJoined(ID, CHESS, MEMBERS, Cause.JOIN),
    server.EndpointsJoined(LATE_ID, PAYROLL, (), Cause.MERGE, Part(False, Domain("us"))),
    server.EndpointLeft(ID, CAFE, ANN, (7, 2), Cause.LEAVE),
    server.EndpointLeft(ID, CAFE, BOB, (9, 1), Cause.CRASH, b"last words"),
    server.DomainFailed(ID, (CHESS, SIDE_TABLE), Domain("us"), False, SILENT),
    server.DomainFailed(ID, (PAYROLL,), PARIS, True, SILENT),
    server.ResolveRequest(ID, CHESS),
    server.ResolveReply(ID, CHESS, MEMBERS, Interest.ALL),
    server.ResolveReply(ID, CHESS, (), Interest.NONE),
    server.InterestChanged(ID, SIDE_TABLE, Interest.RESOLVE),
    server.SyncDone(ID),
    server.Routed(ID, ANN, (BOB,), b"e4"),
    server.Routed(ID, ANN, (BOB,), b"e4", SENT_IN),
    server.Undeliverable(ID, ANN, (BOB,), "next hop down"),
    server.LifeAsked(ID, H1, BOB),
    server.LifeAsked(ID, H1, BOB, stop=True),
    server.LifeTold(ID, H1, BOB, True),
    server.LifeTold(ID, H1, BOB, False, "unknown endpoint"),
    server.RegistryTold(ID, Domain("eu"), 3, ("acme/hr!payroll", "lounge/chess")),
    server.Inquiry(ID, H1, Domain("us"), BOB),
    server.Inquiry(ID, H1, H2, "eu.fr.paris.h2/bob"),
    server.InquiryReply(ID, H1, H2, b"{}"),
    server.InquiryReply(ID, H1, Domain("us"), b"", "eu cannot reach us"),
    voter.PreVoteRequest(7, 0),
    voter.PreVoteGranted(7),
    voter.PreVoteRefused(7, "eu.-seat-1"),
    voter.PreVoteRefused(2**63 - 1, ""),
    voter.VoteRequest(7, 7 << 10),
    voter.VoteGranted(7),
    voter.VoteRefused(8),
    voter.LeaderAnnounced(7),
    voter.Shared(b"\x00\xffmirror"),
    voter.ReplicateRecord(7, KeyedRecord("registry", 7 << 10, b"\x91\xa4news")),
    voter.ReplicateRecord(7, KeyedRecord("claim/chess", 7 << 10)),
    voter.RecordReplicated(7, 7 << 10),
    voter.RoomReported(False),
    voter.ReplicateAll(7, 7 << 10, (KeyedRecord("registry", 7, b"\x90"),), True, False),
    voter.ReplicateAll(7, 7 << 10, ()),
    claims.Claim(ID, Domain("eu.fr.paris.h1"), CHESS, STRONG),
    claims.ClaimBegun(ID, Domain("eu.fr.paris.h1"), CHESS, "812.7."),
    claims.ProvenClaim(
        ID,
        Domain("eu.fr.paris.h1"),
        Group("acme!payroll", ROOT),
        STRONG,
        Endpoint("eu.fr.paris.h1/ann#7"),
        b"p",
    ),
    claims.ClaimReleased(ID, Domain("eu.fr.paris.h1"), CHESS),
    claims.ClaimAnswer(ID, Domain("eu.fr.paris.h1"), CHESS, STRONG, 7 << 10),
    claims.ClaimAnswer(ID, Domain("eu.fr.paris.h1"), CHESS, None, 0, "UNREACHABLE", "eu.fr cannot reach eu"),
    branch.MemberAsked(CHESS, ASKED, GroupVerb.JOIN, LISTED[:1], AGREED),
    branch.MemberAnswer(CHESS, ASKED),
    branch.MemberAnswer(CHESS, ASKED, "NOT_ALLOWED", "it is relaxed, none"),
    branch.ViewTold(CHESS, (H1, H2), VIEW_1, None, LISTED, fence=7, parts=((ANNS,), (BOBS,))),
    branch.ViewTold(CHESS, (H1,), VIEW_2, VIEW_1, (), (ANNS,), (BOBS,), 7, "1 of 3 are here", lost=(H2,)),
    branch.ViewTaken(CHESS, H1, VIEW_1),
    branch.ViewTaken(CHESS, H1, (0, 0, None), whole=True),
    branch.HostHolds(CHESS, ASKED, LISTED[:1], AGREED),
    branch.HostHolds(CHESS, ASKED, LISTED[:1], AGREED, VIEW_2, LISTED, 7, (ANNS, BOBS)),
    branch.BranchLost(H1),
    branch.ViewComing(CHESS, (H1,), VIEW_1, Pid(FR, 2), (ANNS,)),
    branch.BranchCut(PARIS),
    branch.HoldingsAsked(PARIS),
    branch.ReopenAsked(PARIS, "eu.fr.paris:1 at 7"),
    branch.HolderAsked(CHESS, (H1,), AGREED),
    branch.LeaseAsked(7),
    branch.LeaseGiven(7, (750, 0)),
    branch.ConfirmAsked(PARIS, 2, 7),
    branch.LeaseConfirmed(PARIS, 2, 7, ROUND.pid, (ROUND.pid,)),
    calls.GroupAsked(CHESS, ASKED, ANN, calls.LookAt(3, 1, 8)),
    calls.GroupAsked(CHESS, ASKED, ANN, calls.ListGroups(BOB, (("tier", "gold"),))),
    *[
        calls.GroupAsked(CHESS, ASKED, ANN, calls.OrderCall(order))
        for order in (
            orders.CreateGroup(AGREED, (("tier", "gold"),)),
            orders.SetAttributes((("a", "1"), ("b", None)), (BOB,)),
            orders.DeleteGroup(),
            orders.RemoveMembers((BOB,)),
            orders.SplitGroup(CHESS, CAFE, (("disk", "ssd"),)),
            orders.MergeGroups(CHESS, CAFE),
        )
    ],
    calls.GroupAnswer(CHESS, ASKED, "NAME_TAKEN", "there is one", "choose another name"),
    calls.GroupAnswer(CHESS, ASKED, state=SHOWN, groups=(CHESS, CAFE)),
    calls.GroupsFound(CHESS, ASKED, PARIS, (PARIS, H1), (CHESS, CAFE)),
    calls.GroupEnded(
        CHESS, H1, VIEW_2, "it was split", (calls.EndedMember(ANNS, CAFE), calls.EndedMember(BOBS)), AGREED
    ),
    calls.GroupEnded(CHESS, H1, VIEW_2, "put out", (calls.EndedMember(BOBS),), AGREED, over=False),
    calls.SubgroupEntered(CHESS, H1, CAFE, AGREED, (ANNS, BOBS)),
    branch.HoldingsAsked(PARIS, CHESS, (Domain("eu.fr.paris.h1"),)),
    agreed.Initiate(*HEAD, PROPOSED, ROUND, RECORD, (ROUND,), (DE,)),
    agreed.Initiate(*HEAD, proposed(PartsMerged((PART, PART))), ROUND, groups=(CARRIED,)),
    agreed.Initiate(*HEAD, proposed(ServersFailed((DE,))), ROUND),
    agreed.Initiate(*HEAD, proposed(GroupPlaced(CHESS, PlaceStep.WANT, FR, JOINS)), ROUND),
    agreed.Initiate(*HEAD, proposed(GroupPlaced(CHESS, PlaceStep.TAKE, FR, part=b"a group")), ROUND),
    agreed.Ack(*HEAD, ROUND, (ROUND,), (PROPOSED,)),
    agreed.Busy(*HEAD, ROUND, PROPOSED, ROUND),
    agreed.Busy(*HEAD, ROUND),
    agreed.Stale(*HEAD, ROUND, RECORD),
    agreed.Yield(*HEAD, ROUND),
    agreed.Commit(*HEAD, RECORD),
    agreed.CoordinatorFailed(
        *HEAD, proposed(ServersFailed((DE,))), ROUND, agreed.AgreementStatus.ACKED, (FR,), RECORD
    ),
    agreed.CoordinatorFailed(
        *(*HEAD, proposed(SetSplit((DE,), (FR,), ("north", "south"), ROUND.pid)), ROUND),
        agreed.AgreementStatus.UNAWARE,
    ),
    agreed.Collecting(*HEAD, ROUND),
    agreed.PartedFromSet(*HEAD),
    agreed.SetProbe(*HEAD, PART),
    agreed.Offer(*HEAD, PART, (CARRIED,)),
    agreed.Offer(*HEAD, PART, (CarriedGroup(CHESS, None, GroupPlace((PARIS,), (JOINS,), True, FR)),)),
    agreed.Declined(*HEAD, ROUND),
    agreed.Declined(*HEAD),
    agreed.SetEvidence(*HEAD),
    SetCarried(Domain("eu"), 7, 3, agreed.SetEvidence(*HEAD)),
    SetNumber(Domain("eu"), 7, 3, True),
    led.CarriedLetter(H1, H2, led.encode_letter(led.Assert(CHESS, 7, 5, H2, 3))),
    led.CarriedLetter(
        H1, H2, led.encode_letter(led.ProvenAssert(CHESS, 7, 5, endpoint=Endpoint("eu.h1/ann#7"), proof=b"p"))
    ),
    *[
        led.CarriedLetter(
            H1, H2, led.encode_letter(kind(CHESS, 7, endpoint=Endpoint("eu.h1/ann#7"), proof=b"p"))
        )
        for kind in (led.ProvenLeaderAsked, led.ProvenListAsked)
    ],
    led.CarriedLetter(Domain("eu"), H1, b"\x00\xff"),
    led.SpreadLetter(
        H1,
        ((H2, ("bob#2", "eve#9")), (Domain("us.h1"), ())),
        led.encode_letter(led.SequenceData(CHESS, 7, "ann#1", 3, (), 2, b"e4")),
    ),
    ClosedTold(ClosedList(Domain("eu"), 7, (("lounge/chess", (PARIS,)),))),
    RevocationsTold((Revocation("acme/hr", bytes(32), "acme", bytes(64)),)),
    ProofShown(PAYROLL, Endpoint("eu.fr.paris.h1/ann#7"), b"proof"),
    scopes.PointersKept((("lounge/chess", None), ("lounge/go", Domain("eu")))),
    scopes.PointersDropped(("lounge/chess",)),
    scopes.ScopeTold("lounge/chess"),
    scopes.ScopeTold("lounge/chess", Domain("eu")),
    scopes.PointersRefused(("lounge/chess",)),
    scopes.ForeignAsked(H1, 7, CHESS),
    scopes.ForeignTold(H1, 7, CHESS, (Member(ANN, (7, 1)),)),
    scopes.ForeignTold(H1, 7, CHESS, why="eu cannot reach eu.paris"),
    led.RegistrarsTold(((Domain("eu"), Domain("eu"), 7), (Domain("world"), Domain("us"), 8))),
    led.RegistrarsAsked(),
    hub.CarriedFrame(H1, H2, CHESS, hub.encode_carried(hub.HubAsk(hub.ViewKey(3, 0, "eu:7#1")))),
    hub.CarriedFrame(
        H1, H2, CHESS, hub.encode_carried(hub.HubAsk(hub.ViewKey(3, 0, "eu:7#1"))), (Domain("eu.de.h1"),)
    ),
]

REQUESTS: list[Any] = [
    program.Open("web-1"),
    program.Close(),
    program.Join(CHESS),
    program.Join(PAYROLL, online=False, permanent=True, meta=b"rank 1"),
    program.Leave(CHESS),
    program.Leave(CHESS, b"bye"),
    program.Resolve("lounge/chess", Domain("eu")),
    program.Resolve("lounge/chess", None, deadline_s=2.5),
    program.SetOnline(CHESS, False),
    program.Watch(CAFE),
    program.Watch(CAFE, 3, 2**40),
    program.Unwatch(CAFE),
    program.SendTo((ANN, BOB), b"e4"),
    program.SendTo((ANN, BOB), b"e4", SENT_IN),
    program.WatchLife(BOB),
    program.UnwatchLife(BOB),
    program.Register(PAYROLL),
    program.Unregister(PAYROLL),
    program.Inspect(),
    program.Inspect(after=512, wait_s=2.0),
    program.Recall(BOB, H2),
    Enter(CHESS),
    Enter(PAYROLL, Role.RECEIVE, Slow.EXPEL, b"rank 1"),
    Enter(CAFE, membership=MembershipKind.LED),
    Exit(CHESS),
    JoinAgreed(CHESS),
    JoinAgreed(CAFE, DeliveryKind.FIFO, "size > 3", create=False, meta=b"rank 1"),
    JoinAgreed(CAFE, DeliveryKind.FIFO, role=Role.SEND, slow=Slow.EXPEL),
    JoinAgreed(Group("acme!payroll", ROOT), credential=b"sesame", luck=bytes(32)),
    LeaveAgreed(CHESS),
    JoinLed(CHESS),
    JoinLed(CAFE, DeliveryKind.FIFO, online=False, meta=b"rank 1"),
    LeaveLed(CHESS),
    JoinRestricted(PAYROLL),
    JoinRestricted(PAYROLL, b"open sesame", led=True, online=False, meta=b"rank 1", luck=bytes(32)),
    JoinUnique(CHESS),
    JoinUnique(CHESS, online=False, meta=b"rank 1"),
    CloseGroup(CHESS, (PARIS, H1)),
    ReopenGroup(CHESS),
    AssignName(CHESS, "the club"),
    ReleaseName(CHESS),
    NamesAsked(),
    JoinOpen(Group("lounge/chess", OPEN)),
    JoinOpen(Group("lounge/chess", OPEN), online=False, meta=b"rank 1"),
    LeaveOpen(Group("lounge/chess", OPEN)),
    Revoke(b"signed"),
    led_program.CreateSet(CAFE.scope, 1718),
    led_program.ChangeSet(OWN_SET, (BOB,), (ANN,)),
    led_program.DestroySet(OWN_SET),
    led_program.ResolveSet(OWN_SET),
    led_program.OpenSequence(CHESS),
    led_program.SendSequence(7, b"e4"),
    led_program.CloseSequence(7),
    led_program.ReplySequence(BOB, 7, CHESS, b"e5"),
    ordered.JoinOrdered(CHESS),
    ordered.JoinOrdered(
        *(CAFE, MembershipKind.RELAXED, "negotiated", "majority", "majority", False, b"rank 1", Slow.EXPEL)
    ),
    ordered.LeaveOrdered(CHESS),
    ordered.ForgetOrdered(CHESS, 812),
    calls.GroupCall(CHESS, calls.LookAt(3, 1, 8)),
    calls.DrainHost(True),
    calls.AdministerSet(PARIS, calls.SetVerb.SPLIT, (PARIS,), ("north", "south")),
]

ANSWERS: list[Any] = [
    program.Opened(ANN),
    program.Done(),
    program.Denied("NOT_MEMBER", "web-1 is not in lounge/chess@eu"),
    program.Denied("NAME_IN_USE", "web-1 is open", "choose another name", retriable=True),
    program.Resolved(((PARIS, MEMBERS), (ROOT, ())), isolated=True),
    program.Inspected(b"{}"),
    program.Recalled(b"{}"),
    calls.GroupPresented(SHOWN),
    calls.GroupPresented(groups=(CHESS,)),
    calls.HostDrained((calls.DrainedGroup(CHESS, True, 1, 2, "no"),)),
    calls.SetShown(ROOT, "world#north", 3, (calls.SetServer(PARIS, False),), (PARIS,)),
    NamesTold((("lounge/chess", "the club"),)),
    led_program.SetCreated(OWN_SET),
    led_program.SequenceOpened(7, (ANN, BOB)),
]

NOTICES: list[Any] = [
    program.Absolute(CHESS, MEMBERS),
    program.Absolute(CHESS, (), isolated=True),
    program.Joined(CHESS, MEMBERS, Cause.JOIN),
    program.Joined(CHESS, (), Cause.MERGE, Part(True, Domain("us"))),
    program.Left(CHESS, BOB, (9, 1), Cause.CRASH),
    program.Only(PARIS, SILENT),
    program.Without(Domain("us"), SILENT),
    program.Message(ANN, b"e4"),
    program.Message(ANN, b"e4", SENT_IN),
    program.NotDelivered((BOB,), "next hop down"),
    program.Life(BOB, False, "closed"),
    program.Gap(12, (CHESS, CAFE)),
    program.Snapshot(CHESS, MEMBERS, 3, 17),
    program.Snapshot(CHESS, (), 1, 0, isolated=True),
    led_program.SetAdded(OWN_SET),
    led_program.SetLost(OWN_SET, "deleted"),
    led_program.AddRefused(OWN_SET, BOB, "no such endpoint"),
    led_program.SetMembers(OWN_SET, (ANN,)),
    led_program.SequenceMessage(ANN, CHESS, 7, 1, b"e4"),
    led_program.SequenceClosed(ANN, CHESS, 7),
    led_program.SequenceReply(7, BOB, b"e5"),
    led_program.SequenceShrunk(7, (BOB,), "lost"),
    led_program.SequenceEnded(7, (ANN,)),
    program.PutOut(
        CHESS, program.Denied("NOT_ALLOWED", "chess@eu is agreed, atomic; join it so", "join it so")
    ),
    program.Changed(CHESS, 18, members=MEMBERS, cause=Cause.JOIN),
    program.Changed(CHESS, 19, left=(ANN,), cause=Cause.LEAVE, meta=b"bye"),
    program.Changed(CHESS, 20, left=(BOB,), by=program.Without(Domain("us"), SILENT)),
    program.Changed(CHESS, 2**63 - 1, left=(BOB,), by=program.Only(PARIS, SILENT)),
]

BLOCK = b"\xc4\x02e4\xc4\x03Nf3"
RUN = Run(41, 2, BLOCK, 1731700000.25)

GROUP_ITEMS: list[Any] = [
    spoken.Ready(((ANN, Role.BOTH, b"white"), (BOB, Role.SEND, b""))),
    spoken.Joined(BOB, Role.RECEIVE, b"black", resumed=True),
    spoken.Left(ANN, "failed", 42),
    spoken.Left(BOB, "left", None),
    spoken.Delivered(ANN, RUN),
    spoken.Gap(ANN, 43, 50),
    spoken.Without(Domain("us"), SILENT),
    spoken.Only(PARIS),
    spoken.Credit(1024),
    spoken.Excluded("too slow"),
    spoken.Parted(3, 1),
    spoken.Sent(42),
    spoken.Aggregated(ANN, RUN, Endpoint("eu.fr.paris.-delegate/aggregate#8")),
    spoken.JoinedTogether(((ANN, Role.BOTH, b"x"), (BOB, Role.RECEIVE, b""))),
    MemberView(1, 0, "eu.fr.paris:7#1", ((ANN, b"white"), (BOB, b"")), ((BOB, b""),), fence=7),
    MemberView(2, 0, "eu.fr.paris:7#2", None, (), (ANN,), (BOB,)),
    MemberBlocked("1 of 3 who lived last are here"),
    spoken.ChangesTogether(
        (spoken.Gap(ANN, 4, 9), spoken.Joined(ANN, Role.BOTH), spoken.Left(BOB, "failed", 42))
    ),
    calls.MemberMoved(CAFE, "it was split"),
    calls.GroupTerminated("it was deleted"),
    ordered.OrderedRun(ANN, speech.Run(40, 2, b"\xc4\x01a\xc4\x02bc", 1_731_700_000.25), 811),
    ordered.OrderPlaced(40, 2, 811, 14),
    ordered.OrderClosed(42, "it left the group"),
    calls.MemberAdded(CAFE, "it was split, and goes on"),
]

PACKETS: list[Any] = [
    Hello(3, NOBODY, WORLD, H1, 7, 0, PARIS),
    Hello(2**63 - 1, 4, WORLD, ROOT, 7, 2**40),
    Hello(3, 4, WORLD, PARIS, 7, 0, H1, b"sixteen bytes..."),
    Data(3, 4, 1, 0, tuple(MESSAGES)),
    Data(3, 4, 2, 9, ()),
    Beat(3, 4, 300),
    Bye(3, 4, "shutdown"),
]

ITEMS: list[Any] = [
    *(Answered(token, answer) for token, answer in enumerate([*ANSWERS, NOTICES[0]])),
    *(Told((7, 9), notice) for notice in NOTICES),
]

ASKS: list[Any] = [Ask(token, NO_ENDPOINT if token == 0 else 7, each) for token, each in enumerate(REQUESTS)]

TO_AGENT: list[Any] = [
    ProgramHello(WORLD, "web.py"),
    ProgramHello(ANY_WORLD, "web.py", "s3cret", PARIS),
    Asks(tuple(ASKS)),
    Ping(1),
    Pong(1),
    Goodbye("done"),
    Submit(7, CHESS, 2, BLOCK, 1731700000.25),
    Reading(7, CHESS, False),
    ProgramHello(ANY_WORLD, "web.py", shares=True),
    ProgramHello(ANY_WORLD, "web.py", ticket=bytes(range(16))),
    Mapped(3),
    Returned(3, (0, 65536, 0)),
]

TO_PROGRAM: list[Any] = [
    ProgramWelcome(WORLD, H1, 7),
    ProgramWelcome(WORLD, PARIS, 7, 2.5),
    Tells(tuple(ITEMS)),
    Ping(2),
    Pong(2),
    Goodbye(),
    *(Delivery(7, CHESS, item) for item in GROUP_ITEMS),
    Arena(3, 8 << 20, bytes(range(16)), 8),
    Lent(7, CHESS, ANN, 40, 2, 1731700000.25, 3, 65536, 25),
    Retired(3),
    DeliveryToAll((7, 9), CHESS, GROUP_ITEMS[0]),
]

VIEW_KEY = hub.ViewKey(14, 0, "eu.fr.paris:7#1")
CHAIN = ((VIEW_KEY, (hub.StationId(H1, 7), hub.StationId(H2, 8))),)

DATA_MESSAGES: list[Any] = [
    speech.Data(ANN, RUN, 42, 17),
    speech.Data(BOB, Run(7, 1, b"part", 0.5), 7, 0, repair=True, hop=2, offset=4, size=11),
    speech.Data(BOB, Run(8, 2, BLOCK, 0.5, view=14), 9, 7),
    speech.Nak(ANN, ((3, 5), (9, 9)), H1, 2, ((9, ((0, 1199), (4800, 5999))),)),
    speech.Below(ANN, 12, PARIS),
    speech.Heartbeat((speech.Pulse(ANN, 42, 17), speech.Pulse(BOB, 3, 3, final=True)), 1),
    speech.Status(BOB, ((ANN, 43),)),
    speech.Report((speech.Progress(ANN, PARIS, 7, 40),), 1),
    speech.Poll(ANN),
    speech.Polled(ANN, 41),
    speech.Parity(3, 2, b"\x00\xff", (40, 38), 1),
    speech.Numbered(3, 1, speech.Data(ANN, RUN, 42, 17)),
    speech.StartSubmit(ANN, 2, 1, 43),
    speech.SubmitReply(ANN, 2, 7),
    hub.HubData(VIEW_KEY, hub.Way.DOWN, 811, 800, speech.Data(ANN, speech.Run(4, 1, b"\xc4\x01a"), 4, 0)),
    hub.HubNak(VIEW_KEY, hub.Way.UP, speech.Nak(ANN, ((4, 9),), H2)),
    hub.HubPulse(VIEW_KEY, hub.Way.DOWN, 9, 811, 800),
    hub.HubHave(VIEW_KEY, 811, 800, full=True),
    hub.HubReport(VIEW_KEY, 7),
    hub.HubReport(VIEW_KEY, 7, CHAIN, 811, 800, (ANN,)),
    hub.HubAsk(VIEW_KEY),
    hub.HubStart(VIEW_KEY, CHAIN, 4, 811, 800),
    hub.HubOut(VIEW_KEY, "the group went on without this host"),
    hub.HubFetch(VIEW_KEY, 811),
]

from .amp_samples import AMP_FRAMES, AMP_PARTS  # noqa: E402

BY_TABLE: dict[str, list[Any]] = {
    "packet": PACKETS,
    "message": MESSAGES,
    "request": REQUESTS,
    "said": [*ANSWERS, *NOTICES],
    "program frame": [*TO_AGENT, *TO_PROGRAM],
    "item": ITEMS,
    "group item": GROUP_ITEMS,
    "datagram": [*DATA_MESSAGES, *AMP_FRAMES, *AMP_PARTS],
    "attributes": [
        *(member.attributes for member in MEMBERS if member.attributes is not None),
        ProofAttributes(b"signed"),
        DoubtAttributes(b"signed"),
        ProvenFifoAttributes(Role.SEND, 4, proof=b"signed"),
    ],
}
"""The same names as `rostra.wire.numbers.TABLES`."""
