"""Takes back the fields of objects of other owners that a successful reconcile no longer applies."""

from __future__ import annotations

from collections.abc import Collection

from opsdk.apimachinery.gvk import GroupKind
from opsdk.controller.applied_fields import AppliedFields
from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.recipes.finalizers import is_deleting


class FieldStep:
    """Gives the context what `Context.apply_fields` needs. In the chain if ``owns`` has a `FieldsOf`.

    A reconcile that failed or waits for a child may not have applied all fields: nothing is taken back then.

    Args:
        kinds: the declared kinds.
    """

    def __init__(self, kinds: Collection[GroupKind]) -> None:
        self._kinds = frozenset(kinds)

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        obj, ctx = await work.read(), work.ctx
        if obj is None or is_deleting(obj):
            return await proceed(work)
        ctx.fields = fields = AppliedFields(ctx.cluster, ctx.controller, self._kinds, obj)
        attempt = await proceed(work)
        if not ctx.progress.unready():
            await fields.take_back_others()
        return attempt
