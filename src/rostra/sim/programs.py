"""Simulated programs: they ask their host's agent, and keep their views with the real library.

A program has one endpoint. Its questions reach the agent at once, and so do the answers and notices on
their way back: both are on one host. It dies with its host (C-022), or alone when killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rostra.errors import BadInput
from rostra.groups.attributes import Role, Slow
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Endpoint, Group, make_group, parse_group
from rostra.protocols.relaxed.requests import (
    Close,
    Join,
    Leave,
    Resolve,
    SendTo,
    SetOnline,
    Unwatch,
    UnwatchLife,
    Watch,
    WatchLife,
)
from rostra.protocols.relaxed.view import NOT_FOLLOWED, Views
from rostra.sim.talks import JoinTalk, LeaveTalk, Talk

if TYPE_CHECKING:
    from rostra.sim.world import World


class SimCall:
    """One question and, once it is there, its answer."""

    __slots__ = ("answered_at", "asked_at", "asked_in", "program", "request", "result")

    def __init__(self, program: SimProgram | None, request: Any, asked_at: float) -> None:
        self.program = program
        self.request = request
        self.asked_at = asked_at
        self.asked_in = NOT_FOLLOWED  # for a resolve: the period of following its group, see `Views.answered`
        self.answered_at: float | None = None
        self.result: Any = None


class SimProgram:
    def __init__(self, world: World, host: Domain, name: str) -> None:
        self.host = host
        self.name = name
        self.alive = True
        self.endpoint: Endpoint | None = None
        self.waiting: list[SimCall] = []  # asked before the agent had opened the endpoint
        self.online: dict[Group, bool] = {}  # groups that this program is in, and whether it wants updates
        self.watching: set[Group] = set()
        self.following: set[Group] = set()  # online in them, or watching them
        self.views = Views()
        self.talks: dict[Group, Talk] = {}  # groups that it speaks in, or spoke in
        self.missed: int | None = None  # while it does not read: how many notices were not kept for it
        self._world = world

    def join(
        self,
        group: str | Group,
        *,
        online: bool = True,
        permanent: bool = False,
        meta: bytes = b"",
        kind: GroupKind | None = None,
    ) -> SimCall:
        """With a strong kind: as the service of such groups will, by a claim."""
        return self.ask(Join(_group(group), online, permanent, meta, kind))

    def leave(self, group: str | Group, *, meta: bytes = b"") -> SimCall:
        key = _group(group)
        if key in self.talks:
            self.talks[key].state = "leaving"
            return self.ask(LeaveTalk(key))
        return self.ask(Leave(key, meta))

    # Groups that speak

    def join_fifo(
        self,
        group: str | Group,
        *,
        role: Role = Role.BOTH,
        slow: Slow = Slow.THROTTLE,
        meta: bytes = b"",
    ) -> SimCall:
        """Join with `delivery="fifo"`."""
        if self._world.fifo is None:
            raise BadInput("nobody can speak in this world", fix="make it with fifo=True")
        key = _group(group)
        before = self.talks.get(key)
        if before is not None and before.state != "over":
            raise BadInput(
                f"{self} is in {key.name} already", fix="leave first, and wait until it has parted"
            )
        self.talks[key] = Talk(key, role, 0 if before is None else before.said)
        return self.ask(JoinTalk(key, role, slow, meta))

    def say(self, group: str | Group, *payloads: bytes) -> None:
        self._world.speak(self, _group(group), payloads)

    def stream(
        self,
        group: str | Group,
        every_s: float,
        *,
        count: int | None = None,
        phase_s: float = 0.0,
        size: int = 16,
    ) -> None:
        """Say something again and again, from `phase_s` on; ends with the talk, or with another stream."""
        self._world.stream(self, _group(group), every_s, count, phase_s, size)

    def hush(self, group: str | Group) -> None:
        """End the stream."""
        self.talk(_group(group)).streams += 1

    def pause(self, group: str | Group) -> None:
        """Read no more messages of this group for now."""
        self._world.pause_talk(self, _group(group), paused=True)

    def resume(self, group: str | Group) -> None:
        self._world.pause_talk(self, _group(group), paused=False)

    def talk(self, group: str | Group) -> Talk:
        key = _group(group)
        if key not in self.talks:
            raise BadInput(f"{self} does not speak in {key.name}", fix="join with delivery=fifo first")
        return self.talks[key]

    def resolve(self, group: str | Group, *, deadline_s: float | None = None) -> SimCall:
        key = _group(group)
        return self.ask(Resolve(key.name, key.scope, deadline_s))

    def resolve_everywhere(self, name: str) -> SimCall:
        """Every group of this name around the host (C-037)."""
        return self.ask(Resolve(make_group(name, "world").name, None))

    def go_online(self, group: str | Group) -> SimCall:
        return self.ask(SetOnline(_group(group), online=True))

    def go_offline(self, group: str | Group) -> SimCall:
        return self.ask(SetOnline(_group(group), online=False))

    def watch(self, group: str | Group) -> SimCall:
        return self.ask(Watch(_group(group)))

    def unwatch(self, group: str | Group) -> SimCall:
        return self.ask(Unwatch(_group(group)))

    def send(self, data: bytes, *to: SimProgram) -> SimCall:
        return self.ask(SendTo(tuple(sorted(other.address for other in to)), data))

    def watch_life(self, other: SimProgram) -> SimCall:
        return self.ask(WatchLife(other.address))

    def unwatch_life(self, other: SimProgram) -> SimCall:
        return self.ask(UnwatchLife(other.address))

    def close(self) -> SimCall:
        return self.ask(Close())

    def kill(self) -> None:
        self._world.kill(self)

    def ask(self, request: Any) -> SimCall:
        return self._world.ask(self, request)

    def members(self, group: str | Group) -> tuple[Endpoint, ...]:
        """The program's own copy of a group that it follows."""
        view = self.views.groups.get(_group(group))
        return () if view is None else tuple(member.endpoint for member in view.members)

    # What the world does to it

    def follow(self, group: Group, wants: bool) -> None:
        if wants:
            self.following.add(group)
            self.views.follow(group)
        else:
            self.following.discard(group)
            self.views.unfollow(group)

    def die(self) -> None:
        self.alive = False
        for group in sorted(self.following):
            self.follow(group, False)
        self.online.clear()
        self.watching.clear()
        self.talks.clear()

    @property
    def address(self) -> Endpoint:
        assert self.endpoint is not None, f"{self} is not open: its agent has not answered yet"
        return self.endpoint

    def __repr__(self) -> str:
        return self.endpoint or f"{self.host}/{self.name}"


def _group(group: str | Group) -> Group:
    return parse_group(group) if isinstance(group, str) else group
