"""Worlds for the tests of programs that use Rostra: virtual time, cuts, crashes, pauses, all from a seed.

    def test_a_list_that_survives_a_cut(rostra_world: rostra.testing.Worlds):
        world = rostra_world({"eu.paris": 1, "us.boston": 1})
        ...
        world.cut("eu | us")
        world.run(for_s=10)

plugin     the fixture `rostra_world`, for pytest
worlds     what that fixture is
world      a world, and what can go wrong in it
loop       an event loop on pretended time
agents     the real agents of the simulated hosts
pipes      connections to them
trace      what happened, line by line

See `docs/testing.md`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rostra.testing.loop import DidNotFinish
    from rostra.testing.world import World
    from rostra.testing.worlds import Worlds

__all__ = ["DidNotFinish", "World", "Worlds"]


def __getattr__(name: str) -> Any:
    """Imported when asked for: the plugin in here is loaded by every run of pytest, the rest seldom."""
    if name not in __all__:
        raise AttributeError(f"module 'rostra.testing' has no attribute {name!r}")
    from rostra.testing import loop, world, worlds

    return {"DidNotFinish": loop.DidNotFinish, "World": world.World, "Worlds": worlds.Worlds}[name]
