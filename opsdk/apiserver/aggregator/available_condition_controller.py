"""Maintains the ``Available`` condition of each remote ``APIService``, with one task for each.

Upstream: k8s.io/kube-aggregator/pkg/controllers/status/remote/remote_available_controller.go (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.apiserver.aggregator.api_services import Availability, RemoteService

REFRESH: Final = 30.0
"""Seconds between two checks of an APIService: a server may stop without an event."""
_FIRST_RETRY: Final = 0.005


class AvailableConditionController(Closing):
    """The tasks that check remote ``APIService`` objects.

    Args:
        find: returns the current remote service of a name; None if it was deleted or is local.
        judge: returns the condition, and whether a request was sent; then a failure is retried with backoff.
        write: writes the condition into the status of the ``APIService``.
        on_error: receives unexpected errors, with the name of the ``APIService``.
    """

    def __init__(
        self,
        *,
        find: Callable[[str], RemoteService | None],
        judge: Callable[[RemoteService], Awaitable[tuple[Availability, bool]]],
        write: Callable[[RemoteService, Availability], Awaitable[None]],
        on_error: Callable[[str, BaseException], None],
    ) -> None:
        self._find, self._judge, self._write = find, judge, write
        self._on_error = on_error
        self._tasks = TaskOwner("aggregator", on_error=on_error)
        self._touched: dict[str, asyncio.Event] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<AvailableConditionController of {', '.join(sorted(self._touched)) or 'nothing'}>"

    def touch(self, name: str) -> None:
        """Check this ``APIService`` soon, because an object that concerns it changed."""
        event = self._touched.get(name)
        if event is not None:
            event.set()
        elif not self._closed:
            event = self._touched[name] = asyncio.Event()
            self._tasks.start(self._sync_until_removed(name, event), name=name)

    async def _sync_until_removed(self, name: str, touched: asyncio.Event) -> None:
        wait = _FIRST_RETRY
        try:
            while (remote := self._find(name)) is not None:
                touched.clear()
                failing = await self._sync(remote)
                seconds = wait if failing else REFRESH
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await touched.wait()
                wait = min(wait * 2, REFRESH) if failing else _FIRST_RETRY
        finally:
            del self._touched[name]

    async def _sync(self, remote: RemoteService) -> bool:
        """Check and write the condition. Return whether to retry soon, also after an unexpected error."""
        try:
            verdict, tried = await self._judge(remote)
            if self._find(remote.name) is not None:
                await self._write(remote, verdict)
        except Exception as error:  # noqa: BLE001 - it concerns one APIService, whose checks continue
            self._on_error(remote.name, error)
            return True
        return tried and not verdict.is_available

    async def aclose(self) -> None:
        """Stop all tasks; idempotent."""
        self._closed = True
        await self._tasks.aclose()
