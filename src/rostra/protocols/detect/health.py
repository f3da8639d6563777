"""How late is our own event loop? A node that is late itself must not blame its peers.

If a node's loop is late (a long computation, a swapped-out process, a paused virtual machine), every peer
seems silent, and the least healthy node of the world would declare all its neighbours dead. So lateness
counts twice, each time in the peers' favour:

- the time we were away is no silence: `Detector` moves its clocks forward by it;
- for a while after, suspicion needs a little more, because a loop that was late is likely to be late again.

Where we differ from Lifeguard (Dadgar et al.), which multiplies the timeouts of an unhealthy member by up to
nine: we add, and never more than one heartbeat in all, because the bound on detection is documented and
relied on.
"""


def lateness_after(lateness_s: float, elapsed_s: float, late_s: float, half_life_s: float) -> float:
    """Our health: the recent lateness of our own loop in seconds, halved every half-life; 0 is healthy."""
    if lateness_s == 0.0:
        return late_s
    return float(lateness_s * 0.5 ** (elapsed_s / half_life_s)) + late_s
