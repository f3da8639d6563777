"""`rostra history convergence`: how long until the last observer knew."""

from typing import TYPE_CHECKING

from rostra.cli.common import remark
from rostra.cli.history.asking import CLOCKS, Group, events_of
from rostra.cli.history.common import asks
from rostra.cli.history.times import From, Until

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.narrow import Frame


@asks(nobody="no host was told of any change")
def convergence(group: Group = None, since: From = None, until: Until = None) -> "Question":
    """Convergence: how long after a join or leave the last observer knew, by distance.

    Distances: the same host, the same cluster, the same region, elsewhere in the world; and all of these
    (everybody). Each time is the difference of two clocks; changes that were received before they happened
    are counted as negative, and show how far the clocks can be trusted.

    Examples:

        rostra history convergence -t tables
        rostra history convergence -g chess --from -1d -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.questions.convergence import convergence as ask

        remark(CLOCKS)
        return ask(events_of(archive, group, since, until)).orderBy("world", "change", "p50_s")

    return question
