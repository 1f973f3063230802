"""The order of the steps around a reconcile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from opsdk.controller.declaration import ReconcilerForm
from opsdk.controller.finalizers import Finalizers
from opsdk.controller.parts import ControllerParts
from opsdk.controller.slow_reconciles import SlowReconciles
from opsdk.controller.steps.containment import Containment, IsContained
from opsdk.controller.steps.daemon_steps import StartDaemons, StopDaemons
from opsdk.controller.steps.external_polls import ExternalPolls
from opsdk.controller.steps.failure_report import FailureReport, SuccessReport
from opsdk.controller.steps.field_step import FieldStep
from opsdk.controller.steps.finalizer_step import FinalizerStep
from opsdk.controller.steps.hot_loops import HotLoopStep
from opsdk.controller.steps.last_reconciled import SpecRecorder
from opsdk.controller.steps.longest_interval import LongestInterval
from opsdk.controller.steps.own_changes import OwnChangesStep
from opsdk.controller.steps.pause_gate import PauseGate
from opsdk.controller.steps.reconciler_call import ReconcilerCall
from opsdk.controller.steps.step import Proceed, ReconcileStep, chained
from opsdk.errors import UsageError


class ReconcileChain:
    """The steps of one controller, and its reconciler.

    Args:
        parts: of the controller.
        is_contained: whether an exception stays with its request.
        slow_reconciles: logs reconciles that run for long.

    Attributes:
        gate: the step that holds back paused objects; None for a controller without pauses.
        functions: the author's functions: the reconciler, the finalizers, the daemons.
        proceed: calls the steps and the reconciler.

    Raises:
        UsageError: the declaration cannot work.
    """

    def __init__(self, parts: ControllerParts, is_contained: IsContained, slow_reconciles: SlowReconciles) -> None:
        self._parts = parts
        self._finalizers = Finalizers(parts.finalizers, parts.threads)
        self._check()
        self.gate = self._make_gate()
        self._report = _failure_report(parts)
        containment = Containment(
            timeout=parts.options.reconciliation_timeout,
            is_contained=is_contained,
            requeue=parts.requeue,
            queue=parts.queue,
            slow_reconciles=slow_reconciles,
        )
        self._outside = [*self._outer(), containment]
        self._inside = [*self._inner()]
        self._call = ReconcilerCall(parts.declaration, parts.threads)
        daemons, finalizers = parts.daemons.functions, self._finalizers.functions
        self.functions: Sequence[Callable[..., Any]] = [parts.declaration.function, *finalizers, *daemons]
        self.proceed: Proceed = chained(self.steps, self._call)

    @property
    def steps(self) -> Sequence[ReconcileStep]:
        """The steps in their order, the outermost first."""
        return [*self._outside, *self._inside]

    def observe(self, step: ReconcileStep) -> None:
        """Put a step around all those that see exceptions, inside of the timeout. For test kits."""
        self._inside.insert(0, step)
        self.proceed = chained(self.steps, self._call)

    def _outer(self) -> Iterator[ReconcileStep]:
        """Iterate over the steps that see failures as values."""
        parts = self._parts
        if parts.options.hot_loop_limit:
            has_events = parts.cluster is not None
            yield HotLoopStep(parts.name, parts.hot_loops, parts.hook, records_events=has_events)
        if parts.own_changes is not None:
            # The writes of the report are own ones too.
            yield OwnChangesStep(parts.own_changes, follows_writes=parts.queue.keeps_traces)
        if parts.generations is not None:
            yield parts.generations
        if self._report is not None:
            yield self._report

    def _inner(self) -> Iterator[ReconcileStep]:
        """Iterate over the steps that see exceptions, and fail the reconcile with their own."""
        parts, options = self._parts, self._parts.options
        if parts.daemons:
            yield StopDaemons(parts.daemons)
        if self.gate is not None:
            # Nothing is written for a paused object.
            yield self.gate
        if options.max_seconds:
            yield LongestInterval(options.max_seconds)
        if self._report is not None and self._report.has_conditions:
            yield SuccessReport(self._report)
        if parts.kind is not None and options.last_reconciled:
            yield SpecRecorder(parts.kind, options.last_reconciled, parts.name)
        if parts.externals:
            yield ExternalPolls()
        if self._finalizers:
            yield FinalizerStep(self._finalizers)
        if parts.fields_of:
            # The record needs the finalizer that takes the fields back.
            yield FieldStep(parts.fields_of)
        if parts.daemons:
            # A daemon starts when the object has the finalizers that clean up after it.
            yield StartDaemons(parts.daemons)

    def _reads_object(self) -> bool:
        """Whether the object is read in each reconcile."""
        parts = self._parts
        takes_object = parts.declaration.form is ReconcilerForm.OBJECT
        has_readers = bool(self._finalizers) or bool(parts.daemons)
        return takes_object or has_readers or (parts.kind is not None and bool(parts.options.last_reconciled))

    def _check(self) -> None:
        parts = self._parts
        for functions, what in ((parts.daemons, "daemons"), (self._finalizers, "finalizers")):
            if functions and parts.kind is None:
                raise UsageError(f"{what} need a reconciled kind: call for_(...)")
        if self._reads_object() and parts.cluster is None:
            raise UsageError(f"controller {parts.name} reads objects: pass cluster=...")

    def _make_gate(self) -> PauseGate | None:
        parts, pausing = self._parts, self._parts.options.pausing
        if pausing is None or parts.kind is None or parts.cluster is None:
            return None
        return PauseGate(parts.name, parts.kind, pausing, parts.cluster, parts.hook, always_reads=self._reads_object())

    def __repr__(self) -> str:
        return f"<ReconcileChain {' -> '.join(type(step).__name__ for step in self.steps)} -> {self._call!r}>"


def _failure_report(parts: ControllerParts) -> FailureReport | None:
    """Return what shows outcomes on objects, if the controller has objects and an option asks for it."""
    options, kind = parts.options, parts.kind
    conditions = options.error_condition or options.ready_condition
    if kind is None or parts.cluster is None:
        return None
    if not (conditions or options.retry_limit or options.finalizer_retry_limit):
        return None
    return FailureReport(kind, options.error_condition, options.ready_condition, parts.externals)
