"""The scribe's rows about messages in groups: streams, deliveries and retransmissions.

Messages are too many for a row each. Consecutive messages of one stream to one receiver are one run; runs are
written with the next heartbeat, or when their stream ends or has a gap.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from rostra.journal.entries import OBSERVERS_MAX, Sheet, micros
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.fifo.events import Deliver, Delivered, Heard
from rostra.protocols.flow.messages import Data, Nak, Run

QUESTIONS_MAX: Final = 1024
"""Ranges of one stream that were asked for and are waited for. Of more, the oldest are not journalled."""

QUESTION_S: Final = 120.0
"""For how long. What comes later than this counts as asked for anew."""

ORIGIN_S: Final = 600.0
"""After so long a silence a submitter's stream through an aggregate is taken to have ended."""

Stream = tuple[Group, Endpoint, Endpoint]  # group, sender, receiver


class _Handed:
    """Messages of one stream that were handed to one receiver since the last heartbeat."""

    __slots__ = ("bytes", "end", "first", "late_us")

    def __init__(self, run: Run, late_us: int | None) -> None:
        self.first, self.end, self.bytes = run.first, run.end, len(run.block)
        self.late_us = late_us  # later than the stream's quickest; None if the sender gave no time

    def goes_on(self, run: Run, late_us: int | None) -> None:
        self.end = run.end
        self.bytes += len(run.block)
        if late_us is not None and (self.late_us is None or late_us > self.late_us):
            self.late_us = late_us


class _Question(Struct, gc=False):
    """Numbers of a stream that this node asked for and that have not come."""

    first: int
    last: int
    since: float
    asked: int


class _Repaired(Struct, gc=False):
    """A run that came by repair, and goes on while its neighbours do."""

    first: int
    end: int
    asked: int
    waited_us: int | None


class StreamCounts:
    """All streams that one node's programs receive, and the repairs of them."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._last: dict[Stream, int] = {}  # the last number of each
        self._runs: dict[Stream, _Handed] = {}
        self._gaps: dict[Stream, int] = {}  # the last number missed by those that have not gone on since
        self._quickest: dict[Stream, int] = {}  # of each, in microseconds
        self._resumed_at = -1.0
        self._origins: dict[Stream, float] = {}  # received by an aggregate: when
        self._questions: dict[tuple[Group, Endpoint], list[_Question]] = {}
        self._repaired: dict[tuple[Group, Endpoint, Domain], list[_Repaired]] = {}

    def heard(self, me: Endpoint, group: Group, sender: Endpoint, run: Run) -> None:
        """Runs that follow on each other are one, until the next heartbeat."""
        key = (group, sender, me)
        late_us = self._lateness(key, run)
        known = self._runs.get(key)
        if known is None:
            if key not in self._last:
                self._gaps.pop(key, None)
                self.tell("stream-started", me, group, sender, first=run.first)
            self._runs[key] = _Handed(run, late_us)
        elif known.end == run.first:
            known.goes_on(run, late_us)
        else:  # out of order or with a hole: said as it came
            self._write_runs(key)
            self._runs[key] = _Handed(run, late_us)
        self._last[key] = run.end - 1

    def _lateness(self, key: Stream, run: Run) -> int | None:
        """How much longer this run was on its way than the quickest of its stream. Two clocks are compared,
        but only with themselves, so that they need not agree. What waited for its own program is not late."""
        if not run.at or self._sheet.now == self._resumed_at:
            return None
        took = self._sheet.at - round(run.at * 1e6)
        quickest = self._quickest.get(key)
        if quickest is None or took < quickest:
            self._quickest[key] = took
            return 0
        return took - quickest

    def resumed(self) -> None:
        """A receiver reads again: what it is handed now has waited for it."""
        self._resumed_at = self._sheet.now

    def heard_for(self, me: Endpoint, group: Group, origin: Endpoint, run: Run) -> None:
        """The same, of a sender behind its LAN's aggregate, whose end is not announced."""
        self._origins[group, origin, me] = self._sheet.now
        self.heard(me, group, origin, run)

    def missed(self, me: Endpoint, group: Group, sender: Endpoint, first: int, last: int) -> None:
        """A receiver got a `Gap`: these are missing after what it was given before."""
        key = (group, sender, me)
        self._write_runs(key)
        if key not in self._last:
            self._gaps[key] = last
        self.tell("stream-gap", me, group, sender, first=first, last=last)

    def ended(self, me: Endpoint, group: Group, sender: Endpoint, last: int | None, why: str) -> None:
        key = (group, sender, me)
        if self._last.pop(key, self._gaps.pop(key, None)) is not None:
            self._quickest.pop(key, None)
            self._origins.pop(key, None)
            self._write_runs(key)
            self.tell("stream-ended", me, group, sender, last=last, cause=why)

    def hears_no_more(self, me: Endpoint, group: Group) -> None:
        known = self._gaps | self._last
        for key in [key for key in known if key[0] == group and key[2] == me]:
            self.ended(me, group, key[1], known[key], "the receiver left")

    def flush(self) -> None:
        """It is time for a heartbeat: everything that is not written yet, and what is over is forgotten."""
        self._write_runs()
        self._forget_questions()
        self._forget_origins()

    def tell(self, kind: str, me: Endpoint, group: Group, sender: Endpoint, **columns: Any) -> None:
        self._sheet.write(kind, group=str(group), member=sender, observers=(me,), told=1, **columns)

    def _write_runs(self, only: Stream | None = None) -> None:
        """Deliveries since the last heartbeat; those that are the same for several receivers once for all.
        What was repaired is said before what it made late."""
        self._write_recovered()
        runs = self._runs if only is None else {key: self._runs[key] for key in [only] if key in self._runs}
        shared: dict[tuple[Group, Endpoint, int, int, int], list[tuple[Endpoint, int | None]]] = {}
        for (group, sender, me), run in runs.items():
            same = shared.setdefault((group, sender, run.first, run.end, run.bytes), [])
            same.append((me, run.late_us))
        for (group, sender, first, end, size), receivers in sorted(shared.items()):
            late = [late_us for _, late_us in receivers if late_us is not None]
            self._sheet.write(
                "delivered",
                group=str(group),
                member=sender,
                first=first,
                last=end - 1,
                count=end - first,
                bytes=size,
                latency_us=max(late, default=None),
                observers=tuple(sorted(me for me, _ in receivers)[:OBSERVERS_MAX]),
                told=len(receivers),
            )
        for key in list(runs):
            del self._runs[key]

    # What was lost and came again

    def asks_for(self, group: Group, nak: Nak) -> None:
        """Our own question; what is asked for again has waited since the first time."""
        before = self._questions.get((group, nak.stream), [])
        questions = []
        for first, last in nak.ranges:
            same = [each for each in before if each.first <= last and first <= each.last]
            since = min((each.since for each in same), default=self._sheet.now)
            asked = 1 + max((each.asked for each in same), default=0)
            questions.append(_Question(first, last, since, asked))
        others = [
            each
            for each in before
            if not any(low <= each.last and each.first <= high for low, high in nak.ranges)
        ]
        self._questions[group, nak.stream] = [*others, *questions][-QUESTIONS_MAX:]

    def came_again(self, event: Heard, data: Data, outputs: Sequence[Any]) -> None:
        """A repair is news if we asked for it, or if our programs are handed what it brings."""
        key, run = (event.group, data.stream), data.run
        questions = self._questions.get(key, [])
        due = [each for each in questions if each.first < run.end and run.first <= each.last]
        if due:
            kept = [each for each in questions if each not in due]
            for each in due:
                first, end = max(run.first, each.first), min(run.end, each.last + 1)
                waited_us = micros(self._sheet.now - each.since)
                self._recovered((*key, event.source), _Repaired(first, end, each.asked, waited_us))
                if each.first < first:
                    kept.append(_Question(each.first, first - 1, each.since, each.asked))
                if end <= each.last:
                    kept.append(_Question(end, each.last, each.since, each.asked))
            self._questions[key] = kept
            if not kept:
                del self._questions[key]
        elif any(
            type(each) is Deliver
            and type(each.item) is Delivered
            and each.item.stream == data.stream
            and each.item.run.first < run.end
            and run.first < each.item.run.end
            for each in outputs
        ):
            self._recovered((*key, event.source), _Repaired(run.first, run.end, 0, None))

    def _recovered(self, key: tuple[Group, Endpoint, Domain], run: _Repaired) -> None:
        """Neighbours that came from one place are one row, until the next heartbeat."""
        runs = self._repaired.setdefault(key, [])
        if runs and runs[-1].end == run.first:
            before = runs[-1]
            before.end = run.end
            before.asked = max(before.asked, run.asked)
            if run.waited_us is not None:
                before.waited_us = max(run.waited_us, before.waited_us or 0)
        else:
            runs.append(run)

    def _forget_origins(self) -> None:
        """Submitters behind an aggregate come and go without a notice; after a silence their streams count as
        ended."""
        old = self._sheet.now - ORIGIN_S
        for (group, origin, me), heard in list(self._origins.items()):
            if heard < old:
                self.ended(me, group, origin, self._last.get((group, origin, me)), "silent")

    def _forget_questions(self) -> None:
        """Drop requests about streams that have ended, or are not repaired any more."""
        old = self._sheet.now - QUESTION_S
        for key, questions in list(self._questions.items()):
            if all(each.since < old for each in questions):
                del self._questions[key]

    def _write_recovered(self) -> None:
        for (group, stream, source), runs in self._repaired.items():
            for run in runs:
                self._sheet.write(
                    "recovered",
                    group=str(group),
                    member=stream,
                    first=run.first,
                    last=run.end - 1,
                    count=run.end - run.first,
                    number=run.asked,
                    answered_by=source,
                    latency_us=run.waited_us,
                )
        self._repaired.clear()
