"""Replication controllers: replica sets whose selector is a plain map, and may change.

Upstream: pkg/registry/core/replicationcontroller/strategy.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.data.resources import ServedResourceRow
from envtest.groups.core.strategy.workload import WorkloadStrategy
from envtest.groups.core.validation.replication_controller import validate_replication_controller
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class ReplicationControllerStrategy(WorkloadStrategy):
    """The strategy of ReplicationControllers; the selector is mutable."""

    immutable_selector = False
    shown_counts = ("replicas",)

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {"status.replicas": lambda obj: str((obj.get("status") or {}).get("replicas", 0))}

    def propagation(self, context: Context, obj: JsonObject, requested: str) -> str:
        """Return the requested propagation policy, Orphan by default."""
        finalizers = obj["metadata"].get("finalizers") or ()
        return requested or ("" if {"orphan", "foregroundDeletion"} & set(finalizers) else "Orphan")

    def validate_spec(self, spec: JsonObject) -> Iterator[Cause]:
        return validate_replication_controller(spec)
