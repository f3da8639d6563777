"""`rostra history export`: tables for tools that read something else."""

from enum import StrEnum
from typing import Annotated

import typer

from rostra.cli.common import EXIT_OK, remark
from rostra.cli.history.common import TablesDir
from rostra.errors import BadInput


class Kind(StrEnum):
    DELTA = "delta"


def export(
    to: Annotated[str, typer.Argument(metavar="DIR", help="Where the copy is, or shall be.")],
    tables: TablesDir = None,
    kind: Annotated[
        Kind, typer.Option("--format", metavar="FORMAT", help="delta: one Delta table for each of ours.")
    ] = Kind.DELTA,
) -> int:
    """Copy tables for tools that read Delta. Call it again at any time: what is new is added, each row once.

    It starts no Spark. Of stays, those that have ended are exported. If it is killed, the next call
    goes on; of two at once one is refused. Tables that were rebuilt want an empty directory.

    Examples:

        rostra history export /srv/delta --format delta -t /srv/tables
    """
    if tables is None:
        raise BadInput("no tables were named", fix="which ones?  --tables DIR")
    from rostra.history.export import check_delta
    from rostra.history.export import export as copy
    from rostra.history.tables import Tables

    check_delta()
    copy(Tables(tables), to, tell=lambda table, rows: remark(f"{table}: {rows:,} rows added"))
    return EXIT_OK
