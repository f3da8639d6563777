"""Which node runs where: the processes of a small world, and the cables between them.

Every node has a process of its own, so that every link is a cable that can be cut. A world from a file keeps
the file's arrangement: domains with one address share a process there, and do so here.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.config import WorldConfig
from rostra.errors import BadInput
from rostra.names import ROOT, Domain, Tree, child, dials, parse_host
from rostra.transport.addresses import TcpAddress

PLACES: Final = {
    "eu": ("paris", "rome", "berlin", "madrid", "vienna", "oslo"),
    "us": ("boston", "sf", "austin", "denver", "miami", "seattle"),
    "asia": ("tokyo", "seoul", "mumbai", "hanoi", "dubai", "manila"),
    "africa": ("cairo", "lagos", "nairobi", "accra", "tunis", "dakar"),
    "latam": ("lima", "bogota", "quito", "havana", "recife", "cordoba"),
    "oceania": ("sydney", "perth", "auckland", "suva", "hobart", "darwin"),
}

PROCESSES_MAX: Final = 250
"""One process costs about 35 MB and a third of a second of start-up on one core."""

SHAPE: Final = "2x2x2"
WORLD_NAME: Final = "small-world"
KEPT_TABLES: Final = ("detect", "authorities", "led", "scopes")


class WorldPlan(Struct, frozen=True):
    name: str
    profile: str
    processes: tuple[tuple[Domain, ...], ...]  # domain servers, then one agent each
    hosts: tuple[Domain, ...]
    settings: dict[str, dict[str, Any]] = {}  # tables of the file that are not about places

    def __post_init__(self) -> None:
        if len(self.processes) > PROCESSES_MAX:
            raise BadInput(
                f"a world of {len(self.processes)} processes is more than one machine should carry",
                fix=f"choose a shape with at most {PROCESSES_MAX} domains and hosts, such as 3x3x4",
            )

    @property
    def servers(self) -> tuple[Domain, ...]:
        hosts = set(self.hosts)
        return tuple(node for nodes in self.processes for node in nodes if node not in hosts)

    @property
    def nodes(self) -> tuple[Domain, ...]:
        return tuple(node for nodes in self.processes for node in nodes)

    def process_of(self, node: Domain) -> tuple[Domain, ...]:
        for nodes in self.processes:
            if node in nodes:
                return nodes
        raise BadInput(f"this world has no server {node}", fix=f"it has: {', '.join(self.nodes)}")

    def links(self) -> tuple[tuple[Domain, Domain], ...]:
        """Every link once, as (who dials, who is dialled)."""
        here = set(self.nodes)
        pairs = [(a, b) for a, b in Tree.of(self.hosts).links() if a in here and b in here]
        return tuple((a, b) if dials(a, b) else (b, a) for a, b in pairs)

    def neighbours(self, node: Domain) -> tuple[Domain, ...]:
        return tuple(b if node == a else a for a, b in self.links() if node in (a, b))

    def cables(self) -> dict[tuple[tuple[Domain, ...], Domain], list[tuple[Domain, Domain]]]:
        """For each process and each server that it dials elsewhere, the links that lead there.

        Several nodes of one process that dial the same server share a cable: their process has one world
        file, and so one address for it.
        """
        cables: dict[tuple[tuple[Domain, ...], Domain], list[tuple[Domain, Domain]]] = {}
        for dialler, server in self.links():
            process = self.process_of(dialler)
            if server not in process:
                cables.setdefault((process, server), []).append((dialler, server))
        return cables

    @property
    def regions(self) -> list[Domain]:
        return [server for server in self.servers if "." not in server and server != ROOT]

    def describe_reach(self) -> str:
        """How far groups of open scope reach, if not everywhere."""
        if ROOT in self.servers or len(self.regions) < 2:
            return ""
        one, other = self.regions[:2]
        return (
            "this world has no server of its own: members of a group of open scope do not see each other"
            f" across {one} and {other}; give such groups the scope world"
        )

    def describe(self) -> str:
        """Two regions, four clusters, eight hosts."""
        clusters = {host.rpartition(".")[0] for host in self.hosts}
        regions = self.regions
        levels = [(len(self.hosts), "host"), (len(clusters), "cluster")]
        if set(regions) != clusters:
            levels.append((len(regions), "region"))
        return ", ".join(f"{number} {word}{'s' * (number != 1)}" for number, word in reversed(levels))


def of_shape(text: str) -> WorldPlan:
    """``2x2x2``: regions, clusters in each, hosts in each of those."""
    matched = re.fullmatch(r"([1-9]\d{0,2})[x×]([1-9]\d{0,2})[x×]([1-9]\d{0,2})", text.strip().lower())
    if matched is None:
        raise BadInput(
            f"{text!r} is not a shape",
            fix="write regions x clusters in each x hosts in each, for example 2x2x2 or 3x3x4",
        )
    regions, clusters, hosts = map(int, matched.groups())
    if regions * (1 + clusters * (1 + hosts)) > PROCESSES_MAX:
        raise BadInput(
            f"a world of shape {text} has {regions * (1 + clusters * (1 + hosts))} processes",
            fix=f"one machine carries at most {PROCESSES_MAX}; try 3x3x4",
        )
    servers: list[Domain] = []
    for region in [Domain(_label(tuple(PLACES), number, "r")) for number in range(regions)]:
        cities = PLACES.get(region, ())
        servers.append(region)
        servers += [child(region, _label(cities, number, "c")) for number in range(clusters)]
    lowest = [server for server in servers if "." in server]
    return _plan(WORLD_NAME, "lan", [(server,) for server in servers], lowest, hosts)


def of_file(world: WorldConfig, hosts_per_cluster: int) -> WorldPlan:
    """The world that a file describes, on this machine: same domains, same processes, same patience, same
    authorities. The file does not say which hosts there are, so every cluster gets some."""
    at: dict[TcpAddress, list[Domain]] = {}
    for server, address in world.servers.items():
        at.setdefault(address, []).append(server)
    processes = [tuple(sorted(servers)) for servers in at.values()]
    plan = _plan(world.name, world.profile, processes, world.clusters, hosts_per_cluster)
    authorities = {name: f"ed25519:{key.hex()}" for name, key in world.access.authorities}
    tables = (world.detect, authorities, world.led, world.scopes)
    return replace(plan, settings=dict(zip(KEPT_TABLES, tables, strict=True)))


def _plan(
    name: str,
    profile: str,
    processes: Iterable[tuple[Domain, ...]],
    clusters: Iterable[Domain],
    hosts_per_cluster: int,
) -> WorldPlan:
    hosts = tuple(
        parse_host(child(cluster, f"h{number}"))
        for cluster in clusters
        for number in range(1, hosts_per_cluster + 1)
    )
    return WorldPlan(name, profile, (*processes, *((host,) for host in hosts)), hosts)


def _label(names: Sequence[str], number: int, letter: str) -> str:
    """The name of number so and so, counted from 0; a letter and a number once names run out."""
    return names[number] if number < len(names) else f"{letter}{number + 1}"
