"""L2: what a remote node says is shown to people; a terminal must not obey it."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster import rostra
from support.hostile_node import HostileNode, document

from rostra.cli.output import CONTROL, plain

pytestmark = pytest.mark.live

TITLE, CSI = "\x1b]0;owned\x07\x1b[2J", "\x9b31m"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def hostile_document() -> dict[str, Any]:
    said = f"down{TITLE}{CSI}\u202e"
    link = {"up": False, "suspected": False, "silence_s": 9, "expected_s": 1, "phi": 9, "last_evidence": {}}
    return document(
        "lab.h1",
        world=said,
        links={"lab": link, said: link},
        recent=[
            {
                "at": "2026-01-01T00:00:00+00:00",
                "event": "link_down",
                "values": {"peer": "lab", "because": said},
            }
        ],
    )


@pytest.fixture
def node() -> Iterator[HostileNode]:
    node = HostileNode({"lab.h1": hostile_document()}, refuses=f"no{TITLE}{CSI}\nreally")
    yield node
    node.close()


@pytest.mark.parametrize("words", ["domains", "groups", "members chess", "why lab"])
@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
def test_no_command_passes_escape_sequences_on(node: HostileNode, words: str, output: str) -> None:
    answer = rostra(*words.split(), "-a", node.address, "-o", output)
    assert answer.out + answer.err
    assert not OBEYED.search(answer.out + answer.err)


def test_what_it_said_is_still_there_to_be_read(node: HostileNode) -> None:
    assert "down\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202e" in rostra("domains", "-a", node.address).out


def test_a_json_document_means_what_it_meant(capsys: pytest.CaptureFixture[str]) -> None:
    from rostra.cli.output import OutputFormat, show_json

    said = {"why": f"{TITLE}{CSI}\u2028 ü \u202e \\u009b"}
    show_json(said, OutputFormat.JSON)
    shown = capsys.readouterr().out
    assert not OBEYED.search(shown) and json.loads(shown) == said


def test_plain_keeps_everything_else() -> None:
    assert plain("Zürich → 東京\t1\n2") == "Zürich → 東京\t1\n2"
    assert plain("\r\x1b\x7f\x9b\u2028\u202e") == r"\r\x1b\x7f\x9b\u2028\u202e"
    assert not CONTROL.search(plain("".join(map(chr, range(0x2100)))))


def test_bodies_of_messages_are_shown_plainly_on_a_terminal_and_as_they_are_in_a_pipe() -> None:
    show = (
        "from rostra.cli.tail import _show; from rostra.cli.output import OutputFormat;"
        "import types; block = types.SimpleNamespace(first=1);"
        "_show(block, [b'one\\x1b[2J\\xff', b'two'], OutputFormat.TABLE)"
    )
    command = [sys.executable, "-c", show]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"one\x1b[2J\xff\ntwo\n"
    ours, theirs = pty.openpty()
    subprocess.run(command, stdout=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)
    assert shown == b"one\\x1b[2J\\xff\r\ntwo\r\n"
