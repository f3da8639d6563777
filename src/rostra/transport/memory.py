"""Memory that one process writes and others may only read."""

import fcntl
import mmap
import os
from typing import Final

F_SEAL_FUTURE_WRITE: Final = 0x10  # Linux 5.1 and later; the module fcntl does not name it


def is_possible() -> bool:
    """Linux has memory without a name that can be sealed."""
    return hasattr(os, "memfd_create") and hasattr(fcntl, "F_ADD_SEALS")


def sealed_memory(size_bytes: int) -> tuple[int, mmap.mmap]:
    """Memory that only this process can write: the file to hand out, and our view of it."""
    file = os.memfd_create("rostra-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, size_bytes)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        memory = mmap.mmap(file, size_bytes)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)
    except OSError:
        os.close(file)
        raise
    return file, memory
