"""Who saw whom in which group, from when until when.

A **stay** is unbroken sight: one host (`seen_by`) sees one member in one group. The same member has as many
stays as hosts see it, and they rightly differ: after a cut one side keeps a member that the other has lost.

    joined ────────────── left              ended by leave | crash | without | only | unlisted | unfollowed
    joined ────────────── closing           the host that saw it said goodbye
    joined ──────── last row ┤              unknown: the host's own journal ends here
    joined ──────────────────────▶          it lasts: `left_at` and `ended_by` are null

A **membership** is the truth at home: the same table, from what the member's own agent accepted.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.arrow_fast_path import answered, origin_of
from rostra.history.questions.arrow_fast_path import Stays
from rostra.history.questions.lives import ends, lives
from rostra.history.schemas import STAYS
from rostra.history.shape import shaped
from rostra.journal.schema import SIGHT


def sight(events: DataFrame) -> DataFrame:
    """The rows that change what a host sees, and no others."""
    return events.where(
        F.col("kind").isin(*SIGHT) & F.col("news") & F.col("change").isin("joined", "left")
    ).where(F.col("member").isNotNull())


def stays(events: DataFrame, lived: DataFrame | None = None) -> DataFrame:
    """One row per unbroken stay (`STAYS`), as each host saw it.

    `lived` are the `lives` of these events, where something better is known of them.

    A stay that a journal's hole falls into may have been broken there: see `holes`.

    Straight from a journal's files there is nothing to sort. Else it is one exchange by a 64-bit hash of
    host, life, group and member, and one sort by two numbers; the names travel only with the row that begins
    a stay. (Two different keys with one hash would be taken for one: of ten million keys, that happens once
    in 400 000 histories.)
    """
    lived = lives(events) if lived is None else lived
    origin = origin_of(events, by_life=True)
    if origin is None:
        return _intervals(sight(events), lived)
    return ended_with_lives(answered(events, origin, Stays(), STAYS), lived)


def memberships(events: DataFrame, lived: DataFrame | None = None) -> DataFrame:
    """One row per membership at home (`STAYS`): `seen_by` is the member's own host. This is the truth."""
    home = events.where(F.col("kind").isin("member-joined", "member-left")).withColumn(
        "change", F.when(F.col("kind") == "member-joined", "joined").otherwise("left")
    )
    caused = home.withColumn(
        "cause", F.coalesce("cause", F.when(F.col("change") == "joined", "join"), F.lit("leave"))
    )
    return _intervals(caused, lives(events) if lived is None else lived)


def lasting(at: Column, begins: str = "joined_at", ends: str = "left_at") -> Column:
    """Does this stay last at that time? What was seen when it ended is over in that very moment; what ended
    because the journal does, was seen then still."""
    known = F.col("ended_by").isin("closing", "unknown")
    return (F.col(begins) <= at) & (F.col(ends).isNull() | (F.col(ends) > at) | (known & (F.col(ends) == at)))


def ended_with_lives(found: DataFrame, lived: DataFrame) -> DataFrame:
    """The same stays; those that no row ended are ended as the life of their host was, by what is known of
    it."""
    lasts = F.col("left_seq").isNull()
    return shaped(
        found.withColumn("life_key", F.xxhash64("world", "seen_by", "epoch")).join(
            F.broadcast(_ends(lived)), "life_key", "left"
        ),
        STAYS,
        left_at=F.when(lasts, F.coalesce("life_end", "left_at")).otherwise(F.col("left_at")),
        ended_by=F.when(lasts, F.col("life_ended_by")).otherwise(F.col("ended_by")),
    )


def _ends(lived: DataFrame) -> DataFrame:
    key = F.xxhash64("world", "writer", "epoch").alias("life_key")
    return ends(lived).select(key, "life_end", "life_ended_by")


def _intervals(changes: DataFrame, lived: DataFrame) -> DataFrame:
    is_join = F.col("change") == "joined"
    names = ("world", "writer", "epoch", "group", "member", "life", "stamp", "cause")
    packed = changes.select(
        F.xxhash64("world", "writer", "epoch", "group", "member").alias("key"),
        "seq",
        "at",
        is_join.alias("is_join"),
        F.when(~is_join, F.col("cause")).alias("ended_by"),
        F.when(is_join, F.struct(*names)).alias("of"),
    )
    story = Window.partitionBy("key").orderBy("seq")
    intervals = (
        packed.withColumn("next_at", F.lead("at").over(story))
        .withColumn("next_seq", F.lead("seq").over(story))
        .withColumn("next_is_join", F.lead("is_join").over(story))
        .withColumn("next_by", F.lead("ended_by").over(story))
        .where("is_join")
        .withColumn("life_key", F.xxhash64("of.world", "of.writer", "of.epoch"))
    )
    return shaped(
        intervals.join(F.broadcast(_ends(lived)), "life_key", "left"),
        STAYS,
        **{name: f"of.{name}" for name in ("world", "epoch", "group", "member", "life", "stamp")},
        seen_by="of.writer",
        joined_seq="seq",
        joined_at="at",
        joined_by="of.cause",
        left_seq="next_seq",
        left_at=F.coalesce("next_at", "life_end"),
        ended_by=F.when(F.col("next_is_join"), F.lit("joined again"))
        .when(F.col("next_seq").isNotNull(), F.coalesce("next_by", F.lit("left")))
        .otherwise(F.col("life_ended_by")),
    )
