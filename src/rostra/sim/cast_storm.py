"""Storms over agreed groups whose sets have addresses (`protocols/agreed/casting.py`).

What storms of views check, while datagrams are lost and cut apart from the links beside them.
"""

from typing import ClassVar, Final

from rostra.names import Domain
from rostra.protocols.agreed.config import AgreedConfig, Repeater, SetAddress
from rostra.sim.view_storm import DEEDS, ViewStorm

MIXED: Final = SetAddress(
    Domain("eu"),
    ("239.192.0.2", 7470),
    (Repeater(Domain("eu"), ("10.1.0.1", 7471)), Repeater(Domain("eu.fr"), ("10.1.0.2", 7471))),
    (Domain("eu.it"),),
)
"""Multicast reaches three of four; two of these repeat."""

REPEATED: Final = SetAddress(
    Domain("world"), None, (Repeater(Domain("world"), ("10.2.0.1", 7471)),), (Domain("eu"), Domain("us"))
)
"""Without multicast, by one repeater."""


class CastStorm(ViewStorm):
    deeds = (*DEEDS, "cut_data", "cut_data", "lose_data")
    word = "casts"
    agreed: ClassVar[AgreedConfig | None] = AgreedConfig(sets=(MIXED, REPEATED))

    def _cut_data(self) -> None:
        one, other = self.luck.sample(self.servers, 2)
        self.world.cut(f"link {one} | {other}", only="data")

    def _lose_data(self) -> None:
        self.world.lose(self.luck.choice((0.0, 0.1, 0.3)), only="data")
