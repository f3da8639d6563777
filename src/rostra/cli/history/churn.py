"""`rostra history churn`: how much came and went, per group and minute."""

from typing import TYPE_CHECKING

from rostra.cli.common import remark
from rostra.cli.history.asking import CLOCKS, Every, Group, events_of
from rostra.cli.history.common import asks
from rostra.cli.history.times import From, Until

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.narrow import Frame


@asks(nobody="nothing came or went")
def churn(group: Group = None, every: Every = 60.0, since: From = None, until: Until = None) -> "Question":
    """Churn: joins, leaves and crashes at home, and members lost from sight and back, per group and minute.

    Examples:

        rostra history churn -g chess -t tables
        rostra history churn --every 3600 --from -7d -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.questions.churn import churn as ask

        remark(CLOCKS)
        return ask(events_of(archive, group, since, until), every).orderBy("world", "at", "group")

    return question
