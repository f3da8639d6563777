"""The faults that can be made in a world of `rostra up`, as the dashboard sees them.

    cut eu | us          every link with one end inside eu and the other inside us, both ways
    cut eu > us          packets from eu do not reach us; the other direction still works
    cut eu               eu from everything outside it
    cut eu | eu.paris    one of the two contains the other: eu.paris from the rest of eu
    cut link eu | us     the link between these two servers only
    heal                 one cut, or all of them
    crash, restart       a process is killed; it is started again
    pause, resume        a process is stopped, and continued

A world in production has no lab: the dashboard shows no buttons, and the API does not have the addresses.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from rostra.names import Domain, inside


class LabCut(Struct, frozen=True):
    """A break in the network, until healed."""

    number: int  # names it in `heal`
    here: Domain
    there: Domain | None  # none: everything outside `here`
    one_way: bool = False  # only what `here` says is lost
    link_only: bool = False  # only the link between the two servers, not what is inside them

    def loses(self, sender: Domain, to: Domain) -> bool:
        """Is what this server says to that neighbour lost?"""
        return self._leads(sender, to) or (not self.one_way and self._leads(to, sender))

    def _leads(self, sender: Domain, to: Domain) -> bool:
        here, there = self.here, self.there
        if there is None:
            return inside(here, sender) and not inside(here, to)
        if self.link_only:
            return (sender, to) == (here, there)
        if inside(here, there):
            return inside(here, sender) and not inside(there, sender) and inside(there, to)
        if inside(there, here):
            return inside(here, sender) and inside(there, to) and not inside(here, to)
        return inside(here, sender) and inside(there, to)

    def __str__(self) -> str:
        if self.there is None:
            return str(self.here)
        words = f"{self.here} {'>' if self.one_way else '|'} {self.there}"
        return f"link {words}" if self.link_only else words


class LabState(Struct, frozen=True):
    """What is broken on purpose at this moment."""

    cuts: tuple[LabCut, ...] = ()
    crashed: tuple[Domain, ...] = ()
    paused: tuple[Domain, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not (self.cuts or self.crashed or self.paused)


class LabClient(Protocol):
    """What the supervisor of a lab must be able to do.

    Each order is carried out when its call returns; what cannot be done is a `BadInput` that says why. After
    every change, also one that was not ordered here, all listeners get the new state.
    """

    @property
    def state(self) -> LabState: ...

    def listen(self, hear: Callable[[LabState], None]) -> None: ...

    async def cut(
        self, here: Domain, there: Domain | None = None, *, one_way: bool = False, link_only: bool = False
    ) -> LabCut: ...

    async def heal(self, number: int | None = None) -> None:
        """Mend this cut, or all of them. Crashed and paused servers stay as they are."""

    async def crash(self, server: Domain) -> None: ...

    async def restart(self, server: Domain) -> None: ...

    async def pause(self, server: Domain) -> None: ...

    async def resume(self, server: Domain) -> None: ...
