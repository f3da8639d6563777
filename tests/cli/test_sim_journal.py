"""`rostra sim` leaves journals where it is told to, and replays what was recorded."""

from pathlib import Path

import pytest
from support.cluster import rostra

from rostra.journal.segments import read
from rostra.sim import World
from rostra.sim.journal import SimJournal

STORY = Path(__file__).parents[1] / "stories" / "a05_a_program_dies.story"


def test_one_storm_leaves_its_journal_in_the_directory_and_several_in_folders(tmp_path) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    assert rostra("sim", "storm", "--seed", "3", "--shape", "single", "--journal", str(one)).code == 0
    options = ("--seeds", "2", "--shape", "single", "--journal", str(several))
    assert rostra("sim", "storm", *options).code == 0
    assert set(read(one)["world"].to_pylist()) == {"storm-single-3"}
    assert [path.name for path in sorted(several.iterdir())] == ["storm-single-0", "storm-single-1"]
    assert read(several / "storm-single-1").num_rows > 50


def test_a_story_leaves_its_journal_and_is_told_as_before(tmp_path) -> None:
    told = rostra("sim", str(STORY), "--journal", str(tmp_path / "story"))
    assert told.code == 0 and "as its file says" in told.err
    assert "closed" in set(read(tmp_path / "story")["kind"].to_pylist())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> str:
    directory = tmp_path_factory.mktemp("recorded")
    world = World(1, domains={"eu": 2}, journal=SimJournal(directory, record=True))
    world.settle().pause("eu.h2").run(7).resume("eu.h2").settle()
    world.close()
    return str(directory)


def test_a_replay_says_that_it_is_the_same(recorded) -> None:
    answer = rostra("sim", "replay", recorded)
    assert answer.code == 0
    assert len(answer.lines) == 4 and all("same effects, byte for byte" in line for line in answer.lines)
    assert "4 of 4 replays gave the same effects" in answer.err
    assert [each["same"] for each in rostra("sim", "replay", recorded, "-o", "jsonl").jsonl] == [True] * 4


def test_a_replay_with_another_setting_says_what_would_have_been_different(recorded) -> None:
    words = ("sim", "replay", recorded, "--node", "eu", "--set", "detect.down_after_s=20")
    answer = rostra(*words)
    assert answer.code == 0
    assert any(line.startswith("  would not have given up eu.h2 (silent) at ") for line in answer.lines)
    assert "stays as recorded" in answer.err
    changed = rostra(*words, "-o", "json").json
    assert changed["changed"] == {"detect.down_after_s": "20"}
    assert {each["about"] for each in changed["different"]} == {"eu.h2"}


@pytest.mark.parametrize(
    ("words", "what", "fix"),
    [
        (("--node", "eu.h9"), "holds no recording of eu.h9", "there are those of "),
        (("--set", "detect.down_after"), "sets nothing", "--set detect.down_after_s=9"),
        (("--set", "detect.down_aftr_s=9"), "no setting of a node", "did you mean detect.down_after_s?"),
        (("--set", "detect.down_after_s=soon"), "that is no number", "--set detect.down_after_s=2.5"),
        (("--set", "detect.down_after_s=0.1"), "longer than a heartbeat interval", ""),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_a_fix(words, what, fix, recorded) -> None:
    answer = rostra("sim", "replay", recorded, *words)
    assert answer.code == 2
    assert what in answer.err and fix in answer.err
