"""Calls the handlers of an operator that was migrated from kopf, inside a reconciler, a finalizer or a daemon.

``opsdk migrate kopf`` generates the reconcilers. A `ChangeCall` compares the object with the record of what was last
handled, calls the handlers of the difference, and writes their patch together with the new record. The record is
kopf's own annotation, so nothing that kopf has created is created again.

Upstream: kopf/_core/reactor/processing.py, _core/actions/execution.py; _kits/hierarchies.py (1.45)
Deviates: handlers run one after the other, each at most once in a reconcile; a failure is retried by the reconcile.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, Final, Self

from opsdk.aio.blocking import blocking
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.client.patch import merge_patch
from opsdk.controller.context import Context
from opsdk.controller.finalizers import KopfFinalizer
from opsdk.errors import NotFoundError, TemporaryError, TerminalError
from opsdk.migration.kopf_record import (
    MISSING,
    DiffItem,
    HandlerProgress,
    KopfNames,
    differences,
    essence_of,
    field_path,
    handled_annotations,
    has_status_progress,
    last_handled,
    progress_of,
    progress_text,
    time_of,
    value_at,
)
from opsdk.migration.kopf_stopped import BlockingStopped, Stopped
from opsdk.migration.kopf_views import Body, KopfPatch, Memo, Meta, matches_metadata, matches_value
from opsdk.recipes.finalizers import is_deleting
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["ChangeCall", "HandledField", "KopfKind", "ObjectCall"]

log = SafeLogger(__name__)

_RETRY_SECONDS: Final = 60.0
_THREADS: Final = 100
_MAX_REMEMBERED: Final = 1_000
CURRENT_CALL: ContextVar[ObjectCall] = ContextVar("opsdk_kopf_call")


@blocking(threads=_THREADS)
def _call_in_thread(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    return function(**arguments)


class KopfKind:
    """What the handlers of one kind remember while the operator runs.

    Args:
        names: of the records on the objects.
        extra_fields: fields of the status whose changes count, such as ``status.phase``.
        memo: values that every object's memo begins with.
    """

    def __init__(
        self, names: KopfNames | None = None, *, extra_fields: Sequence[str] = (), memo: Memo | None = None
    ) -> None:
        self.names = names or KopfNames()
        self.extra_fields = tuple(extra_fields)
        self._memo = memo if memo is not None else Memo()
        self._objects: dict[str, _Remembered] = {}
        self._limit = _MAX_REMEMBERED

    @staticmethod
    def finalizer(name: str) -> str:
        """Return the name of kopf's finalizer for ``finalizers={...}``; it may have no domain."""
        return KopfFinalizer(name)

    def remembered(self, uid: str) -> _Remembered:
        """Return what is remembered of an object."""
        if uid not in self._objects:
            self._objects[uid] = _Remembered(Memo(self._memo))
        return self._objects[uid]

    async def forget_deleted(self, ctx: Context, obj: Unstructured) -> None:
        """Forget objects that no longer exist, when many are remembered."""
        if len(self._objects) <= self._limit:
            return
        live = {member.metadata.uid for member in await ctx.client.list(_kind_like(obj))}
        self._objects = {uid: remembered for uid, remembered in self._objects.items() if uid in live}
        self._limit = max(_MAX_REMEMBERED, 2 * len(self._objects))


class _Remembered:
    """What is remembered of one object: its memo, whether its handlers ran since the start, failed calls of daemons."""

    def __init__(self, memo: Memo) -> None:
        self.memo = memo
        self.is_handled = False
        self.failures: dict[str, int] = {}
        self.started: dict[str, datetime] = {}
        self.delayed: set[str] = set()


def _kind_like(obj: Unstructured) -> Any:
    return unstructured_kind(obj.api_version, obj.kind)


# ------------------------------------------------------------------ one call
class ObjectCall:
    """The arguments of handlers for one object, and the patch that they fill. An async context manager.

    The end of the block sends the patch, unless the block raised.

    Args:
        obj: the object.
        ctx: of the reconcile, finalizer or daemon.
        kind: remembers the objects of the kind.
    """

    def __init__(self, obj: Unstructured, ctx: Context, kind: KopfKind) -> None:
        self._object, self._ctx, self._kind = obj, ctx, kind
        self._remembered = kind.remembered(obj.metadata.uid)
        self.body = Body(to_dict(obj))
        self.patch = KopfPatch()
        self.stopped = Stopped()
        self.blocking_stopped = BlockingStopped()

    async def __aenter__(self) -> Self:
        await self._kind.forget_deleted(self._ctx, self._object)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is None:
            await self._send(self.patch)

    # -------------------------------------------------------------- arguments
    @property
    def meta(self) -> Meta:
        """The metadata."""
        return self.body.metadata

    @property
    def spec(self) -> JsonObject:
        """The spec."""
        return self.body.spec

    @property
    def status(self) -> JsonObject:
        """The status."""
        return self.body.status

    @property
    def name(self) -> str:
        """The name."""
        return self._object.metadata.name

    @property
    def namespace(self) -> str | None:
        """The namespace; None for a cluster-scoped object."""
        return self._object.metadata.namespace or None

    @property
    def uid(self) -> str:
        """The uid."""
        return self._object.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        """The labels."""
        return self.meta.labels

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations."""
        return self.meta.annotations

    @property
    def logger(self) -> logging.Logger:
        """The logger of the reconcile."""
        return self._ctx.logger

    @property
    def memo(self) -> Memo:
        """Values that the handlers of the object share until the operator ends."""
        return self._remembered.memo

    @property
    def type(self) -> str:
        """``ADDED`` or ``MODIFIED``: the event that caused the reconcile."""
        return "ADDED" if any(cause.event == "create" for cause in self._ctx.causes) else "MODIFIED"

    @property
    def event(self) -> JsonObject:
        """The event as kopf passes it to its event handlers."""
        return {"type": self.type, "object": dict(self.body)}

    async def delay_first(self, handler_id: str, seconds: float) -> None:
        """Wait before the first call of a daemon for this object."""
        if handler_id not in self._remembered.delayed:
            await asyncio.sleep(seconds)
            self._remembered.delayed.add(handler_id)

    def retry(self, handler_id: str) -> int:
        """Return how often a handler has failed since its last success."""
        return self._remembered.failures.get(handler_id, 0)

    def started(self, handler_id: str) -> datetime:
        """Return the time of the first call."""
        return self._remembered.started.get(handler_id, self._ctx.now)

    def runtime(self, handler_id: str) -> timedelta:
        """Return the time since the first call."""
        return self._ctx.now - self.started(handler_id)

    def arguments(self) -> dict[str, Any]:
        """Return all arguments that do not depend on the handler, for a function with ``**kwargs``."""
        names = ("body", "meta", "spec", "status", "name", "namespace", "uid", "labels", "annotations")
        return {name: getattr(self, name) for name in (*names, "logger", "memo", "patch")}

    def matches(
        self,
        *,
        labels: Mapping[str, Any] | None = None,
        annotations: Mapping[str, Any] | None = None,
        field: str | Sequence[str] | None = None,
        value: Any = None,
        when: Callable[..., Any] | None = None,
    ) -> bool:
        """Whether the object passes the filters of a handler.

        Args:
            labels: values, `PRESENT`, `ABSENT`, or functions of the value.
            annotations: the same for annotations.
            field: the path of a field that exists, or has `value`.
            value: a value, `PRESENT`, `ABSENT`, or a function of the value; None for any.
            when: a function of all arguments.
        """
        arguments = self.arguments()
        return (
            matches_metadata(labels or {}, self.labels, arguments)
            and matches_metadata(annotations or {}, self.annotations, arguments)
            and (field is None or self._matches_field(field, value, arguments))
            and (when is None or bool(when(**arguments)))
        )

    def _matches_field(self, field: str | Sequence[str], value: Any, arguments: Mapping[str, Any]) -> bool:
        return matches_value(value, value_at(self.body, field), arguments)

    # -------------------------------------------------------------- calls
    async def call(
        self, handler_id: str, function: Callable[..., Any], /, *, errors: str = "temporary", **arguments: Any
    ) -> None:
        """Call a handler, in a thread if it is a plain function. Its result goes into the status under its id.

        Args:
            handler_id: its id in kopf.
            function: the handler.
            errors: what an exception means: ``temporary``, ``permanent`` or ``ignored``.
            arguments: of the function.

        Raises:
            TerminalError: the handler raised it, or any error that counts as permanent.
            Exception: the handler raised it.
        """
        self._remembered.started.setdefault(handler_id, self._ctx.now)
        try:
            returned = await self._invoke(function, arguments)
        except TerminalError:
            raise
        except Exception as error:
            self._remembered.failures[handler_id] = self.retry(handler_id) + 1
            if errors == "ignored":
                log.warning("handler %s failed, which is ignored: %s", handler_id, error, exc_info=True)
                return
            if errors == "permanent" and not isinstance(error, TemporaryError):
                raise TerminalError(f"handler {handler_id} failed: {error}") from error
            raise
        self._remembered.failures.pop(handler_id, None)
        self._remembered.started.pop(handler_id, None)
        self._deliver(handler_id, returned)

    async def _invoke(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        token = CURRENT_CALL.set(self)
        try:
            if inspect.iscoroutinefunction(function):
                return await function(**arguments)
            return await _call_in_thread(function, arguments)
        finally:
            CURRENT_CALL.reset(token)

    def _deliver(self, handler_id: str, returned: Any) -> None:
        if returned is not None:
            self.patch.status[handler_id] = dict(returned) if isinstance(returned, Mapping) else returned

    def record_event(self, regarding: JsonObject, reason: str, note: str, event_type: str) -> None:
        """Record an Event about an object. In the event loop."""
        about: Any = (
            self._object
            if (regarding.get("metadata") or {}).get("uid") == self.uid
            else Unstructured.from_tree(dict(regarding))
        )
        kind = "Normal" if event_type == "Normal" else "Warning"
        self._ctx.event(reason, note or reason, type=kind, regarding=about)  # type: ignore[arg-type] # one of the two

    async def _send(self, patch: Mapping[str, Any]) -> None:
        """Send a patch; the status by its subresource, or in the object if the kind has none."""
        main = {name: value for name, value in patch.items() if name != "status" and value}
        status = {"status": patch["status"]} if patch.get("status") else {}
        try:
            if main:
                await self._ctx.client.patch(copy.copy(self._object), merge_patch(main))
            if status:
                await self._send_status(status)
        except NotFoundError:
            self.logger.debug("the object no longer exists, so its patch is dropped")

    async def _send_status(self, status: JsonObject) -> None:
        try:
            await self._ctx.client.status().patch(copy.copy(self._object), merge_patch(status))
        except NotFoundError:
            await self._ctx.client.patch(copy.copy(self._object), merge_patch(status))


class HandledField:
    """The old and the new value of one field.

    Attributes:
        old (Any): the value that was last handled; None if there was none.
        new (Any): the present value; None if there is none.
        diff (tuple[DiffItem, ...]): what differs, relative to the field.
    """

    def __init__(self, old: Any, new: Any, arguments: Mapping[str, Any]) -> None:
        self._old, self._new, self._arguments = old, new, arguments
        self.old = None if old is MISSING else old
        self.new = None if new is MISSING else new
        self.diff: tuple[DiffItem, ...] = tuple(differences(self.old, self.new))

    @property
    def is_changed(self) -> bool:
        """Whether the values differ."""
        return self._old is not self._new and (MISSING in (self._old, self._new) or self._old != self._new)

    def matches(self, *, value: Any = None, old: Any = None, new: Any = None) -> bool:
        """Whether the values pass the filters of a handler: `value` is for any of them."""
        return (
            any(matches_value(value, candidate, self._arguments) for candidate in (self._new, self._old))
            and (old is None or matches_value(old, self._old, self._arguments))
            and (new is None or matches_value(new, self._new, self._arguments))
        )


class ChangeCall(ObjectCall):
    """Calls the handlers of what changed since the record of the last handled state.

    The end of the block sends the patch. If every handler has finished, it writes the record; else it writes the
    progress, and raises so that the reconcile is retried.

    Attributes:
        old (JsonObject | None): the essence that was last handled; None at first.
        new (JsonObject): the present essence.
        diff (tuple[DiffItem, ...]): what differs.
        is_watched (bool): whether the filter of any handler matches; set it to False to write no record.

    Raises:
        TemporaryError: handlers are to be called again; the delay is the shortest of them.
        TerminalError: the record of the object is malformed.
    """

    def __init__(self, obj: Unstructured, ctx: Context, kind: KopfKind) -> None:
        super().__init__(obj, ctx, kind)
        self.old = last_handled(self.body, kind.names)
        self.new = essence_of(self.body, kind.extra_fields)
        self.diff = tuple(differences(self.old, self.new))
        self.is_watched = True
        self._called: dict[str, HandlerProgress] = {}
        self._waits: dict[str, float] = {}
        self._problems: list[str] = []

    @property
    def is_delete(self) -> bool:
        """Whether the object is being deleted."""
        return is_deleting(self._object)

    @property
    def is_create(self) -> bool:
        """Whether the creation has not been handled."""
        return not self.is_delete and self.old is None

    @property
    def is_update(self) -> bool:
        """Whether the object differs from the handled state."""
        return not self.is_delete and self.old is not None and bool(self.diff)

    @property
    def is_resume(self) -> bool:
        """Whether the operator sees an object for the first time whose creation was handled before its start."""
        return not self.is_delete and self.old is not None and not self._remembered.is_handled

    @property
    def reason(self) -> str:
        """Why handlers are called: ``create``, ``update``, ``resume``, ``delete`` or ``noop``."""
        reasons = {"delete": self.is_delete, "create": self.is_create, "update": self.is_update}
        return next((name for name, holds in reasons.items() if holds), "resume" if self.is_resume else "noop")

    def field(self, field: str | Sequence[str]) -> HandledField:
        """Return the change of one field, such as ``spec.size``."""
        path = field_path(field)
        return HandledField(value_at(self.old, path), value_at(self.new, path), self.arguments())

    def retry(self, handler_id: str) -> int:
        """Return how often a handler was called for this change."""
        return self._progress(handler_id).retries

    def started(self, handler_id: str) -> datetime:
        """Return the time of the first call for this change."""
        return time_of(self._progress(handler_id).started) or self._ctx.now

    def arguments(self) -> dict[str, Any]:
        """Return all arguments that do not depend on the handler."""
        return {**super().arguments(), "old": self.old, "new": self.new, "diff": self.diff, "reason": self.reason}

    def _progress(self, handler_id: str) -> HandlerProgress:
        return self._called.get(handler_id) or progress_of(self.body, handler_id, self._kind.names)

    async def call(
        self,
        handler_id: str,
        function: Callable[..., Any],
        /,
        *,
        errors: str = "temporary",
        retries: int | None = None,
        timeout: float | None = None,
        backoff: float | None = None,
        **arguments: Any,
    ) -> None:
        """Call a handler, unless it has finished for this change or waits for its retry.

        Args:
            handler_id: its id in kopf.
            function: the handler.
            errors: what an exception means: ``temporary``, ``permanent`` or ``ignored``.
            retries: number of calls after which the handler has failed; None for no limit.
            timeout: seconds since the first call after which the handler has failed; None for no limit.
            backoff: seconds until the next call after an exception; default 60.
            arguments: of the function.
        """
        progress = self._progress(handler_id)
        if handler_id in self._called:
            return
        self._called[handler_id] = progress
        if progress.is_finished:
            return
        if (wait := self._seconds_until(progress)) > 0:
            self._waits[handler_id] = wait
            return
        progress.started = progress.started or self._time()
        progress.purpose = self.reason
        if self._is_given_up(handler_id, progress, retries, timeout):
            return
        progress.retries += 1
        try:
            returned = await self._invoke(function, arguments)
        except Exception as error:  # noqa: BLE001 - any error of a handler is recorded, and logged
            self._fail(handler_id, progress, error, errors, _RETRY_SECONDS if backoff is None else backoff)
            return
        self._finish(progress)
        self._deliver(handler_id, returned)

    def _time(self, seconds: float = 0.0) -> str:
        return (self._ctx.now + timedelta(seconds=seconds)).isoformat(timespec="microseconds")

    def _seconds_until(self, progress: HandlerProgress) -> float:
        due = time_of(progress.delayed)
        return 0.0 if due is None else (due - self._ctx.now).total_seconds()

    def _is_given_up(
        self, handler_id: str, progress: HandlerProgress, retries: int | None, timeout: float | None
    ) -> bool:
        reason = ""
        if timeout is not None and self.runtime(handler_id).total_seconds() >= timeout:
            reason = f"it has not succeeded within {timeout:g} s"
        elif retries is not None and progress.retries >= retries:
            reason = f"it has not succeeded in {progress.retries} calls"
        if not reason:
            return False
        self.logger.error("handler %s failed for good: %s", handler_id, reason)
        self._finish(progress, failure=True, message=reason)
        return True

    def _finish(self, progress: HandlerProgress, *, failure: bool = False, message: str | None = None) -> None:
        progress.stopped, progress.delayed, progress.message = self._time(), None, message
        progress.success, progress.failure = not failure, failure

    def _fail(self, handler_id: str, progress: HandlerProgress, error: Exception, errors: str, backoff: float) -> None:
        if not isinstance(error, TemporaryError | TerminalError) and errors == "ignored":
            self.logger.warning("handler %s failed, which is ignored: %s", handler_id, error, exc_info=error)
            self._finish(progress)
        elif isinstance(error, TerminalError) or (errors == "permanent" and not isinstance(error, TemporaryError)):
            self.logger.error("handler %s failed for good: %s", handler_id, error, exc_info=error)
            self._finish(progress, failure=True, message=str(error))
        else:
            seconds = error.seconds if isinstance(error, TemporaryError) else backoff
            progress.delayed, progress.message = self._time(seconds), str(error)
            self._waits[handler_id] = seconds
            self._problems.append(f"{handler_id}: {error}")

    async def __aexit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None:
            return
        if self._waits:
            await self._send(self._with_progress())
            problem = "; ".join(self._problems) or "waits for its retry"
            raise TemporaryError(f"handlers are called again: {problem}", delay=max(0.0, min(self._waits.values())))
        await self._send(self._with_record())
        self._remembered.is_handled = True

    def _with_progress(self) -> KopfPatch:
        annotations = self.patch.metadata.annotations
        for handler_id, progress in self._called.items():
            text = progress_text(progress)
            if self.annotations.get(key := self._kind.names.annotation(handler_id)) != text:
                annotations[key] = text
        return self.patch

    def _with_record(self) -> KopfPatch:
        """Return the patch with the record of the handled state, and without progress."""
        if self.is_delete or not self.is_watched:
            return self.patch
        names = self._kind.names
        annotations = self.patch.metadata.annotations
        for handler_id in self._called:
            if (key := names.annotation(handler_id)) in self.annotations:
                annotations[key] = None
        if has_status_progress(self.body, names):
            self.patch.status[names.status] = None
        if self.old != self.new:
            for key, text in handled_annotations(self.new, self.body, names).items():
                annotations[key] = text
        return self.patch
