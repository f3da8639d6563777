"""What every test may ask for."""

import pytest


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
