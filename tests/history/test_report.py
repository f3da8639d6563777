"""The report is one page that draws what is there, says where nothing is, and needs nothing else."""

import re
from random import Random
from xml.etree import ElementTree

import pytest
from support.journal import Journal, clock
from support.segments import cut, send
from typer.testing import CliRunner

from rostra.cli import application
from rostra.history import session, warm
from rostra.history.catalogue import of_events
from rostra.history.narrow import about, having, narrowed, seen_inside
from rostra.history.plots import Bar, bars, lines, nice, stacked
from rostra.history.questions import why
from rostra.history.report import report

EVE = "us.ny.h1/eve#5"


@pytest.fixture(scope="module")
def journal():
    """One host follows a group, one member comes, a domain is lost, another host is killed and comes back."""
    journal = Journal("acme <1>")  # names are text, not markup
    journal.start("eu.paris.h1", 0)
    journal.start("us.ny.h1", 0)
    journal.write("eu.paris.h1", "followed", 1, group="chess@world", observers=["eu.paris.h1/a#1"], told=1)
    journal.home("joined", EVE, 2, life=1, stamp=1)
    journal.sees("eu.paris.h1", "joined", EVE, 2.2, life=1, stamp=1, told=1)
    journal.home("joined", "us.ny.h1/bob#6", 3, life=1, stamp=2)
    because = {"accuser": "eu", "accused": "us", "what": "silent", "domain": "us", "inside": False}
    journal.sees("eu.paris.h1", "left", EVE, 9, kind="without", cause="without", **because)
    journal.write("us.ny.h1", "sent", 10, peer="us.ny", level=2, message="EndpointsJoined", count=3)
    journal.start("eu.paris.h2", 0)
    journal.start("eu.paris.h2", 1)
    for host in ("us.ny.h1", "eu.paris.h1", "eu.paris.h2"):
        journal.write(host, "closing", 10)
    return journal


@pytest.fixture(scope="module")
def events(spark, journal):
    return journal.frame(spark).cache()


def test_a_report_is_one_page_without_scripts_that_draws_what_is_there(spark, journal, tmp_path, monkeypatch):
    """As its user asks for it."""
    for segment in cut(journal.rows, Random(1)):
        send(tmp_path / "journal", segment)
    monkeypatch.setattr(warm, "session", lambda: spark.newSession())
    monkeypatch.setattr(session, "end", lambda _: None)
    words = ["history", "report", "-O", str(tmp_path / "page.html"), "-j", str(tmp_path / "journal")]
    done = CliRunner().invoke(application(["history"]), words)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text()
    assert "acme &lt;1&gt;: 2026-03-01 12:00:00 to 2026-03-01 12:00:10 UTC" in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert "prefers-color-scheme:dark" in page
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert titles[:3] == ["Promises", "Size of groups", "Churn"] and len(titles) == 9
    for drawing in re.findall("<svg.*?</svg>", page):
        ElementTree.fromstring(drawing)  # well formed
    assert "EndpointsJoined, level 2" in page
    assert "rows are missing, and nothing else can be judged" in page  # fifo-gap-free cannot tell
    assert "chess@world" in page and "host eu.paris.h2" in page and "host eu.paris.h1" not in page


def test_an_empty_history_says_so(events):
    assert "There are no rows in this history." in report(events.where("false"))


def test_what_is_in_a_history_is_found_and_narrowed(events):
    history = of_events(events)
    assert history.groups == ["chess@world"]
    assert history.places == [
        "eu",
        "eu.paris",
        "eu.paris.h1",
        "eu.paris.h2",
        "us",
        "us.ny",
        "us.ny.h1",
        "world",
    ]
    assert history.time_range == (clock(0), clock(10))
    assert narrowed(events, "go@world", clock(2), clock(10)).count() == 0
    told = events.where("kind = 'without'").withColumnRenamed("writer", "seen_by")
    assert seen_inside(told, "eu").count() == 1 and seen_inside(told, "us").count() == 0
    assert about(told, "us.ny.h1/eve").count() == 1 and having(told, domain="eu", what=None).count() == 0


def test_why_a_domain_is_gone_is_told_of_the_domain_and_not_of_its_members(events):
    [step] = why(events, "us", clock(9.5)).collect()
    assert step["node"] == "eu.paris.h1" and step["text"].endswith(
        "us is lost, because eu gave up us: silent"
    )


def test_plots_scale_and_name_what_they_show():
    assert [nice(value) for value in (0, 0.7, 9, 17, 100, 101)] == [1.0, 0.8, 10, 20, 100, 150]
    drawn = lines({"a <b>": [(0.0, 1.0), (5.0, 3.0)], "c": [(1.0, 2.0)]}, ticks={2.0: "noon"})
    assert "a &lt;b&gt;" in drawn and "noon" in drawn and drawn.count('<path d="M') >= 2
    assert "Nothing of the kind" in lines({}, ticks={}) and "Nothing" in bars([])
    assert "lost: 2" in stacked([(0.0, (1.0, 2.0))], ("kept", "lost"), width=1.0, ticks={})
    assert "3 of 4" in bars([Bar("x" * 50, 3.0, "3 of 4", mark=4.0)])
