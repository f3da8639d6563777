"""A bad network, as one model: for the simulator, the cables of a small world and the lab.

    depart: queue and rate ──▶ cut? lost? doubled? ──▶ arrival: delay, jitter, overtaking

Every link is two **lines**, one in each direction, so a link can be cut, slowed or made worse one way only.
What a line does in good times is its `LineQuality`; faults change a `Line` while the world runs. No clock, no
network and no chance of its own: times and luck in, times out. Who drives a line decides whose luck it is:
the world's in the simulator, the message's on the simulator's data channel, that of the line and the number
of the packet in a lab.
"""
