"""The language of stories: what can be said, what cannot, and how the command answers."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rostra.cli import sim
from rostra.cli.sim import app
from rostra.errors import BadStory
from rostra.protocols.relaxed.domain import DomainServer
from rostra.sim.story import Story, tell

TWO = "world haifa: a b  paris: c d\n"
FIFO = "world haifa: a b  paris: c d  fifo\n"

GOOD = """\
# Three meet.
# spec: C-001, C-002
world   haifa: a b   paris: c
join    chess  a b
settle
----
  0.082  a b       chess is {a b}

# A remark between two sections belongs to the second.
join    chess  c
settle
----
  0.042  a b       c joined   chess is {a b c}
  0.084  c         chess is {a b c}
"""


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "three_meet.story"
    path.write_text(GOOD)
    return path


def rostra_sim(*args: object):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_a_story_is_read_and_written_back_as_it_was():
    story = Story.parse(GOOD)
    assert story.spec == ("C-001", "C-002")
    assert [len(section.commands) for section in story.sections] == [3, 2]
    assert story.golden() == GOOD
    assert story.text(tell(story)) == GOOD


def test_a_section_in_which_nobody_is_told_anything_says_so():
    story = Story.parse(TWO + "open a\nsettle\n----\n")
    assert story.text(tell(story)) == TWO + "open a\nsettle\n----\nnothing\n"


@pytest.mark.parametrize(
    ("text", "line", "what", "hint"),
    [
        ("", "", "no commands", "world haifa: a b"),
        ("join chess a\n", ":1:", "no world yet", "begin with one"),
        ("world\n", ":1:", "clusters or of a tree", "world haifa: a b"),
        ("world a b\n", ":1:", "in no cluster", "name the cluster first"),
        ("world tree T-REX\n", ":1:", "no shape is called 'T-REX'", "T-REF"),
        ("world haifa: a  wan=fast\n", ":1:", "'fast' is no time", "80ms"),
        ("world haifa: a  loss=2\n", ":1:", "'2' is no share", "5%"),
        ("world haifa: a  colour=red\n", ":1:", "no option is called 'colour'", "world haifa"),
        ("world haifa: a  profile=moon\n", ":1:", "no profile is called 'moon'", "lan or wan"),
        ("world haifa: a  links=string\n", ":1:", "no network is called 'string'", "steady"),
        ("world haifa: a  seed=x\n", ":1:", "'x' is no seed", "seed=7"),
        ("world haifa: A\n", ":1:", "not a label", "a-z"),
        (TWO + "world haifa: a\n", ":2:", "a world already", "one story, one world"),
        (TWO + "dance a b\n", ":2:", "no such command", "join"),
        (TWO + "join\n", ":2:", "a group is missing", "join GROUP WHO"),
        (TWO + "join chess\n", ":2:", "nobody is named", "join GROUP WHO"),
        (TWO + "join chess e\n", ":2:", "no server is called 'e'", "haifa.a"),
        (TWO + "join chess haifa\n", ":2:", "haifa is not a host", "haifa.a"),
        (TWO + "join chess@rome a\n", ":2:", "no server is called 'rome'", "paris"),
        (TWO + "\n# why\ncut haifa paris\n", ":4:", "names no lines", "A | B"),
        (TWO + "cut link a | c\n", ":2:", "no link", "two neighbours"),
        (TWO + "run fast\n", ":2:", "'fast' is no time", "3s"),
        (TWO + "settle now\n", ":2:", "nothing can be said", "settle"),
        (TWO + "send a c hello\n", ":2:", "who sends what to whom", "WHO > WHO... TEXT"),
        (TWO + "crash\n", ":2:", "no server is named", "crash SERVER"),
        (TWO + "show dreams\n", ":2:", "cannot show dreams", "links"),
        (TWO + 'send a > c "hello\n', ":2:", "No closing quotation", "close the quotes"),
        (TWO + "settle\n----\n----\n", ":4:", "no commands above it", "remove it"),
        ("world tree T-REF\ncrash c1\n", ":2:", "may be", "whole path"),
        (TWO + "crash a\njoin chess a\n", ":3:", "is down", "restart it first"),
        (TWO + "slow a\n", ":2:", "no server is named", "slow SERVER... 50ms"),
        (TWO + "clock a b\n", ":2:", "'b' is no time", "80ms"),
        (TWO + "clock\n", ":2:", "no server is named", "clock SERVER... +5s"),
        (TWO + "join chess a delivery=fifo\n", ":2:", "nobody can speak", "world haifa: a b  fifo"),
        (TWO + "join chess a delivery=slow\n", ":2:", "no delivery is called 'slow'", "none or fifo"),
        (FIFO + "join chess a delivery=fifo role=king\n", ":2:", "'king' is no role", "send receive both"),
        (FIFO + "send chess a hello\n", ":2:", "does not speak in chess", "delivery=fifo"),
        (
            FIFO + "join chess a delivery=fifo\nstream chess a count=x\n",
            ":3:",
            "'x' is no number",
            "count=50",
        ),
    ],
)
def test_a_bad_story_says_where_and_what_to_do(text, line, what, hint):
    with pytest.raises(BadStory) as bad:
        tell(Story.parse(text, "tale"))
    assert bad.value.what.startswith(f"tale{line}"), bad.value
    assert what in bad.value.what and hint in bad.value.fix, bad.value


def test_names_may_be_short_where_they_are_unique():
    (trace,) = tell(Story.parse("world eu.paris: a b  us.ny: b\njoin chess a eu.paris.b\nsettle\n"))
    assert trace == ["  0.162  a eu.paris.b   chess is {a eu.paris.b}"]


def test_the_command_tells_the_story_and_is_content(story):
    done = rostra_sim(story)
    assert done.exit_code == 0
    assert done.stdout == story.read_text()
    assert done.stderr == f"{story}: as its file says\n"


def test_check_prints_nothing(story):
    done = rostra_sim("--check", story)
    assert (done.exit_code, done.stdout) == (0, "")


def test_a_trace_that_differs_is_shown_as_a_difference(story):
    story.write_text(GOOD.replace("chess is {a b}", "chess is {a z}"))
    done = rostra_sim(story)
    assert done.exit_code == 1
    assert "-  0.082  a b       chess is {a z}" in done.stderr
    assert "+  0.082  a b       chess is {a b}" in done.stderr


def test_rewriting_accepts_what_happens_now(story):
    story.write_text(GOOD.replace("chess is {a b}", "chess is {a z}"))
    assert rostra_sim("--rewrite", story).exit_code == 0
    assert story.read_text() == GOOD


def test_a_bad_story_is_refused_with_its_line_and_the_others_are_told(story, tmp_path):
    bad = tmp_path / "bad.story"
    bad.write_text("world haifa: a\ndance a\n")
    done = rostra_sim(bad, story)
    assert done.exit_code == 2
    assert f"{bad}:2: dance: no such command" in done.stderr
    assert "chess is {a b}" in done.stdout


def test_a_file_that_is_not_there_is_a_bad_story(tmp_path):
    done = rostra_sim(tmp_path / "none.story")
    assert done.exit_code == 2 and "cannot be read" in done.stderr


def test_another_seed_is_told_and_not_compared(tmp_path):
    path = tmp_path / "chance.story"
    path.write_text("world haifa: a  paris: b  wan=20ms..60ms\njoin chess a b\nsettle\n----\nnothing\n")
    one, two = rostra_sim("--seed", 1, path), rostra_sim("--seed", 2, path)
    assert one.exit_code == two.exit_code == 0
    assert one.stdout != two.stdout
    assert rostra_sim("--seed", 1, "--rewrite", path).exit_code == 2


def test_storms_are_counted_and_can_be_picked():
    done = rostra_sim("storm", "--seeds", 3, "--shape", "pair")
    assert done.exit_code == 0 and "3 of 3 storms held" in done.stdout
    assert "1 of 1 storms held" in rostra_sim("storm", "--seed", 7, "--shape", "single").stdout
    assert rostra_sim("storm", "--shape", "moebius").exit_code == 2


def test_storms_go_on_where_they_stopped_unless_the_code_changed(monkeypatch, tmp_path):
    storms = ("storm", "--shape", "single", "--held", tmp_path / "held", "--seeds")
    assert rostra_sim(*storms, 1).stdout.endswith("storms per second\n")
    more = rostra_sim(*storms, 2)
    assert "1 storms held before" in more.stderr and more.stdout.startswith("2 of 2 storms held: ")
    assert "storms per second" not in rostra_sim(*storms, 2).stdout, "none was left"
    monkeypatch.setattr(sim, "_fingerprint", lambda: "otherwise")
    monkeypatch.setattr(DomainServer, "_left", lambda *_: None)
    failed = rostra_sim(*storms, 12)
    assert failed.exit_code == 1 and "before" not in failed.stderr
    again = rostra_sim(*storms, 12)
    assert again.exit_code == 1 and failed.stdout.split()[0] in again.stderr, "what failed is repeated"


def test_a_storm_that_fails_is_reported_with_its_replay(monkeypatch):
    monkeypatch.setattr(DomainServer, "_left", lambda *_: None)
    done = rostra_sim("storm", "--seeds", 12, "--shape", "pair")
    assert done.exit_code == 1
    assert "replay it:  rostra sim storm --seed" in done.stderr


def test_the_worked_examples_of_the_page_are_true():
    page = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")
    (tale,) = re.findall(r"```\n(# Two domains.*?)```", page, re.DOTALL)
    assert Story.parse(tale).text(tell(Story.parse(tale))) == tale
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(example, {})


def test_the_page_explains_every_command():
    page = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")
    with pytest.raises(BadStory) as bad:
        tell(Story.parse(TWO + "dance\n"))
    for verb in bad.value.fix.removeprefix("one of: ").split():
        assert re.search(rf"`{verb}\b", page), f"{verb} is not in docs/simulator.md"
