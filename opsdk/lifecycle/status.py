"""Handlers that compute the status of an object.

Upstream: github.com/rancher/wrangler (generated RegisterXStatusHandler)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from opsdk.aio.containment import cancellations, contain
from opsdk.apimachinery.object import TypedObject, Unstructured, deep_copy
from opsdk.controller.context import Context
from opsdk.event.request import Request
from opsdk.lifecycle.cond import Cond, ensure_status
from opsdk.lifecycle.handlers import takes_context
from opsdk.lifecycle.writes import Before, ChangeWriter


class StatusHandler:
    """A handler whose function returns the status of the object. Add it with `GenericController.add_handler`.

    The function gets the object and a copy of its status, and returns the new status, or None for the copy, which it
    may have changed. Only a difference is written. If it raises, the old status stays, and the condition has the error.

    Args:
        function: ``async def status(obj, status)``, or with a `Context` as the third parameter.
        condition: the type of the condition; empty for none.
    """

    def __init__(self, function: Callable[..., Awaitable[Any]], *, condition: str = "") -> None:
        self._function = function
        self._takes_context = takes_context(function, 2)
        self._condition = Cond(condition) if condition else None
        self._writer = ChangeWriter()

    async def __call__(self, request: Request, obj: Any, ctx: Context) -> Any:
        """Compute the status, and write the difference. Does nothing for a deleted object."""
        if obj is None:
            return None
        before, copied = Before.of(obj), deep_copy(obj)
        status = _status_of(copied)
        failure: Exception | None = None
        task = asyncio.current_task()
        cancelling = cancellations(task)
        try:
            arguments = (copied, status, ctx) if self._takes_context else (copied, status)
            returned = await self._function(*arguments)
            _set_status(obj, status if returned is None else returned)
        except BaseException as error:  # noqa: BLE001 - raised below, when the condition is written
            failure = contain(error, task=task, cancelling=cancelling)
        if self._condition is not None:
            self._condition.set_error(obj, failure)
        try:
            await self._writer.write(ctx.client, before, obj)
        except Exception as error:
            if failure is None:
                raise
            failure.add_note(f"its condition was not written: {error}")
        if failure is not None:
            raise failure
        return obj

    def __repr__(self) -> str:
        return f"<StatusHandler {getattr(self._function, '__qualname__', self._function)}>"


def status_handler(*, condition: str = "") -> Callable[[Callable[..., Awaitable[Any]]], StatusHandler]:
    """Decorator: the function computes the status of an object. See `StatusHandler`.

    >>> @status_handler(condition="Ready")
    ... async def compute(site: Any, status: Any) -> None:
    ...     status["replicas"] = 3
    >>> compute
    <StatusHandler compute>

    Args:
        condition: the type of the condition that gets the outcome; empty for none.
    """
    return lambda function: StatusHandler(function, condition=condition)


def _status_of(obj: TypedObject | Unstructured) -> Any:
    return obj.content.setdefault("status", {}) if isinstance(obj, Unstructured) else ensure_status(obj)


def _set_status(obj: Any, status: Any) -> None:
    if isinstance(obj, Unstructured):
        obj.content["status"] = status
    else:
        obj.status = status
