"""Domains, scopes and hosts: paths in the tree of a world.

A world is a tree. A **domain** is named by its path, root first: ``eu``, ``eu.fr``, ``eu.fr.paris``; the root
itself is ``world``. A **host** is a domain of one host, one label below its cluster: ``eu.fr.paris.h3``. A
**scope** is a domain, used to say how far a group reaches.

A name *is* its canonical text. The same string is hashed, sorted, printed, and put on the wire, so there is
no second form to keep in step, and two equal names are equal byte for byte. `parse_domain` validates: its
result needs no further checks.

Where we differ from the paper: Congress compares prefixes of ATM addresses; we compare whole labels, because
``eu.fr`` is a text prefix of ``eu.france`` and contains none of it.
"""

import difflib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NewType

from rostra.errors import BadName
from rostra.names.text import check_is_text, quoted

Domain = NewType("Domain", str)

ROOT: Final = Domain("world")

OPEN: Final = Domain("-open")
"""In the place of a scope: the smallest domain that contains all members, whatever that is at the moment."""

LABEL_LENGTH_MAX: Final = 63
DOMAIN_LABELS_MAX: Final = 8
HOST_LABELS_MAX: Final = DOMAIN_LABELS_MAX + 1

CORRECTED_MAX: Final = 100
"""Characters of a path that are compared with others; more would cost a hostile program's agent time."""

_LABEL = re.compile(rf"[a-z0-9-]{{1,{LABEL_LENGTH_MAX}}}", re.ASCII)
_PATH_LENGTH_MAX: Final = HOST_LABELS_MAX * (LABEL_LENGTH_MAX + 1)


def parse_domain(text: str) -> Domain:
    """Read a domain path; ``world`` and the specs' ``.`` both name the root."""
    return _parse_path(text, "domain", DOMAIN_LABELS_MAX)


def parse_host(text: str) -> Domain:
    """Read a host path: a cluster's path and one label more, so never the root."""
    host = _parse_path(text, "host", HOST_LABELS_MAX)
    if host == ROOT:
        raise BadName(
            f"{ROOT!r} is the whole world, not a host", fix="name a host inside a cluster: eu.paris.h1"
        )
    return host


def parse_scope(text: str) -> Domain:
    """Read how far a group reaches: a domain, or a single host."""
    return _parse_path(text, "scope", HOST_LABELS_MAX)


def _parse_path(text: str, kind: str, labels_max: int) -> Domain:
    if text in (ROOT, "."):
        return ROOT
    check_is_text(text, kind, "eu.paris")
    if not text:
        raise BadName(f"the {kind} is empty", fix="write its path: eu.paris")
    if len(text) > _PATH_LENGTH_MAX:
        raise BadName(f"{kind} path is {len(text)} characters long", fix=f"use at most {_PATH_LENGTH_MAX}")
    path = text.split(".")
    if len(path) > labels_max:
        raise BadName(f"{kind} path {quoted(text)} has {len(path)} labels", fix=f"use at most {labels_max}")
    for label in path:
        if not _LABEL.fullmatch(label):
            raise BadName(
                f"{quoted(label)} in {kind} path {quoted(text)} is not a label",
                fix=f"use 1 to {LABEL_LENGTH_MAX} of a-z, 0-9 and '-', separated by single dots",
            )
    if path[0] == ROOT:
        raise BadName(f"{kind} path {quoted(text)} starts with {ROOT!r}", fix="leave the root out")
    return Domain(text)


def labels(domain: Domain) -> tuple[str, ...]:
    """The path's labels, root first; the root has none."""
    return () if domain == ROOT else tuple(domain.split("."))


def depth(domain: Domain) -> int:
    return 0 if domain == ROOT else domain.count(".") + 1


def child(domain: Domain, label: str) -> Domain:
    return Domain(label) if domain == ROOT else Domain(f"{domain}.{label}")


@lru_cache(maxsize=4_096)
def parent(domain: Domain) -> Domain:
    """The enclosing domain. The root encloses itself; ask `domain == ROOT` first where that matters."""
    above, dot, _ = domain.rpartition(".")
    return Domain(above) if dot else ROOT


def inside(domain: Domain, address: str) -> bool:
    """Is this domain, host or endpoint inside that domain? A domain is inside itself (C-002)."""
    return domain == ROOT or address == domain or address.startswith((f"{domain}.", f"{domain}/"))


def is_reserved(path: str) -> bool:
    """Has it a label that begins with ``-``? Such names are the system's: delegates, replicas."""
    return path.startswith("-") or ".-" in path


def check_not_reserved(path: Domain) -> None:
    if is_reserved(path):
        raise BadName(
            f"{path} has a label that begins with '-': those are reserved for the system",
            fix="name one that begins with a letter or a digit",
        )


def strictly_inside(domain: Domain, path: Domain) -> bool:
    return path != domain and inside(domain, path)


def enclosing(path: Domain) -> tuple[Domain, ...]:
    """The path and every domain around it, innermost first, the root last."""
    around = [path]
    while around[-1] != ROOT:
        around.append(parent(around[-1]))
    return tuple(around)


def close_paths(path: str, known: Iterable[str]) -> list[str]:
    """Which of these may have been meant, the closest first; of a long path, none."""
    return difflib.get_close_matches(path, known, n=3, cutoff=0.75) if len(path) <= CORRECTED_MAX else []


def scope_to_use(scope: Domain, host: Domain) -> str:
    """The advice for a program of this host that named a scope which does not contain it."""
    if scope == OPEN:
        return "only members see a group of open scope: join it, or name a scope"
    around = enclosing(host)
    meant = close_paths(scope, around)
    guess = f"perhaps {meant[0]} was meant; " if meant else ""
    return f"{guess}use a scope that contains it: {', '.join(around)}"
