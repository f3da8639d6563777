"""Views that servers are about to agree on, sent to hosts that must prepare for them: `[agreed] early_flush`.

    Initiate: the host of the orderer failed ──▶ each server ── ViewComing ──▶ hosts below it that stay:
                                      their stations report to the next orderer (`atomic/hub_early.py`)

It is a hint: if it is lost, only the saved time is lost. A view follows from its proposal alone, so its id is
known before it is agreed.
"""

from typing import Final

from rostra.names import Domain, Group, host_of, inside
from rostra.protocols.agreed.branch import ViewComing
from rostra.protocols.agreed.changes import AnyChange, GroupChange, GroupVerb, MemberId, ServersFailed
from rostra.protocols.agreed.groups import AgreedGroup, AgreedView
from rostra.protocols.agreed.living import is_exclusive
from rostra.protocols.agreed.part import CoreSet
from rostra.protocols.agreed.state import lock_of

EARLY: Final = ("all", "majority")
"""What must be stable in a group whose stations report early; on disk, logs may be of another life."""


def coming_views(core: CoreSet, domain: Domain) -> list[ViewComing]:
    """Of the change that this server has acknowledged, or coordinates, once: views of groups that lose their
    orderer, for the hosts below it."""
    held = lock_of(core.core.state.phase)
    if held is None or held[0].pid == core.coming or core.is_parent:
        return []
    proposal = held[0]
    core.coming = proposal.pid
    found = []
    for group, known in sorted(core.table.groups.items()):
        if not _reports_early(known) or not known.view.members:
            continue
        gone = _gone(proposal.change, group, known.view)
        away = frozenset(gone)
        stay = [each for each in known.view.ids if each not in away]
        if gone and stay and host_of(stay[0].endpoint) != host_of(known.view.ids[0].endpoint):
            hosts = dict.fromkeys([host_of(each.endpoint) for each in stay])
            below = tuple([host for host in hosts if inside(domain, host)])
            if below:
                found.append(ViewComing(group, below, known.view.id, proposal.pid, tuple(gone)))
    return found


def _reports_early(known: AgreedGroup) -> bool:
    kind = known.kind
    is_hub = kind.is_ordered and kind.order == "hub" and kind.stable in EARLY
    return is_hub and is_exclusive(kind) and not known.blocked and not known.apart


def _gone(change: AnyChange, group: Group, view: AgreedView) -> list[MemberId]:
    match change:
        case GroupChange(name, GroupVerb.FAIL, members) if name == group:
            those = frozenset(members)
            return [each for each in view.ids if each in those]
        case ServersFailed(failed):
            lost: list[Domain] = [each.server for each in failed]
            return [each for each in view.ids if any(inside(domain, each.endpoint) for domain in lost)]
    return []
