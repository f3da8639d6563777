"""Lists of led sets: a compressed report makes the same list as a whole one, and no bytes break a reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rostra.names import Domain, Group
from rostra.protocols.led.messages import (
    AttachAsked,
    Entries,
    ListEntry,
    ListReport,
    LocalMember,
    changed,
    changes,
    decode_letter,
    encode_letter,
    is_sound,
    newest,
)
from rostra.protocols.links.packets import Data

CHESS = Group("chess", Domain("eu"))
ORIGINS = [Domain(f"eu.h{number}") for number in range(5)]

members = st.dictionaries(
    st.sampled_from([f"p{number}#1" for number in range(6)]), st.sampled_from([b"", b"x"]), max_size=6
).map(lambda named: tuple([LocalMember(name, named[name]) for name in sorted(named)]))
entries = st.dictionaries(
    st.sampled_from(ORIGINS), st.tuples(st.integers(1, 2), st.integers(1, 5), members), max_size=5
).map(lambda by: tuple([ListEntry(origin, *by[origin]) for origin in sorted(by)]))


@pytest.mark.spec("S-044", "S-048")
@given(entries, entries)
def test_a_compressed_report_makes_the_list_that_a_whole_one_is(before: Entries, after: Entries) -> None:
    message = changes(CHESS, before, after)
    assert changed(before, message) == after
    assert is_sound(after)


@given(entries, entries)
def test_changes_of_another_list_make_a_sound_list_or_none(before: Entries, after: Entries) -> None:
    found = changed((), changes(CHESS, before, after))
    assert found is None or is_sound(found)


@pytest.mark.spec("S-026", "S-048", "S-065")
@given(st.lists(entries, max_size=4), members)
def test_the_newest_statement_of_each_origin_counts_and_our_own_is_ours(
    reports: list[Entries], local: tuple[LocalMember, ...]
) -> None:
    own = ListEntry(ORIGINS[0], 1, 1, local)
    found = {entry.origin: entry for entry in newest(tuple(reports), own)}
    assert found[own.origin] == own
    for report in reports:
        for entry in report:
            assert entry.origin == own.origin or found[entry.origin].age >= entry.age


@given(entries)
def test_a_letter_is_read_as_it_was_written(listed: Entries) -> None:
    packet = Data(3, 4, 1, 0, (AttachAsked(CHESS, 7, listed), ListReport(CHESS, listed)))
    assert decode_letter(encode_letter(packet)) == packet


@given(st.binary(max_size=200) | st.binary(max_size=40).map(lambda tail: b"\x96\x02\x01\x01\x01\x00" + tail))
def test_any_bytes_are_a_letter_or_none(octets: bytes) -> None:
    letter = decode_letter(octets)
    assert letter is None or encode_letter(letter)
