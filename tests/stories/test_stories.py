"""Every story is told, and its trace is the one written below its commands (`make goldens` rewrites them)."""

from pathlib import Path

import pytest

from rostra.sim.story import Story, tell

STORIES = sorted(Path(__file__).parent.glob("*.story"))


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=pytest.mark.spec(*Story.read(path).spec)) for path in STORIES],
)
def test_a_story_is_told_as_it_is_written(path, request):
    story = Story.read(path)
    told = story.text(tell(story))
    if request.config.getoption("--rewrite-goldens"):
        path.write_text(told, encoding="utf-8")
    assert told == path.read_text(encoding="utf-8"), f"replay with:  rostra sim {path}"
