"""The acceptance scenarios of the Congress specification, over its reference tree and many random networks.

Whole nodes take part: cores, links and detectors. After every rest the scene compares every view, every
answer and every table with the twin, and asks the checkers (see `support.scene`).
"""

import os

import pytest
from support.scene import Scene

from rostra.groups.members import Cause, Part
from rostra.names import Group, inside
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.requests import (
    Absolute,
    Denied,
    Done,
    Joined,
    Left,
    Message,
    NotDelivered,
    Only,
    Resolved,
    Without,
)
from rostra.sim import T_REF
from rostra.sim.history import Detected


def everywhere(scene: Scene, group: str = "g") -> dict[str, object]:
    """An online member on every host."""
    members = {host: scene.member(host, group) for host in T_REF.hosts}
    scene.rest()
    return members


@pytest.mark.spec("A-01", "C-036", "C-038", "C-057")
def test_whoever_resolves_gets_everybody(scene):
    members = [scene.member(host) for host in ("eu.fr.c1.h1", "eu.de.c2.h1", "us.ca.c2.h2")]
    scene.rest()
    stranger = scene.program("us.ny.c1.h1")

    call = stranger.resolve("g")
    scene.rest()

    assert [member.endpoint for member in call.result.members] == sorted(m.address for m in members)
    assert scene.told(stranger) == []


@pytest.mark.spec("A-02", "C-045", "C-046", "C-047", "C-058")
def test_a_join_is_announced_to_those_who_are_online(scene):
    a, b = scene.member("eu.fr.c1.h1"), scene.member("eu.fr.c1.h2", online=False)
    scene.rest()
    scene.mark()

    c = scene.member("us.ca.c2.h2")
    scene.rest()

    (joined,) = scene.told(a)
    assert (type(joined), joined.cause, joined.complete_for) == (Joined, Cause.JOIN, None)
    assert [member.endpoint for member in joined.members] == [c.address]
    assert scene.told(b) == []
    (absolute,) = scene.told(c)
    assert isinstance(absolute, Absolute)
    assert [member.endpoint for member in absolute.members] == sorted((a.address, b.address, c.address))


@pytest.mark.spec("A-03", "C-011", "C-051", "C-061")
def test_a_leave_is_announced_and_the_last_one_leaves_nothing_behind(scene):
    a, b, c = (
        scene.member(host, online=online)
        for host, online in (("eu.fr.c1.h1", True), ("eu.fr.c1.h2", False), ("us.ca.c2.h2", True))
    )
    scene.rest()
    scene.mark()

    c.leave("g")
    scene.rest()

    (left,) = scene.told(a)
    assert (type(left), left.endpoint, left.cause) == (Left, c.address, Cause.LEAVE)
    assert scene.told(b) == scene.told(c) == []

    a.leave("g")
    b.leave("g")
    scene.rest()
    assert all(not scene.world.processes[domain].stack[SERVER].table.rows for domain in T_REF.domains)


@pytest.mark.spec("A-04", "C-007", "C-009", "C-037", "C-148")
def test_no_message_leaves_its_scope(scene):
    """The scene's tap refuses any message outside its scope; here we also see that there were messages."""
    scopes = ("eu.fr.c1", "eu.fr", "eu", "world")
    for scope in scopes:
        scene.member("eu.fr.c1.h1", f"g@{scope}", name=f"near-{scope}")
        scene.member("eu.fr.c1.h2", f"g@{scope}", name=f"next-{scope}")
    far = scene.member("us.ny.c1.h1", "g@world")
    scene.rest()

    from_inside = scene.program("eu.fr.c1.h1", "asker").resolve_everywhere("g")
    from_outside = far.resolve_everywhere("g")
    scene.rest()

    assert isinstance(from_inside.result, Resolved)
    found = {scope: len(members) for scope, members in from_inside.result.parts}
    assert found == {"eu.fr.c1.h1": 0, "eu.fr.c1": 2, "eu.fr": 2, "eu": 2, "world": 3}
    found = {scope: len(members) for scope, members in from_outside.result.parts if members}
    assert found == {"world": 3}
    assert scene.tally.by_kind["EndpointsJoined"] > 0


@pytest.mark.spec("A-05", "C-034", "C-114")
def test_a_dead_program_leaves_each_of_its_groups_once(scene):
    groups = ("g", "h", "i")
    victim = scene.program("eu.fr.c1.h1")
    for group in groups:
        victim.join(group)
    observers = [scene.member(host, "g") for host in ("eu.fr.c1.h2", "us.ca.c2.h2")]
    for observer in observers:
        observer.join("h")
        observer.join("i")
    scene.rest()
    scene.mark()

    calls = [victim.resolve("g"), victim.resolve("h")]
    scene.run(0.3)
    unanswered = [call for call in calls if call.result is None]
    victim.kill()
    scene.rest()

    for observer in observers:
        left = scene.told(observer)
        assert [(type(n), n.group.name, n.cause) for n in left] == [(Left, g, Cause.CRASH) for g in groups]
    assert all(call.result is None for call in unanswered)


@pytest.mark.spec("A-06", "C-022", "C-063", "C-064")
def test_a_dead_host_is_told_as_one_domain(scene):
    members = everywhere(scene)
    second = scene.member("eu.fr.c1.h2", name="second")
    scene.rest()
    scene.mark()

    scene.world.crash("eu.fr.c1.h2")
    scene.rest()

    for host, member in members.items():
        if host != "eu.fr.c1.h2":
            assert [(type(n), n.domain) for n in scene.told(member)] == [(Without, "eu.fr.c1.h2")], host
    assert not second.alive


@pytest.mark.spec("A-07", "A-09", "C-059", "C-060", "C-062", "C-135")
def test_each_side_of_a_partition_goes_on_alone_and_merges(scene):
    members = everywhere(scene)
    scene.mark()

    scene.world.cut("eu | us")
    scene.rest()
    for host, member in members.items():
        other = "us" if inside("eu", host) else "eu"
        assert [(type(n), n.domain) for n in scene.told(member)] == [(Without, other)], host

    new = {side: scene.member(f"{side}.h1", name="new") for side in ("eu.fr.c1", "us.ny.c1")}
    scene.rest()
    for host, member in members.items():
        mine, theirs = (new["eu.fr.c1"], new["us.ny.c1"])[:: 1 if inside("eu", host) else -1]
        assert mine.address in member.members("g") and theirs.address not in member.members("g")

    scene.mark()
    scene.world.heal()
    scene.rest()
    for host, member in members.items():
        other = "us" if inside("eu", host) else "eu"
        merged = scene.told(member)
        assert [(type(n), n.cause) for n in merged] == [(Joined, Cause.MERGE)] * len(merged), host
        assert merged and all(n.complete_for == Part(True, other) for n in merged), host
        assert len(member.members("g")) == 18


@pytest.mark.spec("A-08", "C-023", "C-035", "C-062", "C-138")
def test_a_cluster_server_dies_and_comes_back_with_an_empty_memory(scene):
    members = everywhere(scene)
    before = {host: member.members("g") for host, member in members.items()}
    scene.mark()

    scene.world.crash("eu.fr.c1")
    scene.rest()
    for host, member in members.items():
        inner = inside("eu.fr.c1", host)
        expected = (Only, host) if inner else (Without, "eu.fr.c1")
        assert [(type(n), n.domain) for n in scene.told(member)] == [expected], host

    scene.world.restart("eu.fr.c1")
    scene.rest()
    assert {host: member.members("g") for host, member in members.items()} == before


@pytest.mark.spec("A-10", "C-059", "C-067")
def test_what_changed_on_both_sides_of_a_cut_is_merged(scene):
    members = everywhere(scene)
    scene.world.cut("eu | us")
    scene.run(6.0)  # sometimes before anybody has noticed

    members["us.ny.c1.h2"].leave("g")
    scene.run(1.0)
    newcomer = scene.member("us.ca.c1.h1", name="newcomer")
    members["eu.de.c2.h1"].leave("g")
    scene.run(6.0)
    scene.world.heal()
    scene.rest()

    for host in ("eu.fr.c1.h1", "us.ca.c2.h2"):
        seen = members[host].members("g")
        assert newcomer.address in seen and len(seen) == 15


@pytest.mark.spec("A-11", "C-062", "C-063", "C-132")
def test_a_country_server_dies_and_its_clusters_still_see_each_other(scene):
    members = everywhere(scene)
    scene.mark()

    scene.world.crash("eu.fr")
    scene.rest()
    for host, member in members.items():
        expected = (Only if inside("eu.fr", host) else Without, "eu.fr")
        assert [(type(n), n.domain) for n in scene.told(member)] == [expected], host
    assert len(members["eu.fr.c1.h1"].members("g")) == 4

    scene.world.restart("eu.fr")
    scene.rest()
    assert len(members["us.ny.c1.h1"].members("g")) == 16


@pytest.mark.spec("A-12", "C-005", "C-076", "C-138")
def test_a_server_is_restarted_twice_while_programs_join(scene):
    for host in T_REF.hosts[::3]:
        scene.member(host)
    scene.run(1.0)
    for host in T_REF.hosts[::2]:
        scene.member(host, name="late")
        scene.run(0.1)
        if host in T_REF.hosts[:6:4]:
            scene.world.restart("eu")
    scene.rest()


@pytest.mark.spec("A-13", "C-079", "C-097")
def test_two_clusters_that_pruned_each_other_find_each_other_again(scene):
    first = [scene.member(host, online=False) for host in ("eu.fr.c1.h1", "eu.fr.c2.h1")]
    scene.rest()
    for member in first:
        member.leave("g")
    for host in ("eu.fr.c1.h2", "eu.fr.c2.h2"):
        scene.program(host, "asker").resolve("g")
    scene.rest()

    second = [scene.member(host, online=False, name="second") for host in ("eu.fr.c1.h1", "eu.fr.c2.h1")]
    scene.rest()  # resolves from every host, these two among them
    assert scene.comparison.twin.seen_from("eu.fr.c1.h1", Group("g", "world")) == tuple(
        member.address for member in second
    )


@pytest.mark.spec("A-14", "C-050", "C-099")
def test_interest_rises_at_the_moment_somebody_joins_far_away(scene):
    observer = scene.member("eu.fr.c1.h1", online=False)
    scene.rest()
    for _ in range(3):
        scene.world.delay(scene.luck.choice((0.0, 0.3, 1.0)), "link eu > us")
        scene.world.delay(scene.luck.choice((0.0, 0.3, 1.0)), "link us > eu")
        newcomer = scene.program("us.ca.c2.h2", f"n{scene.world.now:.0f}")
        newcomer.join("g", online=False)
        scene.run(0.6)
        observer.go_online("g")
        scene.world.run(3.0)
        scene.world.delay(0.0)
        scene.rest()
        assert newcomer.address in observer.members("g")
        newcomer.close()
        observer.go_offline("g")
        scene.rest()


@pytest.mark.spec("A-15", "C-110", "C-128")
def test_a_joiner_does_not_share_an_older_question(scene):
    for host in ("us.ny.c1.h1", "eu.de.c1.h1"):
        scene.member(host, online=False)
    p = scene.member("eu.fr.c1.h1", online=False)
    scene.rest()  # by now the Germans know that the French do not want to hear of changes
    scene.world.delay(1.5, "link eu | us")
    p.resolve("g")
    scene.world.run(1.0)  # the German part has been answered
    n = scene.member("eu.de.c1.h2", online=False)
    scene.run(0.4)
    q = scene.member("eu.fr.c1.h1", name="q")
    scene.world.run(5.0)
    scene.world.delay(0.0)
    scene.rest()
    assert n.address in q.members("g")


@pytest.mark.spec("A-16", "C-119", "C-128")
def test_the_first_join_in_a_pruned_branch_is_in_the_answer(scene):
    scene.member("eu.fr.c1.h1")
    scene.member("us.ny.c1.h1", online=False)
    scene.rest()  # by now the French know that nobody is in Germany
    scene.world.delay(1.5, "link eu | us")
    q = scene.member("eu.fr.c1.h2", name="q")
    scene.run(2.5)
    d = scene.member("eu.de.c1.h1", online=False)
    scene.world.run(5.0)
    scene.world.delay(0.0)
    scene.rest()
    assert d.address in q.members("g")


@pytest.mark.spec("A-17", "C-052", "C-129")
def test_a_join_overtaken_by_a_gap_in_interest_leaves_no_ghost(scene):
    observer = scene.member("eu.fr.c1.h1")
    other = scene.member("us.ny.c1.h1", online=False)
    scene.rest()  # by now America takes Europe at its word
    scene.world.delay(2.5, "link us > eu")
    scene.member("us.ca.c2.h2", online=False)
    scene.world.run(0.6)  # the join is on the slow line
    observer.leave("g")
    scene.world.run(0.6)  # nobody in Europe wants to hear of changes any more
    scene.world.restart("us.ca.c2.h2")
    scene.run(0.8)
    observer.join("g")  # asks, while the join is still on its way
    scene.world.run(6.0)
    scene.world.delay(0.0)
    scene.rest()
    assert observer.members("g") == (observer.address, other.address)


@pytest.mark.spec("A-18", "C-136")
def test_a_merge_that_nobody_waits_for_any_more_is_called_off(scene):
    observer = scene.member("eu.fr.c1.h1")
    others = [scene.member(host) for host in ("us.ny.c1.h1", "us.ca.c2.h2")]
    scene.rest()
    scene.world.cut("eu | us")
    scene.rest()
    scene.world.delay(0.5, "link us > eu")
    scene.world.heal()
    while not scene.world.processes["eu"].node.is_up("us"):
        scene.world.run(0.05)

    scene.run(0.6)
    observer.go_offline("g")
    scene.run(0.6)
    others[0].leave("g")
    scene.run(0.6)
    late = scene.member("eu.fr.c2.h2", name="late")
    scene.world.run(3.0)
    scene.world.delay(0.0)
    scene.rest()
    assert late.members("g") == tuple(sorted((observer.address, others[1].address, late.address)))


@pytest.mark.spec("A-19", "C-180", "C-185")
def test_a_slow_server_delays_answers_and_a_stopped_one_is_given_up(scene):
    members = everywhere(scene)
    down_after_s = scene.world.timers.detect.down_after_s
    asker = scene.program("eu.fr.c1.h1", "asker")
    scene.mark()

    # Not the spec's 0.8: the last heartbeat before the pause may be a whole interval old when it begins.
    scene.world.pause("us.ca")
    patient, hasty = asker.resolve("g"), asker.resolve("g", deadline_s=0.5 * down_after_s)
    scene.world.run(0.7 * down_after_s)
    assert patient.result is None and isinstance(hasty.result, Denied) and hasty.result.code == "DEADLINE"
    scene.world.resume("us.ca")
    scene.rest()
    assert len(patient.result.members) == 16
    assert all(scene.told(member) == [] for member in members.values())

    scene.world.pause("us.ca")
    scene.world.run(2 * down_after_s)
    for host, member in members.items():
        expected = (Only if inside("us.ca", host) else Without, "us.ca")
        assert [(type(n), n.domain) for n in scene.told(member)] == [expected], host
    scene.world.resume("us.ca")
    scene.rest()
    assert {len(member.members("g")) for member in members.values()} == {16}


@pytest.mark.spec("A-20", "C-027", "C-030")
def test_a_suspicion_of_one_side_is_known_to_both(scene):
    members = everywhere(scene)
    began = scene.world.now

    scene.world.delay(2 * scene.world.timers.detect.down_after_s, "link eu.fr.c1 > eu.fr")
    scene.world.run(30.0)
    scene.world.delay(0.0)
    scene.rest()

    def seen(server: str, peer: str) -> list[str]:
        return [
            record.change
            for record in scene.world.history
            if isinstance(record, Detected)
            and record.at > began
            and (record.server, record.peer) == (server, peer)
            and record.change in ("up", "down")
        ]

    above, below = seen("eu.fr", "eu.fr.c1"), seen("eu.fr.c1", "eu.fr")
    assert above == below == ["down", "up"] * (len(above) // 2) and above
    assert len(members["us.ny.c1.h1"].members("g")) == 16


@pytest.mark.spec("A-21", "C-152", "C-153", "C-154", "C-156")
def test_messages_keep_their_place_among_membership_events(scene):
    q, p = scene.member("eu.fr.c1.h1"), scene.program("eu.fr.c1.h2")
    scene.rest()
    scene.mark()
    p.join("g")
    p.send(b"I am here", q)
    scene.rest()
    assert [type(n) for n in scene.told(q)] == [Joined, Message]

    scene.mark()
    x = scene.member("us.ca.c2.h2")
    while not any(isinstance(n, Joined) for n in scene.told(p)):
        scene.world.run(0.001)
    p.send(b"x is here", q)
    scene.rest()
    assert [type(n) for n in scene.told(q)] == [Joined, Message]

    scene.mark()
    scene.world.cut("us.ca.c2.h2")
    scene.run(8.0)
    p.send(b"anybody?", x)
    scene.rest()
    assert [n for n in scene.told(x) if isinstance(n, Message)] == []
    assert len([n for n in scene.told(p) if isinstance(n, NotDelivered)]) <= 1


@pytest.mark.spec("A-24", "C-012", "C-013", "C-014", "C-043")
def test_permanent_names(scene):
    scene.world.register(Group("news", "eu"))
    scene.rest()

    a, b, c = (scene.program(host) for host in ("eu.fr.c1.h1", "eu.de.c2.h1", "us.ny.c1.h1"))
    empty = a.resolve("news@eu")
    scene.rest()
    assert empty.result.members == ()

    permanent = a.join("news@eu", permanent=True)
    spontaneous = b.join("news@eu")
    elsewhere = c.join("news@us", permanent=True)
    beside = c.join("news@us")
    assert permanent.result == beside.result == Done()
    assert spontaneous.result.code == "GROUP_IS_PERMANENT"
    assert elsewhere.result.code == "NO_SUCH_PERMANENT_GROUP"

    for server in ("eu", "eu.de", "eu.de.c2", "eu.de.c2.h2"):
        scene.world.restart(server)
    scene.rest()
    assert scene.program("eu.de.c2.h2").join("news@eu", permanent=True).result == Done()


@pytest.mark.spec("A-25", "C-072")
def test_only_the_link_between_two_clusters_is_cut(scene):
    members = everywhere(scene)
    scene.world.cut("link eu.fr.c1 | eu.fr.c2")
    scene.rest()
    for host, member in members.items():
        missing = [
            cluster
            for cluster in ("eu.fr.c1", "eu.fr.c2")
            if inside("eu.fr", host) and not inside(cluster, host)
        ]
        assert len(member.members("g")) == (14 if missing else 16)
        assert not any(inside(cluster, seen) for seen in member.members("g") for cluster in missing)
    scene.world.heal()
    scene.rest()
    assert {len(member.members("g")) for member in members.values()} == {16}


@pytest.mark.spec("C-020")
def test_the_root_may_die_without_anybody_being_told(scene):
    members = everywhere(scene)
    scene.mark()
    scene.tally.clear()
    scene.world.crash("world")
    scene.rest()
    assert all(scene.told(member) == [] for member in members.values())
    assert scene.tally.by_kind["DomainFailed"] == 0


@pytest.mark.spec("A-23", "C-040", "C-041", "C-069")
def test_everybody_is_answered_once_through_churn_and_cuts(scene):
    """The spec's ten minutes at fifty events a second are `ROSTRA_LONG=1`; here it is a busy quarter of a
    minute."""
    long = bool(os.environ.get("ROSTRA_LONG"))
    crowd, minutes = (200, 10.0) if long else (40, 0.25)
    luck, world = scene.luck, scene.world
    resolvers = [scene.program(host, "resolver") for host in (*T_REF.hosts, *T_REF.hosts[:4])[:16]]
    alive = []
    calls = []
    ends = world.now + 60.0 * minutes
    while world.now < ends:
        match luck.choice(("join", "join", "leave", "kill", "resolve", "resolve", "cut")):
            case "join" if len(alive) < crowd:
                alive.append(scene.member(luck.choice(T_REF.hosts), name=f"p{world.now:.6f}"[:60]))
            case "leave" if alive:
                alive.pop(luck.randrange(len(alive))).close()
            case "kill" if alive:
                alive.pop(luck.randrange(len(alive))).kill()
            case "resolve":
                calls += [luck.choice(resolvers).resolve("g") for _ in range(2)]
            case "cut" if luck.random() < 0.02:
                world.heal()
                world.cut("link {} | {}".format(*luck.choice(T_REF.links())))
        world.run(luck.expovariate(50.0))
    world.heal()
    scene.rest()

    assert len(calls) > 50
    assert all(isinstance(call.result, Absolute) for call in calls)
    by_caller: dict[object, list[float]] = {}
    for call in calls:
        by_caller.setdefault(call.program, []).append(call.answered_at)
    assert all(answered == sorted(answered) for answered in by_caller.values())
