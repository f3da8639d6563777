"""Rostra: named groups of programs over many sites; who is in them, why they left, and what happened.

async with rostra.connect() as me:
    async with me.join("chess", scope="eu") as chess:
        async for change in chess:
            ...
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rostra.client import connect

__all__ = ["connect"]


def __getattr__(name: str) -> Any:
    """The client is imported when asked for, so that cores can be used with no event loop in sight."""
    if name in __all__:
        from rostra import client

        return getattr(client, name)
    raise AttributeError(f"module 'rostra' has no attribute {name!r}")
