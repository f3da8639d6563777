"""The pretend world itself: what its network does to packets, and what faults do to servers and programs."""

from collections import Counter

import pytest

from benchmarks.tally import Tally
from rostra.core.effects import Ignored
from rostra.core.observer import Reporter
from rostra.core.stack import Stack
from rostra.errors import BadInput
from rostra.names import Group
from rostra.observe.trace import Names, Trace
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import Absolute, Done, Gap, Joined
from rostra.sim import (
    LAN,
    STEADY,
    T_REF,
    WAN,
    WILD,
    Constant,
    DidNotSettle,
    LineQuality,
    LinkModel,
    Lognormal,
    Uniform,
    World,
    clusters,
    even,
    shape,
)
from rostra.sim.history import AnswerRecord, Detected, NoticeRecord, ServerChanged
from rostra.sim.taps import OneCopy, RuleBroken, Scopes, tapped
from rostra.sim.twin import Twin, path

PAIR = {"haifa": ("a", "b"), "paris": ("c", "d")}


def world(**named: object) -> World:
    return World(named.pop("seed", 1), domains=PAIR, **named)


def detected(world: World, *changes: str) -> list[tuple[str, str, str]]:
    return [
        (record.server, record.peer, record.change)
        for record in world.history or ()
        if isinstance(record, Detected) and record.change in changes
    ]


# The network


@pytest.mark.parametrize("links", [STEADY, LAN, WAN, WILD, WAN.losing(0.2).duplicating(0.2).reordering(0.3)])
@pytest.mark.spec("C-026")
def test_whatever_the_network_does_members_find_each_other(links):
    w = world(links=links)
    programs = [w.program(host) for host in w.tree.hosts]
    for program in programs:
        program.join("chess")
        w.run(0.05)
    w.settle()
    everybody = tuple(program.address for program in programs)
    assert {program.members("chess") for program in programs} == {everybody}


def test_delays_are_drawn_from_what_they_say():
    luck = World(3, domains=PAIR).luck
    assert Constant(0.5).draw(luck) == 0.5
    uniform = [Uniform(1.0, 3.0).draw(luck) for _ in range(2000)]
    assert min(uniform) >= 1.0 and max(uniform) <= 3.0 and 1.9 < sum(uniform) / 2000 < 2.1
    lognormal = sorted(Lognormal(0.1, 0.5, 0.05).draw(luck) for _ in range(2000))
    assert lognormal[0] >= 0.05 and 0.09 < lognormal[1000] < 0.11 and lognormal[-1] > 0.3


def test_a_share_above_one_is_refused():
    with pytest.raises(BadInput, match="not a share"):
        STEADY.losing(1.5)


def test_a_line_keeps_its_order_unless_told_otherwise():
    """Early packets would be kept back by the links, so nothing is ever early on a line in order."""
    wild = LinkModel(lan=LineQuality(Uniform(0.0, 0.5)), wan=LineQuality(Uniform(0.0, 0.5)))
    arrived: list[int] = []

    def numbers(links: LinkModel) -> list[int]:
        w = world(links=links)
        arrived.clear()
        put_on = w.network._arrive

        def arrive(line, packet):
            if (line.sender, line.to) == ("haifa.a", "haifa") and hasattr(packet, "number"):
                arrived.append(packet.number)
            put_on(line, packet)

        w.network._arrive = arrive
        w.settle()
        program = w.program("haifa.a")
        for n in range(60):
            program.join(f"group{n}")
            w.run(0.01)
        w.settle()
        return list(arrived)

    in_order, overtaken = numbers(wild), numbers(wild.reordering(0.5))
    assert in_order == sorted(in_order)
    assert overtaken != sorted(overtaken)


@pytest.mark.parametrize(
    ("where", "cut"),
    [
        ("haifa | paris", {("haifa", "paris"), ("paris", "haifa")}),
        ("haifa > paris", {("haifa", "paris")}),
        ("haifa.a", {("haifa.a", "haifa"), ("haifa", "haifa.a")}),
        ("link haifa.a | haifa", {("haifa.a", "haifa"), ("haifa", "haifa.a")}),
        ("link paris > world", {("paris", "world")}),
        (
            "paris",
            {("paris", "haifa"), ("haifa", "paris"), ("paris", "world"), ("world", "paris")},
        ),
    ],
)
def test_words_for_lines(where, cut):
    w = world()
    assert {(line.sender, line.to) for line in w.lines(where)} == cut
    w.cut(where)
    assert {(line.sender, line.to) for line in w.lines() if line.cut} == cut
    w.heal()
    assert not any(line.cut for line in w.lines())


def test_a_host_below_a_cluster_of_eight_labels_is_cut_and_crashed_like_any_other():
    cluster = ".".join(f"d{depth}" for depth in range(8))
    w = World(1, domains={cluster: ("a", "b")}, links=STEADY)
    host = f"{cluster}.a"
    w.cut(host)
    assert {(line.sender, line.to) for line in w.lines() if line.cut} == {(host, cluster), (cluster, host)}
    w.heal().crash(host).restart(host).settle()
    assert [r.change for r in w.history or () if isinstance(r, ServerChanged) and r.server == host] == [
        "started",
        "crashed",
        "started",
    ]


def test_unknown_places_are_refused():
    with pytest.raises(BadInput, match="no server of this world"):
        world().cut("rome | paris")
    with pytest.raises(BadInput, match="there is no link"):
        world().cut("link haifa.a | haifa.b")
    with pytest.raises(BadInput, match="not a host"):
        world().program("haifa")
    with pytest.raises(BadInput, match="a tree or domains"):
        World(1)


@pytest.mark.spec("C-031")
def test_a_packet_held_across_a_cut_is_of_an_old_epoch():
    w = world(timers=LinkConfig.lan().over_datagrams())
    w.settle()
    a, c = w.program("haifa.a"), w.program("paris.c")
    c.join("chess")
    w.settle()
    w.hold("link haifa > paris")
    a.join("chess")
    w.run(3.0)
    assert ("paris", "haifa", "down") in detected(w, "down")
    w.release()
    w.settle()
    assert w.notes["Ignored", "old epoch"] > 0
    assert c.members("chess") == a.members("chess") == (a.address, c.address)


@pytest.mark.spec("C-032")
def test_a_reset_connection_loses_nothing_and_fails_nobody():
    w = world()
    programs = [w.program(host) for host in w.tree.hosts]
    w.settle()
    for program in programs:
        program.join("chess")
        w.run(0.02)
        w.reset("haifa | paris", away_s=0.3)
        w.reset("haifa.a")
    w.settle()
    assert detected(w, "down") == []
    assert {len(program.members("chess")) for program in programs} == {4}


@pytest.mark.spec("C-029", "C-030")
def test_a_one_way_cut_is_a_failure_for_both_sides():
    w = world()
    a, c = w.program("haifa.a"), w.program("paris.c")
    a.join("chess")
    c.join("chess")
    w.settle()
    w.cut("haifa > paris")
    w.settle()
    assert a.members("chess") == (a.address,) and c.members("chess") == (c.address,)
    w.heal()
    w.settle()
    assert a.members("chess") == c.members("chess") == (a.address, c.address)


# Servers


@pytest.mark.spec("C-005", "C-012", "C-117")
def test_a_restart_keeps_the_disk_and_nothing_else():
    w = world()
    w.settle()
    old = w.program("haifa.a")
    old.join("chess")
    w.register(Group("news", "world"))
    w.settle()

    w.restart("haifa.a")
    assert not old.alive
    new = w.program("haifa.a")
    assert new.join("news", permanent=True).result == Done()
    w.settle()
    assert new.address > old.address
    answer = new.resolve("chess")
    w.settle()
    assert answer.result.members == ()


def test_numbers_grow_across_lives_even_if_one_life_used_many():
    w = world()
    w.settle()
    last = None
    for n in range(1200):
        last = w.program("haifa.a", f"p{n}")
    w.restart("haifa.a")
    first = w.program("haifa.a", "p0")
    assert int(first.address.partition("#")[2]) > int(last.address.partition("#")[2])


def test_a_paused_server_catches_up_and_blames_itself():
    """Its timers fire late, what arrived waits; since it was late itself, it gives nobody up."""
    w = world()
    programs = [w.program(host) for host in w.tree.hosts]
    for program in programs:
        program.join("chess")
    w.settle()
    w.pause("haifa")
    w.run(2.5)
    programs[3].leave("chess")
    w.resume("haifa")
    w.settle()
    assert detected(w, "down") == []
    assert len(programs[0].members("chess")) == 3


def test_a_paused_agent_answers_when_it_goes_on():
    w = world()
    w.settle()
    program = w.program("haifa.a")
    w.pause("haifa.a")
    call = program.join("chess")
    w.run(1.0)
    assert call.result is None
    w.resume("haifa.a")
    w.settle()
    assert call.result == Done() and call.answered_at == pytest.approx(call.asked_at + 1.0, abs=0.01)


def test_a_slow_server_takes_its_time_for_each_event():
    def took(step_s: float) -> float:
        w = world()
        w.settle()
        w.slow("haifa", step_s)
        w.program("paris.c").join("chess", online=False)
        w.settle()
        began = w.now
        call = w.program("haifa.a").resolve("chess")
        while call.result is None:
            w.run(0.001)
        return w.now - began

    assert took(0.0) < 0.1 < took(0.1)


@pytest.mark.parametrize("step_s", [-3600.0, -1.0, 1.0, 3600.0])
def test_a_clock_that_jumps_costs_nobody_a_membership(step_s):
    w = world()
    programs = [w.program(host) for host in w.tree.hosts]
    for program in programs:
        program.join("chess")
    w.settle()
    for server in ("haifa", "paris.c"):
        w.step_clock(server, step_s)
        w.run(0.7)
    w.settle()
    programs[0].leave("chess")
    w.settle()
    assert len(programs[3].members("chess")) == 3


def test_a_crashed_host_takes_its_programs_with_it():
    w = world()
    a, b = w.program("haifa.a"), w.program("haifa.b")
    a.join("chess")
    b.join("chess")
    w.settle()
    w.crash("haifa.a")
    assert not a.alive and a.members("chess") == ()
    w.settle()
    assert b.members("chess") == (b.address,)
    with pytest.raises(BadInput, match="is down"):
        w.program("haifa.a")


def test_a_program_killed_before_its_agent_answers_leaves_nothing_behind():
    w = world()
    w.settle()
    w.pause("haifa.a")
    program = w.program("haifa.a")
    program.join("chess")
    program.kill()
    w.resume("haifa.a")
    w.settle()
    assert not w.processes["haifa.a"].stack[AGENT].endpoints


def test_a_deaf_program_is_told_of_the_gap_and_gets_a_snapshot():
    w = world()
    a, c = w.program("haifa.a"), w.program("paris.c")
    a.join("chess")
    w.settle()
    w.deafen(a)
    c.join("chess")
    w.settle()
    assert a.members("chess") == (a.address,)
    w.undeafen(a)
    w.settle()
    told = [r.notice for r in w.history or () if isinstance(r, NoticeRecord) and r.endpoint == a.address]
    assert [type(notice) for notice in told[-2:]] == [Gap, Absolute]
    assert a.members("chess") == (a.address, c.address)


# Settling


@pytest.mark.spec("C-029")
def test_a_world_settles_only_when_links_are_what_they_can_be():
    w = world()
    w.settle()
    w.crash("paris")
    w.settle()
    assert not w.processes["haifa"].node.is_up("paris")
    w.restart("paris")
    w.settle()
    assert w.processes["haifa"].node.is_up("paris") and w.processes["paris.d"].node.is_up("paris")


def test_a_world_that_cannot_settle_says_what_is_odd():
    w = world()
    w.settle()
    w.lose(1.0, "haifa | paris")  # not a cut: the world believes that this link can be up
    with pytest.raises(DidNotSettle, match="should see"):
        w.settle(at_most_s=30.0)


# Taps


class Echo(Stack):
    """A stack that says everything twice."""

    def step(self, now, event):
        effects = list(super().step(now, event))
        return [copy for effect in effects for copy in ([effect] * (2 if hasattr(effect, "message") else 1))]


@pytest.mark.spec("C-019")
def test_a_tap_objects_to_a_second_copy():
    tap = tapped(OneCopy())
    w = world(watching=lambda path, stack: tap(path, Echo(*stack.services) if path == "haifa" else stack))
    with pytest.raises(RuleBroken, match="twice"):
        w.program("haifa.a").join("chess")
        w.settle()


@pytest.mark.spec("C-009")
def test_a_tap_objects_to_a_group_outside_its_scope():
    """In a world in which haifa is no cluster, its server should hear nothing of haifa's own groups."""
    elsewhere = tapped(Scopes(clusters({"haifa.port": ("a",)})))
    w = World(1, domains={"haifa": ("a", "b")}, watching=elsewhere)
    with pytest.raises(RuleBroken, match="received"):
        w.program("haifa.a").join("chess@haifa")
        w.settle()


@pytest.mark.spec("C-144")
def test_at_rest_a_change_crosses_exactly_the_links_it_must():
    """A join crosses the links of the paths to the hosts with online members, and no others."""
    tally = Tally()
    w = World(1, T_REF, watching=tapped(tally))
    w.settle()
    observers = ["eu.fr.c1.h2", "us.ca.c2.h2", "us.ca.c2.h1"]
    for host in observers:
        w.program(host).join("g")
        w.settle()
    w.program("eu.de.c1.h1", "offline").join("g", online=False)
    w.program("eu.fr.c1.h1", "first").join("g", online=False)
    w.settle()
    tally.clear()

    w.program("eu.fr.c1.h1").join("g", online=False)
    w.settle()

    links = {
        frozenset(link)
        for host in observers
        for link in zip(path("eu.fr.c1.h1", host), path("eu.fr.c1.h1", host)[1:], strict=False)
    }
    assert tally.by_kind == Counter(EndpointsJoined=len(links))
    assert sum(tally.by_depth.values()) == len(links)
    assert tally.by_depth["EndpointsJoined", 1] == 1  # once between eu and us


# The twin, the shapes, the trace


@pytest.mark.spec("C-018", "C-019")
def test_paths_go_up_across_and_down():
    assert path("eu.fr.c1.h1", "eu.fr.c1.h1") == ("eu.fr.c1.h1",)
    assert path("eu.fr.c1.h1", "eu.fr.c1.h2") == ("eu.fr.c1.h1", "eu.fr.c1", "eu.fr.c1.h2")
    assert path("eu.fr.c1.h1", "eu.de.c2.h1")[2:4] == ("eu.fr", "eu.de")
    assert (len(T_REF.servers), len(T_REF.links())) == (31, 37)


@pytest.mark.spec("C-072")
def test_the_twin_sees_along_paths():
    twin = Twin(T_REF.hosts)
    assert not twin.sees("eu.fr.c1.h1", "eu.fr.c1.h1")  # nothing runs yet
    for server in T_REF.servers:
        twin.take(ServerChanged(0.0, 0, server, "started"))
    assert twin.sees("eu.fr.c1.h1", "us.ny.c1.h1")
    twin.cut.add(("us", "eu"))
    assert not twin.sees("eu.fr.c1.h1", "us.ny.c1.h1") and twin.sees("eu.fr.c1.h1", "eu.de.c1.h1")
    twin.take(ServerChanged(0.0, 0, "eu.fr", "paused"))
    assert twin.sees("eu.fr.c1.h1", "eu.fr.c2.h1") and not twin.sees("eu.fr.c1.h1", "eu.de.c1.h1")
    twin.take(ServerChanged(0.0, 0, "world", "crashed"))
    assert twin.sees("us.ny.c1.h1", "us.ca.c2.h2")


@pytest.mark.spec("C-010")
def test_which_servers_handle_a_group():
    twin = Twin(T_REF.hosts)
    handled = {
        scope: [domain for domain in T_REF.domains if twin.handles(domain, Group("g", scope))]
        for scope in ("eu.fr.c1.h1", "eu.fr.c1", "eu.fr")
    }
    assert handled == {
        "eu.fr.c1.h1": [],
        "eu.fr.c1": ["eu.fr.c1"],
        "eu.fr": ["eu.fr.c1", "eu.fr.c2"],
    }


def test_shapes_have_names():
    assert len(even((2, 3, 4)).hosts) == 24 and len(even((2, 3, 4)).clusters) == 6
    assert shape("pair").hosts == clusters(PAIR).hosts
    assert clusters({"site": 2}).hosts == ("site.h1", "site.h2")
    with pytest.raises(BadInput, match="no shape"):
        shape("moebius")


def test_the_trace_tells_apart_what_happened_in_one_moment():
    """Two programs hear of two things in different orders: the lines must not pretend that they agree."""
    trace = Trace(Names(shape("pair")))
    trace.write(1.0, "a", "first")
    trace.write(1.0, "a", "second")
    trace.write(1.0, "b", "second")
    trace.write(1.0, "b", "first")
    assert trace.lines() == [
        "  1.000  a         first",
        "  1.000  a b       second",
        "  1.000  b         first",
    ]


def test_a_world_that_writes_nothing_down_does_the_same():
    def run(history: bool) -> tuple[int, tuple[str, ...]]:
        w = world(links=WILD, history=history)
        programs = [w.program(host) for host in w.tree.hosts]
        for program in programs:
            program.join("chess")
        w.settle()
        return w.events, programs[0].members("chess")

    assert run(True) == run(False)
    assert world(history=False).history is None


def test_every_ignored_packet_is_counted_by_its_reason():
    w = world(links=STEADY.duplicating(0.5))
    seen: list[str] = []

    class Ear(Reporter):
        shows = {Ignored: lambda at, server, ignored: seen.append(ignored.why)}  # noqa: RUF012

    w.observe(Ear())
    w.program("haifa.a").join("chess")
    w.settle()
    counted = {why: n for (kind, why), n in w.notes.items() if kind == "Ignored"}
    assert counted == dict(Counter(seen)) and counted


def test_resolves_of_a_stranger_are_answered_and_written_down():
    w = world()
    w.program("haifa.a").join("chess")
    w.settle()
    call = w.program("paris.c").resolve("chess")
    w.settle()
    (record,) = [r for r in w.history or () if isinstance(r, AnswerRecord)]
    assert record.result == call.result and isinstance(call.result, Absolute)
    assert not isinstance(call.result, Joined)
