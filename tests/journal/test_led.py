"""Led sets in journals and in the memory of agents: who leads from when on, and why."""

from pathlib import Path

import pytest

from rostra.journal.segments import read
from rostra.names import Domain, Group
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Recall
from rostra.sim import LAN, World
from rostra.sim.journal import SimJournal
from rostra.sim.replay import recordings, replay
from rostra.sim.shapes import clusters

CHESS = Group("chess", Domain("eu"))


@pytest.mark.spec("S-064")
def test_a_changed_leader_is_in_the_journal_and_remembered_with_its_cause(tmp_path: Path) -> None:
    world = World(
        3,
        tree=clusters({"eu.fr": 2, "eu.de": 1}),
        links=LAN,
        timers=LinkConfig.lan().over_datagrams(),
        journal=SimJournal(tmp_path, record=True),
    )
    world.run(4.0)
    for host in ("eu.fr.h1", "eu.de.h1", "eu.fr.h2"):
        world.program(host).join_led(CHESS)
        world.run(3.0)
    world.crash("eu.fr.h1")
    world.run(30.0)
    asker = world.program("eu.de.h1", "asker")
    recalled = asker.ask(Recall("eu.de.h1", Domain("eu.de.h1")))
    world.run(2.0)
    world.close()
    told = [row for row in read(tmp_path).to_pylist() if row["kind"] == "led"]
    told.sort(key=lambda row: (row["virtual_s"], row["seq"]))
    here = [(row["writer"], row["member"].partition("/")[0]) for row in told if row["what"] == "member"]
    assert sorted(here) == [(host, host) for host in ("eu.de.h1", "eu.fr.h1", "eu.fr.h2")]
    rows = [row for row in told if row["what"] not in ("member", "lists")]
    assert (rows[0]["writer"], rows[0]["what"], rows[0]["cause"]) == ("eu.fr.h1", "leads", "no agent led it")
    took_over = [row for row in rows if row["what"] == "leads" and row["writer"] != "eu.fr.h1"]
    assert [(row["accused"], row["domain"]) for row in took_over] == [("eu.fr.h1", "eu")]
    assert took_over[0]["cause"] == "the leader before could not be reached"
    listed = [
        (row["change"], row["member"].partition("/")[0])
        for row in told
        if row["what"] == "lists" and row["writer"] == took_over[0]["writer"]
    ]
    assert sorted(listed) == [("joined", "eu.de.h1"), ("joined", "eu.fr.h2")]
    children = [(row["writer"], row["peer"]) for row in rows if row["what"] == "child"]
    assert ("eu.fr.h2", "eu.fr.h1") in children and ("eu.de.h1", "eu.fr.h1") in children
    assert b"chess@eu" in bytes(recalled.result.document)
    for recording in recordings(tmp_path):
        assert replay(recording).difference is None
