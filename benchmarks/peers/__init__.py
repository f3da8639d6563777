"""The systems that are measured side by side."""

from typing import Any

from benchmarks.peers.base import Program


def program(peer: str, settings: dict[str, Any]) -> Program:
    """A client of this peer. Imported late: no client process loads another peer's library."""
    match peer:
        case "echo":
            from benchmarks.peers.echo import EchoProgram

            return EchoProgram(**settings)
        case "redis":
            from benchmarks.peers.redis import RedisProgram

            return RedisProgram(**settings)
        case "redis-streams":
            from benchmarks.peers.redis_streams import RedisStreamProgram

            return RedisStreamProgram(**settings)
        case "rostra":
            from benchmarks.peers.rostra import RostraProgram

            return RostraProgram(**settings)
        case "rostra-led":
            from benchmarks.peers.rostra_led import LedProgram

            return LedProgram(**settings)
        case "rostra-agreed":
            from benchmarks.peers.rostra_agreed import AgreedProgram

            return AgreedProgram(**settings)
        case "rostra-ordered":
            from benchmarks.peers.rostra_ordered import OrderedProgram

            return OrderedProgram(**settings)
        case "rostra-loaded":
            from benchmarks.peers.rostra_loaded import LoadedProgram

            return LoadedProgram(**settings)
        case "bare":
            from benchmarks.peers.bare import BareProgram

            return BareProgram(**settings)
        case "zeromq":
            from benchmarks.peers.zeromq import ZeroMqProgram

            return ZeroMqProgram(**settings)
    raise ValueError(f"no peer named {peer!r}")
