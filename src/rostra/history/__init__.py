"""The Spark pipeline: what happened, as seen from where, and were the promises kept?

    from rostra.history import Archive, register, views

session     where Spark runs, and how it is started
warm        a Spark that stays between questions
schemas     every table's columns, under a name
ingest      growing journals become tables: look, runs, partitions, intervals, compact, tables
rebuild     tables made anew from the events
source      spark.read.format("rostra")
archive     where a question reads from: tables, or journals as they are
questions/  transforms, DataFrame -> DataFrame: one file per question
audits/     the promises, each as a job over any number of events

Only this room knows of Spark, which is an extra: ``pip install 'rostra[spark]'``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rostra.history.archive import Archive, views
    from rostra.history.source import register

__all__ = ["Archive", "register", "views"]


def __getattr__(name: str) -> Any:
    """Import Spark with the first use of these names: a command's help does not need it."""
    if name == "register":
        from rostra.history.source import register

        return register
    if name in ("Archive", "views"):
        from rostra.history import archive

        return getattr(archive, name)
    raise AttributeError(f"module 'rostra.history' has no attribute {name!r}")
