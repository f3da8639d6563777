"""Views of agreed groups: who was in one, by its number or at a time, and why a member was removed.

    view_states    every view that members of a host were given, whole, and when they were blocked
    who_view       the members of view n, one row each; in a partition one number may stand for two views
    who_agreed     the members of the last view that each host of a place had at a time
    why_agreed     the story of a removal: which server noticed it, on what evidence, which change was agreed,
                   which view it made, with which fence, and who was given it when

They take rows of kinds `view`, `view-agreed`, `blocked` and `isolated` (the table `views`), the last one also
those about links.
"""

from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.arrow import arrow_schema
from rostra.history.places import host_of, inside
from rostra.history.questions.why import AFTER_S, BEFORE_S, WHY, concerns
from rostra.history.shape import said, schema, shaped
from rostra.journal.view_lists import whole_views
from rostra.names import ROOT

VIEW_STATES: Final = schema(
    world="text",
    seen_by="text",  # path of the host
    epoch="int64",
    seq="int64",
    at="time",
    group="text",
    number="int64",
    view="text",  # its id
    fence="int64?",
    members="texts?",  # null: rows before it are missing
    blocked="text?",  # why, if nothing was agreed from here on
)

WHO_VIEW: Final = schema(
    world="text",
    group="text",
    view="text",  # id: number.revision, and the proposal
    rank="int64",
    member="text",
    host="text",
    fence="int64?",
    given_at="time",  # to the first host of the place
    hosts="int64",  # of the place that had it
    blocked="bool",  # members on some of them were blocked then
)

_GIVEN: Final = (
    *("world", "writer", "epoch", "seq", "at", "kind", "group", "nth", "of", "member", "change", "news"),
    *("first", "last", "count", "view", "fence", "digest", "what"),
)


def view_states(views: DataFrame, group: str, seen_from: str = ROOT) -> DataFrame:
    """What members on the hosts of a place had, one row for each view and each time that they were blocked
    (`VIEW_STATES`)."""
    rows = views.where(
        F.col("kind").isin("view", "blocked") & (F.col("group") == group) & inside(seen_from, F.col("writer"))
    ).select(*_GIVEN)
    return rows.groupBy("world", "writer").applyInArrow(_states, VIEW_STATES)


def _states(rows: pa.Table) -> pa.Table:
    """Of one host and group."""
    ordered = rows.sort_by([("epoch", "ascending"), ("seq", "ascending")]).to_pylist()
    found = [_state(view.row, view.members) for view in whole_views(ordered)]
    found += [_state(row, None) for row in ordered if row["kind"] == "blocked"]
    return pa.Table.from_pylist(found, arrow_schema(VIEW_STATES))


def _state(row: Any, members: tuple[str, ...] | None) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("world", "epoch", "seq", "at", "group", "view", "fence")},
        "seen_by": row["writer"],
        "number": row["first"],
        "members": members,
        "blocked": row["what"] if row["kind"] == "blocked" else None,
    }


def who_view(views: DataFrame, group: str, number: int, seen_from: str = ROOT) -> DataFrame:
    """The members of the view of this number (`WHO_VIEW`), as it was given to members in a place; in its last
    revision."""
    had = view_states(views, group, seen_from).where(
        (F.col("number") == number) & F.col("members").isNotNull()
    )
    return _listed(had)


def who_agreed(views: DataFrame, group: str, at: datetime, seen_from: str = ROOT) -> DataFrame:
    """The members of the last view that each host of a place had at a time (`WHO_VIEW`). Two views: the hosts
    were in two partitions, or the next one was on its way."""
    so_far = view_states(views, group, seen_from).where(F.col("at") <= F.lit(at))
    story = Window.partitionBy("world", "seen_by").orderBy("epoch", "seq")
    last = Window.partitionBy("world", "seen_by").orderBy(F.desc("epoch"), F.desc("seq"))
    return _listed(
        so_far.withColumn("members", F.last("members", ignorenulls=True).over(story))
        .withColumn("nth", F.row_number().over(last))
        .where((F.col("nth") == 1) & F.col("members").isNotNull())
    )


def _listed(had: DataFrame) -> DataFrame:
    revision = F.split(F.substring_index("view", " ", 1), r"\.")[1].cast("long")
    proposal = F.substring_index("view", " ", -1)
    latest = Window.partitionBy("world", "number", "proposal").orderBy(F.desc("revision"))
    lists = (
        had.withColumn("revision", revision)
        .withColumn("proposal", proposal)
        .withColumn("newest", F.rank().over(latest))
        .where(F.col("newest") == 1)
        .groupBy("world", "group", "view")
        .agg(
            F.first("members").alias("members"),
            F.max("fence").alias("fence"),
            F.min("at").alias("given_at"),
            F.count_distinct("seen_by").alias("hosts"),
            F.max(F.col("blocked").isNotNull()).alias("blocked"),
        )
    )
    each = lists.select("*", F.posexplode("members").alias("rank", "member"))
    return shaped(each, WHO_VIEW, host=host_of(F.col("member"))).orderBy("world", "view", "rank")


def agreed_removals(views: DataFrame, subject: str, at: datetime, seen_from: str = ROOT) -> DataFrame:
    """The row of a view in which the subject was last lost, up to a time, by members in a place: an endpoint,
    or any of a host or domain."""
    lost = views.where(
        (F.col("kind") == "view")
        & F.col("news")
        & (F.col("change") == "left")
        & (F.col("at") <= F.lit(at))
        & concerns(subject, F.col("member"))
        & inside(seen_from, F.col("writer"))
    )
    row = F.struct("at", "seq", "group", "view", "member")
    return lost.groupBy("world").agg(F.max(row).alias("the")).select("world", "the.*")


def why_agreed(events: DataFrame, removed: DataFrame) -> DataFrame:
    """The story of the last removal (`WHY`). `events` are all rows around it, `removed` is
    `agreed_removals`."""
    the = removed.select(
        "world",
        F.col("at").alias("the_at"),
        F.col("group").alias("the_group"),
        F.col("view").alias("the_view"),
        F.col("member").alias("the_member"),
    )
    near = events.join(F.broadcast(the), "world").where(
        (F.unix_micros("at") >= F.unix_micros("the_at") - int(BEFORE_S * 1e6))
        & (F.unix_micros("at") <= F.unix_micros("the_at") + int(AFTER_S * 1e6))
    )
    kind, col = F.col("kind"), F.col
    made = (
        near.where((kind == "view-agreed") & (col("view") == col("the_view")))
        .groupBy("world")
        .agg(F.first("accuser").alias("noticed_by"), F.first("accused").alias("lost_server"))
    )
    story = near.join(F.broadcast(made), "world", "left")
    is_first = col("nth") == 0
    of_group = col("group") == col("the_group")
    before = col("at") <= col("the_at")
    of_server = (col("peer") == col("lost_server")) & (col("writer") == col("noticed_by"))
    of_host = col("lost_server").isNull() & inside(col("peer"), col("the_member"))
    what = (
        F.when(kind.isin("link-suspected", "link-down") & before & (of_server | of_host), "evidence")
        .when((kind == "isolated") & (col("peer") == col("lost_server")), "evidence")
        .when((kind == "view-agreed") & is_first & (col("view") == col("the_view")), "agreed")
        .when((kind == "view") & is_first & of_group & (col("view") == col("the_view")), "told")
        .when((kind == "blocked") & of_group & inside(host_of(col("the_member")), col("writer")), "home")
        .when(kind.isin("closed", "member-left") & (col("member") == col("the_member")), "home")
        .when(
            (kind == "view")
            & col("news")
            & (col("change") == "joined")
            & of_group
            & (col("member") == col("the_member"))
            & (col("at") > col("the_at")),
            "back",
        )
    )
    told = story.withColumn("step", what).where(col("step").isNotNull())
    return shaped(told, WHY, node="writer", what="step", text=_text()).orderBy("world", "at", "node", "seq")


def _text() -> Column:
    kind = F.col("kind")
    cut = F.when(F.size("cut") > 0, F.array_join("cut", " "))
    silent = "[: silent {silence_s:1} s, limit {limit_s:1} s]"
    return (
        F.when(
            kind == "view-agreed",
            said(
                "set({domain}) agreed on view {first} of {group}, because {cause}[: {accused} is lost];"
                " noticed by {accuser}, coordinated by {peer}, acknowledged by {many} servers"
                "[, without {out}][, fence {fence}][; it must not go on: {what}]",
                many=F.size("acks"),
                out=cut,
            ),
        )
        .when(kind == "isolated", said("isolated {peer}: {what}"))
        .when(kind == "link-suspected", said(f"suspected {{peer}}{silent}"))
        .when(kind == "link-down", said(f"gave up {{peer}}, {{what}}{silent}"))
        .when(kind == "blocked", said("members here are blocked in {group}: {what}"))
        .when(kind == "closed", said("{member} is gone ({cause})"))
        .when(kind == "member-left", said("{member} left {group} ({cause})"))
        .when(F.col("step") == "back", said("{member} is in view {first} of {group}[, fence {fence}]"))
        .otherwise(said("was given view {first} of {group}[, fence {fence}]"))
    )
