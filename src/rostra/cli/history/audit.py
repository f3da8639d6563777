"""`rostra history audit`: were the promises kept?"""

from datetime import datetime
from math import floor
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer
from msgspec import Struct

from rostra.cli.common import EXIT_FAILED, EXIT_OK, remark
from rostra.cli.history.common import (
    JournalDir,
    Master,
    Remote,
    TablesDir,
    Where,
    archive_at,
    say_what_is_left_out,
)
from rostra.cli.output import Format, OutputFormat, answers, coloured, show_rows, show_table

if TYPE_CHECKING:
    from rostra.history.archive import Archive

PROMISES: Final = (
    "per-source-order, stable-truth, watch-complete, both-sides-told, heals-alone, fifo-gap-free, "
    "smooth-join, why, same-view, every-change, one-living, total-order, all-or-none, "
    "one-registrar, one-leader, exact-list, members-listed"
)

LEAST_KNOWN_SHOWN: Final = 5


class JournalLine(Struct, frozen=True):
    """One row of a journal, near an offence."""

    place: int  # 0 is the offending row
    writer: str
    epoch: int
    seq: int
    at: datetime
    kind: str
    says: dict[str, Any]


class Offence(Struct, frozen=True):
    at: datetime
    text: str
    writer: str | None
    epoch: int | None
    seq: int | None
    lines: list[JournalLine]


class AuditVerdict(Struct, frozen=True):
    promise: str
    world: str
    answer: str
    judged: int
    broken: int
    doubts: int
    share: float
    why: str | None
    first_at: datetime | None
    offences: list[Offence]
    replay: str  # the command that runs it again; empty if nothing was recorded


def audit(
    promise: Annotated[
        list[str] | None,
        typer.Option("--promise", "-p", metavar="NAME", help=f"Only this one: {PROMISES}."),
    ] = None,
    bound: Annotated[
        float | None,
        typer.Option(
            "--bound",
            metavar="SECONDS",
            min=0.001,
            help="How long a side may take to be told, a cut to heal, or news to arrive.",
            show_default="each promise's own",
        ),
    ] = None,
    first: Annotated[
        int, typer.Option("--first", "-n", metavar="N", min=1, help="Show so many offences of each.")
    ] = 3,
    lines: Annotated[
        int, typer.Option("--lines", metavar="N", min=0, help="Show so many lines before and after.")
    ] = 3,
    tables: TablesDir = None,
    journal: JournalDir = None,
    master: Master = None,
    remote: Remote = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Judge every promise over any number of events: yes, no, or cannot tell.

    No comes with the first offences, the journal's lines around them, and the command that replays them if
    inputs were recorded. Cannot tell means that nothing gave the promise a chance to be broken, or that it
    looks broken and rows that are missing could explain it: after a crash the last seconds of a journal are.
    A yes is for the share of all hosts' and servers' time of which no row is missing.

    Exit code 1 if any answer is no.

    Examples:

        rostra history audit -t tables
        rostra history audit -p stable-truth -p why -j journal
        rostra history audit -p both-sides-told --bound 5 -o json -t tables
    """
    from rostra.history.arrow_fast_path import HERE_ROWS
    from rostra.history.audits import PROMISES as ALL
    from rostra.history.audits import Evidence, promise_called
    from rostra.history.progress import progress
    from rostra.history.tuning import SMALL_ROWS, suit

    chosen = [promise_called(each).name for each in promise or ALL]
    found: list[AuditVerdict] = []
    with (
        archive_at(Where(tables, journal, master, remote)) as archive,
        Evidence(archive.events, archive.left_out, archive.contradicted, archive.made) as evidence,
    ):
        with progress(archive.spark, "looking at the history"):
            suit(archive.spark, archive.events, SMALL_ROWS if evidence.at_hand is None else HERE_ROWS)
        for name in chosen:
            found += _judge(archive, evidence, name, bound, first, lines, journal)
        unknown = least_known(evidence) if any(verdict.share < 1 for verdict in found) else []
    if output is OutputFormat.TABLE:
        show(found)
    else:
        show_rows(found, output, found)
    say_what_is_left_out(archive)
    for verdict in found:
        if verdict.doubts and verdict.first_at is not None and not verdict.broken:
            places = f"{verdict.doubts} place{'s' * (verdict.doubts != 1)}"
            remark(
                f"{verdict.world}: rows are missing in {places}, the first at "
                f"{verdict.first_at:%Y-%m-%d %H:%M:%S} UTC; nothing is called kept there"
            )
            break
    for world, day, place, share in unknown:
        remark(f"{world}: {as_percent(share)} of {place} could be judged on {day}")
    return EXIT_FAILED if any(verdict.answer == "no" for verdict in found) else EXIT_OK


def _judge(
    archive: "Archive",
    evidence: Any,
    name: str,
    bound_s: float | None,
    first: int,
    around: int,
    journal: str | None,
) -> list[AuditVerdict]:
    from rostra.history.audits import judge, lines_around, offences
    from rostra.history.audits.replay import replay_command
    from rostra.history.progress import progress

    with progress(archive.spark, f"judging {name}"):
        rows = judge(evidence, name, bound_s)
        broken: dict[str, list[Offence]] = {}
        commands: dict[str, str] = {}
        if any(row["answer"] == "no" for row in rows):
            wrong = offences(evidence, name, bound_s, first).persist()
            beside: dict[tuple[str, int], list[JournalLine]] = {}
            near = lines_around(archive.events, wrong, around)
            for row in near.orderBy("world", "offence", "place").collect():
                said = {name: row[name] for name in JournalLine.__struct_fields__[:-1]}
                line = JournalLine(**said, says=msgspec.json.decode(row["line"]))
                beside.setdefault((row["world"], row["offence"]), []).append(line)
            for row in wrong.orderBy("world", "offence").collect():
                said = {name: row[name] for name in Offence.__struct_fields__[:-1]}
                offence = Offence(**said, lines=beside.get((row["world"], row["offence"]), []))
                broken.setdefault(row["world"], []).append(offence)
            commands = {world: replay_command(world, journal) for world in broken}
    return [
        AuditVerdict(**row, offences=broken.get(row["world"], []), replay=commands.get(row["world"], ""))
        for row in rows
    ]


def least_known(evidence: Any) -> list[Any]:
    """Days and places of which most rows are missing: world, day, place, share."""
    from rostra.history.audits import coverage

    rows = coverage(evidence).where("share < 1").orderBy("share", "world", "day", "place")
    return list(rows.select("world", "day", "place", "share").limit(LEAST_KNOWN_SHOWN).collect())


def as_percent(share: float) -> str:
    """Nothing is called all that is not."""
    return f"{floor(share * 1000) / 10:.1f} %"


def show(found: list[AuditVerdict]) -> None:
    show_table(
        ("promise", "world", "answer", "judged", "broken", "doubts", "share", "why"),
        (
            (
                v.promise,
                v.world,
                coloured(v.answer, bad=v.answer == "no", warn=v.answer == "cannot tell"),
                v.judged,
                v.broken,
                v.doubts,
                as_percent(v.share),
                v.why or "",
            )
            for v in found
        ),
        flexible=7,
    )
    console = answers()
    for verdict in found:
        for number, offence in enumerate(verdict.offences, 1):
            console.print()
            console.print(f"{verdict.promise}, {verdict.world}, offence {number} of {verdict.broken}")
            console.print(f"  {offence.at:%Y-%m-%d %H:%M:%S.%f} UTC  {offence.text}")
            for line in offence.lines:
                says = " ".join(f"{key}={value}" for key, value in line.says.items())
                mark = ">" if line.place == 0 and offence.seq is not None else " "
                where = f"{line.writer} {line.epoch}.{line.seq}"
                console.print(f"  {mark} {where}  {line.at:%H:%M:%S.%f}  {line.kind}  {says}")
        if verdict.replay:
            console.print(f"  replay it:  {verdict.replay}")
