"""Applies children in their order, waits until they are ready, and ends the reconcile while one is not.

The decisions are those of `opsdk.children.graph`; this module runs them.

Upstream: none; Java Operator SDK's workflows have this purpose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any

from opsdk.apimachinery.gvk import GroupKind
from opsdk.children.graph import DONE, ChildState
from opsdk.children.ordering import AFTER_ANNOTATION, Child, ChildIdentity, graph_of
from opsdk.children.readiness import Ready, check_ready, judge_ready
from opsdk.controller.external import ExternalResource
from opsdk.controller.progress import ChildRecord, Progress, describe, is_done, state_of
from opsdk.errors import NotReadyError, UsageError
from opsdk.telemetry.describe import text_of

# Children of one set that are applied at the same time.
_CONCURRENCY = 10

Apply = Callable[[Any, Collection[ChildIdentity]], Awaitable[Any]]
"""Applies an object or external resource, with those that come before it, and returns the live one."""


class OrderedApply:
    """The children of one reconcile.

    Args:
        progress: records their states.
        is_watched: whether an event of a kind starts a reconcile.
        keeps_order: write the order to the children, for their deletion.
        externals: the external resources that the finalizer of the controller deletes.
    """

    def __init__(
        self,
        progress: Progress,
        is_watched: Callable[[GroupKind], bool],
        *,
        keeps_order: bool = False,
        externals: Collection[ExternalResource[Any, Any]] = (),
    ) -> None:
        self._externals = externals
        self._progress = progress
        self._is_watched = is_watched
        self._keeps_order = keeps_order

    async def apply_one(self, child: Child, apply: Apply) -> Any:
        """Apply a child and return the live object. Raises `NotReadyError` if it, or one before it, is not ready."""
        self._check(child)
        waits_for = []
        for other in child.before:
            record = self._progress.get(other)
            if record is None:
                raise UsageError(
                    f"{child.identity} comes after {other}, which this reconcile has not applied: "
                    f"apply {other} before it"
                )
            if record.is_unready:
                waits_for.append(other)
        if waits_for:
            self._record_pending(child, waits_for)
            raise NotReadyError(describe(self._progress.unready()))
        before = self._keep_order(child, child.before)
        live, state = await self._apply(child, before, apply)
        if state not in DONE:
            raise NotReadyError(describe(self._progress.unready()))
        return live

    async def apply_set(self, children: Sequence[Child], apply: Apply) -> list[Any]:
        """Apply children in the order of their graph, and return the live objects in the order of `children`.

        Each child is applied, unless one before it is not done. A cancellation cancels the applies that run.

        Raises:
            NotReadyError: a child is not ready.
            UsageError: the order is impossible. A child may come after one that was applied before the set.
            Exception: that of a child that failed; an ``ExceptionGroup`` if several did.
        """
        self.check(children)
        applied = {identity for child in children for identity in child.before if self._progress.get(identity)}
        graph = graph_of(children, applied)
        by_identity = {child.identity: child for child in children}
        before = {child.identity: self._keep_order(child, graph.ancestors(child.identity)) for child in children}
        states = dict.fromkeys(graph, ChildState.PENDING)
        for identity in applied - by_identity.keys():
            states[identity] = ChildState.READY if is_done(self._progress.get(identity)) else ChildState.WAITING
        results: dict[ChildIdentity, Any] = {}
        errors: list[Exception] = []

        async def work(child: Child) -> None:
            try:
                results[child.identity], states[child.identity] = await self._apply(
                    child, before[child.identity], apply
                )
            except Exception as error:  # noqa: BLE001 - raised below, when the other children are applied
                states[child.identity] = ChildState.FAILED
                self._progress.record(child.identity, _record(child, ChildState.FAILED, text_of(error)))
                errors.append(error)
            start()

        def start() -> None:
            running = list(states.values()).count(ChildState.APPLYING)
            for identity in graph.to_apply(states)[: _CONCURRENCY - running]:
                states[identity] = ChildState.APPLYING
                group.create_task(work(by_identity[identity]))

        async with asyncio.TaskGroup() as group:
            start()
        for identity in [identity for identity in graph if states[identity] is ChildState.PENDING]:
            self._record_pending(by_identity[identity], graph.waits_for(identity, states))
        self._raise_for(errors, states.values())
        return [results[child.identity] for child in children]

    def _raise_for(self, errors: Sequence[Exception], states: Iterable[ChildState]) -> None:
        """Raise the errors of a set, or `NotReadyError` if a child is not done."""
        if len(errors) > 1:
            raise ExceptionGroup("children failed", errors)
        if errors:
            raise errors[0]
        if not DONE.issuperset(states):
            raise NotReadyError(describe(self._progress.unready()))

    def check(self, children: Sequence[Child]) -> None:
        """Raise `UsageError` for children that cannot work, before anything is sent."""
        for child in children:
            self._check(child)

    def _check(self, child: Child) -> None:
        """Raise `UsageError` for what cannot work, before anything is sent."""
        if isinstance(child.desired, ExternalResource):
            self._check_external(child.desired, child.ready)
            return
        check_ready(child.ready, str(child.identity))
        kind = child.identity.kind
        if self._is_watched(kind):
            return
        if child.ready is not False:
            raise UsageError(
                f"{child.identity} has ready=..., but no event of a {kind.kind} would resume the reconcile: "
                f"add owns=[{kind.kind}] to the reconciler"
            )
        if self._keeps_order:
            raise UsageError(
                f"delete_in_reverse would not delete {child.identity}: add owns=[{kind.kind}] to the reconciler"
            )

    def check_required(self, identity: ChildIdentity, ready: Ready) -> None:
        """Raise `UsageError` for a required object that cannot work, before it is read."""
        check_ready(ready, str(identity))
        if not self._is_watched(identity.kind):
            name = identity.kind.kind
            raise UsageError(
                f"{identity} is required, but no event of a {name} would resume the reconcile: "
                f"add watches=[references({name}, by=...)] to the reconciler"
            )

    def note_required(self, identity: ChildIdentity, live: Any, ready: Ready) -> None:
        """Record an object that the reconcile needs. Raises `NotReadyError` if it is missing, or not ready."""
        state, message = ChildState.MISSING, "does not exist"
        if live is not None:
            summary = judge_ready(live, ready)
            state, message = state_of(summary), summary.message
        if state is ChildState.READY:
            return
        self._progress.record(identity, ChildRecord(str(identity), state.value, message))
        raise NotReadyError(describe(self._progress.unready()))

    def _check_external(self, external: ExternalResource[Any, Any], ready: Ready) -> None:
        if external not in self._externals:
            raise UsageError(
                f"{external!r} is not declared, so nothing would delete it: add the same instance to owns=[...]"
            )
        if isinstance(ready, bool | str) and ready is not False:
            raise UsageError(f"ready of {external!r} is {ready!r}: write a function of the state that observe returns")
        check_ready(ready, repr(external))

    def _keep_order(self, child: Child, ancestors: Collection[ChildIdentity]) -> Collection[ChildIdentity]:
        """Return what comes before a child, and write it to the child for the deletion in reverse."""
        before = self._progress.come_before(child.identity, ancestors)
        if self._keeps_order and before and not isinstance(child.desired, ExternalResource):
            metadata, text = child.desired.metadata, ", ".join(sorted(other.reference for other in before))
            # Not in place: objects of a program may share their annotations.
            metadata.annotations = {**(metadata.annotations or {}), AFTER_ANNOTATION: text}
        return before

    async def _apply(self, child: Child, before: Collection[ChildIdentity], apply: Apply) -> tuple[Any, ChildState]:
        """Apply one child, record its state, and return it with the live object."""
        try:
            live = await apply(child.desired, before)
            summary = judge_ready(live, child.ready)
        except BaseException as error:
            # Also after a timeout: no event tells that an external resource is as before, so its state is unknown now.
            if child.ready is not False or isinstance(child.desired, ExternalResource):
                self._progress.record(child.identity, _record(child, ChildState.FAILED, text_of(error)))
            raise
        state = ChildState.APPLIED if child.ready is False else state_of(summary)
        self._progress.record(child.identity, _record(child, state, summary.message))
        return live, state

    def _record_pending(self, child: Child, waits_for: Sequence[ChildIdentity]) -> None:
        message = f"comes after {', '.join(map(str, waits_for))}"
        self._progress.record(child.identity, _record(child, ChildState.PENDING, message))

    def __repr__(self) -> str:
        return f"<OrderedApply of {len(self._progress.records())} children>"


def _record(child: Child, state: ChildState, message: str) -> ChildRecord:
    return ChildRecord(str(child.identity), state.value, message, tuple(map(str, child.before)))
