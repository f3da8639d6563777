"""What is to be run: a file that names topologies, settings, losses and seeds, as a table of runs.

[sweep]
name = "profiles"
seeds = 20                      # or a list of them
loss = [0.0, 0.01, 0.05]        # shares of packets, on every line
calm_s = 120                    # before anything happens: every suspicion then is false

[topology.site]
clusters = { "site" = 6 }
network = "lan"                 # lan | wan | steady | wild

[settings.lan]
profile = "lan"                 # where the other settings come from
down_after_s = [0.5, 1.0, 2.0]  # each of them; any field of DetectConfig, several lists give every pair
"""

import hashlib
import itertools
import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rostra.errors import UNDECODABLE, BadInput
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.links.config import LinkConfig
from rostra.sim import network

NETWORKS: Final = {"lan": network.LAN, "wan": network.WAN, "steady": network.STEADY, "wild": network.WILD}
PROFILES: Final = {"lan": LinkConfig.lan, "wan": LinkConfig.wan}
RUNS_MAX: Final = 1_000_000


class Topology(Struct, frozen=True, forbid_unknown_fields=True):
    clusters: dict[str, int]  # hosts in each
    network: str = "wan"


class SweepRun(Struct, frozen=True):
    """One simulated world. Everything that its row depends on is here."""

    topology: str
    clusters: dict[str, int]
    network: str
    profile: str
    settings: str  # their name in the file
    detect: dict[str, float]  # what differs from the profile
    loss: float
    seed: int
    calm_s: float

    @property
    def id(self) -> str:
        """The same for the same run, in any file."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]

    @property
    def world(self) -> str:
        """The name of its world, in the journal."""
        return f"sweep-{self.id}"

    @property
    def timers(self) -> LinkConfig:
        profile = PROFILES[self.profile]()
        return replace(profile, detect=replace(profile.detect, **self.detect)).over_datagrams()

    @property
    def label(self) -> str:
        """The settings, for people."""
        changed = ", ".join(f"{name} {value:g}" for name, value in self.detect.items())
        return f"{self.profile}: {changed}" if changed else self.profile


class Plan(Struct, frozen=True):
    name: str
    runs: tuple[SweepRun, ...]


class _Sweep(Struct, forbid_unknown_fields=True):
    name: str
    seeds: int | list[int] = 10
    loss: tuple[float, ...] = (0.0,)
    calm_s: float = 60.0


class _File(Struct, forbid_unknown_fields=True):
    sweep: _Sweep
    topology: dict[str, Topology]
    settings: dict[str, dict[str, Any]]


def read_plan(path: str | Path) -> Plan:
    """The runs that a file asks for, in order; an error that says what is wrong with it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", fix="name a TOML file") from None
    try:
        file = msgspec.convert(tomllib.loads(text), _File)
    except UNDECODABLE as error:
        raise BadInput(f"{path} is no sweep: {error}", fix="compare it with docs/sweeps.md") from None
    seeds = range(file.sweep.seeds) if isinstance(file.sweep.seeds, int) else file.sweep.seeds
    runs: list[SweepRun] = []
    for name, topology in file.topology.items():
        if topology.network not in NETWORKS:
            raise BadInput(f"no network is called {topology.network!r}", fix=f"one of: {', '.join(NETWORKS)}")
        for settings, given in file.settings.items():
            for detect, loss, seed in itertools.product(_each(path, settings, given), file.sweep.loss, seeds):
                runs.append(
                    SweepRun(
                        name,
                        topology.clusters,
                        topology.network,
                        given.get("profile", "wan"),
                        settings,
                        detect,
                        loss,
                        seed,
                        file.sweep.calm_s,
                    )
                )
                if len(runs) > RUNS_MAX:
                    raise BadInput(f"{path} asks for more than {RUNS_MAX} runs", fix="fewer lists or seeds")
    if not runs:
        raise BadInput(f"{path} asks for no run at all", fix="at least one seed, loss, topology and settings")
    return Plan(file.sweep.name, tuple(runs))


def _each(path: str | Path, name: str, given: dict[str, Any]) -> list[dict[str, float]]:
    """Every combination of the values that are listed."""
    profile = given.get("profile", "wan")
    if profile not in PROFILES:
        raise BadInput(f"{path}: no profile is called {profile!r}", fix=f"one of: {', '.join(PROFILES)}")
    fields = {key: value for key, value in given.items() if key != "profile"}
    unknown = sorted(set(fields) - set(DetectConfig.__struct_fields__))
    if unknown:
        raise BadInput(
            f"{path}: settings.{name} has {unknown[0]!r}, which is no setting of the detector",
            fix=f"one of: {', '.join(DetectConfig.__struct_fields__)}",
        )
    lists = [value if isinstance(value, list) else [value] for value in fields.values()]
    found = [dict(zip(fields, values, strict=True)) for values in itertools.product(*lists)]
    for detect in found:
        replace(PROFILES[profile]().detect, **detect)  # says what does not fit together
    return found
