"""Shows the outcome of reconciles on the object: conditions of its status, and an Event when it is given up.

Upstream: none; Crossplane has the conditions ``Synced`` and ``Ready``, kstatus ``Stalled`` and ``Ready``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from opsdk.aio.containment import leaf_errors
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.object import AnyObject, TypedObject, to_tree
from opsdk.client.patch import merge_patch
from opsdk.controller.context import Context
from opsdk.controller.outcome import ReconcileEnd
from opsdk.controller.status import status_class
from opsdk.errors import ApiError, ConflictError, NotFoundError, OpsdkError, UsageError
from opsdk.recipes.conditions import set_condition
from opsdk.recipes.finalizers import is_deleting
from opsdk.telemetry.describe import text_of
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

GAVE_UP = "RetryLimitExceeded"
"""Reason of the condition and of the Event when a `RetryLimit` is reached."""
# Writes of the condition, each from a newer state of the object.
_TRIES = 4
# Characters of the condition's message: an error of the server may quote the whole object.
_MAX_MESSAGE = 1024
# metav1.Condition's reason.
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


class _Wanted(NamedTuple):
    """A condition to write.

    Attributes:
        type: the condition's type.
        status: ``True`` or ``False``.
        reason: one word.
        message: a sentence.
        keeps_true: a condition that is True for the object's generation stays: a failed reconcile says nothing about
            the children that were ready before.
    """

    type: str
    status: str
    reason: str
    message: str
    keeps_true: bool = False


class ConditionReport:
    """Writes the outcome of reconciles to their objects.

    Args:
        kind: the reconciled kind.
        error_condition: the type of the condition that is True after a failure; empty for none.
        ready_condition: the type of the condition that is True when each child is ready; empty for none.

    Raises:
        UsageError: the kind's status has no conditions.
    """

    def __init__(self, kind: Kind[AnyObject], error_condition: str, ready_condition: str = "") -> None:
        self._kind = kind
        self._error_condition = error_condition
        self._ready_condition = ready_condition
        check_conditions(kind, error_condition=error_condition, ready_condition=ready_condition)

    async def report_success(self, ctx: Context) -> None:
        """Write that nothing failed, and whether each child is ready. Raises the error of a write that failed."""
        conditions = []
        if self._error_condition:
            conditions.append(_Wanted(self._error_condition, "False", "Succeeded", "the last reconcile succeeded"))
        if self._ready_condition:
            verdict = ctx.progress.verdict()
            message = verdict.message[:_MAX_MESSAGE]
            conditions.append(_Wanted(self._ready_condition, str(verdict.ready), verdict.reason, message))
        if conditions:
            await self._write(ctx, conditions)

    async def report_failure(self, ctx: Context, error: BaseException, end: ReconcileEnd) -> None:
        """Write the error, and record an Event if the request is given up. An error of the API is logged."""
        text = text_of(error)[:_MAX_MESSAGE]
        reason, message = (GAVE_UP, f"{end.gave_up}: {text}") if end.gave_up else (reason_of(error), text)
        conditions = []
        if self._error_condition:
            conditions.append(_Wanted(self._error_condition, "True", reason, message))
        if self._ready_condition:
            conditions.append(_Wanted(self._ready_condition, "False", reason, message, keeps_true=True))
        try:
            if end.gave_up:
                await self._record_event(ctx, f"{end.gave_up}: {text}")
            if conditions:
                await self._write(ctx, conditions)
        except OpsdkError as failure:
            log.warning("the failure of %s could not be written to the object: %s", ctx.request, failure)

    async def _record_event(self, ctx: Context, note: str) -> None:
        obj = await ctx.client.get_or_none(self._kind, ctx.request.key)
        if obj is not None:
            ctx.event(GAVE_UP, note, type="Warning", regarding=obj, action="Reconcile")

    async def _write(self, ctx: Context, wanted: Sequence[_Wanted]) -> None:
        """Write the conditions unless the object has them; after a conflict, to a newer state of the object."""
        for attempt in range(_TRIES):
            obj: Any = await ctx.client.get_or_none(self._kind, ctx.request.key, uncached=attempt > 0)
            if obj is None:
                return
            # As a tree: items of other controllers keep fields that opsdk's `Condition` does not have.
            conditions = (to_tree(obj).get("status") or {}).get("conditions") or []
            changes = [self._set(conditions, condition, obj) for condition in wanted]
            if not any(changes):
                return
            patch = {"metadata": {"resourceVersion": obj.metadata.resource_version}}
            try:
                await ctx.client.status().patch(obj, merge_patch(patch | {"status": {"conditions": conditions}}))
            except NotFoundError:
                return
            except ConflictError:
                if attempt + 1 == _TRIES:
                    raise
            else:
                return

    def _set(self, conditions: list[Any], wanted: _Wanted, obj: Any) -> bool:
        """Set a condition in a list of trees. Returns False if it is there."""
        place = next((i for i, item in enumerate(conditions) if item.get("type") == wanted.type), None)
        own = [] if place is None else [msgspec.convert(conditions[place], Condition)]
        generation = obj.metadata.generation
        existing = own[0] if own else None
        if wanted.type == self._ready_condition:
            # The children of an object that is being deleted are no longer there to be ready.
            if (is_deleting(obj) and wanted.status == "True") or _is_ready_current(existing, wanted, generation):
                return False
        elif _is_error_current(existing, wanted):
            return False
        set_condition(own, wanted.type, wanted.status, wanted.reason, wanted.message, observed_generation=generation)
        conditions[slice(len(conditions), None) if place is None else slice(place, place + 1)] = to_builtins(own)
        return True

    def __repr__(self) -> str:
        conditions = ", ".join(filter(None, (self._error_condition, self._ready_condition)))
        return f"<ConditionReport of {self._kind.name}: {conditions or 'Events only'}>"


def _is_error_current(existing: Condition | None, wanted: _Wanted) -> bool:
    """Whether a write would change nothing. An object that never failed needs no condition that says so."""
    if existing is None:
        return wanted.status == "False"
    if wanted.status == "False":
        return existing.status == "False"
    return (existing.status, existing.reason, existing.message) == wanted[1:4]


def _is_ready_current(existing: Condition | None, wanted: _Wanted, generation: int) -> bool:
    if existing is None or existing.observed_generation != generation:
        return False
    if wanted.keeps_true and existing.status == "True":
        return True
    return (existing.status, existing.reason, existing.message) == wanted[1:4]


def reason_of(error: BaseException) -> str:
    """Return the reason of a condition: the API's, or the class of the first error.

    >>> reason_of(ValueError("no number")), reason_of(ExceptionGroup("two", [OSError(), ValueError()]))
    ('ValueError', 'OSError')
    """
    first = next(leaf_errors(error), error)
    reason = first.reason if isinstance(first, ApiError) else type(first).__name__
    return reason if _REASON.fullmatch(reason) else "Error"


def check_conditions(kind: Kind[AnyObject], *, error_condition: str, ready_condition: str) -> None:
    """Raise `UsageError` for a condition of a class whose status has no list of conditions."""
    cls: type[Any] = kind.representation
    for option, condition in (("error_condition", error_condition), ("ready_condition", ready_condition)):
        if not condition or not issubclass(cls, TypedObject):
            continue
        status = status_class(cls)
        if status is None or "conditions" not in getattr(status, "__struct_fields__", ()):
            raise UsageError(
                f"{option}={condition!r} needs conditions in the status of {kind.name}: add "
                "`conditions: list[Condition] = field(default_factory=list)`"
            )
