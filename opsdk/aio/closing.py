"""Base class of objects that must be closed."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """Turns `aclose` into an async context manager. A class that must also be started overrides `__aenter__`."""

    async def aclose(self) -> None:
        """Release all resources. Implementations must be idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
