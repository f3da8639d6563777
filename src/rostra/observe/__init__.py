"""Observers: they see every step of a node, and change nothing (`core/observer.py`).

log, node_log                       log lines, counters and the flight recorder of a process
scribe, *_rows                      rows of a node's journal; `rostra.journal` has their schema and files
recording, veil                     every input of a node, for `rostra sim replay`; without keys
trace                               the notices and items of simulated programs, as lines

The trail (`protocols/relaxed/trail.py`) is an observer too. It is not here but inside the node, because the
node answers `rostra why` from it: a replay must give the same answers.
"""
