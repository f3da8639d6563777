"""The world file: one TOML file that every agent and server of a world reads.

    [world]
    name = "acme"                    # a server of another world is refused by name
    profile = "lan"                  # how patient to be with silence: "lan" or "wan" (the default)

    [servers]                        # who serves which domain, and where it listens
    eu = "10.0.0.1:7700"
    "eu.fr" = "10.0.0.1:7700"        # one process may serve several levels: the same address again
    "eu.fr.paris" = "10.0.1.1:7700"
    "eu.fr.lyon" = ["10.0.2.1:7700", "10.0.2.2:7700", "10.0.2.3:7700"]   # three replicas: one leads

    [agents]                         # all optional
    socket = "/run/rostra/agent.sock"    # where programs of the host connect
    socket_mode = "0660"                 # "0600" keeps it to the agent's own user
    listen = "127.0.0.1:7701"            # programs over TCP
    token_file = "/etc/rostra/token"     # what those must show; programs on the socket need nothing
    state = "/var/lib/rostra"            # incarnations and permanent groups survive a restart here
    spill_mb = 256                       # of it, for what slow receivers (slow="spill") have not taken
    arena_mb = 16                        # of memory shared with programs, for each group; 0: none
    level = 7                            # raised with every roll-out: see `rostra drain`
    endpoints_max = 100000               # of all programs of the host; see `Limits` for every name

    [http]                           # health, metrics and the dashboard, on loopback; none unless asked for
    agents = "127.0.0.1:7780"
    servers = "127.0.0.1:7781"

    [data]                           # all optional: how messages of groups travel, over UDP
    "eu.fr.paris" = "10.0.1.1:7710"  # where this cluster's server takes it, instead of under [servers]
    eu = { mode = "auto" }           # for all clusters inside; see `DataSettings` for every name
    world = { parity_frames = 8 }    # for all there are

    [detect]                         # all optional: what differs from the profile
    down_after_s = 2.5               # see `DetectConfig` for every name and what it costs

    [journal]                        # what happens is written down, for `rostra history`; off by default
    at = "/var/lib/rostra/journal"   # a directory, or a URI such as s3://bucket/path
    segment_s = 10                   # see `Bounds` for every name and what it costs
    record = true                    # keep every input too, for `rostra sim replay`

    [logs]
    json = true

    [authorities]                    # optional: who decides about names such as acme!payroll
    acme = "ed25519:9f1c..."         # as `rostra authority key` prints it

The file says nothing twice. Neighbours follow from paths, and a domain without a server below it is a
cluster, whose children are hosts. A key that we do not know is an error that names the closest one we do: a
misspelt setting that is silently ignored is worse than a daemon that does not start. What flags and variables
may say instead is in `rostra.runtime.settings`.
"""

import contextlib
import difflib
import tomllib
from collections.abc import Callable, Collection, Mapping
from ipaddress import ip_address
from math import inf
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict, fields, replace

from rostra.errors import BadInput, RostraError
from rostra.journal.bounds import Bounds
from rostra.names import (
    ROOT,
    Domain,
    check_not_reserved,
    child,
    domain_of_replica,
    is_reserved,
    parent,
    parse_domain,
    replica_path,
    strictly_inside,
)
from rostra.protocols.access.config import KEY_BYTES, AccessConfig, check_authorities
from rostra.protocols.agreed.config import LANES_MAX, LEVEL_MAX, AgreedConfig, Place, Repeater, SetAddress
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.election.config import ElectionConfig
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.front.config import ShareLimits
from rostra.protocols.led.config import LedConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.scopes.config import ScopesConfig
from rostra.transport.addresses import SocketPath, TcpAddress, parse_socket_path, parse_tcp
from rostra.transport.multicast import is_possible

PROFILES: Final = {"lan": LinkConfig.lan, "wan": LinkConfig.wan}
WORLD_NAME_LENGTH_MAX: Final = 63
MODES: Final = ("auto", "multicast", "fanout", "reflect")
TREE: Final = "tree"
REPLICAS_MAX: Final = 5
SOCKET_MODES: Final = ("0600", "0660", "0666")
LOOPBACK: Final = ("127.", "::1", "localhost")
WINDOW_BYTES: Final = 1 << 20
"""What one sender may have under way between machines. Raising it: more per second over long ways, more lost
where a receiver is busy for a moment."""

LAN_DATAGRAM_BYTES: Final = 8_000
LAN_DATAGRAM_BYTES_MAX: Final = 60_000

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


# Values, as files, flags and variables write them


def parse_world_name(text: str) -> str:
    if not text.isprintable() or not 1 <= len(text) <= WORLD_NAME_LENGTH_MAX:
        raise BadInput(
            f"{text!r} is not a world's name", fix=f"use 1 to {WORLD_NAME_LENGTH_MAX} printable characters"
        )
    return text


def parse_profile(text: str) -> str:
    if text not in PROFILES:
        raise BadInput(f"{text!r} is unknown", fix=f"use one of: {', '.join(PROFILES)}")
    return text


def parse_between(text: str) -> str:
    """ "tree", or a multicast address with a port."""
    if text == TREE or _place(text, is_multicast=True) is not None:
        return text
    raise BadInput(
        f"{text!r} is neither tree nor an IPv4 multicast address with a port",
        fix='write "tree", or an address such as "239.192.0.1:7790"',
    )


def _place(text: str, *, is_multicast: bool) -> Place | None:
    with contextlib.suppress(ValueError, BadInput):
        at = parse_tcp(text)
        address = ip_address(at.host)
        if address.version == 4 and address.is_multicast is is_multicast and at.port:
            return at.host, at.port
    return None


def parse_set_multicast(text: str) -> Place:
    if (place := _place(text, is_multicast=True)) is not None:
        return place
    raise BadInput(f"{text!r} is no IPv4 multicast address with a port", fix='write it as "239.192.0.2:7470"')


def parse_repeater(text: str) -> Place:
    if (place := _place(text, is_multicast=False)) is not None:
        return place
    raise BadInput(f"{text!r} is no IPv4 address with a port", fix='write it as "10.0.1.1:7471"')


def _whole(text: str, least: int, most: float, what: str, fix: str) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise BadInput(what, fix=fix)
    return int(text)


def parse_megabytes(text: str) -> int:
    return _whole(text, 0, inf, f"{text!r} is no number of megabytes", "write a whole number, such as 256")


def parse_limit(text: str) -> int:
    return _whole(text, 1, inf, f"{text!r} is no limit", "write a whole number above 0, such as 10000")


def parse_level(text: str) -> int:
    fix = f"write a whole number, at most {LEVEL_MAX}"
    return _whole(text, 0, LEVEL_MAX, f"{text!r} is no level", fix)


def parse_datagram_bytes(text: str) -> int:
    return _whole(text, 500, LAN_DATAGRAM_BYTES_MAX, f"is {text}", f"use 500 to {LAN_DATAGRAM_BYTES_MAX}")


def parse_lanes(text: str) -> int:
    return _whole(text, 0, LANES_MAX // 2, f"is {text}", f"use 0 to {LANES_MAX // 2}")


def parse_mode_of_data(text: str) -> str:
    if text not in MODES:
        raise BadInput(f"{text!r} is unknown", fix=f"use one of: {', '.join(MODES)}{_closest(text, MODES)}")
    return text


def parse_mode(text: str) -> int:
    if text not in SOCKET_MODES:
        raise BadInput(f"{text!r} is not usable", fix='use "0600", "0660" or "0666"')
    return int(text, 8)


def parse_http(text: str) -> TcpAddress:
    """Where to serve HTTP. There is no password in front of it, so it stays on the machine."""
    address = parse_tcp(text)
    if not address.host.startswith(LOOPBACK):
        raise BadInput(
            f"{text!r} can be reached from other machines, and HTTP here knows no passwords",
            fix="use 127.0.0.1 and a port; put a proxy or a tunnel in front of it",
        )
    return address


def placed(place: str, parse: Callable[[str], T], text: str) -> T:
    """A configured value and where it was set, for errors."""
    try:
        return parse(text)
    except BadInput as error:
        raise BadInput(f"{place} {error.what}", fix=error.fix) from None


def _closest(word: str, words: Collection[str]) -> str:
    close = difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


# What is in it


class Limits(ShareLimits, frozen=True):
    """What all programs of one agent may hold together. Raising one costs memory for each that is held: some
    KB for a program, about 1 KB for the others. A group is also a row at every server of its scope."""

    programs_max: Annotated[int, parse_limit] = 50_000
    endpoints_max: Annotated[int, parse_limit] = 100_000
    memberships_max: Annotated[int, parse_limit] = 200_000
    questions_max: Annotated[int, parse_limit] = 65_536


class AboutWorld(Struct, frozen=True):
    name: Annotated[str, parse_world_name]
    profile: Annotated[str, parse_profile] = "wan"


class AgentSettings(Limits, frozen=True, kw_only=True):
    socket: Annotated[SocketPath, parse_socket_path] | None = None
    socket_mode: Annotated[int, parse_mode] = 0o660
    listen: Annotated[TcpAddress, parse_tcp] | None = None
    token_file: Annotated[Path, Path] | None = None
    state: Annotated[Path, Path] | None = None
    spill_mb: Annotated[int, parse_megabytes] | None = None
    arena_mb: Annotated[int, parse_megabytes] | None = None
    level: Annotated[int, parse_level] = 0


class HttpSettings(Struct, frozen=True):
    agents: Annotated[TcpAddress, parse_http] | None = None
    servers: Annotated[TcpAddress, parse_http] | None = None


class JournalSettings(Bounds, frozen=True, kw_only=True):
    at: str | None = None
    record: bool = False


class LogSettings(Struct, frozen=True):
    json: bool = False


class DataSettings(Struct, frozen=True):
    """How a cluster's data travels. What a table does not say, that of the nearest domain around it does.

    `at`
        Where a cluster's server takes datagrams. Without it: where it takes links. Clusters only.
    `mode`
        How a host reaches the others of its LAN. "reflect": it says everything to its server, which passes it
        on. "fanout": it says everything to each of them. "multicast": once, to all, and takes for granted
        that it arrives. "auto", the default: once to all where that arrives, which is tried all the time;
        what does not arrive is passed on by the server.
    `interface`
        By which multicast leaves and enters, such as "eth1". Without it: the one that leads to the server.
    `datagram_bytes`
        How much of what its programs say a host puts into one datagram for its LAN. Default 8000: a few
        packets, which arrive together or not at all. Lower it to 1200, which is one packet, where a LAN loses
        more than one in a hundred. Between sites it is always 1200.
    `parity_frames`
        Forward error correction between this cluster's server and others: see `FifoConfig`. Default 0: none.
    `between`
        How this cluster's messages reach the servers of others. "tree", the default: from server to
        server. Or an IPv4 multicast address with a port, such as "239.192.0.1:7790": with one datagram to all
        servers that say the same address; only where the network between them carries multicast.
    `sealed`
        Whether datagrams prove who sent them. Default true. Multicast is for those that do.
    """

    at: Annotated[TcpAddress, parse_tcp] | None = None
    mode: Annotated[str, parse_mode_of_data] | None = None
    interface: str | None = None
    datagram_bytes: Annotated[int, parse_datagram_bytes] | None = None
    parity_frames: int | None = None
    sealed: bool | None = None
    between: Annotated[str, parse_between] | None = None


class SetSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How the messages of a set of servers travel, if not over their links (`protocols/agreed/casting.py`).

    `multicast`
        The set's IPv4 multicast address, with a port.
    `repeaters`
        Servers of the set that repeat messages for those that multicast does not reach, and where they take
        these: { "eu.fr" = "10.0.1.1:7471" }.
    `unicast`
        Servers that multicast does not reach. Without `multicast`: all of them.
    """

    multicast: str = ""
    repeaters: dict[str, str] = {}
    unicast: tuple[str, ...] = ()


class AgreedSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of agreed groups (`protocols/agreed/config.py`): `lanes`, how many groups of a set may change
    at once; `early_flush`, whether atomic groups with a rule prepare for a view before it is agreed;
    `settle_s`, after which a side that fails its rule is ended."""

    lanes: Annotated[int, parse_lanes] = 0
    early_flush: bool = False
    settle_s: float = inf


class WorldConfig(Struct, frozen=True):
    name: str
    servers: dict[Domain, TcpAddress]
    profile: str = "wan"
    agents: AgentSettings = AgentSettings()
    http: HttpSettings = HttpSettings()
    detect: dict[str, float] = {}  # what differs from the profile
    logs: LogSettings = LogSettings()
    journal: JournalSettings = JournalSettings()
    data: dict[Domain, DataSettings] = {}
    replicas: dict[Domain, tuple[TcpAddress, ...]] = {}  # of servers that have some; `servers` has the first
    access: AccessConfig = AccessConfig()
    led: dict[str, Any] = {}  # what differs from `LedConfig`
    scopes: dict[str, Any] = {}  # and from `ScopesConfig`
    sets: tuple[SetAddress, ...] = ()
    agreed_settings: AgreedSettings = AgreedSettings()

    def addresses(self, path: Domain) -> tuple[TcpAddress, ...]:
        """Where to call the server of a domain, or one of its replicas; nowhere if it has none."""
        domain = domain_of_replica(path)
        if domain is not None:
            replicas = zip(self.voters(domain), self.replicas.get(domain, ()), strict=True)
            return tuple([address for voter, address in replicas if voter == path])
        return self.replicas.get(path) or ((self.servers[path],) if path in self.servers else ())

    def voters(self, domain: Domain) -> tuple[Domain, ...]:
        """The replicas of a domain's server, in the order of their ranks."""
        return tuple([replica_path(domain, rank + 1) for rank in range(len(self.replicas.get(domain, ())))])

    def at_replica(self, rank: int | None) -> "WorldConfig":
        """The same world as the replica of that rank sees it: its own address is the domain's."""
        if rank is None:
            return self
        own = {domain: at[rank - 1] for domain, at in self.replicas.items() if rank <= len(at)}
        return replace(self, servers={**self.servers, **own})

    def data_of(self, cluster: Domain) -> TcpAddress:
        """Where the data channel of this cluster's server is."""
        said = self.data.get(cluster)
        return said.at if said is not None and said.at is not None else self.servers[cluster]

    def data_mode(self, cluster: Domain) -> str:
        """The mode in which the hosts of this cluster reach each other."""
        return str(self._data(cluster, "mode", MODES[0]))

    def data_interface(self, cluster: Domain) -> str:
        return str(self._data(cluster, "interface", ""))

    def data_between(self, cluster: Domain) -> TcpAddress | None:
        """The multicast group in which this cluster's server speaks to others; none: they use the tree."""
        said = str(self._data(cluster, "between", TREE))
        return None if said == TREE else parse_tcp(said)

    def data_sealed(self, cluster: Domain) -> bool:
        return bool(self._data(cluster, "sealed", True))

    def fifo_of_hosts(self, cluster: Domain) -> FifoConfig:
        """The same at the hosts of this cluster: none of their datagrams leaves the LAN as it is."""
        config = self.fifo_at(cluster)
        if self.data_of(cluster).host.startswith(LOOPBACK):
            return config
        return replace(config, datagram_bytes=self._data(cluster, "datagram_bytes", LAN_DATAGRAM_BYTES))

    def _data(self, domain: Domain, name: str, default: object) -> object:
        while True:
            value = getattr(self.data.get(domain), name, None)
            if value is not None or domain == ROOT:
                return default if value is None else value
            domain = parent(domain)

    def fifo_at(self, cluster: Domain) -> FifoConfig:
        """The settings of FIFO multicast in this cluster."""
        config = FifoConfig.lan() if self.profile == "lan" else FifoConfig.wan()
        config = replace(
            config,
            parity_frames=self._data(cluster, "parity_frames", 0),
            between=TREE if self.data_between(cluster) is None else "multicast",
        )
        if self.data_of(cluster).host.startswith(LOOPBACK):
            return config.over_loopback()
        return replace(config, window_bytes=WINDOW_BYTES)

    @property
    def links(self) -> LinkConfig:
        links = PROFILES[self.profile]()
        return replace(links, detect=replace(links.detect, **self.detect)) if self.detect else links

    @property
    def resolve(self) -> RelaxedConfig:
        config = RelaxedConfig.lan() if self.profile == "lan" else RelaxedConfig.wan()
        return replace(config, endpoints_max=self.agents.endpoints_max)

    @property
    def agreed(self) -> AgreedConfig:
        config = AgreedConfig.lan() if self.profile == "lan" else AgreedConfig.wan()
        config = replace(config.fitted(self.links), level=self.agents.level, sets=self.sets)
        return replace(config, **asdict(self.agreed_settings))

    @property
    def led_settings(self) -> LedConfig:
        return LedConfig(**self.led)

    @property
    def scopes_settings(self) -> ScopesConfig:
        return ScopesConfig(**self.scopes)

    @property
    def lead(self) -> ElectionConfig:
        return ElectionConfig.lan() if self.profile == "lan" else ElectionConfig.wan()

    def check_detect(self) -> None:
        """Do the settings of detection go together, with what the profile says?"""
        try:
            assert self.links
        except BadInput as error:
            raise BadInput(
                error.what, fix=f"change it under [detect], or choose another profile than {self.profile!r}"
            ) from None

    def is_cluster(self, domain: Domain) -> bool:
        return not any(strictly_inside(domain, other) for other in self.servers)

    def siblings(self, domain: Domain) -> tuple[Domain, ...]:
        if domain == ROOT:
            return ()
        return tuple(
            sorted(d for d in self.servers if d not in (domain, ROOT) and parent(d) == parent(domain)),
        )

    def has_parent(self, path: Domain) -> bool:
        """Is there a server above this one? The root has none above it, and need not be served itself."""
        return path != ROOT and parent(path) in self.servers

    def above(self, path: Domain) -> tuple[Domain, ...]:
        return (parent(path),) if self.has_parent(path) else ()

    def may_be_below(self, domain: Domain, path: Domain) -> bool:
        """May a server of this path be a child of that domain's? A cluster has any hosts, another domain only
        the servers that the file names."""
        if path == ROOT or parent(path) != domain or is_reserved(path):
            return False
        return path in self.servers or self.is_cluster(domain)

    def check_host(self, host: Domain) -> None:
        """A host's agent needs a cluster to belong to."""
        check_not_reserved(host)
        if host in self.servers:
            inside = host if self.is_cluster(host) else self.clusters[0]
            raise BadInput(
                f"{host} is a domain of the world {self.name!r}, and an agent is of a host",
                fix=f"name a host inside one of: {_some(self.clusters)}; for example {child(inside, 'h1')}",
            )
        cluster = parent(host)
        if cluster not in self.servers:
            raise BadInput(
                f"host {host} has no cluster: the world {self.name!r} has no server for {cluster}",
                fix=f"add {cluster} under [servers], or choose a host inside one of: {_some(self.clusters)}",
            )
        if not self.is_cluster(cluster):
            raise BadInput(
                f"{cluster} holds domains, so {host} cannot be a host in it",
                fix=f"choose a host inside one of: {_some(self.clusters)}",
            )

    def check_domain(self, domain: Domain) -> None:
        if domain not in self.servers:
            raise BadInput(
                f"the world {self.name!r} has no server for {domain}",
                fix=f"add it under [servers]{_closest(domain, self.servers)}",
            )

    @property
    def clusters(self) -> tuple[Domain, ...]:
        return tuple(sorted(domain for domain in self.servers if self.is_cluster(domain)))


class WorldFile(Struct, frozen=True):
    """A world, and what its file says in so many words."""

    path: Path
    tables: dict[str, dict[str, Any]]
    world: WorldConfig

    def says(self, table: str, key: str) -> bool:
        return key in self.tables.get(table, {})


def load_world(path: Path) -> WorldConfig:
    return read_world(path).world


def read_world(path: Path) -> WorldFile:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"cannot read world file {path}: {error.strerror}",
            fix="name one with --world FILE or $ROSTRA_WORLD",
        ) from None
    except UnicodeDecodeError:
        raise BadInput(f"world file {path} is not UTF-8", fix="save it as UTF-8") from None
    try:
        tables = _tables(text)
        return WorldFile(path, tables, _world(tables))
    except RostraError as error:
        raise BadInput(f"world file {path}: {error.what}", fix=error.fix) from None


def parse_world(text: str) -> WorldConfig:
    return _world(_tables(text))


def _tables(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(
            f"not valid TOML: {error}", fix="texts need quotes, and so do keys with dots"
        ) from None


def _world(file: dict[str, Any]) -> WorldConfig:
    known = (
        *("world", "servers", "agents", "http", "data", "detect", "journal", "logs"),
        *("authorities", "agreed", "led", "scopes", "sets"),
    )
    check_keys(file, "the file", known)
    world = _read(AboutWorld, file, "world", required=True)
    servers = _servers(_table(file, "servers"))
    described = WorldConfig(
        world.name,
        {domain: addresses[0] for domain, addresses in servers.items()},
        world.profile,
        _read(AgentSettings, file, "agents"),
        _read(HttpSettings, file, "http"),
        _values(DetectConfig, file, "detect"),
        _read(LogSettings, file, "logs"),
        _read(JournalSettings, file, "journal"),
        {parse_domain(path): _data_of(path, said) for path, said in _table(file, "data", {}).items()},
        {domain: addresses for domain, addresses in servers.items() if len(addresses) > 1},
        _authorities(_table(file, "authorities", {})),
        _values(LedConfig, file, "led"),
        _values(ScopesConfig, file, "scopes"),
        agreed_settings=_read(AgreedSettings, file, "agreed"),
    )
    for domain, said in described.data.items():
        _check_data(described, domain, said)
    described.check_detect()
    if not described.agreed_settings.settle_s > 0:
        raise BadInput("[agreed] settle_s is not above 0", fix="write seconds: 3.0")
    addresses = [_set_address(described, path, said) for path, said in _table(file, "sets", {}).items()]
    _check_apart(addresses)
    return replace(described, sets=tuple(addresses))


def _set_address(world: WorldConfig, path: str, said: Any) -> SetAddress:
    name, where = parse_domain(path), f"[sets] {path}"
    try:
        settings = convert(said, SetSettings)
    except ValidationError as error:
        example = '{ multicast = "239.192.0.2:7470", repeaters = { "eu.fr" = "10.0.1.1:7471" } }'
        raise BadInput(f"{where}: {error}", fix=f"write a table such as {example}") from None
    servers = [each for each in world.servers if each == name or (each != ROOT and parent(each) == name)]
    if len(servers) < 2 or world.is_cluster(name):
        raise BadInput(f"{where} is no domain of domains with servers", fix="name one, or leave it out")

    def of_set(text: str) -> Domain:
        server = parse_domain(text)
        if server not in servers:
            raise BadInput(f"{where}: {text} is no server of this set", fix=f"name one of: {_some(servers)}")
        return server

    multicast = placed(where, parse_set_multicast, settings.multicast) if settings.multicast else None
    repeaters = []
    for server, text in settings.repeaters.items():
        if of_set(server) in world.replicas:
            raise BadInput(f"{where}: {server} has replicas, at several places", fix="name another repeater")
        repeaters.append(Repeater(of_set(server), placed(where, parse_repeater, text)))
    unicast = tuple(map(of_set, settings.unicast))
    if multicast and any(each.server in unicast for each in repeaters):
        raise BadInput(f"{where}: multicast does not reach a repeater", fix="name another repeater")
    lost = unicast if multicast else servers
    if not repeaters and lost:
        raise BadInput(
            f"{where}: no message reaches {_some(lost)}",
            fix="name a repeater, or leave the set out: its messages then go over links",
        )
    return SetAddress(name, multicast, tuple(repeaters), unicast)


def _check_apart(addresses: list[SetAddress]) -> None:
    """Each address is that of one set, and each place of a repeater is for one set of it."""
    groups = [each.multicast for each in addresses if each.multicast is not None]
    places = [*groups, *[repeater.place for each in addresses for repeater in each.repeaters]]
    for place in places:
        if places.count(place) > 1:
            raise BadInput(f"[sets] has {place[0]}:{place[1]} twice", fix="give each an address of its own")


def _authorities(table: Mapping[str, Any]) -> AccessConfig:
    """The installed ones, with their public keys."""
    check_authorities(list(table))
    return AccessConfig(tuple([(name, _public_key(name, table[name])) for name in sorted(table)]))


def _public_key(name: str, said: Any) -> bytes:
    kind, _, key = str(said).partition(":")
    try:
        octets = bytes.fromhex(key)
    except ValueError:
        octets = b""
    if kind != "ed25519" or len(octets) != KEY_BYTES:
        raise BadInput(
            f"[authorities] {name} is {said!r}, which is no public key",
            fix="write the line that `rostra authority key` printed",
        )
    return octets


def _servers(table: Mapping[str, Any]) -> dict[Domain, tuple[TcpAddress, ...]]:
    servers = {parse_domain(path): _addresses(table, path) for path in table}
    if not servers:
        raise BadInput("[servers] is empty", fix='name at least one cluster: "lab" = "127.0.0.1:7700"')
    for domain in sorted(servers):
        check_not_reserved(domain)
        if domain != ROOT and parent(domain) not in (*servers, ROOT):
            raise BadInput(
                f"[servers] {domain} stands alone: its enclosing domain {parent(domain)} has no server",
                fix=f'add "{parent(domain)}" = "address:port"; one process may serve both',
            )
    return servers


def _addresses(table: Mapping[str, Any], path: str) -> tuple[TcpAddress, ...]:
    """One address, or one for each replica (C-160)."""
    said = table[path]
    if not isinstance(said, list):
        return (parse_tcp(_text(said, "servers", path)),)
    if not 1 <= len(said) <= REPLICAS_MAX or not all(isinstance(each, str) for each in said):
        raise BadInput(
            f"[servers] {path} is {said!r}",
            fix=f"name 1 to {REPLICAS_MAX} addresses; 3 outlive the loss of one, 5 of two",
        )
    addresses = tuple([parse_tcp(each) for each in said])
    if len(set(addresses)) < len(addresses):
        raise BadInput(
            f"[servers] {path} has an address twice", fix="give every replica an address of its own"
        )
    return addresses


def _data_of(path: str, said: Any) -> DataSettings:
    """An address alone, or a table."""
    if isinstance(said, str):
        return DataSettings(at=parse_tcp(said))
    where = f"data.{path}"
    if not isinstance(said, dict):
        raise BadInput(
            f"[data] {path} is {said!r}",
            fix='write an address, "10.0.1.1:7710", or a table, { mode = "auto" }',
        )
    return _read(DataSettings, {where: said}, where)


def _check_data(world: WorldConfig, domain: Domain, said: DataSettings) -> None:
    inside = [cluster for cluster in world.clusters if cluster == domain or strictly_inside(domain, cluster)]
    if not inside or (said.at is not None and inside != [domain]):
        raise BadInput(
            f"[data] {domain} is no cluster with a server", fix=f"name one of: {_some(world.clusters)}"
        )
    if said.at is not None and domain in world.replicas:
        raise BadInput(
            f"[data] {domain} has replicas, and each takes data at its own address under [servers]",
            fix=f"leave out the address under [data] {domain}",
        )
    for cluster in inside:
        mode = world.data_mode(cluster)
        if not world.data_sealed(cluster) and mode in ("auto", "multicast"):
            raise BadInput(
                f"[data] {cluster} is not sealed, and any host could send there by multicast",
                fix='leave out sealed = false, or write mode = "reflect"',
            )
        if world.data_between(cluster) is not None and not world.data_sealed(cluster):
            raise BadInput(
                f"[data] {cluster} is not sealed, and any host could send between clusters by multicast",
                fix='leave out sealed = false, or write between = "tree"',
            )
        if mode == "multicast" and not is_possible(world.data_of(cluster)):
            raise BadInput(
                f"[data] {cluster} has mode multicast, which is for IPv4, and its server is at"
                f" {world.data_of(cluster)}",
                fix='write mode = "reflect"',
            )
        try:
            world.fifo_at(cluster)
        except BadInput as error:
            raise BadInput(f"[data] {cluster}: {error.what}", fix="change parity_frames") from None


# Tables and keys


def _read(kind: type[S], file: Mapping[str, Any], where: str, required: bool = False) -> S:
    """A table of the file as the struct that has its keys as fields."""
    return kind(**_values(kind, file, where, required))


def _values(kind: type[S], file: Mapping[str, Any], where: str, required: bool = False) -> dict[str, Any]:
    table = _table(file, where, None if required else {})
    known = {field.name: field for field in fields(kind)}
    check_keys(table, f"[{where}]", known)
    for name, field in known.items():
        if field.required and name not in table:
            raise BadInput(f"[{where}] {name} is missing", fix=f'add {name} = "..." under [{where}]')
    return {name: _value(known[name].type, said, where, name) for name, said in table.items()}


def _value(kind: Any, said: Any, where: str, key: str) -> Any:
    """A value of this type. Where a parser stands beside the type, that reads it as it reads flags."""
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    inner, *parse = get_args(options[0]) or options[:1]
    if parse:
        text = str(said) if inner is int else _text(said, where, key)
        return placed(f"[{where}] {key}", parse[0], text)
    try:
        return convert(said, inner)
    except ValidationError:
        raise BadInput(f"[{where}] {key} is {said!r}", fix=_HOW_TO_WRITE[inner]) from None


_HOW_TO_WRITE: Final = {
    bool: "write true or false, without quotes",
    int: "write it as a number",
    float: "write it as a number",
    str: "write it as a text, in quotes",
}


def _table(file: Mapping[str, Any], key: str, default: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    table = file.get(key, default)
    if table is None:
        raise BadInput(f"[{key}] is missing", fix=f"add a [{key}] table")
    if not isinstance(table, dict):
        raise BadInput(f"{key} is not a table", fix=f"write [{key}] on a line of its own")
    return table


def _text(value: Any, where: str, key: str) -> str:
    if isinstance(value, dict):
        # TOML reads eu.fr = "..." as a table eu with a key fr.
        raise BadInput(
            f"[{where}] {key} is a table", fix=f'put keys with dots in quotes: "{key}.{next(iter(value))}"'
        )
    if not isinstance(value, str):
        raise BadInput(f"[{where}] {key} is {value!r}", fix=_HOW_TO_WRITE[str])
    return value


def check_keys(table: Mapping[str, Any], where: str, keys: Collection[str]) -> None:
    for key in table:
        if key not in keys:
            raise BadInput(
                f"{where} has an unknown key {key!r}", fix=f"known: {', '.join(keys)}{_closest(key, keys)}"
            )


def _some(words: Collection[str]) -> str:
    return ", ".join(list(words)[:8]) + (", ..." if len(words) > 8 else "")
