"""Whatever neighbours send to a server of a set: it does no harm."""

from math import inf
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.setnet import CHESS, SET, SetNet, founding_view, join, server, servers

from rostra.core.effects import LinkUp, Received
from rostra.names import Domain
from rostra.protocols.agreed.changes import (
    CommitRecord,
    PartsMerged,
    Pid,
    Proposal,
    Round,
    ServerId,
    ServersFailed,
    SetPart,
    SetSplit,
    SetView,
    priority_of,
)
from rostra.protocols.agreed.groups import AgreedGroup, AgreedView, CarriedGroup
from rostra.protocols.agreed.messages import (
    Ack,
    AgreementStatus,
    Busy,
    Collecting,
    Commit,
    CoordinatorFailed,
    Declined,
    Initiate,
    Offer,
    PartedFromSet,
    SetEvidence,
    SetProbe,
    Stale,
    Yield,
)

IDS = st.sampled_from([*servers("abcx"), ServerId(Domain("b"), 2)])
ROUNDS = st.builds(Round, st.builds(Pid, IDS, st.integers(0, 1)), st.integers(0, 2), IDS)
SOME = st.lists(IDS, max_size=2, unique=True).map(tuple)
BASES = st.sampled_from([founding_view("abc").pid, Pid(server("b"), 0), Pid(server("c"), 1)])
VIEWS = st.builds(
    SetView,
    st.integers(0, 3),
    BASES,
    st.sampled_from(["abc", "x", "b", "xy", "cx", "xx"]).map(lambda names: founding_view(names).members),
)
PARTS = st.builds(SetPart, VIEWS, st.integers(0, 3), BASES) | st.just(
    SetPart(founding_view("abc"), 0, founding_view("abc").pid)
)
GROUPS = st.sampled_from([(), (CarriedGroup(CHESS, AgreedGroup((AgreedView(),))),) * 2])
PROPOSALS = st.builds(
    Proposal,
    st.builds(Pid, IDS, st.integers(0, 1)),
    st.integers(0, 3),
    BASES,
    st.one_of(
        st.just(join("ann")),
        st.builds(ServersFailed, SOME),
        st.builds(SetSplit, SOME, SOME, st.just(("n", "s")), st.just(Pid(server("a"), 7))),
        st.builds(PartsMerged, st.tuples(PARTS, PARTS)),
    ),
    st.just(priority_of(join("ann"), founding_view("abc"), Pid(server("c"), 0))),
)
RECORDS = st.builds(CommitRecord, PROPOSALS, ROUNDS, SOME)
HEAD = (st.just(SET), st.integers(1, 2), st.integers(0, 3), SOME)
MESSAGES = st.one_of(
    st.builds(
        Initiate,
        *HEAD,
        PROPOSALS,
        ROUNDS,
        st.none() | RECORDS,
        st.lists(ROUNDS, max_size=1).map(tuple),
        SOME,
        GROUPS,
    ),
    st.builds(Ack, *HEAD, ROUNDS, st.lists(ROUNDS, max_size=1).map(tuple)),
    st.builds(Busy, *HEAD, ROUNDS, PROPOSALS, ROUNDS),
    st.builds(Stale, *HEAD, ROUNDS, RECORDS),
    st.builds(Yield, *HEAD, ROUNDS),
    st.builds(Commit, *HEAD, RECORDS),
    st.builds(
        CoordinatorFailed,
        *HEAD,
        PROPOSALS,
        ROUNDS,
        st.sampled_from(AgreementStatus),
        SOME,
        st.none() | RECORDS,
    ),
    st.builds(Collecting, *HEAD, ROUNDS),
    st.builds(PartedFromSet, *HEAD),
    st.builds(SetProbe, *HEAD, PARTS),
    st.builds(Offer, *HEAD, PARTS, GROUPS),
    st.builds(Declined, *HEAD, st.none() | ROUNDS),
    st.builds(SetEvidence, *HEAD),
)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("bcx"), MESSAGES) | st.none(), max_size=12), st.booleans())
def test_no_message_of_the_right_shape_does_harm(script: list[Any], is_busy: bool) -> None:
    """Whatever neighbours send, the core does not fail, and stays in its own view."""
    net = SetNet("abc", retries=1, reform_s=inf)
    net.step("a", LinkUp(Domain("x"), 1))
    if is_busy:
        net.ask("a", join("ann"))
    for each in script:
        if each is None:
            net.wait("a")
        else:
            sender, message = each
            net.step("a", Received(Domain(sender), message))
        state = net.cores["a"].state
        assert state.me in state.view.servers and state.me not in state.isolated
        assert state.isolated <= set(state.electorate)
