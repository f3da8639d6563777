"""What the commands of `rostra history` share: where history is, where Spark runs, how answers look.

@asks(nobody="nothing came or went")
def churn(group: Group = None) -> Question:
    from rostra.history.questions.churn import churn as ask

    return lambda archive: ask(events_of(archive, group))
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from enum import StrEnum
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import Struct
from msgspec.structs import replace

from rostra.cli.common import EXIT_FAILED, EXIT_OK, remark
from rostra.cli.output import plain, show_table
from rostra.errors import BadInput

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.tables import Tables

    Made = Question | tuple[Question, Callable[[], str]]

TablesDir = Annotated[
    str | None,
    typer.Option(
        "--tables",
        "-t",
        envvar="ROSTRA_TABLES",
        metavar="DIR",
        help="Tables that rostra history ingest made.",
        show_default=False,
    ),
]
JournalDir = Annotated[
    str | None,
    typer.Option(
        "--journal",
        "-j",
        envvar="ROSTRA_JOURNAL",
        metavar="DIR",
        help="Journals that nodes wrote; a directory, a pattern in quotes, or a URI.",
        show_default=False,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        envvar="ROSTRA_SPARK_MASTER",
        metavar="MASTER",
        help="A cluster to run on, driven from here: spark://host:7077, yarn, k8s://...",
        show_default="this machine",
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        "--remote",
        envvar="ROSTRA_SPARK_REMOTE",
        metavar="SERVER",
        help="A Spark Connect server to ask: sc://host:15002",
        show_default=False,
    ),
]
To = Annotated[
    Path | None,
    typer.Option("--to", metavar="FILE", help="Write the answer there.", show_default="standard output"),
]


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


Format = Annotated[
    Output,
    typer.Option("--output", "-o", metavar="FORMAT", help="table, json, jsonl, csv or parquet."),
]


class Where(Struct, frozen=True):
    """Where history is, and where Spark runs."""

    tables: str | None = None
    journal: str | None = None
    master: str | None = None
    remote: str | None = None


@contextmanager
def spark_at(where: Where) -> Iterator[Any]:
    """A session: of a cluster, of a server, or the warm one of this machine."""
    from rostra.history import session, warm
    from rostra.history.progress import waiting

    if where.master is not None and where.remote is not None:
        raise BadInput(
            "a master or a server, not both", fix="--master drives a cluster, --remote asks a server"
        )
    with waiting("starting Spark"):
        if where.remote is not None:
            spark = session.connect(where.remote)
        elif where.master is not None:
            spark = session.start(where.master)
        else:
            spark = warm.session()
    with session.lent(spark):
        yield spark


@contextmanager
def archive_at(where: Where, doing: str | None = None) -> Iterator["Archive"]:
    """Spark is started when it is first needed, and not for what the catalogue of tables can tell. What it is
    `doing` then is shown."""
    from rostra.history.archive import FIX

    if where.tables is None and where.journal is None:
        raise BadInput("no history was named", fix=FIX)
    where = _one_of_both(where)
    check_history(where)
    from rostra.history.session import check_spark

    check_spark()
    from rostra.history.archive import Archive

    with ExitStack() as stack:

        def start() -> Any:
            from rostra.history.progress import progress

            spark = stack.enter_context(spark_at(where))
            if doing is not None:
                stack.enter_context(progress(spark, doing))
            return spark

        yield Archive(start, tables=where.tables, journal=where.journal)


def _one_of_both(where: Where) -> Where:
    """The command line counts before variables; if both are variables (ingest needs both), tables are asked:
    that is quicker."""
    if where.tables is None or where.journal is None:
        return where
    if where.journal == os.environ.get("ROSTRA_JOURNAL"):
        return replace(where, journal=None)
    if where.tables == os.environ.get("ROSTRA_TABLES"):
        return replace(where, tables=None)
    raise BadInput("tables or journal, not both", fix="leave out one of --tables and --journal")


def check_history(where: Where) -> None:
    """Is there anything to ask? Said before Spark starts, which takes long. What another machine keeps, only
    that machine knows."""
    if where.remote is not None:
        return
    from rostra.history.journals import segments
    from rostra.history.tables import COMMITS, Tables

    if where.tables is not None:
        place = Path(where.tables)
        if any(place.glob("date=*")):
            raise BadInput(f"{place} is a journal, and no tables", fix=f"ask it directly:  --journal {place}")
        Tables(where.tables).require()
    elif where.journal is not None:
        if (Path(where.journal) / COMMITS).is_dir():
            raise BadInput(f"{where.journal} has tables, and no journal", fix=f"--tables {where.journal}")
        if not segments(where.journal):
            raise BadInput(
                f"there is no segment of a journal in {where.journal}",
                fix="name the directory that nodes write to; a segment is finished every ten seconds",
            )


def answer(
    question: "Question",
    where: Where,
    output: Output = Output.TABLE,
    to: Path | None = None,
    *,
    doing: str = "asking Spark",
    nobody: str | Callable[[], str],
) -> int:
    """Ask, and show the answer. Exit code 1 if it is empty."""
    if output is Output.PARQUET and to is None and sys.stdout.isatty():
        raise BadInput("Parquet is nothing for a terminal", fix="name a file:  --to answer.parquet")
    from rostra.history.answers import TABLE_ROWS, AnswerRows

    with archive_at(where, doing) as archive:
        at_most = TABLE_ROWS if output is Output.TABLE and to is None else None
        got = AnswerRows(question(archive), at_most=at_most)
    with _opened(to) as file:
        match output:
            case Output.TABLE:
                _show_table(got, to)
            case Output.JSON | Output.JSONL:
                got.write_json(file, lines=output is Output.JSONL)
            case Output.CSV:
                got.write_csv(file)
            case Output.PARQUET:
                got.write_parquet(file)
        file.flush()
    say_what_is_left_out(archive)
    if got.is_cut:
        remark(f"the first {TABLE_ROWS} rows; -o csv gives all")
    if got.table.num_rows == 0:
        remark(nobody() if callable(nobody) else nobody)
        return EXIT_FAILED
    return EXIT_OK


def asks(nobody: str = "nothing was found") -> Callable[[Callable[..., "Made"]], Callable[..., int]]:
    """A command for a question: its options make the question, and these say where it is asked and how the
    answer looks. `nobody` is said of an empty one; or the question comes with what is."""

    def command(made: Callable[..., "Made"]) -> Callable[..., int]:
        def ask(
            tables: TablesDir = None,
            journal: JournalDir = None,
            master: Master = None,
            remote: Remote = None,
            output: Format = Output.TABLE,
            to: To = None,
            **options: Any,
        ) -> int:
            asked = made(**options)
            question, say = asked if isinstance(asked, tuple) else (asked, nobody)
            return answer(question, Where(tables, journal, master, remote), output, to, nobody=say)

        *common, _ = signature(ask).parameters.values()
        whole = wraps(made)(ask)
        whole.__dict__["__signature__"] = Signature([*signature(made).parameters.values(), *common])
        hints = {each.name: each.annotation for each in common}
        whole.__annotations__ = {**made.__annotations__, **hints, "return": int}
        return whole

    return command


LEFT_OUT_SHOWN: Final = 5


def say_what_is_left_out(archive: "Archive") -> None:
    """Files that should be part of the answer, and are not."""
    files = sorted(archive.left_out.items())
    for path, why in files[:LEFT_OUT_SHOWN]:
        remark(f"left out {path}: {why}")
    if len(files) > LEFT_OUT_SHOWN:
        more = len(files) - LEFT_OUT_SHOWN
        remark(f"and {more} more files; rostra history ingest --status names those of tables")


def _show_table(got: Any, to: Path | None) -> None:
    if to is None and sys.stdout.isatty():
        show_table(got.columns, got.cells(narrow=True))
        if got.common:
            remark(f"times are UTC, of {got.common}")
        return
    rows = [[name.upper() for name in got.columns], *got.cells()]
    widths = [max(len(row[nth]) for row in rows) for nth in range(len(got.columns))]
    with nullcontext(sys.stdout) if to is None else to.open("w", encoding="utf-8") as file:
        for row in rows:
            line = "  ".join(f"{each:<{wide}}" for each, wide in zip(row, widths, strict=True))
            file.write(f"{plain(line.rstrip())}\n")


def _opened(to: Path | None) -> Any:
    if to is None:
        return nullcontext(_stdout())
    try:
        return to.open("wb")
    except OSError as error:
        raise BadInput(f"cannot write {to}: {error.strerror}", fix="choose another --to") from None


def _stdout() -> IO[bytes]:
    sys.stdout.flush()
    return sys.stdout.buffer


@contextmanager
def changing(tables: "Tables", master: str | None, doing: str) -> Iterator[Any]:
    """A session in this process, for the one that changes them."""
    from rostra.history import session
    from rostra.history.progress import progress, waiting

    with waiting("starting Spark"):
        spark = session.start(master or session.HERE, app=f"rostra history, {doing}")
    from rostra.history.ingest import locked

    with session.lent(spark), locked(spark, tables), progress(spark, doing):
        yield spark


def tables_to_change(tables: str | None) -> "Tables":
    """They are there, and so is all that Spark needs: said before it starts."""
    if tables is None:
        raise BadInput("no tables were named", fix="which ones?  --tables DIR")
    from rostra.history import session
    from rostra.history.tables import Tables

    found = Tables(tables)
    found.require()
    found.place.check_commits()
    session.check_spark()
    session.check_java()
    return found
