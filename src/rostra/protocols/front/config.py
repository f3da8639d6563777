"""Limits of an agent's front: queues and work per program, and what all programs may hold together."""

from typing import Final

from msgspec import Struct

WATCH_TICK_S: Final = 0.25
"""How often programs are looked at: small beside the bounds of `DetectConfig`."""


class ShareLimits(Struct, frozen=True):
    """What all programs of one agent may hold together. Raising a limit costs memory for each thing held:
    some KB for a program, about 1 KB for the others. A group is also a row at every server of its scope."""

    programs_max: int = 50_000
    endpoints_max: int = 100_000
    memberships_max: int = 200_000
    questions_max: int = 65_536


class FrontConfig(Struct, frozen=True):
    """`backlog_max`
        Messages that the domain may owe an acknowledgement for before programs have to wait. Of the largest
        kind it is 64 MiB; of the usual kind, what a good link takes in a few milliseconds.
    `queue_records`
        Notices (and member records in them) queued for a program that does not read: one more, and it falls
        behind. A record is about 200 bytes. Raising it: longer stalls without a `Gap`, more memory for each
        program that stalls.
    `turn_items_max`, `turn_records_max`
        Of one program's questions, so many are looked at in one turn, and fewer if the answers are long; the
        rest waits, also of one frame. No more records than these, or one answer, are encoded at once, and
        none while the program does not read. Raising them: one program may delay the others for longer.
    `answer_records_max`
        Answers queued for a program that does not read, before it is disconnected.
    `joined_bytes_max`
        Blocks that came together are joined up to this size, and to a share of what a sender may have under
        way. Raising it: fewer and larger steps; larger bursts for other hosts, where blocks are cut.
    `joins_per_turn`
        Joins that are gathered for one notice. Raising it: longer turns when a crowd joins, and fewer
        notices.
    `kind_within_s`
        How long to ask what kind of group it is that a program wants to speak in. Without an answer in
        time it is let in: members that cannot be asked cannot be disturbed either.
    """

    limits: ShareLimits = ShareLimits()
    backlog_max: int = 1024
    queue_records: int = 4_097
    turn_items_max: int = 2_000
    turn_records_max: int = 4_096
    answer_records_max: int = 200_000
    joined_bytes_max: int = 256 << 10
    joins_per_turn: int = 128
    kind_within_s: float = 2.0
