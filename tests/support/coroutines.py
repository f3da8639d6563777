"""For a folder's conftest: tests that are coroutines run in a loop of their own, and not for ever.

from support.coroutines import pytest_pyfunc_call as pytest_pyfunc_call
"""

import asyncio
import inspect
from typing import Any

import pytest

TEST_TIMEOUT_S = 300.0
"""Ends what would hang for ever. No test measures with it."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(_in_time(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})))
    return True


async def _in_time(test: Any) -> None:
    async with asyncio.timeout(TEST_TIMEOUT_S):
        await test
