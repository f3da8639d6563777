"""The paper's figures, generated from the code that runs.

Figures 3 and 4     the hierarchy, from the tree itself Figures 5, 6, 7     what servers say to each other,
what programs ask and are told, from the message definitions Figures 8 and 19    which event is handled where,
from the servers' own `match` statements
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from matplotlib.figure import Figure
from msgspec import Struct

from rostra.names import ROOT, Domain, Tree, depth, labels
from rostra.protocols.relaxed import messages, requests
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.local import LocalServer

INK, SEA, RUST = "#1f2a36", "#2b6f9e", "#b5542d"


class Field(Struct, frozen=True):
    name: str
    kind: str


class Schema(Struct, frozen=True):
    name: str
    number: int
    about: str
    fields: tuple[Field, ...]


class Handled(Struct, frozen=True):
    event: str
    handler: str
    rules: tuple[str, ...]


def hierarchy(tree: Tree) -> Figure:
    """Servers as dots, children below parents, siblings joined by arcs."""
    across: dict[Domain, float] = {host: float(nth) for nth, host in enumerate(tree.hosts)}
    for domain in sorted(tree.domains, key=depth, reverse=True):
        below = [across[child] for child in tree.children[domain]]
        across[domain] = sum(below) / len(below)
    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for a, b in tree.links():
        siblings = depth(a) == depth(b)
        axes.plot(
            [across[a], across[b]],
            [-depth(a), -depth(b)],
            color=RUST if siblings else "#999999",
            lw=1.6 if siblings else 0.8,
            ls=":" if ROOT in (a, b) else "-",
            zorder=1,
        )
    for server, x in across.items():
        host = server not in tree.children
        axes.scatter(x, -depth(server), s=28 if host else 60, color=INK if host else SEA, zorder=2)
        name = ROOT if server == ROOT else labels(server)[-1]
        axes.annotate(
            name,
            (x, -depth(server)),
            xytext=(0, -13 if host else 7),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_axis_off()
    axes.margins(y=0.12)
    return figure


def schemas(union: Any) -> tuple[Schema, ...]:
    """The messages of a union: number, fields and types, as they are on the wire."""
    found = []
    for kind in get_args(union):
        info = msgspec.inspect.type_info(kind)
        assert isinstance(info, msgspec.inspect.StructType) and isinstance(info.tag, int)
        hints = inspect.get_annotations(kind, eval_str=False)
        for base in kind.__mro__[1:]:
            hints = {**inspect.get_annotations(base), **hints} if issubclass(base, Struct) else hints
        fields = tuple(Field(field.name, _type_name(hints.get(field.name))) for field in info.fields)
        about = inspect.getdoc(kind) if "__doc__" in vars(kind) and kind.__doc__ else ""
        found.append(Schema(kind.__name__, info.tag, (about or "").split("\n\n")[0], fields))
    return tuple(found)


def _type_name(hint: Any) -> str:
    if isinstance(hint, str):
        return hint
    text = getattr(hint, "__name__", None) if getattr(hint, "__args__", None) is None else None
    return text or re.sub(r"\b(?:\w+\.)+", "", str(hint))


SAID_BY_SERVERS = messages.Message
ASKED_BY_PROGRAMS = requests.AnyRequest
TOLD_TO_PROGRAMS = requests.AnySaid


_GUARDS = frozenset({"_received", "_asked", "_in_scope", "_ignore"})
"""Methods that a case passes through on the way to its handler."""


def event_table(server: type[LocalServer] | type[DomainServer]) -> tuple[Handled, ...]:
    """Every case of the server's `match` statements, the method that handles it, and the rules it names."""
    sources = {
        name: textwrap.dedent(inspect.getsource(method))
        for name, method in vars(server).items()
        if inspect.isfunction(method)
    }
    return tuple(
        handled
        for door in ("step", "_received", "_asked")
        if door in sources
        for handled in _cases(sources[door], sources)
    )


def _cases(door: str, sources: dict[str, str]) -> Iterable[Handled]:
    for case in ast.walk(ast.parse(door)):
        if not isinstance(case, ast.match_case):
            continue
        events = [
            part.cls.id
            for part in ast.walk(case.pattern)
            if isinstance(part, ast.MatchClass) and isinstance(part.cls, ast.Name)
        ]
        handlers = [name for name in _calls(case.body) if name in sources.keys() - _GUARDS]
        if events and handlers:
            rules = {rule for name in handlers for rule in _rules(name, sources, deep=2)}
            yield Handled(" | ".join(events), handlers[0], tuple(sorted(rules)))


def _calls(body: list[ast.stmt]) -> list[str]:
    return [
        node.func.attr
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]


def _rules(name: str, sources: dict[str, str], deep: int) -> set[str]:
    """The requirement numbers in a method's own words, and in those of the methods it calls."""
    rules = set(re.findall(r"C-\d{3}", sources[name]))
    if deep:
        for called in _calls(ast.parse(sources[name]).body):
            if called in sources and called != name:
                rules |= _rules(called, sources, deep - 1)
    return rules
