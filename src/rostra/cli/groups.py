"""`rostra groups`: which groups there are, as far as can be seen from here."""

import asyncio
from collections.abc import Iterable
from typing import Final

import typer
from msgspec import Struct

from rostra.cli.asking import (
    NAMED_MAX,
    Deadline,
    administer,
    endpoint,
    in_time,
    kind_in_sight,
    known_groups,
    members_of,
    permanent_groups,
    refused_names,
)
from rostra.cli.common import EXIT_FAILED, EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, busy, show_rows, show_table
from rostra.client import Me
from rostra.client.sight import Sight, look
from rostra.errors import RostraError
from rostra.names import ROOT, Domain, Group, host_of, inside

COUNTED_MAX: Final = 500
"""Groups that are counted by asking the servers; of more, only what the nodes in sight have is counted."""


class GroupRow(Struct, frozen=True):
    group: str
    name: str
    scope: str
    members: int
    complete: bool  # False: at least so many
    hosts: int
    permanent: bool
    membership: str | None  # relaxed, led or agreed; None: no node in sight has a member of it
    delivery: str | None  # none, fifo or atomic
    seen_by: list[str]

    @property
    def kind(self) -> Iterable[str]:
        if self.membership is not None:
            yield self.membership if self.delivery == "none" else f"{self.membership} {self.delivery}"
        if self.permanent:
            yield "permanent"


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="The world")(command(groups))


def groups(
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """List the groups that can be seen from here, and how many are in them.

    No node knows all groups: an agent knows those that its host is in, a server those below it. The list is
    what this agent, its servers, and in a world of rostra up all nodes know; the nodes that were asked are on
    stderr. A number such as 4+ means at least 4: the group does not reach this host, and not every host of
    its scope is in sight. The kind of a group is how its members are known (relaxed, led, agreed) and how
    its messages are delivered (fifo, atomic); permanent are those that an administrator registered.

    Examples:

        rostra groups
        rostra groups -o jsonl
    """
    return run_client(in_time(deadline, _groups(agent, output)))


async def _groups(agent: str | None, output: OutputFormat) -> int:
    async with administer(agent) as admin:
        with busy("asking the nodes in sight"):
            sight = await look(admin, agent)
    known = known_groups(sight)
    permanent = {group for document in sight.documents.values() for group in permanent_groups(document)}
    if sight.first["core"]["server"] == "agent":
        async with endpoint(agent) as me:
            counted = await count(me, list(known)[:COUNTED_MAX])
    else:
        counted = {}
    rows = [
        row_of(group, sorted(known[group]), counted.get(group), sight, group in permanent)
        for group in sorted(known)
    ]
    rows = [row for row in rows if row.members or row.permanent]
    if output is not OutputFormat.TABLE:
        show_rows(rows, output, {"from": sorted(sight.documents), "unseen": sight.unseen, "groups": rows})
    elif rows:
        show_table(
            ("group", "scope", "members", "hosts", "kind"),
            (
                (
                    row.name,
                    row.scope,
                    f"{row.members}{'' if row.complete else '+'}",
                    row.hosts,
                    ", ".join(row.kind),
                )
                for row in rows
            ),
        )
    if refused := refused_names(sight):
        named = ", ".join(map(repr, sorted(refused)[:NAMED_MAX]))
        remark(f"not shown, because no group may be called so: {named}")
    if output is OutputFormat.TABLE and not all(row.complete for row in rows):
        remark("N+ means at least N: not every host of that scope can be asked from here")
    remark(
        f"{sight.describe()}; groups elsewhere are not shown" if rows else f"no group is {sight.describe()}"
    )
    return EXIT_OK if rows else EXIT_FAILED


async def count(me: Me, groups: list[Group], within_s: float = 5.0) -> dict[Group, list[str]]:
    """The members of each of these groups that reaches this host."""
    found: dict[Group, list[str]] = {}

    async def one(group: Group) -> None:
        try:
            answer = await me.resolve(group.name, group.scope, fresh=True, deadline_s=within_s)
        except RostraError:
            return  # not in time: what is in sight counts
        found[group] = [str(endpoint) for endpoint in answer.endpoints]

    async with asyncio.TaskGroup() as asking:
        for group in groups:
            if inside(group.scope, me.host):
                asking.create_task(one(group))
    return found


def row_of(
    group: Group, seen_by: list[str], members: list[str] | None, sight: Sight, permanent: bool
) -> GroupRow:
    complete = members is not None or is_all_in_sight(group.scope, sight)
    if members is None:
        members = [each for document in sight.documents.values() for each in members_of(document, group)]
    hosts = {host_of(each) for each in members}  # type: ignore[arg-type]
    kind = kind_in_sight(sight, group)
    return GroupRow(
        str(group),
        group.name,
        group.scope,
        len(members),
        complete,
        len(hosts),
        permanent,
        None if kind is None else kind.membership.value,
        None if kind is None else kind.delivery.value,
        list(seen_by),
    )


def is_all_in_sight(scope: Domain, sight: Sight) -> bool:
    """Can every node inside that scope be asked, as far as they know each other themselves?"""
    there = {node: document for node, document in sight.documents.items() if inside(scope, node)}
    neighbours = {peer for document in there.values() for peer in document["links"] if inside(scope, peer)}
    # The root need not have a server; then no node has it as a neighbour.
    return (scope in there or scope == ROOT) and neighbours <= there.keys()
