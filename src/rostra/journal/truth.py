"""Ground truth: servers that started or crashed, links that were cut; written by simulator and lab only."""

from collections.abc import Callable
from typing import Any

from msgspec import json

from rostra.journal.entries import Entry, Sheet
from rostra.names import Domain


class Truth:
    """What only the simulator or the lab that causes it knows."""

    def __init__(self, put: Callable[[Entry], None], *, virtual: bool = False) -> None:
        self._sheet = Sheet(put, virtual=virtual)

    def started(self, at: int, now: float, detail: dict[str, Any]) -> None:
        self.write(at, now, "started", detail=json.encode(detail, enc_hook=str).decode())

    def server_changed(self, at: int, now: float, server: Domain, change: str) -> None:
        self.write(at, now, "server-changed", peer=server, change=change)

    def line_changed(self, at: int, now: float, sender: Domain, to: Domain, change: str) -> None:
        self.write(at, now, "line-changed", accuser=sender, peer=to, change=change)

    def settled(self, at: int, now: float) -> None:
        self.write(at, now, "settled")

    def closing(self, at: int, now: float, why: str) -> None:
        self.write(at, now, "closing", what=why)

    def write(self, at: int, now: float, kind: str, **columns: Any) -> None:
        self._sheet.turn(at, now)
        self._sheet.write(kind, **columns)
