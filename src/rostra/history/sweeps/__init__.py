"""Thousands of simulations, to choose settings by measurement.

    plan      a TOML file ──▶ runs: topologies x settings x losses x seeds, each with an id
    run       one run ──▶ one row: how soon a crash was known, how often a neighbour was suspected in vain
    job       runs as Spark tasks, or one after the other; what is there already is not run again
    report    detection time against false suspicions, and the settings we would choose

A run is one simulated world and nothing else, so its row is the same wherever it is run. A run that fails is
a row with an error.
"""
