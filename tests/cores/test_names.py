"""Names by example: what is one, what is none, and what the refusal says. For all names: tests/properties."""

import pytest
from support.tref import T_REF, UNEVEN

from rostra.errors import BadInput, BadName
from rostra.names import (
    REPLICAS_MAX,
    ROOT,
    Domain,
    Endpoint,
    Group,
    PublicName,
    RestrictedName,
    TransientName,
    Tree,
    dials,
    domain_of_replica,
    enclosing,
    endpoint,
    has_controls,
    host_of,
    incarnation_of,
    inside,
    make_group,
    name_of,
    parent,
    parse_domain,
    parse_endpoint,
    parse_endpoint_name,
    parse_group,
    parse_group_name,
    parse_host,
    parse_scope,
    quoted,
    replica_path,
)

NOT_LABELS = {
    "capital": "EU",
    "space": "eu fr",
    "underscore": "eu_fr",
    "accent": "é",
    "letter of another alphabet": "\u0435u",  # Cyrillic e
    "wide letter": "\uff45u",
    "digit of another alphabet": "\u0661",
    "surrogate": "\ud800",
    "newline": "eu\n",
    "NUL": "eu\x00",
    "no width": "e\u200bu",
    "64 long": "a" * 64,
    "nothing": "",
}


# Domains and hosts


@pytest.mark.spec("C-001")
def test_the_root_has_two_spellings_and_one_name() -> None:
    assert parse_domain("world") == parse_domain(".") == ROOT == "world"


@pytest.mark.spec("C-001")
def test_a_domain_has_at_most_eight_labels_and_a_host_nine() -> None:
    eight, nine, ten = (".".join("abcdefghij"[:count]) for count in (8, 9, 10))
    assert parse_domain(eight) == eight
    assert parse_host(nine) == parse_scope(nine) == nine
    with pytest.raises(BadName, match="has 9 labels"):
        parse_domain(nine)
    with pytest.raises(BadName, match="has 10 labels"):
        parse_host(ten)


@pytest.mark.spec("C-001")
@pytest.mark.parametrize("label", NOT_LABELS.values(), ids=NOT_LABELS)
@pytest.mark.parametrize("path", ["{}", "{}.fr", "eu.{}", "eu.{}.paris"])
@pytest.mark.parametrize("parse", [parse_domain, parse_host, parse_scope])
def test_a_bad_label_is_refused_wherever_it_stands(parse: object, path: str, label: str) -> None:
    with pytest.raises(BadName) as caught:
        parse(path.format(label))  # type: ignore[operator]
    assert caught.value.fix and caught.value.code == "BAD_ARGUMENT"


@pytest.mark.spec("C-001")
@pytest.mark.parametrize("text", [".eu", "eu.", "eu..fr", "..", ". ", "world.eu", "eu/fr", "eu,fr"])
def test_a_path_is_labels_with_single_dots_between(text: str) -> None:
    with pytest.raises(BadName):
        parse_scope(text)


def test_the_name_of_the_world_may_stand_anywhere_but_first() -> None:
    assert parse_domain("eu.world") == "eu.world"


@pytest.mark.spec("C-001")
def test_a_path_longer_than_any_is_refused_without_being_repeated() -> None:
    with pytest.raises(BadName) as caught:
        parse_domain("a." * 1_000_000)
    assert len(str(caught.value)) < 200


@pytest.mark.spec("C-003")
def test_a_host_is_one_label_below_its_cluster_and_never_the_world() -> None:
    assert parent(parse_host("eu.fr.c1.h1")) == "eu.fr.c1"
    for text in ("world", "."):
        with pytest.raises(BadName, match="not a host"):
            parse_host(text)


@pytest.mark.spec("C-002")
@pytest.mark.parametrize(
    ("domain", "address", "is_inside"),
    [
        ("eu.fr", "eu.fr.paris", True),
        ("eu.fr", "eu.fr", True),
        ("eu.fr", "eu.france", False),
        ("eu.fr", "eu", False),
        ("eu", "neu.fr", False),
        ("fr", "eu.fr", False),
        ("world", "eu", True),
        ("world", "world", True),
        ("eu", "world", False),
        ("eu.fr", "eu.fr.paris.h1/web-1#7", True),
        ("eu.fr.paris.h1", "eu.fr.paris.h1/web-1#7", True),
        ("eu.fr.paris.h1", "eu.fr.paris.h10/web-1#7", False),
        ("eu.fr.paris.h1", "eu.fr.paris.h2/h1#7", False),
    ],
)
def test_prefix_means_labels(domain: str, address: str, is_inside: bool) -> None:
    assert inside(Domain(domain), address) is is_inside


def test_a_path_knows_what_is_around_it() -> None:
    assert enclosing(Domain("eu.fr.c1.h1")) == ("eu.fr.c1.h1", "eu.fr.c1", "eu.fr", "eu", "world")
    assert enclosing(ROOT) == (ROOT,)
    assert parent(ROOT) == ROOT


# Endpoints


@pytest.mark.spec("C-004")
def test_an_endpoint_tells_its_host_its_name_and_its_incarnation() -> None:
    web = parse_endpoint("eu.fr.paris.h3/web-1#7")
    assert (host_of(web), name_of(web), incarnation_of(web)) == ("eu.fr.paris.h3", "web-1", 7)
    assert endpoint(Domain("eu.fr.paris.h3"), "web-1", 7) == web


@pytest.mark.spec("C-004")
@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "eu.h1",
            "eu.h1/web",
            "eu.h1#7",
            "web#7",
            "/web#7",
            "eu.h1/#7",
            "eu.h1/web#",
            "world/web#7",
            "./web#7",
        ),
        *(
            "eu.h1/web#-1",
            "eu.h1/web#+1",
            "eu.h1/web#07",
            "eu.h1/web#1_0",
            "eu.h1/web#1 ",
            "eu.h1/web#\u0661",
        ),
        *(f"eu.h1/web#{2**63}", f"eu.h1/web#{'9' * 30}", "eu.h1/web#0x1", "eu.h1/web#1.0", "eu.h1/web#1\n"),
        *("eu.h1/web/1#7", "eu.h1/web#1#7", "EU.h1/web#7", "eu.h1/-web#7", "eu.h1/we b#7", "eu.h1/wéb#7"),
        *("eu.h1/we~b#7", "eu.h1/we!b#7", "eu.h1/we@b#7", f"eu.h1/{'w' * 64}#7", f"{'h.' * 9}h/web#7"),
    ],
)
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(BadName) as caught:
        parse_endpoint(text)
    assert caught.value.fix


@pytest.mark.spec("C-004")
@pytest.mark.parametrize("name", ["w", "Web_1.x-y", "9", "w" * 63])
def test_programs_choose_plain_names(name: str) -> None:
    assert parse_endpoint_name(name) == name


@pytest.mark.spec("C-005")
def test_the_largest_incarnation_fits_in_63_bits() -> None:
    assert incarnation_of(parse_endpoint(f"eu.h1/web#{2**63 - 1}")) == 2**63 - 1


# Groups


@pytest.mark.spec("S-005", "S-006")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("chess", PublicName(("chess",))),
        ("lounge/chess", PublicName(("lounge", "chess"))),
        ("acme/hr!payroll", RestrictedName(("acme", "hr"), ("payroll",))),
        ("a!b/c", RestrictedName(("a",), ("b", "c"))),
        ("eu.h3/web-1#7~7-1718-5", TransientName(Endpoint("eu.h3/web-1#7"), ("7-1718-5",))),
        ("eu.h3/web-1#7~a/b", TransientName(Endpoint("eu.h3/web-1#7"), ("a", "b"))),
        ("café/日本 😀", PublicName(("café", "日本 😀"))),
        ("a@b", PublicName(("a@b",))),
    ],
)
def test_a_group_name_is_of_one_of_three_kinds(text: str, name: object) -> None:
    assert parse_group_name(text) == name
    assert str(name) == text


@pytest.mark.spec("S-006")
@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "a/", "/a", "a//b", "!", "a!", "!a", "a!b!c", "a!/b", "a/!b", "~", "~x", "x~", "x~y"),
        *("eu.h3/web-1#7~", "eu.h3/web-1#7~a~b", "eu.h3/web-1#7~a!b", "eu.h3/web-1~a", "a!eu.h3/web-1#7~b"),
        *(
            "g" * 256,
            "é" * 128,
            "a\x00",
            "a\nb",
            "a\tb",
            "a\u2028b",
            "\ud800",
            "\ufeffa",
            "a\u200b",
            "\u202ea",
        ),
        *(" ", "a ", " a", "a  b", "a/ b", "a /b", "a! b", "a !b", "eu.h3/web-1#7~ a", "a/ /b"),
        *("e\u0301", "\u212b", "\u1100\u1161", "a\u00a0b", "\u3000"),
    ],
)
def test_what_is_no_group_name_is_refused(text: str) -> None:
    with pytest.raises(BadName) as caught:
        parse_group_name(text)
    assert caught.value.fix and str(caught.value).isprintable()


@pytest.mark.spec("S-006")
def test_the_tilde_wins_over_the_exclamation_mark() -> None:
    """The specs' ``h:1/e!p~t`` is a transient name; with our addresses its owner is none, and it says so."""
    with pytest.raises(BadName, match="'h:1/e!p~t' is not a group name: 'h:1/e!p' is not an endpoint"):
        parse_group_name("h:1/e!p~t")


@pytest.mark.spec("C-006")
def test_a_name_is_measured_in_bytes() -> None:
    assert parse_group_name("g" * 255) and parse_group_name("é" * 127)
    with pytest.raises(BadName, match="256 bytes"):
        parse_group_name("é" * 128)


@pytest.mark.spec("C-006")
def test_two_scopes_make_two_groups() -> None:
    assert make_group("chess", "eu") != make_group("chess", "eu.fr")
    assert make_group("chess", "eu") == Group("chess", Domain("eu"))
    assert make_group("chess", "eu") != make_group("Chess", "eu")
    assert {make_group("chess", "."): 1} == {make_group("chess", "world"): 1}


def test_a_group_is_written_name_at_scope() -> None:
    assert parse_group("chess@eu.fr") == Group("chess", Domain("eu.fr"))
    assert parse_group("chess") == Group("chess", ROOT)
    assert parse_group("me@home@eu") == Group("me@home", Domain("eu"))
    assert str(make_group("chess", "eu.fr.c1.h1")) == "chess@eu.fr.c1.h1"
    for text in ("chess@", "@eu", "chess@EU", "chess@eu/fr", "@"):
        with pytest.raises(BadName):
            parse_group(text)


@pytest.mark.spec("S-008")
def test_transient_names_of_one_owner_do_not_collide_over_restarts() -> None:
    lives = [endpoint(Domain("eu.h3"), "web-1", life) for life in range(1, 11)]
    names = {
        str(TransientName(owner, (f"{incarnation_of(owner)}-1718000000123-{count}",)))
        for owner in lives
        for count in range(10_000)
    }
    assert len(names) == 100_000
    some = max(names)
    assert str(parse_group_name(some)) == some


# Texts


@pytest.mark.parametrize(
    "text", ["a\x1b[2J", "\x7f", "\x9f", "\u202e", "\u2066", "\u200d", "\ufeff", "\ud800", "\xad"]
)
def test_controls_are_seen(text: str) -> None:
    assert has_controls(text) and not has_controls("plain, café, 日本, 😀, \u0378")


@pytest.mark.parametrize(
    "text",
    ["short", "'", "both \" and '", "x" * 79, "x" * 81, "\ud800" * 10**6, "\U0003fffd" * 79, "\x1b[2J"],
)
def test_a_quoted_text_is_short_and_printable_whatever_it_is(text: str) -> None:
    assert len(quoted(text)) <= 84 and quoted(text).isprintable()
    assert len(text) > 20 or quoted(text) == repr(text)


# Trees


@pytest.mark.spec("C-018")
def test_the_reference_tree_has_31_servers_and_37_links() -> None:
    assert len(T_REF.hosts) == 16 and len(T_REF.domains) == 15
    assert len(T_REF.servers) == 31 and len(T_REF.links()) == 37


@pytest.mark.spec("C-018")
@pytest.mark.parametrize(
    ("server", "neighbours"),
    [
        ("world", ["eu", "us"]),
        ("eu", ["world", "us", "eu.de", "eu.fr"]),
        ("eu.fr", ["eu", "eu.de", "eu.fr.c1", "eu.fr.c2"]),
        ("eu.fr.c1", ["eu.fr", "eu.fr.c2", "eu.fr.c1.h1", "eu.fr.c1.h2"]),
        ("eu.fr.c1.h1", ["eu.fr.c1"]),
    ],
)
def test_neighbours_are_the_parent_the_siblings_and_the_children(server: str, neighbours: list[str]) -> None:
    assert list(T_REF.neighbours(Domain(server))) == neighbours


@pytest.mark.spec("C-018", "C-183")
def test_branches_may_have_different_depths() -> None:
    assert UNEVEN.siblings(Domain("lab")) == ("eu", "us")
    assert UNEVEN.neighbours(Domain("lab")) == ("world", "eu", "us", "lab.h1", "lab.h2")
    assert UNEVEN.clusters == {"lab", "eu.paris", "eu.rome", "us.ca.sf", "us.ca.la", "us.ny.nyc"}


@pytest.mark.spec("C-018")
def test_a_child_dials_its_parent_and_of_two_siblings_the_first() -> None:
    assert dials(Domain("eu.fr"), Domain("eu")) and not dials(Domain("eu"), Domain("eu.fr"))
    assert dials(Domain("eu"), ROOT) and not dials(ROOT, Domain("eu"))
    assert dials(Domain("eu"), Domain("us")) and not dials(Domain("us"), Domain("eu"))
    # By name alone the parent would be the one to dial here.
    assert dials(Domain("zoo"), ROOT) and dials(Domain("a.b"), Domain("a"))


@pytest.mark.spec("C-160")
@pytest.mark.parametrize("domain", [ROOT, Domain("eu"), Domain("eu.fr.paris"), Domain("a.b.c.d.e.f.g.h")])
def test_the_voters_of_a_domain_are_siblings_one_label_below_it(domain: Domain) -> None:
    first, *_, last = voters = [replica_path(domain, rank) for rank in range(1, REPLICAS_MAX + 1)]

    assert all(parse_scope(voter) == voter and parent(voter) == domain for voter in voters)
    assert all(domain_of_replica(voter) == domain for voter in voters)
    assert voters == sorted(voters)
    assert dials(first, last) and not dials(last, first)


def test_the_voters_of_the_world_and_of_a_domain_are_written_so() -> None:
    assert replica_path(ROOT, 1) == "-seat-1"
    assert replica_path(Domain("eu.fr"), 3) == "eu.fr.-seat-3"


@pytest.mark.parametrize(
    "path", ["world", "eu", "eu.seat-1", "eu.-seat-", "eu.-seat-0", "eu.-seat-6", "eu.-seat-01", "1"]
)
def test_what_is_no_voter_has_no_domain(path: str) -> None:
    assert domain_of_replica(Domain(path)) is None


@pytest.mark.parametrize(("domain", "rank"), [("eu", 0), ("eu", 6), ("a.b.c.d.e.f.g.h.host", 1)])
def test_a_domain_has_voters_one_to_five_and_a_host_has_none(domain: str, rank: int) -> None:
    with pytest.raises(BadInput):
        replica_path(Domain(domain), rank)


@pytest.mark.parametrize(
    ("hosts", "why"),
    [
        ([], "without hosts"),
        (["eu.h1", "eu.fr.h1"], "holds both hosts and domains"),
        (["eu.h1", "eu.h1.c1.h2"], "both a host and a domain"),
        (["world"], "among the hosts"),
    ],
)
def test_a_tree_that_cannot_be_is_refused(hosts: list[str], why: str) -> None:
    with pytest.raises(BadInput, match=why) as caught:
        Tree.of(map(Domain, hosts))
    assert caught.value.fix


def test_the_order_in_which_hosts_are_named_does_not_matter() -> None:
    assert Tree.of(reversed(T_REF.hosts)) == T_REF == Tree.of((*T_REF.hosts, *T_REF.hosts))
