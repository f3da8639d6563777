"""Hosts that the transient sets and the sequences of each user need circuits to.

A host takes a circuit whether it exists or not, and programs may name any. So they count for the user,
however many programs, endpoints, sets and sequences name them, and a user may have as many as are free.
"""

from collections import Counter
from collections.abc import Iterable

from rostra.core.room import SharedRoom
from rostra.errors import TooLarge
from rostra.names import Domain
from rostra.protocols.led.config import HOSTS_MAX


class WantedHosts:
    def __init__(self, here: Domain) -> None:
        self.hosts: Counter[Domain] = Counter()  # by how many users; none that is wanted by none
        self._here = here
        self._uses: dict[str, Counter[Domain]] = {}  # by user: how many sets and sequences name each
        self._room = SharedRoom(HOSTS_MAX)

    def check(self, user: str, hosts: Iterable[Domain]) -> None:
        new = {*hosts} - self._uses.get(user, Counter()).keys() - {self._here}
        if not self._room.has_room(user, len(new)):
            raise TooLarge(
                f"{user or 'this host'} has sets and sequences with {self._room.held[user]} hosts, and may"
                f" not have {len(new)} more: a user may have as many as are free",
                fix="name fewer hosts, delete members or close sequences; or join a led group instead",
            )

    def use(self, user: str, host: Domain, times: int = 1) -> None:
        """One more of its sets or sequences names this host; or one less."""
        if host == self._here or not times:
            return
        uses = self._uses.setdefault(user, Counter())
        was = host in uses
        uses[host] += times
        if not uses[host]:
            del uses[host]
        if not uses:
            del self._uses[user]
        if (change := (host in uses) - was) != 0:
            self._room.take(user, change)
            self.hosts[host] += change
            if not self.hosts[host]:
                del self.hosts[host]
