"""Async context managers that start on entry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from opsdk.aio.closing import Closing


class Startable(Closing, ABC):
    """Starts on entry and closes on exit; a failed or cancelled start closes too."""

    @abstractmethod
    async def start(self) -> None:
        """Start; called on entry."""

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self
