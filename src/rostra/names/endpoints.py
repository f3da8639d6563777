"""Endpoints: the address of a program on a host.

``eu.fr.paris.h3/web-1#7`` is the endpoint that a program opened as ``web-1`` on host ``eu.fr.paris.h3``, in
incarnation 7. A host's agent hands out incarnations in growing order, across restarts too, so an address is
never used twice and the newer of two endpoints with one name has the larger number.
"""

import re
from typing import Final, NewType

from rostra.errors import BadName
from rostra.names.domains import Domain, inside, parse_host, parse_scope
from rostra.names.text import check_is_text, quoted

Endpoint = NewType("Endpoint", str)

INCARNATION_MAX: Final = 2**63 - 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_INCARNATION = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


def parse_endpoint_name(text: str) -> str:
    """Check the part that a program chooses: ``web-1``."""
    check_is_text(text, "name", "web-1")
    if not _NAME.fullmatch(text):
        raise BadName(
            f"{quoted(text)} is not an endpoint name",
            fix="use 1 to 63 of a-z, A-Z, 0-9, '.', '_' and '-', beginning with a letter or digit",
        )
    return text


def parse_endpoint(text: str) -> Endpoint:
    check_is_text(text, "endpoint", "eu.paris.h3/web-1#7")
    host, slash, rest = text.partition("/")
    name, sharp, incarnation = rest.partition("#")
    if not slash or not sharp:
        raise BadName(
            f"{quoted(text)} is not an endpoint", fix="write host/name#incarnation: eu.paris.h3/web-1#7"
        )
    if not _INCARNATION.fullmatch(incarnation) or int(incarnation) > INCARNATION_MAX:
        raise BadName(f"{quoted(incarnation)} is not an incarnation", fix="write a number from 0 to 2^63-1")
    return endpoint(parse_host(host), parse_endpoint_name(name), int(incarnation))


def parse_subject(text: str) -> str:
    """Read what may be asked about: an endpoint, one in any incarnation (``eu.paris.h3/web-1``), a host or a
    domain."""
    if "/" not in text:
        return parse_scope(text)
    if "#" in text:
        return parse_endpoint(text)
    host, _, name = text.partition("/")
    return f"{parse_host(host)}/{parse_endpoint_name(name)}"


def concerns(subject: str, endpoint: str) -> bool:
    """Is this endpoint the subject, an incarnation of it, or inside it?"""
    return f"{endpoint}#".startswith(f"{subject}#") or inside(Domain(subject), endpoint)


def endpoint(host: Domain, name: str, incarnation: int) -> Endpoint:
    return Endpoint(f"{host}/{name}#{incarnation}")


def host_of(endpoint: Endpoint) -> Domain:
    return Domain(endpoint.partition("/")[0])


def name_of(endpoint: Endpoint) -> str:
    return endpoint.partition("/")[2].rpartition("#")[0]


def incarnation_of(endpoint: Endpoint) -> int:
    return int(endpoint.rpartition("#")[2])
