"""A round: one transmission, and the wait for responses (the paper's TxwResp). Shared by emitter and monitor.

    sent ── all answered ──▶ complete
      └──── RespT ──▶ some are missing: again, unless each of them was silent for w + 1 rounds in a row

A station that answered `FLUSHING` is alive and not done: that is neither an answer nor silence (A-025), for
as long as FlushT.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.frames import AmpStationId

Misses = tuple[tuple[AmpStationId, int], ...]
"""Rounds in a row that a station did not answer; sorted."""


class RoundEnd(Struct, frozen=True):
    """The end of a round without all answers. `over`: no station is worth another round."""

    misses: Misses
    waited_s: float
    silent: tuple[AmpStationId, ...]
    over: bool


def ended(
    config: AmpConfig,
    missing: Sequence[AmpStationId],
    flushing: Collection[AmpStationId],
    misses: Misses,
    waited_s: float,
) -> RoundEnd:
    flushers = set(flushing).intersection(missing)
    if flushers:
        waited_s += config.response_s
    patient = flushers if waited_s < config.flush_s else set()
    before = dict(misses)
    now = {each: before.get(each, 0) + 1 for each in missing if each not in patient}
    impatient = flushers - patient
    silent = tuple([each for each in missing if now.get(each, 0) >= config.rounds or each in impatient])
    return RoundEnd(tuple(sorted(now.items())), waited_s, silent, len(silent) == len(missing))
