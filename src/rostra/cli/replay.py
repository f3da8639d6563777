"""`rostra sim replay`: feeds a recording to the cores again, also with a setting changed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rostra.cli.common import EXIT_FAILED, EXIT_OK, command, option, remark
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, remarks, say, show_rows
from rostra.errors import BadInput

if TYPE_CHECKING:
    from rostra.sim.replay import Recording, Replayed

PROGRESS_EVERY = 5_000
"""Inputs between two signs of progress."""


def register(sim: typer.Typer) -> None:
    sim.command("replay", cls=HouseCommand)(command(replay_recordings))


def replay_recordings(
    journal: Annotated[Path, typer.Argument(metavar="DIR", help="A journal that was kept with --record.")],
    node: Annotated[str | None, option(metavar="PATH", help="Only this agent or server.")] = None,
    set_: Annotated[
        list[str] | None, option("--set", metavar="NAME=VALUE", help="And with this setting changed?")
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Replay what nodes were given: do they do the same again, byte for byte?

    With --set, tell what would have come out differently. The inputs stay as recorded, so the first
    difference about a neighbour is sound; what it would have led to is not known. Exit code 1 if a replay
    differs from its recording.

    Examples:

        rostra sim replay /var/lib/rostra/journal
        rostra sim replay journal --node eu.paris --set detect.down_after_s=9
    """
    # Arrow unpacks recordings, and takes long to load.
    from rostra.sim.replay import recordings

    changes = dict(_setting(text) for text in set_ or ())
    found = recordings(journal, of=node)
    return _what_if(found, changes, output) if changes else _again(found, output)


def _again(found: "list[Recording]", output: OutputFormat) -> int:
    from rostra.sim.replay import replay

    replayed = []
    with _progress(len(found)) as tell:
        for number, recording in enumerate(found):
            replayed.append(replay(recording, tell(number, recording.path)))
            if output is OutputFormat.TABLE:
                _show(replayed[-1])
    if output is not OutputFormat.TABLE:
        rows = [_document(each) for each in replayed]
        show_rows(rows, output, {"replayed": rows})
    same = sum(each.same for each in replayed)
    remark(f"{same} of {len(replayed)} replays gave the same effects")
    return EXIT_OK if same == len(replayed) else EXIT_FAILED


def _show(each: "Replayed") -> None:
    from rostra.sim.replay import clock

    span = f"{each.inputs} inputs, {clock(each.began_at)} to {clock(each.ended_at)} UTC"
    difference = each.difference
    if difference is None:
        say(f"{each.path} #{each.epoch}   {span}   same effects, byte for byte   ({each.ended})")
        return
    say(f"{each.path} #{each.epoch}   {span}   DIFFERENT")
    say(f"  at {clock(difference.at)} UTC, input {difference.number}: {difference.given}")
    for title, lines in (("recorded", difference.recorded), ("replayed", difference.replayed)):
        for line in lines or ("nothing",):
            say(f"    {title}: {line}")


def _what_if(found: "list[Recording]", changes: dict[str, str], output: OutputFormat) -> int:
    from rostra.sim.replay import changed, what_if

    replicas = [each.path for each in found if each.began().voter is not None]
    if replicas:
        remark(f"left out: {', '.join(replicas)}. With other settings another replica might have led")
        found = [each for each in found if each.path not in replicas]
    if not found:
        return EXIT_OK
    changed(found[0].began(), changes)  # a misspelt setting is reported before anything long begins
    rows: list[dict[str, Any]] = []
    with _progress(len(found)) as tell:
        for number, recording in enumerate(found):
            differences = what_if(recording, changes, tell(number, recording.path))
            rows += [
                {"node": recording.path, "epoch": recording.epoch, "about": each.about, "text": each.text}
                for each in differences
            ]
            if output is OutputFormat.TABLE:
                say(f"{recording.path} #{recording.epoch}")
                for each in differences:
                    say(f"  {each.text}")
                if not differences:
                    say("  nothing would have been different")
    if output is not OutputFormat.TABLE:
        show_rows(rows, output, {"changed": changes, "different": rows})
    elif rows:
        remark("what the neighbours did stays as recorded: what would have followed from this is not known")
    return EXIT_OK


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise BadInput(f"{text!r} sets nothing", fix="--set detect.down_after_s=9")
    return name.strip(), value.strip()


def _document(each: "Replayed") -> dict[str, Any]:
    difference = each.difference
    return {
        "node": each.path,
        "epoch": each.epoch,
        "inputs": each.inputs,
        "same": each.same,
        "ended": each.ended,
        "difference": None
        if difference is None
        else {
            "input": difference.number,
            "at_us": difference.at,
            "given": difference.given,
            "recorded": difference.recorded,
            "replayed": difference.replayed,
        },
    }


@contextmanager
def _progress(many: int) -> Iterator[Callable[[int, str], Callable[[int], None]]]:
    """On a terminal: which recording, and how far."""
    if not sys.stderr.isatty():
        yield lambda number, path: lambda inputs: None
        return
    with remarks().status("replaying", spinner="dots") as status:

        def tell(number: int, path: str) -> Callable[[int], None]:
            def on(inputs: int) -> None:
                if inputs % PROGRESS_EVERY == 0:
                    status.update(f"replaying {path}, {number + 1} of {many}: {inputs} inputs")

            return on

        yield tell
