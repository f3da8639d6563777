"""The algorithms: no sockets, clock, disk, threads or dice. See `effects` for how they are driven."""
