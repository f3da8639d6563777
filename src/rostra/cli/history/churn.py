"""`rostra history churn`: how much came and went, per group and minute."""

from typing import TYPE_CHECKING

from rostra.cli.common import remark
from rostra.cli.history.asking import CLOCKS, Every, Group, events_of
from rostra.cli.history.common import Format, JournalDir, Master, Output, Remote, TablesDir, To, Where, answer
from rostra.cli.history.times import From, Until

if TYPE_CHECKING:
    from rostra.history.archive import Archive
    from rostra.history.narrow import Frame


def churn(
    group: Group = None,
    every: Every = 60.0,
    since: From = None,
    until: Until = None,
    tables: TablesDir = None,
    journal: JournalDir = None,
    master: Master = None,
    remote: Remote = None,
    output: Format = Output.TABLE,
    to: To = None,
) -> int:
    """Churn: joins, leaves and crashes at home, and members lost from sight and back, per group and minute.

    Examples:

        rostra history churn -g chess -t tables
        rostra history churn --every 3600 --from -7d -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.questions.churn import churn as ask

        remark(CLOCKS)
        return ask(events_of(archive, group, since, until), every).orderBy("world", "at", "group")

    return answer(question, Where(tables, journal, master, remote), output, to, nobody="nothing came or went")
