"""Splitting requests and replies that name more senders than one control message may hold."""

from rostra.names import Endpoint
from rostra.protocols.fifo.messages import Cut, CutRequest, StartSync, ViewId
from rostra.protocols.flow.messages import Have

ENTRIES_PER_REPLY = 400
"""Senders in one piece of a reply or request: well below what one control message may hold."""


def pieces_of(have: Have) -> list[tuple[Have, bool]]:
    """The numbers of a request in pieces, one at least; the last one is marked."""
    begins = range(0, max(1, len(have)), ENTRIES_PER_REPLY)
    return [(have[begin : begin + ENTRIES_PER_REPLY], begin == begins[-1]) for begin in begins]


STREAMS_MAX = 65_536
"""Streams that one request may name, in all its pieces."""


class RequestPieces:
    """Requests to a delegate of which more pieces are to come, one for each sender."""

    def __init__(self) -> None:
        self._begun: dict[Endpoint, tuple[int, dict[Endpoint, int]]] = {}

    def whole(self, source: Endpoint, request: StartSync | CutRequest | ViewId) -> dict[Endpoint, int] | None:
        """The numbers of all its pieces with the last one; None before."""
        req, have = self._begun.pop(source, (request.req, {}))
        have = have | dict(request.have) if req == request.req else dict(request.have)
        if request.last:
            return have
        if len(have) <= STREAMS_MAX:
            self._begun[source] = (request.req, have)
        return None

    def forget(self, source: Endpoint) -> None:
        self._begun.pop(source, None)


def pieces(cuts: list[Cut]) -> list[tuple[tuple[Cut, ...], bool]]:
    """Cuts in pieces that fit a control message each; the last one is marked."""
    done: list[tuple[Cut, ...]] = []
    piece: list[Cut] = []
    size = 0
    for cut in cuts:
        begin = 0
        while True:
            room = max(1, ENTRIES_PER_REPLY - size - len(cut.floors) // 2)
            some = cut.entries[begin : begin + room]
            piece.append(Cut(cut.lan, cut.epoch, cut.floors, cut.complete, some))
            size += len(some) + len(cut.floors) // 2
            begin += len(some)
            if size >= ENTRIES_PER_REPLY:
                done.append(tuple(piece))
                piece, size = [], 0
            if begin >= len(cut.entries):
                break
    if piece or not done:
        done.append(tuple(piece))
    return [(each, place == len(done) - 1) for place, each in enumerate(done)]
