"""Is there a Spark to test with?"""

import os

import pytest

from rostra.errors import NotInstalled
from rostra.history.session import check_java, check_spark


def require_spark() -> None:
    """Skip the test where Spark or Java are missing; fail it where everything is required."""
    try:
        check_spark()
        check_java()
    except NotInstalled as missing:
        if os.environ.get("ROSTRA_ALL_REQUIRED"):
            raise
        pytest.skip(str(missing))
