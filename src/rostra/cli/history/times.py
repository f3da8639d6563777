"""Times as people write them, and how they are said back.

2026-03-01T03:12:07Z         exactly that; without a zone, the zone of this machine
2026-03-01                   its midnight
03:12    03:12:07            the last time that the clock showed it
yesterday 03:12              and: today 03:12
-15m     2h ago     -1d 6h   that long ago (s, m, h, d)
now
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Final

import typer

from rostra.errors import BadInput

FIX: Final = "write 2026-03-01T03:12Z, 2026-03-01 03:12, 03:12, 'yesterday 03:12', -15m or '2h ago'"

At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="When: 2026-03-01T03:12Z, 03:12, 'yesterday 03:12', -15m.",
        show_default="the newest row",
    ),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Nothing before that.", show_default="the beginning"),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Nothing from then on.", show_default="the newest row"),
]

_CLOCK: Final = re.compile(r"(?:(today|yesterday)\s+)?(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d{1,6})?))?")
_SPAN: Final = r"((?:\d+(?:\.\d+)?\s*[smhd]\s*)+)"
_AGO: Final = re.compile(rf"-\s*{_SPAN}|{_SPAN}ago")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_time(text: str, now: datetime | None = None, zone: tzinfo | None = None) -> datetime:
    """What is meant, in UTC. `zone` is for times that name none: this machine's."""
    here = (now or datetime.now(UTC)).astimezone(zone)
    said = text.strip().lower()
    if said == "now":
        return here.astimezone(UTC)
    if ago := _AGO.fullmatch(said):
        seconds = sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(ago[1] or ago[2]))
        return (here - timedelta(seconds=seconds)).astimezone(UTC)
    if clock := _CLOCK.fullmatch(said):
        return _by_the_clock(text, clock, here)
    try:
        meant = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadInput(f"{text!r} is not a time", fix=FIX) from None
    if meant.tzinfo is None:
        meant = meant.replace(tzinfo=zone) if zone is not None else meant.astimezone()
    return meant.astimezone(UTC)


def _by_the_clock(text: str, clock: re.Match[str], here: datetime) -> datetime:
    day, hour, minute, second = clock.groups()
    whole = float(second or 0)
    try:
        meant = here.replace(
            hour=int(hour), minute=int(minute), second=int(whole), microsecond=round(whole % 1 * 1e6)
        )
    except ValueError:
        raise BadInput(f"{text!r} is no time of day", fix=FIX) from None
    if day == "yesterday" or (day is None and meant > here):
        meant -= timedelta(days=1)
    return meant.astimezone(UTC)


def say_time(at: datetime, zone: tzinfo | None = None) -> str:
    """A time as it was understood: in UTC, as all answers are, and in the zone of this machine."""
    here = at.astimezone(zone)
    said = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if here.utcoffset() == timedelta(0):
        return said
    return f"{said} ({here:%H:%M:%S} {here.tzname()} here)"
