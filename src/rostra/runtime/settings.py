"""The settings of a daemon, by precedence: flags, environment variables, world file, defaults.

    --http 127.0.0.1:7780        flag
    ROSTRA_HTTP=127.0.0.1:7780   variable
    [http] agents = "..."        world file
    (nothing)                    default

Every setting stands once in `SETTINGS`. Daemons are started from it, and `rostra config show --origin` prints
it: what is shown is what is used.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import fields, replace

from rostra.config import (
    JournalSettings,
    Limits,
    WorldConfig,
    WorldFile,
    parse_http,
    parse_level,
    parse_limit,
    parse_megabytes,
    parse_mode,
    parse_profile,
    placed,
)
from rostra.errors import BadInput
from rostra.journal.bounds import Bounds
from rostra.protocols.detect.config import DetectConfig
from rostra.runtime.arenas import MB_EACH
from rostra.runtime.spill import MB_MAX
from rostra.transport.addresses import default_socket, parse_socket_path, parse_tcp

Role = Literal["agent", "server"]

NONE: Final = "none"
"""What a flag or variable says to take back what the file says."""


class Setting(Struct, frozen=True):
    name: str
    what: str
    parse: Callable[[str], Any]
    in_file: tuple[str, str] | None = None  # table and key; for HTTP the key depends on the role
    default: Callable[[], Any] = lambda: None
    flag: str = ""  # none: no flag says this

    @property
    def variable(self) -> str:
        return f"ROSTRA_{self.name.upper().replace('.', '_')}"

    def place(self, role: Role) -> tuple[str, str] | None:
        return ("http", f"{role}s") if self.name == "http" else self.in_file


class Chosen(Struct, frozen=True):
    value: Any
    origin: str  # the flag, the variable, the place in the file, or "default"


def _yes_or_no(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False}
    try:
        return {**words, "off": False, "": False}[text.lower()]
    except KeyError:
        raise BadInput(f"{text!r} is neither yes nor no", fix="write yes or no") from None


def _number(kind: type) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = float(text)
            return int(text) if kind is int else number
        except ValueError:
            raise BadInput(f"{text!r} is not a number", fix="write a number, such as 2.5") from None

    return parse


def _limit(name: str) -> Setting:
    what = name.removesuffix("_max")
    return Setting(
        name,
        f"how many {what} all programs of an agent may hold; one user, as many as are still free",
        parse_limit,
        ("agents", name),
        lambda: getattr(Limits(), name),
    )


def _numbers(
    table: str, kind: type[Struct], default: Callable[[str], Any] = lambda name: None
) -> list[Setting]:
    """All fields of a struct of numbers, each under the table's name."""
    return [
        Setting(
            f"{table}.{each.name}", "", _number(each.type), (table, each.name), partial(default, each.name)
        )
        for each in fields(kind)
    ]


LIMITS: Final = Limits.__struct_fields__
BOUNDS: Final = Bounds.__struct_fields__
DETECT: Final = DetectConfig.__struct_fields__

SETTINGS: Final = (
    Setting(
        "socket",
        "where programs connect",
        parse_socket_path,
        ("agents", "socket"),
        default_socket,
        "--socket",
    ),
    Setting(
        "socket_mode",
        "who may open the socket",
        parse_mode,
        ("agents", "socket_mode"),
        lambda: 0o660,
    ),
    Setting(
        "programs_at",
        "where programs connect over TCP",
        parse_tcp,
        ("agents", "listen"),
        flag="--programs-at",
    ),
    Setting(
        "token_file",
        "holds what programs must show over TCP",
        Path,
        ("agents", "token_file"),
        flag="--token-file",
    ),
    Setting(
        "data", "where datagrams of groups are taken, if not where [data] says", parse_tcp, flag="--data"
    ),
    Setting(
        "state",
        "where incarnations and permanent groups survive a restart",
        Path,
        ("agents", "state"),
        flag="--state",
    ),
    Setting(
        "spill_mb",
        "how much of that directory slow receivers may fill, with slow=spill",
        parse_megabytes,
        ("agents", "spill_mb"),
        lambda: MB_MAX,
    ),
    Setting(
        "arena_mb",
        "memory that an agent shares with programs, for each group in which much is said; 0: none",
        parse_megabytes,
        ("agents", "arena_mb"),
        lambda: MB_EACH,
    ),
    Setting(
        "level",
        "of an agent's members in agreed groups, raised with every roll-out",
        parse_level,
        ("agents", "level"),
        lambda: 0,
    ),
    *(_limit(name) for name in LIMITS),
    Setting("http", "health, metrics and the dashboard", parse_http, flag="--http"),
    Setting(
        "profile",
        "how patient to be with silence",
        parse_profile,
        ("world", "profile"),
        lambda: "wan",
        "--profile",
    ),
    Setting(
        "json_logs",
        "log lines as JSON",
        _yes_or_no,
        ("logs", "json"),
        lambda: False,
        "--json-logs",
    ),
    Setting(
        "journal",
        "where what happens is written down: a directory or URI",
        str,
        ("journal", "at"),
        flag="--journal",
    ),
    Setting(
        "record",
        "keep every input too, for rostra sim replay",
        _yes_or_no,
        ("journal", "record"),
        lambda: False,
        "--record",
    ),
    *_numbers("journal", Bounds, partial(getattr, Bounds())),
    *_numbers("detect", DetectConfig),
)

BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


class Choices(Struct, frozen=True):
    """The settings of one daemon, and where each comes from."""

    chosen: dict[str, Chosen]
    world: WorldConfig  # with what flags and variables changed about it

    def __getitem__(self, name: str) -> Any:
        return self.chosen[name].value

    def is_default(self, name: str) -> bool:
        return self.chosen[name].origin.startswith("default")


def settle(
    file: WorldFile, role: Role, flags: Mapping[str, str | None], environ: Mapping[str, str] = os.environ
) -> Choices:
    """Decide every setting. `flags` are as they were typed, by the setting's name; None if they were not."""
    chosen = {setting.name: _choose(setting, file, role, flags, environ) for setting in SETTINGS}
    detect = {
        name: chosen[f"detect.{name}"].value
        for name in DETECT
        if not chosen[f"detect.{name}"].origin.startswith("default")
    }
    world = replace(
        file.world,
        profile=chosen["profile"].value,
        detect=detect,
        journal=JournalSettings(
            at=chosen["journal"].value,
            record=chosen["record"].value,
            **{name: chosen[f"journal.{name}"].value for name in BOUNDS},
        ),
        agents=replace(
            file.world.agents,
            socket_mode=chosen["socket_mode"].value,
            level=chosen["level"].value,
            **{name: chosen[name].value for name in LIMITS},
        ),
    )
    world.check_detect()
    for name in DETECT:
        if name not in detect:
            value = getattr(world.links.detect, name)
            chosen[f"detect.{name}"] = Chosen(value, f"default of profile {world.profile}")
    return Choices(chosen, world)


def _choose(
    setting: Setting,
    file: WorldFile,
    role: Role,
    flags: Mapping[str, str | None],
    environ: Mapping[str, str],
) -> Chosen:
    if (told := flags.get(setting.name)) is not None:
        return Chosen(_parse(setting, setting.flag, told), setting.flag)
    if (told := environ.get(setting.variable)) is not None:
        return Chosen(_parse(setting, setting.variable, told), setting.variable)
    place = setting.place(role)
    if place is not None and file.says(*place):
        table, key = place
        return Chosen(_from_file(file.world, table, key), f"{file.path} [{table}] {key}")
    return Chosen(setting.default(), "default")


def _parse(setting: Setting, origin: str, text: str) -> Any:
    if text == NONE and setting.default() is None:
        return None
    return placed(origin, setting.parse, text)


def _from_file(world: WorldConfig, table: str, key: str) -> Any:
    if table == "detect":
        return world.detect[key]
    return getattr(world if table == "world" else getattr(world, table), key)
