"""`rostra history why`: why a member, host or domain was gone, from the journals."""

from typing import TYPE_CHECKING, Annotated

import typer

from rostra.cli.common import remark
from rostra.cli.history.asking import CLOCKS, SeenFrom, the_place, the_time
from rostra.cli.history.common import asks
from rostra.cli.history.times import At
from rostra.names import parse_subject

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.narrow import Frame


@asks(nobody="no host there had lost sight of it by then")
def why(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT", help="An endpoint, with or without its number; a host; or a domain."
        ),
    ],
    at: At = None,
    seen_from: SeenFrom = "world",
) -> "Question":
    """Why it was gone: the last removal by then, which node gave up which, the evidence, who knew when.

    The words are those of rostra why, which asks nodes that are there now.

    Examples:

        rostra history why eu.paris.h1/ann -t tables
        rostra history why us --at 03:12 --seen-from eu -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.narrow import why as ask

        about = parse_subject(subject)
        place, then = the_place(archive, seen_from), the_time(archive, at)
        remark(CLOCKS)
        return ask(archive, about, then, place)

    return question
