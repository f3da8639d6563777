"""Replay of recordings: the recorded inputs through a new node must give the same effects, byte for byte.

    <journal>/_inputs ──▶ words ──▶ a node made as the recorded one was ──▶ effects, compared word by word

If they are the same, all that the node did follows from its inputs and can be examined, in a debugger if need
be. If not, the first difference is reported.

With a setting changed, two nodes run side by side on the same inputs, one as recorded and one with the
change, and the differences are reported in words. The inputs stay as recorded, although the neighbours would
have reacted to the changed node. So only the first difference about each neighbour is sound, and no later one
is reported.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, json
from msgspec.structs import fields, replace

from rostra.core.effects import LinkDown, LinkMoved, LinkUp, Tell
from rostra.errors import BadInput
from rostra.journal.writer import INPUTS, unpacked
from rostra.names import Domain
from rostra.observe.recording import (
    FORMAT,
    AnyWord,
    Began,
    Gave,
    Input,
    NodeStopped,
    RecordingEnded,
    ToServer,
    ToVoter,
    Turn,
    decoded,
    effects_of,
    words,
)
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.events import Suspected, Trusted
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.requests import Left, Only, Without
from rostra.sim.replayed_node import Diverged, ReplayedNode


class Recording(Struct, frozen=True):
    """What one node was given in one life."""

    path: Domain
    epoch: int
    parts: tuple[Path, ...]

    def words(self) -> Iterator[AnyWord]:
        for part in self.parts:
            yield from words(unpacked(part.read_bytes()))

    def began(self) -> Began:
        first = next(self.words(), None)
        if not isinstance(first, Began):
            raise BadInput(f"{self.parts[0]} does not begin a recording", fix="copy the whole _inputs folder")
        if first.format != FORMAT:
            raise BadInput(
                f"{self.parts[0]} has format {first.format}, and we replay {FORMAT}",
                fix="replay it with the version that recorded it",
            )
        return first


def recordings(journal: Path, *, of: str | None = None) -> list[Recording]:
    """All recordings in a journal, or those of one node, in order."""
    found: dict[tuple[str, int], dict[int, Path]] = {}
    nodes: set[str] = set()
    for part in sorted((journal / INPUTS).glob("[!.]*.inputs")):
        path, epoch, nth = part.name.removesuffix(".inputs").rsplit("-", 2)
        nodes.add(path)
        if of is None or path == of:
            found.setdefault((path, int(epoch)), {})[int(nth)] = part
    if not found:
        who = "" if of is None else f" of {of}"
        raise BadInput(
            f"{journal} holds no recording{who}",
            fix=f"there are those of {', '.join(sorted(nodes))}"
            if nodes
            else "run the daemons with --journal DIR --record, and name DIR",
        )
    for (path, life), parts in found.items():
        if sorted(parts) != list(range(len(parts))):
            raise BadInput(
                f"parts of the recording of {path} in epoch {life} are missing", fix="copy all of them"
            )
    return [
        Recording(Domain(path), life, tuple(parts[n] for n in sorted(parts)))
        for (path, life), parts in sorted(found.items())
    ]


class Difference(Struct, frozen=True):
    """Where a replay went another way than the recording."""

    number: int  # of the input, from 1
    at: int
    given: str
    recorded: tuple[str, ...]
    replayed: tuple[str, ...]


class Replayed(Struct, frozen=True):
    path: Domain
    epoch: int
    inputs: int
    began_at: int
    ended_at: int
    ended: str  # why there is no more
    difference: Difference | None

    @property
    def same(self) -> bool:
        return self.difference is None


def replay(recording: Recording, progress: Callable[[int], None] = lambda inputs: None) -> Replayed:
    """Run the inputs again, and compare."""
    began = recording.began()
    again = ReplayedNode(began)
    at, now, first_at, number = 0, 0.0, 0, 0
    given: Input | None = None  # the effects of this are owed
    came: list[Any] = []
    ended = "the recording breaks off: its process was killed, or still runs"
    difference: Difference | None = None

    def judge(recorded: Gave | None) -> Difference | None:
        if given is None:
            return Difference(number, at, "nothing", _kept(recorded), ()) if recorded else None
        replayed = effects_of(came) if came else None
        if (recorded and recorded.digest) == (replayed and replayed.digest):
            return None
        return Difference(number, at, shown(given), _kept(recorded), tuple(map(_line, _effects(came))))

    for word in recording.words():
        match word:
            case Began():
                continue
            case Gave():
                difference, given = judge(word), None
            case Turn():
                difference, given = judge(None), None
                at, now = word.at, word.now
                first_at = first_at or at
            case RecordingEnded(why):
                ended = why
            case ToServer() | ToVoter():
                difference, given = judge(None), None
                again.turn(word)
            case _:
                difference = judge(None)
                if difference is None:
                    number += 1
                    progress(number)
                    try:
                        came, given = again.give(now, word), word
                    except Diverged as error:
                        difference = Difference(number, at, shown(word), ("it was given",), (str(error),))
                    except Exception as error:
                        ended = f"the node failed at {shown(word)}: {type(error).__name__}: {error}"
                        break
                    if isinstance(word, NodeStopped):
                        ended = word.why
        if difference is not None:
            break
    return Replayed(recording.path, recording.epoch, number, first_at, at, ended, difference)


# One setting changed


class SettingChange(Struct, frozen=True):
    """Something that would have been different."""

    at: int
    about: str
    text: str


class _Fact(Struct, frozen=True):
    at: int
    about: str
    text: str  # "given up eu.h2 (silent)"


def what_if(
    recording: Recording, changes: Mapping[str, str], progress: Callable[[int], None] = lambda inputs: None
) -> list[SettingChange]:
    """What would have come out differently with these settings, as far as the recording can tell."""
    began = recording.began()
    sides = (ReplayedNode(began), ReplayedNode(changed(began, changes)))
    facts: tuple[list[_Fact], list[_Fact]] = ([], [])
    at, now, number = 0, 0.0, 0
    for word in recording.words():
        match word:
            case Began() | Gave() | RecordingEnded():
                continue
            case Turn():
                at, now = word.at, word.now
            case ToServer() | ToVoter():
                for again in sides:
                    again.turn(word)
            case _:
                number += 1
                progress(number)
                for again, seen in zip(sides, facts, strict=True):
                    seen.extend(_facts(at, again.give(now, word)))
    return sorted(_compared(*facts), key=lambda change: change.at)


def changed(began: Began, changes: Mapping[str, str]) -> Began:
    """The same node with other settings: ``{"detect.down_after_s": "9"}``."""
    plan = began.plan
    for name, text in changes.items():
        table, _, key = name.partition(".")
        if table == "links" and key in _names(DetectConfig):
            table = "detect"
        if table not in _TABLES or key not in _names(_TABLES[table]):
            known = [f"{t}.{k}" for t, settings in _TABLES.items() for k in _names(settings)]
            close = difflib.get_close_matches(name, known, 1, 0.5)
            raise BadInput(
                f"no setting of a node is called {name!r}",
                fix=f"did you mean {close[0]}?" if close else f"one of: {', '.join(known)}",
            )
        value = _number(name, text)
        match table:
            case "detect":
                detect = replace(plan.links.detect, **{key: value})
                plan = replace(plan, links=replace(plan.links, detect=detect))
            case "links":
                plan = replace(plan, links=replace(plan.links, **{key: value}))
            case _:
                plan = replace(plan, resolve=replace(plan.resolve, **{key: value}))
    return replace(began, plan=plan)


_TABLES: Final[Mapping[str, type[Any]]] = {
    "detect": DetectConfig,
    "links": LinkConfig,
    "resolve": RelaxedConfig,
}


def _names(settings: type[Any]) -> list[str]:
    return [field.name for field in fields(settings) if field.name != "detect"]


def _number(name: str, text: str) -> float | None:
    if text == "none":
        return None
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise BadInput(f"{name} is {text!r}, and that is no number", fix=f"--set {name}=2.5") from None


def _facts(at: int, outputs: Iterable[Any]) -> Iterator[_Fact]:
    for output in outputs:
        match output:
            case LinkDown(peer, because):
                yield _Fact(at, peer, f"given up {peer} ({because.what})")
            case LinkUp(peer):
                yield _Fact(at, peer, f"linked with {peer}")
            case LinkMoved(peer):
                yield _Fact(at, peer, f"linked with another replica of {peer}")
            case Suspected(peer):
                yield _Fact(at, peer, f"suspected {peer}")
            case Trusted(peer, after_s):
                yield _Fact(at, peer, f"trusted {peer} again, after {after_s:.1f} s")
            case Tell(endpoints, Only(domain) | Without(domain) as notice):
                word = "only" if isinstance(notice, Only) else "without"
                yield _Fact(at, f"{word} {domain}", f"told {_many(endpoints)}: {word} {domain}")
            case Tell(endpoints, Left(group, endpoint)):
                text = f"told {_many(endpoints)} that {endpoint} left {group}"
                yield _Fact(at, f"{endpoint} {group}", text)


def _many(endpoints: tuple[Any, ...]) -> str:
    return f"{len(endpoints)} endpoint{'' if len(endpoints) == 1 else 's'}"


def _compared(recorded: list[_Fact], changed: list[_Fact]) -> Iterator[SettingChange]:
    """Subject by subject, up to the first difference that the world would have noticed."""
    for about in dict.fromkeys(fact.about for fact in (*recorded, *changed)):
        was = [fact for fact in recorded if fact.about == about]
        would = [fact for fact in changed if fact.about == about]
        for a, b in zip_longest(was, would):
            if a is not None and b is not None and a.text == b.text:
                if a.at != b.at:
                    yield SettingChange(
                        a.at, about, f"would have {b.text} at {clock(b.at)} and not at {clock(a.at)}"
                    )
                continue
            if a is not None:
                yield SettingChange(a.at, about, f"would not have {a.text} at {clock(a.at)}")
            if b is not None:
                yield SettingChange(b.at, about, f"would have {b.text} at {clock(b.at)}")
            break


# For people


def clock(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]


def shown(word: AnyWord) -> str:
    """An input, in a line."""
    values = {name: value for name, value in _fields(word).items() if not isinstance(value, bytes)}
    return f"{type(word).__name__} {_json(values)}" if values else type(word).__name__


def _fields(word: AnyWord) -> dict[str, Any]:
    return {field.name: getattr(word, field.name) for field in fields(word)}


def _kept(recorded: Gave | None) -> tuple[str, ...]:
    if recorded is None:
        return ()
    if not recorded.effects:
        return ("(more than is kept of one input)",)
    return tuple(f"{name} {_json(value)}" for name, value in decoded(recorded.effects))


def _effects(outputs: list[Any]) -> list[tuple[str, Any]]:
    return [(type(output).__name__, output) for output in outputs]


def _line(effect: tuple[str, Any]) -> str:
    return f"{effect[0]} {_json(effect[1])}"


def _json(value: Any) -> str:
    return json.encode(value, enc_hook=str).decode()
