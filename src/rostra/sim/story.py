"""Stories: commands to a world, and below a line the trace that they must produce.

    world   haifa: a b   paris: c d   wan=80ms
    join    chess  a b c d
    settle
    ----
      0.324  a b c d   chess is {a b c d}

    cut     haifa | paris
    settle
    ----
      4.251  a b       without paris   chess is {a b}   because haifa lost paris: silent

A story is a list of sections. Above each line of dashes stand commands, one to a line; below it stands the
golden trace: the notices that programs got while the commands ran, in seconds from the beginning of the
section. The world has come to rest before the first command, unless it is declared `cold`. Lines that
begin with `#` are for readers; `# spec: C-062 A-07` says what the story shows.

A story can also be one run of a model of the explorer: it begins with ``model election``, and has the model's
actions where others have commands; see `sim/explore/played.py`.

In a world that is declared `fifo`, programs join with `delivery=fifo`, and `send` and `stream` speak to a
group. Faults of the network can then be of its `control` or its `data` alone: ``cut data haifa | paris``.
"""

import re
import shlex
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rostra.errors import BadInput, BadStory, RostraError
from rostra.groups.attributes import Role, Slow
from rostra.impair.quality import Constant, LineQuality, Lognormal, Uniform
from rostra.names import Domain, Group, Tree, child, labels, make_group, parse_domain, parse_host
from rostra.observe.trace import DEFAULT_PROGRAM, Detail, Names, Trace
from rostra.protocols.agreed.calls import AdministerSet, SetVerb
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.sim.explore.played import Played
from rostra.sim.lines import Channel
from rostra.sim.network import LAN, STEADY, WAN, WILD, LinkModel
from rostra.sim.programs import SimProgram
from rostra.sim.shapes import shape
from rostra.sim.world import World

_Kind = TypeVar("_Kind", bound=Enum)

NOTHING: Final = "nothing"
"""The golden trace of a section in which no program is sent anything."""

_RULE = re.compile(r"-{4,}\s*")
_GOLDEN = re.compile(rf"\s*\d+(\.\d{{3}})?\s.*|{NOTHING}\s*")
_SPEC = re.compile(r"#\s*spec:\s*(.*)")
_TIME = re.compile(r"([+-]?\d+(?:\.\d+)?)(us|ms|s|m|h)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MODELS = {"steady": STEADY, "lan": LAN, "wan": WAN, "wild": WILD}
_DETAILS: Final[dict[str, Detail]] = {"links": "links", "notes": "notes"}
_CHANNELS: Final[dict[str, Channel]] = {"control": "control", "data": "data"}


class Command(Struct, frozen=True):
    line: int
    words: tuple[str, ...]


class Section(Struct, frozen=True):
    text: tuple[str, ...]  # as written, commands and remarks
    commands: tuple[Command, ...]
    golden: tuple[str, ...] | None  # None: not written yet


class Story(Struct, frozen=True):
    name: str
    sections: tuple[Section, ...]
    spec: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> "Story":
        try:
            return cls.parse(path.read_text(encoding="utf-8"), name=str(path))
        except OSError as error:
            raise BadStory(
                f"{path} cannot be read: {error.strerror or error}", fix="name a text file with a story"
            ) from None
        except UnicodeDecodeError:
            raise BadStory(f"{path} is not UTF-8 text", fix="name a text file with a story") from None

    @classmethod
    def parse(cls, text: str, name: str = "story") -> "Story":
        sections: list[Section] = []
        spec: list[str] = []
        written: list[str] = []
        commands: list[Command] = []
        golden: list[str] | None = None

        def end_section() -> None:
            nonlocal golden
            if commands or golden is not None:
                sections.append(
                    Section(tuple(written), tuple(commands), None if golden is None else tuple(golden))
                )
                written.clear()
                commands.clear()
                golden = None

        for number, line in enumerate(text.splitlines(), start=1):
            if _RULE.fullmatch(line):
                if golden is not None or not commands:
                    raise BadStory(f"{name}:{number}: a line with no commands above it", fix="remove it")
                golden = []
            elif golden is not None and (not line.strip() or _GOLDEN.fullmatch(line)):
                if line.strip():
                    golden.append(line.rstrip())
            else:
                if golden is not None:
                    end_section()
                written.append(line.rstrip())
                if found := _SPEC.fullmatch(line.strip()):
                    spec += found[1].replace(",", " ").split()
                if line.strip() and not line.lstrip().startswith("#"):
                    commands.append(Command(number, _words(line, f"{name}:{number}")))
        end_section()
        if not sections:
            raise BadStory(f"{name}: no commands in it", fix="begin with a world:  world haifa: a b")
        return cls(name, tuple(sections), tuple(spec))

    def text(self, traces: Iterable[Iterable[str]]) -> str:
        """The story with these traces as its golden ones."""
        parts = []
        for section, trace in zip(self.sections, traces, strict=True):
            commands = "\n".join(section.text).strip("\n")
            parts.append("\n".join([commands, "----", *(list(trace) or [NOTHING])]) + "\n")
        return "\n".join(parts)

    def golden(self) -> str:
        return self.text((section.golden or ()) for section in self.sections)


def _words(line: str, where: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line.replace(" | ", " '|' ").replace(" > ", " '>' "), comments=True))
    except ValueError as error:
        raise BadStory(f"{where}: {error}", fix="close the quotes") from None


def tell(story: Story, *, seed: int | None = None, journal: Path | None = None) -> list[list[str]]:
    """Run a story; one trace for each of its sections. With `journal`, its servers leave their journals in
    that directory."""
    teller = _Teller(story.name, seed, journal)
    try:
        return [teller.section(section) for section in story.sections]
    finally:
        teller.over()


class _Teller:
    """Runs the commands of one story."""

    def __init__(self, name: str, seed: int | None, journal: Path | None = None) -> None:
        self.name = name
        self.seed = seed
        self._journal = journal
        self._world: World | None = None
        self._trace: Trace | None = None
        self._played: Played | None = None
        self._programs: dict[tuple[Domain, str], SimProgram] = {}

    def section(self, section: Section) -> list[str]:
        if self._trace is not None:
            self._trace.began_at = self.world.now
        for command in section.commands:
            verb, *args = command.words
            run, usage = _VERBS.get(verb, (None, ""))
            try:
                if self._played is not None:
                    self._played.do(command.words)
                    continue
                if run is None:
                    raise BadInput("no such command", fix=f"one of: {' '.join(sorted(_VERBS))}")
                run(self, args)
            except RostraError as error:
                fix = error.fix or f"write:  {verb} {usage}"
                raise BadStory(f"{self.name}:{command.line}: {verb}: {error.what}", fix=fix) from error
        if self._played is not None:
            return self._played.lines()
        return self._trace.lines() if self._trace is not None else []

    def over(self) -> None:
        """The story ends here, well or not."""
        if self._world is not None:
            self._world.close()

    @property
    def world(self) -> World:
        if self._world is None:
            raise BadInput("there is no world yet", fix="begin with one:  world haifa: a b")
        return self._world

    # Names

    def server(self, name: str) -> Domain:
        """A server by its path, or by its last label if no other server has it."""
        servers = self.world.tree.servers
        if name in (".", "world"):
            return parse_domain(name)
        found = [path for path in servers if path == name] or [
            path for path in servers if labels(path)[-1:] == (name,)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise BadInput(f"{name!r} may be {' or '.join(found)}", fix="write the whole path")
        raise BadInput(f"no server is called {name!r}", fix=f"one of: {' '.join(servers)}")

    def program(self, name: str) -> SimProgram:
        """A program by its host and name, `a/web`; started if it does not run. `a` alone means `a/app`."""
        host_name, _, program_name = name.partition("/")
        host, program_name = self.server(host_name), program_name or DEFAULT_PROGRAM
        program = self._programs.get((host, program_name))
        if program is None or not program.alive:
            program = self._programs[host, program_name] = self.world.program(host, program_name)
        return program

    def programs(self, names: Iterable[str]) -> list[SimProgram]:
        found = [self.program(name) for name in names]
        if not found:
            raise BadInput("nobody is named")
        return found

    def group(self, text: str) -> Group:
        name, at, scope = text.rpartition("@")
        return make_group(name, self.server(scope)) if at else make_group(text, "world")

    def where(self, words: list[str]) -> str:
        """The lines between two sides, with short names written out."""
        exact = words[:1] == ["link"]
        sides = [word if word in "|>" else self.server(word) for word in words[exact:]]
        if len(sides) not in (1, 3) or (len(sides) == 3 and sides[1] not in "|>"):
            raise BadInput(f"{' '.join(words)!r} names no lines")
        return ("link " if exact else "") + " ".join(sides)

    # Commands

    def make_world(self, args: list[str]) -> None:
        if self._world is not None:
            raise BadInput("there is a world already", fix="one story, one world")
        hosts: list[Domain] = []
        options: dict[str, str] = {}
        tree: Tree | None = None
        cluster: Domain | None = None
        words = iter(args)
        for word in words:
            if word == "tree":
                tree = shape(next(words, ""))
            elif word.endswith(":"):
                cluster = parse_domain(word[:-1])
            elif "=" in word or word in ("cold", "fifo"):
                option, _, value = word.partition("=")
                options[option] = value
            elif cluster is None:
                raise BadInput(f"host {word!r} is in no cluster", fix="name the cluster first:  haifa: a b")
            else:
                hosts.append(parse_host(child(cluster, word)))
        if (tree is None) == (not hosts):
            raise BadInput("a world is made of clusters or of a tree")
        tree = tree or Tree.of(hosts)
        cold = options.pop("cold", None) is not None
        self._world = World(
            links=_links(options), **_settings(options, self.seed), tree=tree, journal=self._journal
        )
        self._trace = Trace(Names(tree))
        if options:
            raise BadInput(f"no option is called {next(iter(options))!r}")
        if not cold:
            self._world.settle()
        self._trace.began_at = self._world.now
        self._world.observe(self._trace)

    def play(self, args: list[str]) -> None:
        if self._world is not None:
            raise BadInput("there is a world already", fix="a world or a model")
        if self._journal is not None or self.seed is not None:
            raise BadInput("a model has no seed and keeps no journal", fix="leave out --seed and --journal")
        self._played = Played(args)

    def show(self, args: list[str]) -> None:
        if unknown := sorted(set(args) - _DETAILS.keys()):
            raise BadInput(f"cannot show {' '.join(unknown)}")
        if self._trace is None:
            raise BadInput("there is no world yet", fix="begin with one:  world haifa: a b")
        self._trace.show = {_DETAILS[word] for word in args}

    def join(self, args: list[str]) -> None:
        known = ("meta", "offline", "permanent", "delivery", "role", "slow", "membership", "survive")
        args, options = _options(args, *known)
        group, who = self.group(_first(args, "a group")), self.programs(args[1:])
        delivery = options.get("delivery", "none")
        if delivery not in ("none", "fifo"):
            raise BadInput(f"no delivery is called {delivery!r}", fix="none or fifo")
        if delivery == "fifo" and self.world.fifo is None:
            raise BadInput("nobody can speak in this world", fix="say so:  world haifa: a b  fifo")
        membership = options.get("membership", "relaxed")
        if membership not in ("relaxed", "agreed"):
            raise BadInput(f"no membership is called {membership!r}", fix="relaxed or agreed")
        for program in who:
            if membership == "agreed":
                meta = options.get("meta", "").encode()
                program.join_agreed(group, survive=options.get("survive", ""), meta=meta)
                continue
            if delivery == "fifo":
                role = _one_of(Role, options.get("role", "both"))
                slow = _one_of(Slow, options.get("slow", "throttle"))
                program.join_fifo(group, role=role, slow=slow, meta=options.get("meta", "").encode())
                continue
            program.join(
                group,
                online="offline" not in options,
                permanent="permanent" in options,
                meta=options.get("meta", "").encode(),
            )

    def leave(self, args: list[str]) -> None:
        args, options = _options(args, "meta")
        group = self.group(_first(args, "a group"))
        for program in self.programs(args[1:]):
            if group in program.agreed:
                program.leave_agreed(group)
            else:
                program.leave(group, meta=options.get("meta", "").encode())

    def resolve(self, args: list[str]) -> None:
        args, options = _options(args, "deadline")
        text = _first(args, "a group")
        deadline_s = _seconds(options["deadline"]) if "deadline" in options else None
        for program in self.programs(args[1:]):
            if text.endswith("@*"):
                program.resolve_everywhere(text[:-2])
            else:
                program.resolve(self.group(text), deadline_s=deadline_s)

    def online(self, args: list[str]) -> None:
        self._each(args, SimProgram.go_online)

    def offline(self, args: list[str]) -> None:
        self._each(args, SimProgram.go_offline)

    def watch(self, args: list[str]) -> None:
        self._each(args, SimProgram.watch)

    def unwatch(self, args: list[str]) -> None:
        self._each(args, SimProgram.unwatch)

    def _each(self, args: list[str], ask: Callable[[SimProgram, Group], object]) -> None:
        group = self.group(_first(args, "a group"))
        for program in self.programs(args[1:]):
            ask(program, group)

    def send(self, args: list[str]) -> None:
        if self.world.fifo is not None and args[1:2] != [">"] and len(args) >= 3:
            group, program = self.group(args[0]), self.program(args[1])
            program.say(group, *(text.encode() for text in args[2:]))
            return
        if len(args) < 4 or args[1] != ">":
            raise BadInput("who sends what to whom?")
        source, *to = self.programs([args[0], *args[2:-1]])
        source.send(args[-1].encode(), *to)

    def stream(self, args: list[str]) -> None:
        args, options = _options(args, "every", "count", "phase")
        group = self.group(_first(args, "a group"))
        count = options.get("count", "")
        if count and not count.isdigit():
            raise BadInput(f"{count!r} is no number of messages", fix="count=50")
        for program in self.programs(args[1:]):
            program.stream(
                group,
                _seconds(options.get("every", "100ms")),
                count=int(count) if count else None,
                phase_s=_seconds(options.get("phase", "0s")),
            )

    def hush(self, args: list[str]) -> None:
        group = self.group(_first(args, "a group"))
        for program in self.programs(args[1:]):
            program.hush(group)

    def life(self, args: list[str]) -> None:
        if len(args) < 3 or args[1] != "of":
            raise BadInput("who watches whose life?")
        observer, *others = self.programs([args[0], *args[2:]])
        for other in others:
            observer.watch_life(other)

    def open(self, args: list[str]) -> None:
        self.programs(args)

    def close(self, args: list[str]) -> None:
        for program in self.programs(args):
            program.close()

    def kill(self, args: list[str]) -> None:
        for program in self.programs(args):
            program.kill()

    def deaf(self, args: list[str]) -> None:
        for program in self.programs(args):
            self.world.deafen(program)

    def hears(self, args: list[str]) -> None:
        for program in self.programs(args):
            self.world.undeafen(program)

    def register(self, args: list[str]) -> None:
        self.world.register(self.group(_only(args, "a group")))

    def unregister(self, args: list[str]) -> None:
        self.world.unregister(self.group(_only(args, "a group")))

    def add(self, args: list[str]) -> None:
        _first(args, "a host")
        self.world.add(*args)
        if self._trace is not None:
            self._trace.names = Names(self.world.tree)

    def remove(self, args: list[str]) -> None:
        self.world.remove(self.server(_only(args, "a domain")))

    def administer(self, args: list[str]) -> None:
        if len(args) < 3:
            raise BadInput("who is to do what, with which set?")
        verbs = {each.name.lower().replace("_", "-"): each for each in SetVerb}
        if args[1] not in verbs:
            raise BadInput(f"a set cannot {args[1]}", fix=f"one of: {' '.join(verbs)}")
        servers = [self.server(each) for each in args[3:] if "," not in each]
        names = [name for each in args[3:] if "," in each for name in each.split(",")]
        order = AdministerSet(self.server(args[2]), verbs[args[1]], tuple(servers), tuple(names))
        self.world.administer(self.server(args[0]), order)

    def crash(self, args: list[str]) -> None:
        self._servers(args, self.world.crash)

    def restart(self, args: list[str]) -> None:
        self._servers(args, self.world.restart)

    def pause(self, args: list[str]) -> None:
        self._servers(args, self.world.pause)

    def resume(self, args: list[str]) -> None:
        self._servers(args, self.world.resume)

    def _servers(self, args: list[str], do: Callable[[str], object]) -> None:
        if not args:
            raise BadInput("no server is named")
        for name in args:
            do(self.server(name))

    def slow(self, args: list[str]) -> None:
        self._servers(args[:-1], lambda path: self.world.slow(path, _seconds(args[-1])))

    def clock(self, args: list[str]) -> None:
        self._servers(args[:-1], lambda path: self.world.step_clock(path, _seconds(args[-1])))

    def cut(self, args: list[str]) -> None:
        args, only = _channel(args)
        self.world.cut(self.where(args), only)

    def heal(self, args: list[str]) -> None:
        args, only = _channel(args)
        self.world.heal(self.where(args) if args else "", only)

    def reset(self, args: list[str]) -> None:
        self.world.reset(self.where(args))

    def hold(self, args: list[str]) -> None:
        self.world.hold(self.where(args))

    def release(self, args: list[str]) -> None:
        self.world.release(self.where(args) if args else "")

    def loss(self, args: list[str]) -> None:
        args, only = _channel(args)
        self.world.lose(_share(_first(args, "a share")), self.where(args[1:]) if args[1:] else "", only)

    def delay(self, args: list[str]) -> None:
        args, only = _channel(args)
        self.world.delay(_seconds(_first(args, "a time")), self.where(args[1:]) if args[1:] else "", only)

    def run(self, args: list[str]) -> None:
        self.world.run(_seconds(_only(args, "a time")))

    def settle(self, args: list[str]) -> None:
        if args:
            raise BadInput("nothing can be said about settling")
        self.world.settle()


_VERBS: Final[dict[str, tuple[Callable[[_Teller, list[str]], None], str]]] = {
    "world": (
        _Teller.make_world,
        "haifa: a b  paris: c d  [tree T-REF] [wan=80ms] [lan=1ms] [loss=1%] [seed=7] [fifo]",
    ),
    "model": (_Teller.play, "election [crashes=1] [plant=double-vote]"),
    "show": (_Teller.show, "[links] [notes]"),
    "open": (_Teller.open, "WHO..."),
    "close": (_Teller.close, "WHO..."),
    "kill": (_Teller.kill, "WHO..."),
    "join": (_Teller.join, "GROUP WHO... [offline] [permanent] [meta=TEXT] [delivery=fifo [role=receive]]"),
    "leave": (_Teller.leave, "GROUP WHO... [meta=TEXT]"),
    "online": (_Teller.online, "GROUP WHO..."),
    "offline": (_Teller.offline, "GROUP WHO..."),
    "watch": (_Teller.watch, "GROUP WHO..."),
    "unwatch": (_Teller.unwatch, "GROUP WHO..."),
    "resolve": (_Teller.resolve, "GROUP WHO... [deadline=2s]      (GROUP@* asks in every scope around)"),
    "send": (_Teller.send, "WHO > WHO... TEXT   or, to a group:   GROUP WHO TEXT..."),
    "stream": (_Teller.stream, "GROUP WHO... [every=100ms] [count=50] [phase=30ms]"),
    "hush": (_Teller.hush, "GROUP WHO..."),
    "life": (_Teller.life, "WHO of WHO..."),
    "deaf": (_Teller.deaf, "WHO..."),
    "hears": (_Teller.hears, "WHO..."),
    "register": (_Teller.register, "GROUP"),
    "unregister": (_Teller.unregister, "GROUP"),
    "crash": (_Teller.crash, "SERVER..."),
    "add": (_Teller.add, "HOST..."),
    "remove": (_Teller.remove, "DOMAIN"),
    "administer": (_Teller.administer, "SERVER VERB SET [SERVER...] [NAME,NAME]"),
    "restart": (_Teller.restart, "SERVER..."),
    "pause": (_Teller.pause, "SERVER..."),
    "continue": (_Teller.resume, "SERVER..."),
    "slow": (_Teller.slow, "SERVER... 50ms"),
    "clock": (_Teller.clock, "SERVER... +5s"),
    "cut": (_Teller.cut, "[control|data] A | B   or   A > B   or   A   or   link A | B"),
    "heal": (_Teller.heal, "[control|data] [A | B]"),
    "reset": (_Teller.reset, "A | B"),
    "hold": (_Teller.hold, "A > B"),
    "release": (_Teller.release, "[A > B]"),
    "loss": (_Teller.loss, "[control|data] 5% [A | B]"),
    "delay": (_Teller.delay, "[control|data] 300ms [A > B]"),
    "run": (_Teller.run, "3s"),
    "settle": (_Teller.settle, ""),
}


def _links(options: dict[str, str]) -> LinkModel:
    """The network that a world's options describe; takes them out of `options`."""
    name = options.pop("links", "steady")
    if name not in _MODELS:
        raise BadInput(f"no network is called {name!r}", fix=f"one of: {' '.join(_MODELS)}")
    model = _MODELS[name]
    lan, wan = model.lan, model.wan
    if "lan" in options:
        lan = _with_delay(lan, options.pop("lan"))
    if "wan" in options:
        wan = _with_delay(wan, options.pop("wan"))
    model = LinkModel(lan, wan)
    if "loss" in options:
        model = model.losing(_share(options.pop("loss")))
    if "duplicate" in options:
        model = model.duplicating(_share(options.pop("duplicate")))
    if "reorder" in options:
        model = model.reordering(_share(options.pop("reorder")))
    return model


def _with_delay(quality: LineQuality, text: str) -> LineQuality:
    """80ms always, 20ms..200ms evenly, ~80ms mostly near it."""
    delay: Constant | Uniform | Lognormal
    if ".." in text:
        low, _, high = text.partition("..")
        delay = Uniform(_seconds(low), _seconds(high))
    elif text.startswith("~"):
        delay = Lognormal(_seconds(text[1:]))
    else:
        delay = Constant(_seconds(text))
    return LineQuality(delay, quality.loss, quality.duplicate, quality.reorder)


def _settings(options: dict[str, str], seed: int | None) -> dict[str, Any]:
    """What else a world's options say about it; takes them out of `options`."""
    profile = options.pop("profile", "wan")
    if profile not in ("lan", "wan"):
        raise BadInput(f"no profile is called {profile!r}", fix="lan or wan")
    written = options.pop("seed", "0")
    if not written.isdigit():
        raise BadInput(f"{written!r} is no seed", fix="a number: seed=7")
    lan = profile == "lan"
    agreed = AgreedConfig.lan() if lan else AgreedConfig.wan()
    lanes = options.pop("lanes", "0")
    if not lanes.isdigit():
        raise BadInput(f"{lanes!r} is no number of lanes", fix="a number: lanes=64")
    fifo = options.pop("fifo", None) is not None
    return {
        "seed": int(written) if seed is None else seed,
        "timers": (LinkConfig.lan() if lan else LinkConfig.wan()).over_datagrams(),
        "config": RelaxedConfig.lan() if lan else RelaxedConfig.wan(),
        "agreed": replace(agreed, lanes=int(lanes)),
        "fifo": (FifoConfig.lan() if lan else FifoConfig.wan()) if fifo else False,
    }


def _options(args: list[str], *names: str) -> tuple[list[str], dict[str, str]]:
    """The words that are options, apart from the others."""
    options = {}
    others = []
    for word in args:
        name, _, value = word.partition("=")
        if name in names:
            options[name] = value
        else:
            others.append(word)
    return others, options


def _channel(args: list[str]) -> tuple[list[str], Channel | None]:
    """Is one of the two channels meant alone?"""
    return (args[1:], _CHANNELS[args[0]]) if args and args[0] in _CHANNELS else (args, None)


def _one_of(kind: type[_Kind], text: str) -> _Kind:
    try:
        return kind(text)
    except ValueError:
        choices = " ".join(str(each.value) for each in kind)
        raise BadInput(f"{text!r} is no {kind.__name__.lower()}", fix=f"one of: {choices}") from None


def _first(args: list[str], what: str) -> str:
    if not args:
        raise BadInput(f"{what} is missing")
    return args[0]


def _only(args: list[str], what: str) -> str:
    if len(args) != 1:
        raise BadInput(f"{what} is wanted, and nothing else")
    return args[0]


def _seconds(text: str) -> float:
    found = _TIME.fullmatch(text)
    if not found:
        raise BadInput(f"{text!r} is no time", fix="write 80ms, 3s, 2m or 1h")
    return float(found[1]) * _SECONDS[found[2]]


def _share(text: str) -> float:
    number = text.removesuffix("%")
    try:
        share = float(number) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise BadInput(f"{text!r} is no share", fix="write 5% or 0.05")
    return share
