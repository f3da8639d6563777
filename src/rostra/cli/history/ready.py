"""A Python that has imported what questions need, and runs each of them in a copy of itself.

Started by the keeper of the warm Spark, and gone with it; see `rostra.history.handover`.
"""

import contextlib
import io
import json
import os
import signal
import socket
import sys
import time
import traceback
from importlib import import_module
from typing import Final

from rostra.errors import UNDECODABLE
from rostra.history import handover

NEEDED: Final = (
    *("grpc", "pandas", "pyarrow.dataset", "pyarrow.parquet"),
    *("pyspark.sql.connect.session", "pyspark.sql.connect.functions", "pyspark.sql.connect.window"),
    *("rostra.history.answers", "rostra.history.archive", "rostra.history.narrow", "rostra.history.warm"),
    *("rostra.history.progress", "rostra.history.questions", "rostra.history.audits"),
)

LOOK_EVERY_S: Final = 2.0
"""So often it looks if its keeper is still there."""


def main() -> None:
    keeper = os.getppid()
    made_of = handover.made_of()
    from rostra.cli import application

    application(["history"])
    for name in NEEDED:
        import_module(name)
    os.umask(0o077)
    with socket.socket(socket.AF_UNIX) as door, handover.short_path(handover.home()) as path:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        door.bind(path)
        door.listen()
        door.settimeout(LOOK_EVERY_S)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for copies
        while os.getppid() == keeper:
            with contextlib.suppress(TimeoutError):
                caller, _ = door.accept()
                if os.fork() == 0:
                    door.close()
                    _serve(caller, made_of)
                caller.close()


def _serve(caller: socket.socket, made_of: str) -> None:
    """As the process that asked, to the end of the command and of this copy."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        caller.setblocking(True)
        head, given, _, _ = socket.recv_fds(caller, handover.HEAD_BYTES, 4)
        try:
            with caller.makefile("rb") as content:
                theirs, arguments, environment, mask = json.loads(content.read(int.from_bytes(head)))
        except UNDECODABLE:
            theirs = None
        if theirs != made_of or len(given) != 4:
            os._exit(0)  # without a word: it is run there
        for number, descriptor in enumerate(given[:3]):
            os.dup2(descriptor, number)
        os.fchdir(given[3])
        for descriptor in given:
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(environment)
        os.umask(mask)
        time.tzset()
        sys.argv = ["rostra", *arguments]
        if isinstance(sys.stdout, io.TextIOWrapper):  # it was made for another file
            sys.stdout.reconfigure(line_buffering=os.isatty(1))
        caller.sendall(b"%d\n" % os.getpid())
        code = _run()
        caller.sendall(b"%d\n" % code)
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        os._exit(code)


def _run() -> int:
    from rostra.cli import main as command

    try:
        command()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except KeyboardInterrupt:
        code = 130
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


if __name__ == "__main__":
    main()
