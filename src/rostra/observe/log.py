"""The log of a process: log lines, counters, and a bounded memory of recent events. `NodeLog`
(`node_log.py`) writes the events of its nodes; other parts of a process write their own.

A log line is an event's name, its values and its cause, on stderr:

    2026-11-15T20:40:00.123Z link_down node=eu.fr peer=us because=silent silence_s=4.1

The same events are kept in a ring buffer, the **flight recorder**, and shown by `Inspect`: why a member was
removed can be looked up without collected logs. What happens too often for a line each, such as ignored
messages, is counted by reason.
"""

import math
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, TextIO

import msgspec

RECENT_MAX: Final = 512
"""Events kept in the flight recorder. An event is a few hundred bytes."""


RARE_S: Final = 60.0
RARE_KEYS_MAX: Final = 256
"""Lines a minute about one event that strangers can cause, under as many names as they like."""

LABELS_MAX: Final = 256
"""Labels of one counter; the rest shares one. What a peer calls something may become a label."""


class RecentEvents(msgspec.Struct, frozen=True, gc=False):
    at: str  # wall clock, UTC, for people
    event: str
    values: dict[str, Any]


class EventLog:
    def __init__(self, *, json: bool = False, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.counters: Counter[tuple[str, str]] = Counter()
        self.recent: deque[RecentEvents] = deque(maxlen=RECENT_MAX)
        self.forgotten = 0  # events that fell out of the ring: the memory is bounded and says so
        self.on_note: Callable[[], None] = lambda: None
        self._noted_at: dict[str, dict[str, float]] = {}  # by event
        self._labels: Counter[str] = Counter()  # of each counter
        self._stream = stream
        self._quiet = quiet
        self._format: Callable[[RecentEvents], str] = _as_json if json else _as_text

    def note(self, event: str, **values: Any) -> None:
        """Something happened: keep it, count it, and write a line."""
        recent = RecentEvents(
            _utc_now(), event, {name: value for name, value in values.items() if value not in ("", None)}
        )
        if len(self.recent) == RECENT_MAX:
            self.forgotten += 1
        self.recent.append(recent)
        self.counters["event", event] += 1
        self.on_note()
        if not self._quiet:
            # Looked up late, so that a test that replaced sys.stderr gets the line.
            print(self._format(recent), file=self._stream or sys.stderr, flush=True)

    def note_rarely(self, key: str, event: str, **values: Any) -> None:
        """Like `note`, for events that unauthenticated callers can cause at will: at most a line per minute
        and key, for a bounded number of keys."""
        now, noted_at = time.monotonic(), self._noted_at.setdefault(event, {})
        if key not in noted_at and len(noted_at) >= RARE_KEYS_MAX:
            oldest = next(iter(noted_at))
            if now - noted_at[oldest] >= RARE_S:
                del noted_at[oldest]
        has_room = key in noted_at or len(noted_at) < RARE_KEYS_MAX
        if has_room and now - noted_at.get(key, -math.inf) >= RARE_S:
            noted_at.pop(key, None)  # the latest comes last
            noted_at[key] = now
            self.note(event, **values)
        else:
            self.counters["event", event] += 1

    @property
    def recorded(self) -> int:
        """The number of the latest event; the first of a life is 1."""
        return self.forgotten + len(self.recent)

    def since(self, number: int) -> list[RecentEvents]:
        """The events recorded after that number that are still in memory."""
        new = min(self.recorded - number, len(self.recent))
        return list(islice(self.recent, len(self.recent) - new, None)) if new > 0 else []

    def count(self, thing: str, label: str = "", by: int = 1) -> None:
        """Count an event that is too frequent for a line. Labels come from small sets."""
        if (thing, label) not in self.counters:
            if self._labels[thing] >= LABELS_MAX:
                label = "other"
            else:
                self._labels[thing] += 1
        self.counters[thing, label] += by

    def counted(self) -> dict[str, int]:
        """Counters for a document: ``ignored{late reply}`` -> 3."""
        return {
            f"{thing}{{{label}}}" if label else thing: number
            for (thing, label), number in sorted(self.counters.items())
        }


def long_time(ms: int) -> str:
    """For people, who may have set a clock wrong by a minute or by a century."""
    for unit, size in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{ms / 1000:g} s"


def _as_text(recent: RecentEvents) -> str:
    return f"{recent.at} {recent.event} " + " ".join(
        f"{name}={_word(v)}" for name, v in recent.values.items()
    )


def _as_json(recent: RecentEvents) -> str:
    line: Mapping[str, Any] = {"at": recent.at, "event": recent.event, **recent.values}
    return msgspec.json.encode(line, enc_hook=str).decode()


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    text = str(value)
    return text if text and text.isprintable() and " " not in text and '"' not in text else repr(text)


def _utc_now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
