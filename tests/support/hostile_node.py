"""A node that answers programs and administrators as the protocol wants it, with whatever it likes to say."""

import socket
import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from rostra.names import Domain
from rostra.protocols.relaxed.requests import Denied, Inspect, Inspected
from rostra.wire import Answered, Ask, Encoder, FrameKind, FrameReader, ProgramHello, ProgramWelcome

WORLD = "w"


def document(node: str, **more: Any) -> dict[str, Any]:
    """What an honest agent might answer, and more."""
    return {
        "world": WORLD,
        "profile": "lan",
        "node": node,
        "nodes": [node],
        "incarnation": 1,
        "http": None,
        "servers": {},
        "replicas": {},
        "core": {"server": "agent", "groups": {}},
        "data": {},
        "streams": [],
        "submitted": [],
        "links": {},
        "programs": [],
        "watches": {},
        "counters": {},
        "recent": [],
        "recorded": 0,
        "forgotten": 0,
        **more,
    }


class HostileNode:
    """Listens on loopback. `documents` are its answers to `inspect`, by the node that was asked for; anything
    else it refuses in these words."""

    def __init__(self, documents: Mapping[str, Any], path: str = "lab.h1", refuses: str = "no") -> None:
        self._documents, self._path, self._refuses = documents, path, refuses
        self._encoder = Encoder(WORLD)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        reader, path = FrameReader(WORLD, FrameKind.TO_AGENT), self._path
        with caller:
            try:
                while data := caller.recv(65536):
                    for item in reader.feed(data):
                        if isinstance(item, ProgramHello):
                            path = item.to or path
                        caller.sendall(self._answer(item, path))
            except OSError:
                pass

    def _answer(self, item: Any, path: str) -> bytes:
        if isinstance(item, ProgramHello):
            return self._encoder.to_program(ProgramWelcome(WORLD, Domain(path), 1))
        if not isinstance(item, Ask):
            return b""
        if isinstance(item.request, Inspect) and path in self._documents:
            answer: Any = Inspected(msgspec.json.encode(self._documents[path]))
        else:
            answer = Denied("REFUSED", self._refuses, "")
        return self._encoder.tells([Answered(item.token, answer)])
