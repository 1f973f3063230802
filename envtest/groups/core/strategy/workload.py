"""The base of kinds with a selector and a matching pod template."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.core.validation.replica_counts import validate_counts
from envtest.groups.core.warnings import workload_warnings
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class WorkloadStrategy(GeneratedStrategy, ABC):
    """The base strategy of workloads with a selector and a pod template.

    Attributes:
        immutable_selector: whether the selector is immutable once it is set.
        shown_counts: the counts that a new object's status has, as zeros.
    """

    immutable_selector = True
    shown_counts: Sequence[str] = ()

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    @abstractmethod
    def validate_spec(self, spec: JsonObject) -> Iterator[Cause]:
        """Validate the spec by the rules of the kind."""

    def initial_status(self, obj: JsonObject) -> JsonObject:
        """Return the counts that a new status has as zeros."""
        return dict.fromkeys(self.shown_counts, 0)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        return list(self.validate_spec(obj.get("spec") or {}))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: the selector is immutable."""
        causes = list(self.validate(context, obj))
        now, before = obj["spec"].get("selector"), old["spec"].get("selector")
        if self.immutable_selector and now != before:
            causes.append(api_errors.invalid_value("spec.selector", now, "field is immutable"))
        return causes

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the replica counts."""
        return list(validate_counts(self.info.resource, obj.get("status") or {}, old.get("status") or {}))

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Warn about the name and the template."""
        return list(workload_warnings(obj, old, resource=self.info.resource))
