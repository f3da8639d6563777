"""Storms over agreed groups that change at the same time, each in its lane (`protocols/agreed/lanes.py`).

What storms of views check, with more groups, changes close to each other, and one group with a rule, which
has no lane. How many lanes there are, and whether the server of `eu` has replicas, is drawn from the seed.
"""

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Final

from rostra.names import Domain, Group
from rostra.protocols.agreed.config import AgreedConfig
from rostra.sim.view_storm import LEDGER, ViewStorm

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

BOARDS: Final = tuple([Group(f"board{number}", Domain("eu")) for number in range(5)])
HALLS: Final = tuple([Group(f"hall{number}", Domain("world")) for number in range(3)])


class LaneStorm(ViewStorm):
    rules: Mapping[Group, str] = {**dict.fromkeys((*BOARDS, *HALLS), ""), LEDGER: "majority"}
    joined: tuple[Group, ...] = (*BOARDS, *HALLS, LEDGER)
    deeds: tuple[str, ...] = (
        *("burst", "burst", "burst", "join", "leave", "kill", "rest"),
        *("crash", "restart", "cut_site", "cut_link", "heal", "heal", "pause", "resume"),
    )
    word = "lanes"

    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        luck = Random(f"settings of lanes {seed}")
        self.lanes = luck.choice((2, 6, 12, 64))
        self.replicas = {"eu": 3} if luck.random() < 0.3 else {}
        super().__init__(seed, journal=journal)

    def _settings(self, seed: int) -> AgreedConfig:
        return AgreedConfig(lanes=self.lanes)

    def _burst(self) -> None:
        for _ in range(self.luck.choice((3, 6))):
            (self._join if self.luck.random() < 0.7 else self._leave)()
