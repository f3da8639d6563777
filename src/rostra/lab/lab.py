"""A lab: sites as network namespaces, with an impaired wide-area network between them.

    rostra-lab1-mit     lan0 (bridge) ── eth0   rostra-lab1-mit.h1
         │                            ── eth0   rostra-lab1-mit.h2
       wan0 (TUN) ══ router process ══ wan0 of the other sites

IP multicast works inside a site and does not leave it. Every process that a lab starts ends with the process
that opened the lab, even if that one is killed; the next lab removes namespaces that are left.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from rostra.errors import BadInput, Unreachable
from rostra.lab.control import Control, Now
from rostra.lab.home import LabHome
from rostra.lab.namespaces import TOOLS_PATH, check_possible, inside, ip, ip_batch
from rostra.lab.plan import NETWORK, LabPlan, Site, load_plan
from rostra.lab.router import READY, WAN, Order

LAN: Final = "lan0"
WAN_QUEUE_PACKETS: Final = 10_000
END_S: Final = 5.0
CARRIER_S: Final = 10.0


class LabPlace:
    """Where processes run: a site's own machine, or one of its hosts. Each is a namespace with an address."""

    def __init__(self, lab: "Lab", name: str, namespace: str, address: str) -> None:
        self.name = name
        self.namespace = namespace
        self.address = address
        self._lab = lab

    def command(self, *words: str) -> list[str]:
        """How to run this here, from a shell outside."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def popen(self, words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a process here. It ends with the lab, however that ends; and Ctrl-C is not for it."""
        environment = {**options.pop("env", os.environ), "PATH": TOOLS_PATH}
        process: subprocess.Popen[Any] = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *self.command(*words)],
            env=environment,
            **{"stdin": subprocess.DEVNULL, "start_new_session": True, **options},
        )
        self._lab.processes.append(process)
        return process

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_DGRAM) -> socket.socket:
        """A socket of this very process that lives here, and stays here wherever it is used."""
        with inside(self.namespace):
            return socket.socket(family, kind)


class SitePlace(LabPlace):
    def __init__(self, lab: "Lab", site: Site, namespace: str) -> None:
        super().__init__(lab, site.name, namespace, site.address)
        self.site = site
        self.hosts: dict[str, LabPlace] = {}

    def host(self, name: str) -> LabPlace:
        try:
            return self.hosts[name]
        except KeyError:
            raise BadInput(
                f"site {self.name} has no host {name!r}", fix=f"it has: {', '.join(self.hosts) or 'none'}"
            ) from None


class LabLink:
    """Some ways that are changed together: both of a link, or one."""

    def __init__(self, control: Control, ways: list[tuple[str, str]]) -> None:
        self._control = control
        self._ways = ways

    def set(self, **settings: Any) -> None:
        """Change its quality by name: ``set(loss=0.2, delay_s=0.1)``. Other settings stay."""
        self._control.change(self._ways, **settings)

    def cut(self) -> None:
        self._control.cut(self._ways)

    def heal(self) -> None:
        self._control.heal(self._ways)


class Lab:
    """``async with Lab() as lab:`` the paper's three sites, or what a plan says."""

    def __init__(self, plan: LabPlan | None = None) -> None:
        self.plan = plan or load_plan()
        self.processes: list[subprocess.Popen[Any]] = []
        self.router: subprocess.Popen[bytes] | None = None
        self._sites: dict[str, SitePlace] = {}
        self._home: LabHome | None = None
        self._control: Control | None = None

    @classmethod
    def at(cls, directory: Path) -> "Lab":
        """A lab that is up already, opened by another process: to change and to look at, not to end."""
        try:
            order = Order.read(directory)
        except FileNotFoundError:
            what = f"the lab in {directory} is not up yet, or no more"
            raise Unreachable(what, fix="start it: rostra lab up") from None
        lab = cls(order.plan)
        lab._home = LabHome(directory)
        for site in lab.plan.sites:
            lab._place(site)
        lab._control = Control(Path(order.control))
        return lab

    # Building and tearing down

    def open(self) -> "Lab":
        """In the main thread: the kernel ends what a lab started together with the thread that did."""
        check_possible()
        self._home = LabHome.make()
        try:
            for site in self.plan.sites:
                self._build(site)
            self._start_router()
            for place in self._sites.values():
                self._lead_out(place)
            for place in self._sites.values():
                _wait_for_carrier(place)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End what was started, by its number, and remove what was made."""
        if self._home is None:
            return
        end(self.processes)  # first of all: what they say at the end should still arrive
        if self.router is not None:
            end([self.router])
        if self._control is not None:
            self._control.close()
        self._home.remove()
        self._home = self._control = None

    async def __aenter__(self) -> "Lab":
        return self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _build(self, site: Site) -> None:
        """The LAN of a site: a bridge that floods multicast, as a plain switch does."""
        home = self.home
        place = self._place(site)
        namespace = home.add_namespace(site.name)
        commands = [
            "link set lo up",
            f"link add {LAN} type bridge mcast_snooping 0",
            f"addr add {site.address}/24 dev {LAN}",
            f"link set {LAN} up",
            f"route add 224.0.0.0/4 dev {LAN}",
        ]
        for host, at in place.hosts.items():
            home.add_namespace(at.name)
            ip(*f"link add eth0 netns {at.namespace} type veth peer {host} netns {namespace}".split())
            commands.append(f"link set {host} master {LAN} up")
            ip_batch(
                at.namespace,
                [
                    "link set lo up",
                    f"addr add {at.address}/24 dev eth0",
                    "link set eth0 up",
                    f"route add default via {site.address}",
                    "route add 224.0.0.0/4 dev eth0",
                ],
            )
        ip_batch(namespace, commands)

    def _place(self, site: Site) -> SitePlace:
        place = self._sites[site.name] = SitePlace(self, site, self.home.namespace(site.name))
        for host in site.host_names:
            path = f"{site.name}.{host}"
            place.hosts[host] = LabPlace(self, path, self.home.namespace(path), site.host_address(host))
        return place

    def _start_router(self) -> None:
        home = self.home
        sites = {name: place.namespace for name, place in self._sites.items()}
        Order(self.plan, sites, str(home.control)).write(home.path)
        with self._router_log.open("wb") as log:
            router = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "rostra.lab.router", str(home.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PATH": TOOLS_PATH},
                start_new_session=True,
            )
        self.router = router
        assert router.stdout is not None
        with router.stdout as told:
            if told.readline().strip() != READY.encode():
                raise Unreachable(f"the lab's router did not start: {self.last_words}")
        self._control = Control(home.control)

    def _lead_out(self, place: SitePlace) -> None:
        """Other sites are behind the router. IPv6 would only make noise that leads nowhere."""
        with inside(place.namespace):
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
            for interface in ("all", "default"):
                with contextlib.suppress(OSError):
                    Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6").write_text("1")
        network = ".".join(map(str, (*NETWORK, 0, 0)))
        ip_batch(
            place.namespace,
            [
                f"link set {WAN} txqueuelen {WAN_QUEUE_PACKETS} up",
                f"route add {network}/16 dev {WAN} src {place.address}",
            ],
        )

    # Sites

    @property
    def home(self) -> LabHome:
        if self._home is None:
            raise BadInput("this lab is not open", fix="async with Lab() as lab: ...")
        return self._home

    @property
    def last_words(self) -> str:
        """The last line of the router's log, if any."""
        lines = self._router_log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    @property
    def _router_log(self) -> Path:
        return self.home.path / "router.log"

    @property
    def control(self) -> Control:
        if self._control is None:
            raise BadInput("this lab is not open", fix="async with Lab() as lab: ...")
        return self._control

    @property
    def sites(self) -> tuple[SitePlace, ...]:
        return tuple(self._sites.values())

    def site(self, name: str) -> SitePlace:
        self.plan.site(name)
        return self._sites[name]

    def host(self, path: str) -> LabPlace:
        """``lab.host("mit.h1")``."""
        site, _, name = path.partition(".")
        return self.site(site).host(name)

    # The network between them

    def link(self, a: str, b: str) -> LabLink:
        """Both ways between two sites."""
        return LabLink(self.control, [(a, b), (b, a)])

    def way(self, source: str, to: str) -> LabLink:
        """One direction of a link."""
        return LabLink(self.control, [(source, to)])

    def cut(self, *sites: str) -> None:
        """``cut("ntu")``: from all other sites. ``cut("ntu", "mit")``: from each other."""
        LabLink(self.control, self._between(*sites)).cut()

    def heal(self, *sites: str) -> None:
        """The same the other way round; without a name, everything."""
        LabLink(self.control, self._between(*sites)).heal()

    def now(self) -> Now:
        """How all ways stand, and what they counted."""
        return self.control.now()

    def _between(self, *sites: str) -> list[tuple[str, str]]:
        for site in sites:
            self.plan.site(site)
        ways = [(source, to) for source, to, _ in self.plan.ways]
        match sites:
            case ():
                return ways
            case (site,):
                return [way for way in ways if site in way]
            case (a, b):
                return [way for way in ways if set(way) == {a, b}]
        raise BadInput("a cut is around one site or between two", fix='cut("ntu") or cut("ntu", "mit")')


def _wait_for_carrier(place: SitePlace) -> None:
    """The kernel takes up to a second to believe in a new cable; packets are lost until then."""
    give_up_s = time.monotonic() + CARRIER_S
    while True:
        about = json.loads(ip("-n", place.namespace, "-details", "-json", "link", "show", "master", LAN))
        forwarding = [each for each in about if each["linkinfo"]["info_slave_data"]["state"] == "forwarding"]
        if len(forwarding) == len(place.hosts):
            return
        if time.monotonic() > give_up_s:
            raise Unreachable(f"the hosts of {place.name} do not reach their LAN within {CARRIER_S:.0f} s")
        time.sleep(0.01)


def end(processes: Sequence[subprocess.Popen[Any]]) -> None:
    """All at once: ask them, then do not ask any more."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)
        give_up_s = time.monotonic() + END_S
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, give_up_s - time.monotonic()))
