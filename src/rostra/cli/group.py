"""`rostra group`: agreed groups as a whole."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from rostra.cli.asking import Deadline, GroupName, Scope, about_agreed, endpoint, group_of, within_scope
from rostra.cli.common import EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand, HouseGroup
from rostra.cli.output import Format, OutputFormat, show_json
from rostra.cli.views import document, show_group
from rostra.client import GroupInfo, Me
from rostra.errors import BadInput
from rostra.names import Group
from rostra.protocols.agreed.sheets import HISTORY_LENGTH_MAX

HELP = """Create, change, split, merge and delete agreed groups.

Each is one agreed change, made by the servers of the group's scope. Any program may change a group, until one
of its members has the attribute admin=yes; then only such members may. rostra views shows one group, rostra
groups all of them.

Examples:

    rostra group create db@eu --survive majority --set tier=gold
    rostra group set db@eu tier=silver owner=
    rostra group split db@eu hot cold --where disk=ssd
    rostra group delete db@eu
"""

Pairs = Annotated[
    list[str], typer.Argument(metavar="NAME=VALUE...", help="Attributes; NAME= takes one away.")
]


def register(main: typer.Typer) -> None:
    app = typer.Typer(cls=HouseGroup, no_args_is_help=True, help=HELP)
    for name, run in (
        ("create", create),
        ("set", set_attributes),
        ("split", split),
        ("merge", merge),
        ("remove", remove),
        ("delete", delete),
    ):
        app.command(name, cls=HouseCommand)(command(run))
    main.add_typer(app, name="group", rich_help_panel="Groups")


def create(
    group: GroupName,
    scope: Scope = None,
    survive: Annotated[
        str, typer.Option("--survive", metavar="RULE", help="Which side of a partition goes on.")
    ] = "any",
    within: Annotated[
        str, typer.Option("--within", metavar="GROUP", help="Only members of this group can join.")
    ] = "",
    history: Annotated[
        int, typer.Option("--history", metavar="VIEWS", help="How many views can be asked for.")
    ] = HISTORY_LENGTH_MAX,
    attributes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An attribute; several times.")
    ] = None,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Create a group without members, which stays until it is deleted.

    The answer says whether its rule is exclusive: whether at most one side of a partition can live under it.

    Examples:

        rostra group create db@eu --survive majority
        rostra group create db/hot@eu --within db --set tier=gold
    """
    given = {key: value for key, value in _pairs(attributes or []).items() if value is not None}

    async def order(me: Me, key: Group) -> GroupInfo:
        return await me.groups.create(
            *(key.name, key.scope),
            survive=survive,
            within=within,
            history=history,
            attributes=given,
            deadline_s=deadline,
        )

    return _ordered(group, scope, agent, output, order)


def set_attributes(
    group: GroupName,
    pairs: Pairs,
    member: Annotated[
        list[str] | None,
        typer.Option("--member", metavar="ENDPOINT", help="Of this member, not of the group; several times."),
    ] = None,
    scope: Scope = None,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Set attributes of a group, or of members. Those that are not named stay.

    Examples:

        rostra group set db@eu tier=silver owner=
        rostra group set db@eu admin=yes --member eu.paris.h1/web-1#7
    """

    async def order(me: Me, key: Group) -> GroupInfo:
        return await me.groups.set_attributes(
            key.name, key.scope, attributes=_pairs(pairs), of=member or None, deadline_s=deadline
        )

    return _ordered(group, scope, agent, output, order)


def split(
    group: GroupName,
    one: Annotated[str, typer.Argument(metavar="ONE", help="The group of members that match.")],
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The group of all others.")],
    where: Annotated[
        list[str],
        typer.Option("--where", metavar="NAME=VALUE", help="What members of ONE have; several times."),
    ],
    keep: Annotated[
        bool, typer.Option("--keep", help="The group goes on, and the two are subgroups of it.")
    ] = False,
    scope: Scope = None,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
) -> int:
    """Make two groups of one. Members stay members, in the same order; the old group is over, or kept.

    Examples:

        rostra group split db@eu hot cold --where disk=ssd
        rostra group split db@eu db/hot db/cold --where disk=ssd --keep
    """
    wanted = {key: value or "" for key, value in _pairs(where).items()}

    async def order(me: Me, key: Group) -> None:
        await me.groups.split(
            *(key.name, one, other, key.scope), where=wanted, keep_parent=keep, deadline_s=deadline
        )
        fate = "goes on" if keep else "is over"
        remark(f"{key} {fate}: its members are in {one} and {other}")

    return _ordered(group, scope, agent, OutputFormat.TABLE, order)


def merge(
    group: GroupName,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The second group, of the same scope.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The group of all of them.")],
    scope: Scope = None,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
) -> int:
    """Make one group of two. Members stay members, those of the first one first; the old groups are over.

    Examples:

        rostra group merge hot@eu cold db
    """

    async def order(me: Me, key: Group) -> None:
        await me.groups.merge(key.name, other, new, key.scope, deadline_s=deadline)
        remark(f"{key} and {other} are over: their members are in {new}")

    return _ordered(group, scope, agent, OutputFormat.TABLE, order)


def remove(
    group: GroupName,
    members: Annotated[list[str], typer.Argument(metavar="ENDPOINT...", help="Who is put out.")],
    scope: Scope = None,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Remove members from a group. They get the reason, and may join again.

    Examples:

        rostra group remove db@eu eu.paris.h1/web-1#7
    """

    async def order(me: Me, key: Group) -> GroupInfo:
        return await me.groups.remove(key.name, members, key.scope, deadline_s=deadline)

    return _ordered(group, scope, agent, output, order)


def delete(
    group: GroupName,
    scope: Scope = None,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
) -> int:
    """Delete a group. Its members are removed in one last view, and get an error that says so.

    Examples:

        rostra group delete db@eu
    """

    async def order(me: Me, key: Group) -> None:
        await me.groups.delete(key.name, key.scope, deadline_s=deadline)
        remark(f"{key} is deleted")

    return _ordered(group, scope, agent, OutputFormat.TABLE, order)


def _ordered(
    group: str,
    scope: str | None,
    agent: str | None,
    output: OutputFormat,
    order: Callable[[Me, Group], Awaitable[GroupInfo | None]],
) -> int:
    key = group_of(group, scope)

    async def run() -> GroupInfo | None:
        async with endpoint(agent) as me, about_agreed(me, key):
            return await order(me, key)

    with within_scope(key, agent):
        info = run_client(run())
    if info is not None and output is OutputFormat.TABLE:
        show_group(info)
    elif info is not None:
        show_json(document(info), output)
    return EXIT_OK


def _pairs(words: list[str]) -> dict[str, str | None]:
    """``tier=gold owner=``: the last one is taken away."""
    found: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise BadInput(f"{word!r} is no attribute", fix="write NAME=VALUE, or NAME= to take it away")
        found[key] = value or None
    return found
