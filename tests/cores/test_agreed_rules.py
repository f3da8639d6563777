"""Which side of a partition goes on: rules, living views, attempts and fences.

Every order of cuts, merges, joins and torn agreements of four members is the model `living`'s
(`tests/faults/test_explore.py`).
"""

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rostra.errors import BadInput
from rostra.names import Endpoint
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.config import lease_is_safe
from rostra.protocols.agreed.rules import (
    ATTEMPTS_MAX,
    RULE_DEPTH_MAX,
    Attempt,
    Both,
    Either,
    HasSenior,
    HowMany,
    LivingState,
    Majority,
    Not,
    Rule,
    RuleMember,
    RuleMembers,
    Size,
    may_merge,
    parse_rule,
    united_state,
    verdict,
)


def one(name: str) -> MemberId:
    return MemberId(Endpoint(f"eu.{name}.h1/{name}#1"), (1, 1))


def some(names: Iterable[str]) -> frozenset[MemberId]:
    return frozenset(map(one, names))


def members(names: str, **kinds: str) -> RuleMembers:
    """In order of rank; of each kind, those named."""
    return tuple(
        RuleMember(one(name), tuple(("type", kind) for kind, of in kinds.items() if name in of))
        for name in names
    )


def lives(rule: str, here: str, state: LivingState) -> bool:
    return verdict(parse_rule(rule), some(here), state).lives


FIVE = LivingState(1, members("abcde"))


# The counter-examples


@pytest.mark.spec("V-099", "V-100")
def test_who_joined_during_the_cut_does_not_count() -> None:
    """H1: {a b c} and {d e x} would both have more than half of five."""
    assert lives("size > 1/2", "abc", FIVE)
    assert not lives("size > 1/2", "dex", FIVE) and not lives("majority", "dexyz", FIVE)


def test_a_lease_ends_before_others_can_have_given_us_up() -> None:
    assert lease_is_safe(doubt_after_s=2.5, down_after_s=4.0, heartbeat_interval_s=1.0)
    assert not lease_is_safe(doubt_after_s=3.0, down_after_s=4.0, heartbeat_interval_s=1.0)


@pytest.mark.spec("V-100")
def test_two_losers_that_merge_have_still_lost() -> None:
    """H3: a merge resets nothing. abc live on; d and e, cut off one by one, unite."""
    abc = FIVE.attempted(members("abc"))
    abc = abc.formed(abc.attempts[-1])
    assert lives("majority", "abc", FIVE) and abc.fence == 2
    assert not lives("majority", "de", united_state([FIVE, FIVE]))
    assert not lives("majority", "dexyz", united_state([FIVE, FIVE]))
    assert not lives("majority", "ade", united_state([abc, FIVE]))  # the three have living ones among them
    assert lives("majority", "abde", united_state([abc, FIVE]))


@pytest.mark.spec("V-099")
def test_a_view_that_others_may_have_counts_as_much_as_one_that_we_have() -> None:
    """H3: the cut comes while {a b c} is being agreed: a has it, b and c only acknowledged it."""
    torn = FIVE.attempted(members("abc"))
    formed = torn.formed(torn.attempts[-1])
    assert lives("majority", "ab", formed)  # a, with b, may go on: two of three
    assert not lives("majority", "cde", united_state([torn, FIVE, FIVE]))  # c knows why these may not
    assert lives("majority", "cde", united_state([FIVE, FIVE]))  # and would not, without its attempt
    assert verdict(Majority(), some("cde"), torn).why == "1 of 3 are here of a view that others may have"


def test_attempts_end_with_a_view_that_came_to_be() -> None:
    torn = FIVE.attempted(members("abc")).attempted(members("abd"))
    assert [each.fence for each in torn.attempts] == [2, 3]
    after = torn.formed(torn.attempts[-1])
    assert after == LivingState(3, members("abd"))
    assert united_state([after, torn]) == after
    assert united_state([FIVE, torn]).attempts == torn.attempts


def test_too_many_open_attempts_let_nobody_live() -> None:
    many = LivingState(1, members("a"), tuple(Attempt(n, members("a")) for n in range(2, ATTEMPTS_MAX + 3)))
    assert not lives("any", "a", many)


lists = st.text("abcdef", min_size=1, max_size=6).map(lambda text: "".join(dict.fromkeys(text)))


@pytest.mark.spec("V-099")
@given(st.lists(st.tuples(lists, lists, st.booleans()), max_size=12))
def test_however_a_group_is_cut_and_torn_two_living_views_meet(script: list[tuple[str, str, bool]]) -> None:
    """Members a to f, each with what it knows; a script of sides that try, and of those that get the commit.
    Every view that came to be has a member in common with the one before it, and its fence is larger."""
    known = dict.fromkeys("abcdef", LivingState(1, members("abcdef")))
    formed = [LivingState(1, members("abcdef"))]
    for side, got, is_torn in script:
        together = united_state([known[name] for name in side])
        if not verdict(Majority(), some(side), together).lives:
            continue
        tried = together.attempted(members("".join(sorted(side))))
        for name in side:
            known[name] = tried
        came_to_be = tried.formed(tried.attempts[-1])
        receivers = [name for name in side if not is_torn or name in got]
        for name in receivers:
            known[name] = came_to_be
        if receivers:
            formed.append(came_to_be)
    for before, after in pairwise(formed):
        assert before.fence < after.fence
        assert {each.id for each in before.members} & {each.id for each in after.members}


# Rules


@pytest.mark.spec("V-099")
def test_the_source_s_own_example() -> None:
    """Larger than three and with a member of a type; merging with more than half of the original."""
    group = members("abcdefg", db="g")
    state = LivingState(1, group)
    assert not lives("size > 3 and has(type='db')", "abcd", state)
    assert not lives("size > 3 and has(type='db')", "efg", state)
    assert lives("size > 3 and has(type='db') or has(rank 0)", "abcd", state)
    assert may_merge(parse_rule("size > 1/2 and has(type='db')"), group, members("g", db="g"))
    assert not may_merge(parse_rule("has(type='db')"), group, members("abc"))


@pytest.mark.spec("V-099")
@pytest.mark.parametrize(
    ("rule", "here", "holds"),
    [
        ("any", "", True),
        ("never", "abcd", False),
        ("size >= 2", "ab", True),
        ("size = 2", "abc", False),
        ("size < 1/2", "a", True),
        ("size >= 3/4", "abc", True),
        ("majority", "ab", True),  # half, with the most senior
        ("majority", "cd", False),
        ("has(rank 0)", "bcd", False),
        ("has(eu.c.h1/c#1)", "bc", True),
        ("has(eu.c.h1/c#1)", "ab", False),
        ("spans(eu.d)", "d", True),
        ("spans(eu)", "d", True),
        ("count(type='db') >= 2", "ab", True),
        ("count(type='db') >= 2", "ac", False),
        ("not has(type='db')", "cd", True),
        ("(size > 2 or has(rank 0)) and not spans(eu.d)", "ab", True),
        ("size > 2 or has(rank 0) and spans(eu.d)", "ab", False),
        ("primary", "", True),
    ],
)
def test_rules_say_what_they_mean(rule: str, here: str, holds: bool) -> None:
    assert parse_rule(rule).holds(members("abcd", db="ab"), some(here)) is holds


rules = st.recursive(
    st.one_of(
        st.builds(Size, st.sampled_from([">", ">=", "<", "<=", "="]), st.integers(0, 5)),
        st.builds(
            Size,
            st.sampled_from([">", ">=", "<"]),
            st.none(),
            st.sampled_from([Fraction(1, 3), Fraction(1, 2), Fraction(2, 3)]),
        ),
        st.builds(HowMany, st.just("type"), st.just("db"), st.sampled_from([">", ">="]), st.integers(0, 2)),
        st.just(Majority()),
        st.just(HasSenior()),
    ),
    lambda inner: st.one_of(
        st.builds(Both, inner, inner), st.builds(Either, inner, inner), st.builds(Not, inner)
    ),
    max_leaves=5,
)


@pytest.mark.spec("V-099")
@given(rules)
def test_a_rule_that_says_it_is_exclusive_holds_for_one_side_at_most(rule: Rule) -> None:
    """Against all pairs of sides of all lists of up to five; and a rule that says no has such a pair."""
    found = False
    for size in range(1, 6):
        names = "abcde"[:size]
        group = members(names, db="ace")
        for sides in product((0, 1, 2), repeat=size):
            one_side = some(name for name, side in zip(names, sides, strict=True) if side == 1)
            other = some(name for name, side in zip(names, sides, strict=True) if side == 2)
            found |= rule.holds(group, one_side) and rule.holds(group, other)
    assert {"yes": not found, "no": found, "depends": True}[rule.exclusive]


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ("any", "no"),
        ("majority", "yes"),
        ("primary", "yes"),
        ("never", "yes"),
        ("size > 1/2", "yes"),
        ("size >= 1/2", "depends"),
        ("size > 3", "depends"),
        ("has(rank 0)", "yes"),
        ("has(type='db')", "depends"),
        ("has(type='db') and majority", "yes"),
        ("has(type='db') or majority", "depends"),
        ("has(eu.c.h1/c#1)", "yes"),
        ("has(eu.c)", "depends"),
    ],
)
def test_it_is_said_whether_two_sides_can_live(rule: str, answer: str) -> None:
    assert parse_rule(rule).exclusive == answer


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("", "at character 1: ▸", "a condition"),
        ("size", "at character 5: size▸", "one of > >= < <= ="),
        ("size > many", "at character 8: size > ▸many", "a number"),
        ("size > 3 xor any", "at character 10: size > 3 ▸xor any", "and, or, or the end"),
        ("(any", "at character 5: (any▸", "')'"),
        ("has(type=db)", "at character 10: has(type=▸db)", "a text such as 'db'"),
        ("count(eu.fr) > 2", "at character 12: count(eu.fr▸) > 2", "an attribute such as type='db'"),
        ("more than half", "at character 1: ▸more than half", "size, has, count"),
        ("has(type='db", "at character 10: has(type=▸'db", "something that can be read"),
    ],
)
def test_a_rule_that_cannot_be_read_is_shown_the_place(text: str, place: str, expected: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_rule(text)
    assert place in caught.value.what and expected in (caught.value.fix or "")


@pytest.mark.parametrize(
    "text",
    [
        "size > 1/0",
        "has(rank 3)",
        "primary and any",
        "any " * 400,
        "(" * (RULE_DEPTH_MAX + 1) + "any" + ")" * (RULE_DEPTH_MAX + 1),
        "not " * 60 + "any",
        "size > 99999999999",
    ],
)
def test_rules_have_bounds(text: str) -> None:
    with pytest.raises(BadInput):
        parse_rule(text)


@given(st.text(max_size=60) | st.text("size>=<1/2 ()'andornothasrankcount", max_size=60))
def test_no_text_does_worse_than_being_refused(text: str) -> None:
    try:
        rule = parse_rule(text)
    except BadInput:
        return
    rule.holds(members("abc"), some("ab"))
    assert rule.exclusive in ("yes", "no", "depends")


def test_who_was_out_of_a_living_view_is_marked_until_it_is_out_again() -> None:
    """And a merge forgets it no more than anything else."""
    ann, bob, cem = members("abc")
    first = LivingState(0, ()).followed(1, (ann, bob), ())
    assert first.returned == ()
    joined = first.followed(2, (ann, bob, cem), [cem.id])
    without = joined.followed(3, (ann, bob), ())
    assert joined.returned == without.returned == ()

    back = united_state((joined, without)).followed(4, (ann, bob, cem), ())
    assert back.returned == ((cem.id, 4),)
    assert united_state((joined, back)).followed(5, (ann, cem), ()).returned == ((cem.id, 4),)
    assert back.followed(5, (ann, bob), ()).followed(6, (ann, cem), ()).returned == ((cem.id, 6),)
