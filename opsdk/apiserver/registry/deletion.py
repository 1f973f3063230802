"""Graceful deletion: deletion timestamp, finalizers, grace period.

Upstream: k8s.io/apiserver/pkg/registry/rest/delete.go (v1.36).
"""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from opsdk.aio.clock import utc_now
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import DeleteRequestOptions
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.storage.ports import Remove
from opsdk.structured_merge.value import JsonObject

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_FINALIZER_OF = {"Orphan": ORPHAN, "Foreground": FOREGROUND}


def in_namespace(context: Context, namespace: str) -> Context:
    """Return the context with another namespace."""
    return replace(context, namespace=namespace)


def is_finished(obj: JsonObject, strategy: Strategy) -> bool:
    """Report whether a marked object can be removed: no finalizers and no grace period."""
    meta = obj["metadata"]
    return (
        bool(meta.get("deletionTimestamp"))
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and strategy.removable(obj)
    )


def mark(context: Context, strategy: Strategy, obj: JsonObject, options: DeleteRequestOptions) -> JsonObject | Remove:
    """Mark the object as deleted and return it, or its removal if nothing delays it."""
    grace = strategy.grace(obj, options)
    meta = obj["metadata"]
    propagation = strategy.propagation(context, obj, options.propagation)
    finalizers = list(meta.get("finalizers") or [])
    if propagation:
        finalizers = [f for f in finalizers if f not in _FINALIZER_OF.values()]
    if finalizer := _FINALIZER_OF.get(propagation):
        finalizers.append(finalizer)
    if not meta.get("deletionTimestamp"):
        finalizers.extend(f for f in strategy.finalizers_on_delete(obj) if f not in finalizers)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    immediate = not finalizers and not grace and strategy.removable(obj)
    previous = meta.get("deletionGracePeriodSeconds")
    if immediate and (not strategy.graceful or (meta.get("deletionTimestamp") and not previous)):
        return Remove(obj)
    if meta.get("deletionTimestamp") and (previous is None or grace >= previous):
        return obj
    when = utc_now() + timedelta(seconds=grace)
    if meta.get("generation") and not meta.get("deletionTimestamp"):
        meta["generation"] = meta.get("generation", 0) + 1
    meta["deletionTimestamp"] = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    meta["deletionGracePeriodSeconds"] = grace
    strategy.mark_deleted(context, obj)
    return obj
