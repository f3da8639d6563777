"""The algorithms: no sockets, no clock, no disk, no threads, no dice. See `effects` for how they are driven."""
