"""`rostra history spread`: where members were: how many in each domain."""

from typing import TYPE_CHECKING, Annotated

import typer

from rostra.cli.history.asking import Group, members_of, the_time
from rostra.cli.history.common import asks
from rostra.cli.history.times import At

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.narrow import Frame


@asks(nobody="no group had a member then")
def spread(
    group: Group = None,
    at: At = None,
    level: Annotated[
        int | None, typer.Option("--level", min=0, help="Only domains so deep: 0 is the world, 1 a region.")
    ] = None,
) -> "Question":
    """Spread of members over the world at a time: how many in each region, site, cluster and host.

    Examples:

        rostra history spread -g chess -t tables
        rostra history spread --level 1 --at 03:12 -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.narrow import having
        from rostra.history.questions.spread import spread as ask

        found = ask(members_of(archive, group), the_time(archive, at))
        return having(found, depth=level).orderBy("world", "group", "depth", "domain")

    return question
