"""Shared by commands that ask: which node is asked, which group is meant, and corrections of wrong names."""

import asyncio
import contextlib
import difflib
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec
import typer

from rostra.cli.common import option, run_client
from rostra.client import Admin, Me, connect, connect_admin
from rostra.client.known import is_own, known_names, read_group
from rostra.client.sight import Sight, checked, look, small_world_sockets
from rostra.errors import (
    UNDECODABLE,
    BadInput,
    DeadlineExceeded,
    NoSuchGroup,
    NotAllowed,
    NotInScope,
    RostraError,
    ScopeExceeded,
)
from rostra.groups.kinds import PLAIN, DeliveryKind, GroupKind, MembershipKind
from rostra.names import (
    OPEN,
    ROOT,
    Domain,
    Group,
    check_not_reserved,
    close_paths,
    enclosing,
    inside,
    make_group,
    parent,
    parse_group,
    strictly_inside,
)

CONNECT_TIMEOUT_S: Final = 5.0
COMPLETE_WITHIN_S: Final = 0.5
NAMED_MAX: Final = 4
SCOPES_MAX: Final = 8

GroupName = Annotated[
    str,
    typer.Argument(
        metavar="GROUP",
        help="A group's name, or name@scope.",
        autocompletion=lambda incomplete: complete_group(incomplete),
    ),
]
Scope = Annotated[
    str | None,
    typer.Option(
        "--scope",
        "-s",
        metavar="SCOPE",
        help="How far the group reaches: world, eu, eu.paris.",
        show_default="world",
    ),
]
Deadline = Annotated[float | None, option("--deadline", metavar="SECONDS", help="Give up after so long.")]

T = TypeVar("T")


async def in_time(deadline_s: float | None, work: Coroutine[Any, Any, T]) -> T:
    """All that a command asks, or one clear error when its time is over."""
    if deadline_s is not None and not deadline_s > 0:
        work.close()
        raise BadInput(f"--deadline {deadline_s:g} is no time to wait", fix="write how many seconds: 2.5")
    try:
        async with asyncio.timeout(deadline_s) as bound:
            return await work
    except TimeoutError:
        if not bound.expired():
            raise
        raise DeadlineExceeded(
            f"not all have answered within {deadline_s:g} s",
            fix="wait longer (--deadline), or see who is up: rostra domains",
        ) from None


def group_of(text: str, scope: str | None) -> Group:
    """``chess``, ``chess@eu``, or ``chess`` with ``--scope eu``."""
    if scope is not None and "@" in text:
        raise BadInput(f"{text!r} and --scope {scope} both say the scope", fix="leave one of them out")
    group = parse_group(text) if scope is None else make_group(text, scope)
    if group.scope != OPEN:
        check_not_reserved(group.scope)
    return group


@contextlib.asynccontextmanager
async def administer(address: str | None) -> AsyncIterator[Admin]:
    async with connect_admin(address, timeout_s=CONNECT_TIMEOUT_S) as admin:
        yield admin


@contextlib.asynccontextmanager
async def endpoint(address: str | None, name: str | None = None, **more: Any) -> AsyncIterator[Me]:
    """An endpoint for the time of a question."""
    async with connect(
        address, name=name or unnamed(), timeout_s=CONNECT_TIMEOUT_S, **{"on_lost": "raise", **more}
    ) as me:
        yield me


def unnamed() -> str:
    """What a command calls itself if it was given no name: recognisable, so that lists can leave it out."""
    return f"rostra-cli-{os.getpid()}"


def known_groups(sight: Sight) -> dict[Group, set[Domain]]:
    """Every group that a node in sight knows, and which nodes."""
    found: dict[Group, set[Domain]] = {}
    for node, document in sight.documents.items():
        for group in groups_of(document):
            found.setdefault(group, set()).add(node)
    return found


def groups_of(document: Mapping[str, Any]) -> Iterable[Group]:
    core = document["core"]
    for text, table in core.get("groups", {}).items():
        followers = [*(_endpoint(each) for each in table["members"]), *table["watchers"]]
        if any(not is_own(each) for each in followers):
            yield from _readable(text)
    for text in core.get("rows", {}):
        yield from _readable(text)
    yield from permanent_groups(document)


def _readable(text: str) -> Iterable[Group]:
    group = read_group(text)
    return () if group is None else (group,)


def refused_names(sight: Sight) -> set[str]:
    """Names of groups that a node in sight knows and our rules refuse."""
    return {
        text
        for document in sight.documents.values()
        for table in ("groups", "rows")
        for text in document["core"].get(table, {})
        if read_group(text) is None
    }


def permanent_groups(document: Mapping[str, Any]) -> Iterable[Group]:
    core = document["core"]
    registry = core.get("permanent") or core.get("registry") or ()
    records = registry.items() if isinstance(registry, dict) else ((each["scope"], each) for each in registry)
    for scope, record in records:
        yield from (Group(name, Domain(scope)) for name in record["names"])


def members_of(document: Mapping[str, Any], group: Group) -> list[str]:
    """The members of a group on that node's own host."""
    table = document["core"].get("groups", {}).get(str(group))
    return [_endpoint(each) for each in table["members"]] if table else []


def kind_in_sight(sight: Sight, group: Group) -> GroupKind | None:
    """The kind of a group, as a node in sight that has members of it says."""
    for document in sight.documents.values():
        table = document["core"].get("groups", {}).get(str(group))
        for each in table["members"] if table else ():
            said = each.get("kind") if isinstance(each, dict) else [*each, None, None, None][3]
            with contextlib.suppress(*UNDECODABLE):
                return PLAIN if said is None else msgspec.convert(said, GroupKind)
    return None


def kind_words(kind: GroupKind) -> str:
    """``relaxed``, ``relaxed fifo``, ``agreed atomic``."""
    delivery = "" if kind.delivery is DeliveryKind.NONE else f" {kind.delivery.value}"
    return f"{kind.membership.value}{delivery}"


def of_another_kind(group: Group, kind: GroupKind, wanted: MembershipKind) -> NoSuchGroup:
    """For a command about one kind of group that was asked about one of another."""
    command = {MembershipKind.AGREED: "views", MembershipKind.LED: "set"}.get(kind.membership, "members")
    return NoSuchGroup(
        f"{group} is not {wanted.value}: its kind is {kind_words(kind)}",
        fix=f"to see it:  rostra {command} {group}",
    )


@contextlib.asynccontextmanager
async def about_agreed(me: Me, group: Group, deadline_s: float | None = None) -> AsyncIterator[None]:
    """For questions about an agreed group: if there is none, it may be of another kind."""
    try:
        yield
    except NoSuchGroup:
        members = (await me.resolve(group.name, group.scope, deadline_s=deadline_s)).members
        kind = members[0].kind or PLAIN if members else None
        if kind is None or kind.membership is MembershipKind.AGREED:
            raise
        raise of_another_kind(group, kind, MembershipKind.AGREED) from None


def _endpoint(member: Any) -> str:
    return str(member["endpoint"] if isinstance(member, dict) else member[0])


async def nobody_there(admin: Admin, address: str | None, group: Group) -> str:
    """The remark for a group without members: perhaps another was meant."""
    try:
        sight = await look(admin, address)
    except NotAllowed:  # it shows its groups only to those who show a token
        return f"nobody is in {group}"
    return unknown_group(sight, group) or f"nobody is in {group}"


def unknown_group(sight: Sight, group: Group) -> str:
    """The remark for a group that no node in sight knows; none if one does."""
    known = sorted(known_groups(sight))
    if group in known:
        return ""
    lines = [f"{sight.start} knows no group {str(group)!r}"]
    if meant := closest_groups(known, group, cutoff=0.6):
        lines.append(f"  closest of the {len(known)} names it knows: {', '.join(meant)}")
    elif known:
        more = f" and {len(known) - NAMED_MAX} more (rostra groups)" if len(known) > NAMED_MAX else ""
        lines.append(f"  it knows: {', '.join(map(str, known[:NAMED_MAX]))}{more}")
    if group.scope != ROOT:
        lines.append(f"  to ask a wider scope:  rostra resolve {group.name} --scope world")
    return "\n".join(lines)


async def perhaps_another(address: str | None, group: Group) -> str:
    """The remark for a followed group that is empty: names that are close, if there are any."""
    async with administer(address) as admin:
        known = sorted(known_groups(await look(admin, address)))
    meant = closest_groups(known, group, cutoff=0.75)
    return f"nobody else is in {group}; closest of the names in sight: {', '.join(meant)}" if meant else ""


def closest_groups(known: Iterable[Group], group: Group, cutoff: float) -> list[str]:
    """At most four; the same name in another scope counts as close."""
    known = [each for each in known if each != group]
    close = difflib.get_close_matches(group.name, {each.name for each in known}, n=3, cutoff=cutoff)
    return [str(each) for name in close for each in known if each.name == name][:4]


@contextlib.contextmanager
def within_scope(group: Group, address: str | None) -> Iterator[None]:
    """The hint for a caller outside of the scope: which agent to ask instead, or which scope was meant."""
    try:
        yield
    except (NotInScope, ScopeExceeded) as error:
        known = run_client(known_domains(address))
        if known and not _may_be(group.scope, known):
            raise _unknown_scope(group, known) from None
        sockets = small_world_sockets(address).items()
        hosts = [socket for node, socket in sockets if inside(group.scope, node) and node != group.scope]
        # A cluster's server answers administrators only; the deepest names are hosts.
        whom = max(hosts, key=lambda socket: socket.count("."), default="HOST:PORT")
        raise type(error)(
            error.what, fix=f"{error.fix}\nor ask an agent inside {group.scope}:  --agent {whom}"
        ) from None


def check_scope_in_sight(group: Group, sight: Sight, address: str | None) -> None:
    """For commands that ask no agent about the group: it may be that there is no such domain."""
    known = _domains_of(sight.first, small_world_sockets(address))
    if group.scope != OPEN and not _may_be(group.scope, known):
        raise _unknown_scope(group, known)


async def known_domains(address: str | None) -> set[Domain]:
    """The domains that the agent's world file names, and those of the small world it is in; none if it does
    not show them."""
    try:
        async with administer(address) as admin:
            return _domains_of(checked(await admin.inspect(), admin.path), small_world_sockets(address))
    except RostraError:
        return set()


def _domains_of(first: Mapping[str, Any], nodes: Iterable[Domain]) -> set[Domain]:
    """A world file names no hosts; without a small world (`nodes`) ours is left out, as all others are."""
    own = Domain(first["node"])
    own = parent(own) if first["core"]["server"] == "agent" else own
    named = (*map(Domain, first.get("servers", ())), *nodes, own)
    return {domain for each in named for domain in enclosing(each)}


def _may_be(scope: Domain, known: Iterable[Domain]) -> bool:
    """A world file names the servers. What is one label below a cluster may be a host."""
    above = parent(scope)
    return scope in known or (above in known and not any(strictly_inside(above, each) for each in known))


def check_known(domain: Domain, known: Iterable[Domain]) -> None:
    """Raise if there is no such domain; nothing if none are known."""
    if known and not _may_be(domain, known):
        raise BadInput(f"no domain {domain} is known here", fix=_instead(domain, known))


def _unknown_scope(group: Group, known: Iterable[Domain]) -> NotInScope:
    what = f"no domain {group.scope} is known here, the scope of {group}"
    return NotInScope(what, fix=_instead(group.scope, known))


def _instead(domain: Domain, known: Iterable[Domain]) -> str:
    known = sorted(known, key=lambda domain: (domain.count("."), domain))
    close = close_paths(domain, known)
    return f"closest: {', '.join(close)}" if close else f"there are {', '.join(known[:SCOPES_MAX])}"


# For a shell that waits for Tab. Nothing if the agent does not answer, and nothing that takes long.


def complete_group(incomplete: str) -> list[str]:
    """Names of groups that the agent of this machine knows."""

    async def names() -> list[str]:
        async with connect_admin(timeout_s=COMPLETE_WITHIN_S) as admin:
            return sorted({str(group) for group in groups_of(await admin.inspect())})

    return _completed(names, incomplete)


def complete_subject(incomplete: str) -> list[str]:
    """Domains, hosts and endpoints in sight."""

    async def names() -> list[str]:
        async with connect_admin(timeout_s=COMPLETE_WITHIN_S) as admin:
            known = await known_names(admin, await look(admin, within_s=COMPLETE_WITHIN_S))
        return sorted({*known.paths, *(each.partition("#")[0] for each in known.endpoints)} - {ROOT})

    return _completed(names, incomplete)


def _completed(names: Callable[[], Coroutine[Any, Any, list[str]]], incomplete: str) -> list[str]:
    async def within_time() -> list[str]:
        async with asyncio.timeout(3 * COMPLETE_WITHIN_S):
            return await names()

    try:
        return [name for name in asyncio.run(within_time()) if name.startswith(incomplete)]
    except Exception:  # no traceback between a user's prompts, whatever went wrong
        return []
