"""Shows on the object whether its reconcile fails: a condition of its status, and an Event when it is given up.

Upstream: none; Crossplane's ``Synced`` condition and kstatus's ``Stalled`` have this meaning.
"""

from __future__ import annotations

import re
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


class _Desired(NamedTuple):
    """The condition after a reconcile.

    Attributes:
        status: "True" after a failure.
        reason: the error's.
        message: the error's text, with the end of the retries before it.
        error: the error's text alone, of a request that is given up.
    """

    status: str
    reason: str
    message: str
    error: str = ""

    def given_up(self, why_not: str) -> _Desired:
        """Return the condition of a request that is not retried any more."""
        return _Desired(self.status, GAVE_UP, f"{why_not}: {self.message}", self.message)

    def is_shown_by(self, existing: Condition | None, generation: int) -> bool:
        """Whether a write would change nothing. An object that never failed needs no condition that says so.

        A request that was given up is tried again after a restart. While it fails as before, its condition stays.
        """
        if self.status == "False":
            return existing is None or existing.status == "False"
        if existing is None or existing.status != "True":
            return False
        if existing.reason == GAVE_UP and existing.observed_generation == generation:
            return existing.message.endswith(f": {self.error or self.message}")
        return (existing.reason, existing.message) == (self.reason, self.message)


class FailureReport:
    """Writes the outcome of reconciles to their objects.

    Args:
        kind: the reconciled kind.
        condition: the condition's type; empty for none.

    Raises:
        UsageError: the kind's status has no conditions.
    """

    def __init__(self, kind: Kind[AnyObject], condition: str) -> None:
        self._kind = kind
        self._condition = condition
        check_error_condition(kind, condition)

    async def report_success(self, ctx: Context) -> None:
        """Set the condition to False if it is True. Raises the error of a write that failed."""
        if self._condition:
            await self._write(ctx, _Desired("False", "Succeeded", "the last reconcile succeeded"))

    async def report_failure(self, ctx: Context, error: BaseException, end: ReconcileEnd) -> bool:
        """Set the condition to True, and record an Event if the request is given up.

        Returns False if that was not possible; the error of the API is logged.
        """
        text = text_of(error)[:_MAX_MESSAGE]
        try:
            if self._condition:
                desired = _Desired("True", reason_of(error), text)
                await self._write(ctx, desired.given_up(end.gave_up) if end.gave_up else desired)
            if end.gave_up:
                await self._record_event(ctx, f"{end.gave_up}: {text}")
        except OpsdkError as failure:
            log.warning("the failure of %s could not be written to the object: %s", ctx.request, failure)
            return False
        return True

    async def _record_event(self, ctx: Context, note: str) -> None:
        obj = await ctx.client.get_or_none(self._kind, ctx.request.key)
        if obj is not None:
            ctx.event(GAVE_UP, note, type="Warning", regarding=obj, action="Reconcile")

    async def _write(self, ctx: Context, desired: _Desired) -> None:
        """Write the condition unless the object has it; after a conflict, to a newer state of the object."""
        for attempt in range(_TRIES):
            obj: Any = await ctx.client.get_or_none(self._kind, ctx.request.key, uncached=attempt > 0)
            if obj is None:
                return
            # As a tree: items of other controllers keep fields that opsdk's `Condition` does not have.
            conditions = (to_tree(obj).get("status") or {}).get("conditions") or []
            place = next((i for i, item in enumerate(conditions) if item.get("type") == self._condition), None)
            own = [] if place is None else [msgspec.convert(conditions[place], Condition)]
            generation = obj.metadata.generation
            if desired.is_shown_by(own[0] if own else None, generation):
                return
            set_condition(
                own,
                self._condition,
                desired.status,
                desired.reason,
                desired.message,
                observed_generation=generation,
            )
            conditions[slice(len(conditions), None) if place is None else slice(place, place + 1)] = to_builtins(own)
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

    def __repr__(self) -> str:
        return f"<FailureReport of {self._kind.name}: {self._condition or 'Events only'}>"


def reason_of(error: BaseException) -> str:
    """Return the reason of a condition: the API's, or the class of the first error.

    >>> reason_of(ValueError("no number")), reason_of(ExceptionGroup("two", [OSError(), ValueError()]))
    ('ValueError', 'OSError')
    """
    first = next(leaf_errors(error), error)
    reason = first.reason if isinstance(first, ApiError) else type(first).__name__
    return reason if _REASON.fullmatch(reason) else "Error"


def check_error_condition(kind: Kind[AnyObject], condition: str) -> None:
    """Raise `UsageError` for a condition of a class whose status has no list of conditions."""
    cls: type[Any] = kind.representation
    if not condition or not issubclass(cls, TypedObject):
        return
    status = status_class(cls)
    if status is None or "conditions" not in getattr(status, "__struct_fields__", ()):
        raise UsageError(
            f"error_condition={condition!r} needs conditions in the status of {kind.name}: add "
            "`conditions: list[Condition] = field(default_factory=list)`"
        )
