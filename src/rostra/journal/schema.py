"""The journal's one table: its columns, and the kinds of rows in it.

A **row** is one fact, as one writer saw it. An event that concerns several members is several rows, one for
each of them, numbered `nth` of `of`; so every question is a filter and a window, and nothing has to be
unpacked. Of a list, those that were seen before are no news: they share one row, which counts them. Columns
that mean nothing for a kind are null there.

    who wrote it      world, writer, role, epoch, seq
    when              at, virtual_s
    what              kind, change, news, nth, of
    about whom        group, member, life, stamp, domain, peer
    seen from where   writer, and observers on it
    why               cause, accuser, accused, what, and the evidence
    how much          latency_us, count, bytes, level, message, answered_by, number, period, first, last
    agreed views      view, base, fence, digest, acks, cut

`(world, writer, epoch, seq)` is the key of a row. Within one writer and epoch `seq` starts at 1 and has no
holes: one that is missing was lost, and is missed. A `heartbeat` at least every few seconds and a `closing`
at a clean end make a lost tail visible: an epoch without `closing` ended in a crash, and nothing is known of
what its writer saw after its last row.

This module is plain data: agents import it without Arrow, Spark without agents.
"""

import re
from typing import Final, Literal, NamedTuple

VERSION: Final = 2
"""Grows with every change. Columns are only ever added, and are null where an older writer did not know them;
a column's name and type never change, nor does the meaning of a kind. (Names that collide in Spark have a
second one there: decision 24.)"""

Type = Literal["text", "word", "int64", "int32", "double", "bool", "time", "texts"]
"""`word` is text from a small set (kept as a dictionary), `time` is UTC in microseconds, `texts` a list."""


class Column(NamedTuple):
    name: str
    type: Type
    meaning: str
    required: bool = False


COLUMNS: Final = (
    # Who wrote it
    Column("world", "word", "the world's name", required=True),
    Column("writer", "word", "path of the host (an agent) or domain (a server) that saw it", required=True),
    Column(
        "role",
        "word",
        "agent | server | lab (the supervisor of a small world) | sim (sees all)",
        required=True,
    ),
    Column("epoch", "int64", "the writer's incarnation: grows at every start", required=True),
    Column("seq", "int64", "1, 2, 3 ... within this writer and epoch, without holes", required=True),
    # When
    Column("at", "time", "the writer's wall clock, UTC; orders nothing across writers", required=True),
    Column("virtual_s", "double", "the simulator's clock, in simulated worlds"),
    # What
    Column("kind", "word", "what happened: see the kinds", required=True),
    Column(
        "change",
        "word",
        "of this member in this group, as seen by the writer: joined | left; or kept: "
        "`count` others of the list were seen before, in one row without a member",
    ),
    Column(
        "news", "bool", "did it change what this writer sees? (else it only repeats it to a new follower)"
    ),
    Column("nth", "int32", "this row is the nth of its event, from 0", required=True),
    Column("of", "int32", "rows of this event; its first row has number seq - nth", required=True),
    # About whom
    Column("group", "word", "name@scope"),
    Column("member", "text", "endpoint with incarnation, host/name#n"),
    Column("life", "int64", "first half of the membership's stamp: incarnation of the member's agent"),
    Column(
        "stamp", "int64", "second half: counts that agent's joins and leaves; the larger pair is the later"
    ),
    Column("observers", "texts", "endpoints on the writer's host that were told; the first 16 of them"),
    Column("told", "int32", "how many they are"),
    Column("domain", "word", "domain of a `Without` or `Only`; the part that a list is complete for"),
    Column("inside", "bool", "that part is everything inside the domain (else everything outside it)"),
    Column("peer", "word", "the neighbour concerned: path of a host or domain"),
    # Why
    Column(
        "cause",
        "word",
        "join | merge | snapshot | leave | crash | failed | without | only | unlisted | unfollowed ...",
    ),
    Column("accuser", "word", "who gave the accused up"),
    Column("accused", "word", "whom"),
    Column("what", "word", "on what grounds: silent | ended by peer | restarted | overflow | closed ..."),
    Column("silence_s", "double", "evidence: how long nothing had been heard"),
    Column("expected_s", "double", "evidence: the usual time between two signs of life"),
    Column("phi", "double", "evidence: accrued suspicion"),
    Column("threshold", "double", "evidence: phi at which it is suspected"),
    Column("limit_s", "double", "evidence: silence after which it is given up"),
    Column(
        "own_lateness_s",
        "double",
        "evidence: how late the accuser's own loop was; of a view: how long it had stood still",
    ),
    Column("channel_open", "bool", "evidence: was the connection still open?"),
    # How much
    Column(
        "latency_us",
        "int64",
        "of an answer, or of a return after a break; of a recovery: since it was first asked for; of a "
        "delivery: how much longer its slowest message was on its way than the quickest of the stream; in an "
        "order: how long a message of a member here waited for its receipt, at most",
    ),
    Column(
        "answered_by", "word", "who answered: agent | path of the server; reading an own copy asks no node"
    ),
    Column("count", "int64", "how many: members of an answer, messages, rows lost ..."),
    Column("bytes", "int64", "how many bytes"),
    Column("level", "int32", "of the upper end of the link: 0 is the root"),
    Column("message", "word", "kind of message, for traffic"),
    Column("period", "int64", "of a watch: numbers are comparable within one period"),
    Column(
        "number",
        "int64",
        "of a watch: place of this change; of a recovery: how often it was asked for; in an order: the last "
        "message's number of its sender",
    ),
    Column(
        "first",
        "int64",
        "of a delivery: first sequence number of the run; of a view: its number; in an order: the "
        "position of the view",
    ),
    Column(
        "last",
        "int64",
        "of a delivery: last sequence number of the run; of a view: the rank of the member; in an order: the "
        "last position that was given",
    ),
    Column("detail", "text", "JSON, for what has no column: settings at `started`, and notes for people"),
    # Agreed views
    Column(
        "view",
        "text",
        "id of a view: number.revision, and the proposal that made the number; equal ids, equal lists",
    ),
    Column("base", "text", "id of the view before it, at this server"),
    Column("fence", "int64", "of a view that lives, in groups whose rule lets one side live at most"),
    Column(
        "digest",
        "int64",
        "of a view's members in order of rank: lists of equal digests are equal; in an order: of the sender, "
        "number and position of each message since the view",
    ),
    Column("acks", "texts", "servers that acknowledged the change"),
    Column("cut", "texts", "servers that the change went on without"),
)

NAMES: Final = tuple(column.name for column in COLUMNS)

KEY: Final = ("world", "writer", "epoch", "seq")


class RowKind(NamedTuple):
    name: str
    meaning: str
    columns: str  # those that have a value, beside the required ones


KINDS: Final = (
    # Marks
    RowKind(
        "started", "an epoch begins; `detail` has version, schema, settings, neighbours and profile", "detail"
    ),
    RowKind("heartbeat", "still there; everything before it is written or counted as dropped", ""),
    RowKind("closing", "a clean end: no row of this epoch follows", "what"),
    RowKind(
        "dropped",
        "rows that could not be kept (disk full, writer overrun); their numbers are used up",
        "count what first last",
    ),
    # Memberships, at home: the truth
    RowKind("opened", "a program opened an endpoint on this host", "member life"),
    RowKind("closed", "the endpoint closed (cause leave) or died (cause crash)", "member cause what"),
    RowKind("member-joined", "the agent accepted a join", "group member life stamp"),
    RowKind(
        "member-left", "the agent accepted a leave, or the program died", "group member life stamp cause"
    ),
    RowKind(
        "refused", "a program's request was denied; `what` is the error's code", "member group what message"
    ),
    RowKind("access-granted", "an authority let an endpoint into a restricted group", "member group"),
    RowKind(
        "access-refused",
        "an endpoint may not be in a group; with `peer`, what that node sent was not believed or granted",
        "member group what peer",
    ),
    RowKind("access-ended", "a member of a restricted group had to leave", "member group what"),
    RowKind("access-revoked", "an authority is valid no more, nor are those below it", "what"),
    RowKind(
        "followed", "an endpoint is to be told of a group's changes from now on", "group observers told cause"
    ),
    RowKind(
        "unfollowed",
        "it is no longer; when it was the host's last, its sight of every member ends here",
        "group observers told member life stamp change news cause",
    ),
    # What was told: notices, one row per member concerned
    RowKind(
        "absolute",
        "a whole list: those left that are not in it, those joined, and how many were kept",
        "group member life stamp change news observers told cause count",
    ),
    RowKind(
        "joined",
        "members joined, or a part came back: with `domain`, complete for that part",
        "group member life stamp change news observers told cause count domain inside",
    ),
    RowKind("left", "a member left or crashed", "group member life stamp change news observers told cause"),
    RowKind(
        "without",
        "Congress's FILTER_OUT; one row per member lost, or a single one without a member",
        "group member life stamp change news observers told domain cause accuser accused what",
    ),
    RowKind(
        "only",
        "Congress's FILTER_IN; the same",
        "group member life stamp change news observers told domain cause accuser accused what",
    ),
    RowKind(
        "gap",
        "an observer read too slowly; `count` notices were not kept for it",
        "group observers told count",
    ),
    RowKind(
        "snapshot",
        "a watcher was given a numbered list of `count` members",
        "group observers told count period number",
    ),
    RowKind(
        "changed",
        "a watcher's next numbered change, of `count` members; with `member` if it is one",
        "group member change observers told count number cause domain inside",
    ),
    # Questions
    RowKind("resolved", "a question was answered", "group observers told latency_us answered_by count"),
    # Links
    RowKind("link-up", "a neighbour became reachable; `life` is its incarnation", "peer life cause"),
    RowKind("link-moved", "another replica of a neighbour took its place; no member was told", "peer life"),
    RowKind(
        "link-suspected",
        "overdue; no membership is lost for it yet",
        "peer accuser accused what silence_s expected_s phi threshold limit_s own_lateness_s channel_open",
    ),
    RowKind("link-trusted", "heard again in time", "peer latency_us"),
    RowKind(
        "link-down",
        "given up: the session ended",
        "peer accuser accused what silence_s expected_s phi threshold limit_s own_lateness_s channel_open",
    ),
    RowKind("link-broken", "the connection broke; the session lives on", "peer what"),
    RowKind("link-resumed", "a new connection carries the session on; nothing was lost", "peer latency_us"),
    RowKind("program-suspected", "a local program stalls", "member silence_s limit_s"),
    RowKind("program-trusted", "it moves again", "member latency_us"),
    # What a server passed on
    RowKind(
        "domain-failed",
        "this server told `peer`, for `count` groups, that a domain is lost",
        "domain inside peer accuser accused what count",
    ),
    RowKind(
        "domain-returned",
        "this server announced a part of the world anew to `peer`, for `count` groups",
        "domain inside peer count",
    ),
    # Traffic since the last row of the same peer, direction and kind
    RowKind(
        "sent",
        "messages handed to a link, per kind; as `again` what had to be repeated; as `frame` all bytes; "
        "as `... datagram` what groups say beside the links",
        "peer level message count bytes",
    ),
    RowKind("received", "messages taken from a link; the same", "peer level message count bytes"),
    # Multicast and agreed views
    RowKind(
        "delivered",
        "a run of a sender's messages was handed to observers",
        "group member first last count bytes latency_us observers told",
    ),
    RowKind(
        "recovered",
        "a run that was lost here came by repair; `answered_by` is the host or cluster that had it; without "
        "`latency_us` others had asked for it",
        "group member first last count number answered_by latency_us",
    ),
    RowKind(
        "stream-started",
        "a receiver is owed a sender's messages from `first` on",
        "group member first observers told",
    ),
    RowKind("stream-ended", "`last` is the last one delivered", "group member last observers told cause"),
    RowKind(
        "stream-gap",
        "numbers `first` to `last` are missing, and the receiver was told",
        "group member first last observers told",
    ),
    RowKind(
        "view",
        "members here were given a view, number `first`: a row for each that joined or left since the one "
        "before, with its rank, and one that counts those kept; without a kept row, all members are there",
        "group first last member change news cause count observers told view fence digest own_lateness_s",
    ),
    RowKind(
        "blocked",
        "members here are told that nothing is agreed until the next view; `what` says why",
        "group observers told first view what own_lateness_s",
    ),
    RowKind(
        "view-agreed",
        "this server's set committed a view: rows as of `view`. `accuser` proposed the change, `cause` says "
        "which, `peer` coordinated it, `accused` was lost; `what`: this side must not go on",
        "group domain first last member life stamp change news cause count view base fence digest peer "
        "accuser accused acks cut what",
    ),
    RowKind(
        "isolated",
        "this server exchanges nothing more with `peer` in the set of `domain`, until they meet again",
        "peer life domain what",
    ),
    # Groups whose messages have one order
    RowKind(
        "ordered",
        "members here were given the order up to position `last`: `count` messages since `view`, which has "
        "position `first`; the last one is number `number` of `member`. A view begins with a row that names "
        "the one before it (`base`), who orders (`peer`) and when messages are given (`what`: sent | "
        "majority | all | disk). With `cause` view it is over, and all positions up to `last` belong to it; "
        "with left the member is out",
        "group view base first last count digest member number observers told fence what peer cause "
        "latency_us",
    ),
    RowKind(
        "rejected",
        "a member here is out, `what` says why: its messages up to `number` have their places, those from "
        "`first` to `last` (`count` of them) are delivered by no member, those between may be",
        "group member what number first last count",
    ),
    RowKind(
        "flushed",
        "this host orders from now on: from view `view` at position `first`, for `count` hosts",
        "group view first count",
    ),
    RowKind(
        "led",
        "this agent stands otherwise in a led set: `what` is leads | child (of `peer`) | out, `cause` why; "
        "`accused` is a leader that it could not reach, `domain` the registrar, `count` the members listed. "
        "With `what` member: one of this host came or went; lists: at the leader, who is on its list since, "
        "and who is no more, a row for each",
        "group what peer cause accused domain count member change news life stamp",
    ),
    # The truth that only an all-seeing observer has (role sim), or the lab that does it (role lab)
    RowKind("server-changed", "`change` is started | crashed | paused | continued", "peer change"),
    RowKind(
        "line-changed",
        "one direction of a link, from `accuser` to `peer`: `change` is cut | healed",
        "accuser peer change",
    ),
    RowKind("settled", "nothing was in flight, and nothing had changed for long enough", ""),
)

KIND_NAMES: Final = tuple(kind.name for kind in KINDS)

SIGHT: Final = ("absolute", "joined", "left", "without", "only", "unfollowed")
"""Kinds whose rows with `news` are, in order of `seq`, everything that changed in what the writer sees."""


_SEGMENT: Final = re.compile(r"(.+)-(\d{1,19})-(\d{12,19})-(\d{12,19})\.parquet")


def segment_name(writer: str, epoch: int, first: int, last: int) -> str:
    """A segment's file: sorts by writer, epoch and place; nothing in it needs quoting on any file system."""
    return f"{writer}-{epoch}-{first:012d}-{last:012d}.parquet"


def segment_called(name: str) -> tuple[str, int, int, int] | None:
    """Whose rows are in a file of this name: writer, epoch, first and last number. None if no writer would
    call one so."""
    found = _SEGMENT.fullmatch(name)
    return None if found is None else (found[1], int(found[2]), int(found[3]), int(found[4]))
