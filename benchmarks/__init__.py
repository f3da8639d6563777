"""Real processes on loopback, beside Redis and a bare hub, in one run; only ratios within a run count.

python -m benchmarks [--quick] [--only W1 --only W3] [--repeats 3] [--journal]

__main__.py    runs workloads and peers interleaved, prints the tables, keeps the JSON
workloads.py   W1 W2 W3 W6 W7: what is done and what is timed, the same words for every peer
peers/         how each system is started, and how a program speaks to it
crew.py        the client processes, and how the one that measures speaks to them
figures.py     percentiles, medians, tables
"""
