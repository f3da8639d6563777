"""Who of a LAN hears multicast, as its server learns it: without sockets and without a clock."""

import pytest

from rostra.names import Domain
from rostra.protocols.channel.reachability import MISSED_MAX, ReachabilityTable
from rostra.transport.multicast import group_address

H1, H2 = Domain("eu.h1"), Domain("eu.h2")
EARLIER_LIFE = 7


def pass_probes(table: ReachabilityTable, count: int, *calling: Domain) -> None:
    for _ in range(count):
        table.next_probe()
        for host in calling:
            table.called(host, 0, by_multicast=False)


def test_a_host_hears_once_it_names_a_probe_and_no_longer_than_it_goes_on_doing_so() -> None:
    table = ReachabilityTable(first=100)
    table.called(H1, 0, by_multicast=False)
    assert not table.hears(H1)
    table.called(H1, table.probe, by_multicast=False)
    assert table.hears(H1) and not table.is_heard(H1)
    pass_probes(table, MISSED_MAX, H1)
    assert table.hears(H1)
    pass_probes(table, 1, H1)
    assert not table.hears(H1)


def test_a_host_is_heard_once_it_calls_by_multicast() -> None:
    table = ReachabilityTable()
    assert table.called(H1, 0, by_multicast=False), "news: it is here"
    assert not table.called(H1, 0, by_multicast=False)
    assert table.called(H1, 0, by_multicast=True), "news: and heard"
    assert table.is_heard(H1) and not table.hears(H1)


@pytest.mark.parametrize("heard", [EARLIER_LIFE, 10**9])
def test_probes_of_an_earlier_server_count_for_nothing(heard: int) -> None:
    table = ReachabilityTable(first=1000)
    table.called(H1, heard, by_multicast=False)
    assert not table.hears(H1)


def test_a_silent_host_is_forgotten_and_the_others_are_not() -> None:
    table = ReachabilityTable()
    for host in (H1, H2):
        table.called(host, table.probe, by_multicast=True)
    pass_probes(table, 2 * MISSED_MAX + 1, H2)
    assert table.hosts == [H2]


def test_a_host_that_has_just_come_has_not_failed_yet() -> None:
    table = ReachabilityTable()
    table.called(H1, 0, by_multicast=False)
    assert not table.was_tried(H1)
    pass_probes(table, MISSED_MAX + 1, H1)
    assert table.was_tried(H1)


def test_a_host_that_calls_no_more_has_left_and_not_failed() -> None:
    table = ReachabilityTable()
    table.called(H1, table.probe, by_multicast=True)
    pass_probes(table, MISSED_MAX + 1)
    assert not table.hears(H1) and not table.was_tried(H1)


def test_where_multicast_is_certain_nobody_is_asked() -> None:
    table = ReachabilityTable(certain=True)
    assert table.hears(H1) and table.is_heard(H1)


def test_clusters_listen_at_addresses_that_stay_at_their_site() -> None:
    addresses = {group_address("acme", Domain(f"eu.c{number}")) for number in range(100)}
    assert len(addresses) > 95 and all(each.startswith("239.255.") for each in addresses)
    assert group_address("acme", Domain("eu")) != group_address("beta", Domain("eu"))
