"""Things that are closed: one way to be an async context manager."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """Makes ``async with`` of `aclose`. A class that must also be started overrides `__aenter__`."""

    async def aclose(self) -> None:
        """Give back what is held. Must be idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
