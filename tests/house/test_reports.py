"""The reports run, and what they compute is right; how long they took is nobody's business here."""

import io
import re

from rich.console import Console

from benchmarks import sim_scale
from benchmarks.congress_report.__main__ import write_report
from benchmarks.congress_report.drawings import event_table, schemas
from benchmarks.congress_report.experiments import Scale, all_experiments
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.messages import Message


def test_the_congress_report_is_one_page_that_needs_nothing_else(tmp_path):
    file = tmp_path / "congress.html"

    counted, found = write_report(file, Scale.smoke(), Console(file=io.StringIO()))

    assert [one.step for one in counted if not one.as_expected] == []
    assert [one.name for one in found] == [f"E-{nth}" for nth in range(1, 8)]
    text = file.read_text()
    assert text.count("<svg") == len(all_experiments()) + 1
    assert not re.search(r"""(?:src|href)=["']?(?:https?:|/)""", text.replace("xlink:href", ""))


def test_the_drawn_messages_are_those_that_travel():
    drawn = {schema.name: [field.name for field in schema.fields] for schema in schemas(Message)}

    assert drawn["InterestChanged"] == ["id", "group", "interest"]
    assert not any("level" in fields for fields in drawn.values())


def test_the_event_tables_show_every_message_that_a_server_handles():
    for server in (LocalServer, DomainServer):
        handled = {event for row in event_table(server) for event in row.event.split(" | ")}
        assert {
            "EndpointsJoined",
            "EndpointLeft",
            "DomainFailed",
            "ResolveRequest",
            "ResolveReply",
        } <= handled
        assert {"LinkUp", "LinkDown"} <= handled


def test_a_simulated_world_of_a_thousand_endpoints_loses_a_region_and_merges():
    outcome = sim_scale.run(1_000)

    assert outcome.endpoints == 1_000
    assert [phase.what for phase in outcome.phases] == ["start and join", "settle", "lose a region", "merge"]
