"""Shows on the object whether its children are ready: a condition of its status.

Upstream: none; kstatus gives ``Ready`` this meaning.
"""

from __future__ import annotations

from opsdk.apimachinery.kinds import Kind, as_unstructured
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.object import AnyObject
from opsdk.controller.context import Context
from opsdk.controller.steps.condition_writer import ConditionWriter, DesiredCondition, check_condition
from opsdk.recipes.finalizers import is_deleting

# Characters of the condition's message.
_MAX_MESSAGE = 1024


class _Ready(DesiredCondition, frozen=True):
    """The ready condition.

    Attributes:
        failed: the reconcile failed, and says nothing about children that were ready before: a condition that is True
            for the object's generation stays.
    """

    failed: bool = False

    def is_shown_by(self, existing: Condition | None, generation: int) -> bool:
        """Whether a write would change nothing. Unlike a condition for errors, it says when it is False, and why."""
        if existing is None or existing.observed_generation != generation:
            return False
        if self.failed and existing.status == "True":
            return True
        return (existing.status, existing.reason, existing.message) == (self.status, self.reason, self.message)


class ReadyReport:
    """Writes whether the children of an object are ready.

    Args:
        kind: the reconciled kind.
        condition: the condition's type.

    Raises:
        UsageError: the kind's status has no conditions.
    """

    def __init__(self, kind: Kind[AnyObject], condition: str) -> None:
        self._condition = condition
        self._kind = as_unstructured(kind)
        self._writer = ConditionWriter(kind, condition)
        check_condition(kind, condition, "ready_condition")

    async def report_success(self, ctx: Context) -> None:
        """Write whether each child is ready. Raises the error of a write that failed."""
        verdict = ctx.progress.verdict()
        obj = await ctx.client.get_or_none(self._kind, ctx.request.key)
        # The children of an object that is being deleted are no longer there to be ready.
        if obj is None or (is_deleting(obj) and verdict.ready):
            return
        desired = _Ready(str(verdict.ready), verdict.reason, verdict.message[:_MAX_MESSAGE])
        await self._writer.write(ctx, desired, obj=obj)

    async def report_failure(self, ctx: Context, failure: DesiredCondition) -> None:
        """Write the error, unless the children of this generation were ready. Raises the error of a write that failed.

        An external resource that cannot be observed is not known to be ready any more: no event would tell.

        Args:
            ctx: of the reconcile.
            failure: the condition for errors, which has the reason and the message.
        """
        failed = not ctx.progress.unknown_externals
        await self._writer.write(ctx, _Ready("False", failure.reason, failure.message, failed=failed))

    def __repr__(self) -> str:
        return f"<ReadyReport of {self._kind.name}: {self._condition}>"
