"""Measures the lag of an informer: polls the resource version of its list, and compares with a second watch."""

from __future__ import annotations

import asyncio
from typing import Final

from opsdk.aio.clock import monotonic
from opsdk.aio.named_sleep import named_sleep
from opsdk.aio.randomness import loop_random
from opsdk.cache.lag import InformerLag
from opsdk.cache.list_watch import ListerWatcher
from opsdk.cache.reflector import Reflector, ReflectorState
from opsdk.errors import GoneError, OpsdkError
from opsdk.rest.frames import error_from_event
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Seconds for a list, and for the head of the second watch.
_TIMEOUT: Final = 10.0
# Seconds in which a second watch shows what is missing: the server has it in memory, and sends it at once.
_WATCH_SECONDS: Final = 1.0
# Spreads the polls of informers that start together.
_JITTER: Final = 0.1


class LagMonitor:
    """Measures the lag of one informer, without a change of its state.

    A measurement is a list of one object. If the watch has not shown its resource version, a second watch follows for
    a second.

    Args:
        source: of the informer.
        reflector: of the informer.
    """

    def __init__(self, source: ListerWatcher, reflector: Reflector) -> None:
        self._source = source
        self._reflector = reflector
        self._lag = InformerLag()

    def seconds(self) -> float | None:
        """Return the lag now; None if it is not known. See `InformerLag.seconds`."""
        return self._lag.seconds(self._reflector.resource_version, monotonic())

    async def run(self, interval: float) -> None:
        """Measure every `interval` seconds, until cancelled."""
        while True:
            seconds = interval * loop_random().uniform(1 - _JITTER, 1 + _JITTER)
            await named_sleep(f"lag {self._source.describe()}", seconds)
            await self._measure()

    async def _measure(self) -> None:
        """Poll once. Failures make the lag unknown: the informer reports the failures of its own requests."""
        if not self._reflector.synced or self._reflector.state is ReflectorState.LISTING:
            self._lag.reset()  # a list replaces everything
            return
        try:
            await self._poll()
        except (OpsdkError, TimeoutError) as error:
            log.debug("cannot measure the lag of %s: %r", self._source.describe(), error)
            self._lag.failed()

    async def _poll(self) -> None:
        before = self._reflector.resource_version
        async with asyncio.timeout(_TIMEOUT):
            _, meta = await self._source.list_page(continue_token="", limit=1)
        watched_version = self._reflector.resource_version
        if self._lag.listed(meta.resource_version, before=before, shown=watched_version, now=monotonic()):
            self._lag.compared(missing=await self._is_missing(watched_version))

    async def _is_missing(self, resource_version: str) -> bool:
        """Whether a second watch shows a change after a resource version. Raises `OpsdkError` and ``TimeoutError``."""
        limit, is_open = asyncio.timeout(_TIMEOUT), False
        try:
            async with limit, self._source.watch(resource_version=resource_version) as events:
                limit.reschedule(monotonic() + _WATCH_SECONDS)
                is_open = True
                async for event in events:
                    if event.type == "ERROR":
                        raise error_from_event(event.data)
                    if event.type != "BOOKMARK":
                        return True
        except GoneError:
            return True
        except TimeoutError:
            if not (is_open and limit.expired()):
                raise
        return False

    def __repr__(self) -> str:
        return f"<LagMonitor {self._lag!r}>"
