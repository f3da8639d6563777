"""Groups of which one side at most may live, through cuts, heals, crashes and lost messages, at random."""

from itertools import combinations

import pytest
from msgspec.structs import replace
from support.setnet import CHESS
from support.weather import Weather, joins

from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.protocols.agreed import rules
from rostra.protocols.agreed.changes import CommitRecord, GroupChange, GroupVerb, Pid, Proposal
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.groups import AgreedGroup
from rostra.sim.explore.living import _newcomers_count

MAJORITY = GroupKind(MembershipKind.AGREED, survive="majority")


class LivingWeather(Weather):
    """Begins as one set, with some members. No server restarts: what it knew of views would be lost."""

    group = MAJORITY
    begins = True  # with members

    def __init__(self, seed: int, kind: type[SetCore] = SetCore) -> None:
        super().__init__(seed, kind)
        net, loss, self.loss = self.net, self.loss, 0.0
        self.fences: dict[int, tuple[int, int, Pid | None]] = {}
        self.members = 0
        for one, other in combinations(self.names, 2):
            net.link(one, other)
        net.reform()
        for name in self.clusters() if self.begins else ():
            for _ in range(self.luck.randint(0, 2)):
                self.join(name)
                net.settle()
        if self.begins:
            self.join(self.clusters()[0])
            net.settle()
        self.loss = loss

    def join(self, name: str) -> None:
        self.members += 1
        self.net.ask(name, joins(name, f"n{self.members}", MAJORITY))

    def blow(self, steps: int) -> None:
        for _ in range(steps // 20):
            super().blow(20)
            if self.luck.random() < 0.4:
                self.join(self.luck.choice(self.clusters()))
            if self.luck.random() < 0.3:
                self.leave()

    def leave(self) -> None:
        name = self.luck.choice(self.living())
        known = self.known(name)
        if known is not None:
            mine = [each for each in known.view.ids if each.endpoint.startswith(f"{name}.")]
            if len(mine) > 1 or (mine and self.luck.random() < 0.3):
                who = self.luck.choice(mine)
                self.net.ask(name, GroupChange(CHESS, GroupVerb.LEAVE, (who,), f"{who.endpoint} leaves"))

    def known(self, name: str) -> AgreedGroup | None:
        return self.net.cores[name].state.table.get(CHESS)

    def harm(self) -> None:
        restart, self.net.restart = self.net.restart, lambda name: None  # type: ignore[method-assign]
        super().harm()
        self.net.restart = restart  # type: ignore[method-assign]

    def check(self) -> None:
        super().check()
        if not hasattr(self, "fences"):
            return
        for name in self.living():
            known = self.known(name)
            for part in known.parts if known is not None else ():
                if not part.blocked and part.view.members:
                    view = part.view
                    before = self.fences.setdefault(part.living.fence, view.id)
                    assert before == view.id, f"fence {part.living.fence} of {before} and {view.id} at {name}"

    def quiet(self) -> None:
        """Faults end, and nothing heals: one side at most lives."""
        self.loss = 0.0
        self.net.settle(5_000)
        living = {
            part.view.id
            for name in self.living()
            for known in [self.known(name)]
            if known is not None
            for part in known.parts
            if not part.blocked and part.view.members
        }
        assert len(living) <= 1, living


@pytest.mark.spec("V-098", "V-099", "V-100")
@pytest.mark.parametrize("seed", range(100))
def test_at_most_one_side_lives(seed: int) -> None:
    weather = LivingWeather(seed)
    for _ in range(3):
        weather.blow(200)
        weather.quiet()
    weather.clear()
    weather.quiet()


class CreatedInWeather(LivingWeather):
    """The group is made while servers are cut from each other."""

    begins = False

    def blow(self, steps: int) -> None:
        self.loss = 0.3
        for _ in range(steps // 12):
            for _ in range(2):
                self.join(self.luck.choice(self.clusters()))
            super(LivingWeather, self).blow(12)
            self.harm()


@pytest.mark.spec("V-098", "V-099", "V-100")
@pytest.mark.parametrize("seed", [*range(50), 417])
def test_at_most_one_side_makes_a_group(seed: int) -> None:
    """In 417 two sides once lived at once, with one fence."""
    weather = CreatedInWeather(seed)
    weather.blow(72)
    weather.quiet()
    weather.clear()
    weather.quiet()


class ForgetsTried(SetCore):
    """H3: what was acknowledged and not heard of again does not count."""

    def _try(self, proposal: Proposal) -> None:
        pass


class CountsAbsent(SetCore):
    """Members behind servers that a change went on without count as here."""

    def _apply(self, record: CommitRecord) -> None:
        super()._apply(replace(record, absent=()))


def breaks(seed: int, kind: type[SetCore] = SetCore) -> bool:
    try:
        weather = LivingWeather(seed, kind)
        for _ in range(3):
            weather.blow(200)
            weather.quiet()
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("kind", [ForgetsTried, CountsAbsent])
def test_storms_find_sides_that_live_and_must_not(kind: type[SetCore]) -> None:
    assert any(breaks(seed, kind) for seed in range(100))


def test_storms_find_newcomers_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """H1."""
    monkeypatch.setattr(rules, "verdict", _newcomers_count)
    assert any(map(breaks, range(100)))
