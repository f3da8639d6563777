"""Questions of an agent to the trails of other nodes (`trail.py`), for `rostra why`.

    program ── Recall ────▶ agent ── Inquiry ──────▶ hop by hop, along the unique path ──▶ the node asked
    program ◀── Recalled ── agent ◀── InquiryReply ── back the same way: its trail, or which hop was down

A question that is not answered in time is denied with `DeadlineExceeded`.
"""

from collections.abc import Callable
from typing import Final

from rostra.core.effects import Answer, CancelTimer, Effect, Ignored, Send, SetTimer
from rostra.errors import DeadlineExceeded, TooLarge, Unreachable
from rostra.names import Domain, parent
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import Inquiry, InquiryReply, MessageId
from rostra.protocols.relaxed.requests import Recall, Recalled, denied

INQUIRY: Final = ("relaxed", "inquiry")  # with the token of a question: the timer that ends its patience


class Inquiries:
    def __init__(self, host: Domain, config: RelaxedConfig, new_id: Callable[[], MessageId]) -> None:
        self.open: dict[MessageId, tuple[int, Domain]] = {}  # the question's token, and who is asked
        self._host = host
        self._config = config
        self._new_id = new_id

    def ask(self, token: int, recall: Recall, up: bool, out: list[Effect]) -> None:
        if not up:
            raise Unreachable(
                f"{recall.of} is out of sight: {self._host} is cut off from {parent(self._host)}",
                fix="ask again when it is back",
            )
        if len(self.open) >= self._config.inquiries_max:
            raise TooLarge(
                f"{len(self.open)} servers are being asked what they remember",
                fix="wait for their answers, or raise inquiries_max",
            )
        inquiry = Inquiry(self._new_id(), self._host, recall.of, recall.about)
        self.open[inquiry.id] = (token, recall.of)
        out.append(Send(parent(self._host), inquiry))
        out.append(SetTimer((*INQUIRY, token), self._config.inquiry_deadline_s))

    def reported(self, report: InquiryReply, out: list[Effect]) -> None:
        token, of = self.open.get(report.id, (0, Domain("")))
        if of != report.of:
            out.append(Ignored("InquiryReply", why="late reply"))
            return
        del self.open[report.id]
        out.append(CancelTimer((*INQUIRY, token)))
        if report.why:
            out.append(Answer(token, denied(Unreachable(f"{of} is out of sight: {report.why}"))))
        else:
            out.append(Answer(token, Recalled(report.document)))

    def expired(self, token: int, out: list[Effect]) -> None:
        for id, (asked, of) in self.open.items():
            if asked == token:
                del self.open[id]
                late = DeadlineExceeded(f"{of} did not say what it remembers in time", fix="ask again")
                out.append(Answer(token, denied(late)))
                return
        out.append(Ignored("TimerFired", why="nothing waits for it"))

    def link_down(self, out: list[Effect]) -> None:
        """The link is down: no answer can come any more."""
        waiting, self.open = self.open, {}
        for token, of in waiting.values():
            gone = Unreachable(f"{of} went out of sight before it answered", fix="ask again")
            out += [CancelTimer((*INQUIRY, token)), Answer(token, denied(gone))]
