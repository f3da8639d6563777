"""Where a run stands in the common order: two ways to find it (A-044, A-045).

    medium       the order in which frames pass on the bus. A retransmission takes a new place, so a round
                 counts only if all answered the same transmission (A-038)
    negotiated   each receiver proposes the next number of its clock, and the emitter takes the largest.
                 The first copy keeps its place, and answers of several rounds add up (A-039)

Where we differ from the paper: on IP frames pass each other, so arrival is no order (TA1).
"""

from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.amp_state import GivenAnswer, QueuedRun
from rostra.protocols.atomic.frames import AmpStationId


def place_of(config: AmpConfig, clock: int, held: QueuedRun | None) -> int:
    """The place of a copy that has just arrived."""
    if held is not None and config.order == "negotiated":
        return held.place
    return clock + 1


def final_place(config: AmpConfig, held: QueuedRun, position: int) -> int:
    return position if config.order == "negotiated" else held.place


def agreed_position(config: AmpConfig, answers: tuple[GivenAnswer, ...]) -> int:
    """What goes into the accept."""
    if config.order == "medium":
        return 0
    return max([each.position for each in answers], default=0)


def answers_kept(config: AmpConfig, answers: tuple[GivenAnswer, ...]) -> tuple[GivenAnswer, ...]:
    """Which answers still count when a data frame is sent once more."""
    return () if config.order == "medium" else answers


def order_key(run: QueuedRun) -> tuple[int, AmpStationId, int]:
    return run.place, run.data.sa, run.data.mdn
