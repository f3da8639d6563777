"""`rostra sim`: stories as a reader meets them."""

from pathlib import Path

import pytest
from support.cluster import rostra, start

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
