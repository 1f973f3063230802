"""The handlers of one informer: registration, delivery and resync.

Upstream: k8s.io/client-go/tools/cache/shared_informer.go (sharedProcessor, v1.36)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from opsdk.aio.containment import contain
from opsdk.aio.named_sleep import named_sleep
from opsdk.aio.randomness import loop_random
from opsdk.aio.tasks import TaskOwner
from opsdk.cache.registration import Handler, HandlerRegistration
from opsdk.cache.store import Delta, DeltaType, InformerStore
from opsdk.telemetry.failures import FunctionFailures

# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_DELETED = DeltaType.DELETED

# Objects of a list whose differences are computed and delivered before other tasks run.
_SLICE_DELTAS = 500


class SharedProcessor:
    """Registers handlers, and delivers deltas to them.

    Args:
        name: of the informer.
        store: of the informer.
        tasks: run deliveries that take several slices.
        counts: gets ``handler_error``.
        failures: gets the handlers that raise.

    Attributes:
        registrations: one for each handler. A change replaces the tuple, so that an event is delivered without a copy.
    """

    def __init__(
        self, name: str, store: InformerStore, *, tasks: TaskOwner, counts: Counter[str], failures: FunctionFailures
    ) -> None:
        self._name = name
        self._store = store
        self._tasks = tasks
        self._counts = counts
        self._failures = failures
        self.registrations: tuple[HandlerRegistration, ...] = ()
        self._deliveries: Counter[str] = Counter()

    def add(self, handler: Handler, *, resync: bool) -> HandlerRegistration:
        """Add a handler without existing objects."""
        registration = HandlerRegistration(
            partial(self._call, handler),
            name=self._delivery_name(handler),
            resync=resync,
            start_task=lambda coro: self._tasks.start(coro, name="deliver"),
            on_remove=self._remove,
        )
        self.registrations = (*self.registrations, registration)
        return registration

    def _remove(self, removed: HandlerRegistration) -> None:
        self.registrations = tuple(each for each in self.registrations if each is not removed)

    def _delivery_name(self, handler: Handler) -> str:
        """Return a name that a replay of the process gives too: its handlers may be added in another order."""
        function = getattr(handler, "__qualname__", type(handler).__name__)
        self._deliveries[function] += 1
        return f"{function} {self._deliveries[function]} of {self._name}"

    def _call(self, handler: Handler, delta: Delta) -> None:
        """Call a handler. An error is counted and logged, and stops neither other handlers nor the watch."""
        try:
            handler(delta)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything
            failure = contain(error)
            self._counts["handler_error"] += 1
            self._failures.failed(f"the handler {handler!r} of {delta.change.value}", delta.entry.key, failure)
        if delta.change is _DELETED:
            self._failures.forget(delta.entry.key)

    async def deliver_replaced(
        self, replaced: Iterator[tuple[Delta, ...]], registrations: Sequence[HandlerRegistration]
    ) -> None:
        """Deliver the differences of a list in slices, to the handlers that were there when the list ended."""
        deltas: list[Delta] = []
        for number, more in enumerate(replaced, 1):
            deltas += more
            if number % _SLICE_DELTAS == 0:
                for registration in registrations:
                    registration.deliver(deltas)
                deltas = []
                await asyncio.sleep(0)
        for registration in registrations:
            registration.deliver(deltas)

    async def resync(self, period: float) -> None:
        """Deliver all objects as updates to the handlers that request resyncs, each `period` seconds +- 10 %."""
        period *= loop_random().uniform(0.9, 1.1)
        while True:
            await named_sleep(f"resync {self._name}", period)
            if registrations := [each for each in self.registrations if each.resync]:
                entries = list(self._store.entries(own_writes=False))
                for registration in registrations:
                    registration.deliver(
                        Delta(change=DeltaType.UPDATED, old=entry, new=entry, resync=True) for entry in entries
                    )

    def close(self) -> None:
        """Remove all handlers. Idempotent."""
        for registration in self.registrations:
            registration.remove()

    def __repr__(self) -> str:
        return f"<SharedProcessor of {self._name}: {len(self.registrations)} handlers>"
