"""`rostra why`: the stories that memories add up to, told in a simulated world."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from support.tref import T_REF

from rostra.client.why import Explanation, NodeMemory, seconds, tell
from rostra.core.effects import EndpointGone
from rostra.names import Domain, Endpoint, host_of, route
from rostra.protocols.detect.programs import ProgramEvidence
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Close, Recall, Recalled
from rostra.sim import World

ANN_AT, BOB_AT, CID_AT = "eu.fr.c1.h1", "eu.fr.c2.h1", "us.ny.c1.h1"


class Tale:
    """T-REF in the lan profile: ann and bob play chess in eu.fr, ann and cid are in a lounge of the world."""

    def __init__(self) -> None:
        self.world = World(7, T_REF, timers=LinkConfig.lan().over_datagrams(0.1))
        self.world.settle()
        self.ann, self.bob, self.cid = (
            self.world.program(host, name)
            for host, name in ((ANN_AT, "ann"), (BOB_AT, "bob"), (CID_AT, "cid"))
        )
        self.ann.join("chess@eu.fr")
        self.bob.join("chess@eu.fr")
        self.ann.join("lounge@world")
        self.cid.join("lounge@world")
        self.world.settle()

    def why(self, about: str, asker: str = ANN_AT, late: Mapping[str, float] = {}) -> Explanation:
        """`late`: whose answers took so much longer."""
        way = route(Domain(asker), host_of(Endpoint(about)))
        calls = {node: self.world.administer(asker, Recall(about, node)) for node in way}
        self.world.run(for_s=3.0)
        memories: dict[Domain, NodeMemory] = {}
        unseen: dict[Domain, str] = {}
        for node, call in calls.items():
            if isinstance(call.result, Recalled):
                heard_at = (call.answered_at or 0.0) + late.get(node, 0.0)
                memories[node] = NodeMemory(msgspec.json.decode(call.result.document), heard_at)
            else:
                unseen[node] = call.result.what.removeprefix(f"{node} is out of sight: ")
        return tell(about, way, memories, unseen)


def told(story: Explanation, node: str) -> list[str]:
    return [step.text for step in story.steps if step.node == node]


def test_what_was_never_removed_is_there():
    tale = Tale()
    story = tale.why(tale.bob.address)
    assert (story.verdict, story.steps, story.now) == ("there", (), "it is open, in chess@eu.fr")
    assert story.summary == f"{tale.bob.address} is there, and nothing removed it"


def test_a_host_is_told_with_the_led_set_whose_leader_changed_there():
    tale = Tale()
    for each in (tale.bob, tale.ann):
        each.join_led("sets@eu.fr")
        tale.world.run(for_s=3.0)
    assert "follows" in tale.why(ANN_AT, asker=BOB_AT).summary
    tale.world.crash(BOB_AT)
    tale.world.run(for_s=60.0)
    story = tale.why(ANN_AT)
    leads = "leads sets@eu.fr, as the registrar eu.fr says: the leader before could not be reached"
    assert story.summary == f"{ANN_AT} is there, and nothing removed it; it {leads}"
    assert story.verdict == "there" and leads in told(story, ANN_AT)


def test_a_killed_program_is_a_crash_whose_notice_can_be_followed_from_hop_to_hop():
    tale = Tale()
    tale.world.kill(tale.bob)
    tale.world.settle()
    story = tale.why(f"{BOB_AT}/bob")  # the newest of that name
    assert (story.about, story.verdict, story.settings) == (tale.bob.address, "crashed", ())
    assert [(step.node, step.text) for step in story.steps] == [
        (BOB_AT, "told eu.fr.c2: it is gone"),
        ("eu.fr.c2", f"heard from {BOB_AT}, told eu.fr.c1: it is gone"),
        ("eu.fr.c1", f"heard from eu.fr.c2, told {ANN_AT}: it is gone"),
        (ANN_AT, "heard from eu.fr.c1, told 1 endpoint here: it is gone"),
    ]


def test_a_stalled_program_names_the_setting_that_would_have_kept_it():
    tale = Tale()
    evidence = ProgramEvidence(at=0.0, quiet_s=10.6, unanswered_s=10.1, suspect_s=0.75, down_after_s=10.0)
    gone = EndpointGone(tale.bob.address, "it did not answer for too long", evidence)
    tale.world.nodes.inject(tale.world.processes[Domain(BOB_AT)], gone)
    tale.world.settle()
    story = tale.why(tale.bob.address)
    assert story.verdict == "stalled"
    assert "left a ping unanswered for 10 s, and 10 s is allowed" in story.summary
    assert [(each.name, each.value) for each in story.settings] == [("detect.program_down_after_s", 10.0)]


def test_a_node_that_is_late_again_and_again_says_so_once_beside_what_matters():
    """On a busy machine every loop is late all the time, and one line is about the crash."""
    tale = Tale()
    for _ in range(5):
        tale.world.pause("eu.fr.c1").run(for_s=0.4).resume("eu.fr.c1").run(for_s=0.5)
    tale.world.pause("eu.fr.c1").run(for_s=0.7).resume("eu.fr.c1").run(for_s=0.5)
    tale.world.kill(tale.bob)
    tale.world.settle()
    story = tale.why(tale.bob.address)
    excuse, crash = told(story, "eu.fr.c1")
    assert excuse == "found 6 times that it had stood still, for 0.7 s at most"
    assert crash == f"heard from eu.fr.c2, told {ANN_AT}: it is gone"


def test_a_host_that_stood_still_is_told_from_both_sides():
    tale = Tale()
    tale.world.pause(BOB_AT).run(for_s=3.0).resume(BOB_AT).settle()
    story = tale.why(tale.bob.address)
    assert (story.verdict, story.accuser, story.accused) == ("there", "eu.fr.c2", BOB_AT)
    assert "is there again; it was out of sight for" in story.summary
    first, second, *_ = told(story, "eu.fr.c2")
    assert first.startswith(f"suspected {BOB_AT}: silent 0.5 s, usually heard every 0.2 s (suspicion phi 9")
    assert second == f"gave up {BOB_AT}: silent 1.0 s, limit 1.0 s"
    assert story.health["eu.fr.c2"] == "was on time"
    assert story.health[BOB_AT] == "stood still for 3.0 s"
    (setting,) = story.settings
    assert (setting.name, setting.value) == ("detect.down_after_s", 1.0)
    assert setting.text == (
        f"the limit was 1.0 s, and {BOB_AT} was silent for 3.1 s; "
        "with a limit above 3.1 s nobody would have been removed; the wan profile has 4.0 s"
    )


def test_a_cut_is_told_from_our_side_and_the_other_is_said_to_be_out_of_sight():
    tale = Tale()
    tale.world.cut("eu | us").settle()
    story = tale.why(tale.cid.address)
    assert (story.verdict, story.accuser, story.accused) == ("lost", "eu", "us")
    assert "eu heard nothing from us for 1.0 s" in story.summary
    assert story.unseen == dict.fromkeys(["us", "us.ny", "us.ny.c1", CID_AT], "eu cannot reach us")
    assert story.health["us"] == "not known: eu cannot reach us"
    assert told(story, ANN_AT) == ["heard from eu.fr.c1, told 1 endpoint here: us is lost"]


def test_who_is_cut_off_itself_says_so():
    tale = Tale()
    tale.world.cut(f"eu.fr.c1 | {ANN_AT}").settle()
    story = tale.why(tale.cid.address)
    assert (story.verdict, story.accuser, story.accused) == ("lost", ANN_AT, "eu.fr.c1")
    assert told(story, ANN_AT)[-1] == f"told 1 endpoint here: only {ANN_AT} remains"


def test_a_host_that_was_left_by_its_server_repeats_what_its_server_missed():
    """One way: the cluster does not hear the host, ends the epoch, and the host learns of it."""
    tale = Tale()
    tale.world.cut(f"{BOB_AT} > eu.fr.c2").run(for_s=2.0).heal().settle()
    story = tale.why("eu.fr.c1", asker=BOB_AT)
    assert (story.accuser, story.accused) == (BOB_AT, "eu.fr.c2")
    assert f"eu.fr.c2 heard nothing from {BOB_AT} for 1.0 s" in story.summary


@pytest.mark.parametrize(("server", "what"), [(BOB_AT, "its process had died"), ("eu.fr.c2", "had died")])
def test_a_restart_is_told_as_one(server, what):
    tale = Tale()
    tale.world.restart(server).settle()
    story = tale.why(tale.bob.address)
    assert story.accused == server and what in story.summary
    assert story.settings == ()
    assert "began a new life" in story.health[server]


def test_a_program_that_leaves_says_so_and_nothing_is_to_blame():
    tale = Tale()
    tale.bob.leave("chess@eu.fr")
    tale.world.settle()
    story = tale.why(tale.bob.address)
    assert (story.verdict, story.now) == ("there", "it is open, in no group that reaches here")
    assert story.summary.endswith("it left chess@eu.fr by itself")
    tale.bob.ask(Close())
    tale.world.settle()
    assert tale.why(tale.bob.address).verdict == "left"


def test_a_refusal_is_told_with_its_reason():
    tale = Tale()
    tale.bob.join("chess@us")
    tale.world.run(for_s=0.1)
    assert "it was refused: eu.fr.c2.h1 is outside us" in tale.why(tale.bob.address).summary

    taken = Tale()
    taken.world.program(BOB_AT, "taken")
    taken.world.program(BOB_AT, "taken")
    taken.world.run(for_s=0.1)
    summary = taken.why(f"{BOB_AT}/taken").summary
    assert "; another program asked for that name, and was refused: " in summary
    assert "is open already" in summary


def test_what_nobody_remembers_is_not_made_up():
    tale = Tale()
    story = tale.why(f"{BOB_AT}/nobody#3")
    assert story.verdict == "unknown"
    assert story.summary.startswith(
        f"nobody knows {BOB_AT}/nobody#3: the agent of {BOB_AT} remembers no such"
    )
    stranger = tale.why("eu.fr.c2.h9/nobody#3")
    assert (stranger.verdict, stranger.summary) == (
        "unknown",
        "nobody knows eu.fr.c2.h9/nobody#3: nobody on the way has heard of eu.fr.c2.h9",
    )


@pytest.mark.parametrize(
    "name", [f"{CID_AT}/nobody", f"{CID_AT}/cid#1", "us.ny.c1.h9/cid", "us.ny.c1.h9", "us.mars"]
)
def test_a_cut_in_memory_is_no_story_of_a_name_that_never_was(name):
    tale = Tale()
    tale.world.cut("eu | us").settle()
    hidden = tale.why(name)
    assert hidden.verdict == "unknown"
    assert hidden.summary.startswith(f"nobody in sight knows {name}; but all of us is out of sight: eu heard")
    tale.world.heal().settle()
    assert tale.why(name).verdict == "unknown"
    assert tale.why(name).summary.startswith(f"nobody knows {name}: ")


def test_a_host_whose_program_we_saw_is_known_although_its_cluster_is_cut_off():
    tale = Tale()
    tale.world.cut("eu | us").settle()
    assert tale.why(CID_AT).verdict == "lost"
    assert tale.why(tale.cid.address).verdict == "lost"


def test_who_left_behind_a_cut_is_told_with_the_cut():
    tale = Tale()
    tale.world.cut("eu | us").settle()
    tale.cid.ask(Close())
    tale.world.run(for_s=5.0)
    tale.world.heal().settle()
    story = tale.why(tale.cid.address)
    assert (story.verdict, story.accuser, story.accused) == ("left", "eu", "us")
    assert story.summary == f"{tale.cid.address} left: its program closed it (lounge@world)"
    assert story.besides == (
        "it was out of sight then: eu heard nothing from us for 1.0 s, and 1.0 s is allowed"
    )
    texts = [step.text for step in story.steps]
    gave_up = next(i for i, text in enumerate(texts) if text.startswith("gave up us: silent"))
    left = texts.index("told us.ny.c1: it left")
    back = texts.index("linked with us")
    assert gave_up < left < back
    assert [setting.name for setting in story.settings] == ["detect.down_after_s"]


def test_who_left_long_after_a_break_was_not_out_of_sight_then():
    """Even if the end of the break is forgotten, over many later suspicions that came to nothing."""
    tale = Tale()
    tale.world.cut("eu.fr | eu.fr.c2").settle()
    tale.world.heal().settle()
    for _ in range(40):
        tale.world.cut("eu.fr | eu.fr.c2").run(for_s=0.8).heal().settle()
    tale.bob.ask(Close())
    tale.world.settle()
    story = tale.why(tale.bob.address)
    assert (story.verdict, story.besides) == ("left", "")


def test_a_later_cut_does_not_change_why_somebody_left():
    tale = Tale()
    tale.cid.ask(Close())
    tale.world.run(for_s=20.0)
    tale.world.cut("eu | us").settle()
    story = tale.why(tale.cid.address)
    assert story.verdict == "lost"  # as far as those know who can be asked: it may have been in other groups
    assert story.besides.endswith(" before that it had left lounge@world by itself")
    assert told(story, "eu")[0] == "heard from us, told eu.fr: it left"
    tale.world.heal().settle()
    story = tale.why(tale.cid.address)
    assert (story.verdict, story.accuser) == ("left", None)


@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.8])
def test_effects_stand_below_their_causes_however_late_an_answer_came(delay_s):
    """An answer that took longer makes all that its sender remembers look younger."""
    tale = Tale()
    tale.world.kill(tale.cid)
    tale.world.settle()
    story = tale.why(tale.cid.address, late=dict.fromkeys((CID_AT, "us.ny", "eu"), delay_s))
    chain = [CID_AT, "us.ny.c1", "us.ny", "us", "eu", "eu.fr", "eu.fr.c1", ANN_AT]
    assert [step.node for step in story.steps] == chain
    assert [step.at for step in story.steps] == sorted(step.at for step in story.steps)


def test_of_a_break_too_the_accusation_stands_above_what_it_caused():
    tale = Tale()
    tale.world.cut("eu | us").settle()
    story = tale.why(tale.cid.address, late={"eu": 0.7, "eu.fr": 0.3})
    texts = [(step.node, step.text) for step in story.steps]
    assert [node for node, text in texts if text.endswith("us is lost")] == [
        "eu",
        "eu.fr",
        "eu.fr.c1",
        ANN_AT,
    ]
    assert texts[0][1].startswith("suspected us") and texts[1][1].startswith("gave up us")


def test_what_others_on_a_host_were_refused_is_no_part_of_its_story():
    tale = Tale()
    tale.bob.join("chess@us")
    tale.world.run(for_s=0.1)
    host = tale.why(BOB_AT)
    assert (host.summary, host.steps) == (f"{BOB_AT} is there, and nothing removed it", ())


def test_the_newest_of_a_name_is_meant_and_the_others_are_named():
    tale = Tale()
    tale.world.kill(tale.bob)
    tale.world.settle()
    again = tale.world.program(BOB_AT, "bob")
    again.join("chess@eu.fr")
    tale.world.settle()
    story = tale.why(f"{BOB_AT}/bob")
    assert (story.about, story.verdict, story.earlier) == (again.address, "there", (tale.bob.address,))


def test_a_setting_says_what_was_measured_against_which_limit():
    tale = Tale()
    tale.world.cut("eu | us").settle()
    (setting,) = tale.why(tale.cid.address).settings
    assert setting.text.startswith("the limit is 1.0 s, and us has been silent for ")
    assert setting.text.endswith("; a higher limit would have removed it later, and not kept it")
    tale.world.run(for_s=10.0).heal().settle()
    (setting,) = tale.why(tale.cid.address).settings
    assert setting.text.endswith(" s nobody would have been removed")  # nor would the wan profile have helped


def test_a_break_that_has_healed_does_not_explain_why_somebody_is_out_of_sight_now():
    tale = Tale()
    tale.world.pause(BOB_AT).run(for_s=3.0).resume(BOB_AT).settle()
    tale.world.pause(BOB_AT)
    story = tale.why(tale.bob.address)  # asked before its silence is too long
    assert story.verdict in ("unknown", "lost")
    if story.verdict == "unknown":
        assert "no link was given up" in story.summary
    assert tale.why(tale.bob.address).verdict == "lost"


def test_a_domain_can_be_asked_about_too():
    tale = Tale()
    assert tale.why("us").verdict == "there"
    tale.world.cut("eu | us").settle()
    assert tale.why("us").verdict == "lost"
    tale.world.heal().settle()
    assert "us is there again; it was out of sight for" in tale.why("us").summary


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, "0.00 s"), (0.05, "0.05 s"), (1.04, "1.0 s"), (42.4, "42 s"), (600.0, "10 min"), (9e4, "25 h")],
)
def test_durations_are_for_people(value: float, words: Any):
    assert seconds(value) == words
