"""The explorer: does it see everything, is what it sees what the cores do, and does it find what is planted?

`make explore` goes through larger bounds; see `docs/simulator.md`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support.voternet import VoterNet

from rostra.core.effects import TimerFired
from rostra.errors import BadInput
from rostra.protocols.election.core import STAND
from rostra.sim.explore import MODELS, model_named
from rostra.sim.explore.agreed import SetBounds, SetModel
from rostra.sim.explore.election import FIXED, Election, ElectionBounds
from rostra.sim.explore.hub import HubBounds, HubModel
from rostra.sim.explore.lease import LeaseBounds, LeaseModel
from rostra.sim.explore.links import LinksBounds, LinksModel
from rostra.sim.explore.living import LivingBounds, LivingModel
from rostra.sim.explore.model import SearchBounds, image, renamed, restore
from rostra.sim.explore.move import MoveBounds, MoveModel
from rostra.sim.explore.played import story_of
from rostra.sim.explore.reform import ReformBounds, ReformModel
from rostra.sim.explore.registrar import RegistrarBounds, RegistrarModel
from rostra.sim.explore.search import SearchProgress, explore
from rostra.sim.story import Story, tell


class Cups:
    """Two cups of 3 and 5 measures; what is wrong with four measures in one of them?"""

    name, about, plants, plant, bounds = "cups", "", {}, None, SearchBounds()

    def __init__(self, wanted: int = 4) -> None:
        self.wanted = wanted

    def initial(self) -> tuple[int, int]:
        return 0, 0

    def actions(self, state: tuple[int, int]) -> list[str]:
        return ["fill small", "fill large", "empty small", "empty large", "to large", "to small"]

    def apply(self, state: tuple[int, int], action: str) -> tuple[int, int]:
        small, large = state
        match action.split():
            case "fill", which:
                return (3, large) if which == "small" else (small, 5)
            case "empty", which:
                return (0, large) if which == "small" else (small, 0)
            case _, "large":
                poured = min(small, 5 - large)
                return small - poured, large + poured
            case _:
                poured = min(large, 3 - small)
                return small + poured, large - poured

    def canonical(self, state: tuple[int, int]) -> tuple[int, int]:
        return state

    def violations(self, state: tuple[int, int]) -> list[str]:
        return [f"{self.wanted} in the large one"] if state[1] == self.wanted else []

    def words(self, action: str) -> tuple[str, ...]:
        return tuple(action.split())

    def remark(self, state: tuple[int, int], action: str) -> str:
        return ""

    def told(self, state: tuple[int, int], action: str) -> list[str]:
        return []


def states_of(model: Any) -> set[Any]:
    """The slow and obvious way, without a thought of names."""
    found, left = {model.initial()}, [model.initial()]
    while left:
        state = left.pop()
        for action in model.actions(state):
            after = model.apply(state, action)
            if after not in found:
                found.add(after)
                left.append(after)
    return found


def test_the_way_to_a_violation_is_the_shortest() -> None:
    found = explore(Cups())
    assert found.violations == ("4 in the large one",) and not found.exhausted
    assert found.path == ("fill large", "to small", "empty small", "to small", "fill large", "to small")


def test_all_states_are_seen_if_nothing_is_wrong() -> None:
    found = explore(Cups(wanted=6))
    assert (found.exhausted, found.violations, found.states) == (True, (), len(states_of(Cups())))


def test_a_search_that_is_stopped_says_that_it_saw_less() -> None:
    assert not explore(model_named("election", {}), states_max=2000).exhausted

    def ctrl_c(progress: SearchProgress) -> None:
        if progress.states > 3000:
            raise KeyboardInterrupt

    found = explore(model_named("election", {}), tell=ctrl_c)
    assert found.states > 3000 and not found.exhausted and not found.violations


@pytest.mark.spec("C-160", "C-161")
@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(ElectionBounds(attempts=1, crashes=2, suspicions=1), marks=pytest.mark.long),
        pytest.param(ElectionBounds(attempts=2, crashes=0, suspicions=0, stalls=1), marks=pytest.mark.long),
        ElectionBounds(attempts=1, crashes=1, suspicions=1, stalls=1),
        ElectionBounds(attempts=1, crashes=1, suspicions=0, changes=1),
        ElectionBounds(attempts=1, crashes=0, suspicions=0, changes=1, removals=1),
        ElectionBounds(replicas=2, attempts=3, crashes=2, suspicions=1, changes=1, removals=1),
        ElectionBounds(replicas=2, attempts=2, crashes=1, suspicions=0, changes=1, fills=1, drains=1),
    ],
    ids=str,
)
def test_no_order_of_events_breaks_an_election(bounds: ElectionBounds) -> None:
    found = explore(Election(bounds))
    assert found.exhausted and found.violations == ()


@pytest.mark.spec("C-027", "C-030", "C-031", "C-032")
@pytest.mark.parametrize(
    "bounds",
    [
        LinksBounds(messages=2, ticks=1, losses=0, doubles=0, resets=2, restarts=0),
        LinksBounds(messages=2, ticks=1, losses=1, doubles=1, resets=0, restarts=1),
        LinksBounds(messages=1, ticks=2, losses=1, doubles=0, resets=1, restarts=0, suspicions=1),
        LinksBounds(messages=1, ticks=2, losses=1, doubles=0, resets=1, restarts=1, forgets=1),
        LinksBounds(messages=2, ticks=1, losses=0, doubles=1, resets=0, restarts=0, overtakes=2),
    ],
    ids=str,
)
def test_no_order_of_events_loses_doubles_or_reorders_a_message_of_an_epoch(bounds: LinksBounds) -> None:
    found = explore(LinksModel(bounds))
    assert found.exhausted and found.violations == ()


@pytest.mark.spec("V-071", "V-072", "V-073", "V-079", "V-120", "V-121", "V-122", "V-124", "V-125", "V-126")
@pytest.mark.parametrize(
    "bounds",
    [
        SetBounds(changes=2, crashes=0, losses=1),
        SetBounds(changes=2, crashes=1, losses=0),
        SetBounds(changes=1, crashes=0, suspicions=1, losses=1),
        SetBounds(changes=1, crashes=0, losses=1, haste=1),
        SetBounds(servers=4, changes=0, crashes=0, suspicions=1, losses=0),
        SetBounds(servers=4, changes=0, crashes=0, suspicions=1, losses=0, gathers=1),
        SetBounds(changes=1, crashes=1, losses=0, gathers=1),
        SetBounds(changes=2, crashes=1, losses=0, lanes=1),
        SetBounds(changes=2, crashes=1, losses=0, lanes=2),
        pytest.param(SetBounds(changes=3, crashes=0, losses=0, lanes=2), marks=pytest.mark.long),
        SetBounds(changes=2, crashes=0, losses=1, lanes=1),
    ],
    ids=str,
)
def test_no_order_of_events_breaks_the_agreement_of_a_set(bounds: SetBounds) -> None:
    found = explore(SetModel(bounds))
    assert found.exhausted and found.violations == ()


@pytest.mark.spec("V-103", "V-105", "V-106", "V-120", "V-125")
@pytest.mark.parametrize(
    "bounds",
    [
        ReformBounds(changes=2, crashes=0),
        ReformBounds(changes=1, crashes=1),
        ReformBounds(changes=1, crashes=1, gathers=1),
        ReformBounds(changes=1, crashes=1, losses=1),
        ReformBounds(changes=1, crashes=0, haste=1),
        ReformBounds(changes=1, crashes=1, lanes=1),
        ReformBounds(changes=1, crashes=0, haste=1, lanes=1),
        ReformBounds(changes=2, crashes=0, lanes=1),
        pytest.param(ReformBounds(crashes=0, suspicions=1, links=3), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_no_order_of_events_breaks_a_merge_or_keeps_parts_apart(bounds: ReformBounds) -> None:
    found = explore(ReformModel(bounds))
    assert found.exhausted and found.violations == ()


@pytest.mark.spec("V-099", "V-100")
@pytest.mark.parametrize(
    "bounds",
    [
        LivingBounds(members=5, cuts=1, heals=1, tears=1),
        LivingBounds(members=3, cuts=2, heals=1, tears=1, fails=1),
        LivingBounds(members=3, cuts=1, heals=1, tears=1, joins=1),
    ],
    ids=str,
)
def test_no_order_of_cuts_and_torn_agreements_lets_two_sides_live(bounds: LivingBounds) -> None:
    found = explore(LivingModel(bounds))
    assert found.exhausted and found.violations == ()


@pytest.mark.spec("V-099")
@pytest.mark.parametrize(
    "bounds",
    [
        LeaseBounds(ticks=2, stops=0),
        LeaseBounds(ticks=2, resets=0),
        LeaseBounds(ticks=1, stops=0, joins=1),
    ],
    ids=str,
)
def test_no_order_of_stops_and_cuts_lets_a_host_live_that_others_went_on_without(bounds: LeaseBounds) -> None:
    found = explore(LeaseModel(bounds))
    assert found.exhausted and not found.violations


@pytest.mark.spec("S-035", "S-041", "S-066", "S-067", "S-068", "S-070", "S-071")
@pytest.mark.parametrize(
    "bounds",
    [
        RegistrarBounds(joins=2, believes=1, fires=0, losses=1),
        RegistrarBounds(joins=2, believes=0, fires=0, cuts=1, crashes=1),
        RegistrarBounds(alone=2, joins=0, believes=3, fires=0),
        RegistrarBounds(alone=2, joins=0, believes=2, fires=1),
        RegistrarBounds(alone=2, joins=0, believes=2, fires=0, leaves=1, cuts=1),
    ],
    ids=str,
)
def test_no_order_of_events_and_beliefs_makes_a_cycle_or_two_leaders(bounds: RegistrarBounds) -> None:
    found = explore(RegistrarModel(bounds))
    assert found.exhausted and found.violations == ()


@pytest.mark.spec("V-027", "XV-16")
@pytest.mark.parametrize(
    "bounds", [MoveBounds(), MoveBounds(leaves=0, changes=0, restarts=1)], ids=["crash", "restart"]
)
def test_a_group_that_moves_is_in_one_set_whichever_server_crashes(bounds: MoveBounds) -> None:
    found = explore(MoveModel(bounds))
    assert found.exhausted and found.violations == ()


@pytest.mark.spec("A-100", "A-101", "A-105")
@pytest.mark.parametrize(
    "bounds",
    [
        HubBounds(messages=1, crashes=0),
        pytest.param(HubBounds(messages=0, crashes=1), marks=pytest.mark.long),
        pytest.param(HubBounds(), marks=pytest.mark.long),
        pytest.param(HubBounds(proposals=2, give_ups=1), marks=pytest.mark.long),
        pytest.param(HubBounds(proposals=2, give_ups=1, crashes=0, suspicions=1), marks=pytest.mark.long),
    ],
    ids=["message", "crash", "both", "early, crash", "early, suspicion"],
)
def test_no_order_of_events_breaks_the_order_while_a_station_joins(bounds: HubBounds) -> None:
    found = explore(HubModel(bounds))
    assert found.exhausted and found.violations == ()


@pytest.mark.parametrize(
    ("name", "plant", "bounds", "violation"),
    [
        ("registrar", "accept-always", "alone=2 joins=0 believes=3 fires=0", "P-2: no leader"),
        (
            "registrar",
            "keep-lost",
            "believes=0 fires=0 cuts=1 crashes=1",
            "P-3: eu.b/m#1 is listed, and gone",
        ),
        ("registrar", "never-detach", "believes=0 fires=0 leaves=1", "P-3: eu.b/m#1 is listed, and gone"),
        (
            "living",
            "newcomers-count",
            "members=3 cuts=1 heals=0 tears=0 joins=2",
            "a living view has nobody of the one before",
        ),
        ("living", "block-late", "members=3 cuts=1 heals=0 tears=0", "two sides live"),
        ("living", "merge-resets", "members=3 cuts=2 heals=1 tears=0", "two sides live"),
        *[
            ("lease", plant, f"{bounds} stops=0", "eu.a.h lives, and eu.b with fence 4 without it")
            for plant, bounds in (
                ("block-late", "ticks=2"),
                ("host-at-ease", "ticks=2"),
                ("lend-too-much", "ticks=2"),
                ("break-promises", "ticks=1"),
                ("from-the-answer", "ticks=2"),
                ("hasty-detector", "ticks=2 resets=0"),
            )
        ],
        ("lease", "late-alarm", "ticks=2", "eu.a.h lives, and eu.b with fence 4 without it"),
        ("living", "last-view-only", "members=5 cuts=1 heals=1 tears=1", "two sides live"),
        (
            "hub",
            "deliver-before-stable",
            "messages=0 crashes=0 ticks=0",
            "view 1 was given at 1, and b does not have it",
        ),
        (
            "hub",
            "mark-before-linked",
            "messages=0 crashes=0 ticks=0",
            "a has forgotten the view that c comes with",
        ),
        (
            "hub",
            "use-old-reports",
            "crashes=0 suspicions=1 proposals=2 give_ups=1",
            "3 is x.a/m#1 1 at a, and view 3 at b",
        ),
        (
            "set",
            "silent-switch",
            "changes=0 crashes=0 losses=0 suspicions=1",
            "a committed with c, which does not keep to that change",
        ),
        (
            "set",
            "no-second-ask",
            "changes=1 crashes=0 losses=1",
            "2 parts, after faults that make at most 1",
        ),
        (
            "set",
            "skip-initiate",
            "changes=1 crashes=1 losses=0",
            "a committed with b, which does not keep to that change",
        ),
        (
            "set",
            "obey-gossip",
            "servers=4 changes=0 crashes=0 losses=0 suspicions=1",
            "3 parts, after faults that make at most 2",
        ),
        (
            "set",
            "late-isolation",
            "changes=1 crashes=0 losses=0 suspicions=1",
            "3 parts, after faults that make at most 2",
        ),
        (
            "set",
            "forget-released",
            "changes=2 crashes=1 losses=0",
            "a knew of a change that is not committed: ann",
        ),
        (
            "set",
            "beside-lanes",
            "changes=2 crashes=1 losses=0 lanes=2",
            "c is locked in a lane at a commit of the whole set",
        ),
        (
            "set",
            "lanes-beside",
            "changes=2 crashes=1 losses=0 lanes=2",
            "c is locked in a lane at a commit of the whole set",
        ),
        (
            "set",
            "silent-lanes",
            "changes=2 crashes=1 losses=1 lanes=1",
            "2 parts, after faults that make at most 1",
        ),
        (
            "reform",
            "any-base",
            "changes=2 crashes=0 haste=1",
            "one last commit, and different groups",
        ),
        ("reform", "own-part-silent", "crashes=0", "all are linked, and stay apart"),
        ("reform", "leave-alone", "crashes=1", "2 parts, after faults that make at most 1"),
        (
            "reform",
            "old-partings",
            "crashes=0 suspicions=1 links=3",
            "2 parts, after faults that make at most 1",
        ),
        ("reform", "keep-isolation", "changes=1 crashes=1", "all are linked, and stay apart"),
        ("reform", "groups-left", "changes=1 crashes=0", "one last commit, and different groups"),
        (
            "reform",
            "stale-offer",
            "changes=1 crashes=0 haste=1 lanes=1",
            "one last commit, and different groups",
        ),
        ("move", "drop-early", "crashes=0", "b has other members than those that are there"),
        ("move", "no-hand", "crashes=0", "2 sets have the group of ['a', 'p', 'b']"),
        ("move", "keep-handing", "crashes=1", "a is about to hand it on, for ever"),
        ("move", "tell-early", "crashes=1", "a host was told view 2, and then 1"),
        (
            "move",
            "same-id",
            "leaves=0 changes=0 restarts=1",
            "b has other members than those that are there",
        ),
        ("election", "double-vote", "crashes=0 suspicions=0", "two replicas lead in term 1"),
        ("election", "unwritten-vote", "crashes=1 suspicions=0", "two replicas lead in term 1"),
        (
            "election",
            "vote-for-less",
            "crashes=1 suspicions=0 changes=1",
            "the leader of term 2 lacks a change of term 1 that was committed",
        ),
        (
            "election",
            "commit-early",
            "crashes=0 suspicions=0 changes=1",
            "the leader of term 2 lacks a change of term 1 that was committed",
        ),
        (
            "election",
            "removed-returns",
            "replicas=2 crashes=1 suspicions=0 changes=1 removals=1",
            "two replicas differ in version 2048",
        ),
        (
            "election",
            "count-unstored",
            "replicas=2 crashes=2 suspicions=0 changes=1 fills=2",
            "the leader of term 2 lacks a change of term 1 that was committed",
        ),
        ("links", "resume-too-late", "", "a counts packet 1 as received; b has received up to 0"),
        (
            "links",
            "old-session",
            "suspicions=1 doubles=0",
            "b is in an epoch again that it left",
        ),
    ],
)
def test_a_planted_bug_is_found_and_its_story_can_be_told(
    name: str, plant: str, bounds: str, violation: str
) -> None:
    assert plant in MODELS[name][0].plants
    settings = dict(word.split("=") for word in bounds.split())
    model = model_named(name, settings, plant)
    found = explore(model)
    assert len(found.path) == found.depth

    story = Story.parse(story_of(model, found.path))
    assert story.text(tell(story)) == story.golden(), "it goes as it is written"
    assert story.sections[0].golden[-1].endswith(f"VIOLATED: {violation}")

    healthy = Story.parse(story_of(model, found.path).replace(f"  plant={plant}", ""))
    try:
        assert "VIOLATED" not in str(tell(healthy))
    except BadInput as error:
        assert "cannot happen" in error.what, "without the bug it comes otherwise"


def test_every_plant_is_looked_for() -> None:
    """Those of `monitor` are looked for beside its scenarios, in `test_amp_views.py`."""
    looked_for = test_a_planted_bug_is_found_and_its_story_can_be_told.pytestmark[0].args[1]
    assert {(name, plant) for name, plant, *_ in looked_for} == {
        (name, plant) for name, (kind, _) in MODELS.items() if name != "monitor" for plant in kind.plants
    }


@pytest.mark.parametrize(
    "make",
    [
        lambda: Election(ElectionBounds(attempts=1, crashes=1, suspicions=0)),
        lambda: Election(ElectionBounds(attempts=1, crashes=0, suspicions=1)),
        lambda: LinksModel(LinksBounds(messages=1, ticks=0, losses=1, doubles=1, resets=0, restarts=1)),
    ],
)
def test_states_that_differ_in_names_alone_are_one_and_no_others(make: Callable[[], Any]) -> None:
    """With and without symmetry: the classes are the same, and so is what can be done in each."""
    model = make()
    everything = states_of(model)
    classes: dict[Any, Sequence[Any]] = {}
    for state in everything:
        successors = {model.canonical(model.apply(state, action)) for action in model.actions(state)}
        known = classes.setdefault(model.canonical(state), successors)
        assert successors == known, "equal states have equal successors"
    assert set(classes) <= everything
    assert explore(make()).states == len(classes) < len(everything)


def test_a_core_is_what_its_image_says() -> None:
    """Through a storm of elections: the image holds all that a replica goes by."""
    net = VoterNet(3, 4)
    compared = 0
    for _ in range(200):
        net.run(net.random.choice((0.01, 0.1, 0.5)))
        path = net.random.choice(net.paths)
        net.random.choice((net.kill, net.restart, net.isolate, lambda path: net.heal()))(path)
        for voter in net.voters.values():
            copy = restore(image(voter.core, FIXED), voter.core)
            again = restore(image(voter.core))
            assert image(copy) == image(again) == image(voter.core)
            assert copy.up is not voter.core.up and copy.records is not voter.core.records
            before = image(voter.core)
            assert copy.step(net.now, TimerFired(STAND)) == again.step(net.now, TimerFired(STAND))
            assert image(voter.core) == before, "a copy shares nothing that changes"
            compared += 1
    assert compared > 200


def test_names_are_exchanged_wherever_they_stand() -> None:
    net = VoterNet(3, 0)
    net.run(5.0)
    a, b, c = net.paths
    value = image(net.voters[a].core)
    turned = renamed(value, {a: b, b: c, c: a})
    assert turned != value
    assert renamed(renamed(turned, {a: b, b: c, c: a}), {a: b, b: c, c: a}) == value


@pytest.mark.parametrize(
    ("name", "bounds", "plant", "says"),
    [
        ("elections", {}, None, "did you mean election?"),
        ("election", {"crash": "1"}, None, "did you mean crashes?"),
        ("election", {"crashes": "many"}, None, "crashes=2"),
        ("election", {"replicas": "9"}, None, "from 1 to 5"),
        ("election", {}, "double", "did you mean double-vote?"),
        ("links", {}, "double-vote", "one of: resume-too-late, old-session"),
    ],
)
def test_a_wrong_name_gets_the_closest(
    name: str, bounds: dict[str, str], plant: str | None, says: str
) -> None:
    with pytest.raises(BadInput) as error:
        model_named(name, bounds, plant)
    assert error.value.fix == says
