"""Lifecycles: a class with any of ``create``, ``updated`` and ``remove`` as a handler of a `GenericController`.

Upstream: github.com/rancher/norman/lifecycle/object.go
Deviates: the changes of ``create`` are written together with its annotation, in one update.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from opsdk.aio.clock import monotonic
from opsdk.aio.containment import cancellations, contain
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import TypedObject, Unstructured
from opsdk.client.client import Client
from opsdk.controller.context import Context
from opsdk.errors import ConflictError, NotFoundError, UsageError
from opsdk.event.request import Request
from opsdk.lifecycle.handlers import check_returned, takes_context
from opsdk.lifecycle.names import LifecycleNames
from opsdk.lifecycle.recent_deletions import RecentDeletions
from opsdk.lifecycle.state import (
    CreateRecord,
    LifecycleAction,
    LifecycleMethods,
    next_action,
    prepare,
    without_finalizer,
)
from opsdk.lifecycle.writes import Before, ChangeWriter

T = TypeVar("T", bound=TypedObject | Unstructured)

_METHODS = ("create", "updated", "remove")
_FINALIZER_ATTEMPTS = 3
"""Attempts to remove a finalizer, as in norman. Then the object is requeued, and ``remove`` is called again."""


class LifecycleHandler(Generic[T]):
    """Calls the methods of a lifecycle for the objects of one kind.

    The instance has any of these methods, each with a `Context` as a second parameter or without. Each returns the
    object that it changed, or None. The difference is written by update, also if the method raises.

    ================  ==================================================================================
    ``create(obj)``   once for an object: again after an error, and after a crash before its annotation
    ``updated(obj)``  at every other event, from the one that the end of ``create`` causes
    ``remove(obj)``   when the object is being deleted, until it succeeds; a finalizer keeps the object
    ================  ==================================================================================

    Args:
        name: for errors.
        instance: the lifecycle.
        kind: of the objects.
        names: the finalizer and the annotation.

    Raises:
        UsageError: the instance has none of the methods, or one that cannot be called.
    """

    def __init__(self, name: str, instance: Any, *, kind: Kind[T], names: LifecycleNames) -> None:
        if isinstance(instance, type):
            raise UsageError(f"{instance.__name__} is a class: pass an instance, {instance.__name__}(...)")
        self.name = name
        self.names = names
        self._kind = kind
        self._writer = ChangeWriter()
        self._finished = RecentDeletions()
        functions = {method: getattr(instance, method) for method in _METHODS if hasattr(instance, method)}
        if not functions:
            raise UsageError(
                f"lifecycle {name}: {type(instance).__name__} has none of create, updated and remove: declare one, "
                "such as `async def updated(self, obj)`"
            )
        self._functions: dict[str, Callable[..., Awaitable[Any]]] = functions
        self._with_context = {method for method, function in functions.items() if takes_context(function, 1)}
        self.methods = LifecycleMethods(**dict.fromkeys(functions, True))

    async def __call__(self, request: Request, obj: T | None, ctx: Context) -> T | None:
        """Run the next steps of the lifecycle for an object, and return the new object."""
        if obj is None:
            return None
        action = next_action(obj.metadata, self.methods, self.names)
        if action is LifecycleAction.PREPARE:
            meta = obj.metadata
            meta.finalizers, meta.annotations = prepare(meta, self.methods, self.names)
            await ctx.client.update(obj)
            action = next_action(obj.metadata, self.methods, self.names)
            if action is LifecycleAction.PREPARE:
                raise UsageError(
                    f"lifecycle {self.name}: {obj.kind} {request} does not keep the finalizer {self.names.finalizer}:"
                    " find the admission webhook or controller that removes it"
                )
        match action:
            case LifecycleAction.CREATE:
                return await self._create(request, obj, ctx)
            case LifecycleAction.UPDATED:
                return await self._record("updated", request, obj, ctx)
            case LifecycleAction.REMOVE if not self._finished.is_stale(
                obj.metadata.uid, obj.metadata.resource_version, now=monotonic()
            ):
                return await self._remove(request, obj, ctx)
        return obj

    async def _create(self, request: Request, obj: T, ctx: Context) -> T:
        before, generation = Before.of(obj), obj.metadata.generation
        created = await self._call("create", request, obj, ctx, before)
        uid = created.metadata.uid if self.names.record_uid else ""
        created.metadata.annotations[self.names.annotation] = str(CreateRecord(uid=uid, generation=generation))
        await self._writer.write(ctx.client, before, created, always=True)
        return created

    async def _record(self, method: str, request: Request, obj: T, ctx: Context) -> T:
        """Call a method, and write its changes."""
        before = Before.of(obj)
        returned = await self._call(method, request, obj, ctx, before)
        await self._writer.write(ctx.client, before, returned)
        return returned

    async def _call(self, method: str, request: Request, obj: T, ctx: Context, before: Before) -> T:
        """Call a method. If it raises, write the changes that it made before."""
        arguments = (obj, ctx) if method in self._with_context else (obj,)
        task = asyncio.current_task()
        cancelling = cancellations(task)
        try:
            returned = await self._functions[method](*arguments)
        except BaseException as error:
            contain(error, task=task, cancelling=cancelling)
            try:
                await self._writer.write(ctx.client, before, obj)
            except Exception as failure:  # noqa: BLE001 - the method's own error is raised, with this one as a note
                error.add_note(f"the changes of {method} before its error were not written: {failure}")
            raise
        if returned is None:
            return obj
        place = f"{method} of lifecycle {self.name}"
        return check_returned(place, returned, kind=self._kind, request=request, given=obj)

    async def _remove(self, request: Request, obj: T, ctx: Context) -> T:
        try:
            removed = await self._record("remove", request, obj, ctx)
        except NotFoundError as error:
            if await ctx.client.get_or_none(self._kind, request.key, uncached=True) is None:
                return obj  # another client removed the finalizer, so the object is gone
            raise error from None
        remaining = await self._remove_finalizer(ctx.client, removed, request)
        # An update without finalizers deletes the object; the cache shows it until the watch reports the deletion.
        self._finished.record(obj.metadata.uid, remaining.metadata.resource_version, now=monotonic())
        return remaining

    async def _remove_finalizer(self, client: Client, obj: T, request: Request) -> T:
        """Remove the handler's finalizer; a conflict is retried with the object of the server."""
        uid = obj.metadata.uid
        for attempt in range(_FINALIZER_ATTEMPTS):
            remaining = without_finalizer(obj.metadata, self.names)
            if remaining == obj.metadata.finalizers:
                return obj
            obj.metadata.finalizers = remaining
            try:
                await client.update(obj)
            except NotFoundError:
                return obj
            except ConflictError:
                if attempt + 1 == _FINALIZER_ATTEMPTS:
                    raise
                current = await client.get_or_none(self._kind, request.key, uncached=True)
                if current is None or current.metadata.uid != uid:
                    return obj
                obj = current
            else:
                return obj
        return obj

    def __repr__(self) -> str:
        return f"<LifecycleHandler {self.name}: {', '.join(self._functions)}>"
