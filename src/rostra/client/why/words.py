"""How an explanation writes numbers and names."""

from collections.abc import Mapping, Sequence
from typing import Any


def refused_words(refusal: Mapping[str, Any]) -> str:
    if refusal["asked"] == "open":
        return f"another program asked for that name, and was refused: {refusal['what']}"
    return f"it was refused: {refusal['what']}"


def passed(note: Mapping[str, Any]) -> str:
    told = [
        *([listed(note["passed_to"], note["passed_to_count"])] if note["passed_to"] else []),
        *([f"{note['told']} endpoint{'s' * (note['told'] != 1)} here"] if note["told"] else []),
    ]
    words = f"told {' and '.join(told)}" if told else "had nobody to tell"
    return f"heard from {note['heard_from']}, {words}" if note["heard_from"] else words


def listed(names: Sequence[str], count: int | None = None) -> str:
    more = (count or len(names)) - len(names[:4])
    return ", ".join(names[:4]) + (f" and {more} more" if more > 0 else "")


def seconds(value: float) -> str:
    """A duration for people."""
    if value < 0.095:
        return f"{value:.2f} s"
    if value < 9.95:
        return f"{value:.1f} s"
    if value < 119.5:
        return f"{value:.0f} s"
    if value < 7_170:
        return f"{value / 60:.0f} min"
    return f"{value / 3_600:.0f} h" if value < 172_800 else f"{value / 86_400:.0f} days"
