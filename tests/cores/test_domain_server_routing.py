"""Messages of the layers above along the unique path, and permanent groups (C-019, C-152..C-157, C-012)."""

from itertools import pairwise

import msgspec
import pytest
from support.bench import ALL, OWN, Bench, an_id, group
from support.queuenet import path_between
from support.tref import T_REF, UNEVEN

from rostra.core.effects import (
    Answer,
    Asked,
    EndpointGone,
    FellBehind,
    Ignored,
    Persist,
    Secure,
    Send,
    TimerFired,
)
from rostra.core.records import KeyedRecord
from rostra.names import ROOT, Domain, Endpoint
from rostra.protocols.relaxed.messages import (
    InquiryReply,
    LifeAsked,
    LifeTold,
    RegistryTold,
    Routed,
    SyncDone,
    Undeliverable,
)
from rostra.protocols.relaxed.neighbours import Neighbours
from rostra.protocols.relaxed.registry import Registry, RegistryRecord, encode_names
from rostra.protocols.relaxed.requests import Denied, Done, Inspect, Inspected, Join, Register, Unregister

C1, C2 = "eu.fr.c1", "eu.fr.c2"
H1, H2 = "eu.fr.c1.h1", "eu.fr.c1.h2"
ME = Endpoint(f"{H1}/me#1")


def endpoints(*hosts):
    return tuple(Endpoint(f"{host}/you#1") for host in hosts)


def routed(*hosts, source=ME):
    return Routed(an_id(H1), source, endpoints(*hosts), b"hello")


def lost(*hosts, why):
    return Undeliverable(OWN, ME, endpoints(*hosts), why)


@pytest.mark.spec("C-019")
@pytest.mark.parametrize("tree", [T_REF, UNEVEN])
def test_hop_by_hop_a_message_takes_the_unique_path(tree):
    for a in tree.hosts:
        for b in tree.hosts:
            if a == b:
                continue
            path = path_between(a, b)
            assert len(set(path)) == len(path)
            for here, there in pairwise(path[1:]):
                assert Neighbours(here, cluster=here in tree.clusters).next_hop(b) == there


@pytest.mark.spec("C-152")
def test_a_message_to_many_is_split_where_their_ways_part():
    bench = Bench(C1, H1, H2, C2, "eu.fr", cluster=True)
    assert bench.hear(H1, routed(H2, "eu.fr.c2.h1", "eu.fr.c2.h2", "us.ny.c1.h1", "eu.de.c1.h1")) == [
        Send(Domain("eu.fr"), routed("us.ny.c1.h1", "eu.de.c1.h1")),
        Send(Domain(H2), routed(H2)),
        Send(Domain(C2), routed("eu.fr.c2.h1", "eu.fr.c2.h2")),
    ]


@pytest.mark.spec("C-152")
def test_a_message_from_outside_goes_down():
    bench = Bench("eu.fr", C1, C2, "eu.de", "eu")
    far = Endpoint("us.ny.c1.h1/far#1")
    assert bench.hear("eu", routed(H1, source=far)) == [Send(Domain(C1), routed(H1, source=far))]


@pytest.mark.spec("C-156")
def test_where_the_next_hop_is_down_the_sender_is_told():
    bench = Bench("eu.fr", C1, "eu")
    assert bench.hear(C1, routed("eu.de.c1.h1", "us.ny.c1.h1")) == [
        Send(Domain("eu"), routed("us.ny.c1.h1")),
        Ignored("Routed", "next hop is down"),
        Send(Domain(C1), lost("eu.de.c1.h1", why="eu.fr cannot reach eu.de")),
    ]


@pytest.mark.spec("C-019", "C-156")
@pytest.mark.parametrize(
    ("sender", "source", "destination"),
    [
        (C1, H1, "eu.fr.c1.h2"),  # back where it came from
        (C1, H1, "eu.fr.c2.h1"),  # past the sibling link between the two
        ("eu.de", "eu.de.c1.h1", "us.ny.c1.h1"),  # through a sibling up
        ("eu", "us.ny.c1.h1", "eu.de.c1.h1"),  # from above across
        (C1, H1, "eu"),  # a domain is no host
    ],
)
def test_a_message_off_the_unique_path_goes_nowhere(sender, source, destination):
    bench = Bench("eu.fr", C1, C2, "eu.de", "eu")
    who = Endpoint(f"{source}/me#1")
    why = "eu.fr knows no way there"
    assert bench.hear(sender, routed(destination, source=who)) == [
        Ignored("Routed", "off the unique path"),
        Send(Domain(sender), Undeliverable(OWN, who, endpoints(destination), why)),
    ]


@pytest.mark.spec("C-152")
def test_a_message_whose_source_is_not_behind_its_sender_is_ignored():
    bench = Bench("eu.fr", C1, C2, "eu")
    assert bench.hear(C2, routed("us.ny.c1.h1")) == [Ignored("Routed", "source outside the sender's side")]
    asked = LifeAsked(an_id(H1), Domain(H1), Endpoint("us.ny.c1.h1/x#1"))
    assert bench.hear(C2, asked) == [Ignored("LifeAsked", "source outside the sender's side")]


@pytest.mark.spec("C-125")
@pytest.mark.parametrize(
    "word",
    [
        Undeliverable(an_id(C2), ME, endpoints("us.ny.c1.h1"), "gone"),
        Undeliverable(an_id(C2), ME, endpoints("eu.fr.c2.h1", "us.ny.c1.h1"), "gone"),
        LifeTold(an_id("us.ny.c1.h1"), Domain(H1), Endpoint("us.ny.c1.h1/x#1"), False, "crashed"),
        InquiryReply(an_id(H1), Domain(H1), Domain("us"), b"{}"),
        InquiryReply(an_id(H1), Domain(H1), Domain("eu"), b"{}"),
    ],
    ids=lambda word: type(word).__name__,
)
def test_word_of_what_is_not_behind_its_sender_is_ignored(word):
    bench = Bench("eu.fr", C1, C2, "eu")
    assert bench.hear("eu.fr.c2", word) == [Ignored(type(word).__name__, "source outside the sender's side")]


@pytest.mark.spec("C-156")
def test_word_of_a_lost_message_goes_back_along_the_path_or_is_lost_itself():
    bench = Bench("eu.fr", C1, "eu")
    word = Undeliverable(an_id("eu"), ME, endpoints("us.ny.c1.h1"), "eu cannot reach us")
    assert bench.hear("eu", word) == [Send(Domain(C1), word)]
    bench.down(C1)
    assert bench.hear("eu", word) == [Ignored("Undeliverable", "next hop is down")]


@pytest.mark.spec("C-157")
def test_questions_about_a_life_travel_like_messages():
    bench = Bench("eu.fr", C1, "eu.de", "eu")
    target = Endpoint("eu.de.c1.h1/x#1")
    asked = LifeAsked(an_id(H1), Domain(H1), target)
    assert bench.hear(C1, asked) == [Send(Domain("eu.de"), asked)]
    told = LifeTold(an_id("eu.de.c1.h1"), Domain(H1), target, True)
    assert bench.hear("eu.de", told) == [Send(Domain(C1), told)]


@pytest.mark.spec("C-157")
@pytest.mark.parametrize("stop", [False, True])
def test_a_life_behind_a_broken_link_is_unreachable(stop):
    bench = Bench("eu.fr", C1, "eu")
    target = Endpoint("eu.de.c1.h1/x#1")
    effects = bench.hear(C1, LifeAsked(an_id(H1), Domain(H1), target, stop))
    unreachable = Send(Domain(C1), LifeTold(OWN, Domain(H1), target, False, "unreachable"))
    assert effects == [Ignored("LifeAsked", "next hop is down"), *([] if stop else [unreachable])]


@pytest.mark.spec("C-157")
def test_word_of_a_life_that_cannot_reach_its_watcher_is_lost():
    bench = Bench("eu.fr", "eu.de")
    told = LifeTold(an_id("eu.de.c1.h1"), Domain(H1), Endpoint("eu.de.c1.h1/x#1"), False, "crashed")
    assert bench.hear("eu.de", told) == [Ignored("LifeTold", "next hop is down")]


# Permanent groups


def asked(bench, request, token=5):
    return bench.said(Asked(Endpoint(""), token, request))


@pytest.mark.spec("C-012")
def test_registering_is_on_disk_before_it_is_answered_and_answered_before_it_is_told():
    bench = Bench("eu", "eu.fr", "eu.de", "us", "world")
    news = group("eu", name="news")
    told = RegistryTold(OWN, Domain("eu"), 1, ("news",))
    assert asked(bench, Register(news)) == [
        Secure(KeyedRecord("registry", 1, encode_names(["news"]))),
        Answer(5, Done()),
        Send(Domain("eu.de"), told),
        Send(Domain("eu.fr"), told),
    ]
    known = Secure(KeyedRecord("registry", 1, encode_names(["news"])))
    assert asked(bench, Register(news)) == [known, Answer(5, Done())], "it may not be secure yet"
    gone = RegistryTold(OWN, Domain("eu"), 2, ())
    assert asked(bench, Unregister(news)) == [
        Secure(KeyedRecord("registry", 2, encode_names([]))),
        Answer(5, Done()),
        Send(Domain("eu.de"), gone),
        Send(Domain("eu.fr"), gone),
    ]
    assert asked(bench, Unregister(news))[1:] == [Answer(5, Done())]


@pytest.mark.spec("C-012", "C-020")
def test_the_root_carries_the_registry_of_the_world_and_nothing_else():
    bench = Bench(ROOT, "eu")
    assert Send(Domain("eu"), RegistryTold(OWN, ROOT, 1, ("news",))) in asked(
        bench, Register(group(name="news"))
    )
    assert bench.tell("eu", ALL) == [Ignored("InterestChanged", "out of scope")]


@pytest.mark.spec("C-012", "C-053")
def test_only_the_server_of_the_scope_registers_and_the_others_say_whom_to_ask():
    bench = Bench("eu")
    for wrong in ("us", "eu.fr", "world"):
        for request in (Register(group(wrong)), Unregister(group(wrong))):
            [answer] = asked(bench, request)
            assert isinstance(answer.result, Denied)
            assert (answer.result.code, answer.result.fix) == ("NOT_ALLOWED", f"ask the server of {wrong}")


@pytest.mark.spec("C-053")
def test_a_name_that_is_none_cannot_be_registered():
    [answer] = asked(Bench("eu"), Register(group("eu", name="a//b")))
    assert answer.result.code == "BAD_ARGUMENT"


@pytest.mark.spec("C-012")
def test_a_child_that_comes_up_is_told_every_list_that_concerns_it():
    own = KeyedRecord("registry", 2, encode_names(["news"]))
    registry = Registry.of([own])
    registry.apply(ROOT, 4, ("everywhere",))
    bench = Bench("eu", registry=registry)
    assert bench.up("eu.fr") == [
        Secure(own),
        Send(Domain("eu.fr"), RegistryTold(OWN, Domain("eu"), 2, ("news",))),
        Send(Domain("eu.fr"), RegistryTold(OWN, ROOT, 4, ("everywhere",))),
    ]
    assert bench.up("us") == []  # a sibling is outside the scope, or has its own parent to hear it from


@pytest.mark.spec("C-012")
def test_a_newer_list_from_the_parent_is_kept_and_passed_on_and_an_older_one_is_not():
    bench = Bench("eu.fr", C1, "eu.de", "eu")
    newer = RegistryTold(an_id("eu"), Domain("eu"), 3, ("b", "a"))
    assert bench.hear("eu", newer) == [
        Persist(RegistryRecord(Domain("eu"), 3, ("a", "b"))),
        Send(Domain(C1), RegistryTold(OWN, Domain("eu"), 3, ("a", "b"))),
    ]
    for version in (2, 3):
        older = RegistryTold(an_id("eu"), Domain("eu"), version, ("c",))
        assert bench.hear("eu", older) == [Ignored("RegistryTold", "older registry")]


@pytest.mark.spec("C-012")
@pytest.mark.parametrize(("sender", "scope"), [("eu", "us"), ("eu", "eu.fr"), ("eu.de", "eu"), (C1, "eu")])
def test_a_list_from_elsewhere_or_of_another_scope_is_ignored(sender, scope):
    bench = Bench("eu.fr", C1, "eu.de", "eu")
    told = RegistryTold(an_id(sender), Domain(scope), 1, ("x",))
    assert bench.hear(sender, told) == [Ignored("RegistryTold", "out of scope")]


# Completeness


@pytest.mark.spec("C-189", "C-191")
def test_what_is_no_business_of_a_domain_server_is_ignored_and_not_silent():
    bench = Bench("eu.fr", C1)
    why = "not an event of a domain server"
    for event in (TimerFired(("x",)), EndpointGone(ME), FellBehind(ME, ())):
        assert bench.said(event) == [Ignored(type(event).__name__, why)]
    assert bench.hear(C1, "hello") == [Ignored("str", "not a message for a domain server")]
    assert bench.hear(C2, SyncDone(an_id(C2))) == [Ignored("SyncDone", "sender is not connected")]


@pytest.mark.spec("C-189")
def test_a_program_that_asks_a_domain_server_is_sent_to_its_agent():
    [answer] = asked(Bench("eu"), Join(group()))
    assert (answer.result.code, answer.result.fix) == ("NOT_ALLOWED", "ask the agent of your host")


@pytest.mark.spec("C-023")
def test_inspecting_shows_rows_neighbours_and_collections():
    bench = Bench("eu.fr", C1, "eu.de")
    bench.tell(C1, ALL)
    [answer] = asked(bench, Inspect())
    assert isinstance(answer.result, Inspected)
    document = msgspec.json.decode(answer.result.document)
    assert document["rows"] == {
        "g@world": {"inner": "ALL", "outer": "ALL", "entries": {C1: "ALL"}, "unconfirmed": ["eu.de"]}
    }
    assert document["neighbours"] == {
        "eu.de": {"relation": "sibling", "synced": True},
        C1: {"relation": "child", "synced": True},
    }
    assert document["collections"] == []
