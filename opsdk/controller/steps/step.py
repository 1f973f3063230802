"""The steps around a reconcile: what a controller does for one request besides calling the reconciler.

A controller builds its chain once, see `opsdk.controller.steps.chain`. A step that is not asked for is not in it, and
costs nothing.

Upstream: none; controller-runtime has no such place, kube-rs' ``applier`` and middleware of HTTP servers do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.client.activity import Activity
from opsdk.controller.context import Context
from opsdk.controller.outcome import ReconcileAttempt, ReconcileEnd, Requeue
from opsdk.queue.core import QueueItem


class ReconcilePass(msgspec.Struct, kw_only=True):
    """One reconcile of a request. The steps share it.

    Attributes:
        queue_item: the request, as the worker took it.
        ctx: what the reconciler gets.
        activity: the reads and requests so far.
        key: namespace and name of the request; of no use to a controller whose requests are not objects.
        kind: the reconciled kind; None for a controller whose requests are not objects.
        end: the outcome. Set by `Containment`, for the steps outside of it.
        requeues: what the steps add to the queue. A step never adds itself: the controller does at the end.
        keeps_failures: a request that was given up is not forgotten, because the object does not show it yet.
        own_changes: the versions before and after each write of it whose event is dropped, see `OwnChanges`.
        object: the reconciled object, after `read`; None if it does not exist.
        is_read: whether `object` is the object.
    """

    queue_item: QueueItem[Any]
    ctx: Context
    activity: Activity
    key: ObjectKey
    kind: Kind[AnyObject] | None = None
    end: ReconcileEnd | None = None
    requeues: list[Requeue] = msgspec.field(default_factory=list)
    keeps_failures: bool = False
    own_changes: Sequence[tuple[str, str]] = ()
    object: Any = None
    is_read: bool = False

    async def read(self) -> Any:
        """Return the reconciled object from the cache; None if it does not exist. Later calls return the same."""
        if not self.is_read:
            assert self.kind is not None
            self.object = await self.ctx.client.get_or_none(self.kind, self.key)
            self.is_read = True
        return self.object


Proceed = Callable[[ReconcilePass], Awaitable[ReconcileAttempt]]
"""The rest of the chain: the next step, or the reconciler."""


class ReconcileStep(Protocol):
    """One step. It keeps its state in itself; what belongs to one reconcile, in the pass or in local variables.

    Inside of `Containment`, a failure is an exception, and one that a step raises fails the reconcile. Outside, a
    failure is the error of the attempt, and what a step raises is logged and retried without an attempt.
    """

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        """Call ``proceed(work)``, or not, and return the attempt."""
        ...


def chained(steps: Iterable[ReconcileStep], reconciler: Proceed) -> Proceed:
    """Return a call of the steps, the first outermost, with the reconciler as the innermost."""
    call = reconciler
    for step in reversed(tuple(steps)):
        call = partial(step.around, call)
    return call
