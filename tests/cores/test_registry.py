"""Permanent groups: one owner per scope, numbered changes, copies that only move forward."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rostra.core.records import RECORD_BYTES_MAX, KeyedRecord, Records, RecordSet
from rostra.errors import TooLarge
from rostra.names import Domain, Group
from rostra.protocols.relaxed.registry import REGISTRY, Registry, RegistryRecord, encode_names

EU, FR = Domain("eu"), Domain("eu.fr")
NEWS, CHESS = Group("news", EU), Group("chess", EU)


@pytest.mark.spec("C-012")
def test_a_registered_group_is_permanent_and_its_record_says_so() -> None:
    registry = Registry()

    assert registry.register(NEWS) == KeyedRecord(REGISTRY, 1, encode_names(["news"]))
    assert registry.register(CHESS) == KeyedRecord(REGISTRY, 2, encode_names(["chess", "news"]))
    assert registry.records() == (RegistryRecord(EU, 2, ("chess", "news")),)
    assert registry.is_permanent(NEWS)
    assert registry.is_permanent(CHESS)
    assert not registry.is_permanent(Group("golf", EU))


@pytest.mark.spec("C-014")
def test_a_permanent_name_is_permanent_in_its_own_scope_only() -> None:
    registry = Registry()
    registry.register(NEWS)
    assert not registry.is_permanent(Group("news", FR))
    registry.apply(FR, 1, ("news",))
    registry.unregister(NEWS)
    assert not registry.is_permanent(NEWS)
    assert registry.is_permanent(Group("news", FR))


@pytest.mark.spec("C-012")
def test_registering_twice_or_removing_a_stranger_makes_no_new_version() -> None:
    registry = Registry()

    assert registry.unregister(NEWS) is None
    assert registry.records() == ()
    registry.register(NEWS)
    assert registry.register(NEWS) is None
    assert registry.unregister(CHESS) is None
    assert registry.own.version == 1


@pytest.mark.spec("C-012")
def test_a_scope_that_became_empty_remembers_its_version() -> None:
    owner, copy = Registry(), Registry()
    owner.register(NEWS)
    owner.unregister(NEWS)
    gone = owner.record(EU)
    assert gone == RegistryRecord(EU, 2, ())
    copy.apply(gone.scope, gone.version, gone.names)

    assert not copy.apply(EU, 1, ("news",))
    assert not copy.is_permanent(NEWS)
    again = Registry.of([owner.own.all()])
    again.load(EU)
    changed = again.register(NEWS)
    assert changed is not None and changed.version == 3


@pytest.mark.spec("C-012")
def test_records_survive_a_restart_copies_in_any_order_and_our_own_as_they_were_written() -> None:
    registry = Registry()
    written = [registry.register(NEWS), registry.register(CHESS)]
    copies = [RegistryRecord(FR, 2, ("news",)), RegistryRecord(FR, 1, ())]
    registry.apply(FR, 2, ("news",))

    again = Registry.of([*copies, *written])
    again.load(EU)

    assert (
        again.records()
        == registry.records()
        == (RegistryRecord(EU, 2, ("chess", "news")), RegistryRecord(FR, 2, ("news",)))
    )
    assert again.copies(EU) == (RegistryRecord(FR, 2, ("news",)),)


changes = st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "b", "c"])), max_size=20)


@pytest.mark.spec("C-012")
@given(changes, st.randoms(use_true_random=False))
def test_a_copy_told_in_any_order_ends_where_the_owner_is(script, shuffle) -> None:  # type: ignore[no-untyped-def]
    owner, copy, told = Registry(), Registry(), []
    for add, name in script:
        if (owner.register if add else owner.unregister)(Group(name, EU)):
            told.append(owner.record(EU))
    shuffle.shuffle(told)

    for record in told:
        newer = record.version > max((r.version for r in copy.records()), default=-1)
        assert copy.apply(record.scope, record.version, record.names) == newer

    assert copy.records() == owner.records()


@pytest.mark.spec("C-160")
def test_a_replica_that_begins_to_lead_has_the_list_that_its_leader_sent_and_not_its_own() -> None:
    registry = Registry()
    registry.register(NEWS)
    registry.own.replace(RecordSet(9, (KeyedRecord(REGISTRY, 7, encode_names(["golf"])),)))
    registry.load(EU)
    assert registry.records() == (RegistryRecord(EU, 7, ("golf",)),)
    registry.own.replace(RecordSet(10))
    registry.load(EU)
    assert registry.records() == () and not registry.is_permanent(Group("golf", EU))


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\x07", encode_names([""]), encode_names(["no\nname"])])
def test_a_list_that_cannot_be_read_is_no_list(data: bytes) -> None:
    registry = Registry.of([KeyedRecord(REGISTRY, 7, data)])
    registry.load(EU)
    assert registry.records() == ()


def test_a_list_that_no_record_can_hold_is_refused_and_changes_nothing() -> None:
    registry = Registry()
    registry.own.replace(
        RecordSet(1, (KeyedRecord(REGISTRY, 1, encode_names([f"{number:0250}" for number in range(4100)])),))
    )
    registry.load(EU)
    before = registry.own.all()
    with pytest.raises(TooLarge):
        for number in range(5000, 6000):
            registry.register(Group(f"{number:0250}", EU))
            before = registry.own.all()
    assert registry.own.all() == before and registry.record(EU).version == before.version
    assert before.size < RECORD_BYTES_MAX + 200


# What a server keeps by key


def test_one_number_counts_the_changes_of_all_keys() -> None:
    records = Records()
    assert records.put("a", b"1") == KeyedRecord("a", 1, b"1")
    assert records.put("b", b"2") == KeyedRecord("b", 2, b"2")
    assert records.put("a", None) == KeyedRecord("a", 3)
    assert "a" not in records and len(records) == 1
    assert records.all() == RecordSet(3, (KeyedRecord("b", 2, b"2"),))


@pytest.mark.spec("C-161")
def test_a_new_leader_counts_above_all_that_an_older_one_promised() -> None:
    records = Records()
    assert records.renew(7 << 10) is None, "nothing was ever kept"
    assert records.put("a", b"1").version == 7 << 10
    renewed = records.renew(8 << 10)
    assert renewed == KeyedRecord("", 8 << 10) and records.version == 8 << 10
    assert records.put("a", b"2").version == (8 << 10) + 1
    assert [each.key for each in records.all().records] == ["a"]
