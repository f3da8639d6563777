"""What questions have in common: names that are looked up, times that are understood, and what is narrowed.

A name that is not in the history is answered with the closest ones that are; a time is said back, with its
zone.
"""

import difflib
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rostra.cli.common import remark
from rostra.cli.history.times import parse_time, say_time
from rostra.errors import BadInput
from rostra.names import ROOT, parse_group, parse_scope

if TYPE_CHECKING:
    from rostra.history.archive import Archive
    from rostra.history.narrow import Frame

CLOCKS: Final = "times are as of each host's own clock, and clocks may differ"

Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="GROUP", help="Only this group: chess, chess@eu.")
]
SeenFrom = Annotated[
    str,
    typer.Option("--seen-from", "-s", metavar="PLACE", help="Ask the hosts inside this domain, or one host."),
]
Every = Annotated[
    float, typer.Option("--every", metavar="SECONDS", min=0.001, help="The length of a stretch of time.")
]


def the_group(archive: "Archive", text: str) -> str:
    """A group by its name, with or without its scope; it must be in the history."""
    asked, known = parse_group(text), archive.catalogue.groups
    if "@" in text and str(asked) in known:
        return str(asked)
    named = [each for each in known if each.rpartition("@")[0] == text]
    match named:
        case [only]:
            return only
        case [] if not known:
            raise BadInput("no group is in this history", fix="is it the right directory?")
        case []:
            raise BadInput(f"no group {text!r} is in this history", fix=_closest(text, known, "groups"))
    raise BadInput(f"{text!r} is the name of {len(named)} groups", fix=f"say which: {', '.join(named[:8])}")


def the_place(archive: "Archive", text: str) -> str:
    """A domain or host; some writer must be inside."""
    place = parse_scope(text)
    if place == ROOT:
        return place
    known = archive.catalogue.places
    if place not in known:
        raise BadInput(f"no node in {place} wrote in this history", fix=_closest(place, known, "places"))
    return place


def the_time(archive: "Archive", text: str | None) -> datetime:
    """A time, said back; without one, the newest row's."""
    first, last = archive.catalogue.time_range
    if first is None or last is None:
        raise BadInput("this history has no rows", fix="is it the right directory?")
    if text is None:
        remark(f"at {say_time(last)}, the newest row")
        return last
    at = parse_time(text)
    if at > last:
        remark(f"at {say_time(at)}; the newest row is of {say_time(last)}, and nothing later is known")
    elif at < first:
        remark(f"at {say_time(at)}; the first row is of {say_time(first)}, and nothing earlier is known")
    else:
        remark(f"at {say_time(at)}")
    return at


def events_of(
    archive: "Archive", group: str | None = None, since: str | None = None, until: str | None = None
) -> "Frame":
    """All events, or those of a group and of a time, which is said back."""
    from rostra.history.narrow import narrowed

    first, last = (None if text is None else parse_time(text) for text in (since, until))
    if first is not None or last is not None:
        said = "the beginning" if first is None else say_time(first)
        remark(f"from {said} to {'the newest row' if last is None else say_time(last)}")
    name = None if group is None else the_group(archive, group)
    return narrowed(archive.events, name, first, last)


def members_of(archive: "Archive", group: str | None = None) -> "Frame":
    """Memberships at home, which are the truth: of all groups, or of one."""
    from rostra.history.narrow import having
    from rostra.history.questions.stays import memberships

    rows = archive.table("members")
    return memberships(
        having(rows, group=None if group is None else the_group(archive, group)), archive.lived
    )


def _closest(text: str, known: Iterable[str], what: str) -> str:
    known = list(known)
    close = difflib.get_close_matches(text, known, n=4, cutoff=0.4)
    shown = f"closest of the {len(known)} {what} in it: {', '.join(close)}" if close else ""
    return shown or f"the {what} in it: {', '.join(known[:8])}{' ...' if len(known) > 8 else ''}"
