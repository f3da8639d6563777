"""Is there a Spark to test with?"""

import pytest

from rostra.errors import NotInstalled
from rostra.history.session import check_java, check_spark


def require_spark() -> None:
    """Skip the test where Spark or Java are missing."""
    try:
        check_spark()
        check_java()
    except NotInstalled as missing:
        pytest.skip(str(missing))
