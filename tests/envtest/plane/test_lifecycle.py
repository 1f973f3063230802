"""`Startable`: it runs inside its block, and a failed start leaves nothing open."""

from __future__ import annotations

import pytest

from envtest.plane.lifecycle import Startable


class _Recorded(Startable):
    def __init__(self, error: BaseException | None = None) -> None:
        self.calls: list[str] = []
        self._error = error

    async def start(self) -> None:
        self.calls.append("start")
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        self.calls.append("close")


async def test_start_and_close() -> None:
    """The server runs between the entry and the exit of its block."""
    async with _Recorded() as target:
        assert target.calls == ["start"]
    assert target.calls == ["start", "close"]


async def test_failed_start_closes() -> None:
    """A failed start closes everything, then raises its error."""
    target = _Recorded(OSError("no port"))
    with pytest.raises(OSError, match="no port"):
        await target.__aenter__()
    assert target.calls == ["start", "close"]
