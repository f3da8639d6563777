"""Questions: a few rows in, a few rows out. One journal serves several questions, because each job costs."""

from itertools import pairwise

import pytest
from pyspark.sql import functions as F
from support.journal import Journal, answers, clock
from support.ways import crosses, on_the_way

from rostra.errors import BadInput
from rostra.history.places import distance, enclosing, inside, parent
from rostra.history.questions.availability import AVAILABILITY, availability
from rostra.history.questions.churn import CHURN, churn
from rostra.history.questions.convergence import CONVERGENCE, convergence
from rostra.history.questions.disagreement import DISAGREEMENT, disagreement
from rostra.history.questions.flaps import FLAPS, flaps
from rostra.history.questions.follows import FOLLOWS, follows
from rostra.history.questions.size import SIZES, size, size_seen
from rostra.history.questions.spread import SPREAD, spread
from rostra.history.questions.stays import memberships, stays
from rostra.history.questions.traffic import TRAFFIC_COST, traffic
from rostra.history.questions.who import FOLLOWERS, WHO, followers, who
from rostra.history.questions.why import WHY, removals, why
from rostra.history.shape import said
from rostra.names import Domain, Tree, parse_host
from rostra.sim.twin import path

ANN, BOB, EVE = "eu.paris.h1/ann#7", "eu.paris.h2/bob#3", "us.ny.h1/eve#5"


@pytest.fixture(scope="module")
def cut(spark):
    """Three hosts follow chess; the ocean is cut from 20 to 40, and New York leaves a second time at 60."""
    journal = Journal()
    for host in ("eu.paris.h1", "eu.paris.h2", "us.ny.h1", "us.ny.h2"):
        journal.start(host, 0)
    for server in ("eu", "us"):
        journal.start(server, 0)
    journal.write("eu", "link-up", 0.5, peer="us", life=1)
    for host, who_follows in (("eu.paris.h1", ANN), ("eu.paris.h2", BOB), ("us.ny.h1", EVE)):
        journal.write(host, "followed", 1, group="chess@world", observers=[who_follows], told=1)
        journal.write(host, "opened", 1, member=who_follows)
    for stamp, (member, at) in enumerate(((ANN, 2), (BOB, 5), (EVE, 8)), 1):
        journal.home("joined", member, at, life=1, stamp=stamp)
        for host, late in (("eu.paris.h1", 0.01), ("eu.paris.h2", 0.02), ("us.ny.h1", 0.2)):
            journal.sees(host, "joined", member, at + late, life=1, stamp=stamp, told=1)
    evidence = {"silence_s": 1.0, "limit_s": 1.0, "phi": 9.0, "threshold": 8.0, "expected_s": 0.2}
    because = {"accuser": "eu", "accused": "us", "what": "silent"}
    journal.write(
        "eu", "link-suspected", 20, peer="us", accuser="eu", accused="us", what="overdue", **evidence
    )
    journal.write("eu", "link-down", 20.5, peer="us", channel_open=False, **because, **evidence)
    journal.write("eu", "domain-failed", 20.6, peer="eu.paris", domain="us", inside=False, count=1, **because)
    lost = {"kind": "without", "cause": "without", "domain": "us", "inside": False, **because}
    journal.sees("eu.paris.h1", "left", EVE, 21, **lost)
    journal.sees("eu.paris.h2", "left", EVE, 22, **lost)
    journal.write("eu", "link-up", 40, peer="us", life=1)
    journal.sees("eu.paris.h1", "joined", EVE, 40, cause="merge", life=1, stamp=3)
    journal.sees("eu.paris.h2", "joined", EVE, 41, cause="merge", life=1, stamp=3)
    journal.home("left", EVE, 60, life=1, stamp=9, cause="crash")
    journal.write("us.ny.h1", "closed", 60, member=EVE, cause="crash")
    for host, at in (("eu.paris.h1", 59.9), ("eu.paris.h2", 60.5), ("us.ny.h1", 60.0)):
        journal.sees(host, "left", EVE, at, life=1, stamp=9, cause="crash")
    journal.write("us.ny.h2", "closing", 30)
    journal.write("eu.paris.h1", "sent", 90, peer="eu.paris", level=2, message="EndpointsJoined", count=6)
    for host in ("eu.paris.h1", "eu.paris.h2", "us.ny.h1", "eu", "us"):
        journal.write(host, "heartbeat", 100)
    return journal.frame(spark)


def test_who_was_there_depends_on_when_and_on_where_one_stands(cut):
    def seen(at, place="world"):
        return answers(
            who(cut, "chess@world", clock(at), place),
            "member",
            "seen_by",
            "followed_by",
            "agreed",
            "unseen_by",
        )

    assert seen(21.5) == [
        (ANN, 3, 3, True, []),
        (BOB, 3, 3, True, []),
        (EVE, 2, 3, False, ["eu.paris.h1"]),
    ]
    assert seen(30, "eu") == [(ANN, 2, 2, True, []), (BOB, 2, 2, True, [])]


def test_whoever_does_not_follow_cannot_tell(cut):
    """us.ny.h2 was there and looked at nothing: an empty answer that is not 'nobody'."""
    assert answers(followers(cut, "chess@world", clock(25)), "seen_by") == [
        ("eu.paris.h1",),
        ("eu.paris.h2",),
        ("us.ny.h1",),
    ]
    assert answers(followers(cut, "chess@world", clock(25), "us.ny.h2"), "seen_by") == []


def test_sizes_are_counted_at_home_and_as_each_host_saw_them(cut):
    assert answers(size(memberships(cut)), "at", "members") == [(2.0, 1), (5.0, 2), (60.0, 2), (8.0, 3)]
    assert answers(size(memberships(cut), every_s=30), "at", "members") == [(0.0, 3), (60.0, 2)]
    seen = answers(size_seen(stays(cut)), "seen_by", "at", "members")
    assert [row for row in seen if row[0] == "eu.paris.h2" and row[1] > 20] == [
        ("eu.paris.h2", 22.0, 2),
        ("eu.paris.h2", 41.0, 3),
        ("eu.paris.h2", 60.5, 2),
    ]


def test_spread_counts_members_in_every_domain_around_them(cut):
    assert answers(spread(memberships(cut), clock(10)), "depth", "domain", "members", "hosts", "share") == [
        (0, "world", 3, 3, 1.0),
        (1, "eu", 2, 2, 2 / 3),
        (1, "us", 1, 1, 1 / 3),
        (2, "eu.paris", 2, 2, 2 / 3),
        (2, "us.ny", 1, 1, 1 / 3),
        (3, "eu.paris.h1", 1, 1, 1 / 3),
        (3, "eu.paris.h2", 1, 1, 1 / 3),
        (3, "us.ny.h1", 1, 1, 1 / 3),
    ]


def test_churn_counts_a_join_once_and_lost_sight_for_everybody_who_lost_it(cut):
    columns = ("at", "joins", "leaves", "crashes", "lost", "back")
    assert answers(churn(cut, every_s=60), *columns) == [(0.0, 3, 0, 0, 2, 2), (60.0, 0, 0, 1, 0, 0)]


def test_convergence_is_measured_by_distance_and_clocks_that_differ_are_flagged(cut):
    columns = ("change", "distance", "changes", "p50_s", "max_s", "negative")
    found = {row[:2]: row[2:] for row in answers(convergence(cut), *columns)}
    assert found["joined", "host"] == (3, 0.02, 0.2, 0)
    assert found["joined", "cluster"] == (2, 0.01, 0.02, 0)
    assert found["joined", "world"] == (3, 0.2, 0.2, 0)
    assert found["joined", "everybody"] == (3, 0.2, 0.2, 0)
    assert found["left", "world"] == (1, 0.5, 0.5, 1)  # Paris heard of it 0.1 s before it happened
    assert ("joined", "region") not in found


def test_two_places_disagree_from_the_first_to_lose_a_member_to_the_last_to_see_it_again(cut):
    columns = ("group", "from_at", "until_at", "seconds", "only_here", "only_there", "example")
    assert answers(disagreement(cut, "eu.paris.h2", "us.ny.h1").where("seconds > 1"), *columns) == [
        ("chess@world", 22.0, 41.0, 19.0, 0, 1, EVE)
    ]
    # A place sees a member while any of its hosts does.
    assert answers(disagreement(cut, "eu", "us").where("seconds > 1"), "from_at", "until_at") == [
        (22.0, 40.0)
    ]
    assert answers(disagreement(cut, "eu", "us.ny.h2"), "from_at") == []  # which never looked


def test_availability_is_the_share_of_the_time_since_first_heard_of(cut):
    columns = ("what", "name", "seen_by", "up_s", "of_s", "times", "failures")
    found = answers(availability(cut), *columns)
    assert ("endpoint", "us.ny.h1/eve", "us.ny.h1", 59.0, 99.0, 1, 1) in found
    assert ("host", "us.ny.h2", "us.ny.h2", 30.0, 100.0, 1, 0) in found
    assert ("domain", "eu", "eu", 100.0, 100.0, 1, 0) in found
    assert ("link", "us", "eu", 80.0, 99.5, 2, 1) in found


def test_a_program_that_said_goodbye_is_not_missed_afterwards(spark):
    """Else whatever was started for a moment, as commands are, would be the worst of all."""
    journal = Journal()
    journal.start("eu.h1", 0)
    for name, from_s, to_s, cause in (
        *(("join-1", 10, 12, "leave"), ("shop", 10, 20, "leave"), ("shop", 40, 50, "leave")),
        *(("cart", 10, 20, "leave"), ("cart", 30, 40, "crash")),
    ):
        member = f"eu.h1/{name}#{from_s}"
        journal.write("eu.h1", "opened", from_s, member=member)
        journal.write("eu.h1", "closed", to_s, member=member, cause=cause)
    journal.write("eu.h1", "heartbeat", 110)
    found = availability(journal.frame(spark)).where("what = 'endpoint'")
    assert answers(found, "name", "up_s", "of_s", "share") == [
        ("eu.h1/cart", 20.0, 100.0, 0.2),
        ("eu.h1/join-1", 2.0, 2.0, 1.0),
        ("eu.h1/shop", 20.0, 40.0, 0.5),
    ]


def test_flaps_count_members_links_and_domains(cut):
    columns = ("what", "name", "seen_by", "times", "crashes", "suspected", "per_hour")
    assert answers(flaps(cut), *columns) == [
        ("domain", "us", None, 1, 1, 0, 36.0),
        ("link", "us", "eu", 1, 1, 1, 36.0),
        ("member", "us.ny.h1/eve", None, 1, 1, 0, 36.0),
    ]


def test_why_tells_who_knew_when_and_on_what_evidence(cut):
    story = [
        tuple(row) for row in why(cut, "us.ny.h1/eve", clock(30)).select("node", "what", "text").collect()
    ]
    assert story == [
        ("eu", "evidence", "suspected us: silent 1.0 s, usually heard every 0.2 s (phi 9.0, limit 8)"),
        ("eu", "evidence", "gave up us: silent 1.0 s, limit 1.0 s; the connection was closed"),
        ("eu", "passed", "told eu.paris: us is lost, because eu gave up us: silent"),
        ("eu.paris.h1", "told", f"lost {EVE} in chess@world: us is lost, because eu gave up us: silent"),
        ("eu.paris.h2", "told", f"lost {EVE} in chess@world: us is lost, because eu gave up us: silent"),
        ("eu", "back", "linked with us"),
        ("eu.paris.h1", "back", f"sees {EVE} in chess@world again (merge)"),
        ("eu.paris.h2", "back", f"sees {EVE} in chess@world again (merge)"),
        ("eu.paris.h1", "told", f"was told that {EVE} left chess@world (crash)"),
        ("us.ny.h1", "home", f"{EVE} left chess@world (crash)"),
        ("us.ny.h1", "home", f"{EVE} is gone: its program ended without saying goodbye"),
        ("us.ny.h1", "told", f"was told that {EVE} left chess@world (crash)"),
        ("eu.paris.h2", "told", f"was told that {EVE} left chess@world (crash)"),
    ]


def test_nobody_lost_means_no_story(cut):
    assert why(cut, ANN, clock(30)).count() == 0
    assert why(cut, EVE, clock(5)).count() == 0


def test_a_domain_is_lost_as_a_whole_and_not_with_a_part_of_it(spark):
    journal = Journal()
    journal.start("eu.paris.h1", 0)
    us, ny = (
        {"domain": "us", "accuser": "eu", "accused": "us"},
        {"domain": "us.ny", "accuser": "us", "accused": "us.ny"},
    )
    for at, whom, lost in ((10, "us.la.h1/dan#1", us), (20, EVE, ny)):
        journal.sees("eu.paris.h1", "joined", whom, at - 5)
        journal.sees("eu.paris.h1", "left", whom, at, kind="without", cause="without", inside=False, **lost)
    events = journal.frame(spark)

    def lost_at(subject):
        return answers(removals(events, subject, clock(30)), "at")

    assert lost_at("us") == lost_at("us.la") == [(10.0,)]
    assert lost_at("us.ny") == [(20.0,)]


def test_traffic_is_compared_with_the_servers_that_had_to_carry_it(cut):
    """From Paris' h1 every join reaches paris, h2, and over the ocean us, us.ny and its h1."""
    columns = ("link_level", "message", "messages", "changes", "each", "needed", "ratio")
    assert answers(traffic(cut), *columns) == [(2, "EndpointsJoined", 6, 3, 2.0, 9.0, 6 / 9)]


def test_answers_have_the_shape_that_is_declared(cut):
    when = clock(25)
    for answer, schema in (
        (who(cut, "chess@world", when), WHO),
        (followers(cut, "chess@world", when), FOLLOWERS),
        (follows(cut), FOLLOWS),
        (size(memberships(cut)), SIZES),
        (spread(stays(cut), when), SPREAD),
        (churn(cut), CHURN),
        (convergence(cut), CONVERGENCE),
        (disagreement(cut, "eu", "us"), DISAGREEMENT),
        (availability(cut), AVAILABILITY),
        (flaps(cut), FLAPS),
        (why(cut, EVE, when), WHY),
        (traffic(cut), TRAFFIC_COST),
    ):
        assert [(f.name, f.dataType) for f in answer.schema] == [(f.name, f.dataType) for f in schema]


def test_a_stretch_needs_a_length(cut):
    with pytest.raises(BadInput, match="no length"):
        churn(cut, every_s=0)


def test_paths_are_walked_as_the_simulator_walks_them(spark):
    """Every pair of hosts of an uneven world, every server and every link: on the way or not."""
    tree = Tree.of(
        parse_host(h) for h in ("lab.h1", "lab.h2", "eu.p.h1", "eu.p.h2", "eu.r.h1", "us.ca.sf.h1")
    )
    pairs = [(a, b) for a in tree.hosts for b in tree.hosts if a != b]
    hosts = spark.createDataFrame(pairs, "a string, b string")
    links = spark.createDataFrame([tuple(link) for link in tree.links()], "u string, v string")
    servers = spark.createDataFrame([(s,) for s in tree.servers], "s string")
    c = F.col
    over = hosts.crossJoin(links).where(crosses(c("u"), c("v"), c("a"), c("b"))).collect()
    through = hosts.crossJoin(servers).where(on_the_way(c("s"), c("a"), c("b"))).collect()
    ways = {(a, b): path(Domain(a), Domain(b)) for a, b in pairs}
    assert {(r.a, r.b, frozenset((r.u, r.v))) for r in over} == {
        (a, b, frozenset(step)) for (a, b), way in ways.items() for step in pairwise(way)
    }
    assert {(r.a, r.b, r.s) for r in through} == {(a, b, s) for (a, b), way in ways.items() for s in way}
    words = hosts.where(c("a") == "eu.p.h1").select(
        "b",
        distance(c("a"), c("b")),
        parent(c("b")),
        inside("eu", c("b")),
        F.element_at(enclosing(c("b")), -2),
    )
    assert sorted(tuple(row) for row in words.collect()) == [
        ("eu.p.h2", "cluster", "eu.p", True, "eu.p"),
        ("eu.r.h1", "region", "eu.r", True, "eu.r"),
        ("lab.h1", "world", "lab", False, "lab"),
        ("lab.h2", "world", "lab", False, "lab"),
        ("us.ca.sf.h1", "world", "us.ca.sf", False, "us.ca.sf"),
    ]


def test_words_for_people_have_columns_in_them(spark):
    given = spark.createDataFrame([("eu", None, 0.04, 9.96)], "a string, b double, c double, d double")
    words = said("{a} lost {b}[ of {b}][ for {c:s}]: {d:s}, {d:1} {how}[, {c} of {b:1}]", how=F.lit("or so"))
    [row] = given.select(words.alias("text")).collect()
    assert row["text"] == "eu lost ? for 0.04 s: 10 s, 10.0 or so"
