"""Names, for every name there is, and for every text that is none."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.names import domains, endpoints, group_names, groups, hosts, incarnations, labels, scopes

from rostra.errors import BadName
from rostra.names import (
    ROOT,
    Domain,
    Endpoint,
    Group,
    Tree,
    child,
    depth,
    dials,
    enclosing,
    endpoint,
    has_controls,
    host_of,
    incarnation_of,
    inside,
    name_of,
    parent,
    parse_domain,
    parse_endpoint,
    parse_endpoint_name,
    parse_group,
    parse_group_name,
    parse_host,
    parse_scope,
    relayed_group_name,
    strictly_inside,
)
from rostra.names import (
    labels as labels_of,
)

PARSERS: list[Callable[[str], object]] = [
    *(parse_domain, parse_host, parse_scope, parse_endpoint_name, parse_endpoint),
    *(parse_group_name, relayed_group_name, parse_group),
]

anything = st.one_of(
    st.text(),
    st.text("abEU019-_./#!~@:\x00\n\u202e\ud800é\u0301 ", max_size=80),
    st.one_of(domains, endpoints, group_names, groups.map(str)).flatmap(
        lambda name: st.builds(
            lambda at, what: name[:at] + what + name[at:], st.integers(0, len(name)), st.text(max_size=2)
        )
    ),
    st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=3), st.integers(100, 2000)),
)


# Round trips


@pytest.mark.spec("C-001")
@given(domains)
def test_a_domain_is_read_as_it_is_printed(domain: Domain) -> None:
    assert parse_domain(str(domain)) == domain
    assert parse_domain(".".join(labels_of(domain)) or ".") == domain


@pytest.mark.spec("C-003")
@given(hosts)
def test_a_host_is_read_as_it_is_printed_and_is_a_scope_of_its_own(host: Domain) -> None:
    assert parse_host(host) == parse_scope(host) == host


@pytest.mark.spec("C-004")
@given(endpoints)
def test_an_endpoint_is_read_as_it_is_printed_and_made_of_its_parts(address: Endpoint) -> None:
    assert parse_endpoint(address) == address
    assert endpoint(host_of(address), name_of(address), incarnation_of(address)) == address
    assert parse_host(host_of(address)) and parse_endpoint_name(name_of(address))


@pytest.mark.spec("S-005", "C-006")
@given(group_names)
def test_a_group_name_is_read_as_it_is_printed(name: str) -> None:
    assert str(parse_group_name(name)) == name
    assert relayed_group_name(name) == parse_group_name(name)


@pytest.mark.spec("C-006")
@given(groups)
def test_a_group_is_read_as_it_is_printed(group: Group) -> None:
    assert parse_group(str(group)) == group


@pytest.mark.spec("C-006")
@given(groups, groups)
def test_two_groups_are_the_same_exactly_if_both_parts_are(one: Group, other: Group) -> None:
    same = one.name.encode() == other.name.encode() and one.scope == other.scope
    assert (one == other) == same == (str(one) == str(other))


# What is no name


@pytest.mark.spec("C-001", "C-004", "S-006")
@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__name__)
@given(text=anything)
@example(text="")
@example(text="\ud800")
@example(text="a" * 100_000)
@example(text="." * 100_000)
@example(text="/" * 100_000)
@example(text="a/b#" + "9" * 100_000)
def test_any_text_is_a_name_or_refused_with_a_short_reason_and_a_remedy(
    parse: Callable[[str], object], text: str
) -> None:
    try:
        name = parse(text)
    except BadName as error:
        assert error.fix and len(str(error)) < 500
        assert str(error).isprintable()
    else:
        again = str(name)
        assert parse(again) == name, "what was read is read again as the same"
        assert str(parse(again)) == again
        assert not has_controls(again) and len(again.encode()) < 1000


@pytest.mark.spec("C-001")
@given(
    st.text(min_size=1).filter(lambda text: not set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-."))
)
def test_a_path_has_only_small_letters_digits_hyphens_and_dots(text: str) -> None:
    with pytest.raises(BadName):
        parse_scope(text)


# Containment, against the obvious second version


@pytest.mark.spec("C-002")
@given(scopes, scopes)
@example(Domain("eu.fr"), Domain("eu.france"))
@example(Domain("eu.fr"), Domain("eu.fr"))
def test_inside_means_that_the_labels_of_one_begin_the_other(domain: Domain, path: Domain) -> None:
    begins = labels_of(path)[: depth(domain)] == labels_of(domain)
    assert inside(domain, path) == begins == (domain in enclosing(path))
    assert strictly_inside(domain, path) == (begins and domain != path)


@pytest.mark.spec("C-002", "C-004")
@given(scopes, endpoints)
def test_an_endpoint_is_inside_what_its_host_is_inside_of(domain: Domain, address: Endpoint) -> None:
    assert inside(domain, address) == inside(domain, host_of(address))


@given(scopes.filter(lambda path: path != ROOT), labels)
def test_the_parent_of_a_child_is_where_one_began(path: Domain, label: str) -> None:
    assert parent(child(path, label)) == path
    assert depth(child(path, label)) == depth(path) + 1
    assert enclosing(path)[0] == path and enclosing(path)[-1] == ROOT
    assert len(enclosing(path)) == depth(path) + 1


@pytest.mark.spec("C-005")
@given(hosts, incarnations, incarnations)
def test_of_two_lives_of_one_name_the_later_has_the_larger_number(host: Domain, one: int, other: int) -> None:
    first, second = endpoint(host, "web-1", one), endpoint(host, "web-1", other)
    assert (incarnation_of(first) < incarnation_of(second)) == (one < other)
    assert (first == second) == (one == other)


# Trees


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    clusters = draw(
        st.sets(st.sampled_from(["x", "y", "z.x", "z.y", "z.z.x", "z.z.y", "w.v.u.t"]), min_size=1)
    )
    return Tree.of(
        Domain(f"{cluster}.h{n}") for cluster in sorted(clusters) for n in range(draw(st.integers(1, 4)))
    )


@pytest.mark.spec("C-018")
@given(trees())
def test_neighbours_are_mutual_and_one_of_two_dials(tree: Tree) -> None:
    for server in tree.servers:
        neighbours = tree.neighbours(server)
        assert len(set(neighbours)) == len(neighbours) and server not in neighbours
        for peer in neighbours:
            assert server in tree.neighbours(peer)
            assert dials(server, peer) != dials(peer, server)
            assert (min(server, peer), max(server, peer)) in tree.links()
    assert 2 * len(tree.links()) == sum(len(tree.neighbours(server)) for server in tree.servers)


@pytest.mark.spec("C-018")
@given(trees())
def test_a_neighbour_is_a_parent_a_sibling_or_a_child_and_hosts_have_one(tree: Tree) -> None:
    for server in tree.servers:
        for peer in tree.neighbours(server):
            related = [peer == parent(server) != server, parent(peer) == server != peer]
            related.append(parent(peer) == parent(server) and ROOT not in (peer, server))
            assert related.count(True) == 1
        if server in tree.hosts:
            assert tree.neighbours(server) == (parent(server),)
