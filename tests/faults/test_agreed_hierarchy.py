"""Servers in a tree of sets, agents at its leaves: who watches whom, and who agrees on whose loss."""

from typing import Any

import pytest
from msgspec import json

from rostra.core.effects import Event, Received, Send
from rostra.errors import BadInput, NoSuchGroup
from rostra.impair.quality import LineQuality, Uniform
from rostra.names import Domain, Group, Tree, parent
from rostra.node import Node
from rostra.protocols.agreed.agent import AGREED_AGENT
from rostra.protocols.agreed.branch import MemberAsked
from rostra.protocols.agreed.changes import ServersFailed
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.events import SetCommitted
from rostra.protocols.agreed.moving import MovingServer
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.messages import Inquiry, InquiryReply
from rostra.protocols.relaxed.requests import Done, Recall, Recalled
from rostra.sim.network import LinkModel
from rostra.sim.programs import SimProgram
from rostra.sim.shapes import clusters
from rostra.sim.world import World

LAN = LinkConfig.lan().over_datagrams()
EU = Domain("eu")


def joined(world: World, group: Group, *hosts: str, for_s: float = 1.0) -> list[SimProgram]:
    programs = []
    for host in hosts:
        program = world.program(host, f"p{len(world.programs)}")
        call = program.join_agreed(group)
        world.run(for_s)
        assert call.result == Done(), call.result
        programs.append(program)
    return programs


def set_members(world: World, at: str, name: Domain) -> list[str]:
    server = world.processes[Domain(at)].stack[AGREED_SERVER]
    return sorted([each.server for each in server.sets[name].core.state.view.servers])


@pytest.mark.spec("V-001")
def test_a_campus_of_eleven_lans_is_a_tree_of_sets() -> None:
    lans = {f"b{1 + lan // 4}.l{lan}": 2 for lan in range(11)}
    tree = clusters(lans)
    assert len(tree.clusters) == 11
    assert {name: len(tree.children[Domain(name)]) for name in ("world", "b1", "b2", "b3")} == {
        "world": 3,
        "b1": 4,
        "b2": 4,
        "b3": 3,
    }
    for server in tree.servers:
        above = [each for each in tree.neighbours(server) if server != "world" and each == parent(server)]
        assert len(above) == (0 if server == "world" else 1), "each has one parent, but the top"
        children = tree.children.get(server, ())
        assert len({each in tree.hosts for each in children}) <= 1, "servers or hosts, never both"
    with pytest.raises(BadInput, match="both hosts and domains"):
        Tree.of([Domain("b1.l1"), Domain("b1.l2.h1")])


@pytest.mark.spec("V-004")
def test_one_agent_serves_many_members_of_many_groups_and_is_their_only_way_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(7, domains={"eu.fr": 2, "eu.de": 1}, timers=LAN)
    world.run(4.0)
    senders: set[Domain] = set()
    step = MovingServer.step

    def noted(self: MovingServer, now: float, event: Event) -> Any:
        if isinstance(event, Received):
            senders.add(event.sender)
        return step(self, now, event)

    monkeypatch.setattr(MovingServer, "step", noted)
    groups = [Group(name, EU) for name in ("chess", "go", "bridge")]
    for group in groups:
        members = joined(world, group, *["eu.fr.h1"] * 4)
        order = tuple([each.address for each in members])
        assert [each.agreed[group].members for each in members] == [order] * 4
    assert senders <= set(world.tree.servers), "agents and servers, and no program"


@pytest.mark.spec("V-005")
def test_an_agent_without_members_keeps_nothing_and_the_next_join_needs_no_set_up() -> None:
    world = World(7, domains={"paris": 2}, timers=LAN)
    world.run(2.0)
    group = Group("chess", Domain("paris"))
    (ann,) = joined(world, group, "paris.h1")
    agent = world.processes[Domain("paris.h1")].stack[AGREED_AGENT]
    assert list(agent.groups) == [group]
    ann.leave_agreed(group)
    world.run(1.0)
    assert not agent.groups and agent.up
    (bob,) = joined(world, group, "paris.h1")
    assert bob.agreed[group].members == (bob.address,)


@pytest.mark.spec("V-010", "V-017")
def test_the_loss_of_a_lans_server_is_agreed_on_in_its_own_set_and_in_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(7, tree=clusters({f"b{b}.l{n}": 1 for b in (1, 2) for n in (1, 2, 3)}), timers=LAN)
    world.run(4.0)
    for building in ("b1", "b2"):
        hosts = [f"{building}.l{n}.h1" for n in (1, 2, 3)]
        joined(world, Group("local", Domain(building)), *hosts)
    seen: list[Domain] = []
    perform = MovingServer._perform

    def noted(self: MovingServer, core: Any, effects: Any, out: Any) -> None:
        effects = list(effects)
        seen.extend(
            core.core.set
            for effect in effects
            if isinstance(effect, SetCommitted) and isinstance(effect.record.proposal.change, ServersFailed)
        )
        perform(self, core, effects, out)

    monkeypatch.setattr(MovingServer, "_perform", noted)
    world.crash("b1.l3")
    world.run(10.0)
    assert seen and set(seen) == {"b1"}
    assert set_members(world, "b1.l1", Domain("b1")) == ["b1", "b1.l1", "b1.l2"]
    assert set_members(world, "b2.l1", Domain("b2")) == ["b2", "b2.l1", "b2.l2", "b2.l3"]


@pytest.mark.spec("V-012", "V-019")
@pytest.mark.parametrize("seed", range(3))
def test_agents_go_to_the_next_replica_of_a_lost_server_and_no_member_is_lost(seed: int) -> None:
    """The list of servers that an agent may attach to is that of its server's replicas."""
    world = World(seed, domains={"paris": 3, "rome": 1}, replicas={"paris": 3}, timers=LAN)
    world.run(6.0)
    group = Group("chess", Domain("paris"))
    members = joined(world, group, "paris.h1", "paris.h2", "paris.h3")
    order = tuple([each.address for each in members])
    before = world.replicas.leaders[Domain("paris")]
    world.crash("paris")
    world.run(30.0)
    assert world.replicas.leaders[Domain("paris")] not in (before, None)
    for each in members:
        assert each.agreed[group].members == order and not each.agreed[group].blocked
        views = [item for item in each.agreed[group].items if isinstance(item, MemberView)]
        assert not any(view.failed or view.left for view in views)
    (late,) = joined(world, group, "paris.h2", for_s=3.0)
    assert members[0].agreed[group].members == (*order, late.address)


@pytest.mark.spec("V-013")
def test_one_silent_host_of_ten_is_found_out_alone_and_within_the_bound() -> None:
    """As amended: links watch hosts. What is lost is gathered for half a second before it is one change."""
    world = World(7, domains={"paris": 10}, timers=LAN)
    world.run(3.0)
    group = Group("chess", Domain("paris"))
    members = joined(world, group, *[f"paris.h{n + 1}" for n in range(10)], for_s=0.2)
    world.pause("paris.h4")
    world.run(LAN.detect.down_after_s + LAN.detect.stretch_max_s + LAN.tick_s + 1.0)
    rest = tuple([each.address for each in members if each.host != "paris.h4"])
    assert {each.agreed[group].members for each in members if each.host != "paris.h4"} == {rest}
    assert members[0].agreed[group].view.failed == (members[3].address,)


@pytest.mark.spec("V-013")
def test_a_fifth_of_all_packets_lost_is_no_failure() -> None:
    lossy = LinkModel(LineQuality(Uniform(0.0001, 0.001), loss=0.2), LineQuality(Uniform(0.005, 0.02)))
    world = World(3, domains={"paris": 10}, links=lossy, timers=LAN)
    world.run(5.0)
    group = Group("chess", Domain("paris"))
    members = joined(world, group, *[f"paris.h{n + 1}" for n in range(10)], for_s=2.0)
    world.run(60.0)
    order = tuple([each.address for each in members])
    assert {each.agreed[group].members for each in members} == {order}
    assert members[0].agreed[group].view.number == 10


@pytest.mark.spec("V-014", "V-015")
def test_servers_of_a_set_watch_each_other_also_when_they_have_nothing_to_agree_on() -> None:
    """As amended: every two of them by a link of their own, so that two that die together are both seen."""
    sites = [f"eu.s{n}" for n in range(1, 6)]
    world = World(7, domains=dict.fromkeys(sites, 1), timers=LAN)
    world.run(4.0)
    group = Group("chess", EU)
    members = joined(world, group, *[f"{site}.h1" for site in sites])
    assert set_members(world, "eu.s1", EU) == ["eu", *sites]
    for site in sites:
        siblings = {each for each in world.tree.neighbours(Domain(site)) if parent(each) == EU}
        assert siblings == {Domain(each) for each in sites if each != site}
    world.crash("eu.s2")
    world.crash("eu.s3")
    world.run(LAN.detect.down_after_s + LAN.detect.stretch_max_s + 5.0)
    assert set_members(world, "eu.s1", EU) == ["eu", "eu.s1", "eu.s4", "eu.s5"]
    rest = tuple([each.address for each in members if each.host not in ("eu.s2.h1", "eu.s3.h1")])
    assert members[0].agreed[group].members == rest


@pytest.mark.spec("V-033", "V-036")
@pytest.mark.parametrize(
    ("cluster", "scope", "climbs"),
    [("eu.fr", "eu", ""), ("eu.fr.paris", "eu", "eu.fr"), ("eu.fr", "world", "eu")],
)
@pytest.mark.parametrize("create", [False, True])
def test_a_search_climbs_to_its_limit_and_no_farther(
    monkeypatch: pytest.MonkeyPatch, cluster: str, scope: str, climbs: str, create: bool
) -> None:
    """The limit is the scope that the program names; of all servers, only those within it hear the name. So
    does the request of a join, once the scope's server has the claim."""
    tree = clusters({cluster: 1, "eu.de": 1, "us.ny": 1})
    world = World(7, tree=tree, timers=LAN, agreed=AgreedConfig(moves=True))
    world.run(4.0)
    heard: set[Domain] = set()
    for path, process in world.processes.items():
        step = process.stack.step

        def noted(now: float, event: Event, path: Domain = path, step: Any = step) -> Any:
            out = step(now, event)
            for effect in out:
                message = effect.message if isinstance(effect, Send) else None
                if isinstance(message, MemberAsked) or (not create and "nobodys" in str(message)):
                    heard.add(effect.to)
            return out

        monkeypatch.setattr(process.stack, "step", noted)
    ann = world.program(f"{cluster}.h1", "ann")
    call = ann.join_agreed(Group("nobodys", Domain(scope)), create=create)
    world.run(3.0)
    assert call.result == Done() if create else call.result.code == NoSuchGroup.code
    servers = {each for each in heard if not each.endswith(".h1")}
    assert servers == {Domain(each) for each in (cluster, climbs) if each}, "one of the scope's set answers"


@pytest.mark.spec("V-006")
def test_what_a_remote_member_is_in_is_answered_by_its_own_agent_and_needs_no_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request goes up from the asking agent to the agent that manages the member, and the answer back the
    same way; what changes at that agent alone is in the next answer."""
    world = World(7, domains={"eu.fr": 1, "eu.de": 1}, timers=LAN)
    world.run(4.0)
    group = Group("chess", EU)
    ann, bob = joined(world, group, "eu.fr.h1", "eu.de.h1")
    way: list[tuple[str, Domain]] = []
    perform = Node._perform

    def noted(self: Node, effects: Any, outputs: Any) -> None:
        effects = list(effects)
        way.extend((self.path, each.to) for each in effects if isinstance(each, Send) and _asks(each.message))
        perform(self, effects, outputs)

    monkeypatch.setattr(Node, "_perform", noted)
    number = ann.agreed[group].view.number

    def asked() -> list[str]:
        call = ann.ask(Recall(bob.address, Domain("eu.de.h1")))
        world.run(1.0)
        assert isinstance(call.result, Recalled), call.result
        present = json.decode(call.result.document)["present"]
        return [each for endpoint in present for each in endpoint["groups"]]

    assert asked() == ["chess@eu"]
    up = [("eu.fr.h1", "eu.fr"), ("eu.fr", "eu.de"), ("eu.de", "eu.de.h1")]
    assert way[:3] == up, "not from a server's memory"
    bob.join(Group("news", EU))
    world.run(1.0)
    assert sorted(asked()) == ["chess@eu", "news@eu"]
    assert ann.agreed[group].view.number == number


def _asks(message: object) -> bool:
    return type(message) in (Inquiry, InquiryReply)
