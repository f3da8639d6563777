"""What can be chosen for a group with ``delivery="atomic"``, and the bounds of its stations."""

from typing import Final

from rostra.errors import BadInput, NotAvailable, RostraError
from rostra.groups.kinds import DeliveryKind, GroupKind, MembershipKind

ORDERS: Final = ("hub", "negotiated", "medium")
STABLES: Final = ("sent", "majority", "all", "disk")

DEFAULT_ORDER: Final = "hub"
DEFAULT_STABLE: Final = "all"

WINDOW_MESSAGES: Final = 65_536
WINDOW_BYTES: Final = 16 << 20
"""What one member may have handed over that is not ordered yet. Raising these: more memory for each sender,
and senders that are slowed down later. The library keeps to half of it."""

BACKLOG_BYTES: Final = 8 << 20
"""What may wait at an agent for a member that does not read, before nothing more is ordered (`throttle`), or
before it is expelled (`expel`)."""

WINDOW_FEED_BYTES: Final = 512 << 10
"""What may be on its way between two stations before one has said that it is there. Raising it: more at once
over long ways, and more lost at once where datagrams are."""

SHORT_S: Final = 10.0
"""With ``stable="majority"``: so long a side waits for members without which something that was stable may be
missing. Raising it: more time for them to come back, and a longer standstill if they do not."""

LEAVE_S: Final = 5.0
"""With ``stable="majority"``: so long the host of a member that left waits until all others have what it
counted for; then the member has failed. Raising it: more time for hosts that lag, and a longer wait if one of
them is lost."""

TICK_S: Final = 0.02
TICK_MAX_S: Final = 0.5
"""What may have been lost is sent again after the first of these, then after twice that, up to the second, as
long as nothing comes of it."""

AGAIN: Final = 3
"""A question or a report that belongs to a flush that is over, as far as a station knows, is a late copy; when it
comes so often and nothing else does, it is not. Raising it: more copies do no harm, and a station that waits to be
started waits longer."""

PATIENCE_TICKS: Final = 8
"""After so many of them, some 2 s, members hear why nothing goes on."""


def ordered_kind(
    membership: MembershipKind, order: str = "", stable: str = "", survive: str = ""
) -> GroupKind:
    """The kind of a group, with its defaults written out. A group with a monitor of its own is AMp alone: in
    the paper's order, and a majority goes on."""
    is_agreed = membership is MembershipKind.AGREED
    if not is_agreed and survive == "majority":
        survive = ""
    return GroupKind(
        membership,
        DeliveryKind.ATOMIC,
        order=order or (DEFAULT_ORDER if is_agreed else "negotiated"),
        stable=stable or DEFAULT_STABLE,
        survive=survive,
    )


def why_not_ordered(kind: GroupKind) -> RostraError | None:
    """Why there is no such group."""
    for setting, value, words in (("order", kind.order, ORDERS), ("stable", kind.stable, STABLES)):
        if value not in words:
            return BadInput(f"{setting}={value!r}", fix=f"use one of: {', '.join(words)}")
    if kind.order == "medium":
        return NotAvailable(
            'order="medium" needs one medium that shows all frames to all hosts in one order, which IP is'
            " not: it is for the simulated bus",
            fix='leave it out, or use order="negotiated"',
        )
    if kind.is_monitored and (kind.order != "negotiated" or kind.survive):
        chosen = f"survive={kind.survive!r}" if kind.survive else f"order={kind.order!r}"
        return NotAvailable(
            f'{chosen} with membership="{kind.membership.value}": no station orders for the others there, and'
            " the majority of the hosts goes on",
            fix='leave it out, or use membership="agreed"',
        )
    if kind.order == "negotiated" and kind.stable not in ("sent", "all"):
        return NotAvailable(
            f'stable={kind.stable!r} with order="negotiated": the sender of a run waits for all hosts, and no'
            " part of them decides",
            fix='use stable="all", or order="hub"',
        )
    if kind.stable in ("majority", "disk") and kind.survive != "majority":
        return BadInput(
            f'stable="{kind.stable}" with survive={kind.survive or "any"!r}: the side that goes on might not'
            " have what a majority had",
            fix='add survive="majority", or use stable="all"',
        )
    return None
