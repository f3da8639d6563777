"""Which processes and cables a small world has, before any of them is started."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rostra.cli.up import _plan as small_world_plan
from rostra.config import parse_world
from rostra.errors import BadInput
from rostra.names import Domain
from rostra.transport.addresses import TcpAddress
from rostra.up.home import WorldHome
from rostra.up.plan import PLACES, PROCESSES_MAX, of_file, of_shape
from rostra.up.programs import NAMES, people_of
from rostra.up.world import NOWHERE, world_file


def test_the_usual_shape_is_two_regions_four_clusters_and_eight_hosts() -> None:
    plan = of_shape("2x2x2")
    assert plan.servers == ("eu", "eu.paris", "eu.rome", "us", "us.boston", "us.sf")
    assert len(plan.hosts) == 8 and plan.hosts[0] == "eu.paris.h1"
    assert plan.describe() == "2 regions, 4 clusters, 8 hosts"
    assert all(len(process) == 1 for process in plan.processes)


def test_every_link_of_a_shape_has_a_cable_of_its_own() -> None:
    plan = of_shape("3x3x4")
    links = [link for links in plan.cables().values() for link in links]
    assert len(links) == len(plan.cables()) == len(set(links))
    # regions meshed, clusters of a region meshed, each cluster to its region, each host to its cluster
    assert len(links) == 3 + 3 * 3 + 9 + 36


@pytest.mark.parametrize(
    "text", ["", "2", "2x2", "2x2x2x2", "0x1x1", "-1x2x2", "axbxc", "2 x 2 x 2", "1000x1x1"]
)
def test_what_is_no_shape_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        of_shape(text)
    assert "2x2x2" in caught.value.fix


def test_a_shape_that_no_machine_carries_is_refused_before_anything_is_made() -> None:
    with pytest.raises(BadInput, match="998010 processes"):
        of_shape("9x999x110")
    assert len(of_shape("1x1x248").processes) == PROCESSES_MAX


def test_names_do_not_run_out() -> None:
    plan = of_shape("7x7x1")
    assert {"r7", "r7.c1", "eu.c7"} <= set(plan.servers)
    assert len(set(plan.nodes)) == len(plan.nodes)
    assert all(len(set(cities)) == len(cities) for cities in PLACES.values())


def test_domains_that_share_an_address_share_a_process_and_have_no_cable_between_them() -> None:
    plan = of_file(
        parse_world(
            '[world]\nname = "acme"\n[servers]\nworld = "h0:1"\n'
            'eu = "h1:1"\n"eu.fr" = "h2:1"\n"eu.de" = "h2:1"\nus = "h3:1"\n'
        ),
        hosts_per_cluster=1,
    )
    shared = (Domain("eu.de"), Domain("eu.fr"))
    assert shared in plan.processes
    assert plan.hosts == ("eu.de.h1", "eu.fr.h1", "us.h1")
    cables = plan.cables()
    assert cables[shared, Domain("eu")] == [("eu.de", "eu"), ("eu.fr", "eu")]
    assert not any({a, b} == set(shared) for links in cables.values() for a, b in links)
    assert set(plan.neighbours(Domain("eu"))) == {"world", "us", "eu.fr", "eu.de"}


def test_a_process_is_told_where_its_cables_are_and_nothing_that_leads_around_them() -> None:
    plan = of_shape("2x1x1")
    at = TcpAddress("127.0.0.1", 4711)
    servers = dict.fromkeys(plan.servers, NOWHERE) | {Domain("eu"): at}
    read = parse_world(world_file(plan, servers))
    assert (read.name, read.profile, read.servers) == (plan.name, "lan", servers)


def test_a_world_from_a_file_has_its_authorities_and_settings_and_says_what_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the key of an authority, a restricted join gets no answer."""
    said = (
        '[world]\nname = "acme"\n[servers]\neu = "10.0.0.1:7700"\n'
        '"eu.fr" = ["10.0.1.1:1", "10.0.1.2:1", "10.0.1.3:1"]\n'
        f'[authorities]\nacme = "ed25519:{"9f" * 32}"\n[detect]\ndown_after_s = 2.5\n'
        "[led]\nlease_s = 21.0\n[scopes]\nforeign = true\n"
        '[sets]\neu = { repeaters = { eu = "10.0.0.1:7471" } }\n'
    )
    path = tmp_path / "acme.toml"
    path.write_text(said)
    plan = small_world_plan(None, path, 1)
    read, file = parse_world(world_file(plan, dict.fromkeys(plan.servers, NOWHERE))), parse_world(said)
    assert read.access == file.access and read.access.authorities
    assert (read.detect, read.led, read.scopes) == (file.detect, file.led, file.scopes)
    assert read.led and read.scopes and not read.sets
    assert "takes nothing from [sets], the replicas under [servers] of" in capsys.readouterr().err


def test_people_of_one_host_have_names_of_their_own_in_any_world() -> None:
    for number in range(3 * len(NAMES)):
        assert len(set(people_of(number))) == len(people_of(number))


@pytest.fixture
def runtime_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Not below pytest's own directory, whose length decides whether a socket can be called by its node."""
    with tempfile.TemporaryDirectory(prefix="r-") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)


def test_a_home_leaves_nothing_and_sweeps_up_after_those_who_could_not(runtime_directory: Path) -> None:
    left = runtime_directory / "rostra" / "up-1"
    (left / "logs").mkdir(parents=True)
    (left / "lock").touch()
    home = WorldHome.make()
    assert not left.exists()
    assert home.path == runtime_directory / "rostra" / f"up-{os.getpid()}"
    assert home.path.stat().st_mode & 0o777 == 0o700
    home.lead_to(Domain("eu.paris.h1"))
    home.lead_to(Domain("eu.paris.h2"))
    assert home.front_door.readlink() == Path("eu.paris.h2.sock")
    home.remove()
    assert list(runtime_directory.iterdir()) == []


def test_sockets_of_deep_worlds_have_short_names_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    home = WorldHome.make()
    deep = [Domain(".".join(["x" * 60] * 4 + [name])) for name in ("h1", "h2")]
    assert [home.socket(node).name for node in (*deep, deep[0])] == ["1.sock", "2.sock", "1.sock"]
    home.remove()


def test_a_world_without_a_server_of_its_own_says_how_far_open_groups_reach() -> None:
    assert "do not see each other across eu and us" in of_shape("2x1x1").describe_reach()
    assert of_shape("1x2x2").describe_reach() == ""
