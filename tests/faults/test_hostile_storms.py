"""A node that lies to its neighbours harms nobody outside its subtree, nor does a program that throws
anything at its agent harm another program; and the checker can tell.

`rostra sim storm --shape hostile --seeds 500 --first 1000 --jobs 2` runs as many as you like.
"""

from collections import Counter
from collections.abc import Callable

import pytest

from rostra.groups.members import Cause, Member
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.fifo import events as fifo
from rostra.protocols.relaxed import domain, neighbours, routing
from rostra.protocols.relaxed.requests import Absolute, Joined, Left
from rostra.sim.harm import harm_stays_below
from rostra.sim.history import DeliveryRecord, Detected, History, NoticeRecord, Settled, WorldMade
from rostra.sim.history import FollowingChanged as Following
from rostra.sim.history import MembershipChanged as Membership
from rostra.sim.history import ServerChanged as Server
from rostra.sim.hostile_storm import protocol_of
from rostra.sim.lies import KINDS, Lies
from rostra.sim.storm import StormFailed, replay_command, storm

EVERY_SEED_THAT_EVER_FAILED = [
    201,  # a program that entered a group without an endpoint was never answered, and held a share for ever
    7,  # a question under the id of another's was taken for it, and that one never answered
    34,  # ... and servers waited for ever for what nobody would answer
    50130,  # below the liar a program was refused: which is allowed, and the storm did not expect
    160441,  # newcomers elsewhere could not read a stamp of the liar above 2^62, and never got in
    140211,  # the liar made its LAN's delegate join a plain group, and an answer listed that delegate
    360293,  # the last message was lost behind the liar, which died; heartbeats alone did not show that
    430005,  # a frame of hundreds of requests was looked at in one turn
    60088,  # a message from below the liar was lost, and a receiver elsewhere was put out of the whole group
]


@pytest.mark.spec("C-125")
@pytest.mark.parametrize("seed", [*EVERY_SEED_THAT_EVER_FAILED, 200, 202])
def test_others_do_not_notice(seed: int) -> None:
    outcome = storm(seed, "hostile")
    assert [verdict.answer for verdict in outcome.verdicts] == ["yes"]


Plant = Callable[[pytest.MonkeyPatch], None]

ABOUT_RELAXED = [seed for seed in range(400) if protocol_of(seed) == "relaxed"]
"""Of ten of these, one to four find a planted door of that protocol; of ten others hardly one."""


def believes_anybody_about_lives_and_losses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(routing.Router, "_are_behind", lambda self, sender, endpoints: True)


def believes_anybody_about_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(neighbours.Neighbours, "credible", lambda self, peer, relation, group, members: members)


def believes_anybody_about_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(neighbours.Neighbours, "may_speak_of", lambda self, peer, relation, part: True)


def takes_questions_under_any_id(patch: pytest.MonkeyPatch) -> None:
    asked = domain.DomainServer._resolve_asked

    def any_id(self, sender, relation, message):
        patch.setattr(neighbours.Neighbours, "hop_towards", lambda table, server: sender)
        asked(self, sender, relation, message)
        patch.setattr(neighbours.Neighbours, "hop_towards", towards)

    towards = neighbours.Neighbours.hop_towards
    patch.setattr(domain.DomainServer, "_resolve_asked", any_id)


@pytest.mark.parametrize(
    "plant",
    [
        believes_anybody_about_lives_and_losses,
        believes_anybody_about_members,
        believes_anybody_about_failures,
        takes_questions_under_any_id,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_door_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(StormFailed) as failed:
        for seed in (481, 437, 258, *ABOUT_RELAXED):
            storm(seed, "hostile")
    seed = int(failed.value.what.split()[1])
    assert failed.value.fix.endswith(replay_command(seed, "hostile"))


def test_lies_are_of_every_kind_and_most_of_them_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: Counter[str] = Counter()
    made = Lies.message

    def message(self: Lies) -> object:
        lie = made(self)
        kinds[type(lie).__name__] += 1
        return lie

    monkeypatch.setattr(Lies, "message", message)
    about_all = [seed for seed in range(300, 400) if protocol_of(seed) is None]
    for seed in about_all[:6]:
        storm(seed, "hostile")
    assert {
        *("EndpointsJoined", "EndpointLeft", "DomainFailed", "ResolveRequest", "ResolveReply"),
        *("InterestChanged", "SyncDone", "Routed", "Undeliverable", "LifeAsked", "LifeTold"),
        *("RegistryTold", "Inquiry", "InquiryReply", "LeaderAnnounced", "VoteRequest"),
    } <= kinds.keys()
    assert kinds["NoneType"] < kinds.total() / 2


def test_every_protocol_has_liars_of_its_own() -> None:
    about = Counter(protocol_of(seed) for seed in range(1_000))
    assert about.keys() == {None, *KINDS}
    assert all(count > 50 for count in about.values())


# The checker

HOSTS = tuple(map(Domain, ("eu.h1", "eu.h2", "us.h1", "us.h2")))
ANN, BOB, EVE = Endpoint("eu.h1/ann#1"), Endpoint("eu.h2/bob#1"), Endpoint("us.h1/eve#1")
US, CHESS = Domain("us"), Group("chess", Domain("world"))


def history(*records: Callable[[float, int], object]) -> History:
    """Everything runs, ann and bob are in the group, ann follows it; then this."""
    servers = ("world", "eu", "us", *HOSTS)
    first = [
        lambda at, number: WorldMade(at, number, HOSTS),
        *(lambda at, number, path=path: Server(at, number, Domain(path), "started") for path in servers),
        *(lambda at, number, who=who: Membership(at, number, who, CHESS, "joined") for who in (ANN, BOB)),
        lambda at, number: Following(at, number, ANN, CHESS, True),
        told(Absolute(CHESS, (Member(ANN, (1, 1)), Member(BOB, (1, 1))))),
    ]
    return [make(float(number), number) for number, make in enumerate([*first, *records])]  # type: ignore[misc,operator]


def told(notice: object) -> Callable[[float, int], object]:
    return lambda at, number: NoticeRecord(at, number, ANN, notice)  # type: ignore[arg-type]


settled = Settled


@pytest.mark.parametrize(
    ("records", "answer"),
    [
        ((), "yes"),
        ((told(Joined(CHESS, (Member(EVE, (1, 1)),), Cause.JOIN)),), "yes"),  # of its own subtree it may lie
        ((told(Left(CHESS, EVE, (1, 2), Cause.LEAVE)),), "yes"),
        ((told(Left(CHESS, BOB, (1, 2), Cause.LEAVE)),), "no"),
        ((told(Joined(CHESS, (Member(Endpoint("eu.h2/ghost#1"), (1, 1)),), Cause.JOIN)),), "no"),
        ((lambda at, number: Detected(at, number, Domain("eu"), US, "down"),), "yes"),
        ((lambda at, number: Detected(at, number, Domain("eu"), HOSTS[0], "down"),), "no"),
        ((lambda at, number: DeliveryRecord(at, number, ANN, CHESS, fifo.Gap(BOB, 1, 2)),), "no"),
    ],
)
def test_harm_is_what_others_are_told_of_others(records: tuple[object, ...], answer: str) -> None:
    verdict = harm_stays_below(history(*records, settled), US)  # type: ignore[arg-type]
    assert verdict.answer == answer, verdict
