"""`rostra history traffic`: messages per level and kind, against what a hierarchy has to send."""

from typing import TYPE_CHECKING, Annotated

import typer

from rostra.cli.history.asking import events_of
from rostra.cli.history.common import asks
from rostra.cli.history.times import From, Until

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.narrow import Frame


@asks(nobody="no message was counted: traffic is written with heartbeats")
def traffic(
    since: From = None,
    until: Until = None,
    one_in: Annotated[
        int,
        typer.Option(
            "--one-in", metavar="N", min=1, help="Look at one in so many changes for what was needed."
        ),
    ] = 1,
) -> "Question":
    """Traffic per level and kind of message, and what the hierarchy had to send for the same changes.

    A change needs one message to each server on the way from its home to the observers. The ratio is the
    messages sent for each that was needed; joins of new groups, merges and retransmissions cost more.

    Examples:

        rostra history traffic -t tables
        rostra history traffic --from -1d --one-in 100 -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.questions.traffic import traffic as ask

        return ask(events_of(archive, None, since, until), one_in).orderBy("world", "message", "link_level")

    return question
