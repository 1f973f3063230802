"""Shows on the object whether its children are ready: a condition of its status.

Upstream: none; kstatus gives ``Ready`` this meaning.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opsdk.apimachinery.kinds import Kind, as_unstructured
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.object import AnyObject
from opsdk.controller.context import Context
from opsdk.controller.external import ExternalResource, ref_of
from opsdk.controller.steps.condition_writer import ConditionWriter, DesiredCondition, check_condition
from opsdk.recipes.finalizers import is_deleting

AnyExternal = ExternalResource[Any, Any]
# Characters of the condition's message.
_MAX_MESSAGE = 1024


class _Ready(DesiredCondition, frozen=True):
    """The ready condition.

    Attributes:
        confirmed: the message of a condition that a failed reconcile has confirmed: it stays if it is True with this
            message for the object's generation. Empty for none.
    """

    confirmed: str = ""

    def is_shown_by(self, existing: Condition | None, generation: int) -> bool:
        """Whether a write would change nothing. Unlike a condition for errors, it says when it is False, and why."""
        if existing is None or existing.observed_generation != generation:
            return False
        if self.confirmed and (existing.status, existing.message) == ("True", self.confirmed):
            return True
        return (existing.status, existing.reason, existing.message) == (self.status, self.reason, self.message)


class ReadyReport:
    """Writes whether the children of an object are ready.

    Args:
        kind: the reconciled kind.
        condition: the condition's type.
        externals: the external resources of the controller.

    Raises:
        UsageError: the kind's status has no conditions.
    """

    def __init__(self, kind: Kind[AnyObject], condition: str, externals: Collection[AnyExternal]) -> None:
        self._externals = externals
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
        """Write the error, unless the condition is True and this reconcile has confirmed it before it failed.

        It has if nothing that it declared waits or failed, if it has found as many children ready as the condition
        counts, and if it has handled each external resource that the object has. Raises the error of a write that
        failed.

        Args:
            ctx: of the reconcile.
            failure: the condition for errors, which has the reason and the message.
        """
        obj = await ctx.client.get_or_none(self._kind, ctx.request.key)
        if obj is None:
            return
        verdict = ctx.progress.verdict()
        is_known = verdict.ready and all(
            ctx.progress.get(external.identity) or not ref_of(external, obj).id for external in self._externals
        )
        desired = _Ready("False", failure.reason, failure.message, confirmed=verdict.message if is_known else "")
        await self._writer.write(ctx, desired, obj=obj)

    def __repr__(self) -> str:
        return f"<ReadyReport of {self._kind.name}: {self._condition}>"
