"""A process of another user of this machine: the attacker of some tests. Only root can start one.

It is forked and not executed anew: another user need not be able to read this interpreter.
"""

import contextlib
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TRIED: only root can act as another user")


@contextlib.contextmanager
def another_user(work: Callable[..., None], *arguments: Any) -> Iterator[Connection]:
    """Do this work as the user `nobody`. Its first argument is one end of a pipe, of which we have the other;
    it runs until it returns or we are done."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    process = fork.Process(target=_as_nobody, args=(work, theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()
        ours.close()


def _as_nobody(work: Callable[..., None], *arguments: Any) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    work(*arguments)


@contextlib.contextmanager
def open_directory() -> Iterator[Path]:
    """One like /tmp: everybody may make files in it."""
    with tempfile.TemporaryDirectory(prefix="rostra-", dir="/tmp") as name:
        Path(name).chmod(0o1777)
        yield Path(name)
