"""Failure detection: signs of life, suspicion that grows with silence, and allowance for our own delays.

Three speeds, one for each way to fail:

    a program died       its socket closed              known at once, by the operating system
    a program stalled    it leaves pings unanswered     suspected, then removed    `programs`
    a server is silent   its link brings nothing        suspected, then given up   `core`, `accrual`, `health`
"""
