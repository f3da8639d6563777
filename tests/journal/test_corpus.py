"""The corpus replays byte for byte. If it does not, and the change of behaviour is meant: ``make corpus``."""

from collections import Counter
from functools import cache

import pytest
from journal.corpus import CORPUS, MAKERS

from rostra.observe.recording import Arrived, Began, Gave, Inner, Packets, Spoken, Started, WasAsked, decoded
from rostra.protocols.links.packets import Data
from rostra.sim.replay import Recording, recordings, replay

RECORDINGS = [
    pytest.param(each, id=f"{name}-{each.path}-{each.epoch}")
    for name in MAKERS
    for each in recordings(CORPUS / name)
]


@pytest.mark.parametrize("recording", RECORDINGS)
def test_every_recording_of_the_corpus_replays_byte_for_byte(recording: Recording) -> None:
    replayed = replay(recording)
    assert replayed.difference is None, "if this change is meant:  make corpus"
    assert "failed" not in replayed.ended and replayed.inputs > 50


@cache
def seen(name: str) -> Counter[str]:
    """How often each kind of input, message and effect stands in one part of the corpus."""
    found: Counter[str] = Counter()
    for recording in recordings(CORPUS / name):
        packets = Packets(recording.began().plan.world)
        for word in recording.words():
            match word:
                case Began(voter=voter):
                    found["replica" if voter else "agent" if word.plan.is_agent else "server"] += 1
                case WasAsked(request=request):
                    found[type(request).__name__] += 1
                case Spoken(kind):
                    found[kind] += 1
                case Arrived(frame=frame) if isinstance(packet := packets.read(frame), Data):
                    found.update(type(message).__name__ for message in packet.messages)
                case Gave(effects=effects) if effects:
                    found.update(effect for effect, _ in decoded(effects))
                case Inner() | Started():
                    found[type(word).__name__] += 1
    return found


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        (
            "relaxed",
            "agent server Join Leave Watch Unwatch Resolve Register Unregister LinkUp LinkDown Tell"
            " Answer Persist Secure Suspected",
        ),
        ("fifo", "agent server JoinAsked LeaveAsked Submitted Heard Paused Resumed Deliver Cast LinkDown"),
        (
            "agreed",
            "agent server AgreedJoinAsked AgreedLeaveAsked AgreedListed AgreedUnlisted ViewAgreed SetIsolated"
            " Deliver MemberAsked HostHolds ViewTold ViewTaken Initiate Commit Offer Claim Ignored",
        ),
        (
            "replicas",
            "agent server replica Begun Inner Lead Resign Follow StateReceived Committed LinkMoved Awaited"
            " Deliver PreVoteRequest VoteRequest VoteGranted LeaderAnnounced ReplicateAll"
            " ReplicateRecord RecordReplicated Secure Shared",
        ),
        (
            "real",
            "agent server replica Join Resolve Register JoinAsked Submitted Heard Deliver Lead Follow Inner"
            " LinkDown LinkMoved Clock",
        ),
    ],
)
def test_the_corpus_shows_what_it_is_there_for(name: str, kinds: str) -> None:
    missing = [kind for kind in kinds.split() if not seen(name)[kind]]
    assert missing == []


def test_every_timer_begins_with_the_protocol_of_its_service() -> None:
    found = {
        effect["timer"][0]
        for name in MAKERS
        for recording in recordings(CORPUS / name)
        for word in recording.words()
        if isinstance(word, Gave) and word.effects
        for kind, effect in decoded(word.effects)
        if kind == "SetTimer"
    }
    assert found == {"tick", "grace", "relaxed", "fifo", "election", "agreed", "claims"}, (
        "the first two are the node's own"
    )


def test_servers_of_replicas_began_to_lead_in_it() -> None:
    for name in ("replicas", "real"):
        assert seen(name)["Lead"] >= 2
        assert seen(name)["Started"] > len(recordings(CORPUS / name))
