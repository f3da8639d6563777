"""What the fixture `rostra_world` is: it builds the world of one test, and clears up behind it."""

from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from rostra.errors import BadInput
from rostra.names import Tree
from rostra.protocols.led.config import LedConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.scopes.config import ScopesConfig
from rostra.sim import WAN, LinkModel
from rostra.testing.loop import PretendLoop
from rostra.testing.world import AT_MOST_S, World

T = TypeVar("T")


class Worlds:
    """Call it to have a world. Everything in it happens on one loop, and so does a test that is a
    coroutine."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = PretendLoop()
        self.world: World | None = None

    def __call__(
        self,
        domains: Mapping[str, int | Iterable[str]] | Tree,
        *,
        links: LinkModel = WAN,
        timers: LinkConfig | None = None,
        config: RelaxedConfig | None = None,
        lan: str = "auto",
        sealed: bool = True,
        replicas: Mapping[str, int] | None = None,
        authorities: Mapping[str, bytes] | None = None,
        led: LedConfig | None = None,
        scopes: ScopesConfig | None = None,
    ) -> World:
        """See `World`."""
        if self.world is not None:
            raise BadInput("this test has a world already", fix="use one world for each test")
        self.world = World(
            domains,
            seed=self.seed,
            links=links,
            timers=timers,
            config=config,
            lan=lan,
            sealed=sealed,
            replicas=replicas,
            authorities=authorities,
            led=led,
            scopes=scopes,
            loop=self.loop,
        )
        return self.world

    @property
    def trace(self) -> tuple[str, ...]:
        return () if self.world is None else self.world.trace

    def run(self, test: Coroutine[Any, Any, T]) -> T:
        """Run a test that is a coroutine."""
        self.loop.ends_at = AT_MOST_S
        result = self.loop.run_until_complete(test)
        if self.world is not None:
            self.world.look_for_failures()
        return result

    def close(self) -> None:
        if self.world is not None:
            self.world.close()
        else:
            self.loop.close()
