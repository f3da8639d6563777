"""Garbage collection of sent messages: a message is stable, and may be forgotten, when it is below what every
receiver needs next (X-087..X-091).

    at every delegate    local   receiver of our LAN ──▶ the next number that it needs: its pin
    at home, besides     lans    LAN ──▶ the least next number of its receivers, as its delegate reports it
    at both              debts   receiver or LAN that was lost ──▶ the same, kept a while for it (X-066);
                                 at home, a LAN whose delegate is expected: it was never pinned

A receiver is pinned in the same step that sends it its start (TX-17), and never at or below `stable` (X-089).
A message is stable when it is below every pin, and the home delegate has it: it must be able to give starts
to newcomers. Only the home delegate announces what is stable, from its own list of LANs. Reports are
forwarded unchanged and never aggregated on the way (X-088).
"""

from msgspec import Struct

from rostra.core.effects import Instant
from rostra.names import Domain, Endpoint
from rostra.protocols.flow.messages import Epoch


class Debt(Struct, frozen=True):
    next: int
    until: Instant | None  # None: it is back, and is being served


class Pins:
    __slots__ = ("_at_least", "_least", "debts", "lans", "local", "stable")

    def __init__(self, stable: int) -> None:
        self.local: dict[Endpoint, int] = {}
        self.lans: dict[Domain, tuple[Epoch, int]] = {}
        self.debts: dict[str, Debt] = {}
        self.stable = stable
        self._least: int | None = None  # over `local`; None: to be computed
        self._at_least = 0  # so many receivers are there

    def pin(self, receiver: Endpoint, start: int) -> None:
        self._moved(self.local.get(receiver), None)
        self.local[receiver] = max(start, self.stable + 1)
        self._moved(None, self.local[receiver])
        self._owe(receiver, start)

    def unpin(self, receiver: Endpoint, until: Instant | None = None) -> bool:
        """Remove a receiver's pin. If its host was lost, what it misses is kept as a debt until then."""
        pinned = self.local.pop(receiver, None)
        if pinned is None:
            return False
        self._moved(pinned, None)
        self._part(receiver, pinned, until)
        return True

    def acknowledge(self, receiver: Endpoint, next: int) -> bool:
        before = self.local.get(receiver)
        if before is None:
            return False
        self._pay(receiver, next)
        if next <= before:
            return False
        self.local[receiver] = next
        self._moved(before, next)
        return True

    def _moved(self, before: int | None, after: int | None) -> None:
        """Keep the cached minimum right after a pin has moved, come or gone. It is searched anew only when no
        pin is left at it: once per message in a LAN of a thousand receivers, and not once per
        acknowledgement."""
        if self._least is None:
            return
        if after is not None and after < self._least:
            self._least, self._at_least = after, 1
            return
        self._at_least += (after == self._least) - (before == self._least)
        if self._at_least == 0:
            self._least = None

    def _owe(self, who: str, start: int) -> None:
        """If it is back and lacks numbers that are stable for all others, remember it as a debt."""
        if start <= self.stable:
            self.debts[who] = Debt(start, None)
        else:
            self.debts.pop(who, None)

    def _pay(self, who: str, next: int) -> None:
        debt = self.debts.get(who)
        if debt is not None and next > debt.next:
            if next > self.stable:
                del self.debts[who]
            else:
                self.debts[who] = Debt(next, debt.until)

    def _part(self, who: str, pinned: int, until: Instant | None) -> None:
        debt = self.debts.pop(who, None)
        if until is not None:
            self.debts[who] = Debt(pinned if debt is None else debt.next, until)

    def least(self, own_next: int) -> int:
        """This LAN's entry: the least next number over its receivers (X-088)."""
        if self._least is None and self.local:
            self._least = min(self.local.values())
            self._at_least = sum(next == self._least for next in self.local.values())
        return own_next if self._least is None else min(self._least, own_next)

    def pin_lan(self, lan: Domain, epoch: Epoch, start: int) -> None:
        self.lans[lan] = (epoch, max(start, self.stable + 1))
        self._owe(lan, start)

    def expect_lan(self, lan: Domain, start: int, until: Instant) -> None:
        """It will be owed everything from here on, if it asks in time; until then it does not delay
        stability."""
        self.debts.setdefault(lan, Debt(start, until))

    def owed_to(self, lan: Domain) -> int | None:
        """The next number of a LAN that is pinned, stable for the others or not."""
        debt, pinned = self.debts.get(lan), self.lans.get(lan)
        return None if pinned is None else pinned[1] if debt is None else debt.next

    def unpin_lan(self, lan: Domain, until: Instant | None) -> bool:
        pinned = self.lans.pop(lan, None)
        if pinned is None:
            return False
        self._part(lan, pinned[1], until)
        return True

    def acknowledge_lan(self, lan: Domain, epoch: Epoch, next: int) -> bool:
        before = self.lans.get(lan)
        if before is None or before[0] != epoch:
            return False
        self._pay(lan, next)
        if next <= before[1]:
            return False
        self.lans[lan] = (epoch, next)
        return True

    def settle(self, own_next: int) -> bool:
        """At home: has something become stable?"""
        stable = self.least(own_next) - 1
        for _, next in self.lans.values():
            if next <= stable:
                stable = next - 1
        if stable <= self.stable:
            return False
        self.stable = stable
        return True

    def lift(self, stable: int) -> None:
        """Everything up to here was stable before this delegate was active: no receiver is owed it, whatever
        was reported."""
        if stable > self.stable:
            self.stable = stable
            self.local = {who: max(next, stable + 1) for who, next in self.local.items()}
            self._least = None
            self.lans = {lan: (epoch, max(next, stable + 1)) for lan, (epoch, next) in self.lans.items()}

    def keep_from(self, now: Instant, share: int) -> int:
        """The lowest number to keep: the first that is not stable, or owed to a LAN that may come back."""
        lowest = self.stable + 1
        for who in list(self.debts):
            debt = self.debts[who]
            if debt.until is not None and (debt.until <= now or debt.next < self.stable + 1 - share):
                del self.debts[who]
            elif debt.next < lowest:
                lowest = debt.next
        return lowest

    @property
    def serves_debts(self) -> bool:
        """Is a receiver or LAN back that lacks numbers that are stable for all others?"""
        return any(debt.until is None for debt in self.debts.values())
