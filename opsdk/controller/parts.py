"""What a controller is made of, for its chain and for what processes its requests."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from opsdk.aio.blocking import BlockingPool
from opsdk.aio.randomness import UuidSequence
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject, KubeObject
from opsdk.cluster.cluster import Cluster
from opsdk.controller.context import Context
from opsdk.controller.daemons import DaemonChange, Daemons, DaemonSpec, daemon_record
from opsdk.controller.declaration import ReconcilerDeclaration
from opsdk.controller.external import ExternalResource
from opsdk.controller.finalizers import FinalizerFunction
from opsdk.controller.journal import Journal
from opsdk.controller.options import ControllerOptions
from opsdk.controller.requeue import RequeuePolicy
from opsdk.controller.source_group import SourceGroup
from opsdk.controller.steps.hot_loops import HotLoops
from opsdk.controller.steps.own_changes import OwnChanges
from opsdk.controller.steps.unobserved_generations import UnobservedGenerations
from opsdk.event.request import Request
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.records import DaemonChanged, Hooks


class ControllerParts(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a `Controller` with these names, and what is made of them.

    Attributes:
        declaration: of the reconciler.
        tasks: the background tasks of the sources and workers.
        hot_loops: the requests that reconcile themselves.
        reconcile_ids: the ids of the next reconciles.
        threads: run plain reconcilers and finalizers.
    """

    name: str
    declaration: ReconcilerDeclaration
    kind: Kind[AnyObject] | None
    options: ControllerOptions
    cluster: Cluster | None
    hook: Hooks
    journal: Journal | None
    queue: WorkQueue[Any]
    sources: SourceGroup
    requeue: RequeuePolicy
    finalizers: Mapping[str, FinalizerFunction]
    daemons: Daemons
    externals: Collection[ExternalResource[Any, Any]]
    fields_of: Collection[GroupKind]
    own_changes: OwnChanges | None
    generations: UnobservedGenerations | None
    hot_loops: HotLoops
    reconcile_ids: UuidSequence
    threads: BlockingPool
    tasks: TaskOwner


def make_queue(name: str, options: ControllerOptions, hook: Hooks, item_type: type[Any]) -> WorkQueue[Any]:
    """Return the queue of a controller, with a rate limiter of its own: options may be shared."""
    queue = WorkQueue[Any](
        name,
        rate_limiter=copy.deepcopy(options.rate_limiter),
        item_type=item_type,
        fairness=options.fairness,
        max_wait=options.max_wait,
    )
    queue.hooks = hook.queue_hooks(name, queue.core)
    queue.keeps_traces = hook.follows_writes
    return queue


def make_daemons(
    specs: Sequence[DaemonSpec],
    *,
    name: str,
    kind: Kind[AnyObject] | None,
    cluster: Cluster | None,
    hook: Hooks,
    journal: Journal | None,
    ids: UuidSequence,
) -> Daemons:
    """Return the daemons of a controller, with their contexts, reads, metrics and journal records."""

    def context(request: Request, obj: KubeObject, failures: int) -> Context:
        return Context(
            request=request,
            controller=name,
            reconcile_id=ids.next(),
            attempt=failures,
            object=obj,
            _cluster=cluster,
        )

    async def read(request: Request) -> KubeObject | None:
        assert kind is not None
        assert cluster is not None
        return await cluster.client.get_or_none(kind, request.key)

    def on_change(change: DaemonChange) -> None:
        hook.record(
            DaemonChanged(controller=name, daemon=change.daemon, event=change.event.value, running=change.running)
        )
        if journal is not None:
            journal.add(daemon_record(name, str(kind.gvk) if kind is not None else "", change))

    return Daemons(specs, owner=name, make_context=context, read=read, on_change=on_change)
