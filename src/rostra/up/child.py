"""How every process of a small world starts: ``python -m rostra.up.child SUPERVISOR MODULE WORD...``

The kernel kills the process when its supervisor ends, for whatever reason. The rest is ``python -m MODULE
WORD...``.
"""

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def die_with(supervisor: int) -> None:
    """SIGKILL, and not SIGTERM: it ends a process that is paused or ignores signals, too."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != supervisor:
        sys.exit(1)  # it died before we could ask


if __name__ == "__main__":
    _, supervisor, module, *words = sys.argv
    die_with(int(supervisor))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
