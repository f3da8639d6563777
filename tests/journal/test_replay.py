"""What was recorded can be done again: the same inputs give the same effects, and a planted one does not."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from rostra.core.effects import Asked, Event, SetTimer, Ticked, TimerFired
from rostra.core.observer import TURN_ENDED, NodeBegan
from rostra.errors import BadInput
from rostra.journal.segments import Place
from rostra.journal.writer import INPUTS, RecordingPart, unpacked
from rostra.names import Domain, Endpoint, Group
from rostra.observe.recording import (
    FORMAT,
    Arrived,
    Began,
    Fired,
    Gave,
    Inner,
    Recorder,
    RecordingEnded,
    Started,
    Turn,
    effects_of,
    words,
)
from rostra.protocols.fifo.events import Heard, JoinAsked, LeaveAsked, Paused, Resumed, Submitted
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.events import ChannelOpened
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Open
from rostra.replica import Replica
from rostra.sim import World
from rostra.sim.journal import SimJournal, journal_of
from rostra.sim.replay import changed, recordings, replay, what_if
from rostra.sim.storm import _Storm
from rostra.stacks import FifoPlan, NodePlan, make_node, make_stack

HOST = Domain("eu.h1")
UNBOUNDED = {"wall_us": int, "part_s": 1e9, "bytes_max": 1 << 30, "say": print}


@pytest.fixture(scope="module")
def incident(tmp_path_factory) -> Path:
    """An agent stands still for three seconds, is given up, and comes back."""
    directory = tmp_path_factory.mktemp("incident")
    journal = SimJournal(directory, record=True)
    world = World(1, domains={"eu": 2, "us": 1}, journal=journal)
    ann, bob = world.program("eu.h1", "ann"), world.program("eu.h2", "bob")
    for program in (ann, bob):
        program.join("chess@world")
    world.settle().pause("eu.h2").run(7).resume("eu.h2").settle()
    assert len(ann.members("chess@world")) == 2
    world.close()
    return directory


@pytest.mark.parametrize("seed", range(2))
def test_every_node_of_a_storm_replays_byte_for_byte(seed, tmp_path) -> None:
    journal = SimJournal(tmp_path, world="storm", record=True)
    storm = _Storm(seed, "uneven" if seed % 2 else "T-REF", journal)
    storm.blow_over()
    storm.world.close()
    replayed = [replay(recording) for recording in recordings(tmp_path)]
    assert len(replayed) >= len(storm.world.tree.servers)
    assert [each.difference for each in replayed] == [None] * len(replayed)
    assert sum(each.inputs for each in replayed) > 1_000


def test_a_recording_that_says_something_else_is_found_out(incident, tmp_path) -> None:
    (recording,) = recordings(incident, of="eu")
    (part,) = recording.parts
    kept = list(words(unpacked(part.read_bytes())))
    place = max(n for n, word in enumerate(kept) if isinstance(word, Gave) and word.effects)
    kept[place] = effects_of([SetTimer(("wrong",), 1.0)])
    rewrite(tmp_path, part.name, kept)

    (tampered,) = recordings(tmp_path)
    difference = replay(tampered).difference

    assert difference is not None and difference.at > 0
    assert difference.recorded == ('SetTimer {"timer":["wrong"],"after_s":1.0}',)
    assert difference.replayed and difference.replayed != difference.recorded


@pytest.mark.parametrize("what", ["an input is missing", "an effect is missing"])
def test_what_is_missing_is_missed(what, incident, tmp_path) -> None:
    (recording,) = recordings(incident, of="eu.h1")
    (part,) = recording.parts
    kept = list(words(unpacked(part.read_bytes())))
    kind = Arrived if what == "an input is missing" else Gave
    del kept[next(n for n, word in enumerate(kept) if isinstance(word, kind))]
    rewrite(tmp_path, part.name, kept)
    assert replay(recordings(tmp_path)[0]).difference is not None


def test_a_longer_limit_would_not_have_given_it_up(incident) -> None:
    (server,) = recordings(incident, of="eu")
    changes = what_if(server, {"detect.down_after_s": "20"})
    told = [change.text for change in changes if change.about == "eu.h2"]
    assert any(text.startswith("would not have given up eu.h2 (silent) at 00:00:") for text in told), told
    assert any(text.startswith("would have trusted eu.h2 again") for text in told), told
    assert not any(change.about == "us" for change in changes)
    assert what_if(server, {"links.down_after_s": "20"}) == changes, "the longer name of the same setting"


def test_a_shorter_limit_would_have_given_it_up_sooner(incident) -> None:
    (server,) = recordings(incident, of="eu")
    (sooner,) = [
        change
        for change in what_if(server, {"detect.down_after_s": "2"})
        if change.about == "eu.h2" and "given up" in change.text
    ]
    assert " and not at " in sooner.text


def test_the_same_setting_changes_nothing(incident) -> None:
    for recording in recordings(incident):
        same = str(recording.began().plan.links.detect.down_after_s)
        assert what_if(recording, {"detect.down_after_s": same}) == []


def test_settings_are_called_by_their_names(incident) -> None:
    began = recordings(incident, of="eu")[0].began()
    assert changed(began, {"resolve.inquiries_max": "3"}).plan.resolve.inquiries_max == 3
    assert changed(began, {"links.window_packets_max": "700"}).plan.links.window_packets_max == 700
    with pytest.raises(BadInput, match="no setting of a node is called") as refused:
        changed(began, {"detect.down_afters": "3"})
    assert refused.value.fix == "did you mean detect.down_after_s?"
    with pytest.raises(BadInput, match="no number"):
        changed(began, {"detect.down_after_s": "soon"})
    with pytest.raises(BadInput, match="longer than a heartbeat"):
        changed(began, {"detect.down_after_s": "0.001"})


def test_a_recording_ends_at_its_bound_and_says_so_and_can_be_replayed(tmp_path) -> None:
    said: list[str] = []
    parts: list[bytes] = []
    recorder = Recorder(
        a_beginning(),
        lambda n, part: parts.append(part),
        wall_us=int,
        part_s=1,
        bytes_max=100,
        say=said.append,
    )
    for n in range(50):
        recorder.saw(float(n), HOST, TimerFired(("tick",)), [SetTimer(("tick",), 0.25)])
        recorder.written(0, 10)  # the disk says that it holds ten bytes more
    recorder.hand_over()
    assert said == ["it has reached its bound of 0 MB"]
    found = [word for part in parts for word in words(part)]
    assert isinstance(found[0], Began) and isinstance(found[-1], RecordingEnded)
    fired, turns = (sum(isinstance(word, kind) for word in found) for kind in (Fired, Turn))
    assert fired == turns == 11


def test_what_cannot_be_recorded_ends_the_recording_and_not_the_node(tmp_path) -> None:
    said: list[str] = []
    recorder = Recorder(
        a_beginning(), lambda n, part: None, wall_us=int, part_s=1, bytes_max=100, say=said.append
    )
    recorder.saw(0.0, HOST, Ticked(0.1), ())
    recorder.saw(0.0, HOST, Ticked(0.1), ())
    assert said == ["Ticked cannot be recorded"]


def test_a_directory_without_recordings_says_how_to_make_one(tmp_path) -> None:
    with pytest.raises(BadInput, match="holds no recording") as refused:
        recordings(tmp_path)
    assert "--record" in refused.value.fix


def test_a_recording_with_a_missing_part_is_refused(incident, tmp_path) -> None:
    (recording,) = recordings(incident, of="eu")
    (tmp_path / INPUTS).mkdir()
    (tmp_path / INPUTS / recording.parts[0].name.replace("-000000", "-000001")).touch()
    with pytest.raises(BadInput, match="are missing"):
        recordings(tmp_path)


def a_beginning() -> Began:
    host, links, resolve = Domain("eu.h1"), LinkConfig.wan(), RelaxedConfig.wan()
    return Began(FORMAT, NodePlan("w", host, True, False, 1, links, resolve))


def rewrite(directory: Path, name: str, kept) -> None:
    """A recording of these words."""
    parts: list[bytes] = []
    recorder = Recorder(kept[0], lambda n, part: parts.append(part), **UNBOUNDED)
    for word in kept[1:]:
        recorder._write(word)
    recorder.hand_over()
    (whole,) = parts
    RecordingPart(name, whole, lambda waited, size: None).write(Place(directory))


def test_groups_with_messages_are_recorded_too(tmp_path) -> None:
    """An agent with a member that speaks, and its cluster's server: given by hand, recorded, given again."""
    group = Group("chess", Domain("eu"))
    plan = replace(a_beginning().plan, fifo=FifoPlan(FifoConfig()))
    agent = Began(FORMAT, plan)
    server = Began(FORMAT, replace(plan, path=Domain("eu"), is_agent=False, cluster=True))
    ann = Endpoint("eu.h1/ann#1")
    given = {
        agent: [
            Asked(Endpoint(""), 1, Open("ann")),
            JoinAsked(ann, 2, group, luck=77),
            TimerFired(("tick",)),
            Paused(ann, group),
            Resumed(ann, group),
            Submitted(ann, group, 1, b"\x00\x00\x00\x02hi"),
            Heard(group, Domain("eu.h2"), ()),
            LeaveAsked(ann, 3, group),
        ],
        server: [ChannelOpened(Domain("eu.h1")), Heard(group, Domain("eu.h1"), ())],
    }
    for began, events in given.items():
        record(tmp_path, began, events)
    assert [(each.path, each.inputs, each.difference) for each in map(replay, recordings(tmp_path))] == [
        ("eu", 2 * len(given[server]) + 1, None),
        ("eu.h1", 2 * len(given[agent]) + 1, None),
    ]


def record(directory: Path, began: Began, events: list[Event]) -> None:
    """Give a node these, one in each turn, and keep a recording of it."""
    parts: list[bytes] = []
    recorder = Recorder(began, lambda n, part: parts.append(part), **UNBOUNDED)
    node = make_node(began.plan, make_stack(began.plan, Registry()))
    recorder.saw(1.0, node.path, NodeBegan(), node.start(1.0))
    for n, event in enumerate(events, 2):
        recorder.saw(float(n), node.path, event, node.step(float(n), event))
        recorder.saw(float(n), node.path, TURN_ENDED, node.flush(float(n)))
    recorder.hand_over()
    RecordingPart(f"{began.plan.path}-1-000000.inputs", b"".join(parts), lambda waited, size: None).write(
        Place(directory)
    )


def with_replicas(directory: Path, seed: int) -> World:
    """A world whose server changes three times: its replica dies, stands still, and is cut off."""
    world = World(
        seed,
        domains={"huji": 2, "mit": 1},
        replicas={"huji": 3},
        timers=LinkConfig.lan().over_datagrams(),
        fifo=True,
        journal=SimJournal(directory, record=True),
    )
    world.run(3.0)
    ann, bob, eve = (world.program(host) for host in world.tree.hosts)
    for program in (ann, bob, eve):
        program.join("g")
        program.join_fifo("news")
        program.stream("news", 0.1)
    world.run(2.0)
    first = world.replicas.leaders[Domain("huji")]
    world.crash("huji").run(3.0)
    world.register(Group("kept", Domain("huji")))
    world.restart(first).run(2.0)
    world.pause("huji").run(4.0)
    world.resume(next(path for path, process in world.processes.items() if process.paused)).run(3.0)
    third = world.replicas.leaders[Domain("huji")]
    for voter in world.replicas.of[Domain("huji")]:
        if voter != third:
            world.cut(f"link {third} | {voter}")
    world.run(4.0)
    world.heal().run(4.0)
    world.close()
    return world


@pytest.mark.parametrize("seed", range(3))
def test_replicas_replay_byte_for_byte_through_every_change_of_their_leader(seed, tmp_path) -> None:
    world = with_replicas(tmp_path, seed)
    replayed = {(each.path, each.epoch): each for each in map(replay, recordings(tmp_path))}
    assert [each for each in replayed.values() if each.difference] == []
    voters = [path for path, _ in replayed if path in world.replicas.of[Domain("huji")]]
    assert len(voters) == 4, "three replicas, one of them in two lives"
    assert not any(path == "huji" for path, _ in replayed), "what a leader was given is with the replica"
    words = [word for each in recordings(tmp_path) for word in each.words()]
    assert sum(isinstance(word, Started) for word in words) > len(replayed), "servers began to lead"
    assert any(isinstance(word, Inner) for word in words)


@pytest.mark.parametrize("what", ["_tell_around", "_share_images", "_learn"])
def test_a_replica_that_does_something_else_is_found_out(what, tmp_path, monkeypatch) -> None:
    with_replicas(tmp_path, 0)
    monkeypatch.setattr(Replica, what, lambda self, *args: None)
    assert [each.path for each in map(replay, recordings(tmp_path)) if each.difference]


def test_servers_with_replicas_keep_journals_and_say_who_led_when(tmp_path) -> None:
    world = with_replicas(tmp_path, 1)
    rows = [row for row in journal_of(world).to_pylist() if row["writer"] == "huji"]
    terms = sorted({row["epoch"] for row in rows})
    assert len(terms) >= 3, "one epoch for each term in which somebody led"
    for term in terms:
        mine = [row for row in rows if row["epoch"] == term]
        assert [row["seq"] for row in mine] == list(range(1, len(mine) + 1))
        assert mine[0]["kind"] == "started"
    truth = [
        row["change"]
        for row in journal_of(world).to_pylist()
        if row["kind"] == "server-changed" and row["peer"] == "huji"
    ]
    assert truth.count("started") == len(terms)
    assert truth[0] == "started" and "crashed" in truth
