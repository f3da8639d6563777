"""What a lab looks like: one TOML file.

    [lab]
    name = "three-sites"
    seed = 1                          # the luck of every packet

    [sites]                           # each a LAN of its own, with so many hosts besides its server
    huji = 5
    mit = 2

    [[links]]
    between = ["huji", "mit"]
    round_trip_ms = 230               # half of it each way
    jitter_ms = 5                     # each way: give or take so much
    loss = 0.05                       # each way; [0.05, 0.20] drifts from one to the other and back
    drift_s = 120                     #   in so many seconds
    duplicate = 0.001
    reorder = 0.01                    # this share is held back
    reorder_ms = 20                   #   for so long
    rate_mbit = 100
    queue_kib = 256                   # what may wait for its turn; the rest is dropped
    one_way = false                   # true: only from the first site to the second; then say delay_ms

Two sites that no link joins cannot reach each other.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from rostra.config import check_keys
from rostra.errors import BadInput, RostraError
from rostra.impair.quality import LineQuality
from rostra.lab.ways import USUAL, LabWay
from rostra.names import ROOT, Domain, parse_domain

THREE_SITES: Final = Path(__file__).with_name("three_sites.toml")
"""The paper's: Jerusalem, Cambridge, Taipei."""

SITES_MAX: Final = 20
HOSTS_MAX: Final = 100
NETWORK: Final = (10, 78)

_UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "delay_ms": ("delay_s", 1e-3),
    "jitter_ms": ("jitter_s", 1e-3),
    "drift_s": ("drift_s", 1.0),
    "duplicate": ("duplicate", 1.0),
    "reorder": ("reorder", 1.0),
    "reorder_ms": ("reorder_s", 1e-3),
    "rate_mbit": ("rate_bps", 1e6),
    "queue_kib": ("queue_bytes", 1024),
}
"""What a file says of a link, and what that is here."""

LINK_KEYS: Final = ("between", "one_way", "round_trip_ms", "loss", *_UNITS)


class Site(Struct, frozen=True):
    """A LAN: its server's address, and those of its hosts."""

    name: Domain
    number: int
    hosts: int

    @property
    def network(self) -> bytes:
        return bytes((*NETWORK, self.number))

    @property
    def address(self) -> str:
        return self.address_of(1)

    def address_of(self, last: int) -> str:
        return ".".join(map(str, (*self.network, last)))

    @property
    def host_names(self) -> tuple[str, ...]:
        return tuple(f"h{number}" for number in range(1, self.hosts + 1))

    def host_address(self, host: str) -> str:
        return self.address_of(10 + int(host.removeprefix("h")))


class LabPlan(Struct, frozen=True):
    name: str
    sites: tuple[Site, ...]
    ways: tuple[tuple[str, str, LineQuality], ...]  # from, to, how good
    seed: int = 1

    def site(self, name: str) -> Site:
        for site in self.sites:
            if site.name == name:
                return site
        raise BadInput(
            f"this lab has no site {name!r}", fix=f"it has: {', '.join(site.name for site in self.sites)}"
        )

    def new_ways(self) -> list[LabWay]:
        return [LabWay(source, to, quality, self.seed) for source, to, quality in self.ways]


def load_plan(path: Path = THREE_SITES) -> LabPlan:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}", fix="name a file that describes a lab") from None
    try:
        return parse_plan(text)
    except RostraError as error:
        raise BadInput(f"{path}: {error.what}", fix=error.fix) from None


def parse_plan(text: str) -> LabPlan:
    try:
        file = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"not valid TOML: {error}", fix="see docs/lab.md for an example") from None
    check_keys(file, "the file", ("lab", "sites", "links"))
    about = _table(file.get("lab", {}), "[lab]")
    check_keys(about, "[lab]", ("name", "seed"))
    sites = _sites(_table(file.get("sites", {}), "[sites]"))
    links = file.get("links", [])
    if not isinstance(links, list):
        raise BadInput("links is not a list of tables", fix="begin every link with [[links]]")
    ways: dict[tuple[str, str], LineQuality] = {}
    for number, link in enumerate(links, 1):
        where = f"link {number}"
        for pair, quality in _link(_table(link, where), where, {site.name for site in sites}):
            if pair in ways:
                raise BadInput(f"{where}: {pair[0]} to {pair[1]} is said twice", fix="leave one of them out")
            ways[pair] = quality
    name, seed = about.get("name", "lab"), about.get("seed", 1)
    if not isinstance(name, str) or not isinstance(seed, int):
        raise BadInput("[lab] name is a text and seed a whole number", fix='name = "lab", seed = 1')
    return LabPlan(name, sites, tuple((*pair, quality) for pair, quality in ways.items()), seed)


def _sites(table: Mapping[str, Any]) -> tuple[Site, ...]:
    if not 1 <= len(table) <= SITES_MAX:
        raise BadInput(f"[sites] names {len(table)} sites", fix=f"name 1 to {SITES_MAX}, as  mit = 2")
    sites = []
    for number, (name, hosts) in enumerate(table.items(), 1):
        domain = parse_domain(name)
        if "." in domain or domain == ROOT:
            raise BadInput(f"[sites] {name}: a site is one label", fix="use a plain name, such as mit")
        if not isinstance(hosts, int) or isinstance(hosts, bool) or not 0 <= hosts <= HOSTS_MAX:
            raise BadInput(f"[sites] {name} = {hosts!r}", fix=f"say how many hosts it has: 0 to {HOSTS_MAX}")
        sites.append(Site(domain, number, hosts))
    return tuple(sites)


def _link(
    link: Mapping[str, Any], where: str, sites: set[Domain]
) -> list[tuple[tuple[str, str], LineQuality]]:
    check_keys(link, where, LINK_KEYS)
    match link.get("between"):
        case [str(a), str(b)] if a != b and {a, b} <= sites:
            pairs = [(a, b)] if link.get("one_way") is True else [(a, b), (b, a)]
        case other:
            raise BadInput(
                f"{where}: between = {other!r}", fix=f"name two of the sites: {', '.join(sorted(sites))}"
            )
    for key, value in link.items():
        if key not in ("between", "one_way", "loss") and not _is_number(value):
            raise BadInput(f"{where}: {key} = {value!r}", fix="write it as a number")
    said = {name: link[key] * unit for key, (name, unit) in _UNITS.items() if key in link}
    if "round_trip_ms" in link:
        if "delay_ms" in link or len(pairs) == 1:
            raise BadInput(f"{where}: round_trip_ms beside a delay of one way", fix="say delay_ms alone")
        said["delay_s"] = link["round_trip_ms"] / 2e3
    if "queue_bytes" in said:
        said["queue_bytes"] = int(said["queue_bytes"])
    try:
        quality = USUAL.but(loss=_loss(link.get("loss", 0.0)), **said)
    except BadInput as error:
        raise BadInput(f"{where}: {error.what}", fix=error.fix) from None
    return [(pair, quality) for pair in pairs]


def _loss(value: Any) -> float | tuple[float, float]:
    match value:
        case [first, second] if _is_number(first) and _is_number(second):
            return float(first), float(second)
        case _ if _is_number(value):
            return float(value)
    raise BadInput(f"loss = {value!r}", fix="write a share such as 0.05, or two that it drifts between")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{where} is not a table", fix="see docs/lab.md for an example")
    return value
