"""`rostra history disagreement`: when two places saw different members."""

from typing import TYPE_CHECKING, Annotated

import typer

from rostra.cli.common import remark
from rostra.cli.history.asking import CLOCKS, events_of, the_place
from rostra.cli.history.common import asks

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.narrow import Frame


@asks(nobody="they agreed whenever both followed the group")
def disagreement(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="chess, or chess@eu if there are several.")],
    here: Annotated[str, typer.Argument(metavar="PLACE", help="A domain or a host.")],
    there: Annotated[str, typer.Argument(metavar="PLACE", help="Another one.")],
    longer_than: Annotated[
        float, typer.Option("--longer-than", metavar="SECONDS", min=0, help="Only longer ones.")
    ] = 0.0,
) -> "Question":
    """Disagreement: when, and for how long, two places saw different members of a group.

    A place sees a member while any of its hosts does. They are compared while both follow the group.

    Examples:

        rostra history disagreement chess eu us -t tables
        rostra history disagreement chess eu.paris.h1 us --longer-than 1 -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.questions.disagreement import disagreement as ask

        places = the_place(archive, here), the_place(archive, there)
        remark(CLOCKS)
        found = ask(events_of(archive, group), *places)
        if longer_than:
            found = found.where(f"seconds is null or seconds > {longer_than}")
        return found.orderBy("world", "from_at")

    return question
