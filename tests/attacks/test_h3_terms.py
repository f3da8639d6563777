"""H3: a stranger in the place of a replica names the highest term there is. If that was believed, or written
down, no leader could ever be elected again."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lab import FORGIVING, Lab, until
from support.strangers import stranger

from rostra.core.effects import LinkUp, Persist, Received, TimerFired
from rostra.core.records import KeyedRecord, RecordSet
from rostra.errors import StoreFailed
from rostra.names import Domain, replica_path
from rostra.protocols.election.core import CHANGES_PER_TERM, STAND, Ballot, ElectionCore
from rostra.protocols.election.events import Begun, Clock, Follow, Lead, TermRefused
from rostra.protocols.election.messages import (
    ElectionMessage,
    LeaderAnnounced,
    PreVoteGranted,
    PreVoteRefused,
    PreVoteRequest,
    RecordReplicated,
    ReplicateAll,
    ReplicateRecord,
    VoteGranted,
    VoteRefused,
    VoteRequest,
)
from rostra.protocols.links.core import SESSIONS_PER_LIFE
from rostra.protocols.links.packets import Beat, Data
from rostra.protocols.relaxed.registry import RegistryRecord
from rostra.runtime.store import Disk

EU = Domain("eu")
A, B, C = VOTERS = tuple(replica_path(EU, rank) for rank in (1, 2, 3))
HIGHEST = 2**63 - 1
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000

LIES = [
    LeaderAnnounced(HIGHEST),
    PreVoteRequest(HIGHEST, 0),
    VoteRequest(HIGHEST, 0),
    VoteRefused(HIGHEST),
    PreVoteRefused(HIGHEST, ""),
    PreVoteRefused(HIGHEST, C),
    VoteGranted(HIGHEST),
    PreVoteGranted(HIGHEST),
    PreVoteRequest(NOW_MS, HIGHEST),
    VoteRequest(NOW_MS + 1, HIGHEST),
    ReplicateRecord(NOW_MS, KeyedRecord("liar", HIGHEST)),
    ReplicateAll(NOW_MS, HIGHEST, ()),
    RecordReplicated(HIGHEST, HIGHEST),
    LeaderAnnounced(NOW_MS + 2 * DAY_MS),
]


class ModelVoter:
    """A replica over a real disk."""

    def __init__(self, directory: Path) -> None:
        self.disk = Disk(directory, A)
        self.core = ElectionCore(
            A, VOTERS, floor=NOW_MS, ballot=self.disk.ballot(), records=self.disk.registry().own, scope=EU
        )
        self.effects: list[object] = []
        self.step(Clock(NOW_MS), Begun(), LinkUp(B, 1), LinkUp(C, 1))

    def step(self, *events: object) -> list[object]:
        new: list[object] = []
        for event in events:
            new += self.core.step(0.0, event)  # type: ignore[arg-type]
        for effect in new:
            match effect:
                case Persist(Ballot() as ballot):
                    self.disk.persist_ballot(ballot)
                case Persist(KeyedRecord() | RecordSet() as record):
                    self.disk.persist(record)
        self.effects += new
        return new

    def hears(self, message: ElectionMessage, sender: Domain = B) -> list[object]:
        return self.step(Received(sender, message))

    def is_elected(self) -> bool:
        """With the support and the vote of C, who knows nothing of any lie."""
        self.step(TimerFired(STAND))
        term = self.core.highest + 1
        self.hears(PreVoteGranted(getattr(self.core.state, "term", term)), C)
        self.hears(VoteGranted(getattr(self.core.state, "term", term)), C)
        return any(isinstance(effect, Lead) for effect in self.effects)


@pytest.mark.parametrize("lie", LIES, ids=repr)
def test_a_term_from_the_future_is_neither_believed_nor_stored(lie: ElectionMessage, tmp_path: Path) -> None:
    voter = ModelVoter(tmp_path)
    refused = [effect for effect in voter.hears(lie) if isinstance(effect, TermRefused)]
    assert refused and refused[0].ahead_ms > DAY_MS
    assert not any(isinstance(effect, Follow | Persist) for effect in voter.effects)
    assert voter.is_elected()
    voter.disk.close()
    again = Disk(tmp_path, A)
    assert NOW_MS <= again.ballot().term <= NOW_MS + DAY_MS
    again.close()


def test_a_leader_does_not_resign_because_of_one(tmp_path: Path) -> None:
    voter = ModelVoter(tmp_path)
    assert voter.is_elected()
    for lie in LIES:
        voter.hears(lie)
    assert voter.core.leader == A
    assert voter.core.committed <= voter.core.version
    voter.disk.close()


def test_terms_of_tomorrow_are_true_for_clocks_that_differ_by_hours(tmp_path: Path) -> None:
    voter = ModelVoter(tmp_path)
    voter.hears(LeaderAnnounced(NOW_MS + DAY_MS - 1))
    assert Follow(B, NOW_MS + DAY_MS - 1) in voter.effects
    voter.step(Clock(NOW_MS + 5_000))
    voter.hears(LeaderAnnounced(NOW_MS + DAY_MS + 4_000), C)
    assert Follow(C, NOW_MS + DAY_MS + 4_000) in voter.effects
    voter.disk.close()


def test_a_domain_whose_clocks_were_ahead_and_are_right_now_goes_on(tmp_path: Path) -> None:
    ahead = NOW_MS + 30 * DAY_MS
    disk = Disk(tmp_path, A)
    disk.persist_ballot(Ballot(ahead, B))
    disk.close()
    voter = ModelVoter(tmp_path)
    voter.hears(LeaderAnnounced(ahead + 1))
    assert Follow(B, ahead + 1) in voter.effects
    assert any(
        isinstance(each, TermRefused)
        for each in voter.hears(LeaderAnnounced(ahead + 2 * CHANGES_PER_TERM), C)
    )
    voter.disk.close()


@pytest.mark.parametrize("number", [2**63, 2**80])
def test_the_disk_refuses_what_it_cannot_hold_as_any_other_failure(number: int, tmp_path: Path) -> None:
    disk = Disk(tmp_path, A)
    with pytest.raises(StoreFailed):
        disk.persist_ballot(Ballot(number, B))
    with pytest.raises(StoreFailed):
        disk.persist(RegistryRecord(EU, number, ()))
    with pytest.raises(StoreFailed):
        disk.persist(KeyedRecord("key", number, b""))
    disk.persist_ballot(Ballot(7, B))
    disk.close()
    again = Disk(tmp_path, A)
    assert again.ballot() == Ballot(7, B)
    again.close()


# Real replicas


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[Lab]:
    with Lab(
        tmp_path, servers=("eu",), hosts=("eu.h1",), replicas={"eu": 3}, namespaces=False, more=FORGIVING
    ) as lab:
        yield lab


@pytest.mark.live
async def test_a_stranger_in_a_replicas_place_does_not_end_elections(replicated: Lab) -> None:
    lab = replicated
    leader = await lab.leader("eu")
    victim, absent = [voter for voter in lab.voters[EU] if lab[voter] is not leader]
    lab[absent].kill()
    await until(lambda: voter_is_down(lab, victim, absent), "the victim has given up the absent one")
    mine = (time.time_ns() // 1_000_000) * SESSIONS_PER_LIFE + 1
    async with stranger(lab, victim) as liar:
        theirs = await liar.link(absent, victim, mine // SESSIONS_PER_LIFE, mine)
        for number, lie in enumerate(
            (LeaderAnnounced(HIGHEST), PreVoteRequest(HIGHEST, 0), LeaderAnnounced(HIGHEST)), 1
        ):
            liar.say(Data(mine, theirs, number, 0, (lie,)))
        liar.say(Beat(mine, theirs, 0))
        await until(lambda: lab.counted(victim, "term_refused"), "it is refused, with a word about clocks")
    lab[absent].start()
    leader.kill()  # somebody else must be elected now
    other = await lab.leader("eu")
    assert other is not leader
    leader.start()
    await lab.calm()
    term = (await lab.inspect(other.nodes[0]))["core"]["term"]
    assert term < time.time_ns() // 1_000_000 + DAY_MS


async def voter_is_down(lab: Lab, voter: Domain, peer: Domain) -> bool:
    return (await lab.inspect(voter))["core"]["seats"][peer] == "down"
