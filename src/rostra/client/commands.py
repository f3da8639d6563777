"""Commands of a replicated object: applied once each, in one order, at every replica. No IO in here.

    caller ── CommandAsked(session, number, ...) ──▶ one order ──▶ CommandLog.apply ──▶ CommandOutcome
                                                                    │ known number: the outcome of then
    joiner ◀── snapshot: the object, the outcomes, what was forgotten ──┘

A command is known by its caller's session and a number, so one that arrives a second time (its caller was in
doubt, or came back) is answered with the outcome of the first, and not applied. Every replica keeps the
outcomes as part of the state, until the caller says by `acked` that it has them.

Sessions of callers that are gone are forgotten, the least recently used first. A retry of a forgotten session
cannot be told from a new command by its number, so a command carries `since`, the position its caller had
reached when it was first sent: if it was applied at all, it was applied later than that. A session that is
unknown, where one was forgotten that was used since, is answered with `InDoubt`, and never applied twice.

All replicas must come to the same state, so a command may use nothing but the object and its arguments: no
clock, no dice, no order of a set.
"""

import builtins
import inspect
import sys
import typing
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, structs

from rostra.errors import UNDECODABLE, BadInput, CommandFailed, InDoubt, Malformed
from rostra.names import Endpoint

IN_FLIGHT_MAX: Final = 1_000
"""Commands of one session that may wait for their outcome, or whose outcome is still kept."""

SESSIONS_MAX: Final = 10_000
"""Sessions whose outcomes are kept; one costs some 200 bytes in every replica."""

CHECKPOINT_EVERY: Final = 1_000
"""Commands between two digests of the state."""

TEXT_MAX: Final = 2_000

LARGE: Final = 1
"""The extension in which msgpack carries an integer of more than 64 bits."""

SessionId = Annotated[bytes, Meta(min_length=8, max_length=32)]
Count = Annotated[int, Meta(ge=0, le=2**62)]


class CommandAsked(Struct, frozen=True, array_like=True, tag=0, gc=False):
    session: SessionId
    number: Annotated[int, Meta(ge=1, le=2**62)]
    acked: Count  # its caller needs the outcomes up to this number no more
    since: Count  # the position that its caller had reached when it was first sent
    name: Annotated[str, Meta(max_length=200)]
    arguments: bytes


class OrderBarrier(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """An empty message: only its position in the order matters."""


class StateDigest(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The digest of the sender's state after this many commands."""

    commands: Count
    digest: Annotated[bytes, Meta(max_length=32)]


class StatePart(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """A piece of the sender's state as it was at this view, for those who joined with it or before."""

    view: Count
    nth: Count
    is_last: bool
    data: bytes
    since: Count = 0  # the position of the last message that is in it


class StateOffered(Struct, frozen=True, array_like=True, tag=4):
    """A replica that comes again: what it has of the object `birth`, since the view in which it was `was`
    beside these `members`. From the founder of a group: it is not sure that its state is the last one."""

    is_founder: bool
    birth: Annotated[bytes, Meta(max_length=32)]
    position: Count
    view: Count
    was: Endpoint
    members: Annotated[tuple[Endpoint, ...], Meta(max_length=4_096)]


AnyCommand = CommandAsked | OrderBarrier | StateDigest | StatePart | StateOffered

_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final[msgspec.msgpack.Decoder[AnyCommand]] = msgspec.msgpack.Decoder(AnyCommand)


def encode_command(command: AnyCommand) -> bytes:
    return _encode(command)


def decode_command(data: bytes) -> AnyCommand | None:
    """None if these bytes were not sent by a replica."""
    try:
        return _decoder.decode(data)
    except UNDECODABLE:
        return None


class CommandOutcome(Struct, frozen=True, array_like=True, gc=False):
    """What a command returned, or what it raised."""

    data: bytes = b""  # the result
    raised: str = ""  # name of the exception
    text: str = ""  # and what it said


FORGOTTEN: Final = CommandOutcome(
    raised="InDoubt", text="this session was not used for long, and is forgotten"
)


class Signature:
    """Arguments and result of a command, as its annotations have them. What has none may be anything."""

    def __init__(self, function: Any) -> None:
        self.name: str = function.__name__
        self.function = function
        self._parameters = inspect.signature(function)
        parameters = self._parameters.parameters.values()
        kinds = [each.kind for each in parameters]
        self._by_name = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]  # the last ones
        if {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL} & {*kinds}:
            raise BadInput(f"command {self.name} takes * or **", fix="name its arguments, or take a list")
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise BadInput(
                f"command {self.name} waits",
                fix="a command changes the object at once: use def, without yield",
            )
        self._decoders: tuple[msgspec.msgpack.Decoder[Any], msgspec.msgpack.Decoder[Any]] | None = None

    def _typed(self) -> tuple[msgspec.msgpack.Decoder[Any], msgspec.msgpack.Decoder[Any]]:
        """When first asked for: names in annotations may be defined below the class."""
        if self._decoders is None:
            hints = typing.get_type_hints(self.function, include_extras=True)
            names = list(self._parameters.parameters)[1:]
            types = tuple([hints.get(name, Any) for name in names])
            wanted = tuple[types] if types else tuple[()]  # type: ignore[valid-type]
            self._decoders = (
                msgspec.msgpack.Decoder(wanted),
                msgspec.msgpack.Decoder(hints.get("return", Any), ext_hook=_large),
            )
        return self._decoders

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Checked as a replica will check them, so that a wrong one is never sent."""
        try:
            bound = self._parameters.bind(None, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {error}") from None  # as of any method
        bound.apply_defaults()
        try:
            data = _encode(list(bound.arguments.values())[1:])
            self._typed()[0].decode(data)
        except (TypeError, *UNDECODABLE) as error:
            raise BadInput(f"arguments of {self.name}: {error}", fix="see its annotations") from None
        return data

    def apply(self, object_: Any, arguments: bytes) -> CommandOutcome:
        try:
            given = self._typed()[0].decode(arguments)
        except UNDECODABLE as error:
            return CommandOutcome(raised="BadInput", text=f"arguments of {self.name}: {error}"[:TEXT_MAX])
        try:
            places = len(given) - len(self._by_name)
            result = self.function(
                object_, *given[:places], **dict(zip(self._by_name, given[places:], strict=True))
            )
        except Exception as error:
            return CommandOutcome(raised=type(error).__name__, text=_text(error))
        try:
            return CommandOutcome(_encode(_same_everywhere(result)))
        except (TypeError, *UNDECODABLE) as error:
            return CommandOutcome(raised="BadInput", text=f"the result of {self.name}: {error}"[:TEXT_MAX])

    def result(self, outcome: CommandOutcome) -> Any:
        """What the caller gets: always a copy, never a part of the object."""
        if outcome.raised:
            raise self._raised(outcome)
        try:
            return _decoded(outcome.data, self._typed()[1])
        except UNDECODABLE as error:
            raise CommandFailed(f"the result of {self.name}: {error}", fix="see its annotations") from None

    def _raised(self, outcome: CommandOutcome) -> Exception:
        """The same exception whether our replica has applied it or was sent the outcome with the state."""
        if outcome == FORGOTTEN:
            return InDoubt(f"{self.name}: {outcome.text}", fix="read whether it was done")
        places = (
            vars(sys.modules.get(self.function.__module__, builtins)),
            vars(builtins),
            {"BadInput": BadInput},
        )
        for place in places:
            kind = place.get(outcome.raised)
            if isinstance(kind, type) and issubclass(kind, Exception):
                try:
                    return kind(outcome.text)
                except Exception:  # it wants more than a text
                    break
        return CommandFailed(
            f"{self.name} raised {outcome.raised}: {outcome.text}",
            fix="to get it as it was raised, import its class into the module of the object's class",
        )


def _text(error: Exception) -> str:
    only = error.args[0] if len(error.args) == 1 else None
    return (only if isinstance(only, str) else str(error))[:TEXT_MAX]


class SessionRecord(Struct, array_like=True):
    """What is kept of one caller. `owner` is its endpoint without the incarnation: no other speaks for it."""

    used: int  # the position of its last command
    acked: int
    floor: int  # what was first sent before this position may have been applied, and forgotten
    outcomes: dict[int, CommandOutcome]
    owner: str = ""


class StateSnapshot(Struct, frozen=True, array_like=True):
    """All that a replica is, after the commands up to `position`."""

    birth: Annotated[bytes, Meta(max_length=32)]
    position: int
    base: int  # what positions of the group are added to: they begin anew when a group does
    view: int  # number of the last one
    commands: int
    forgotten: int
    sessions: list[tuple[SessionId, SessionRecord]]  # the least recently used first
    object: bytes


_snapshot: Final = msgspec.msgpack.Decoder(StateSnapshot).decode


class OlderState(Exception):
    """The state on offer lacks commands that this replica has: they were answered, and are lost."""


class CommandLog:
    """One replica: the object, and what was answered to whom."""

    def __init__(
        self,
        object_: Any,
        signatures: Mapping[str, Signature],
        *,
        sessions_max: int = SESSIONS_MAX,
        checkpoint_every: int = CHECKPOINT_EVERY,
    ) -> None:
        self.object = object_
        self.birth = b""  # the session of the replica whose object was the first state; empty: we have none
        self.position = 0  # of the last message that was applied or passed over
        self.base = 0  # what positions of the group are added to
        self.view = 0  # number of the last view
        self.commands = 0
        self._signatures = signatures
        self._sessions: dict[bytes, SessionRecord] = {}  # the least recently used first
        self._forgotten = 0  # the latest position at which a session was used that is forgotten
        self._sessions_max, self._checkpoint_every = sessions_max, checkpoint_every

    def apply(self, position: int, asked: CommandAsked, owner: str = "") -> CommandOutcome | None:
        """The outcome, new or known; None if its caller has had it already."""
        assert position > self.position, f"position {position} after {self.position}"
        self.position = position
        if asked.session in self._sessions and self._sessions[asked.session].owner != owner:
            return FORGOTTEN  # of another caller's session, or of ours, which another one took when it was
        record = self._sessions.pop(asked.session, None)
        if record is None:
            record = SessionRecord(position, 0, self._forgotten, {}, owner)
        self._sessions[asked.session] = record
        if len(self._sessions) > self._sessions_max:
            self._forgotten = self._sessions.pop(next(iter(self._sessions))).used
        record.used = position
        self._acknowledge(record, asked)
        if asked.number <= record.acked:
            return None
        if (known := record.outcomes.get(asked.number)) is not None:
            return known
        if asked.since < record.floor:
            return FORGOTTEN
        if asked.number > record.acked + IN_FLIGHT_MAX:
            return CommandOutcome(raised="BadInput", text=f"more than {IN_FLIGHT_MAX} commands wait")
        signature = self._signatures.get(asked.name)
        if signature is None:
            outcome = CommandOutcome(raised="BadInput", text=f"there is no command {asked.name!r}")
        else:
            outcome = signature.apply(self.object, asked.arguments)
        record.outcomes[asked.number] = outcome
        self.commands += 1
        return outcome

    def _acknowledge(self, record: SessionRecord, asked: CommandAsked) -> None:
        if asked.acked > record.acked:
            if asked.acked - record.acked <= len(record.outcomes):
                for number in range(record.acked + 1, asked.acked + 1):
                    record.outcomes.pop(number, None)
            else:
                record.outcomes = {n: each for n, each in record.outcomes.items() if n > asked.acked}
            record.acked = asked.acked

    def passed(self, position: int) -> None:
        """A message that changes nothing."""
        self.position = max(self.position, position)

    def outcome(self, session: bytes, number: int) -> CommandOutcome | None:
        record = self._sessions.get(session)
        return None if record is None else record.outcomes.get(number)

    @property
    def is_checkpoint(self) -> bool:
        return self.commands % self._checkpoint_every == 0

    def digest(self) -> StateDigest:
        """A digest of everything except the position, so that a joiner's is the same, whatever it passed
        over."""
        rest = _encode([self.commands, self._forgotten, list(self._sessions.items())])
        both = blake2b(rest, digest_size=16)
        both.update(self.object.snapshot())
        return StateDigest(self.commands, both.digest())

    def snapshot(self) -> bytes:
        return _encode(
            StateSnapshot(
                self.birth,
                self.position,
                self.base,
                self.view,
                self.commands,
                self._forgotten,
                list(self._sessions.items()),
                self.object.snapshot(),
            )
        )

    def restore(self, data: bytes) -> None:
        try:
            snapshot = _snapshot(data)
        except UNDECODABLE as error:
            raise Malformed(f"the state of a replica: {error}") from None
        if self.birth and snapshot.birth != self.birth:
            raise OlderState(f"the group has begun anew, without the {self.commands} commands applied here")
        if self.birth and snapshot.position < self.position:
            raise OlderState(f"the group has a state from before the {self.commands} commands applied here")
        self.object.restore(snapshot.object)
        self.birth = snapshot.birth
        self.position, self.base, self.view = snapshot.position, snapshot.base, snapshot.view
        self.commands = snapshot.commands
        self._forgotten, self._sessions = snapshot.forgotten, dict(snapshot.sessions)


def encode_attributes(object_: Any) -> bytes:
    """What a replica must be able to say and read: text, numbers, bytes, lists, tables; sets, tuples and
    structs if the class says so."""
    attributes = vars(object_)
    try:
        data = _encode({name: _same_everywhere(value) for name, value in attributes.items()})
        again = decode_attributes(type(object_), data)
    except (TypeError, Malformed, *UNDECODABLE) as error:
        raise BadInput(f"the state of {type(object_).__name__}: {error}", fix=_DECLARE) from None
    for name, value in attributes.items():
        if not _is_same(again[name], value):
            raise BadInput(f"{type(object_).__name__}.{name} would not come back as it is", fix=_DECLARE)
    return data


def _is_same(one: Any, other: Any) -> bool:
    """NaN comes back as it is too, although it equals nothing."""
    return type(one) is type(other) and (one == other or repr(one) == repr(other))


def _same_everywhere(value: Any) -> Any:
    """Sets sorted: their order is another one in every process. That of a table is the same at all replicas,
    and must stay so."""
    match value:
        case int() if not -(1 << 63) <= value < 1 << 64:
            return msgspec.msgpack.Ext(LARGE, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
        case None | bool() | int() | float() | str() | bytes():
            return value
        case dict():
            return {key: _same_everywhere(each) for key, each in value.items()}
        case list() | tuple():
            return [_same_everywhere(each) for each in value]
        case set() | frozenset():
            return sorted([_same_everywhere(each) for each in value], key=_encode)
        case Struct():
            fields = {name: _same_everywhere(getattr(value, name)) for name in value.__struct_fields__}
            return structs.replace(value, **fields)
    return value


_DECLARE: Final = "declare its type in the class (seen: set[str]), or write snapshot() and restore()"


def decode_attributes(kind: type, data: bytes) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    try:
        parts = msgspec.msgpack.decode(data, type=dict[str, msgspec.Raw])
        decoders = {name: msgspec.msgpack.Decoder(hints.get(name, Any), ext_hook=_large) for name in parts}
        return {name: _decoded(part, decoders[name]) for name, part in parts.items()}
    except UNDECODABLE as error:
        raise Malformed(
            f"the state of {kind.__name__}: {error}", fix="have the same class at all replicas"
        ) from None


def _large(code: int, data: memoryview) -> Any:
    if code != LARGE:
        return msgspec.msgpack.Ext(code, bytes(data))
    return int.from_bytes(data, "big", signed=True)


def _decoded(data: bytes | msgspec.Raw, decoder: msgspec.msgpack.Decoder[Any]) -> Any:
    """A field of type int takes no extension, so what has a large one is read without types first."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        plain = msgspec.msgpack.decode(data, ext_hook=_large)
        return msgspec.convert(plain, decoder.type, builtin_types=(bytes, bytearray))


def differing(said: Mapping[Endpoint, bytes]) -> tuple[Endpoint, ...]:
    """The replicas whose digest is not the most frequent one; all, if two are equally frequent."""
    count: dict[bytes, int] = {}
    for digest in said.values():
        count[digest] = count.get(digest, 0) + 1
    if len(count) < 2:
        return ()
    first, second = sorted(count.values(), reverse=True)[:2]
    if first == second:
        return tuple(sorted(said))
    most = max(count, key=lambda digest: count[digest])
    return tuple(sorted(who for who, digest in said.items() if digest != most))
