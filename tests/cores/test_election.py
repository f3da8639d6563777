"""One replica of a replicated server, a step at a time."""

import json
from typing import Any

import pytest

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Effect,
    Event,
    Ignored,
    LinkDown,
    LinkUp,
    Noted,
    Persist,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from rostra.core.records import NO_KEY, KeyedRecord, Records, RecordSet
from rostra.errors import BadInput
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group, replica_path
from rostra.protocols.election import messages
from rostra.protocols.election.config import ElectionConfig
from rostra.protocols.election.core import STAND, Ballot, ElectionCore
from rostra.protocols.election.events import (
    Begun,
    Committed,
    Follow,
    FollowerLinked,
    Lead,
    Record,
    Resign,
    Share,
    StallDetected,
    StateReceived,
)
from rostra.protocols.election.invariants import voter_violations
from rostra.protocols.election.messages import (
    SHARED_BYTES_MAX,
    LeaderAnnounced,
    PreVoteGranted,
    PreVoteRefused,
    PreVoteRequest,
    RecordReplicated,
    ReplicateAll,
    ReplicateRecord,
    Shared,
    VoteGranted,
    VoteRefused,
    VoteRequest,
)
from rostra.protocols.election.state import Candidate, Following, Leading, PreCandidate
from rostra.protocols.relaxed.requests import Denied, Inspect, Inspected, Register

EU = Domain("eu")
A, B, C, D, E = (replica_path(EU, rank) for rank in range(1, 6))
FLOOR = 1000
PROGRAM = Endpoint("eu.h1/p#1")
CONFIG = ElectionConfig(stand_after_s=0.25, again_after_s=1.0, doubt_after_s=0.75)


class Bench:
    """A replica under test: what goes in, and what comes out. Its rules are checked after every step."""

    def __init__(
        self,
        me: Domain = A,
        voters: int = 3,
        *,
        ballot: Ballot | None = None,
        records: Records | None = None,
    ) -> None:
        self.records = records if records is not None else Records()
        self.core = ElectionCore(
            me,
            tuple(replica_path(EU, rank) for rank in range(1, voters + 1)),
            floor=FLOOR,
            ballot=ballot or Ballot(),
            records=self.records,
            scope=EU,
            config=CONFIG,
        )
        self.begun = self.step(Begun())

    def step(self, event: Event) -> list[Effect]:
        effects = self.core.step(0.0, event)
        assert voter_violations(self.core) == []
        return effects

    def up(self, *peers: Domain) -> list[Effect]:
        return [effect for peer in peers for effect in self.step(LinkUp(peer, 1))]

    def down(self, *peers: Domain) -> list[Effect]:
        because = Because(self.core.me, self.core.me, "silent")
        return [effect for peer in peers for effect in self.step(LinkDown(peer, because))]

    def hears(self, sender: Domain, message: Any) -> list[Effect]:
        return self.step(Received(sender, message))

    def fires(self) -> list[Effect]:
        return self.step(TimerFired(STAND))

    def leads(self, *voters: Domain) -> int:
        """Elected by these, who are all that it hears."""
        self.up(*voters)
        self.fires()
        for voter in voters:
            self.hears(voter, PreVoteGranted(self.core.highest + 1 if self.core.highest >= FLOOR else FLOOR))
        for voter in voters:
            self.hears(voter, VoteGranted(self.core.ballot.term))
        assert isinstance(self.core.state, Leading)
        return self.core.state.term

    def follows(self, leader: Domain, term: int) -> None:
        self.up(leader)
        self.hears(leader, LeaderAnnounced(term))
        assert self.core.state == Following(leader)


def records(*keys: str) -> Records:
    made = Records()
    for key in keys:
        made.put(key, b"data")
    return made


# Standing


@pytest.mark.spec("C-160")
def test_a_single_voter_leads_at_once() -> None:
    voter = Bench(voters=1)

    assert voter.begun == [Persist(Ballot(FLOOR, A)), Lead(FLOOR)]


@pytest.mark.spec("C-160")
def test_voters_stand_in_the_order_of_their_ranks_once_they_have_a_majority_to_talk_to() -> None:
    assert Bench(A).begun == []
    assert Bench(A).up(B) == [SetTimer(STAND, 0.25)]
    assert Bench(B).up(C) == [SetTimer(STAND, 0.5)]
    assert Bench(C).up(A) == [SetTimer(STAND, 0.75)]
    five = Bench(A, 5)
    assert [*five.up(B), *five.up(C), *five.up(D)] == [SetTimer(STAND, 0.25)], "with the second of the others"


@pytest.mark.spec("C-160", "C-161")
def test_an_election_asks_for_pre_votes_then_stores_its_own_vote_then_asks_for_votes_then_leads() -> None:
    voter = Bench(records=records("news"))
    voter.up(B, C)

    assert voter.fires() == [
        Send(B, PreVoteRequest(FLOOR, 1)),
        Send(C, PreVoteRequest(FLOOR, 1)),
        SetTimer(STAND, 1.0),
    ]
    assert voter.core.state == PreCandidate(FLOOR, frozenset({A}))
    assert voter.hears(B, PreVoteGranted(FLOOR)) == [
        Persist(Ballot(FLOOR, A)),
        Send(B, VoteRequest(FLOOR, 1)),
        Send(C, VoteRequest(FLOOR, 1)),
        SetTimer(STAND, 1.0),
    ]
    assert voter.core.state == Candidate(FLOOR, frozenset({A}))
    version = FLOOR << 10
    assert voter.hears(C, VoteGranted(FLOOR)) == [
        CancelTimer(STAND),
        Persist(KeyedRecord(NO_KEY, version)),
        Lead(FLOOR),
        Send(B, LeaderAnnounced(FLOOR)),
        Send(C, LeaderAnnounced(FLOOR)),
        Send(B, ReplicateAll(FLOOR, version, (KeyedRecord("news", 1, b"data"),))),
        Send(C, ReplicateAll(FLOOR, version, (KeyedRecord("news", 1, b"data"),))),
        FollowerLinked(B),
        FollowerLinked(C),
    ]
    assert voter.hears(B, VoteGranted(FLOOR)) == [Ignored("VoteGranted", "late answer")]


@pytest.mark.spec("C-161")
@pytest.mark.parametrize(
    ("ballot", "version", "term"),
    [
        (Ballot(), 0, FLOOR),
        (Ballot(FLOOR - 1), 0, FLOOR),
        (Ballot(5000, B), 0, 5001),
        (Ballot(), 7000 << 10, 7001),
    ],
    ids=["its floor", "its floor again", "after its ballot", "after the versions in use"],
)
def test_a_term_is_above_all_that_the_voter_knows_of(ballot: Ballot, version: int, term: int) -> None:
    voter = Bench(ballot=ballot, records=Records.of([RecordSet(version)]))
    voter.up(B)

    assert voter.fires()[0] == Send(B, PreVoteRequest(term, version, ballot != Ballot()))


@pytest.mark.spec("C-160")
def test_an_attempt_without_an_answer_is_repeated_later_by_later_ranks() -> None:
    for rank, (me, peer) in enumerate([(A, B), (B, A), (C, A)]):
        voter = Bench(me)
        voter.up(peer)
        assert voter.fires() == [Send(peer, PreVoteRequest(FLOOR, 0)), SetTimer(STAND, 1.0 + 0.25 * rank)]
        assert voter.fires() == [Send(peer, PreVoteRequest(FLOOR, 0)), SetTimer(STAND, 1.0 + 0.25 * rank)]


@pytest.mark.spec("C-161")
def test_votes_that_do_not_suffice_are_followed_by_pre_vote_requests_for_the_next_term() -> None:
    voter = Bench()
    voter.up(B, C)
    voter.fires()
    voter.hears(B, PreVoteGranted(FLOOR))
    assert voter.hears(B, VoteRefused(FLOOR)) == [Noted("vote refused", f"{B} knows of term {FLOOR}")]

    assert voter.fires()[0] == Send(B, PreVoteRequest(FLOOR + 1, 0))
    assert voter.hears(C, VoteGranted(FLOOR)) == [Ignored("VoteGranted", "late answer")]


@pytest.mark.spec("C-161")
def test_a_voter_that_is_told_of_a_later_term_asks_again_above_it() -> None:
    voter = Bench()
    voter.up(B)
    voter.fires()

    assert voter.hears(B, PreVoteRefused(4000, ""))[1:] == [
        Send(B, PreVoteRequest(4001, 0)),
        SetTimer(STAND, 1.0),
    ]
    assert voter.hears(B, PreVoteRefused(4000, "")) == [Noted("declined", f"{B}: nobody leads")]


def test_who_comes_during_an_attempt_is_asked_too_and_who_goes_supports_no_more() -> None:
    voter = Bench(A, 5)
    voter.up(B, C)
    voter.fires()
    voter.hears(B, PreVoteGranted(FLOOR))
    assert voter.up(D) == [Send(D, PreVoteRequest(FLOOR, 0))]
    voter.down(B)
    assert voter.core.state == PreCandidate(FLOOR, frozenset({A}))
    voter.hears(C, PreVoteGranted(FLOOR))
    assert Send(D, VoteRequest(FLOOR, 0)) in voter.hears(D, PreVoteGranted(FLOOR))
    assert voter.up(E) == [Send(E, VoteRequest(FLOOR, 0))]


@pytest.mark.spec("C-160")
def test_a_candidate_that_loses_its_majority_stops() -> None:
    voter = Bench()
    voter.up(B)
    voter.fires()
    assert voter.down(B) == [CancelTimer(STAND)]
    assert voter.core.state == Following(None)
    assert voter.fires() == [Ignored("TimerFired", "not expected by a replica")]


# Voting


@pytest.mark.spec("C-160")
def test_a_pre_vote_is_granted_and_is_not_binding() -> None:
    voter = Bench()
    voter.up(B, C)

    assert voter.hears(B, PreVoteRequest(2000, 0)) == [Send(B, PreVoteGranted(2000))]
    assert voter.hears(C, PreVoteRequest(2000, 0)) == [Send(C, PreVoteGranted(2000))]
    assert voter.core.ballot == Ballot()


@pytest.mark.spec("C-160", "C-161")
def test_a_pre_vote_is_refused_by_a_replica_that_knows_a_later_term_or_a_later_registry() -> None:
    voter = Bench(ballot=Ballot(2000, C), records=records("news", "chess"))
    voter.up(B)

    assert voter.hears(B, PreVoteRequest(2000, 2)) == [Send(B, PreVoteRefused(2000, ""))]
    assert voter.hears(B, PreVoteRequest(2001, 1)) == [Send(B, PreVoteRefused(2000, ""))]
    assert voter.hears(B, PreVoteRequest(2001, 2)) == [Send(B, PreVoteGranted(2001))]


@pytest.mark.spec("C-160")
def test_a_voter_that_hears_the_leader_declines_and_so_does_the_leader() -> None:
    voter = Bench()
    voter.follows(B, 2000)
    voter.up(C)
    assert voter.hears(C, PreVoteRequest(3000, 9)) == [Send(C, PreVoteRefused(2000, B))]
    assert voter.hears(C, VoteRequest(3000, 9)) == [Send(C, VoteRefused(3000))]

    leader = Bench()
    term = leader.leads(B)
    assert leader.hears(B, PreVoteRequest(3000, 9)) == [Send(B, PreVoteRefused(term, A))]
    assert leader.hears(B, VoteRequest(3000, 9)) == [Send(B, VoteRefused(3000))]
    assert leader.core.state == Leading(term)


@pytest.mark.spec("C-160")
def test_a_pre_vote_request_that_came_before_we_lost_the_leader_too_is_answered_when_we_do() -> None:
    voter = Bench(A, 5)
    voter.follows(B, 2000)
    voter.up(C, D, E)
    voter.hears(C, PreVoteRequest(2001, 0))
    voter.hears(D, PreVoteRequest(2000, 0))
    voter.hears(E, PreVoteRequest(2001, 0))
    voter.down(E)

    assert voter.down(B) == [SetTimer(STAND, 0.25), Send(C, PreVoteGranted(2001))]


@pytest.mark.spec("C-160")
def test_a_vote_is_on_disk_before_it_is_given_and_there_is_one_in_a_term() -> None:
    voter = Bench()
    voter.up(B, C)

    assert voter.hears(B, VoteRequest(2000, 0)) == [
        Persist(Ballot(2000, B)),
        SetTimer(STAND, 1.0),
        Send(B, VoteGranted(2000)),
    ]
    assert voter.hears(C, VoteRequest(2000, 0)) == [Send(C, VoteRefused(2000))]
    assert voter.hears(C, VoteRequest(1999, 0)) == [Send(C, VoteRefused(2000))]
    assert voter.hears(B, VoteRequest(2000, 0))[-1] == Send(B, VoteGranted(2000)), "the same one, once more"
    again = Bench(ballot=voter.core.ballot)
    again.up(C)
    assert again.hears(C, VoteRequest(2000, 0)) == [Send(C, VoteRefused(2000))], "a restart forgets no vote"
    assert again.hears(C, VoteRequest(2001, 0))[-1] == Send(C, VoteGranted(2001))


@pytest.mark.spec("C-160")
def test_nobody_votes_for_a_voter_whose_registry_is_older() -> None:
    voter = Bench(records=records("news", "chess"))
    voter.up(B)

    assert voter.hears(B, VoteRequest(2000, 1)) == [Send(B, VoteRefused(2000))]
    assert voter.core.ballot == Ballot()
    assert voter.hears(B, VoteRequest(2001, 2))[-1] == Send(B, VoteGranted(2001))


@pytest.mark.spec("C-161")
def test_a_candidate_votes_for_one_of_a_later_term_and_stands_no_more() -> None:
    voter = Bench()
    voter.up(B, C)
    voter.fires()
    voter.hears(B, PreVoteGranted(FLOOR))
    assert voter.hears(C, VoteRequest(FLOOR, 0)) == [Send(C, VoteRefused(FLOOR))], "its vote is its own"

    assert Send(C, VoteGranted(FLOOR + 1)) in voter.hears(C, VoteRequest(FLOOR + 1, 0))
    assert voter.core.state == Following(None)
    assert voter.hears(B, VoteGranted(FLOOR)) == [Ignored("VoteGranted", "late answer")]


# Leading and following


@pytest.mark.spec("C-161")
def test_whom_others_elected_is_followed_and_the_term_is_on_disk_first() -> None:
    voter = Bench()
    voter.up(B)

    assert voter.hears(B, LeaderAnnounced(2000)) == [
        Persist(Ballot(2000, "")),
        CancelTimer(STAND),
        Follow(B, 2000),
    ]
    assert voter.hears(B, LeaderAnnounced(2000)) == [Ignored("LeaderAnnounced", "known already")]


@pytest.mark.spec("C-161")
def test_whom_we_elected_is_followed_without_another_write() -> None:
    voter = Bench()
    voter.up(B)
    voter.hears(B, VoteRequest(2000, 0))

    assert voter.hears(B, LeaderAnnounced(2000)) == [CancelTimer(STAND), Follow(B, 2000)]


@pytest.mark.spec("C-161")
def test_a_leader_of_an_older_term_is_ignored_and_told_so() -> None:
    voter = Bench()
    voter.follows(B, 2000)
    voter.up(C)

    assert voter.hears(C, LeaderAnnounced(1999)) == [
        Ignored("LeaderAnnounced", "older term"),
        Send(C, VoteRefused(2000)),
    ]
    assert voter.hears(C, ReplicateRecord(1999, KeyedRecord("news", 7))) == [
        Ignored("ReplicateRecord", "not from our leader")
    ]
    assert voter.hears(C, Shared(b"old")) == [Ignored("Shared", "not from our leader")]
    assert voter.core.state == Following(B)


@pytest.mark.spec("C-161")
def test_a_voter_that_voted_in_a_later_term_does_not_go_back_to_an_older_one() -> None:
    voter = Bench()
    voter.up(B, C)
    voter.hears(C, VoteRequest(3000, 0))

    assert voter.hears(B, LeaderAnnounced(2000)) == [
        Ignored("LeaderAnnounced", "older term"),
        Send(B, VoteRefused(3000)),
    ]
    assert voter.core.state == Following(None)


@pytest.mark.spec("C-161")
def test_a_leader_that_hears_of_a_later_term_resigns_at_once() -> None:
    voter = Bench()
    term = voter.leads(B, C)

    assert voter.hears(B, LeaderAnnounced(term + 5)) == [
        Resign(term, "a later term"),
        Send(C, PreVoteRefused(term, "")),
        SetTimer(STAND, 1.0),
        Persist(Ballot(term + 5, "")),
        CancelTimer(STAND),
        Follow(B, term + 5),
    ]
    refused = Bench()
    term = refused.leads(B)
    assert refused.hears(B, VoteRefused(term)) == [Ignored("VoteRefused", "late answer")]
    assert refused.hears(B, VoteRefused(term + 5))[0] == Resign(term, "a later term")
    assert refused.fires()[0] == Send(B, PreVoteRequest(term + 6, 0, True))


@pytest.mark.spec("C-160")
def test_a_leader_with_fewer_than_a_majority_linked_resigns() -> None:
    voter = Bench(A, 5)
    term = voter.leads(B, C, D)

    assert voter.down(B) == []
    assert voter.down(C) == [Resign(term, "fewer than a majority linked"), Send(D, PreVoteRefused(term, ""))]
    assert voter.core.state == Following(None)


@pytest.mark.spec("C-161")
def test_a_leader_that_stood_still_resigns_before_it_says_anything() -> None:
    voter = Bench()
    term = voter.leads(B)

    assert voter.step(StallDetected(0.75)) == [Ignored("StallDetected", "too short to matter")]
    assert voter.step(StallDetected(0.8)) == [
        Resign(term, "stood still"),
        Send(B, PreVoteRefused(term, "")),
        SetTimer(STAND, 1.0),
    ]
    assert voter.step(StallDetected(0.8)) == [Ignored("StallDetected", "does not lead")]
    assert voter.step(Share(b"late")) == [Ignored("Share", "no leader")]
    assert voter.hears(B, LeaderAnnounced(term + 1))[-1] == Follow(B, term + 1)


def test_a_single_voter_that_stood_still_goes_on() -> None:
    assert Bench(voters=1).step(StallDetected(60.0)) == [Ignored("StallDetected", "nobody else can lead")]


@pytest.mark.spec("C-160")
def test_a_follower_whose_leader_is_gone_stands_in_its_turn() -> None:
    voter = Bench(B)
    voter.follows(A, 2000)
    voter.up(C)

    assert voter.down(A) == [SetTimer(STAND, 0.5)]
    assert voter.fires()[0] == Send(C, PreVoteRequest(2001, 0))


@pytest.mark.spec("X-101")
def test_a_voter_that_was_restarted_and_follows_nobody_lets_the_others_go_first() -> None:
    """They know what the dead leader knew. The first of all is the last to stand, until it has followed."""
    voter = Bench(A, ballot=Ballot(2000, A))
    assert voter.up(B) == [SetTimer(STAND, 1.0)]

    voter.follows(C, 2001)

    assert voter.down(C) == [SetTimer(STAND, 0.25)]


@pytest.mark.spec("C-160")
@pytest.mark.parametrize(
    "said",
    [PreVoteRefused(2000, ""), PreVoteRefused(2500, C), PreVoteRequest(2001, 0), VoteRequest(2001, 0)],
    ids=str,
)
def test_a_leader_that_says_so_or_wants_to_be_elected_leads_no_more(said: object) -> None:
    voter = Bench()
    voter.follows(B, 2000)

    assert voter.hears(B, said)[0] == SetTimer(STAND, 0.25)
    assert voter.core.state == Following(None)


def test_a_leader_that_refuses_a_pre_vote_still_leads() -> None:
    voter = Bench()
    voter.follows(B, 2000)

    assert voter.hears(B, PreVoteRefused(2000, B)) == [Ignored("PreVoteRefused", "late answer")]
    assert voter.core.state == Following(B)


@pytest.mark.spec("C-160")
def test_a_voter_that_comes_back_is_told_who_leads_and_what_was_recorded() -> None:
    voter = Bench(records=records("news"))
    term = voter.leads(B)

    assert voter.up(C) == [
        Send(C, LeaderAnnounced(term)),
        Send(C, ReplicateAll(term, term << 10, (KeyedRecord("news", 1, b"data"),))),
        FollowerLinked(C),
    ]


# What leader and backups tell each other


def test_the_leader_shares_with_all_or_with_one_and_a_backup_with_the_leader() -> None:
    leader = Bench()
    leader.leads(B, C)
    assert leader.step(Share(b"x")) == [Send(B, Shared(b"x")), Send(C, Shared(b"x"))]
    assert leader.step(Share(b"x", to=C)) == [Send(C, Shared(b"x"))]
    leader.down(C)
    assert leader.step(Share(b"x", to=C)) == [Ignored("Share", "that replica is down")]
    assert leader.hears(B, Shared(b"y")) == [StateReceived(B, b"y")]

    backup = Bench()
    assert backup.step(Share(b"x")) == [Ignored("Share", "no leader")]
    backup.follows(B, 2000)
    backup.up(C)
    assert backup.step(Share(b"x")) == [Send(B, Shared(b"x"))]
    assert backup.hears(B, Shared(b"y")) == [StateReceived(B, b"y")]
    assert backup.hears(C, Shared(b"y")) == [Ignored("Shared", "not from our leader")]


def test_sharing_more_than_fits_is_our_own_bug() -> None:
    with pytest.raises(AssertionError):
        Bench(voters=1).step(Share(bytes(SHARED_BYTES_MAX + 1)))


@pytest.mark.spec("C-160")
def test_a_change_of_a_record_is_committed_when_a_majority_has_it_on_disk() -> None:
    voter = Bench(A, 5)
    term = voter.leads(B, C, D)
    first = voter.records.put("news", b"data")
    assert first.version == term << 10

    everything = ReplicateAll(term, first.version, (first,))
    assert voter.step(Record(first)) == [Persist(first), *[Send(peer, everything) for peer in (B, C, D)]]
    assert voter.hears(B, RecordReplicated(term, first.version)) == []
    assert voter.hears(B, RecordReplicated(term, first.version)) == [], "twice is one"
    assert voter.hears(C, RecordReplicated(term - 1, first.version)) == [
        Ignored("RecordReplicated", "late answer")
    ]
    second = voter.records.put("news", None)
    change = ReplicateRecord(term, KeyedRecord("news", first.version + 1))
    assert voter.step(Record(second)) == [Persist(second), *[Send(peer, change) for peer in (B, C, D)]]
    assert voter.hears(C, RecordReplicated(term, second.version)) == [Committed(first.version)]
    assert voter.hears(D, RecordReplicated(term, first.version)) == []
    assert voter.hears(D, RecordReplicated(term, second.version)) == [Committed(second.version)]
    assert voter.step(Record(first)) == [Ignored("Record", "older record")]


@pytest.mark.spec("C-160")
def test_with_one_voter_a_change_is_committed_at_once() -> None:
    voter = Bench(voters=1, records=records("news"))
    version = FLOOR << 10
    assert voter.begun[-2:] == [Lead(FLOOR), Committed(version)]

    chess = voter.records.put("chess", b"")
    assert voter.step(Record(chess)) == [Persist(chess), Committed(version + 1)]


def test_who_does_not_lead_has_no_changes_to_tell() -> None:
    assert Bench().step(Record(KeyedRecord("news", 1))) == [Ignored("Record", "does not lead")]


@pytest.mark.spec("C-160")
def test_a_backup_keeps_exactly_what_its_leader_has_and_says_so_when_it_is_on_disk() -> None:
    voter = Bench(records=Records.of([RecordSet(9000 << 10, (KeyedRecord("chess", 9000 << 10, b"x"),))]))
    voter.follows(B, 2000)
    version = 2000 << 10
    news, golf = KeyedRecord("news", 5, b"data"), KeyedRecord("golf", version + 1, b"more")

    assert voter.hears(B, ReplicateRecord(2000, golf)) == [Ignored("ReplicateRecord", "out of order")]
    everything = ReplicateAll(2000, version, (news,))
    replicated = Send(B, RecordReplicated(2000, version))
    assert voter.hears(B, everything) == [Persist(RecordSet(version, (news,))), replicated]
    assert voter.records.all() == RecordSet(version, (news,)), "and chess is gone"
    assert voter.hears(B, ReplicateAll(1999, 1, ())) == [Ignored("ReplicateAll", "another term")]
    assert voter.hears(B, ReplicateRecord(1999, golf)) == [Ignored("ReplicateRecord", "another term")]

    replicated = Send(B, RecordReplicated(2000, version + 1))
    assert voter.hears(B, ReplicateRecord(2000, golf)) == [Persist(golf), replicated]
    assert voter.hears(B, ReplicateRecord(2000, golf)) == [Ignored("ReplicateRecord", "out of order")]
    gone = KeyedRecord("news", version + 2)
    voter.hears(B, ReplicateRecord(2000, gone))
    assert voter.records.all() == RecordSet(version + 2, (golf,))
    skipped = ReplicateRecord(2000, KeyedRecord("golf", version + 4))
    assert voter.hears(B, skipped) == [Ignored("ReplicateRecord", "out of order")]


@pytest.mark.spec("C-160")
def test_all_records_come_in_parts_and_count_with_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "PART_BYTES", 200)
    leader = Bench(records=records(*[f"key-{number}" for number in range(7)]))
    term = leader.leads(B, C)
    kept = leader.records.all()
    parts = list(messages.in_parts(term, kept))
    assert [len(part.records) for part in parts] == [2, 2, 2, 1]
    assert [(part.is_first, part.is_last) for part in parts] == [
        (True, False),
        (False, False),
        (False, False),
        (False, True),
    ]

    follower = Bench(B, records=records("old"))
    follower.follows(A, term)
    assert follower.hears(A, parts[1]) == [Ignored("ReplicateAll", "out of order")]
    for part in (parts[0], parts[1], *parts[:3]):  # a leader that begins anew begins with the first
        assert follower.hears(A, part) == []
    assert [record.key for record in follower.records.all().records] == ["old"]
    assert follower.hears(A, parts[3]) == [Persist(kept), Send(A, RecordReplicated(term, kept.version))]
    assert follower.records.all() == kept

    follower.hears(A, parts[0])
    follower.down(A)
    follower.follows(A, term + 1)
    assert follower.hears(A, messages.ReplicateAll(term + 1, 1, (), False, True)) == [
        Ignored("ReplicateAll", "out of order")
    ], "parts of one leader are not completed by another"


def test_more_than_fits_into_memory_is_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rostra.protocols.election.core.RECORDS_BYTES_MAX", 200)
    voter = Bench()
    voter.follows(B, 2000)
    part = ReplicateAll(2000, 2000 << 10, (KeyedRecord("news", 5, bytes(80)),), True, False)
    assert voter.hears(B, part) == []
    more = ReplicateAll(2000, 2000 << 10, (KeyedRecord("golf", 5, bytes(80)),), False, False)
    assert voter.hears(B, more) == [Ignored("ReplicateAll", "too large")]


@pytest.mark.spec("C-161")
def test_what_was_promised_to_few_is_below_all_that_the_next_leader_says() -> None:
    old = Bench(A)
    old.leads(B)
    promised = old.records.put("news", b"")

    new = Bench(B, records=records("chess"), ballot=old.core.ballot)
    term = new.leads(C)

    assert new.core.version == term << 10 > promised.version


# The rest


def test_a_voter_tells_people_what_it_knows() -> None:
    voter = Bench(records=records("news"))
    voter.follows(B, 2000)

    (answer,) = voter.step(Asked(PROGRAM, 7, Inspect()))
    assert isinstance(answer, Answer) and answer.token == 7
    assert isinstance(answer.result, Inspected)
    assert json.loads(answer.result.document) == {
        "server": "seat",
        "path": A,
        "domain": "eu",
        "leads": False,
        "leader": B,
        "term": 2000,
        "seats": {A: "up", B: "up", C: "down"},
        "records": {"version": 1, "keys": ["news"]},
    }


def test_who_asks_a_backup_is_told_who_leads() -> None:
    def refusal(voter: Bench) -> Denied:
        (answer,) = voter.step(Asked(PROGRAM, 7, Register(Group("news", EU))))
        assert isinstance(answer, Answer) and isinstance(answer.result, Denied)
        return answer.result

    voter = Bench()
    assert refusal(voter).what == "this replica of eu does not lead; nobody that it hears does"
    voter.follows(B, 2000)
    assert refusal(voter).code == "NOT_ALLOWED"
    assert refusal(voter).what == f"this replica of eu does not lead; {B} does"
    assert refusal(voter).fix == f"ask {B}"
    assert "not its server" in refusal(Bench(voters=1)).what


def test_strangers_and_strange_words_are_ignored() -> None:
    voter = Bench()

    assert voter.up(D, A) == [Ignored("LinkUp", "not a replica")] * 2
    assert voter.down(B) == [Ignored("LinkDown", "already down")]
    assert voter.hears(B, LeaderAnnounced(2000)) == [Ignored("LeaderAnnounced", "sender is not connected")]
    voter.up(B)
    assert voter.up(B) == [Ignored("LinkUp", "already up")]
    assert voter.hears(B, "hello") == [Ignored("str", "not a message for a replica")]
    assert voter.hears(B, PreVoteGranted(5)) == [Ignored("PreVoteGranted", "late answer")]
    assert voter.step(TimerFired(("other",))) == [Ignored("TimerFired", "not expected by a replica")]


@pytest.mark.parametrize(
    "wrong", [{"stand_after_s": 0.0}, {"again_after_s": 0.1}, {"doubt_after_s": 0.0}], ids=str
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="election settings"):
        ElectionConfig(**wrong)
    assert ElectionConfig.lan() == ElectionConfig() != ElectionConfig.wan()
