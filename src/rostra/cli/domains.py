"""`rostra domains`: the tree of domains and hosts, and the state of each."""

import typer

from rostra.cli.asking import Deadline, administer, in_time
from rostra.cli.common import EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, busy, coloured, show_rows, show_table
from rostra.client.sight import Sight, look
from rostra.names import ROOT, Domain, depth
from rostra.web.picture import Picture, PlaceReport, draw, ends_of


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="The world")(command(domains))


def domains(
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Show the tree of domains and hosts, and who of them is up.

    The state of each is a judgement from what the nodes in sight say about their neighbours; the last column
    says on what it rests. Hosts below servers that could not be asked are not shown.

    Examples:

        rostra domains
        rostra domains -o json
    """
    return run_client(in_time(deadline, _domains(agent, output)))


async def _domains(agent: str | None, output: OutputFormat) -> int:
    async with administer(agent) as admin:
        with busy("asking the nodes in sight"):
            sight = await look(admin, agent)
    picture = picture_of(sight)
    if output is not OutputFormat.TABLE:
        show_rows(
            picture.servers,
            output,
            {
                "world": sight.world,
                "from": sorted(sight.documents),
                "unseen": sight.unseen,
                "servers": picture.servers,
                "links": picture.links,
            },
        )
    else:
        show_table(
            ("domain", "kind", "state", "why"),
            (
                (
                    "  " * depth(server.path)
                    + (server.path if server.path != ROOT else f"world {sight.world!r}"),
                    server.kind,
                    coloured(
                        server.state,
                        bad=server.state in ("down", "cut off"),
                        warn=server.state in ("suspected", "unseen"),
                    ),
                    server.why,
                )
                for server in picture.servers
            ),
            flexible=3,
        )
    remark(sight.describe())
    return EXIT_OK


def picture_of(sight: Sight) -> Picture:
    reports = [
        PlaceReport(path, True, document, "", ends_of(document, reasons_of(document)))
        for path, document in sight.documents.items()
    ]
    reports += [PlaceReport(path, False, None, why) for path, why in sight.unseen.items()]
    return draw(reports)


def reasons_of(document: object) -> dict[Domain, str]:
    """Why this node gave up its peers, as far as it remembers."""
    assert isinstance(document, dict)
    return {
        Domain(event["values"]["peer"]): str(event["values"].get("because", ""))
        for event in document["recent"]
        if event["event"] == "link_down" and "peer" in event["values"]
    }
