"""L1: `rostra debug` collects what remote nodes say, and they may say anything."""

import re
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import rostra
from support.hostile_node import HostileNode, document

from rostra.cli.debug import FETCH_BYTES_MAX, FETCH_WITHIN_S, fetch, file_name
from rostra.transport.addresses import parse_tcp

pytestmark = pytest.mark.live


CUT_OFF = b"\n(cut off: it went on)\n"


class Web:
    """Takes one call at a time, and answers it with what it was given, again and again."""

    def __init__(
        self, piece: bytes, pause_s: float = 0.0, host: str = "127.0.0.1", times: int = 100_000
    ) -> None:
        self._listener = socket.create_server((host, 0))
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self.called = 0
        self._piece, self._pause_s, self._times = piece, pause_s, times
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
                self.called += 1
                with caller:
                    for _ in range(self._times):
                        caller.sendall(self._piece)
                        time.sleep(self._pause_s)
            except OSError:
                if self._listener.fileno() < 0:
                    return

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def webs() -> Iterator[list[Web]]:
    found: list[Web] = []
    yield found
    for web in found:
        web.close()


def test_an_endless_answer_is_cut_off(webs: list[Web]) -> None:
    webs.append(Web(b"\r\n\r\n" + b"x" * 65536))
    said = fetch(parse_tcp(webs[0].address), "/metrics")
    assert FETCH_BYTES_MAX // 2 < len(said) < FETCH_BYTES_MAX + 100
    assert said.endswith(CUT_OFF)


def test_so_is_one_that_comes_drop_by_drop(webs: list[Web]) -> None:
    """Each drop comes in time; all of them would not."""
    drops = 100
    webs.append(Web(b"\r\n\r\n", pause_s=FETCH_WITHIN_S / 20, times=drops))
    said = fetch(parse_tcp(webs[0].address), "/metrics")
    assert len(said) < 4 * drops and said.endswith(CUT_OFF)


def test_an_archive_holds_no_name_that_leads_out_of_it(tmp_path: Path) -> None:
    """Neither from a node that calls itself so, nor from one that it claims to share a process with."""
    evil = "../../../../tmp/evil"
    node = HostileNode(
        {
            "lab.h1": document("lab.h1", servers={"lab": ""}, nodes=["lab.h1", evil]),
            "lab": document("lab", nodes=["lab", evil]),
            evil: document(evil),
        }
    )
    node._documents["lab.h1"]["servers"]["lab"] = node.address
    archive = tmp_path / "archive.tar.gz"
    try:
        assert rostra("debug", "-a", node.address, "-f", str(archive)).code == 0
    finally:
        node.close()
    with tarfile.open(archive) as parts:
        names = parts.getnames()
    assert "archive/nodes/lab.json" in names
    assert not [name for name in names if ".." in name or not name.startswith("archive/")]
    assert file_name(evil) == "_.._.._.._tmp_evil"


def test_a_node_answers_for_itself_alone(tmp_path: Path) -> None:
    """The server of lab says that it is us: what the user asked is what the user sees."""
    honest = document("lab.h1", profile="honest")
    node = HostileNode({"lab.h1": honest, "lab": document("lab.h1", profile="forged")})
    honest["servers"] = {"lab": node.address}
    try:
        answer = rostra("domains", "-a", node.address, "-o", "json").json
    finally:
        node.close()
    assert answer["from"] == ["lab.h1"]
    assert answer["unseen"] == {"lab": "lab answers with the state of 'lab.h1'"}


@pytest.mark.parametrize(
    "answer", [[], 7, "text", {"node": "lab"}, document("lab", links=[]), document("lab", nodes=[1])]
)
def test_what_is_no_document_is_a_node_that_was_not_seen(answer: object) -> None:
    honest = document("lab.h1")
    node = HostileNode({"lab.h1": honest, "lab": answer})
    honest["servers"] = {"lab": node.address}
    try:
        said = rostra("domains", "-a", node.address, "-o", "json")
    finally:
        node.close()
    assert said.code == 0
    assert re.match(
        "lab answers with something else|a document that cannot be read", said.json["unseen"]["lab"]
    )


def test_only_the_machine_where_a_node_was_reached_is_asked(webs: list[Web], tmp_path: Path) -> None:
    """127.0.0.2 stands for another machine: one that we reach, and the node would like to."""
    webs.append(Web(b"HTTP/1.0 200 OK\r\n\r\nsecret", host="127.0.0.2"))
    node = HostileNode({"lab.h1": document("lab.h1", http=webs[0].address)})
    archive = tmp_path / "archive.tar.gz"
    try:
        assert rostra("debug", "-a", node.address, "-f", str(archive)).code == 0
    finally:
        node.close()
    with tarfile.open(archive) as parts:
        said = parts.extractfile("archive/metrics/lab.h1.txt")
        assert said is not None
        assert said.read() == b"not asked: it names 127.0.0.2, and was reached at 127.0.0.1\n"
    assert webs[0].called == 0
