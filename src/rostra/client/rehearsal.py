"""Who would live after a cut, today: the rule of a group, asked about its present view.

    sides = rehearse(await me.groups.look("db", "eu"), "eu.fr | eu.de")

The rules are those that servers ask (`protocols.agreed.rules`).
"""

from msgspec import Struct

from rostra.client.groups import GroupInfo
from rostra.errors import BadInput, GroupBlocked
from rostra.names import Domain, Endpoint, inside, parse_scope
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.rules import LivingState, Primary, RuleMember, Verdict, parse_rule, verdict

REST = "the rest"


class RehearsedSide(Struct, frozen=True):
    name: str
    members: tuple[Endpoint, ...]
    lives: bool
    why: str


def rehearse(info: GroupInfo, cut: str) -> list[RehearsedSide]:
    """`cut` names the sides: ``eu | us``, ``eu.fr eu.de | us``; members on none of them are a side of their
    own, and with them the server of the group's scope. ``eu`` alone is cut off from all others."""
    if info.blocked:
        raise GroupBlocked(
            f"{info.group} stands still already: {info.blocked}", fix="rehearse when it lives again"
        )
    if not info.view.members:
        raise BadInput(f"{info.group} has no members", fix="rehearse with members in it")
    sides = [(each.strip(), _domains(each, cut)) for each in cut.split("|")]
    named: dict[str, list[Endpoint]] = {name: [] for name, _ in sides}
    for member in info.view.members:
        names = [name for name, domains in sides if any(inside(each, member.endpoint) for each in domains)]
        if len(names) > 1:
            raise BadInput(f"{member.endpoint} is on two sides of {cut!r}", fix="name each domain once")
        named.setdefault(names[0] if names else REST, []).append(member.endpoint)
    # A member here is one endpoint of a view: its stamp does not matter to any rule.
    state = LivingState(
        0,
        tuple(
            [
                RuleMember(_id(each.endpoint), tuple(sorted(info.members_attributes[each.endpoint].items())))
                for each in info.view.members
            ]
        ),
    )
    rule = parse_rule(info.survive)
    server = _side_of_the_server(info.group.scope, sides) if isinstance(rule, Primary) else None
    found = []
    for name, members in named.items():
        judged = verdict(rule, [_id(each) for each in members], state)
        if server is not None:
            judged = _decided(info.group.scope, is_here=name == server)
        why = f"{len(members)} of {len(info.view.members)} are there; {judged.why}"
        if not members:
            why = "no member is there"
        found.append(RehearsedSide(name, tuple(members), judged.lives and bool(members), why))
    return found


def _side_of_the_server(scope: Domain, sides: list[tuple[str, list[Domain]]]) -> str:
    """Where the scope's own server is, which decides under `primary`: on the side that names all of the
    scope, or else with those that are on none."""
    return next((name for name, domains in sides if any(inside(each, scope) for each in domains)), REST)


def _decided(scope: Domain, *, is_here: bool) -> Verdict:
    if is_here:
        return Verdict(True, f"the server of {scope}, which decides, is here")
    return Verdict(False, f"the server of {scope}, which decides, is not (a cut names those cut off from it)")


def _id(endpoint: Endpoint) -> MemberId:
    return MemberId(endpoint, (0, 0))


def _domains(side: str, cut: str) -> list[Domain]:
    words = side.replace(",", " ").split()
    if not words:
        raise BadInput(f"a side of {cut!r} is empty", fix='name domains or hosts on each: "eu | us"')
    return [parse_scope(word) for word in words]
