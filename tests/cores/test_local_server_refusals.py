"""Every refusal of a local server: its code, what to try, and that nothing has happened (C-043, C-053)."""

from typing import Any

import pytest
from support.agents import CHESS, EU, GOLF, HOME, HOST, US, Agent

from rostra.core.effects import Answer, Secure
from rostra.core.records import KeyedRecord
from rostra.errors import BY_CODE
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import SyncDone
from rostra.protocols.relaxed.registry import Registry, RegistryRecord, encode_names
from rostra.protocols.relaxed.reports import document_of
from rostra.protocols.relaxed.requests import (
    Denied,
    Done,
    Inspect,
    Join,
    Leave,
    Open,
    Register,
    Resolve,
    SendTo,
    SetOnline,
    Unregister,
    Unwatch,
    UnwatchLife,
    Watch,
    WatchLife,
)

NEWS = Group("news", EU)
ABROAD = Group("chess", US)
STRANGER = Endpoint(f"{HOST}/stranger#1")


def refusal(agent: Agent, me: Endpoint, request: Any) -> Denied:
    """Ask what must be refused, and see that the refusal is all that happens."""
    before = document_of(agent.core)
    [answer] = agent.ask(me, request)
    assert isinstance(answer, Answer)
    assert isinstance(answer.result, Denied)
    assert document_of(agent.core) == before
    error = BY_CODE[answer.result.code]
    assert answer.result.retriable == error.retriable
    assert answer.result.what
    return answer.result


def some_agent() -> tuple[Agent, Endpoint]:
    agent = Agent(registry=Registry.of([RegistryRecord(EU, 1, ("news",))]))
    return agent, agent.member("me").endpoint


BAD_GROUPS = [
    Group("", EU),
    Group("x" * 256, EU),
    Group("two\nlines", EU),
    Group("\ud800", EU),
    Group("e\u0301", EU),
    Group("chess", Domain("")),
    Group("chess", Domain("EU")),
    Group("chess", Domain("eu..fr")),
    Group("chess", Domain(".".join("abcdefghij"))),
    Group("chess", Domain(".")),
]


@pytest.mark.spec("C-053", "C-043", "C-001", "C-006")
@pytest.mark.parametrize("group", BAD_GROUPS, ids=range(len(BAD_GROUPS)))
@pytest.mark.parametrize(
    "ask",
    [
        Join,
        Leave,
        Watch,
        Unwatch,
        Register,
        Unregister,
        lambda group: SetOnline(group, True),
        lambda group: Resolve(group.name, group.scope),
    ],
    ids=["join", "leave", "watch", "unwatch", "register", "unregister", "set online", "resolve"],
)
def test_a_group_that_cannot_be_is_a_bad_argument(ask: Any, group: Group) -> None:
    agent, me = some_agent()

    assert refusal(agent, me, ask(group)).code == "BAD_ARGUMENT"


@pytest.mark.spec("C-053", "C-037")
def test_a_bad_name_without_a_scope_is_a_bad_argument() -> None:
    agent, me = some_agent()

    assert refusal(agent, me, Resolve("", None)).code == "BAD_ARGUMENT"


@pytest.mark.spec("C-053")
def test_a_name_that_is_no_endpoint_name_is_a_bad_argument() -> None:
    agent, _ = some_agent()

    for name in ("", "-x", "a/b", "a#1", "x" * 64):
        assert refusal(agent, Endpoint(""), Open(name)).code == "BAD_ARGUMENT"


@pytest.mark.spec("C-053")
@pytest.mark.parametrize(
    "request_", [Join(CHESS), Leave(CHESS), Resolve("chess", EU), Watch(CHESS), SendTo((STRANGER,), b"")]
)
def test_an_endpoint_that_is_not_open_can_ask_nothing(request_: Any) -> None:
    agent, _ = some_agent()

    denied = refusal(agent, STRANGER, request_)

    assert (denied.code, denied.fix) == ("BAD_ARGUMENT", "open it first")


@pytest.mark.spec("C-053")
def test_what_is_no_question_is_a_bad_argument() -> None:
    agent, me = some_agent()

    assert refusal(agent, me, "what?").code == "BAD_ARGUMENT"
    assert refusal(agent, me, SyncDone(None)).code == "BAD_ARGUMENT"  # type: ignore[arg-type]


@pytest.mark.spec("C-053", "C-185")
@pytest.mark.parametrize("deadline_s", [0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_a_deadline_that_cannot_be_is_a_bad_argument(deadline_s: float) -> None:
    agent, me = some_agent()

    assert refusal(agent, me, Resolve("chess", EU, deadline_s)).code == "BAD_ARGUMENT"


@pytest.mark.spec("C-053", "C-008", "C-039", "C-043")
@pytest.mark.parametrize(
    "request_", [Join(ABROAD), Leave(ABROAD), SetOnline(ABROAD, True), Watch(ABROAD), Resolve("chess", US)]
)
def test_a_foreign_scope_is_refused(request_: Any) -> None:
    agent, me = some_agent()

    denied = refusal(agent, me, request_)

    assert denied.code == "NOT_IN_SCOPE"
    assert denied.fix == "use a scope that contains it: eu.fr.c1.h1, eu.fr.c1, eu.fr, eu, world"


@pytest.mark.parametrize(
    ("scope", "meant"),
    [
        ("eu.fr.c11", "perhaps eu.fr.c1 was meant; "),
        ("wrld", "perhaps world was meant; "),
        ("us.ny", ""),
    ],
)
def test_a_misspelt_scope_is_corrected(scope: str, meant: str) -> None:
    agent, me = some_agent()
    denied = refusal(agent, me, Watch(Group("chess", Domain(scope))))
    assert denied.fix == f"{meant}use a scope that contains it: eu.fr.c1.h1, eu.fr.c1, eu.fr, eu, world"


@pytest.mark.spec("C-053", "C-043", "C-012", "C-014")
def test_only_registered_groups_are_permanent() -> None:
    agent, me = some_agent()

    assert refusal(agent, me, Join(GOLF, permanent=True)).code == "NO_SUCH_PERMANENT_GROUP"
    assert refusal(agent, me, Join(Group("news", HOST), permanent=True)).code == "NO_SUCH_PERMANENT_GROUP"


@pytest.mark.spec("C-053", "C-043")
def test_a_permanent_group_is_not_joined_as_spontaneous() -> None:
    agent, me = some_agent()

    assert refusal(agent, me, Join(NEWS)).code == "GROUP_IS_PERMANENT"
    assert agent.ask(me, Join(NEWS, permanent=True))[0] == Answer(agent.token, Done())


@pytest.mark.spec("C-053", "C-043")
def test_a_member_cannot_join_again() -> None:
    agent, me = some_agent()

    assert refusal(agent, me, Join(CHESS)).code == "ALREADY_MEMBER"
    assert refusal(agent, me, Join(CHESS, online=False)).code == "ALREADY_MEMBER"


@pytest.mark.spec("C-053", "C-049", "C-051")
def test_a_stranger_can_neither_leave_nor_switch_nor_stop_watching() -> None:
    agent, me = some_agent()
    target = Endpoint("eu.de.c1.h1/x#1")

    for request in (Leave(GOLF), SetOnline(GOLF, True), Unwatch(GOLF), Unwatch(CHESS), UnwatchLife(target)):
        assert refusal(agent, me, request).code == "NOT_MEMBER"


@pytest.mark.spec("C-053", "C-151", "C-155", "C-152")
def test_what_exceeds_a_bound_is_too_large() -> None:
    agent, me = some_agent()
    far = Endpoint("eu.de.c1.h1/x#1")

    for request in (
        Join(GOLF, meta=bytes(257)),
        Leave(CHESS, bytes(257)),
        SendTo((far,), bytes(65_537)),
        SendTo(tuple(Endpoint(f"eu.de.c1.h1/x#{n}") for n in range(1_025)), b""),
    ):
        assert refusal(agent, me, request).code == "TOO_LARGE"
    assert agent.ask(me, Join(GOLF, meta=bytes(256)))[0] == Answer(agent.token, Done())
    assert agent.ask(me, SendTo((far,), bytes(65_536)))[0] == Answer(agent.token, Done())


@pytest.mark.spec("C-053", "C-157")
def test_too_many_endpoints_and_too_many_watched_lives_are_too_large() -> None:
    agent = Agent(config=RelaxedConfig(endpoints_max=1, lives_watched_max=1))
    me = agent.open("me")
    agent.ask(me, WatchLife(Endpoint("eu.de.c1.h1/x#1")))

    assert refusal(agent, Endpoint(""), Open("other")).code == "TOO_LARGE"
    assert refusal(agent, me, WatchLife(Endpoint("eu.de.c1.h1/y#1"))).code == "TOO_LARGE"


@pytest.mark.spec("C-053", "C-004")
def test_a_name_that_is_open_is_in_use_until_it_is_closed() -> None:
    agent, me = some_agent()

    denied = refusal(agent, Endpoint(""), Open("me"))
    agent.kill(me)

    assert (denied.code, denied.retriable) == ("NAME_IN_USE", True)
    assert agent.open("me") != me


@pytest.mark.spec("C-053", "C-012")
def test_an_agent_registers_only_groups_of_its_own_host() -> None:
    agent, me = some_agent()

    denied = refusal(agent, me, Register(GOLF))

    assert (denied.code, denied.fix) == ("NOT_ALLOWED", "ask the domain server of eu")
    assert refusal(agent, me, Unregister(NEWS)).code == "NOT_ALLOWED"


@pytest.mark.spec("C-053", "C-152")
def test_a_message_needs_destinations_that_can_be() -> None:
    agent, me = some_agent()

    assert refusal(agent, me, SendTo((), b"hello")).code == "BAD_ARGUMENT"
    assert refusal(agent, me, SendTo((Endpoint("nowhere"),), b"hello")).code == "BAD_ARGUMENT"
    assert refusal(agent, me, WatchLife(Endpoint("nowhere"))).code == "BAD_ARGUMENT"


@pytest.mark.spec("C-043")
def test_checks_are_made_in_the_order_of_the_paper() -> None:
    agent, me = some_agent()
    outside_and_unregistered = Join(ABROAD, permanent=True)
    agent.core.registry.register(CHESS)

    assert refusal(agent, me, Join(Group("", US), permanent=True)).code == "BAD_ARGUMENT"
    assert refusal(agent, me, Join(ABROAD, meta=bytes(999))).code == "TOO_LARGE"
    assert refusal(agent, me, outside_and_unregistered).code == "NOT_IN_SCOPE"
    assert refusal(agent, me, Join(CHESS)).code == "GROUP_IS_PERMANENT"
    assert refusal(agent, me, Join(CHESS, permanent=True)).code == "ALREADY_MEMBER"


# Permanent groups of one host: its agent keeps their register


@pytest.mark.spec("C-012", "C-013", "C-015")
def test_registering_under_a_live_group_evicts_nobody_and_counts_for_later_joins() -> None:
    agent = Agent()
    me, later = agent.member("me", HOME), agent.open("later")

    registered = agent.ask(Endpoint(""), Register(HOME))
    again = agent.ask(Endpoint(""), Register(HOME))

    assert registered == [
        Secure(KeyedRecord("registry", 1, encode_names(["home"]))),
        Answer(agent.token - 1, Done()),
    ]
    assert again == [Answer(agent.token, Done())]
    assert agent.core.groups[HOME].records() == (me,)
    assert refusal(agent, later, Join(HOME)).code == "GROUP_IS_PERMANENT"
    assert agent.ask(later, Join(HOME, permanent=True))[1] == Answer(agent.token, Done())


@pytest.mark.spec("C-012", "C-013", "C-015", "C-051")
def test_a_permanent_group_outlives_its_members_until_it_is_unregistered() -> None:
    agent = Agent()
    agent.ask(Endpoint(""), Register(HOME))
    me = agent.open("me")
    agent.ask(me, Join(HOME, permanent=True))
    agent.ask(me, Leave(HOME))

    [empty] = agent.ask(me, Resolve("home", HOST))
    assert empty.result.members == ()  # type: ignore[attr-defined]
    assert agent.core.registry.is_permanent(HOME)
    assert agent.ask(Endpoint(""), Unregister(HOME))[0] == Secure(
        KeyedRecord("registry", 2, encode_names([]))
    )
    assert refusal(agent, me, Join(HOME, permanent=True)).code == "NO_SUCH_PERMANENT_GROUP"


def test_an_agent_can_be_asked_what_it_remembers() -> None:
    agent, _ = some_agent()

    [answer] = agent.ask(Endpoint(""), Inspect())

    assert b'"chess@eu":{"interest":"ALL"' in answer.result.document  # type: ignore[attr-defined]
