"""Why was a member removed? From the journals: which node gave up which, on what evidence, and who knew when.

    the removal     the last row, up to the time asked for, in which a host lost sight of the subject
    its because     accuser, accused and grounds, on that row
    the evidence    what the accuser's own journal says of that link just before
    the way         which servers passed it on, and which programs were told, in order

The wording is that of `rostra why`, which asks running nodes; here the journals of all of them are read.
Times are those of each writer's own clock.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from rostra.history.places import inside, name_of
from rostra.history.shape import shaped
from rostra.journal.schema import SIGHT
from rostra.names import ROOT, Domain, enclosing

BEFORE_S: Final = 15.0
AFTER_S: Final = 60.0
"""What happened this long before and after a removal may belong to it."""

WHY: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("at", TimestampType(), nullable=False),
        StructField("node", StringType(), nullable=False),  # who saw or did it
        StructField("epoch", LongType(), nullable=False),  # with `seq`: where it stands in its journal
        StructField("seq", LongType(), nullable=False),
        StructField("what", StringType(), nullable=False),  # removal | evidence | passed | told | home | back
        StructField("text", StringType(), nullable=False),
    ]
)


def removals(events: DataFrame, subject: str, at: datetime, seen_from: str = ROOT) -> DataFrame:
    """The row in which the subject was last lost, up to a time, by each host inside a place: with its cause
    and, if a link was given up, accuser and accused. A subject is an endpoint (any incarnation, or one); or a
    host or domain, which is lost when all members inside are lost together: it, or a domain around it, and
    not just a part of it."""
    around = F.col("domain").isin(*enclosing(Domain(subject)))
    as_one = ((F.col("kind") == "without") & around) | ((F.col("kind") == "only") & ~around)
    lost = events.where(as_one if "/" not in subject else F.lit(True)).where(
        F.col("kind").isin(*SIGHT)
        & F.col("news")
        & (F.col("change") == "left")
        & (F.col("cause") != "unfollowed")
        & (F.col("at") <= F.lit(at))
        & concerns(subject, F.col("member"))
        & inside(seen_from, F.col("writer"))
    )
    columns = ("world", "writer", "epoch", "seq", "at", "kind", "group", "member", "life", "stamp", "cause")
    latest = F.max_by(F.struct(*columns, "accuser", "accused", "what", "domain"), F.struct("at", "seq"))
    return lost.groupBy("world", F.col("writer").alias("by")).agg(latest.alias("row")).select("row.*")


def why(events: DataFrame, subject: str, at: datetime, seen_from: str = ROOT) -> DataFrame:
    """The story of the last removal up to a time, as an ordered table (`WHY`): who knew what when.

    Empty if no host inside `seen_from` lost sight of the subject before that time.
    """
    last = removals(events, subject, at, seen_from)
    newest = F.max_by(F.struct(*(F.col(name) for name in last.columns)), F.struct("at", "seq"))
    the = F.broadcast(
        last.groupBy("world")
        .agg(newest.alias("the"))
        .select(
            "world",
            F.col("the.at").alias("the_at"),
            F.col("the.accuser").alias("the_accuser"),
            F.col("the.accused").alias("the_accused"),
            F.col("the.member").alias("the_member"),
        )
    )
    near = events.join(the, "world").where(
        (F.unix_micros("at") >= F.unix_micros("the_at") - int(BEFORE_S * 1e6))
        & (F.unix_micros("at") <= F.unix_micros("the_at") + int(AFTER_S * 1e6))
    )
    pair = F.array("the_accuser", "the_accused")
    kind = F.col("kind")
    on_link = F.array_contains(pair, F.col("writer")) & F.array_contains(pair, F.col("peer"))
    same_because = (F.col("accuser") == F.col("the_accuser")) & (F.col("accused") == F.col("the_accused"))
    is_endpoint = F.lit("/" in subject)
    # Of a domain one line for each host and group is enough; of an endpoint, only the one that was lost.
    about = F.when(is_endpoint, F.col("member") == F.col("the_member")).otherwise(
        concerns(subject, F.col("member")) & (F.col("nth") == 0)
    )
    came_back = is_endpoint | (F.col("cause") == "merge")
    what = (
        F.when(kind.isin("link-suspected", "link-down", "link-trusted") & on_link, "evidence")
        .when((kind == "link-up") & on_link & (F.col("at") > F.col("the_at")), "back")
        .when((kind == "domain-failed") & same_because, "passed")
        .when(kind.isin("closed", "member-left", "program-suspected") & about & is_endpoint, "home")
        .when(kind.isin("without", "only") & same_because & F.col("news") & about, "told")
        .when(
            kind.isin("left", "absolute") & about & is_endpoint & (F.col("change") == "left") & F.col("news"),
            "told",
        )
        .when(
            (kind == "joined") & about & F.col("news") & (F.col("at") > F.col("the_at")) & came_back, "back"
        )
    )
    story = near.withColumn("step", what).where(F.col("step").isNotNull())
    return shaped(story, WHY, node="writer", what="step", text=_text()).orderBy("world", "at", "node", "seq")


def concerns(subject: str, member: Column) -> Column:
    """Is this endpoint the subject, an incarnation of it, or inside it?"""
    if "#" in subject:
        return member == subject
    if "/" in subject:
        return name_of(member) == subject
    return inside(subject, member)


def _text() -> Column:
    kind, col = F.col("kind"), F.col
    because = F.concat(
        F.lit(", because "), col("accuser"), F.lit(" gave up "), col("accused"), F.lit(": "), col("what")
    )
    place = F.when(col("inside"), F.concat(F.lit("only "), col("domain"), F.lit(" remains"))).otherwise(
        F.concat(col("domain"), F.lit(" is lost"))
    )
    cause = F.coalesce("cause", F.lit("left"))
    return (
        F.when(
            kind == "link-suspected",
            _joined(
                "suspected ",
                col("peer"),
                ": silent ",
                _seconds("silence_s"),
                ", usually heard every ",
                _seconds("expected_s"),
                " (phi ",
                F.format_number("phi", 1),
                ", limit ",
                F.format_number("threshold", 0),
                ")",
            ),
        )
        .when(
            (kind == "link-down") & (col("what") == "silent") & col("silence_s").isNotNull(),
            _joined(
                "gave up ",
                col("peer"),
                ": silent ",
                _seconds("silence_s"),
                ", limit ",
                _seconds("limit_s"),
                F.when(col("channel_open"), "").otherwise("; the connection was closed"),
            ),
        )
        .when(
            kind == "link-down",
            _joined("gave up ", col("peer"), ": ", F.coalesce("what", F.lit("no reason given"))),
        )
        .when(kind == "link-trusted", _joined("heard ", col("peer"), " again in time"))
        .when(kind == "link-up", _joined("linked with ", col("peer")))
        .when(kind == "link-moved", _joined("linked with another replica of ", col("peer")))
        .when(
            kind == "domain-failed",
            F.concat(_joined("told ", F.coalesce("peer", F.lit("its neighbours")), ": "), place, because),
        )
        .when(
            kind == "closed",
            _joined(
                col("member"),
                F.when(col("cause") == "leave", " was closed by its program").otherwise(
                    " is gone: its program ended without saying goodbye"
                ),
                F.coalesce(F.concat(F.lit(" ("), col("what"), F.lit(")")), F.lit("")),
            ),
        )
        .when(kind == "member-left", _joined(col("member"), " left ", col("group"), " (", cause, ")"))
        .when(
            kind == "program-suspected",
            _joined(col("member"), " stalled: a ping was unanswered for ", _seconds("silence_s")),
        )
        .when(
            kind.isin("without", "only"),
            F.concat(_joined("lost ", col("member"), " in ", col("group"), ": "), place, because),
        )
        .when(
            col("change") == "left",
            _joined("was told that ", col("member"), " left ", col("group"), " (", cause, ")"),
        )
        .otherwise(_joined("sees ", col("member"), " in ", col("group"), " again (", cause, ")"))
    )


def _joined(*parts: Column | str) -> Column:
    return F.concat(*(F.coalesce(F.lit(p) if isinstance(p, str) else p, F.lit("?")) for p in parts))


def _seconds(name: str) -> Column:
    """A duration for people, as `rostra why` writes it."""
    value = F.col(name)
    return (
        F.when(value < 0.095, F.format_string("%.2f s", value))
        .when(value < 9.95, F.format_string("%.1f s", value))
        .otherwise(F.format_string("%.0f s", value))
    )
