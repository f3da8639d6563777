"""What every test may ask for."""

import pytest
from hypothesis import settings

# A machine that is busy with something else is no reason to fail; a failure must print how to repeat it.
settings.register_profile("rostra", deadline=None, print_blob=True)
settings.load_profile("rostra")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens",
        action="store_true",
        help="write what the code does now into the golden files; the diff is the review",
    )


@pytest.fixture
def rewrite_goldens(request: pytest.FixtureRequest) -> bool:
    """Shall this test write its golden file anew, instead of comparing with it?"""
    return bool(request.config.getoption("--rewrite-goldens"))
