"""The controller: one request for each copy."""

from __future__ import annotations

from opsdk import (
    ByObject,
    CacheOptions,
    ClusterOptions,
    Context,
    ControllerOptions,
    LabelRequirements,
    Operator,
    OperatorOptions,
    PartialObjectMetadata,
    Result,
    UsageError,
)
from opsdk.api.core.v1 import Namespace, Secret
from opsdk.apimachinery.kinds import metadata_only
from opsdk.builder.arguments import WatchSpec
from opsdk.event.predicates import labels_changed
from opsdk.rbac.rules import applies, deletes, records_events
from secret_copier.copies import ROLE, SOURCE, TARGETS, CopyRequest, copy_of, is_desired, is_source, requests

RETRY_INTERVAL = 300.0
"""Seconds before a name that a foreign Secret has is retried: the cache does not contain that Secret."""
CACHE = CacheOptions(by_kind={Secret: ByObject(label_selector=LabelRequirements.parse(ROLE))})
OPTIONS = OperatorOptions(
    cluster=ClusterOptions(cache=CACHE), controller=ControllerOptions(max_concurrent_reconciles=8)
)


async def reconcile(request: CopyRequest, ctx: Context) -> Result | None:
    """Create, update or delete one copy. No finalizer is needed: each copy names its source, also after a restart."""
    client, name = ctx.client, request.name
    source = await client.get_or_none(Secret, name, namespace=request.source)
    namespace = await client.get_or_none(metadata_only(Namespace), request.namespace)
    existing = await client.get_or_none(metadata_only(Secret), name, namespace=request.namespace)
    try:
        desired = source is not None and is_desired(source, namespace)
    except UsageError as error:
        ctx.event("InvalidSelector", f"{TARGETS}: {error}", type="Warning", regarding=source)
        return None
    if source is None or not desired:
        if existing is not None and existing.metadata.annotations.get(SOURCE) == request.source:
            await client.delete(existing, missing_ok=True)
        return None
    if existing is None:
        existing = await client.get_or_none(metadata_only(Secret), name, namespace=request.namespace, uncached=True)
    if existing is not None and existing.metadata.annotations.get(SOURCE) != request.source:
        ctx.event("NameTaken", f"{request.namespace} has another Secret {name}", type="Warning", regarding=source)
        return Result(requeue_after=RETRY_INTERVAL)
    await ctx.apply(copy_of(source, request.namespace), owner=None)
    return None


def make_operator(options: OperatorOptions = OPTIONS) -> Operator:
    """Return the operator with its controller."""
    operator = Operator("secret-copier", options)

    async def of_secret(secret: Secret) -> list[CopyRequest]:
        """Map a Secret to requests: all copies of a source, or the copy itself."""
        if is_source(secret):
            return requests([secret], [n.metadata.name for n in await operator.client.list(metadata_only(Namespace))])
        meta = secret.metadata
        return [CopyRequest(meta.namespace, meta.name, meta.annotations[SOURCE])] if SOURCE in meta.annotations else []

    async def of_namespace(namespace: PartialObjectMetadata) -> list[CopyRequest]:
        """Map a namespace to the copies of all sources in it."""
        sources = await operator.client.list(Secret, label_selector=f"{ROLE}=source")
        return requests(sources, [namespace.metadata.name])

    watches = [
        WatchSpec(kind=Secret, handler=of_secret),
        WatchSpec(kind=metadata_only(Namespace), handler=of_namespace, predicates=[labels_changed()]),
    ]
    rbac = [applies(Secret), deletes(Secret), records_events()]
    operator.reconciler(name="copies", watches=watches, rbac=rbac)(reconcile)
    return operator
