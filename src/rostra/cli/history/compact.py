"""`rostra history compact`: many small batches become one."""

from rostra.cli.common import EXIT_OK, remark
from rostra.cli.history.common import Master, TablesDir, changing, tables_to_change


def compact(tables: TablesDir = None, master: Master = None) -> int:
    """Merge all batches of the tables into one, so that questions open fewer files.

    Ingest does this step by step; this is for tables that will not grow any more. Readers are not
    disturbed: replaced files are kept for ten minutes.

    Examples:

        rostra history compact -t /srv/tables
    """
    found = tables_to_change(tables)
    with changing(found, master, "compacting") as spark:
        from rostra.history.compact import Compaction

        merged = Compaction(spark, found).everything()
    remark(f"{merged} batches are one now" if merged > 1 else "there was one already")
    return EXIT_OK
