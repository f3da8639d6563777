"""The emitter: one transfer at a time, in two phases (A-030 to A-053).

    waiting ── begin ──▶ disseminating ── all can accept ──▶ accept, sent once ──▶ the next
                            │  │ └ responses missing: the same run again, up to w + 1 rounds
                            │  └ still missing: bounded: accept without them; async: stalled until a new view
                            └ one cannot: reject, repeated until all have confirmed ──▶ the next

On a medium a round counts only if all members answered the same transmission. Members that lose different
rounds are all correct, so a station counts as failed when it is silent for w + 1 rounds **in a row**, and
rounds go on until one is complete: with k members that each lose w of them, up to k·w + 1.

A run that was refused only because traffic is suspended is sent again later, and its sender sees nothing of
it (A-042).
"""

from typing import Final

from msgspec.structs import replace

from rostra.protocols.atomic import executing, monitor, rounds
from rostra.protocols.atomic.amp_config import PROFILES
from rostra.protocols.atomic.amp_state import GateTurn, GivenAnswer, GivenRun, RunEnded, RunGiven, Transfer
from rostra.protocols.atomic.frames import (
    ACK,
    FLUSH,
    ITEMS_MAX,
    ORDER,
    RESUME,
    SUSPEND,
    WAIT,
    AmpStationId,
    DataFrame,
    DataId,
    DecisionFrame,
    DecisionRequestFrame,
    PendingFrame,
    ResponseFrame,
    RunOutcome,
    SuspensionLevel,
)
from rostra.protocols.atomic.positions import agreed_position, answers_kept

ATTRIBUTES: Final = {
    "atomic": ACK | WAIT | ORDER,
    "atomic-unordered": ACK | WAIT,
    "atomic-confirmed": ACK | WAIT | ORDER,
    "reliable": ACK,
    "best-effort": 0,
    "urgent": ACK | WAIT | ORDER,
    "barrier": ACK | WAIT | ORDER | FLUSH,
}
"""Of the data frame, for each profile (A-085)."""

ALONE: Final = ("urgent", "barrier")
"""Profiles whose runs are not joined with others that wait."""


def on_given(turn: GateTurn, event: RunGiven) -> None:
    sound = event.profile in PROFILES and 0 < len(event.items) <= ITEMS_MAX
    if not sound or (event.more and event.profile != "urgent"):
        turn.do(RunEnded(event.token, "rejected", "invalid"))
    elif turn.s.standing != "open":
        turn.do(RunEnded(event.token, "excluded", "gate is not open"))
    else:
        run = GivenRun((event.token,), event.items, event.profile, event.more)
        turn.put(waiting=(*turn.s.waiting, run))


def begin(turn: GateTurn) -> None:
    """The first of those that wait, with what can go with it."""
    first, *rest = turn.s.waiting
    while rest and _joins(turn, first, rest[0]):
        following = rest.pop(0)
        first = replace(
            first, tokens=(*first.tokens, *following.tokens), items=(*first.items, *following.items)
        )
    attributes = ATTRIBUTES[first.profile]
    if first.profile == "urgent" and turn.s.block is None:
        turn.put(block=SuspensionLevel(turn.s.top.counter + 1 if turn.s.top else 1, turn.s.me))
        attributes |= SUSPEND | FLUSH
    turn.put(waiting=tuple(rest), mdn=turn.s.mdn + 1)
    turn.put(transfer=Transfer(first, turn.s.mdn, attributes))
    _transmit(turn)
    if not attributes & ACK:
        _finish(turn, "sent")


def _joins(turn: GateTurn, first: GivenRun, following: GivenRun) -> bool:
    return (
        first.profile == following.profile
        and first.profile not in ALONE
        and len(first.items) + len(following.items) <= min(turn.config.run_max, ITEMS_MAX)
    )


def _transmit(turn: GateTurn) -> None:
    transfer = turn.s.transfer
    assert transfer is not None
    mtn = turn.next_mtn()
    answers = answers_kept(turn.config, transfer.answers)
    since = transfer.since or mtn
    turn.put(transfer=replace(transfer, mtn=mtn, since=since, rounds=transfer.rounds + 1, answers=answers))
    sl = turn.s.block if transfer.attributes & SUSPEND else None
    control = turn.control(transfer.attributes, transfer.mdn, mtn, sl)
    turn.cast(DataFrame(control, transfer.run.items, turn.s.last))
    if transfer.attributes & ACK:
        turn.timer(turn.config.patience_s(transfer.rounds), "round")


def on_response(turn: GateTurn, frame: ResponseFrame) -> None:
    transfer, station = turn.s.transfer, frame.control.sa
    if transfer is None or frame.ref.mdn != transfer.mdn or frame.ref.mtn < transfer.since:
        turn.ignore(frame, "no such transfer")
        return
    if station not in turn.members:
        turn.ignore(frame, "not a member")
        return
    medium = turn.config.order == "medium"
    if medium and transfer.phase == "disseminating" and frame.ref.mtn != transfer.mtn:
        # It does not count, and yet its station is not silent.
        turn.put(transfer=replace(transfer, flushing=_with(transfer.flushing, station)))
        turn.ignore(frame, "another round")
        return
    if frame.answer == "FLUSHING":
        turn.put(transfer=replace(transfer, flushing=_with(transfer.flushing, station)))
        return
    others = tuple([each for each in transfer.answers if each.station != station])
    answer = GivenAnswer(station, frame.answer, frame.position)
    turn.put(transfer=replace(transfer, answers=(*others, answer)))
    _look(turn)


def _with(stations: tuple[AmpStationId, ...], station: AmpStationId) -> tuple[AmpStationId, ...]:
    return stations if station in stations else tuple(sorted([*stations, station]))


def _look(turn: GateTurn) -> None:
    """Is the phase over?"""
    transfer = turn.s.transfer
    if transfer is None or turn.frozen or transfer.phase == "stalled":
        return
    refusals = sorted({each.kind for each in transfer.answers} - {"CAN_ACCEPT"})
    if transfer.phase != "disseminating":
        if not missing(turn):
            _end_decided(turn)
    elif not transfer.attributes & WAIT:
        if not missing(turn):
            _finish(turn, "accepted" if not refusals else "rejected", ", ".join(refusals).lower())
    elif refusals:
        _decide(turn, accept=False, because=refusals[0].lower())
    elif not missing(turn):
        _decide(turn, accept=True)


def missing(turn: GateTurn) -> tuple[AmpStationId, ...]:
    """Members without an answer: counted by name, never by number (A-007)."""
    transfer = turn.s.transfer
    assert transfer is not None
    answered = {each.station for each in transfer.answers}
    return tuple([each for each in turn.members if each not in answered])


def _decide(turn: GateTurn, *, accept: bool, because: str = "") -> None:
    transfer, s = turn.s.transfer, turn.s
    assert transfer is not None
    position = agreed_position(turn.config, transfer.answers) if accept else 0
    attributes = 0 if accept and transfer.run.profile != "atomic-confirmed" else ACK
    if s.block is not None and not (accept and transfer.run.more):
        attributes |= RESUME
        turn.put(block=None)
    turn.put(last=RunOutcome(DataId(s.me, transfer.mdn), accept, position), before=s.last)
    phase = "confirming" if accept else "rejecting"
    decided = replace(
        transfer,
        phase=phase,
        rounds=0,
        since=0,
        answers=(),
        misses=(),
        because=because,
        position=position,
        attributes=attributes,
    )
    turn.put(transfer=decided)
    _send_decision(turn)
    if not attributes & ACK:
        _finish(turn, "accepted")


def _send_decision(turn: GateTurn) -> None:
    transfer = turn.s.transfer
    assert transfer is not None
    mtn = turn.next_mtn()
    turn.put(transfer=replace(transfer, mtn=mtn, since=transfer.since or mtn, rounds=transfer.rounds + 1))
    control = turn.control(transfer.attributes, transfer.mdn, mtn)
    turn.cast(
        DecisionFrame(control, transfer.phase == "confirming", transfer.position, previous=turn.s.before)
    )
    if transfer.attributes & ACK:
        turn.timer(turn.config.patience_s(transfer.rounds), "round")


def on_round_timer(turn: GateTurn) -> None:
    transfer = turn.s.transfer
    if transfer is None or turn.frozen or transfer.phase == "stalled":
        return
    end = rounds.ended(turn.config, missing(turn), transfer.flushing, transfer.misses, transfer.waited_s)
    turn.put(transfer=replace(transfer, misses=end.misses, flushing=(), waited_s=end.waited_s))
    if end.over:
        _exhausted(turn, end.silent)
    else:
        _again(turn)


def _again(turn: GateTurn) -> None:
    assert turn.s.transfer is not None
    if turn.s.transfer.phase == "disseminating":
        _transmit(turn)
    else:
        _send_decision(turn)


def _exhausted(turn: GateTurn, silent: tuple[AmpStationId, ...]) -> None:
    """All rounds are over, and these never answered."""
    transfer = turn.s.transfer
    assert transfer is not None
    if transfer.phase == "disseminating" and not transfer.attributes & WAIT:
        for token in transfer.run.tokens:
            turn.do(RunEnded(token, "accepted", "not by all", silent))
        _over(turn)
    elif turn.config.executes:
        turn.put(transfer=replace(transfer, misses=(), waited_s=0.0))
        _again(turn)
    elif turn.config.faults == "bounded":
        if transfer.phase == "disseminating":
            _decide(turn, accept=True)
        else:
            _end_decided(turn)
    else:
        turn.put(transfer=replace(transfer, phase="stalled"))
    monitor.suspect(turn, silent, "no response")


def _end_decided(turn: GateTurn) -> None:
    """Every member has confirmed the decision."""
    transfer = turn.s.transfer
    assert transfer is not None
    if transfer.phase == "confirming":
        _finish(turn, "accepted")
    elif (
        transfer.because == "suspended" and transfer.run.tries < turn.config.omissions and turn.config.resend
    ):
        turn.put(waiting=(replace(transfer.run, tries=transfer.run.tries + 1), *turn.s.waiting))
        _over(turn)
    else:
        _finish(turn, "rejected", transfer.because)


def _finish(turn: GateTurn, result: str, because: str = "") -> None:
    assert turn.s.transfer is not None
    for token in turn.s.transfer.run.tokens:
        turn.do(RunEnded(token, result, because))
    _over(turn)


def _over(turn: GateTurn) -> None:
    turn.cancel("round")
    turn.put(transfer=None)


def settled(turn: GateTurn, outcomes: tuple[RunOutcome, ...]) -> None:
    """A new view decided what we were sending (A-070)."""
    transfer = turn.s.transfer
    if transfer is None:
        return
    data = DataId(turn.s.me, transfer.mdn)
    decided = next((each for each in outcomes if each.data == data), turn.s.last)
    turn.put(block=None)
    if decided is None or decided.data != data:
        decided = RunOutcome(data, accept=False)
    turn.put(last=decided)
    if decided.accept:
        _finish(turn, "accepted")
    elif (transfer.because and transfer.because != "suspended") or not turn.config.resend:
        _finish(turn, "rejected", transfer.because or "new view")
    else:
        turn.put(waiting=(transfer.run, *turn.s.waiting))
        _over(turn)


def on_decision_request(turn: GateTurn, frame: DecisionRequestFrame) -> None:
    """A receiver missed a decision of ours, or of an earlier life of this station (A-048)."""
    ref, asker, s = frame.ref, frame.control.sa, turn.s
    if turn.config.executes and ref.mdn == 0:
        executing.on_view_request(turn, frame)
        return
    if ref.sa != s.me:
        turn.respond(asker, ref, "NOT_MEMBER")
        return
    if asker not in turn.members:
        turn.ignore(frame, "not a member")
        return
    known = [each for each in (s.last, s.before) if each is not None and each.data.mdn == ref.mdn]
    if known:
        resume = RESUME if s.block is None else 0
        control = turn.control(resume, ref.mdn, turn.next_mtn())
        turn.post(asker, DecisionFrame(control, known[0].accept, known[0].position))
    elif s.transfer is not None and s.transfer.mdn == ref.mdn:
        turn.post(asker, PendingFrame(turn.control(mdn=ref.mdn), ref))
    else:
        turn.ignore(frame, "older than the last")
