"""Which local programs have stalled? Pings from the agent, beside the sockets that report which died.

    Heard ──quiet for program_ping_after_s: Ping──▶ Pinged ──for program_suspect_s──▶ Suspected
      ▲                                               │                                 │    │
      └────────────────── anything heard ─────────────┴─────────────────────────────────┘    │
                                                    removed ◀──for program_down_after_s──────┘

A dead program is not detected here: its socket closes, and the agent knows at once (C-034). What is left are
programs that live and do not answer: stopped, swapped out, deep in a computation, or at the far end of a cut
(C-176). They are shown as suspected long before they are removed.

The clock of a suspicion starts at the ping and not at the last message, since an idle program need not send
anything.

Many programs that stall at once have a common cause, mostly an overloaded machine, or one process with many
connections. Removing them would add to the load, for each joins again and gets whole lists; so each of them
has `TOGETHER_TIMES` as long.
"""

from typing import Final

from msgspec import Struct

from rostra.core.effects import Effect, Event, Ignored, Instant, Ticked
from rostra.protocols.detect.config import DetectConfig

Program = int
"""The driver's number for one program's connection; never used twice."""


TOGETHER_MIN: Final = 16
"""So many programs that owe an answer at once stall together."""

TOGETHER_TIMES: Final = 6
"""So many times `program_down_after_s` has a program that stalls together with others for its answer. Raising
it: crowds live through longer stalls; if a whole container hangs, its programs are members for longer."""


class ProgramOpened(Event, frozen=True):
    program: Program


class ProgramHeard(Event, frozen=True):
    """Any bytes from the program, an answer to a ping among them."""

    program: Program


class ProgramClosed(Event, frozen=True):
    """Its connection is closed, by either end; nothing is left to watch."""

    program: Program


class SendPing(Effect, frozen=True):
    """Ask the program for a sign of life; any bytes from it will do."""

    program: Program


class ProgramEvidence(Struct, frozen=True):
    """What the suspicion of a program rests on."""

    at: float  # on the agent's clock
    quiet_s: float  # since anything arrived
    unanswered_s: float  # since the ping
    suspect_s: float
    down_after_s: float


class ProgramSuspected(Effect, frozen=True):
    """The program owes an answer. Shown and counted; it loses nothing for it."""

    program: Program
    evidence: ProgramEvidence


class ProgramTrusted(Effect, frozen=True):
    program: Program
    after_s: float  # of quiet


class ProgramRemoved(Effect, frozen=True):
    """Close the connection; its endpoints are gone, as if their program had died."""

    program: Program
    evidence: ProgramEvidence


class _Watched:
    __slots__ = ("heard_at", "pinged_at", "suspected", "together")

    def __init__(self, now: Instant) -> None:
        self.heard_at = now
        self.pinged_at: Instant | None = None
        self.suspected = False
        self.together = False  # with many others; until it is heard


class ProgramWatch:
    """All programs of one agent."""

    def __init__(self, config: DetectConfig) -> None:
        self._config = config
        self._watched: dict[Program, _Watched] = {}

    def step(self, now: Instant, event: Event) -> list[Effect]:
        match event:
            case ProgramHeard(program):
                return self._heard(now, program)
            case Ticked(late_s):
                return self._ticked(now, late_s)
            case ProgramOpened(program):
                self._watched[program] = _Watched(now)
                return []
            case ProgramClosed(program):
                if self._watched.pop(program, None) is None:
                    return [Ignored("ProgramClosed", why="unknown program")]
                return []
        raise AssertionError(f"not an event of a program watch: {event!r}")

    @property
    def suspected(self) -> tuple[Program, ...]:
        return tuple(sorted(program for program, watched in self._watched.items() if watched.suspected))

    def _heard(self, now: Instant, program: Program) -> list[Effect]:
        watched = self._watched.get(program)
        if watched is None:
            # Its last words were still in a buffer when it was removed or closed.
            return [Ignored("ProgramHeard", why="unknown program")]
        effects: list[Effect] = []
        if watched.suspected:
            watched.suspected = watched.together = False
            effects.append(ProgramTrusted(program, now - watched.heard_at))
        watched.heard_at = now
        watched.pinged_at = None
        return effects

    def _ticked(self, now: Instant, late_s: float) -> list[Effect]:
        effects: list[Effect] = []
        suspected: list[tuple[Program, _Watched]] = []
        config = self._config
        for program, watched in self._watched.items():
            if watched.pinged_at is None:
                if now - watched.heard_at >= config.program_ping_after_s:
                    watched.pinged_at = now
                    effects.append(SendPing(program))
                continue
            # While we were away ourselves, the answer may have waited for us in the socket.
            watched.pinged_at = min(now, watched.pinged_at + late_s)
            if now - watched.pinged_at >= config.program_suspect_s:
                suspected.append((program, watched))
        for program, watched in suspected:
            watched.together |= len(suspected) >= TOGETHER_MIN
            evidence = self._evidence(now, watched)
            if not watched.suspected:
                watched.suspected = True
                effects.append(ProgramSuspected(program, evidence))
            if evidence.unanswered_s >= evidence.down_after_s:
                del self._watched[program]
                effects.append(ProgramRemoved(program, evidence))
        return effects

    def _evidence(self, now: Instant, watched: _Watched) -> ProgramEvidence:
        pinged_at = now if watched.pinged_at is None else watched.pinged_at
        return ProgramEvidence(
            at=now,
            quiet_s=now - watched.heard_at,
            unanswered_s=now - pinged_at,
            suspect_s=self._config.program_suspect_s,
            down_after_s=self._config.program_down_after_s * (TOGETHER_TIMES if watched.together else 1),
        )
