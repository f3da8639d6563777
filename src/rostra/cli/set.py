"""`rostra set`: a led set: who leads it, its registrar, its control tree and the versions of its lists."""

from collections.abc import Mapping
from typing import Any, Final

import typer

from rostra.cli.asking import (
    Deadline,
    GroupName,
    Scope,
    administer,
    check_scope_in_sight,
    group_of,
    in_time,
    kind_in_sight,
    of_another_kind,
    unknown_group,
)
from rostra.cli.common import EXIT_FAILED, EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, busy, heading, say, show_json, show_table
from rostra.client.sight import Sight, look
from rostra.groups.kinds import MembershipKind
from rostra.names import Domain, Group

LED: Final = MembershipKind.LED


def register(app: typer.Typer) -> None:
    app.command("set", cls=HouseCommand, rich_help_panel="Groups")(command(show_set))


def show_set(
    group: GroupName,
    scope: Scope = None,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Show a led set: its leader, its registrar, its control tree, and the versions of its lists.

    Each node answers for itself, so the tree is as complete as the nodes in sight: this agent, the servers of
    its world file, and in a world of rostra up all of them. During a partition there is a leader on each
    side; two leaders in one are shown, too. Exit code 1 if no leader is in sight.

    Examples:

        rostra set sets@eu
        rostra set sets --scope eu -o json
    """
    return run_client(in_time(deadline, _set(group_of(group, scope), agent, output)))


async def _set(key: Group, agent: str | None, output: OutputFormat) -> int:
    async with administer(agent) as admin:
        with busy("asking the nodes in sight"):
            sight = await look(admin, agent)
    check_scope_in_sight(key, sight, agent)
    found = document(key, sight)
    if not found["agents"] and (kind := kind_in_sight(sight, key)) is not None and kind.membership is not LED:
        raise of_another_kind(key, kind, LED)
    if output is OutputFormat.TABLE:
        show(found)
        remark(sight.describe())
    else:
        show_json(found, output)
    if not found["agents"] and (unknown := unknown_group(sight, key)):
        remark(unknown)
    return EXIT_OK if found["leaders"] else EXIT_FAILED


def document(key: Group, sight: Sight) -> dict[str, Any]:
    """What the nodes in sight say of the set. A node is believed about itself alone."""
    agents: dict[Domain, Mapping[str, Any]] = {}
    registrars: dict[Domain, Mapping[str, Any]] = {}
    for node, told in sorted(sight.documents.items()):
        for each in told.get("led", ()):
            if each.get("group") == str(key):
                (registrars if each.get("standing") == "registrar" else agents)[node] = each
    leaders = [node for node, each in agents.items() if each["standing"] in ("leader", "owner")]
    return {
        "group": str(key),
        "leaders": leaders,
        "registrars": {node: _registered(each) for node, each in registrars.items()},
        "agents": agents,
    }


def _registered(each: Mapping[str, Any]) -> dict[str, Any]:
    return {"leader": each["leader"], "lease_s": each["lease_s"], "probed": each["probed"]}


def show(found: Mapping[str, Any]) -> None:
    agents: Mapping[Domain, Mapping[str, Any]] = found["agents"]
    for leader in found["leaders"]:
        total = agents[leader]["total"]
        heading(f"{found['group']}   led by {leader}   {total} member{'s' * (total != 1)}")
        show_table(
            ("origin", "members", "life", "version"),
            [
                (each["origin"], each["members"], each["life"], each["version"])
                for each in agents[leader]["lists"]
            ],
        )
    if not found["leaders"]:
        heading(f"{found['group']}   no leader is in sight")
    for node, each in found["registrars"].items():
        say(f"registrar: {node} names {each['leader']}, for {each['lease_s']} s more")
    below = _below(agents)
    tops = [node for node, each in agents.items() if each["parent"] not in agents]
    for top in sorted(tops, key=lambda node: (node not in found["leaders"], node)):
        _show_tree(top, agents, below, 0)


def _below(agents: Mapping[Domain, Mapping[str, Any]]) -> dict[Domain, list[Domain]]:
    below: dict[Domain, list[Domain]] = {}
    for node, each in sorted(agents.items()):
        if each["parent"] is not None:
            below.setdefault(each["parent"], []).append(node)
    return below


def _show_tree(
    node: Domain,
    agents: Mapping[Domain, Mapping[str, Any]],
    below: Mapping[Domain, list[Domain]],
    depth: int,
) -> None:
    each = agents[node]
    up = "" if each["parent"] is None or depth else f", its parent {each['parent']} is not in sight"
    say(f"{'  ' * depth}{node}   {each['standing']}, {each['local']} of its own{up}")
    if depth < len(agents):  # a node may lie
        for child in below.get(node, ()):
            _show_tree(child, agents, below, depth + 1)
