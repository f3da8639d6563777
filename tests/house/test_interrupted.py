"""Tools of the workshop that run for long: Ctrl-C is an ordinary end of them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.lab import WITHIN_S

TOP = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "words", [("tests.faults.soak", "--hours", "9"), ("tests.wire.fuzz", "--seconds", "900")]
)
def test_ctrl_c_says_that_nothing_was_broken_until_then(words: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", *words], cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tool:
        try:
            assert tool.stderr is not None and "with seed" in tool.stderr.readline()
            tool.send_signal(signal.SIGINT)
            out, err = tool.communicate(timeout=WITHIN_S)
        finally:
            tool.kill()
    assert (tool.returncode, out) == (130, ""), err
    assert "Traceback" not in err and err.endswith("no promise was broken until then\n")
