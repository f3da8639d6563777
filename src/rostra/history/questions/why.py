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

from rostra.history.places import inside, name_of
from rostra.history.shape import said, schema, shaped
from rostra.journal.schema import SIGHT
from rostra.names import ROOT, Domain, enclosing

BEFORE_S: Final = 15.0
AFTER_S: Final = 60.0
"""What happened this long before and after a removal may belong to it."""

WHY: Final = schema(
    world="text",
    at="time",
    node="text",  # who saw or did it
    epoch="int64",  # with `seq`: where it stands in its journal
    seq="int64",
    what="text",  # removal | evidence | passed | told | home | back
    text="text",
)


def removals(events: DataFrame, subject: str, at: datetime, seen_from: str = ROOT) -> DataFrame:
    """The row in which the subject was last lost, up to a time, by each host inside a place: with its cause
    and, if a link was given up, accuser and accused. A subject is an endpoint (any incarnation, or one); or a
    host or domain, which is lost when all members inside are lost together: it, or a domain around it, and
    not just a part of it."""
    return _latest(_lost(events, subject, at, seen_from), "world", "writer")


def last_removal(events: DataFrame, subject: str, at: datetime, seen_from: str = ROOT) -> DataFrame:
    """Of these the last one in each world."""
    return _latest(_lost(events, subject, at, seen_from), "world")


def _lost(events: DataFrame, subject: str, at: datetime, seen_from: str) -> DataFrame:
    around = F.col("domain").isin(*enclosing(Domain(subject)))
    as_one = ((F.col("kind") == "without") & around) | ((F.col("kind") == "only") & ~around)
    return events.where(as_one if "/" not in subject else F.lit(True)).where(
        F.col("kind").isin(*SIGHT)
        & F.col("news")
        & (F.col("change") == "left")
        & (F.col("cause") != "unfollowed")
        & (F.col("at") <= F.lit(at))
        & concerns(subject, F.col("member"))
        & inside(seen_from, F.col("writer"))
    )


def _latest(lost: DataFrame, *of: str) -> DataFrame:
    columns = ("world", "writer", "epoch", "seq", "at", "kind", "group", "member", "life", "stamp", "cause")
    latest = F.max_by(F.struct(*columns, "accuser", "accused", "what", "domain"), F.struct("at", "seq"))
    by = (F.col(name).alias(f"by_{name}") for name in of)
    return lost.groupBy(*by).agg(latest.alias("row")).select("row.*")


def why(events: DataFrame, subject: str, at: datetime, seen_from: str = ROOT) -> DataFrame:
    """The story of the last removal up to a time, as an ordered table (`WHY`): who knew what when.

    Empty if no host inside `seen_from` lost sight of the subject before that time.
    """
    return why_removed(events, last_removal(events, subject, at, seen_from), subject)


def why_removed(events: DataFrame, removed: DataFrame, subject: str) -> DataFrame:
    """The same (`WHY`). `events` are all rows around it, `removed` is its `last_removal`."""
    names = {name: f"the_{name}" for name in ("at", "accuser", "accused", "member")}
    the = F.broadcast(removed.select("world", *names).withColumnsRenamed(names))
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
    place = F.when(col("inside"), said("only {domain} remains")).otherwise(said("{domain} is lost"))
    because = said("{place}, because {accuser} gave up {accused}: {what}", place=place)
    closed = F.when(col("channel_open"), "").otherwise("; the connection was closed")
    how = F.when(col("cause") == "leave", "was closed by its program").otherwise(
        "is gone: its program ended without saying goodbye"
    )
    cause = F.coalesce("cause", F.lit("left"))
    silent = (col("what") == "silent") & col("silence_s").isNotNull()
    return (
        F.when(
            kind == "link-suspected",
            said(
                "suspected {peer}: silent {silence_s:s}, usually heard every {expected_s:s} (phi"
                " {phi:1}, limit"
                " {threshold:0})"
            ),
        )
        .when(
            (kind == "link-down") & silent,
            said("gave up {peer}: silent {silence_s:s}, limit {limit_s:s}{closed}", closed=closed),
        )
        .when(
            kind == "link-down",
            said("gave up {peer}: {why}", why=F.coalesce("what", F.lit("no reason given"))),
        )
        .when(kind == "link-trusted", said("heard {peer} again in time"))
        .when(kind == "link-up", said("linked with {peer}"))
        .when(kind == "link-moved", said("linked with another replica of {peer}"))
        .when(
            kind == "domain-failed",
            said("told {to}: {because}", to=F.coalesce("peer", F.lit("its neighbours")), because=because),
        )
        .when(kind == "closed", said("{member} {how}[ ({what})]", how=how))
        .when(kind == "member-left", said("{member} left {group} ({cause})", cause=cause))
        .when(kind == "program-suspected", said("{member} stalled: a ping was unanswered for {silence_s:s}"))
        .when(kind.isin("without", "only"), said("lost {member} in {group}: {because}", because=because))
        .when(
            col("change") == "left",
            said("was told that {member} left {group} ({cause})", cause=cause),
        )
        .otherwise(said("sees {member} in {group} again ({cause})", cause=cause))
    )
