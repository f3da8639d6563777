"""Storms over agreed groups whose core-sets move: a tree of four levels, and members in all of its branches.

What storms of views check; and besides, when it is calm, each group is in one set: the lowest that has all of
its members below its servers (V-023).
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from rostra.names import Domain, Group, host_of, parent
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.moves import core_domain
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.sim.view_storm import ViewStorm

ALL: Final = Group("all", Domain("world"))
SOME: Final = Group("some", Domain("world"))
LAND: Final = Group("land", Domain("eu"))


class MoveStorm(ViewStorm):
    sites: ClassVar[Mapping[str, int]] = dict.fromkeys(
        ("eu.fr.paris", "eu.fr.lyon", "eu.de.bonn", "us.ny", "lab"), 1
    )
    servers: ClassVar[tuple[str, ...]] = ("eu", "eu.fr", "eu.de", "eu.fr.paris", "us", "lab", "world")
    cuts: ClassVar[tuple[str, ...]] = ("eu.fr", "eu.de", "eu", "eu.fr.lyon", "us", "lab")
    rules: Mapping[Group, str] = {ALL: "", SOME: "", LAND: ""}
    joined: tuple[Group, ...] = (ALL, ALL, SOME, LAND)
    word = "moves"
    gapless: ClassVar = False  # a set that takes a group over counts on above what its hosts may have seen
    agreed: ClassVar[AgreedConfig | None] = AgreedConfig(moves=True)

    def _cut_link(self) -> None:
        hosts = set(self.world.tree.hosts)
        one, other = self.luck.choice([link for link in self.world.tree.links() if not hosts & set(link)])
        self.world.cut(f"link {one} | {other}")

    def _one_view(self) -> None:
        super()._one_view()
        for group in self.rules:
            members = [each for each, at in self.wanted if at == group and each.alive]
            sites = tuple([parent(host_of(each.address)) for each in members])
            owners = {
                name
                for process in self.world.processes.values()
                if process.node is not None and (server := process.stack.find(AGREED_SERVER)) is not None
                for name, core in server.sets.items()
                if (known := core.table.get(group)) is not None and known.view.members
            }
            found = {core_domain(sites, parent(sites[0]))} if sites else set()
            assert owners == found, f"every-change: {group} is in the sets of {owners}, not {found}"
