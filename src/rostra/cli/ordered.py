"""`rostra send` and `rostra tail`: what the group is; receipts, positions and views of an atomic one."""

import asyncio
import base64
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, cast

import msgspec
import typer

from rostra.cli.changes import document as change_document
from rostra.cli.common import EXIT_OK, remark
from rostra.cli.following import until_told
from rostra.cli.output import OutputFormat, say, show_json, show_rows, text_of
from rostra.client import (
    AgreedConversation,
    Blocked,
    CallAsked,
    Conversation,
    Me,
    Message,
    Messages,
    Ordered,
    Receipt,
    View,
)
from rostra.client.choices import WeakMembership
from rostra.client.commands import (
    CommandAsked,
    OrderBarrier,
    StateDigest,
    StateOffered,
    StatePart,
    decode_command,
)
from rostra.client.conversation import RoleName
from rostra.client.group import Entering
from rostra.client.ordered import StableName
from rostra.errors import UNDECODABLE, InDoubt, NotAllowed, RostraError
from rostra.groups.attributes import Slow
from rostra.groups.kinds import FIFO, LED_FIFO, PLAIN, DeliveryKind, GroupKind, MembershipKind
from rostra.names import Endpoint, Group
from rostra.protocols.atomic.config import ordered_kind

BATCH: Final = 1000

AGREED_ATOMIC: Final = ordered_kind(MembershipKind.AGREED)
AGREED_FIFO: Final = GroupKind(MembershipKind.AGREED, DeliveryKind.FIFO)

LOOK_WITHIN_S: Final = 2.0
"""How long servers may take to say what a group is."""

FINISH_WITHIN_S: Final = 10.0
"""How long we wait, after Ctrl-C, for the receipts of what was handed over."""


class DeliveryChoice(StrEnum):
    FIFO = "fifo"
    ATOMIC = "atomic"


Delivery = Annotated[
    DeliveryChoice | None,
    typer.Option(
        "--delivery",
        help="What a group is to promise that does not exist yet; atomic: one order for all.",
        show_default="as the group is; else fifo",
    ),
]


class GroupPlan(NamedTuple):
    create: bool  # it does not exist, as far as the servers say
    kind: GroupKind
    credential: bytes = b""  # for the authority of a restricted name

    @property
    def is_atomic(self) -> bool:
        return self.kind.is_ordered


async def plan_for(me: Me, group: Group, chosen: DeliveryChoice | None) -> GroupPlan:
    """What the group is, if servers agree on its views, or its members say so; else what was chosen."""
    try:
        info = await me.groups.look(group.name, group.scope, deadline_s=LOOK_WITHIN_S)
    except RostraError:  # there is none, or no server says so: joining it says what is wrong
        kinds = await _listed(me, group)
        kind = next((each for each in kinds if each.is_monitored or each == LED_FIFO), None)
        if chosen is DeliveryChoice.ATOMIC and kinds and not any(each.is_ordered for each in kinds):
            raise _not_atomic(group, "fifo" if {FIFO, LED_FIFO} & {*kinds} else "none") from None
        if kind is not None and (chosen is not DeliveryChoice.FIFO or kind.is_spoken_in):
            return GroupPlan(False, kind)
        return GroupPlan(True, AGREED_ATOMIC if chosen is DeliveryChoice.ATOMIC else FIFO)
    if info.delivery == "none":
        raise NotAllowed(
            f'{group} is agreed, with delivery="none": it carries no messages',
            fix=f"to see it:  rostra views {group}; or choose another name",
        )
    if chosen is DeliveryChoice.ATOMIC and info.delivery != "atomic":
        raise _not_atomic(group, info.delivery)
    is_atomic = info.delivery == "atomic" and chosen is not DeliveryChoice.FIFO
    return GroupPlan(False, AGREED_ATOMIC if is_atomic else AGREED_FIFO)


def _not_atomic(group: Group, delivery: str) -> NotAllowed:
    """To join a relaxed group as an atomic one would put its members out."""
    return NotAllowed(
        f'{group} has members, with delivery="{delivery}"',
        fix="leave --delivery out, or choose another name",
    )


async def _listed(me: Me, group: Group) -> list[GroupKind]:
    """The kinds that its members have in their list: one, unless it is about to change."""
    with contextlib.suppress(RostraError):
        listed = await me.resolve(group.name, group.scope, deadline_s=LOOK_WITHIN_S)
        return [PLAIN if each.kind is None else each.kind for each in listed.members]
    return []


def spoken(
    me: Me, group: Group, plan: GroupPlan, role: RoleName, slow: Slow = Slow.THROTTLE
) -> Entering[Conversation] | Entering[AgreedConversation]:
    """Enter a group with ``delivery="fifo"``, with the membership that it has."""
    name, scope = group.name, group.scope
    if plan.kind.membership is MembershipKind.AGREED:
        return me.join(
            name,
            scope,
            membership="agreed",
            delivery="fifo",
            role=role,
            slow=slow.value,
            create=plan.create,
            credential=plan.credential,
        )
    membership: WeakMembership = "led" if plan.kind.membership is MembershipKind.LED else "relaxed"
    return me.join(
        name,
        scope,
        membership=membership,
        delivery="fifo",
        role=role,
        slow=slow.value,
        credential=plan.credential,
    )


@contextlib.asynccontextmanager
async def joined(me: Me, group: Group, plan: GroupPlan, slow: Slow = Slow.THROTTLE) -> AsyncIterator[Ordered]:
    async with me.join(
        group.name,
        group.scope,
        membership=plan.kind.membership.value,
        delivery="atomic",
        stable=cast(StableName, plan.kind.stable),
        create=plan.create,
        slow=slow.value,
        credential=plan.credential,
    ) as ordered:
        yield ordered


# Sending


async def send_ordered(
    ordered: Ordered, wait: int, batches: AsyncIterator[list[bytes]], output: OutputFormat
) -> int:
    """Each message, and then the places that they were given."""
    sending = _Sending(ordered, output)
    reading = asyncio.create_task(sending.read())
    try:
        async with until_told():
            await ordered.ready()
            await sending.until_there(wait)
            async for lines in batches:
                await sending.send(lines)
        await sending.finish()
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError, RostraError):
            await reading
        sending.show_whole()
    sending.sum_up()
    return EXIT_OK


class _Sending:
    def __init__(self, ordered: Ordered, output: OutputFormat) -> None:
        self._ordered = ordered
        self._output = output
        self._changed = asyncio.Event()
        self._pending: asyncio.Future[list[Receipt]] | None = None
        self._count = 0
        self._first: Receipt | None = None
        self._last: Receipt | None = None
        self._warned = False
        self._documents: list[dict[str, int]] = []  # for one document of all

    async def read(self) -> None:
        """Members are given their own messages too; who does not read makes the others wait."""
        async for item in self._ordered.items(batch=BATCH):
            if isinstance(item, View):
                self._changed.set()
            elif isinstance(item, Messages) and not self._warned and any(map(command_words, item.bodies)):
                self._warned = True
                remark(f"{self._ordered.group} is of a replicated object: it passes over what is sent here")
            elif isinstance(item, Blocked):
                remark(f"{self._ordered.group} stands still here, and so do we: {item.because}")
            elif isinstance(item, CallAsked):
                await item.answer(b"")

    async def until_there(self, count: int) -> None:
        if len(self._ordered.members) <= count and count:
            remark(f"waiting for {count} other{'s' * (count != 1)} in {self._ordered.group}")
        while len(self._ordered.members) <= count and count:
            self._changed.clear()
            await self._changed.wait()

    async def send(self, lines: list[bytes]) -> None:
        self._pending = asyncio.ensure_future(self._ordered.send_many(lines))
        self._show(await asyncio.shield(self._pending))
        self._pending = None

    async def finish(self) -> None:
        """After Ctrl-C: what was handed over has its receipts soon, or its fate is unknown."""
        if self._pending is None:
            return
        try:
            async with asyncio.timeout(FINISH_WITHIN_S):
                self._show(await self._pending)
        except TimeoutError:
            raise InDoubt(
                f"the last messages had no place in {self._ordered.group} within {FINISH_WITHIN_S:g} s:"
                " members may deliver them yet",
                fix="look for them with rostra tail before you send them again",
            ) from None

    def _show(self, receipts: list[Receipt]) -> None:
        if not receipts:
            return
        self._count += len(receipts)
        self._first, self._last = self._first or receipts[0], receipts[-1]
        documents = [{"position": each.position, "view": each.view} for each in receipts]
        if self._output is OutputFormat.JSON:
            self._documents += documents
        elif self._output is OutputFormat.JSONL:
            show_rows(documents, self._output, None)

    def show_whole(self) -> None:
        if self._output is OutputFormat.JSON:
            show_json({"group": str(self._ordered.group), "receipts": self._documents}, self._output)

    def sum_up(self) -> None:
        first, last = self._first, self._last
        if first is None or last is None:
            remark("nothing was sent: no line came on stdin")
        elif self._output is not OutputFormat.TABLE:
            return
        elif self._count == 1:
            say(f"position {first.position}, view {first.view}")
        else:
            say(f"{self._count} messages, positions {first.position} to {last.position}, view {last.view}")


# Listening


async def tail_ordered(me: Me, ordered: Ordered, count: int | None, output: OutputFormat) -> None:
    await ordered.ready()
    remark(f"{me.endpoint} listens in {ordered.group}")
    left = count
    async for item in ordered.items(batch=BATCH):
        match item:
            case Messages(sender, first, bodies, sent_at, position):
                shown = bodies if left is None else bodies[:left]
                _show_messages(sender, first, shown, sent_at, position, output)
                left = None if left is None else left - len(shown)
            case Message(sender, body, number, sent_at, position):
                _show_messages(sender, number, [body], sent_at, position, output)
                left = None if left is None else left - 1
            case CallAsked(sender, body, position):
                _show_messages(sender, 0, [body], 0.0, position, output)
                await item.answer(b"")  # who asks all members waits for us as well
                left = None if left is None else left - 1
            case View():
                _show_view(ordered.group, item, output)
            case Blocked(because=because):
                remark(f"{ordered.group} stands still here: {because}")
                if output is not OutputFormat.TABLE:
                    show_json(
                        {"change": "blocked", "group": str(ordered.group), "because": because},
                        OutputFormat.JSONL,
                    )
        if left == 0:
            return


def _show_messages(
    sender: Endpoint, first: int, bodies: list[bytes], at: float, position: int, output: OutputFormat
) -> None:
    if output is not OutputFormat.TABLE:
        for nth, body in enumerate(bodies):
            said = message_document(Message(sender, body, first + nth, at)) | {"position": position + nth}
            if words := command_words(body):
                said["command"] = words
            show_json(said, OutputFormat.JSONL)
        return
    lines = [
        f"replicated object: {words}".encode() if (words := command_words(body)) else body for body in bodies
    ]
    if sys.stdout.isatty():
        for nth, line in enumerate(lines):
            say(f"{position + nth:>7}  {line.decode(errors='backslashreplace')}")
    else:
        sys.stdout.buffer.write(b"\n".join(lines) + b"\n")  # a script reads them as they are
    sys.stdout.flush()


def command_words(body: bytes) -> str:
    """What this is, if a replica of a replicated object sent it; no text begins like it."""
    match decode_command(body):
        case CommandAsked(name=name, arguments=arguments):
            try:
                given = ", ".join(map(ascii, msgspec.msgpack.decode(arguments)))
            except (TypeError, *UNDECODABLE):
                given = "..."
            return f"command {name if name.isidentifier() else ascii(name)}({given})"
        case StatePart():
            return "a part of its state, for who joined"
        case StateDigest(commands=commands):
            return f"a digest of its state after {commands} commands"
        case StateOffered(was=was):
            return f"what {was!a} has of its state"
        case OrderBarrier():
            return "a mark in the order"
    return ""


def message_document(message: Message) -> dict[str, Any]:
    at = message.sent_at
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(message.body).decode()}
    return {
        "change": "message",
        "sender": message.sender,
        "number": message.number,
        "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z",
        **body,
    }


def _show_view(group: Group, view: View, output: OutputFormat) -> None:
    if output is not OutputFormat.TABLE:
        said = change_document(group, view, view.members, time.time())
        said |= {
            "view": view.number,
            "fence": view.fence,
            "members": [{"endpoint": each.endpoint, "meta": text_of(each.meta)} for each in view.members],
            **{name: list(getattr(view, name)) for name in ("joined", "left", "failed")},
        }
        show_json(said, OutputFormat.JSONL)
        return
    changes = [
        f"{', '.join(who)} {how}"
        for who, how in ((view.joined, "joined"), (view.left, "left"), (view.failed, "failed"))
        if who
    ]
    many = f"{len(view.members)} member{'s' * (len(view.members) != 1)}"
    remark(f"view {view.number} of {group}: {'; '.join([many, *changes])}")
