"""Holds back the requests of paused objects, shows it in their conditions, and counts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opsdk.aio.clock import utc_now
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.base.cause import ReconcileCauses
from opsdk.cluster.cluster import Cluster
from opsdk.controller.context import Context
from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.pausing import PAUSED_ANNOTATION, HeldBack, Pause, PauseBook, Pausing, has_mark, read_pause
from opsdk.controller.steps.condition_writer import ConditionWriter, DesiredCondition, check_condition
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.recipes.finalizers import is_deleting
from opsdk.telemetry.records import PausedObjects, TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)


class PauseGate:
    """Decides before each reconcile whether the object is paused. In the chain unless the option ignores pauses.

    Args:
        controller: its name, for logs and metrics.
        kind: the reconciled kind.
        options: see `Pausing`.
        cluster: has the cache with the objects.
        hook: receives `PausedObjects`.
        always_reads: another step reads each object; else only those that may be paused are read.
    """

    def __init__(
        self,
        controller: str,
        kind: Kind[AnyObject],
        options: Pausing,
        cluster: Cluster,
        hook: TelemetryHook,
        *,
        always_reads: bool = False,
    ) -> None:
        check_condition(kind, options.condition, "condition")
        self._controller = controller
        self._kind = kind
        self._options = options
        self._cluster = cluster
        self._hook = hook
        self._writer = ConditionWriter(kind, options.condition) if options.condition else None
        self._always_reads = always_reads
        self.book = PauseBook()

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        if not self._always_reads and not self._may_be_paused(work.ctx.request):
            return await proceed(work)
        obj = await work.read()
        # Most controllers have no paused object and no condition: nothing to check.
        if (
            self.book.held
            or self._writer is not None
            or (obj is not None and PAUSED_ANNOTATION in obj.metadata.annotations)
        ):
            held = await self._hold_back(obj, work.ctx)
            if held is not None:
                return ReconcileAttempt(result=held)
        return await proceed(work)

    def _may_be_paused(self, request: Any) -> bool:
        """Whether the object of a request may be paused, or was, so that it has to be read. Reads only the cache."""
        key: ObjectKey = request.key
        if key in self.book.held or self._writer is not None:
            return True
        cached = self._cluster.cache.synced(self._kind)
        if cached is None:
            return False
        for informer in cached.informers_of(key.namespace if cached.mapping.namespaced else ""):
            if (entry := informer.store.get(key)) is not None:
                return has_mark(entry.data)
        return False

    async def _hold_back(self, obj: Any, ctx: Context) -> HeldBack | None:
        """Return why the request is held back; None if the pass continues.

        Args:
            obj: the object; None if it does not exist.
            ctx: gets the causes that a pause held back.
        """
        annotations: Mapping[str, str] = obj.metadata.annotations if obj is not None else {}
        is_held = ctx.request.key in self.book.held
        if PAUSED_ANNOTATION not in annotations and not is_held:
            if self._writer is not None:
                await self._show(obj, None, ctx)
            return None
        pause = read_pause(annotations, now=utc_now())
        if pause is not None and (self._options.hold_deletions or not is_deleting(obj)):
            return await self._hold(obj, pause, ctx)
        self._release(ctx)
        await self._show(obj, None, ctx)
        return None

    async def _hold(self, obj: Any, pause: Pause, ctx: Context) -> HeldBack:
        is_new = self.book.hold(ctx.request.key, pause, ctx.causes)
        if is_new:
            log.info("controller %s: %s is %s", self._controller, ctx.request, pause)
            self._count()
            if pause.problem:
                log.warning("controller %s: %s stays paused: %s", self._controller, ctx.request, pause.problem)
                note = f"{pause.problem}. The object stays paused."
                ctx.recorder.event(obj, "Warning", "InvalidPause", note, action="Reconcile")
        await self._show(obj, pause, ctx)
        return HeldBack(pause, is_new)

    def _release(self, ctx: Context) -> None:
        if ctx.request.key not in self.book.held:
            return
        ctx.causes = ReconcileCauses(*self.book.release(ctx.request.key), *ctx.causes).all()
        log.info("controller %s: %s is no longer paused", self._controller, ctx.request)
        self._count()

    def _count(self) -> None:
        self._hook.record(PausedObjects(controller=self._controller, count=len(self.book.held)))

    async def _show(self, obj: Any, pause: Pause | None, ctx: Context) -> None:
        """Write the condition, unless it is there already."""
        if self._writer is None or obj is None:
            return
        if pause is None:
            desired = DesiredCondition("False", "NotPaused", "the object is not paused")
        else:
            desired = DesiredCondition("True", "InvalidPause" if pause.problem else "Paused", str(pause))
        await self._writer.write(ctx, desired, obj=obj)
