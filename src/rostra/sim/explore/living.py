"""Members of a group with an exclusive survive rule, cut and united in every way (`protocols/agreed/rules`).

    agree S          the side with these members agrees on a view of itself: it lives, or is blocked
    tear S got G     all of S acknowledge such a view, G get the commit, and then G is cut off from the rest
    fail S had A     of S only A acknowledge it, no member gets a commit, and A is cut off from the rest
    cut S off P      a side is cut in two          heal S with P    two become one
    join S           a new member comes into a side

What must hold after every step: at most one side lives; the fences of living views grow, and each of these
views has a member in common with the one before it.

A side that was cut is blocked at once: its lease ends before the others can act. Agreement itself is the
model `set`'s.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import ClassVar, Final, NamedTuple

from rostra.errors import BadInput
from rostra.names import Endpoint
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.rules import (
    LivingState,
    Majority,
    Present,
    Rule,
    RuleMember,
    RuleMembers,
    Verdict,
    united_state,
    verdict,
)
from rostra.sim.explore.model import Numbers, SearchBounds, Words

NAMES: Final = "abcdefgh"


class LivingBounds(SearchBounds, frozen=True, kw_only=True):
    """`members` at the beginning; how often each thing may happen in one run."""

    members: int = 4
    cuts: int = 2
    heals: int = 1
    tears: int = 1
    fails: int = 0
    joins: int = 0


class LivingMember(NamedTuple):
    knows: int  # the number of a `LivingState`
    side: int
    lives: bool


class LivingWorld(NamedTuple):
    members: tuple[LivingMember, ...]
    spent: tuple[int, ...]
    last: tuple[int, tuple[int, ...]]  # of the last view that came to be: fence, and who was in it
    wrong: tuple[str, ...] = ()


class LivingAct(NamedTuple):
    verb: str
    side: frozenset[int]
    part: frozenset[int] = frozenset()


def _member(place: int) -> RuleMember:
    return RuleMember(MemberId(Endpoint(f"eu.{NAMES[place]}.h1/{NAMES[place]}#1"), (1, 1)))


MEMBERS: Final = tuple([_member(place) for place in range(len(NAMES))])


def _newcomers_count(rule: Rule, here: Present, state: LivingState) -> Verdict:
    """H1: all who are here, as a share of those who lived last."""
    return Verdict(2 * len(here) > len(state.members), "")


def _last_view_only(rule: Rule, here: Present, state: LivingState) -> Verdict:
    """H3: attempts do not count."""
    return verdict(rule, here, LivingState(state.fence, state.members))


class LivingModel:
    name: ClassVar = "living"
    about: ClassVar = "members of a group are cut and united, also while they agree: at most one side lives"
    plants: ClassVar = {
        "newcomers-count": "who joined during a cut counts for a majority (H1)",
        "block-late": "a side that was cut goes on until it has agreed on that (H2)",
        "merge-resets": "sides that unite are an original of their own (H3)",
        "last-view-only": "a view that others may have does not count (H3)",
    }

    def __init__(self, bounds: LivingBounds | None = None, plant: str | None = None) -> None:
        self.bounds: LivingBounds = bounds or LivingBounds()
        self.plant = plant
        if not 1 <= self.bounds.members <= len(NAMES) - self.bounds.joins:
            raise BadInput(
                f"members is {self.bounds.members}", fix=f"from 1 to {len(NAMES)} with those who join"
            )
        self._verbs = {"cut": "cuts", "heal": "heals", "tear": "tears", "fail": "fails", "join": "joins"}
        judges: dict[str, Callable[[Rule, Present, LivingState], Verdict]] = {
            "newcomers-count": _newcomers_count,
            "last-view-only": _last_view_only,
        }
        self._judge = judges.get(plant or "", verdict)
        self._numbers = Numbers()

    def initial(self) -> LivingWorld:
        all_members = frozenset(range(self.bounds.members))
        knows = self._numbers.of(LivingState(1, _list(all_members)))
        members = tuple([LivingMember(knows, 0, lives=True) for _ in all_members])
        return LivingWorld(members, (0,) * len(self._verbs), (1, tuple(all_members)))

    def actions(self, state: LivingWorld) -> list[LivingAct]:
        limits = [getattr(self.bounds, bound) for bound in self._verbs.values()]
        may = {
            verb for verb, spent, most in zip(self._verbs, state.spent, limits, strict=True) if spent < most
        }
        sides = _sides(state)
        found = []
        for side in sides:
            if not all(state.members[each].lives for each in side):
                found.append(LivingAct("agree", side))
            if "join" in may:
                found.append(LivingAct("join", side))
            found += [
                LivingAct(verb, side, frozenset(part))
                for verb in ("cut", "tear", "fail")
                if verb in may
                for size in range(1, len(side))
                for part in combinations(sorted(side), size)
                if verb != "cut" or min(side) in part  # the other half of the ways is the same
            ]
        if "heal" in may:
            found += [LivingAct("heal", one, other) for one, other in combinations(sides, 2)]
        return found

    def apply(self, state: LivingWorld, action: LivingAct) -> LivingWorld:
        verb, side, part = action
        members, wrong = list(state.members), list(state.wrong)
        spent, last = list(state.spent), state.last
        if verb in self._verbs:
            spent[list(self._verbs).index(verb)] += 1
        if verb == "join":
            first = members[min(side)]
            members.append(LivingMember(first.knows, first.side, lives=False))
        elif verb == "heal":
            for each in part:
                members[each] = _moved(members[each], members[min(side)].side)
            self._stop(members, side | part)
            if self.plant == "merge-resets":
                fence = max([self._numbers[members[each].knows].fence for each in side | part])
                original = self._numbers.of(LivingState(fence, _list(side | part)))
                for each in side | part:
                    members[each] = LivingMember(original, members[each].side, lives=False)
        elif verb == "cut":
            self._cut(members, side, part)
        else:
            knows = self._together(members, side)
            judged = self._judge(Majority(), _present(side), knows)
            if judged.lives:
                tried = knows.attempted(_list(side))
                has_tried = part if verb == "fail" else side
                formed = {"agree": side, "tear": part, "fail": frozenset[int]()}[verb]
                for each in has_tried:
                    knows_now = tried.formed(tried.attempts[-1]) if each in formed else tried
                    members[each] = LivingMember(
                        self._numbers.of(knows_now), members[each].side, lives=verb == "agree"
                    )
                if formed:
                    fence = tried.attempts[-1].fence
                    if fence <= last[0]:
                        wrong.append(f"fence {fence} after fence {last[0]}")
                    if not side.intersection(last[1]):
                        wrong.append("a living view has nobody of the one before")
                    last = (fence, tuple(sorted(side)))
            else:
                for each in side:
                    members[each] = LivingMember(self._numbers.of(knows), members[each].side, lives=False)
            if verb != "agree":
                self._cut(members, side, part)
        return LivingWorld(tuple(members), tuple(spent), last, tuple(wrong))

    def _together(self, members: list[LivingMember], side: frozenset[int]) -> LivingState:
        return united_state([self._numbers[number] for number in {members[each].knows for each in side}])

    def _cut(self, members: list[LivingMember], side: frozenset[int], part: frozenset[int]) -> None:
        new = max(each.side for each in members) + 1
        for each in part:
            members[each] = _moved(members[each], new)
        if self.plant != "block-late":
            self._stop(members, side)

    def _stop(self, members: list[LivingMember], who: frozenset[int]) -> None:
        for each in who:
            members[each] = LivingMember(members[each].knows, members[each].side, lives=False)

    def canonical(self, state: LivingWorld) -> LivingWorld:
        """Sides have no names of their own."""
        order = {side: place for place, side in enumerate(dict.fromkeys(each.side for each in state.members))}
        return state._replace(members=tuple([_moved(each, order[each.side]) for each in state.members]))

    def violations(self, state: LivingWorld) -> Sequence[str]:
        living = {each.side for each in state.members if each.lives}
        return [*state.wrong, *(["two sides live"] if len(living) > 1 else [])]

    def words(self, action: LivingAct) -> Words:
        between = {"tear": "got", "fail": "had", "cut": "off", "heal": "with"}.get(action.verb)
        words = (action.verb, _names(action.side))
        return words if between is None else (*words, between, _names(action.part))

    def remark(self, state: LivingWorld, action: LivingAct) -> str:
        return ""

    def told(self, state: LivingWorld, action: LivingAct) -> list[str]:
        after = self.apply(state, action)
        sides = {
            side: [place for place, each in enumerate(after.members) if each.side == side and each.lives]
            for side in {each.side for each in after.members}
        }
        return [f"{_names(frozenset(some))} live" for _, some in sorted(sides.items()) if some]


def _moved(member: LivingMember, side: int) -> LivingMember:
    return LivingMember(member.knows, side, member.lives)


def _sides(state: LivingWorld) -> list[frozenset[int]]:
    sides: dict[int, set[int]] = {}
    for place, each in enumerate(state.members):
        sides.setdefault(each.side, set()).add(place)
    return [frozenset(side) for side in sides.values()]


def _list(side: frozenset[int]) -> RuleMembers:
    return tuple([MEMBERS[each] for each in sorted(side)])


def _present(side: frozenset[int]) -> Present:
    return frozenset([MEMBERS[each].id for each in side])


def _names(side: frozenset[int]) -> str:
    return "".join(NAMES[each] for each in sorted(side))
