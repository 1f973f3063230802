"""Shows on the object whether its reconcile fails: a condition of its status, and an Event when it is given up.

Upstream: none; Crossplane's ``Synced`` condition and kstatus's ``Stalled`` have this meaning.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection

from opsdk.aio.containment import cancellations, contain, leaf_errors
from opsdk.apimachinery.kinds import Kind, as_unstructured
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.object import AnyObject
from opsdk.base.cause import ReconcileCause
from opsdk.controller.context import Context
from opsdk.controller.outcome import ReconcileAttempt, ReconcileEnd, Requeue
from opsdk.controller.steps.condition_writer import ConditionWriter, DesiredCondition, check_condition
from opsdk.controller.steps.ready_report import AnyExternal, ReadyReport
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.errors import ApiError
from opsdk.telemetry.describe import describe, text_of
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

GAVE_UP = "RetryLimitExceeded"
"""Reason of the condition and of the Event when a `RetryLimit` is reached."""
# Characters of the condition's message: an error of the server may quote the whole object.
_MAX_MESSAGE = 1024
# metav1.Condition's reason.
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


class _Failed(DesiredCondition, frozen=True):
    """The condition of a failed request.

    Attributes:
        error: the error's text, without the end of the retries before it.
    """

    error: str = ""

    def is_shown_by(self, existing: Condition | None, generation: int) -> bool:
        """Whether a write would change nothing.

        A request that was given up is tried again after a restart. While it fails as before, its condition stays.
        """
        if existing is not None and existing.status == "True" and existing.reason == GAVE_UP:
            return existing.observed_generation == generation and existing.message.endswith(f": {self.error}")
        return super().is_shown_by(existing, generation)


class FailureReport:
    """Writes the outcome of reconciles to their objects. In the chain with a condition or a `RetryLimit`.

    Args:
        kind: the reconciled kind.
        condition: the type of the condition for errors; empty for none.
        ready_condition: the type of the condition for children; empty for none.
        externals: the external resources of the controller.

    Raises:
        UsageError: the kind's status has no conditions.
    """

    def __init__(
        self, kind: Kind[AnyObject], condition: str, ready_condition: str, externals: Collection[AnyExternal]
    ) -> None:
        self._kind = kind
        self._condition = condition
        self._writer = ConditionWriter(kind, condition)
        self._ready_report = ReadyReport(kind, ready_condition, externals) if ready_condition else None
        check_condition(kind, condition, "error_condition")

    @property
    def has_conditions(self) -> bool:
        """Whether it writes conditions: `SuccessReport` has something to do."""
        return bool(self._condition) or self._ready_report is not None

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        """Show a failed attempt on the object. Outside of `Containment`, which decides whether it is given up."""
        if self.has_conditions:
            work.activity.status_writes = []
        attempt, ctx = await proceed(work), work.ctx
        if attempt.error is None:
            return attempt
        assert work.end is not None
        is_shown = await self.report_failure(ctx, attempt.error, work.end)
        if not is_shown and (work.end.gave_up or attempt.terminal):
            # No retry follows that would report it: the next attempt fails as this one, and reports again.
            work.keeps_failures = True
            cause = ReconcileCause("retry", detail="report the failure")
            work.requeues.append(Requeue(cause=cause, is_failure=True))
        return attempt

    async def report_success(self, ctx: Context) -> None:
        """Write that nothing failed, and whether the children are ready. Raises the error of a write that failed."""
        if self._condition:
            desired = DesiredCondition("False", "Succeeded", "the last reconcile succeeded")
            await self._writer.write(ctx, desired)
        if self._ready_report is not None:
            await self._ready_report.report_success(ctx)

    async def report_failure(self, ctx: Context, error: BaseException, end: ReconcileEnd) -> bool:
        """Set the condition to True, and record an Event if the request is given up.

        Returns False if that was not possible; the error is logged.
        """
        text = text_of(error)[:_MAX_MESSAGE] or type(error).__name__
        task = asyncio.current_task()
        before = cancellations(task)
        desired = _Failed("True", reason_of(error), text, text)
        if end.gave_up:
            desired = _Failed("True", GAVE_UP, f"{end.gave_up}: {text}", text)
        try:
            if self._condition:
                await self._writer.write(ctx, desired)
            if self._ready_report is not None:
                await self._ready_report.report_failure(ctx, desired)
            if end.gave_up:
                await self._record_event(ctx, desired.message)
        except BaseException as failure:  # noqa: BLE001 - what a report raises must not replace the error that it reports
            text, _ = describe(contain(failure, task=task, cancelling=before))
            log.warning("the failure of %s could not be written to the object: %s", ctx.request, text)
            return False
        return True

    async def _record_event(self, ctx: Context, note: str) -> None:
        obj = await ctx.client.get_or_none(as_unstructured(self._kind), ctx.request.key)
        if obj is not None:
            ctx.event(GAVE_UP, note, type="Warning", regarding=obj, action="Reconcile")

    def __repr__(self) -> str:
        return f"<FailureReport of {self._kind.name}: {self._condition or 'Events only'}>"


class SuccessReport:
    """Shows a success on the object. Inside of `Containment`: if it cannot be written, the reconcile fails.

    Args:
        report: has the conditions.
    """

    def __init__(self, report: FailureReport) -> None:
        self._report = report

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        attempt = await proceed(work)
        await self._report.report_success(work.ctx)
        return attempt


def reason_of(error: BaseException) -> str:
    """Return the reason of a condition: the API's, or the class of the first error.

    >>> reason_of(ValueError("no number")), reason_of(ExceptionGroup("two", [OSError(), ValueError()]))
    ('ValueError', 'OSError')
    """
    first = next(leaf_errors(error), error)
    reason = first.reason if isinstance(first, ApiError) else type(first).__name__
    return reason if _REASON.fullmatch(reason) else "Error"
