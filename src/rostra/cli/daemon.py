"""Shared by `rostra agent` and `rostra server`: settings, listening addresses, HTTP beside the nodes."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rostra.config import WorldConfig, read_world
from rostra.names import Domain
from rostra.observe.log import EventLog
from rostra.runtime.run import Beside, Settings, run
from rostra.runtime.settings import BY_NAME, SETTINGS, Choices, Role, settle
from rostra.transport.addresses import Address, TcpAddress, default_socket


def run_daemon(
    role: Role,
    world: Path,
    flags: Mapping[str, str | None],
    *,
    domains: tuple[Domain, ...] = (),
    host: Domain | None = None,
    listen: TcpAddress | None = None,
    replica: int | None = None,
) -> int:
    choices = settle(read_world(world), role, flags)
    settings = Settings(
        world=choices.world,
        domains=domains,
        host=host,
        replica=replica,
        socket=choices["socket"] if _is_for_programs(choices, "socket", host) else None,
        token_file=choices["token_file"],
        programs_at=choices["programs_at"] if _is_for_programs(choices, "programs_at", host) else None,
        listen=listen,
        data=choices["data"],
        state=choices["state"],
        spill_mb=choices["spill_mb"],
        arena_mb=choices["arena_mb"],
        told={"world_file": str(world), **_told(choices)},
    )
    settings.check()
    record = EventLog(json=choices["json_logs"])

    def read_again() -> WorldConfig:
        return settle(read_world(world), role, flags).world.at_replica(replica)

    return run(settings, record, read_again=read_again, beside=_http(choices["http"], settings))


def flags_of(options: Mapping[str, Any]) -> dict[str, str | None]:
    """The options of a command that are settings, as texts."""
    return {
        name: ("yes" if value else None) if isinstance(value, bool) else value
        for name, value in options.items()
        if name in BY_NAME
    }


def _is_for_programs(choices: Choices, name: str, host: Domain | None) -> bool:
    """[agents] speaks of agents. A server that is none listens for administrators only if configured to."""
    setting = BY_NAME[name]
    return host is not None or choices.chosen[name].origin in (setting.flag, setting.variable)


def _told(choices: Choices) -> dict[str, str]:
    """The settings that were made, and where; the defaults are in the documentation."""
    return {
        setting.name: f"{choices[setting.name]} (from {choices.chosen[setting.name].origin})"
        for setting in SETTINGS
        if not choices.is_default(setting.name)
    }


def _http(at: TcpAddress | None, settings: Settings) -> Beside | None:
    if at is None:
        return None
    # Imported only where HTTP is served, and before the loop runs.
    from rostra.web.beside import http_beside
    from rostra.web.serve import listen

    if settings.token_file is not None:
        # The dashboard is a program, too: where it has only TCP it must show what others must show.
        os.environ.setdefault("ROSTRA_TOKEN_FILE", str(settings.token_file))
    own = _own_address(settings)
    # Before any node knows of us: a host that comes and fails at once would look crashed.
    listener = listen(at)
    return lambda process: http_beside(process, listener, own)


def _own_address(settings: Settings) -> Address:
    """Where programs, and so the dashboard, reach the nodes of this process."""
    if settings.socket is not None:
        return settings.socket
    if settings.host is not None:
        return default_socket()
    return settings.listen or settings.world.at_replica(settings.replica).servers[settings.domains[0]]
