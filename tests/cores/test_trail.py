"""What nodes remember about removals, and how it is asked for: through the world, bounded, and in scope."""

import itertools
from typing import Any

import msgspec
import pytest
from support.agents import GMS, HOST, Agent
from support.bench import Bench, an_id
from support.tref import T_REF

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Ignored,
    Received,
    Send,
    SetTimer,
    Tell,
    TimerFired,
)
from rostra.errors import BadName
from rostra.groups.members import Because, Cause, Member
from rostra.names import Domain, Endpoint, Group, concerns, parse_subject, route
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.inquiries import INQUIRY
from rostra.protocols.relaxed.messages import (
    REPORT_BYTES_MAX,
    DomainFailed,
    EndpointsJoined,
    Inquiry,
    InquiryReply,
)
from rostra.protocols.relaxed.requests import Denied, Recall, Recalled
from rostra.protocols.relaxed.trail import DEPARTURES_MAX, LINK_NOTES_MAX, SEEN_MAX, Trail
from rostra.sim import World

NOBODY = Endpoint("")
ANN_AT, BOB_AT = "eu.fr.c1.h1", "eu.fr.c2.h1"


def small_world() -> tuple[World, Any, Any]:
    """T-REF in the lan profile, ann and bob in one group of `eu.fr`."""
    world = World(7, T_REF, timers=LinkConfig.lan().over_datagrams(0.1))
    world.settle()
    ann, bob = world.program(ANN_AT, "ann"), world.program(BOB_AT, "bob")
    ann.join("chess@eu.fr")
    bob.join("chess@eu.fr")
    world.settle()
    return world, ann, bob


def recall(world: World, about: str, of: str, asker: str = ANN_AT) -> dict[str, Any]:
    call = world.administer(asker, Recall(about, Domain(of)))
    world.run(for_s=1.0)
    assert isinstance(call.result, Recalled), call.result
    return msgspec.json.decode(call.result.document)


# What is remembered


def test_a_killed_program_is_remembered_by_its_agent_and_by_everybody_on_the_way():
    world, _ann, bob = small_world()
    world.kill(bob)
    world.settle()

    at_home = recall(world, bob.address, BOB_AT)["departures"]
    assert [(d["endpoint"], d["cause"], d["gone"], d["heard_from"]) for d in at_home] == [
        (bob.address, "crash", True, None)
    ]
    told = {
        server: recall(world, bob.address, server)["departures"][0] for server in ("eu.fr.c2", "eu.fr.c1")
    }
    assert (told["eu.fr.c2"]["heard_from"], told["eu.fr.c2"]["passed_to"]) == (BOB_AT, ["eu.fr.c1"])
    assert (told["eu.fr.c1"]["heard_from"], told["eu.fr.c1"]["passed_to"]) == ("eu.fr.c2", [ANN_AT])
    here = recall(world, bob.address, ANN_AT)["departures"][0]
    assert (here["heard_from"], here["told"], here["groups"]) == ("eu.fr.c1", 1, ["chess@eu.fr"])


def test_a_silent_host_leaves_evidence_with_its_accuser_and_its_own_stall_with_itself():
    world, _ann, bob = small_world()
    world.pause(BOB_AT).run(for_s=3.0).resume(BOB_AT).settle()

    accuser = recall(world, bob.address, "eu.fr.c2")
    notes = accuser["links"][BOB_AT]["notes"]
    assert [note["what"] for note in notes] == ["up", "suspected", "down", "up"]
    evidence = notes[2]["evidence"]
    assert (notes[2]["because"], evidence["down_after_s"]) == ("silent", 1.0)
    assert evidence["silence_s"] >= 1.0 and evidence["phi"] > evidence["phi_threshold"] == 8.0
    (failure,) = accuser["failures"]
    assert (failure["domain"], failure["heard_from"], failure["passed_to"]) == (BOB_AT, None, ["eu.fr.c1"])
    assert failure["because"] == {"accuser": "eu.fr.c2", "accused": BOB_AT, "what": "silent"}

    accused = recall(world, bob.address, BOB_AT)
    assert [round(late["late_s"]) for late in accused["late"]] == [3]
    assert accused["present"] == [{"endpoint": bob.address, "groups": ["chess@eu.fr"]}]


def test_a_refusal_is_remembered_under_the_name_that_was_refused():
    world, ann, _bob = small_world()
    world.program(ANN_AT, "ann")
    world.run(for_s=0.1)
    ann.join("chess@us")
    world.run(for_s=0.1)

    refusals = recall(world, f"{ANN_AT}/ann", ANN_AT)["refusals"]
    assert [(r["endpoint"], r["asked"], r["code"]) for r in refusals] == [
        (f"{ANN_AT}/ann", "open", "NAME_IN_USE"),
        (ann.address, "join", "NOT_IN_SCOPE"),
    ]


def test_a_leave_of_one_group_is_no_departure_from_the_host():
    world, _ann, bob = small_world()
    bob.leave("chess@eu.fr")
    world.settle()
    home = recall(world, f"{BOB_AT}/bob", BOB_AT)
    assert [(d["cause"], d["gone"]) for d in home["departures"]] == [("leave", False)]
    assert home["present"] == [{"endpoint": bob.address, "groups": []}]


def test_an_agent_remembers_whom_its_programs_were_told_of_and_a_server_does_not():
    world, _ann, bob = small_world()
    world.kill(bob)
    world.settle()
    assert [each["endpoint"] for each in recall(world, f"{BOB_AT}/bob", ANN_AT)["seen"]] == [bob.address]
    assert recall(world, BOB_AT, ANN_AT)["seen"]  # and so that there is such a host
    assert recall(world, f"{BOB_AT}/bob", "eu.fr.c1")["seen"] == []  # it stores no membership (C-023)
    assert recall(world, f"{BOB_AT}/nobody", ANN_AT)["seen"] == []


def test_lists_that_were_seen_are_bounded_by_their_members():
    trail = Trail(HOST, LinkConfig.lan())
    told = Tell((Endpoint(f"{HOST}/me#1"),), None)

    def saw(*numbers: int) -> None:
        members = tuple(Member(Endpoint(f"us.h/p{number}#1"), (1, number)) for number in numbers)
        joined = EndpointsJoined(an_id(GMS), Group("g", Domain("world")), members, Cause.JOIN)
        trail.saw(0.0, HOST, Received(GMS, joined), [told])

    def remembers(number: int) -> bool:
        document = msgspec.json.decode(trail.about(1.0, f"us.h/p{number}", HOST, {}))
        return bool(document["seen"])

    saw(0)
    saw(1)
    assert remembers(0) and remembers(1)
    saw(*range(2, SEEN_MAX + 1))
    assert not remembers(0) and remembers(1) and remembers(SEEN_MAX)
    saw(*range(9, 9 + 2 * SEEN_MAX))  # more than there is room for: the first of them
    assert not remembers(1) and remembers(9) and not remembers(8 + 2 * SEEN_MAX)


def test_memory_is_bounded_and_forgets_the_oldest_first():
    world = World(1, domains={"lab": 1}, history=False)
    world.run(for_s=1.0)
    first = world.program("lab.h1", "p0")
    world.kill(first)
    for number in range(1, DEPARTURES_MAX + 1):
        world.kill(world.program("lab.h1", f"p{number}"))
    world.run(for_s=0.1)
    assert recall(world, "lab.h1/p0", "lab.h1", "lab.h1")["departures"] == []
    assert len(recall(world, f"lab.h1/p{DEPARTURES_MAX}", "lab.h1", "lab.h1")["departures"]) == 1


def test_a_flapping_neighbour_is_remembered_a_few_times_only():
    world, _, _ = small_world()
    for _ in range(LINK_NOTES_MAX):
        world.restart(BOB_AT).run(for_s=1.0)
    world.settle()
    trail = world.processes[Domain("eu.fr.c2")].node.trail
    assert len(trail._links[Domain(BOB_AT)]) == LINK_NOTES_MAX


def test_an_answer_fits_its_message_however_much_there_is_to_tell():
    trail = Trail(Domain("eu"), LinkConfig.wan())
    host = Domain(".".join(["x" * 63] * 8))
    groups = tuple(Group(f"{'g' * 200}{number}", Domain("world")) for number in range(20))
    for _ in range(100):
        failed = DomainFailed(an_id("eu"), groups, host, False, Because(host, host, "silent"))
        trail.saw(1.0, Domain("eu"), Received(host, failed), [Send(host, failed)])
    document = trail.about(2.0, host, Domain("eu"), {})
    assert len(document) <= REPORT_BYTES_MAX
    assert 0 < len(msgspec.json.decode(document)["failures"]) < 16


@pytest.mark.spec("C-009")
def test_a_group_is_named_only_to_askers_inside_its_scope():
    world, _ann, bob = small_world()
    world.kill(bob)
    world.settle()
    outside = recall(world, bob.address, BOB_AT, asker="us.ny.c1.h1")["departures"][0]
    assert (outside["groups"], outside["groups_count"]) == ([], 1)
    assert recall(world, bob.address, BOB_AT)["departures"][0]["groups"] == ["chess@eu.fr"]


# How it is asked for


@pytest.mark.parametrize("server", T_REF.servers)
def test_every_server_can_be_asked_from_every_host(server):
    world = World(3, T_REF, timers=LinkConfig.lan().over_datagrams(0.1), history=False)
    world.settle()
    for host in ("eu.fr.c1.h1", "us.ca.c2.h2"):
        assert recall(world, "eu", server, asker=host)["node"] == server


def test_a_server_behind_a_cut_is_said_to_be_out_of_sight_and_by_whom():
    world, _, _ = small_world()
    world.cut("eu | us").settle()
    call = world.administer(ANN_AT, Recall("us", Domain("us.ny")))
    world.run(for_s=1.0)
    assert isinstance(call.result, Denied)
    assert (call.result.code, call.result.what) == (
        "UNREACHABLE",
        "us.ny is out of sight: eu cannot reach us",
    )


def test_an_agent_that_is_cut_off_can_still_be_asked_about_itself():
    world, _ann, _ = small_world()
    world.cut(ANN_AT).settle()
    assert recall(world, ANN_AT, ANN_AT)["links"]["eu.fr.c1"]["up"] is False
    call = world.administer(ANN_AT, Recall("eu", Domain("eu")))
    world.run(for_s=0.1)
    assert call.result.what == "eu is out of sight: eu.fr.c1.h1 is cut off from eu.fr.c1"


def test_a_domain_server_asks_nobody_else():
    bench = Bench("eu", "eu.fr", "us")
    (answer,) = bench.said(Asked(NOBODY, 1, Recall("us", Domain("us"))))
    assert answer.result.code == "NOT_ALLOWED"


def test_a_question_that_is_not_answered_is_denied_in_time():
    agent = Agent(config=RelaxedConfig(inquiry_deadline_s=2.0))
    effects = agent.ask(NOBODY, Recall("us", Domain("us")))
    inquiry = effects[0].message
    assert effects == [
        Send(GMS, Inquiry(inquiry.id, HOST, Domain("us"), "us")),
        SetTimer((*INQUIRY, agent.token), 2.0),
    ]

    (late,) = agent.step(TimerFired((*INQUIRY, agent.token)))
    assert (late.token, late.result.code) == (agent.token, "DEADLINE")
    assert agent.step(Received(GMS, InquiryReply(inquiry.id, HOST, Domain("us"), b"{}"))) == [
        Ignored("InquiryReply", "late reply")
    ]


def test_a_report_of_somebody_else_is_no_answer():
    agent = Agent()
    inquiry = agent.ask(NOBODY, Recall("us", Domain("us")))[0].message
    assert agent.step(Received(GMS, InquiryReply(inquiry.id, HOST, Domain("eu"), b"{}"))) == [
        Ignored("InquiryReply", "late reply")
    ]
    assert agent.step(Received(GMS, InquiryReply(inquiry.id, HOST, Domain("us"), b"{}"))) == [
        CancelTimer((*INQUIRY, agent.token)),
        Answer(agent.token, Recalled(b"{}")),
    ]


def test_open_questions_end_with_the_link_and_are_bounded():
    agent = Agent(config=RelaxedConfig(inquiries_max=2))
    agent.ask(NOBODY, Recall("us", Domain("us")))
    agent.ask(NOBODY, Recall("eu", Domain("eu")))
    (refused,) = agent.ask(NOBODY, Recall("world", Domain("world")))
    assert refused.result.code == "TOO_LARGE"
    effects = agent.link_down()
    assert [e.result.code for e in effects if isinstance(e, Answer)] == ["UNREACHABLE", "UNREACHABLE"]


def test_an_inquiry_whose_asker_is_not_behind_its_sender_is_ignored():
    bench = Bench("eu.fr", "eu.fr.c1", "eu.fr.c2", "eu")
    inquiry = Inquiry(an_id("eu.fr.c1.h1"), Domain("eu.fr.c1.h1"), Domain("eu"), "us")
    assert bench.hear("eu.fr.c1", inquiry) == [Send(Domain("eu"), inquiry)]
    assert bench.hear("eu.fr.c2", inquiry) == [Ignored("Inquiry", "source outside the sender's side")]


# Names


@pytest.mark.parametrize("text", ["world", "eu", "eu.paris.h3", "eu.paris.h3/web-1", "eu.paris.h3/web-1#7"])
def test_what_may_be_asked_about_is_read_as_it_is_written(text):
    assert parse_subject(text) == text


@pytest.mark.parametrize("text", ["", "EU", "eu/", "/web", "eu.h1/web#x", "eu.h1/we b", "world/web#1"])
def test_what_may_not_be_asked_about_is_refused(text):
    with pytest.raises(BadName):
        parse_subject(text)


def test_an_endpoint_is_its_own_subject_and_that_of_all_around_it():
    web = "eu.paris.h3/web-1#7"
    assert all(concerns(s, web) for s in ("world", "eu", "eu.paris.h3", "eu.paris.h3/web-1", web))
    assert not any(concerns(s, web) for s in ("us", "eu.paris.h", "eu.paris.h3/web", "eu.paris.h3/web-1#77"))


@pytest.mark.spec("C-019")
def test_a_route_goes_from_neighbour_to_neighbour():
    links = {frozenset(link) for link in T_REF.links()}
    for start in T_REF.hosts:
        for to in T_REF.servers:
            way = route(start, to)
            assert (way[0], way[-1]) == (start, to) and len(set(way)) == len(way)
            assert all(frozenset(pair) in links for pair in itertools.pairwise(way))
    assert route(Domain("eu.fr"), Domain("us.ny.c1.h1"), from_host=False) == (
        *("eu.fr", "eu", "us", "us.ny", "us.ny.c1", "us.ny.c1.h1"),
    )
