"""Survival and merge rules of a group: which side of a partition goes on, and which sides may unite (V-098).

    survive="any"        every side goes on (the paper's default)
    survive="majority"   more than half, or half with the most senior
    survive="primary"    the side to which the replicas of the scope's server grant it
    survive="size > 3 and has(type='db')"     or any rule:

        size > 3    size >= 1/2    majority    any    never
        has(rank 0)    has(eu.fr.h1/ann#1)    has(type='db')    count(type='db') >= 2    spans(eu.fr)
        and   or   not   ( )

A rule is asked **at every view**, about those of the **last living view** that are here, and again about
those of **every attempt since**: views that a member acknowledged and does not know the end of. A side lives
if it holds for all of them. Then any two sides that live have a member in common, for a rule that only one
side of a list can satisfy (Yeger-Lotem, Keidar, Dolev, PODC 1997). A side for which it does not hold is
blocked at once, and until the rule holds for it: after a change, or when sides have met. It is not ended
after a time: where no side lives, each would be, and nobody could come back and end the wait.

Where we differ from the paper, and why. There a rule is asked once, when a side is stable, about its size as
a share of the "original", which every merge sets anew. Three counter-examples, each a plant in the model
`living`:

- those who joined during the cut count: {a b c} and {d e x} both have more than half of five (H1);
- both sides act until they are stable, and the smaller one may notice last (H2);
- two losers that merge are an original of their own (H3). And if the cut comes while a view is being agreed,
  some have it and some do not: counting the last view that one has oneself is not enough either.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from rostra.errors import BadInput
from rostra.names import Domain, inside
from rostra.protocols.agreed.changes import MemberId, Number

RULE_LENGTH_MAX: Final = 1_024
RULE_DEPTH_MAX: Final = 32
RULES_REMEMBERED: Final = 256
ATTEMPTS_MAX: Final = 256
"""Attempts of one group that are kept. With more, no side lives until some are united."""


class RuleMember(Struct, frozen=True, array_like=True):
    """A member as rules see it."""

    id: MemberId
    attributes: tuple[tuple[str, str], ...] = ()


RuleMembers = tuple[RuleMember, ...]
"""In order of rank."""

Present = frozenset[MemberId]


# Rules


class Rule(Protocol):
    """Holds, or not, for those of a list who are here."""

    def holds(self, of: RuleMembers, here: Present) -> bool: ...

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        """Of two sides of one list, does it hold for one at most? `depends`: on who is in the list."""


class Anyhow(Struct, frozen=True):
    holds_always: bool

    def holds(self, of: RuleMembers, here: Present) -> bool:
        return self.holds_always

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        return "no" if self.holds_always else "yes"


class Size(Struct, frozen=True):
    """How many are here, compared with a number or with a share of the list."""

    sign: str
    amount: int | None
    share: Fraction | None = None

    def holds(self, of: RuleMembers, here: Present) -> bool:
        amount = self.amount if self.share is None else self.share * len(of)
        return SIGNS[self.sign](_count(of, here), amount)

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        if self.share is None or self.sign not in (">", ">="):
            return "depends"
        if (self.share, self.sign) == (Fraction(1, 2), ">="):
            return "depends"
        return "yes" if self.share >= Fraction(1, 2) else "no"


class Majority(Struct, frozen=True):
    """More than half; or exactly half, with the most senior of all."""

    def holds(self, of: RuleMembers, here: Present) -> bool:
        twice = 2 * _count(of, here)
        return twice > len(of) or (twice == len(of) > 0 and of[0].id in here)

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        return "yes"


class HasSenior(Struct, frozen=True):
    def holds(self, of: RuleMembers, here: Present) -> bool:
        return bool(of) and of[0].id in here

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        return "yes"


class HasAddress(Struct, frozen=True):
    """A member in this domain; or the one at this endpoint, the most senior if it joined twice."""

    address: str

    def holds(self, of: RuleMembers, here: Present) -> bool:
        if "/" in self.address:
            found = [each.id for each in of if each.id.endpoint == self.address]
            return found[:1] != [] and found[0] in here
        return any(each.id in here and inside(Domain(self.address), each.id.endpoint) for each in of)

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        return "yes" if "/" in self.address else "depends"


class HowMany(Struct, frozen=True):
    """Members with this attribute."""

    name: str
    value: str
    sign: str
    amount: int

    def holds(self, of: RuleMembers, here: Present) -> bool:
        wanted = (self.name, self.value)
        found = sum(each.id in here and wanted in each.attributes for each in of)
        return SIGNS[self.sign](found, self.amount)

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        return "depends"


class Both(Struct, frozen=True):
    one: Rule
    other: Rule

    def holds(self, of: RuleMembers, here: Present) -> bool:
        return self.one.holds(of, here) and self.other.holds(of, here)

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        return "yes" if "yes" in (self.one.exclusive, self.other.exclusive) else "depends"


class Either(Struct, frozen=True):
    one: Rule
    other: Rule

    def holds(self, of: RuleMembers, here: Present) -> bool:
        return self.one.holds(of, here) or self.other.holds(of, here)

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        return "no" if "no" in (self.one.exclusive, self.other.exclusive) else "depends"


class Not(Struct, frozen=True):
    rule: Rule

    def holds(self, of: RuleMembers, here: Present) -> bool:
        return not self.rule.holds(of, here)

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        return "depends"


class Primary(Struct, frozen=True):
    """Decided by the server of the scope, which acknowledges one view after the other, and not by members."""

    def holds(self, of: RuleMembers, here: Present) -> bool:
        return True

    @property
    def exclusive(self) -> Literal["yes", "no", "depends"]:
        return "yes"


SIGNS: Final[dict[str, Callable[..., bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}


def _count(of: RuleMembers, here: Present) -> int:
    return sum(each.id in here for each in of)


# Who lives


class Attempt(Struct, frozen=True, array_like=True):
    """A view that was acknowledged here. Whether it came to be, this member does not know."""

    fence: Number
    members: RuleMembers


class LivingState(Struct, frozen=True, array_like=True):
    """What a member knows of the living views of its group. Durable: it outlives servers."""

    fence: Number  # of the last living view: it grows with each of them, and a resource refuses smaller ones
    members: RuleMembers
    attempts: tuple[Attempt, ...] = ()
    returned: tuple[tuple[MemberId, Number], ...] = ()
    """Members of it that were out of a living view before: each with the fence with which it was back. In one
    order, however they came to be known: two states that say the same are equal."""
    dead: tuple[MemberId, ...] = ()
    """Members of it of which their hosts say that they are dead, where what they had is on the disks of those
    hosts: they are on no other side, and count as here."""

    def attempted(self, members: RuleMembers) -> "LivingState":
        """Before a view of these members is acknowledged."""
        highest = max([self.fence, *[each.fence for each in self.attempts]])
        return replace(self, attempts=(*self.attempts, Attempt(highest + 1, members)))

    def departed(self, gone: Collection[MemberId], *, counts: bool) -> "LivingState":
        """The state without members that are on no side; or, if they count as present, with them as dead
        ones."""
        gone = frozenset(gone)
        tried = [(each.fence, _rest(each.members, gone)) for each in self.attempts]
        attempts = tuple([Attempt(fence, rest) for fence, rest in tried if rest])
        if not counts:
            return replace(self, members=_rest(self.members, gone), attempts=attempts)
        dead = {*self.dead, *[each.id for each in self.members if each.id in gone]}
        return replace(self, attempts=attempts, dead=tuple(sorted(dead)))

    def formed(self, attempt: Attempt) -> "LivingState":
        """It was committed: what came before does not matter any more."""
        return LivingState(attempt.fence, attempt.members)

    def followed(self, fence: int, members: RuleMembers, joined: Iterable[MemberId]) -> "LivingState":
        """A view of these lives next. Who is in it, and neither in the last one nor new, was out of it."""
        stayed, new = frozenset([each.id for each in self.members]), frozenset(joined)
        before = dict(self.returned)
        returned = []
        for each in members:
            if self.fence and each.id not in stayed and each.id not in new:
                returned.append((each.id, fence))
            elif each.id in before:
                returned.append((each.id, before[each.id]))
        return LivingState(fence, members, (), tuple(sorted(returned)))


def _rest(members: RuleMembers, gone: Collection[MemberId]) -> RuleMembers:
    return tuple([each for each in members if each.id not in gone])


def united_state(states: Iterable[LivingState]) -> LivingState:
    """What several members know together: the last living view that any of them had, and every attempt
    after that. A merge makes nothing forgotten."""
    known = list(states)
    last = max(known, key=lambda state: (state.fence, [each.id for each in state.members]))
    attempts = {each for state in known for each in state.attempts if each.fence > last.fence}
    order = sorted(attempts, key=lambda each: (each.fence, [one.id for one in each.members]))
    returned: dict[MemberId, int] = {}
    for id, fence in [each for state in known for each in state.returned]:
        returned[id] = max(fence, returned.get(id, 0))
    return LivingState(last.fence, last.members, tuple(order), tuple(sorted(returned.items())), last.dead)


class Verdict(Struct, frozen=True):
    lives: bool
    why: str


def verdict(rule: Rule, here: Iterable[MemberId], state: LivingState) -> Verdict:
    """May this side go on? `here` are its members; those who joined since are not counted (H1)."""
    present = frozenset(here)
    if len(state.attempts) > ATTEMPTS_MAX:
        return Verdict(False, "too many attempts are open")
    heard_of = present.union(state.dead)
    if state.members and not rule.holds(state.members, heard_of):
        return Verdict(
            False, f"{_count(state.members, heard_of)} of {len(state.members)} who lived last are here"
        )
    for attempt in state.attempts:
        if not rule.holds(attempt.members, present):
            count = _count(attempt.members, present)
            return Verdict(
                False, f"{count} of {len(attempt.members)} are here of a view that others may have"
            )
    return Verdict(True, "the rule holds")


def standing(rule: Rule, view: RuleMembers, here: Iterable[MemberId], state: LivingState) -> Verdict:
    """May a view of these members be the next that lives? If it is the first, the rule must hold for it: with
    ``size > 3`` it is the first of four. So an attempt for which it does not hold lives on no side either."""
    if not state.members:
        if not _holds_whole(rule, view):
            many = f"{len(view)} member{'s' * (len(view) != 1)}"
            return Verdict(False, f"no view has lived yet: the rule does not hold for {many}")
        attempts = [each for each in state.attempts if _holds_whole(rule, each.members)]
        state = LivingState(state.fence, (), tuple(attempts))
    return verdict(rule, here, state)


def _holds_whole(rule: Rule, members: RuleMembers) -> bool:
    return not members or rule.holds(members, frozenset([each.id for each in members]))


def may_merge(rule: Rule, one: RuleMembers, other: RuleMembers) -> bool:
    """Two sides unite only if each satisfies what the other asks of it (V-102)."""
    return all(rule.holds(side, frozenset([each.id for each in side])) for side in (one, other))


# Reading rules

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d+)|(?P<text>'[^']*')|(?P<sign>>=|<=|>|<|=)|(?P<mark>[()/,])|(?P<word>[^\s()=<>',]+))"
)


@lru_cache(maxsize=RULES_REMEMBERED)
def parse_rule(text: str) -> Rule:
    """Points at the place if it cannot be read."""
    if len(text) > RULE_LENGTH_MAX:
        raise BadInput(f"a rule of {len(text)} characters", fix=f"at most {RULE_LENGTH_MAX}")
    return _Parser(text).rule()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._start = 0
        self._kind, self._token = "", ""
        self._next()

    def rule(self) -> Rule:
        found = self._or(0)
        if self._kind:
            raise self._wrong("and, or, or the end")
        if isinstance(found, Both | Either | Not) and "primary" in self._text.split():
            raise BadInput(f"{self._text!r}: primary stands alone", fix="survive='primary'")
        return found

    def _or(self, depth: int) -> Rule:
        found = self._and(depth)
        while self._token == "or":
            self._next()
            found = Either(found, self._and(depth))
        return found

    def _and(self, depth: int) -> Rule:
        found = self._atom(depth + 1)
        while self._token == "and":
            self._next()
            found = Both(found, self._atom(depth + 1))
        return found

    def _atom(self, depth: int) -> Rule:
        if depth > RULE_DEPTH_MAX:
            raise BadInput("a rule that is too deep", fix=f"at most {RULE_DEPTH_MAX} parentheses")
        word, kind = self._token, self._kind
        if kind == "mark" and word == "(":
            self._next()
            found = self._or(depth)
            self._take(")")
            return found
        if kind != "word":
            raise self._wrong("a condition")
        match word:
            case "not":
                self._next()
                return Not(self._atom(depth + 1))
            case "any" | "never":
                self._next()
                return Anyhow(word == "any")
            case "majority":
                self._next()
                return Majority()
            case "primary":
                self._next()
                return Primary()
            case "size":
                self._next()
                return self._size()
            case "has" | "count" | "spans":
                self._next()
                self._take("(")
                return self._about(word)
        raise self._wrong("size, has, count, spans, majority, any, never or primary")

    def _size(self) -> Rule:
        sign, amount = self._sign(), self._number()
        if self._token != "/":
            return Size(sign, amount)
        self._next()
        whole = self._number()
        if not whole:
            raise BadInput(f"{self._text!r}: a share of nothing", fix="size > 1/2")
        return Size(sign, None, Fraction(amount, whole))

    def _about(self, word: str) -> Rule:
        if self._kind != "word":
            raise self._wrong("rank 0, an address, or an attribute such as type='db'")
        name = self._token
        self._next()
        if word == "has" and name == "rank":
            if self._number():
                raise BadInput(f"{self._text!r}: only rank 0 is one member's for sure", fix="has(rank 0)")
            self._take(")")
            return HasSenior()
        if self._token == "=" and word != "spans":
            self._next()
            if self._kind != "text":
                raise self._wrong("a text such as 'db'")
            value = self._token[1:-1]
            self._next()
            self._take(")")
            return (
                HowMany(name, value, ">", 0)
                if word == "has"
                else HowMany(name, value, self._sign(), self._number())
            )
        while self._token == "/":  # of an endpoint
            self._next()
            name += f"/{self._token}"
            self._next()
        if word == "count":
            raise self._wrong("an attribute such as type='db'")
        self._take(")")
        return HasAddress(name)

    def _sign(self) -> str:
        if self._kind != "sign":
            raise self._wrong("one of > >= < <= =")
        sign = self._token
        self._next()
        return sign

    def _number(self) -> int:
        if self._kind != "number" or len(self._token) > 9:
            raise self._wrong("a number")
        number = int(self._token)
        self._next()
        return number

    def _take(self, mark: str) -> None:
        if self._token != mark:
            raise self._wrong(repr(mark))
        self._next()

    def _next(self) -> None:
        rest = self._text[self._at :]
        self._start = self._at + len(rest) - len(rest.lstrip())
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            self._kind, self._token = "", ""
            if rest.strip():
                raise self._wrong("something that can be read")
            return
        self._at = found.end()
        self._kind = found.lastgroup or ""
        self._token = found[self._kind]

    def _wrong(self, wanted: str) -> BadInput:
        before, after = self._text[: self._start], self._text[self._start :]
        place = f"at character {self._start + 1}: {before}▸{after}"
        return BadInput(f"the rule cannot be read {place}", fix=f"expected {wanted}")
