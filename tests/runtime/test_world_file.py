"""The world file: what it says, and what is said about a bad one."""

from pathlib import Path

import pytest

from rostra.config import AgentSettings, load_world, parse_world
from rostra.errors import BadInput
from rostra.names import Domain
from rostra.protocols.agreed.config import Repeater, SetAddress
from rostra.protocols.links.config import LinkConfig
from rostra.transport.addresses import SocketPath, TcpAddress

FILE = """
[world]
name = "acme"
profile = "lan"

[servers]
world = "10.0.0.1:7700"
eu = "10.0.0.1:7700"
"eu.fr" = "10.0.0.1:7700"
"eu.fr.c1" = "10.0.1.1:7700"
"eu.fr.c2" = "[fd00::1]:7700"
us = "us.example.org:7700"

[agents]
socket = "/run/rostra/agent.sock"
socket_mode = "0600"
listen = "127.0.0.1:7701"
state = "/var/lib/rostra"
"""


def test_a_world_file_says_everything_once() -> None:
    world = parse_world(FILE)

    assert (world.name, world.links) == ("acme", LinkConfig.lan())
    assert world.servers[Domain("eu.fr.c2")] == TcpAddress("fd00::1", 7700)
    assert world.siblings(Domain("eu.fr.c1")) == ("eu.fr.c2",)
    assert world.siblings(Domain("eu")) == ("us",)
    assert world.siblings(Domain("world")) == ()
    assert world.clusters == ("eu.fr.c1", "eu.fr.c2", "us")
    assert world.agents == AgentSettings(
        socket=SocketPath("/run/rostra/agent.sock"),
        socket_mode=0o600,
        listen=TcpAddress("127.0.0.1", 7701),
        state=Path("/var/lib/rostra"),
    )


def test_the_smallest_world_is_two_lines() -> None:
    world = parse_world('[world]\nname = "w"\n[servers]\nlab = "h:1"')
    assert (world.profile, world.clusters, world.agents) == ("wan", ("lab",), AgentSettings())


@pytest.mark.parametrize(
    ("change", "what", "fix"),
    [
        (('name = "acme"', ""), "[world] name is missing", 'add name = "..."'),
        (('name = "acme"', "name = 5"), "[world] name is 5", "write it as a text, in quotes"),
        (('name = "acme"', 'name = "a\\nb"'), "is not a world's name", "printable"),
        (('"lan"', '"moon"'), "[world] profile 'moon' is unknown", "lan, wan"),
        (("[agents]", "[agent]"), "the file has an unknown key 'agent'", "did you mean 'agents'?"),
        (("listen =", "lissten ="), "[agents] has an unknown key 'lissten'", "did you mean 'listen'?"),
        (('"0600"', '"0777"'), "[agents] socket_mode '0777' is not usable", '"0660"'),
        (('us = "us.', 'us.ny = "us.'), "[servers] us is a table", '"us.ny"'),
        (
            ('us = "us.example.org:7700"', 'us = "us.example.org"'),
            "'us.example.org' is not an address",
            "host:port",
        ),
        (('us = "us.example.org:7700"', 'us = "fd00::1:7700"'), "is ambiguous", "[fd00::1]:7700"),
        (('us = "us.example.org:7700"', 'us = "h:70000"'), "'h:70000' is not an address", "host:port"),
        (('eu = "10.0.0.1:7700"\n', ""), "its enclosing domain eu has no server", '"eu" = "address:port"'),
        (("us =", "US ="), "'US' in domain path 'US' is not a label", "a-z"),
        (("[servers]", "[servers"), "not valid TOML", "quotes"),
    ],
)
def test_a_mistake_is_named_with_its_fix(change: tuple[str, str], what: str, fix: str) -> None:
    assert change[0] in FILE
    with pytest.raises(BadInput) as caught:
        parse_world(FILE.replace(*change, 1))
    assert what in caught.value.what
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("table", "what", "fix"),
    [
        ("[agents]\nsocket = 5", "[agents] socket is 5", "in quotes"),
        ("[agents]\nspill_mb = -1", "[agents] spill_mb '-1' is no number of megabytes", "such as 256"),
        ("[agents]\nspill_mb = true", "[agents] spill_mb 'True' is no number of megabytes", "a whole number"),
        ("[agents]\nendpoints_max = 0", "[agents] endpoints_max '0' is no limit", "above 0"),
        ('[http]\nagents = "10.0.0.1:80"', "[http] agents '10.0.0.1:80' can be reached", "127.0.0.1"),
        ("[logs]\njson = 1", "[logs] json is 1", "true or false"),
        ('[journal]\nsegment_s = "1"', "[journal] segment_s is '1'", "as a number"),
        ("[journal]\nsegment_rows = 1.5", "[journal] segment_rows is 1.5", "as a number"),
        ('[detect]\ndown_after_s = "1"', "[detect] down_after_s is '1'", "as a number"),
        (
            "[detect]\ndown_after = 1",
            "[detect] has an unknown key 'down_after'",
            "did you mean 'down_after_s'?",
        ),
    ],
)
def test_each_value_is_of_its_kind(table: str, what: str, fix: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_world(f'[world]\nname = "w"\n[servers]\nlab = "h:1"\n{table}\n')
    assert what in caught.value.what
    assert fix in caught.value.fix


def test_a_missing_table_is_named() -> None:
    with pytest.raises(BadInput, match=r"\[servers\] is missing"):
        parse_world('[world]\nname = "w"')
    with pytest.raises(BadInput, match=r"\[servers\] is empty"):
        parse_world('[world]\nname = "w"\n[servers]')
    with pytest.raises(BadInput, match="agents is not a table"):
        parse_world('agents = 1\n[world]\nname = "w"\n[servers]\nlab = "h:1"')


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "world.toml"
    file.write_bytes(b"\xff")
    with pytest.raises(BadInput, match="is not UTF-8"):
        load_world(file)
    file.write_text("[world]")
    with pytest.raises(BadInput, match=str(file)):
        load_world(file)


@pytest.mark.spec("C-021")
@pytest.mark.parametrize(
    ("host", "what"),
    [
        ("eu.fr.h1", "eu.fr holds domains"),
        ("eu.de.c1.h1", "has no server for eu.de.c1"),
        ("h1", "world holds domains"),
        ("eu.fr.c1", "eu.fr.c1 is a domain of the world 'acme', and an agent is of a host"),
        ("eu", "eu is a domain of the world 'acme', and an agent is of a host"),
    ],
)
def test_a_host_needs_a_cluster(host: str, what: str) -> None:
    world = parse_world(FILE)
    world.check_host(Domain("eu.fr.c1.h1"))
    with pytest.raises(BadInput) as caught:
        world.check_host(Domain(host))
    assert what in caught.value.what
    assert "eu.fr.c1" in caught.value.fix or "eu.de.c1" in caught.value.fix


def with_data(lines: str) -> str:
    return f"{FILE}\n[data]\n{lines}\n"


def test_data_travels_as_the_nearest_domain_says() -> None:
    world = parse_world(
        with_data(
            'world = { mode = "fanout", parity_frames = 8 }\n'
            'eu = { mode = "auto", interface = "eth1" }\n'
            '"eu.fr.c1" = { at = "10.0.1.1:7710", parity_frames = 0 }\n'
            'us = { at = "10.0.9.9:7711", datagram_bytes = 1200 }'
        )
    )
    c1, c2, us = map(Domain, ("eu.fr.c1", "eu.fr.c2", "us"))
    assert [world.data_mode(each) for each in (c1, c2, us)] == ["auto", "auto", "fanout"]
    assert [world.data_interface(each) for each in (c1, us)] == ["eth1", ""]
    assert [world.fifo_at(each).parity_frames for each in (c1, c2, us)] == [0, 8, 8]
    assert world.data_of(c1) == TcpAddress("10.0.1.1", 7710) and world.data_of(us).port == 7711
    assert world.data_of(c2) == world.servers[c2]
    sizes = [
        (world.fifo_of_hosts(each).datagram_bytes, world.fifo_at(each).datagram_bytes) for each in (c1, us)
    ]
    assert sizes == [(8000, 1200), (1200, 1200)]
    assert all(map(world.data_sealed, world.clusters))


@pytest.mark.parametrize(
    ("lines", "what", "fix"),
    [
        ('eu = { mode = "shout" }', "[data.eu] mode 'shout' is unknown", "auto, multicast, fanout, reflect"),
        ('eu = { mod = "auto" }', "[data.eu] has an unknown key 'mod'", "did you mean 'mode'?"),
        ("eu = 7", "[data] eu is 7", "write an address"),
        ('eu = { at = "10.0.0.1:1" }', "[data] eu is no cluster", "eu.fr.c1, eu.fr.c2, us"),
        ('"eu.fr.c3" = "10.0.0.1:1"', "[data] eu.fr.c3 is no cluster", "eu.fr.c1, eu.fr.c2, us"),
        ('us = { parity_frames = "8" }', "parity_frames is '8'", "write it as a number"),
        ("us = { parity_frames = 65 }", "parity_frames must be 0 to 64", "change parity_frames"),
        (
            'us = { between = "10.0.0.1:7790" }',
            "neither tree nor an IPv4 multicast address",
            "239.192.0.1:7790",
        ),
        (
            'us = { between = "239.192.0.1" }',
            "neither tree nor an IPv4 multicast address",
            "239.192.0.1:7790",
        ),
        (
            'us = { between = "239.192.0.1:7790", mode = "reflect", sealed = false }',
            "any host could send between clusters",
            'between = "tree"',
        ),
        ("us = { datagram_bytes = 100 }", "datagram_bytes is 100", "500 to 60000"),
        ("us = { sealed = false }", "any host could send there", 'mode = "reflect"'),
        ('"eu.fr.c2" = { mode = "multicast" }', "which is for IPv4", 'mode = "reflect"'),
    ],
)
def test_what_is_wrong_about_data_is_said(lines: str, what: str, fix: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_world(with_data(lines))
    assert what in refused.value.what and fix in refused.value.fix


REPLICATED = """
[world]
name = "acme"
[servers]
eu = "10.0.0.1:7700"
"eu.lyon" = ["10.0.2.1:7700", "10.0.2.2:7700", "10.0.2.3:7700"]
"""


@pytest.mark.spec("C-160")
def test_a_domain_may_have_several_servers() -> None:
    world = parse_world(REPLICATED)
    lyon = Domain("eu.lyon")

    assert [str(each) for each in world.addresses(lyon)] == [f"10.0.2.{n}:7700" for n in (1, 2, 3)]
    assert [str(each) for each in world.addresses(Domain("eu"))] == ["10.0.0.1:7700"]
    assert world.addresses(Domain("eu.rome")) == ()
    assert [str(world.addresses(voter)[0]) for voter in world.voters(lyon)] == [
        f"10.0.2.{n}:7700" for n in (1, 2, 3)
    ]
    assert str(world.at_replica(2).servers[lyon]) == "10.0.2.2:7700", "as the second one sees it"
    assert world.at_replica(2).servers[Domain("eu")] == world.servers[Domain("eu")]


@pytest.mark.parametrize(
    ("addresses", "what"),
    [
        ("[]", "1 to 5 addresses"),
        (str([f"10.0.2.{n}:7700" for n in range(1, 7)]), "1 to 5 addresses"),
        ("[7700]", "1 to 5 addresses"),
        ('["10.0.2.1:7700", "10.0.2.1:7700"]', "an address of its own"),
    ],
    ids=["none", "six", "no address", "twice the same"],
)
def test_a_list_of_replicas_that_makes_no_sense_is_refused(addresses: str, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        parse_world(f'[world]\nname = "acme"\n[servers]\neu = {addresses}\n')


def test_a_list_of_one_is_a_server_like_any_other() -> None:
    assert parse_world('[world]\nname = "acme"\n[servers]\neu = ["10.0.0.1:7700"]\n').replicas == {}


def test_replicas_take_data_at_their_own_addresses() -> None:
    with pytest.raises(BadInput, match="at its own address"):
        parse_world(REPLICATED + '[data]\n"eu.lyon" = "10.0.2.9:7710"\n')


SETS = """
[world]
name = "acme"
[servers]
eu = "10.0.0.1:7700"
"eu.paris" = "10.0.1.1:7700"
"eu.lyon" = ["10.0.2.1:7700", "10.0.2.2:7700"]
us = "10.0.3.1:7700"
"us.ny" = "10.0.4.1:7700"
[sets]
"""


@pytest.mark.spec("V-007")
def test_a_set_of_servers_may_have_an_address_of_its_own() -> None:
    eu = (
        'eu = { multicast = "239.192.0.2:7470", repeaters = { eu = "10.0.0.1:7471" }, unicast = ["eu.lyon"] }'
    )
    world = parse_world(f'{SETS}{eu}\nworld = {{ multicast = "239.192.0.3:7470" }}\n')
    place = ("239.192.0.2", 7470)
    mixed = SetAddress(
        Domain("eu"), place, (Repeater(Domain("eu"), ("10.0.0.1", 7471)),), (Domain("eu.lyon"),)
    )
    assert world.agreed.sets == (mixed, SetAddress(Domain("world"), ("239.192.0.3", 7470)))
    assert mixed.reaches(Domain("eu.paris")) and not mixed.reaches(Domain("eu.lyon"))
    assert parse_world(SETS).agreed.sets == (), "and over links without"


@pytest.mark.spec("V-007")
@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ('eu = "239.192.0.2:7470"', "write a table"),
        ("eu = { multcast = 1 }", "unknown field"),
        ('eu = { multicast = "10.0.0.1:7470" }', "no IPv4 multicast address"),
        ('eu = { multicast = "tree" }', "no IPv4 multicast address"),
        ('eu = { repeaters = { eu = "239.192.0.2:7470" } }', "no IPv4 address"),
        ("eu = {}", "no message reaches eu, eu.paris"),
        ('eu = { multicast = "239.192.0.2:7470", unicast = ["eu.paris"] }', "no message reaches eu.paris"),
        ('eu = { multicast = "239.192.0.2:7470", unicast = ["us.ny"] }', "no server of this set"),
        ('"eu.paris" = { multicast = "239.192.0.2:7470" }', "no domain of domains"),
        ('ap = { multicast = "239.192.0.2:7470" }', "no domain of domains"),
        ('eu = { repeaters = { "eu.lyon" = "10.0.0.1:7471" } }', "has replicas"),
        (
            'eu = { multicast = "239.192.0.2:7470", repeaters = { eu = "10.0.0.1:1" }, unicast = ["eu"] }',
            "does not reach a repeater",
        ),
        (
            'eu = { multicast = "239.192.0.2:7470" }\nus = { multicast = "239.192.0.2:7470" }',
            "239.192.0.2:7470 twice",
        ),
    ],
)
def test_what_is_wrong_about_a_set_is_said(lines: str, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        parse_world(SETS + lines)
