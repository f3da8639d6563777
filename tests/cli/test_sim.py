"""`rostra sim`: stories as a reader meets them."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cluster import rostra, start

from rostra.cli.sim import SHAPES
from rostra.testing.storms import STORMS

STORIES = Path(__file__).parents[1] / "stories"
STORY = STORIES / "a05_a_program_dies.story"


@pytest.mark.parametrize("words", [[], ["tell"]])
def test_a_story_is_told_with_its_steps_and_said_to_be_as_its_file_says(words: list[str]) -> None:
    answer = rostra("sim", *words, str(STORY))
    assert (answer.code, answer.out) == (0, STORY.read_text())
    assert answer.err == f"{STORY}: as its file says\n"


def test_a_story_that_goes_otherwise_is_shown_and_is_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "other.story"
    file.write_text(STORY.read_text().replace("crashed", "left"))
    answer = rostra("sim", str(file), "--check")
    assert (answer.code, answer.out) == (1, "")
    assert "+ 10.016  eu.fr.c1.h2   eu.fr.c1.h1/victim crashed" in answer.err
    assert answer.err.endswith(f"{file}: goes otherwise than its file says, as shown above\n")


@pytest.mark.parametrize("option", ["--seeds", "--jobs"])
def test_no_storms_are_not_storms_that_held(option: str) -> None:
    answer = rostra("sim", "storm", option, "0")
    assert answer.code == 2 and "at least 1" in answer.err


@pytest.mark.parametrize("several", ["--seeds", "--first"])
def test_one_storm_and_several_are_not_asked_for_together(several: str) -> None:
    answer = rostra("sim", "storm", "--seed", "3", several, "4")
    assert (answer.code, answer.out) == (2, "") and "--seed is one storm" in answer.err


def test_a_story_without_a_trace_says_how_to_get_one(tmp_path: Path) -> None:
    file = tmp_path / "new.story"
    file.write_text(STORY.read_text().partition("----")[0])
    assert "--rewrite writes it" in rostra("sim", str(file)).err
    assert rostra("sim", str(file), "--rewrite").err == f"{file}: written\n"
    assert file.read_text() == STORY.read_text()
    assert rostra("sim", str(file)).code == 0


def test_another_seed_is_compared_with_nothing() -> None:
    answer = rostra("sim", str(STORY), "--seed", "7")
    assert (answer.code, answer.err) == (0, f"{STORY}: told with seed 7, and compared with nothing\n")


def test_the_shapes_of_the_help_are_those_of_the_simulator() -> None:
    assert SHAPES == STORMS


def test_the_help_says_that_a_file_alone_is_enough() -> None:
    assert "rostra sim FILE." in " ".join(rostra("sim", "--help").out.split())


def test_wrong_words_are_wrong_use(tmp_path: Path) -> None:
    assert rostra("sim", str(tmp_path / "nope.story")).code == 2
    assert rostra("sim", str(STORY), "--seed", "1", "--rewrite").code == 2
    assert rostra("sim", "storm", "--shape", "round").code == 2


def test_a_reader_that_goes_away_ends_it_without_a_word() -> None:
    with start("sim", *(str(each) for each in sorted(STORIES.glob("a0*.story")))) as sim:
        assert sim.stdout is not None and sim.stderr is not None
        sim.stdout.readline()
        sim.stdout.close()
        assert sim.wait(30) == 141
        assert "Traceback" not in sim.stderr.read()


def test_explore_lists_its_models_and_says_what_is_wrong_with_a_name() -> None:
    listed = rostra("sim", "explore")
    assert listed.code == 0 and "election: " in listed.out and "plant   double-vote: " in listed.out
    assert "--set crashes=1" in rostra("sim", "explore", "--help").out
    wrong = rostra("sim", "explore", "elektion")
    assert (wrong.code, "did you mean election?" in wrong.err) == (2, True)
    assert "sets no bound" in rostra("sim", "explore", "election", "--set", "crashes").err


def test_a_model_is_exhausted_and_its_figures_are_shown() -> None:
    few = [word for bound in ("attempts=1", "crashes=0", "suspicions=0") for word in ("--set", bound)]
    answer = rostra("sim", "explore", "election", *few)
    assert answer.code == 0
    assert re.match(
        r"election: \d+ states, \d+ transitions, \d+ steps deep; .* states/s, .* MB; ", answer.out
    )
    assert "exhausted, no violation within: replicas=3  attempts=1  crashes=0  suspicions=0" in answer.out
    stopped = rostra("sim", "explore", "election", "--states", "500")
    assert stopped.code == 1 and "NOT exhausted, --states: " in stopped.out


def test_a_planted_double_vote_comes_out_as_a_story_that_is_told_again(tmp_path: Path) -> None:
    file = tmp_path / "twice.story"
    answer = rostra("sim", "explore", "election", "--plant", "double-vote", "--story", str(file))
    assert answer.code == 1
    assert "VIOLATED after 14 steps, and not in fewer: two replicas lead in term 1" in answer.out
    told = rostra("sim", str(file))
    assert (told.code, told.out) == (0, file.read_text())
    assert told.out.endswith("VIOLATED: two replicas lead in term 1\n")

    file.write_text(file.read_text().replace("  plant=double-vote", ""))
    assert rostra("sim", str(file)).code == 1, "without the bug it goes otherwise"
    assert "keeps no journal" in rostra("sim", str(file), "--seed", "1").err


def test_an_action_that_is_not_possible_is_answered_with_those_that_are(tmp_path: Path) -> None:
    file = tmp_path / "model.story"
    file.write_text("model election replicas=2 crashes=0\ndeliver a b\n")
    answer = rostra("sim", str(file))
    assert (
        answer.code == 2 and "cannot happen here" in answer.err and "what can: up a b; up b a" in answer.err
    )


def test_ctrl_c_ends_an_exploration_with_what_it_has_seen() -> None:
    with start("sim", "explore", "election") as exploring:
        assert exploring.stdout is not None and exploring.stderr is not None
        assert exploring.stderr.readline().startswith("exploring election within replicas=3 ")
        exploring.send_signal(signal.SIGINT)
        assert exploring.wait(30) == 130
        assert "NOT exhausted, Ctrl-C: " in exploring.stdout.read()
        assert "Traceback" not in exploring.stderr.read()


def test_ctrl_c_ends_storms_that_several_processes_blow(tmp_path: Path) -> None:
    words = ("sim", "storm", "--seeds", "5000", "--jobs", "2", "--journal", str(tmp_path))
    with start(*words, start_new_session=True) as storms:
        try:
            while not list(tmp_path.iterdir()):  # workers are forked while the first one is at work
                assert storms.poll() is None
            storms.send_signal(signal.SIGINT)
            assert storms.wait(60) == 130
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(storms.pid, signal.SIGKILL)
        assert storms.stdout is not None and storms.stdout.read() == ""
        assert storms.stderr is not None and storms.stderr.read() == ""


INTERRUPTED_WITH_EVERY_LOCK = """
import concurrent.futures._base as pool, signal
from rostra.cli import main
hold = pool._AcquireFutures.__enter__
pool._AcquireFutures.__enter__ = lambda held: (hold(held), signal.raise_signal(signal.SIGINT))
main()
"""


def test_ctrl_c_while_the_locks_of_all_storms_are_held_ends_them_too() -> None:
    words = ("sim", "storm", "--seeds", "300", "--jobs", "2")
    answer = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WITH_EVERY_LOCK, *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "")
