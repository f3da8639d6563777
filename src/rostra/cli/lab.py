"""`rostra lab`: sites with an impaired wide-area network between them, on this machine.

Exit codes: 0 it was up and was ended by a signal, or did what was asked; 1 the network is not as it was asked
for, or its router ended; 2 wrong use, or this machine cannot: the error says what is missing.
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rostra.cli.common import EXIT_FAILED, EXIT_OK, command, how_to_call, option, remark
from rostra.cli.house import HouseCommand, HouseGroup
from rostra.cli.output import Format, OutputFormat, answers, busy, say, show_rows, show_table
from rostra.errors import BadInput, Unreachable

if TYPE_CHECKING:
    from rostra.lab.control import Now
    from rostra.lab.lab import Lab
    from rostra.lab.probe import Probed
    from rostra.lab.world import LabWorld

HELP = """Sites on this machine with a wide-area network between them, to be spoilt at will. Needs root.

Each site is a LAN of network namespaces, with a real server and real agents; a router process delays,
loses and cuts what they say to each other. See docs/lab.md.

Examples:

    rostra lab up
    rostra lab set mit ntu --loss 0.2 --jitter-ms 5
    rostra lab cut ntu
    rostra lab heal
"""

WATCH_S = 0.5

Number = Annotated[int | None, option("--lab", metavar="NUMBER", help="Which, if several are up.")]
OneWay = Annotated[bool, typer.Option("--one-way", help="Only from the first site to the second.")]


def register(main: typer.Typer) -> None:
    app = typer.Typer(cls=HouseGroup, no_args_is_help=True, help=HELP)
    for name, run in (
        ("up", up),
        ("links", links),
        ("set", set_link),
        ("cut", cut),
        ("heal", heal),
        ("probe", probe_links),
        ("clean", clean),
    ):
        app.command(name, cls=HouseCommand)(command(run))
    main.add_typer(app, name="lab", rich_help_panel="On one machine")


def up(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="What the lab looks like; else the three sites of the Xpand paper."
        ),
    ] = None,
    network_only: Annotated[
        bool, typer.Option("--network-only", help="Start no servers and agents.")
    ] = False,
    loss: Annotated[
        str | None,
        typer.Option("--loss", help="On every link: 0.05, or 0.01..0.2 to drift.", show_default="the file's"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Seed of all random decisions about packets.", show_default="the file's"),
    ] = None,
    profile: Annotated[str, typer.Option("--profile", help="Of the servers and agents: lan or wan.")] = "wan",
    down_after_s: Annotated[
        float | None,
        typer.Option(
            "--down-after-s", help="How long they wait for a silent one.", show_default="the profile's"
        ),
    ] = None,
    probes: Annotated[
        int, typer.Option("--probes", min=0, help="On each way, before anything starts; 0 for none.")
    ] = 1000,
) -> int:
    """Build a lab and run it until Ctrl-C, which ends every process and leaves nothing behind.

    Every site gets a server, every host an agent. Before they start, probes check that the network is as it
    was asked for; stderr says how far off it is.

    Examples:

      rostra lab up

      rostra lab up lab.toml --seed 7

      rostra lab up --loss 0.05 --network-only
    """
    from msgspec.structs import replace

    from rostra.config import parse_profile, placed
    from rostra.lab.plan import THREE_SITES, load_plan

    placed("--profile", parse_profile, profile)
    detect = {} if down_after_s is None else {"down_after_s": down_after_s}
    plan = load_plan(file or THREE_SITES)
    if seed is not None:
        plan = replace(plan, seed=seed)
    if loss is not None:
        share = _loss(loss)
        plan = replace(plan, ways=tuple((a, b, quality.but(loss=share)) for a, b, quality in plan.ways))
    with asyncio.Runner() as runner:
        return runner.run(_up(plan, None if network_only else profile, detect, probes))


async def _up(plan: Any, profile: str | None, detect: dict[str, float], probes: int) -> int:
    from rostra.lab.lab import Lab
    from rostra.lab.probe import probe
    from rostra.lab.world import LabWorld

    began_s = time.monotonic()
    _end_when_told()
    with busy("building the sites"):
        lab = Lab(plan).open()
    try:
        if probes and plan.ways:
            with busy(f"probing every link with {probes} packets"):
                _say_how_far_off(probe(lab, probes))
        world = None
        if profile is not None:
            with busy("starting servers and agents"):
                world = await LabWorld(lab, profile=profile, detect=detect).start()
        await asyncio.sleep(0)  # told to end while we were building?
        _show_up(lab, world, time.monotonic() - began_s)
        return await _watch(lab, world)
    except asyncio.CancelledError:
        return EXIT_OK
    finally:
        with busy("ending every process"):
            lab.close()


def _end_when_told() -> None:
    """End on SIGINT, SIGTERM and SIGHUP."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _watch(lab: "Lab", world: "LabWorld | None") -> int:
    """Until a signal, or the end of the network. A server that ends is only reported: it may have been
    killed to see how the others react."""
    told: set[str] = set()
    while lab.router is not None and lab.router.poll() is None:
        if world is not None:
            for name in sorted(set(world.ended()) - told):
                told.add(name)
                remark(f"{name} ended: see {world.log(name)}")
        await asyncio.sleep(WATCH_S)
    remark(f"the router ended: {lab.last_words}")
    return EXIT_FAILED


def _show_up(lab: "Lab", world: "LabWorld | None", took_s: float) -> None:
    sites = ", ".join(f"{place.name} ({len(place.hosts)} hosts)" for place in lab.sites)
    console = answers()
    console.print(f"lab {lab.home.number} is up: {sites} ({took_s:.1f} s)\n")
    for label, text in _hints(lab, world):
        console.print(f"  {label:<9}{text}")
    console.print()
    sys.stdout.flush()


def _hints(lab: "Lab", world: "LabWorld | None") -> Iterator[tuple[str, str]]:
    from rostra.lab.home import running

    first, last = lab.sites[0], lab.sites[-1]
    rostra = how_to_call()
    which = f" --lab {lab.home.number}" if len(running()) > 1 else ""
    for label, place in (("enter", first), ("", last)):
        yield label, f"{' '.join(place.command('bash'))}    {place.name}'s own machine, {place.address}"
    for host in list(last.hosts.values())[:1]:
        yield "", f"{' '.join(host.command('bash'))}    a host there, {host.address}"
    if world is not None and world.hosts:
        yield "speak", f"{rostra} join lounge --agent {world.socket(world.hosts[0].name)}"
        yield "", f"{rostra} watch lounge --agent {world.socket(world.hosts[-1].name)}"
    yield "change", f"{rostra} lab set {first.name} {last.name} --loss 0.2{which}"
    yield "", f"{rostra} lab cut {last.name}{which}    and:  {rostra} lab heal{which}"
    yield "look", f"{rostra} lab links{which}"
    yield "logs", str(lab.home.path)
    yield "end", "Ctrl-C"


def links(number: Number = None, output: Format = OutputFormat.TABLE) -> int:
    """Show every way between two sites: how good it is now, and what became of its packets.

    Examples:

      rostra lab links

      rostra lab links -o jsonl
    """
    with _running(number) as lab:
        _show(lab.now(), output)
    return EXIT_OK


def set_link(
    a: Annotated[str, typer.Argument(metavar="SITE", help="One end.")],
    b: Annotated[str, typer.Argument(metavar="SITE", help="The other end.")],
    loss: Annotated[
        str | None, typer.Option("--loss", help="Share of packets: 0.05, or 0.01..0.2 to drift.")
    ] = None,
    drift_s: Annotated[
        float | None, typer.Option("--drift-s", help="How long a drift takes, and back.")
    ] = None,
    delay_ms: Annotated[float | None, typer.Option("--delay-ms", help="Of one way.")] = None,
    jitter_ms: Annotated[float | None, typer.Option("--jitter-ms", help="More or less than that.")] = None,
    duplicate: Annotated[float | None, typer.Option("--duplicate", help="Share of packets.")] = None,
    reorder: Annotated[float | None, typer.Option("--reorder", help="Share that is held back.")] = None,
    reorder_ms: Annotated[float | None, typer.Option("--reorder-ms", help="For so long.")] = None,
    rate_mbit: Annotated[float | None, typer.Option("--rate-mbit", help="0 for no limit.")] = None,
    queue_kib: Annotated[
        float | None, typer.Option("--queue-kib", help="What may wait for its turn.")
    ] = None,
    one_way: OneWay = False,
    number: Number = None,
) -> int:
    """Change the link between two sites while it runs; other values stay.

    Examples:

      rostra lab set mit ntu --loss 0.2

      rostra lab set huji ntu --one-way --delay-ms 300 --rate-mbit 2
    """
    settings: dict[str, Any] = {
        "loss": None if loss is None else _loss(loss),
        "drift_s": drift_s,
        "delay_s": None if delay_ms is None else delay_ms / 1e3,
        "jitter_s": None if jitter_ms is None else jitter_ms / 1e3,
        "duplicate": duplicate,
        "reorder": reorder,
        "reorder_s": None if reorder_ms is None else reorder_ms / 1e3,
        "rate_bps": None if rate_mbit is None else rate_mbit * 1e6,
        "queue_bytes": None if queue_kib is None else int(queue_kib * 1024),
    }
    said = {name: value for name, value in settings.items() if value is not None}
    if not said:
        raise BadInput("nothing to change was said", fix=f"for example:  rostra lab set {a} {b} --loss 0.1")
    with _running(number) as lab:
        (lab.way(a, b) if one_way else lab.link(a, b)).set(**said)
    return EXIT_OK


def cut(
    site: Annotated[str, typer.Argument(metavar="SITE", help="Cut off from all others...")],
    other: Annotated[str | None, typer.Argument(metavar="SITE", help="... or from this one only.")] = None,
    one_way: OneWay = False,
    number: Number = None,
) -> int:
    """Cut a site off, or the link between two; one way if asked. Nothing arrives until it heals.

    Examples:

      rostra lab cut ntu

      rostra lab cut ntu mit --one-way
    """
    with _running(number) as lab:
        if one_way:
            lab.way(site, _second(other)).cut()
        elif other is None:
            lab.cut(site)
        else:
            lab.cut(site, other)
    return EXIT_OK


def heal(
    site: Annotated[
        str | None, typer.Argument(metavar="SITE", help="All its links; else every link.")
    ] = None,
    other: Annotated[str | None, typer.Argument(metavar="SITE", help="Only the link to this one.")] = None,
    one_way: OneWay = False,
    number: Number = None,
) -> int:
    """Undo cuts: all of them, those of a site, or those between two.

    Examples:

      rostra lab heal

      rostra lab heal ntu mit --one-way
    """
    with _running(number) as lab:
        if one_way:
            lab.way(_second(site), _second(other)).heal()
        else:
            lab.heal(*(each for each in (site, other) if each is not None))
    return EXIT_OK


def probe_links(
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Packets on each way.")] = 1000,
    number: Number = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Is the network as it was asked for? Send probes on every way that is not cut.

    Delay should be within 2 % of the setting and loss within two points of it, or within what so many probes
    can tell. Exit code 1 if not.

    Examples:

      rostra lab probe

      rostra lab probe -n 5000 -o json
    """
    from rostra.lab.probe import probe

    with _running(number) as lab, busy(f"probing every link with {count} packets"):
        found = probe(lab, count)
    if output is OutputFormat.TABLE:
        show_table(
            ("from", "to", "delay", "asked", "p99", "loss", "asked", ""),
            [
                (
                    *(
                        each.source,
                        each.to,
                        _ms(each.delay_s),
                        _ms(each.asked_delay_s),
                        _ms(each.delay_p99_s),
                    ),
                    *(
                        _share(each.loss),
                        _shares(each.asked_loss),
                        "" if each.is_as_asked else "NOT AS ASKED",
                    ),
                )
                for each in found
            ],
        )
    else:
        rows = [{**_as_dict(each), "loss": each.loss, "is_as_asked": each.is_as_asked} for each in found]
        show_rows(rows, output, rows)
    return EXIT_OK if all(each.is_as_asked for each in found) else EXIT_FAILED


def clean() -> int:
    """Remove what labs left that were killed. The next lab does so too.

    Examples:

      rostra lab clean
    """
    from rostra.lab.home import sweep
    from rostra.lab.namespaces import check_possible

    check_possible()
    for name in sweep():
        say(name)
    return EXIT_OK


# Words and tables


@contextlib.contextmanager
def _running(number: int | None) -> Iterator["Lab"]:
    from rostra.lab.home import running
    from rostra.lab.lab import Lab

    here = {path.name: path for path in running()}
    if not here:
        raise Unreachable(
            "no lab is up on this machine",
            fix="start one:  rostra lab up\n"
            "a world of rostra up is cut in its dashboard, or by POST /api/lab/cut there",
        )
    if number is None and len(here) > 1:
        raise BadInput(f"{len(here)} labs are up", fix=f"choose one with --lab: {', '.join(here)}")
    name = next(iter(here)) if number is None else str(number)
    if name not in here:
        raise BadInput(f"no lab {name} is up", fix=f"there is: {', '.join(here)}")
    lab = Lab.at(here[name])
    try:
        yield lab
    finally:
        lab.close()


def _show(now: "Now", output: OutputFormat) -> None:
    if output is not OutputFormat.TABLE:
        whole = _as_dict(now)
        show_rows(whole["ways"], output, whole)
        return
    show_table(
        ("from", "to", "delay", "jitter", "loss", "rate", "packets", "arrived", "dropped", ""),
        [
            (
                *(
                    way.source,
                    way.to,
                    _ms(way.quality.wander.delay_s),
                    _ms(way.quality.wander.jitter_s),
                    _share(way.loss),
                ),
                f"{way.quality.rate_bps / 1e6:g} Mbit/s" if way.quality.rate_bps else "-",
                *(way.counts.packets, way.counts.arrived_packets),
                ", ".join(f"{count} {why}" for why, count in sorted(way.counts.dropped.items())) or "-",
                "CUT" if way.is_cut else "",
            )
            for way in now.ways
        ],
    )
    for why, count in sorted(now.strays.items()):
        remark(f"{count} packets went nowhere: {why}")
    if now.ways:
        late = (
            f"the router was late by {_ms(now.late_mean_s)} on average, by {_ms(now.late_max_s)} at worst, "
            f"and by more than 1 ms with {_share(now.late_share)} of the packets"
        )
        remark(late + ("" if now.is_urgent else "; the system did not let it run before others"))


def _say_how_far_off(found: "list[Probed]") -> None:
    delay, loss = max(each.delay_error for each in found), max(each.loss_error for each in found)
    remark(f"probed: delays are off by {delay:.2%} at most, losses by {loss * 100:.1f} points")
    for each in found:
        if not each.is_as_asked:
            remark(
                f"NOT AS ASKED: {each.source} to {each.to}: "
                f"delay {_ms(each.delay_s)} for {_ms(each.asked_delay_s)}, "
                f"loss {_share(each.loss)} for {_shares(each.asked_loss)}"
            )


def _loss(text: str) -> float | tuple[float, float]:
    first, drifts, second = text.partition("..")
    try:
        return (float(first), float(second)) if drifts else float(first)
    except ValueError:
        raise BadInput(f"--loss {text}", fix="write a share such as 0.05, or 0.01..0.2 to drift") from None


def _second(site: str | None) -> str:
    if site is None:
        raise BadInput("one way leads from one site to another", fix="name both:  ntu mit --one-way")
    return site


def _as_dict(value: Any) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"


def _share(share: float) -> str:
    return f"{share * 100:.3g} %"


def _shares(shares: tuple[float, float]) -> str:
    return _share(shares[0]) if shares[0] == shares[1] else f"{_share(shares[0])}..{_share(shares[1])}"
