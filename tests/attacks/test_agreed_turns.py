"""Agreed groups: no host, and no program on it, keeps a server busy for long with a few messages, or with its
death; and what one host says after a restart cannot end a group for the others."""

from collections.abc import Callable, Sequence
from cProfile import Profile

import pytest
from msgspec.structs import replace

from rostra.core.effects import Effect, LinkDown, SetTimer, TimerFired
from rostra.groups.kinds import GroupKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed import core as set_core
from rostra.protocols.agreed import losses
from rostra.protocols.agreed.branch import HostHolds, MemberAsked
from rostra.protocols.agreed.changes import (
    MEMBERS_MAX,
    GroupVerb,
    MemberId,
    Pid,
    ServerId,
    SetMember,
    SetView,
)
from rostra.protocols.agreed.groups import (
    AGREED,
    AgreedGroup,
    AgreedMember,
    AgreedView,
    CarriedGroup,
    are_sound,
)
from rostra.protocols.agreed.observed import ViewAgreed
from rostra.protocols.agreed.server import AGREED_SERVER, LOST
from rostra.protocols.agreed.sight import lost_domains
from rostra.protocols.agreed.state import SetState
from tests.attacks.test_agreed import CHESS, MAJORITY, PARIS, WIDE, Cluster, ignored, member, restored
from tests.wire.behind import no_longer_than

H1 = Domain("eu.fr.h1")
SILENT = LinkDown(H1, Because(PARIS, H1, "silent"))
COMPARED = 20
"""So often may the name of each member be compared with another's in one message."""


class Watched(str):
    """A name that counts how often it is compared: what is looked up by its hash, once or twice."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Watched.compared += 1
        return str.__eq__(self, other)


def crowd() -> tuple[AgreedMember, ...]:
    """All members that a group has room for, but one. The same name is another object in each message."""
    names = [Watched(f"eu.fr.h1/m{number}#1") for number in range(MEMBERS_MAX - 1)]
    return tuple([AgreedMember(MemberId(name, (1, n)), 0) for n, name in enumerate(names, 1)])  # type: ignore[arg-type]


def test_a_message_about_thousands_of_members_costs_work_for_each_and_not_for_each_pair() -> None:
    paris, kind = Cluster("eu.fr.h1", "eu.fr.h2"), AGREED
    paris.join("h2", "bob")

    def asked(verb: GroupVerb) -> MemberAsked:
        return MemberAsked(CHESS, paris.question("h1"), verb, crowd(), kind)

    messages: list[MemberAsked | HostHolds] = [asked(GroupVerb.JOIN), asked(GroupVerb.JOIN)]
    messages += [asked(GroupVerb.BACK), HostHolds(CHESS, paris.question("h1"), crowd()[:1], kind)]
    messages += [asked(GroupVerb.JOIN), asked(GroupVerb.LEAVE)]
    for message in messages:
        Watched.compared = 0
        paris.receive("eu.fr.h1", message)
        assert Watched.compared < COMPARED * MEMBERS_MAX, f"{type(message).__name__}: {Watched.compared}"
    assert len(paris.group().view.members) == 1


GROUPS = 600


def calls_of(step: Callable[[], object]) -> int:
    profile = Profile()
    profile.enable()
    step()
    profile.disable()
    return sum(each.callcount for each in profile.getstats())


@pytest.mark.parametrize("kind", [AGREED, MAJORITY], ids=str)
def test_a_commit_of_one_group_does_not_look_at_all_others(kind: GroupKind) -> None:
    paris = Cluster("eu.fr.h1")
    few = calls_of(lambda: paris.join("h1", "ann", Group("first", PARIS), kind))
    for number in range(GROUPS):
        paris.join("h1", "ann", Group(f"g{number}", PARIS), kind)
    many = calls_of(lambda: paris.join("h1", "ann", Group("last", PARIS), kind))
    assert many < few + 7 * GROUPS, f"{few} calls with no other group, {many} with {GROUPS}"


@pytest.mark.parametrize("kind", [AGREED, MAJORITY], ids=str)
def test_a_host_in_hundreds_of_groups_that_dies_takes_its_server_many_short_turns(kind: GroupKind) -> None:
    paris = Cluster("eu.fr.h1", "eu.fr.h2")
    groups = [Group(f"g{number}", PARIS) for number in range(200)]
    for group in groups:
        paris.join("h1", "ann", group, kind)
        paris.join("h2", "bob", group, kind)
    paris.stack.step(1.0, SILENT)
    paris.now = 10.0
    effects: Sequence[Effect] = paris.stack.step(paris.now, TimerFired(LOST))
    turns = [effects]
    while any(isinstance(each, SetTimer) and each.timer == losses.LOSING for each in effects):
        turns.append(effects := paris.stack.step(paris.now, TimerFired(losses.LOSING)))
    made = [sum(isinstance(each, ViewAgreed) for each in turn) for turn in turns]
    assert sum(made) == len(groups) and max(made) <= losses.GROUPS_AT_ONCE
    for group in groups:
        assert [each.endpoint for each in paris.group(group).view.ids] == [Endpoint("eu.fr.h2/bob#1")]


def test_no_member_of_a_lost_host_stays_because_too_many_changes_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its removal was dropped like a request, which a host repeats. Nobody repeats this."""
    paris = Cluster("eu.fr.h1", "eu.fr.h2")
    server = paris.stack[AGREED_SERVER]
    paris.now = 60.0
    groups = [Group(f"g{number}", WIDE.scope) for number in range(60)]
    for group in groups:
        paris.join("h1", "ann", group)
    paris.now = 120.0
    paris.join("h2", "bob", WIDE)
    part = server.sets[WIDE.scope]
    assert all(part.table.get(group) is not None for group in groups)

    for module in (set_core, losses):
        monkeypatch.setattr(module, "QUEUE_MAX", 20)
    monkeypatch.setattr(part.core, "_start", lambda **how: None)  # another server's change goes first
    paris.stack.step(paris.now, SILENT)
    paris.now += 10.0
    effects = list(paris.stack.step(paris.now, TimerFired(LOST)))
    assert len(part.core.state.queue) <= 20
    monkeypatch.undo()
    for _ in range(10):
        paris.now += 1.0
        if any(isinstance(each, SetTimer) and each.timer == losses.LOSING for each in effects):
            effects = list(paris.stack.step(paris.now, TimerFired(losses.LOSING)))
    assert not any(part.table.groups[group].view.members for group in groups)


def held(paris: Cluster, host: str, view: tuple[AgreedMember, ...], number: int = 3) -> HostHolds:
    own = tuple([each for each in view if each.id.endpoint.startswith(f"eu.fr.{host}/")])
    pid = Pid(ServerId(PARIS, 1), 5)
    return HostHolds(CHESS, paris.question(host), own, AGREED, (number, 0, pid), view)


def test_a_host_says_nothing_of_a_view_that_no_group_has() -> None:
    """A member twice, out of order, or from outside of the scope: it was given to programs as it was said."""
    paris = Cluster("eu.fr.h1", "eu.fr.h2")
    ann, bob = AgreedMember(member("h1"), 1), AgreedMember(member("h2"), 2)
    far = AgreedMember(MemberId(Endpoint("us.ny.h1/far#1"), (1, 1)), 3)
    for view in ((ann, bob, replace(ann, joined=3)), (bob, ann), (ann, bob, far), (ann, bob, bob)):
        effects = paris.receive("eu.fr.h1", held(paris, "h1", view))
        assert ignored(effects) == ["a view that no group comes to"]
    assert paris.group() is None


def test_a_host_that_lies_about_numbers_does_not_keep_others_from_what_they_hold_after_the_next_restart() -> (
    None
):
    ids = [member("h1"), member("h2"), member("h3")]
    true = tuple([AgreedMember(each, number) for number, each in enumerate(ids, 1)])
    pid = Pid(ServerId(PARIS, 1), 5)
    lie = (2**61, 0, pid)
    known = restored(("h1", (3, 0, pid), true), ("h2", (3, 0, pid), true), ("h3", lie, (true[2],)))
    again = restored(("h1", known.view.id, known.view.members), ("h2", known.view.id, known.view.members))
    assert again.view.ids[:2] == tuple(ids[:2])


def test_a_server_of_the_set_that_names_a_member_from_elsewhere_stops_no_other() -> None:
    """A merge brought it into the table; looking for the domain above it had no end."""
    server = ServerId(PARIS, 1)
    view = SetView(1, Pid(server, 0), (SetMember(server),))
    far = AgreedMember(MemberId(Endpoint("us.ny.h1/far#1"), (1, 1)), 1)
    here = AgreedView(1, 0, view.pid, (far,))
    with no_longer_than(20):
        assert lost_domains(WIDE.scope, SetState(server, view, 0, view.pid), here, lambda host: None) == ()
    assert not are_sound((CarriedGroup(WIDE, AgreedGroup((here,))),))
