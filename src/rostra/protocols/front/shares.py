"""Quotas: what one user of a host may hold at its agent, so that no user's programs take everything (Z-16).

    user          the uid behind a Unix socket, as the kernel says; over TCP, the address it comes from
    programs      connections of programs                          ┐
    endpoints     that they have open                              │ a user may hold as much
    memberships   groups they are in or watch, and lives           │ as is still free
    questions     that they have asked and that are not answered   ┘

This is the dynamic threshold of Choudhury and Hahne, with which switches share their buffers: one greedy user
gets half of what there is, two get a third each, and the next user always finds room. Nothing has to be
divided in advance. The agent's own user and root may use everything that is free.
"""

from typing import Literal

from rostra.errors import TooLarge
from rostra.protocols.front.config import ShareLimits

What = Literal["programs", "endpoints", "memberships", "questions"]


class User:
    """What is held by one user, or by all of them."""

    __slots__ = ("endpoints", "is_bounded", "memberships", "name", "programs", "questions")

    def __init__(self, name: str, *, is_bounded: bool = True) -> None:
        self.name = name
        self.is_bounded = is_bounded
        self.programs = self.endpoints = self.memberships = self.questions = 0


class Shares:
    """`own_uid`: the agent's own user, who may use everything that is free."""

    def __init__(self, limits: ShareLimits, own_uid: int = 0) -> None:
        self.limits = limits
        self._unbounded = (0, own_uid)
        self.all = User("all", is_bounded=False)
        self.users: dict[str, User] = {}

    def user(self, uid: int | None, ip: str) -> User:
        """The user behind a connection: a uid of this machine, or the address that it comes from."""
        name = f"uid {uid}" if uid is not None else f"address {ip}"
        known = self.users.get(name)
        if known is None:
            known = self.users[name] = User(name, is_bounded=uid not in self._unbounded)
        return known

    def refusal(self, user: User, what: What, free: int | None = None) -> TooLarge | None:
        """Why this user may not hold one more; None if it may. `free`: what is left, if that is less than the
        limit allows."""
        limit: int = getattr(self.limits, f"{what}_max")
        left = limit - getattr(self.all, what)
        left = left if free is None else min(left, free)
        held = getattr(user, what)
        if left > (held if user.is_bounded else 0):
            return None
        if left <= 0:
            return TooLarge(
                f"all {limit} {what} of this agent are taken",
                fix=f"wait until some are free, or raise {what}_max under [agents]",
            )
        return TooLarge(
            f"{user.name} holds {held} {what} of this agent, and one user may hold no more than are free",
            fix=f"give some back, or raise {what}_max under [agents]",
        )

    def take(self, user: User, what: What, count: int = 1) -> None:
        for holder in (user, self.all):
            setattr(holder, what, getattr(holder, what) + count)

    def give(self, user: User, what: What, count: int = 1) -> None:
        self.take(user, what, -count)
        if what == "programs" and not user.programs:
            self.users.pop(user.name, None)
