"""Every table's columns, under a name.

`EVENTS` is made from the journal's own list of columns, so the two cannot differ. `rostra history ingest`
makes the other tables from it; schemas of answers are in the modules of their questions.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from rostra.history.shape import TYPES, schema
from rostra.journal.schema import COLUMNS, Type

EVENTS: Final = StructType(
    [StructField(column.name, TYPES[column.type], nullable=not column.required) for column in COLUMNS]
)
"""The journal as it was received: each row once."""


def columns_of(*names: str) -> StructType:
    """A part of the journal's columns, in the order given."""
    return StructType([EVENTS[name] for name in names])


WHO_AND_WHEN: Final = ("world", "writer", "epoch", "seq", "at", "virtual_s", "kind")

EVIDENCE: Final = (
    *("accuser", "accused", "what", "silence_s", "expected_s"),
    *("phi", "threshold", "limit_s", "own_lateness_s", "channel_open"),
)

NOTICES: Final = columns_of(
    *WHO_AND_WHEN,
    *("nth", "of", "change", "news", "group", "member", "life", "stamp", "observers"),
    *("domain", "inside", "cause", "accuser", "accused", "what", "count", "period", "number"),
)
"""What programs were told, one row per member concerned."""

SUSPICIONS: Final = columns_of(*WHO_AND_WHEN, "peer", "member", *EVIDENCE, "latency_us")
"""Who was overdue, who was given up and who came back, with the evidence."""

TRAFFIC: Final = columns_of(*WHO_AND_WHEN, "role", "peer", "level", "message", "count", "bytes")
"""Messages per link, direction (`kind` is sent or received) and kind of message, since the last such row."""

DELIVERIES: Final = columns_of(
    *WHO_AND_WHEN,
    *("group", "member", "first", "last", "count", "bytes", "observers", "told"),
    *("number", "answered_by", "latency_us", "cause"),
)
"""What groups said: runs of a sender's messages that receivers got, and how those that were lost came."""

VIEWS: Final = columns_of(
    *WHO_AND_WHEN,
    *("role", "nth", "of", "group", "first", "last", "member", "life", "stamp", "change", "news", "count"),
    *("observers", "told", "domain", "peer", "cause", "accuser", "accused", "what", "own_lateness_s"),
    *("view", "base", "fence", "digest", "acks", "cut"),
)
"""Agreed views, as programs were given them and as servers agreed on them; who was blocked, and isolated."""

FOLLOWS: Final = columns_of(
    *WHO_AND_WHEN,
    *("nth", "of", "change", "news", "group", "member", "life", "stamp", "observers", "told", "cause"),
)
"""Endpoints that are to be told of a group's changes from then on, or no longer; and whom the last of a host
loses from sight by that."""

MEMBERS: Final = columns_of(*WHO_AND_WHEN, "role", "group", "member", "life", "stamp", "cause")
"""Joins and leaves that members' own agents accepted: the truth."""

STAYS: Final = schema(
    world="text",
    seen_by="text",  # the writer; after a cut they rightly disagree
    epoch="int64",  # of the writer; its sight begins anew with each
    group="text",
    member="text",
    life="int64?",
    stamp="int64?",
    joined_seq="int64",  # the row that began it: world, seen_by, epoch, seq
    joined_at="time",
    joined_by="text?",  # cause of the beginning: join | merge | snapshot ...
    left_seq="int64?",  # the row that ended it; null while it lasts, and if no row did
    left_at="time?",  # null while it lasts; of an unseen end, the last that is known
    ended_by="text?",  # leave | crash | without | only ... | closing | unknown
)
"""One row per unbroken stay of a member in a group, as one writer saw it.

`closing` is a writer that ended cleanly, `unknown` one whose next epoch began without a `closing` row: what
it saw after its last row is not known.
"""

HOLES: Final = schema(
    world="text",
    writer="text",
    epoch="int64",
    first="int64",
    last="int64",
    what="text",  # given up | came late
    in_batch="int64",
)
"""Rows that were waited for in vain, and those of them that came after all."""

REFUSED: Final = "refused"
"""A row about a group that need not exist: a request that was denied."""

KINDS_OF: Final = {
    "notices": ("absolute", "joined", "left", "without", "only", "gap", "snapshot", "changed"),
    "suspicions": (
        *("link-suspected", "link-trusted", "link-down", "link-broken", "link-resumed"),
        *("program-suspected", "program-trusted"),
    ),
    "traffic": ("sent", "received"),
    "deliveries": ("delivered", "recovered", "stream-started", "stream-ended", "stream-gap"),
    "views": ("view", "view-agreed", "blocked", "isolated"),
    "follows": ("followed", "unfollowed"),
    "members": ("member-joined", "member-left"),
}
"""Tables that are some kinds of rows and the columns that mean something for them."""

TABLES: Final = {
    "events": EVENTS,
    "stays": STAYS,
    "notices": NOTICES,
    "suspicions": SUSPICIONS,
    "traffic": TRAFFIC,
    "deliveries": DELIVERIES,
    "views": VIEWS,
    "follows": FOLLOWS,
    "members": MEMBERS,
    "holes": HOLES,
}


NEW_NAMES: Final = {
    "of": "event_rows",
    "count": "quantity",
    "level": "link_level",
    "first": "first_number",
    "last": "last_number",
}
"""Columns of files whose names are methods of a DataFrame or words of SQL. Readers have them under both
names, until the next format of tables: see decision 24."""


def renamed(schema: StructType) -> StructType:
    """With the new names behind the old ones."""
    again = [
        StructField(NEW_NAMES[field.name], field.dataType, field.nullable)
        for field in schema
        if field.name in NEW_NAMES
    ]
    return StructType([*schema.fields, *again])


def with_new_names(frame: DataFrame, schema: StructType) -> DataFrame:
    """The same rows, `renamed`; the frame has this schema."""
    again = [f"`{name}` as `{NEW_NAMES[name]}`" for name in schema.names if name in NEW_NAMES]
    return frame.selectExpr("*", *again) if again else frame


def widened(extra: Mapping[str, Type]) -> StructType:
    """`EVENTS`, and the columns that a newer writer added: they are kept, although this version does not know
    them."""
    return StructType([*EVENTS.fields, *(StructField(name, TYPES[type_]) for name, type_ in extra.items())])
