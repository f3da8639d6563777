"""Permanent groups: one owner per scope, numbered changes, copies that only move forward."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rostra.names import Domain, Group
from rostra.protocols.relaxed.registry import Registry, RegistryRecord

EU, FR = Domain("eu"), Domain("eu.fr")
NEWS, CHESS = Group("news", EU), Group("chess", EU)


@pytest.mark.spec("C-012")
def test_a_registered_group_is_permanent_and_its_record_says_so() -> None:
    registry = Registry()

    assert registry.register(NEWS) == RegistryRecord(EU, 1, ("news",))
    assert registry.register(CHESS) == RegistryRecord(EU, 2, ("chess", "news"))
    assert registry.is_permanent(NEWS)
    assert registry.is_permanent(CHESS)
    assert not registry.is_permanent(Group("golf", EU))


@pytest.mark.spec("C-014")
def test_a_permanent_name_is_permanent_in_its_own_scope_only() -> None:
    registry = Registry()
    registry.register(NEWS)

    assert not registry.is_permanent(Group("news", FR))
    assert registry.register(Group("news", FR)) == RegistryRecord(FR, 1, ("news",))
    registry.unregister(NEWS)
    assert not registry.is_permanent(NEWS)
    assert registry.is_permanent(Group("news", FR))


@pytest.mark.spec("C-012")
def test_registering_twice_or_removing_a_stranger_makes_no_new_version() -> None:
    registry = Registry()

    assert registry.unregister(NEWS) == RegistryRecord(EU, 0, ())
    assert registry.records() == ()
    first = registry.register(NEWS)
    assert registry.register(NEWS) == first
    assert registry.unregister(CHESS) == first


@pytest.mark.spec("C-012")
def test_a_scope_that_became_empty_remembers_its_version() -> None:
    owner, copy = Registry(), Registry()
    owner.register(NEWS)
    gone = owner.unregister(NEWS)
    copy.apply(gone.scope, gone.version, gone.names)

    assert gone == RegistryRecord(EU, 2, ())
    assert not copy.apply(EU, 1, ("news",))
    assert not copy.is_permanent(NEWS)
    assert Registry.of(owner.records()).register(NEWS).version == 3


@pytest.mark.spec("C-012")
def test_records_survive_a_restart_in_any_order() -> None:
    registry = Registry()
    registry.register(Group("news", FR))
    old = registry.register(NEWS)
    registry.register(CHESS)

    again = Registry.of([*reversed(registry.records()), old])

    assert (
        again.records()
        == registry.records()
        == (RegistryRecord(EU, 2, ("chess", "news")), RegistryRecord(FR, 1, ("news",)))
    )


changes = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["a", "b", "c"]), st.sampled_from([EU, FR])), max_size=20
)


@pytest.mark.spec("C-012")
@given(changes, st.randoms(use_true_random=False))
def test_a_copy_told_in_any_order_ends_where_the_owner_is(script, shuffle) -> None:  # type: ignore[no-untyped-def]
    owner, copy, told = Registry(), Registry(), []
    for add, name, scope in script:
        told.append((owner.register if add else owner.unregister)(Group(name, scope)))
    shuffle.shuffle(told)

    for record in told:
        newer = record.version > max(
            (r.version for r in copy.records() if r.scope == record.scope), default=-1
        )
        assert copy.apply(record.scope, record.version, record.names) == newer

    assert [r for r in copy.records() if r.version] == list(owner.records())


@pytest.mark.spec("C-161")
def test_a_new_leader_renews_its_list_above_all_that_an_older_one_promised() -> None:
    registry = Registry()
    registry.register(NEWS)

    assert registry.renew(EU, 7 << 10) == RegistryRecord(EU, 7 << 10, ("news",))
    assert registry.register(CHESS) == RegistryRecord(EU, (7 << 10) + 1, ("chess", "news"))
    assert registry.renew(EU, 7 << 10) == registry.record(EU) == registry.records()[0], "high enough"


@pytest.mark.spec("C-161")
def test_a_leader_without_a_list_begins_its_first_one_above_the_floor() -> None:
    registry = Registry()

    assert registry.renew(EU, 7 << 10) is None
    assert registry.record(EU) is None and registry.records() == ()
    assert registry.register(NEWS) == RegistryRecord(EU, (7 << 10) + 1, ("news",))
    assert registry.register(Group("news", FR)).version == 1, "the floor is of one scope"


@pytest.mark.spec("C-160")
def test_a_replica_puts_its_leaders_list_in_the_place_of_its_own_though_its_own_is_newer() -> None:
    registry = Registry()
    registry.register(NEWS)
    registry.register(CHESS)

    assert registry.put(RegistryRecord(EU, 1, ("golf",)))
    assert registry.records() == (RegistryRecord(EU, 1, ("golf",)),)
    assert registry.is_permanent(Group("golf", EU)) and not registry.is_permanent(NEWS)
    assert not registry.put(RegistryRecord(EU, 1, ("golf",))), "the same list is nothing new"
