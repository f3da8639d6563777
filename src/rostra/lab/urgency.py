"""Real-time priority, where allowed: a process that measures time should not wait for its turn."""

import contextlib
import os
from collections.abc import Iterator


def become_urgent() -> bool:
    """For this thread, from now on. False if the system does not allow it."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def urgently() -> Iterator[None]:
    """For this thread, for a while. Nothing may be started meanwhile: it would be urgent for ever."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    became = become_urgent()
    try:
        yield
    finally:
        if became:
            os.sched_setscheduler(0, *before)
