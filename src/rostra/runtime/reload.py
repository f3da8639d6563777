"""SIGHUP: apply a changed world file, as far as that is possible without a restart.

    at once             addresses of servers, neighbours that are new or gone, the mode of the socket
    only by a restart   the world's name, the profile and [detect], where we listen ourselves, replicas,
                        [data], [sets], [agreed], HTTP, logs, the journal; a cluster that got subdomains; a
                        server that is gone, in its own process

A neighbour that was removed from the file gets a goodbye, is not called any more, and may not call. The log
names every setting that was not applied.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from rostra.config import WorldConfig
from rostra.names import Domain
from rostra.runtime.listener import Listener
from rostra.runtime.process import Process
from rostra.transport.addresses import TcpAddress


class Reloaded(Struct, frozen=True):
    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


def reload(process: Process, listeners: Iterable[Listener], new: WorldConfig) -> Reloaded:
    old = process.world
    changed: list[str] = []
    restart: list[str] = []
    if new.name != old.name:
        # No neighbour would accept a server that changes its world while it runs.
        return Reloaded((), ("[world] name",))
    restart += [f"[world] {key}" for key in ("profile",) if getattr(new, key) != getattr(old, key)]
    restart += ["[detect]"] if new.detect != old.detect else []
    restart += [
        f"[servers] {domain}: its replicas"
        for domain in sorted(old.replicas.keys() | new.replicas.keys())
        if new.replicas.get(domain) != old.replicas.get(domain)
    ]
    restart += [
        f"[agents] {key}"
        for key in ("socket", "listen", "token_file", "state", "spill_mb", "arena_mb", "level")
        if getattr(new.agents, key) != getattr(old.agents, key)
    ]
    restart += ["[data]"] if new.data != old.data else []
    restart += ["[sets]"] if new.sets != old.sets else []
    restart += ["[agreed]"] if new.agreed_settings != old.agreed_settings else []
    restart += ["[http]"] if new.http != old.http else []
    restart += ["[journal]"] if new.journal != old.journal else []
    restart += ["[logs]"] if new.logs != old.logs else []
    for domain in sorted(old.servers.keys() | new.servers.keys()):
        if domain not in new.servers and domain in process.hosted_nodes:
            restart.append(f"[servers] {domain}: no longer there")
        elif domain not in new.servers:
            changed.append(f"[servers] {domain}: no longer there")
        elif new.servers[domain] != old.servers.get(domain):
            if domain in process.hosted_nodes:
                restart.append(f"[servers] {domain}: where we listen ourselves")
            else:
                changed.append(f"[servers] {domain}")
    restart += [
        f"[servers] {domain}: {'holds hosts' if new.is_cluster(domain) else 'holds domains'} now"
        for domain in process.hosted_nodes
        if domain in old.servers
        and domain in new.servers
        and old.is_cluster(domain) != new.is_cluster(domain)
    ]
    if new.agents.socket_mode != old.agents.socket_mode:
        changed.append("[agents] socket_mode")
        for listener in listeners:
            listener.set_mode(new.agents.socket_mode)
    own = {domain: at for domain, at in old.servers.items() if domain in process.hosted_nodes}
    process.take_over(_with_what_counts(old, new, own))
    return Reloaded(tuple(changed), tuple(restart))


def _with_what_counts(old: WorldConfig, new: WorldConfig, own: dict[Domain, TcpAddress]) -> WorldConfig:
    """The new servers and our own, and everything else as it was."""
    agents = replace(old.agents, socket_mode=new.agents.socket_mode)
    return replace(old, servers={**own, **new.servers}, agents=agents)
