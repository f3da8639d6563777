"""A scene for every seed."""

from collections.abc import Iterator

import pytest
from support.scene import SEEDS, Scene


@pytest.fixture(params=SEEDS)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    scene = Scene(request.param)
    yield scene
    scene.end()
