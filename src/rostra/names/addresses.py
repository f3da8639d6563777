"""Where a process is on the network: ``h3:7700`` or ``[::1]:7700``."""

import re
from ipaddress import ip_address
from typing import Final

from msgspec import Struct

from rostra.errors import BadInput
from rostra.names.text import quoted

_HOST_NAME: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?", re.ASCII)
_HOST_LENGTH_MAX: Final = 253


class TcpAddress(Struct, frozen=True, order=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_tcp(text: str) -> TcpAddress:
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise BadInput(f"{text!r} is ambiguous", fix=f"put an IPv6 address in brackets: [{host}]:{port}")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise BadInput(f"{text!r} is not an address", fix="write host:port, for example 10.0.0.5:7700")
    return TcpAddress(host, int(port))


def parse_reachable(text: str) -> TcpAddress:
    """As another process says where it is: what can be looked up, and a port that can be sent to."""
    address = parse_tcp(text)
    if not address.port or not (_is_host_name(address.host) or _is_ip(address.host)):
        raise BadInput(f"{quoted(text)} is nowhere", fix="write the address of a server, and its port")
    return address


def _is_host_name(host: str) -> bool:
    return len(host) <= _HOST_LENGTH_MAX and _HOST_NAME.fullmatch(host) is not None


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
