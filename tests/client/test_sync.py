"""The same API for threads, against a real agent: blocking, interruptible, and gone when it is closed."""

import inspect
import signal
import subprocess
import sys
import threading
import time

import pytest
from support.lab import WITHIN_S

import rostra
from rostra import Cause, Connected, Joined, Left, Message, View
from rostra.errors import BadInput, DeadlineExceeded, NameInUse, NotAllowed, NotMember, Unreachable


def test_a_program_of_threads_joins_hears_and_leaves(agent: str) -> None:
    with rostra.sync.connect(agent, name="ann") as ann, ann.join("chess", "lab.h1", meta=b"white") as chess:
        assert isinstance(ann.state, Connected) and ann.is_open and ann.world == "test"
        assert (ann.name, ann.host, chess.group.name) == ("ann", "lab.h1", "chess")
        items = chess.changes(timeout_s=WITHIN_S)
        assert isinstance(next(items), View)
        assert [m.endpoint for m in chess.ready(deadline_s=WITHIN_S).members] == [
            ann.endpoint
        ] and chess.is_known
        with rostra.sync.connect(agent, name="bob") as bob:
            with bob.join("chess", "lab.h1") as theirs:
                joined = next(items)
                assert isinstance(joined, Joined) and joined.members[0].endpoint == bob.endpoint
                assert ann.resolve("chess", "lab.h1").from_copy
                assert len(bob.resolve("chess", "lab.h1", fresh=True, deadline_s=WITHIN_S).members) == 2
                theirs.set_online(False)
                with pytest.raises(BadInput):
                    assert theirs.members
            assert next(items) == Left((bob.endpoint,), Cause.LEAVE)
            mail = bob.messages(timeout_s=WITHIN_S)
            ann.send_to(bob.endpoint, b"e4", deadline_s=WITHIN_S)
            assert next(mail) == Message(ann.endpoint, b"e4")
        chess.leave()
        assert list(items) == []
        with pytest.raises(NotMember):
            chess.leave()
        with pytest.raises(NotAllowed):
            chess.send(b"e4")


def test_a_led_group_of_one_host_has_its_agent_for_registrar_and_leader(agent: str) -> None:
    with (
        rostra.sync.connect(agent, name="ann") as ann,
        ann.join("set", "lab.h1", membership="led", meta=b"white") as group,
        rostra.sync.connect(agent, name="eve") as eve,
        eve.watch("set", "lab.h1") as watched,
    ):
        assert [m.endpoint for m in group.ready(deadline_s=WITHIN_S).members] == [ann.endpoint]
        items = group.changes(timeout_s=WITHIN_S)
        assert isinstance(next(items), View)
        with rostra.sync.connect(agent, name="bob") as bob, bob.join("set", "lab.h1", membership="led"):
            joined = next(items)
            assert isinstance(joined, Joined) and joined.members[0].endpoint == bob.endpoint
            found = eve.resolve("set", "lab.h1", fresh=True, deadline_s=WITHIN_S)
            assert [(m.endpoint, m.meta) for m in found.members] == [
                (ann.endpoint, b"white"),
                (bob.endpoint, b""),
            ]
        left = next(items)
        assert isinstance(left, Left) and left.endpoints == (bob.endpoint,)
        assert [m.endpoint for m in watched.ready(deadline_s=WITHIN_S).members] == [ann.endpoint]
        with pytest.raises(NotAllowed):
            group.set_online(False)


def test_a_watch_is_numbered_and_can_be_resumed(agent: str) -> None:
    with rostra.sync.connect(agent) as me, rostra.sync.connect(agent) as other:
        with me.watch("go", "lab.h1") as watch:
            first = next(watch.changes(timeout_s=WITHIN_S))
            assert watch.ready().members == ()
        with other.join("go", "lab.h1"), me.watch("go", "lab.h1", resume=first.token) as watch:
            change = next(watch.changes(timeout_s=WITHIN_S))
            assert isinstance(change, Joined) and change.number == 1
            assert [len(batch) for batch in _first(watch.batches(8, timeout_s=WITHIN_S))] == [1]


def _first(batches: object) -> list[list[object]]:
    return [next(batches)]  # type: ignore[call-overload]


def test_waiting_ends_at_its_timeout_and_loses_nothing(agent: str) -> None:
    with rostra.sync.connect(agent) as me, me.join("quiet", "lab.h1") as quiet:
        items = quiet.changes(timeout_s=0.05)
        assert isinstance(items.next(WITHIN_S), View)
        for _ in range(3):
            with pytest.raises(DeadlineExceeded, match="nothing happened within"):
                next(items)
        with rostra.sync.connect(agent) as other, other.join("quiet", "lab.h1"):
            assert isinstance(items.next(WITHIN_S), Joined)
        assert isinstance(items.next(WITHIN_S), Left)
        with pytest.raises(BadInput):
            next(items.batches(0))


def test_many_threads_share_one_endpoint(agent: str) -> None:
    with rostra.sync.connect(agent) as me:
        counts: list[int] = []

        def work(number: int) -> None:
            with me.open(f"t{number}") as mine, mine.join("shared", "lab.h1") as shared:
                for items in shared.batches(timeout_s=WITHIN_S):
                    counts.append(len(items))
                    if len(shared.members) == 8:
                        break
                barrier.wait(WITHIN_S)

        barrier = threading.Barrier(8)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(counts) >= 8
        assert me.resolve("shared", "lab.h1", fresh=True).members == ()


def test_lives_states_and_administration_have_their_place(agent: str) -> None:
    with rostra.sync.connect(agent) as me:
        other = rostra.sync.connect(agent)
        lives = me.watch_life(other.endpoint)
        assert next(lives).alive
        other.close()
        assert not next(lives).alive
        lives.close()  # type: ignore[attr-defined]
        assert isinstance(next(me.states(timeout_s=WITHIN_S)), Connected)
        me.connected(deadline_s=WITHIN_S)
        assert me.inspect()["node"] == "lab.h1"
        me.register("kept", "lab.h1")
        me.unregister("kept", "lab.h1")
        with rostra.sync.connect_admin(agent) as admin:
            assert admin.path == "lab.h1" and admin.inspect()["world"] == "test"
            admin.register("kept")
            admin.unregister("kept")


def test_what_cannot_be_had_leaves_no_thread_behind(agent: str) -> None:
    before = threading.active_count()
    with pytest.raises(Unreachable, match="no agent at /nowhere/socket"):
        rostra.sync.connect("/nowhere/socket")
    with pytest.raises(Unreachable):
        rostra.sync.connect_admin("/nowhere/socket")
    with rostra.sync.connect(agent, name="taken"), pytest.raises(NameInUse):
        rostra.sync.connect(agent, name="taken")
    me = rostra.sync.connect(agent)
    chess = me.join("chess", "lab.h1")
    me.close()
    me.close()
    chess.close()
    assert threading.active_count() == before
    with pytest.raises((BadInput, Unreachable)):
        me.resolve("chess")


def test_closing_in_one_thread_ends_the_wait_of_another(agent: str) -> None:
    me = rostra.sync.connect(agent)
    items = me.join("chess", "lab.h1").changes()
    next(items)
    ended: list[object] = []
    waiting = threading.Thread(target=lambda: ended.extend(items))
    waiting.start()
    time.sleep(0.1)
    me.close()
    waiting.join(WITHIN_S)
    assert not waiting.is_alive() and ended == []


def test_a_call_from_the_loops_own_thread_is_refused_instead_of_waiting_for_itself(agent: str) -> None:
    refused: list[BaseException] = []
    box: list[rostra.sync.Me] = []

    def on_state(state: rostra.State) -> None:
        if box:
            try:
                box[0].resolve("chess")
            except BadInput as error:
                refused.append(error)

    with rostra.sync.connect(agent, on_state=on_state) as me:
        box.append(me)
        me._portal.read(lambda: on_state(me.state))
        assert len(refused) == 1 and "own thread" in str(refused[0])


OF_THE_CLIENT_ITSELF = {
    *("asks_as", "asks_in", "check_inside", "closed", "end", "ended", "has_given", "hear", "led", "lose"),
    *("lost", "mail", "me", "parted", "reopened", "settled", "spawn", "unlisted"),
}
"""What its modules call of each other."""

NOT_FOR_THREADS = {
    "AgreedConversation": {"join"},  # what it was joined with; so is this:
    "AgreedMembership": {"join"},
    "Conversation": {"meta", "role", "slow"},
    "Me": {"is_closed"},
    "Membership": {"is_online", "meta", "permanent"},
    "Ordered": {"join", "send_soon"},
    "Sequence": {"group", "number"},
}


@pytest.mark.parametrize("name", sorted(set(rostra.sync.__all__) - {"Stream", "connect", "connect_admin"}))
def test_threads_have_what_the_asynchronous_api_has(name: str) -> None:
    there, here = getattr(rostra.client, name), getattr(rostra.sync, name)

    assert public(there) - public(here) - OF_THE_CLIENT_ITSELF == NOT_FOR_THREADS.get(name, set())


@pytest.mark.parametrize("call", ["join", "lead", "lock", "replicate", "resolve", "shares", "watch"])
def test_calls_of_threads_take_the_same_arguments(call: str) -> None:
    there, here = (inspect.signature(getattr(me, call)).parameters for me in (rostra.Me, rostra.sync.Me))
    wanted = [(each.name, each.kind, each.default) for each in there.values()][1:]

    assert [each for each in wanted if each not in [(p.name, p.kind, p.default) for p in here.values()]] == []


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


PROGRAM = """
import sys, rostra
with rostra.sync.connect(sys.argv[1], name="busy") as me, me.join("work", "lab.h1") as work:
    for item in work:
        print(type(item).__name__, flush=True)
"""


def test_ctrl_c_ends_a_wait_and_leaves_every_group(agent: str) -> None:
    with (
        rostra.sync.connect(agent) as me,
        me.watch("work", "lab.h1") as watch,
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, agent],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program,
    ):
        changes = watch.changes(timeout_s=WITHIN_S)
        next(changes)
        assert isinstance(next(changes), Joined)
        assert program.stdout is not None and program.stdout.readline() == "View\n"
        program.send_signal(signal.SIGINT)
        _, error = program.communicate(timeout=WITHIN_S)
        left = next(changes)
        assert isinstance(left, Left) and left.cause is Cause.LEAVE
        assert program.returncode != 0 and error.strip().endswith("KeyboardInterrupt")
