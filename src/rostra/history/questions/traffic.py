"""Messages on links of each level, and how many were needed.

A hierarchy pays off if a change reaches each server on the way to a follower once, and no other server. For
every change at home the journals say which hosts were told, and so which servers had to carry it: those
messages are `needed`. All others went to servers without followers (unconfirmed interest counts as a
follower, so the first joins of a group cost more), were repetitions, or announced a part of the world again
after a cut.

    h1 ── c1 ── fr ═══ de ── c3 ── h5     six servers, five messages: the level of a link is that of its
                                          upper end, and 0 is the root
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rostra.history.places import enclosing, host_of
from rostra.history.shape import schema, shaped

TRAFFIC_COST: Final = schema(
    world="text",
    link_level="int32",  # of the links' upper ends
    message="text",
    messages="int64",
    bytes="int64?",  # where they were counted
    changes="int64?",  # joins, leaves, questions or failures behind it
    each="double?",  # messages per change, at this level
    needed="double?",  # what the hierarchy had to send, joins and leaves
    ratio="double?",  # messages of needed
)

CAUSES: Final = {
    "EndpointsJoined": ("member-joined",),
    "EndpointLeft": ("member-left",),
    "InterestChanged": ("member-joined", "member-left"),
    "ResolveRequest": ("resolved", "followed"),
    "ResolveReply": ("resolved", "followed"),
    "DomainFailed": ("link-down",),
}
"""Which rows stand for the cause of a message. A host that begins to follow a group asks for its first
list."""


def traffic(events: DataFrame, one_in: int = 1) -> DataFrame:
    """Messages per level and kind against what the hierarchy had to send (`TRAFFIC_COST`).

    `needed` looks at every change and all hosts that were told of it; with `one_in`, at one in so many
    changes, chosen by hash, and multiplies.
    """
    sent = (
        events.where(F.col("kind") == "sent")
        .groupBy("world", "level", "message")
        .agg(F.sum("count").alias("messages"), F.sum("bytes").alias("bytes"))
    )
    causes = F.create_map(
        *(each for message, kinds in CAUSES.items() for each in (F.lit(message), F.array(*map(F.lit, kinds))))
    )
    counted = (
        events.where(F.col("kind").isin(*{k for kinds in CAUSES.values() for k in kinds}))
        .groupBy("world", "kind")
        .agg(F.count(F.lit(1)).alias("rows"))
    )
    behind = (
        sent.select("world", "level", "message", F.explode(causes[F.col("message")]).alias("kind"))
        .join(F.broadcast(counted), ["world", "kind"])
        .groupBy("world", "level", "message")
        .agg(F.sum("rows").alias("changes"))
    )
    place = ["world", "level", "message"]
    return shaped(
        sent.join(behind, place, "left").join(needed(events, one_in), place, "left"),
        TRAFFIC_COST,
        link_level="level",
        each=F.col("messages") / F.col("changes"),
        ratio=F.col("messages") / F.col("needed"),
    )


def needed(events: DataFrame, one_in: int = 1) -> DataFrame:
    """Messages that joins and leaves had to cost, per level: one to each server on the way from home to the
    hosts that were told."""
    told = events.where(
        F.col("kind").isin("joined", "left")
        & F.col("cause").isin("join", "leave", "crash")
        & F.col("stamp").isNotNull()
        & F.col("member").isNotNull()
    ).select(
        "world",
        F.xxhash64("world", "group", "member", "life", "stamp").alias("change"),
        F.when(F.col("kind") == "joined", "EndpointsJoined").otherwise("EndpointLeft").alias("message"),
        host_of(F.col("member")).alias("home"),
        "writer",
    )
    chosen = told if one_in == 1 else told.where(F.pmod("change", F.lit(one_in)) == 0)
    reached = chosen.where(F.col("home") != F.col("writer")).select(
        "world", "change", "message", F.explode(_reached(F.col("home"), F.col("writer"))).alias("reached")
    )
    return (
        reached.select("world", "change", "message", "reached.level", "reached.server")
        .distinct()
        .groupBy("world", "level", "message")
        .agg((F.count(F.lit(1)) * float(one_in)).alias("needed"))
    )


def _reached(home: Column, there: Column) -> Column:
    """Every server that a message from one host to another comes to, with the level of the link to it."""
    up, down = enclosing(home), enclosing(there)
    shared = F.size(F.array_intersect(up, down))  # at least the root
    neighbours = shared == F.size(up) - 1  # hosts of one cluster meet in its server

    def step(server: Column, level: Column) -> Column:
        return F.struct(server.alias("server"), level.cast("int").alias("level"))

    def part(path: Column, first: Column, count: Column) -> Column:
        return F.slice(path, first, F.greatest(count, F.lit(0)))

    climbing = F.transform(
        part(up, shared + 1, F.size(up) - shared - 1), lambda server, i: step(server, shared + i)
    )
    descending = F.transform(
        part(down, shared + 1, F.size(down) - shared),
        lambda server, i: step(server, shared + F.greatest(i - 1, F.lit(0))),
    )
    in_cluster = F.array(step(F.element_at(up, -2), shared - 1), step(there, shared - 1))
    return F.when(neighbours, in_cluster).otherwise(F.concat(climbing, descending))
