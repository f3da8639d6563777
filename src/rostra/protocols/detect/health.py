"""How late are we ourselves? A node whose own loop is late blames itself first.

A server learns of its peers only as fast as its own loop turns. If the loop is late (a long computation, a
swapped-out process, a paused virtual machine) then every peer seems silent, and giving them all up would tear
the world apart from its least healthy point. So lateness counts twice, each time in the peers' favour:

- the time we were away is no silence: `Detector` moves its clocks forward by it;
- for a while after, suspicion needs a little more, because a loop that was late is likely to be late again.

Where we differ from Lifeguard (Dadgar et al.), which multiplies the timeouts of an unhealthy member by up to
nine: we add, and never more than one heartbeat in all, because a bound on detection is a promise made to
those who wait for it.
"""


def lateness_after(lateness_s: float, elapsed_s: float, late_s: float, half_life_s: float) -> float:
    """Our health: the recent lateness of our own loop in seconds, halved every half-life; 0 is healthy."""
    if lateness_s == 0.0:
        return late_s
    return float(lateness_s * 0.5 ** (elapsed_s / half_life_s)) + late_s
