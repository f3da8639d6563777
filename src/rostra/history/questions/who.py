"""Who was in a group at a given time, as seen from a given place.

The answer is what the hosts of the place that followed the group saw, each by its own clock. They may
disagree, rightly so after a cut and for moments at any change: then a member is `agreed` by some of them
only. If no host there followed the group the answer is empty too: that is *cannot tell*, not *nobody*.
`followers` tells the two apart.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.places import host_of, inside
from rostra.history.questions.follows import follows
from rostra.history.questions.lives import lives
from rostra.history.questions.stays import lasting, stays
from rostra.history.shape import schema, shaped
from rostra.names import ROOT

MARKS: Final = ("started", "heartbeat", "closing")

WHO: Final = schema(
    world="text",
    group="text",
    member="text",
    host="text",  # where the member is
    since="time",  # when the first of the hosts saw it come
    seen_by="int64",  # how many hosts of the place saw it
    followed_by="int64",  # how many hosts of the place followed the group
    agreed="bool",  # all of them did
    unseen_by="texts",  # those that did not
)

FOLLOWERS: Final = schema(
    world="text",
    seen_by="text",  # path of a host that followed the group then
    epoch="int64",
)


def followers(
    events: DataFrame, group: str, at: datetime, seen_from: str = ROOT, lived: DataFrame | None = None
) -> DataFrame:
    """The hosts inside a place that followed a group at that time, and whose journals reach so far
    (`FOLLOWERS`). With the hosts' `lived`, rows of `follows` are enough of the events."""
    narrowed = events.where((F.col("group") == group) & inside(seen_from, F.col("writer")))
    lived = lives(events.where(F.col("kind").isin(*MARKS))) if lived is None else lived
    return shaped(follows(narrowed, lived).where(lasting(F.lit(at), "from_at", "until_at")), FOLLOWERS)


def who(events: DataFrame, group: str, at: datetime, seen_from: str = ROOT) -> DataFrame:
    """The members of a group at a time, one row each (`WHO`), as the hosts inside `seen_from` saw them."""
    told = events.where((F.col("group") == group) & inside(seen_from, F.col("writer")))
    lived = lives(events.where(F.col("kind").isin(*MARKS)))
    return who_stayed(stays(told, lived), followers(events, group, at, seen_from, lived), group, at)


def who_stayed(stays: DataFrame, asked: DataFrame, group: str, at: datetime) -> DataFrame:
    """The same (`WHO`) from the `stays` that these `followers` saw: nothing has to be worked out."""
    known = asked.groupBy("world").agg(
        F.count(F.lit(1)).alias("followed_by"), F.array_sort(F.collect_list("seen_by")).alias("hosts")
    )
    members = (
        stays.where((F.col("group") == group) & lasting(F.lit(at)))
        .join(F.broadcast(asked), ["world", "seen_by", "epoch"], "left_semi")
        .groupBy("world", "member")
        .agg(F.min("joined_at").alias("since"), F.collect_set("seen_by").alias("by"))
    )
    return shaped(
        members.join(F.broadcast(known), "world"),
        WHO,
        group=F.lit(group),
        host=host_of(F.col("member")),
        seen_by=F.size("by"),
        agreed=F.size("by") == F.col("followed_by"),
        unseen_by=F.array_except("hosts", "by"),
    )
