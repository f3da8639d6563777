"""What holds for a link after every step, as plain functions."""

from rostra.protocols.links.core import Link
from rostra.protocols.links.state import Together


def broken(link: Link) -> list[str]:
    """Every rule that this link breaks, in words; none, unless there is a bug in it."""
    state = link.state
    if not isinstance(state, Together):
        return []
    kept = list(range(state.acknowledged + 1, state.numbered + 1))
    messages = sum(len(data.messages) for data in state.in_flight) + sum(map(len, state.waiting))
    rules = {
        "what is in flight is exactly what is numbered and not acknowledged": [
            data.number for data in state.in_flight
        ]
        == kept,
        "nothing of another epoch is in flight": all(
            (data.mine, data.yours) == link.epoch for data in state.in_flight
        ),
        "every message submitted and not acknowledged is counted once": messages == state.queued,
        "every packet has its weight, and they are what is queued": len(state.weights)
        == len(state.in_flight) + len(state.waiting)
        and sum(state.weights) == state.queued_bytes,
        "what came early is not due yet": all(number > state.received + 1 for number in state.early),
        "messages wait only for a channel or for room in the window": not state.waiting
        or not state.flowing
        or len(state.in_flight) >= link.config.window_packets_max,
    }
    return [rule for rule, holds in rules.items() if not holds]
