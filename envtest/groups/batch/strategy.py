"""Jobs and cron jobs.

Upstream: pkg/registry/batch (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.batch.validation import (
    UID,
    validate_cron_job,
    validate_job,
    validate_job_status,
    validate_job_update,
)
from envtest.groups.common.strategy import GeneratedStrategy, StrategyFactory
from envtest.groups.core.warnings import workload_warnings
from opsdk.apimachinery.validation import label_value
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.errors import ApiError, Cause
from opsdk.structured_merge.value import JsonObject

_ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set"
    " propagationPolicy=Orphan to suppress this warning"
)


class JobStrategy(GeneratedStrategy):
    """The strategy of Jobs; the selector is generated from the uid."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {"status.successful": lambda obj: str((obj.get("status") or {}).get("succeeded", 0))}

    def unknown_field(self, key: str) -> ApiError:
        """Return the message of jobs for an unknown field selector."""
        return api_errors.bad_request(f"field label {api_errors.quoted(key)} not supported for Job")

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Generate the selector and the pod labels."""
        super().prepare_for_create(context, obj)
        spec, uid, name = obj["spec"], obj["metadata"]["uid"], obj["metadata"].get("name", "")
        spec.setdefault("manualSelector", False)
        if spec["manualSelector"]:
            return
        template_labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        inherits = (obj["metadata"].get("labels") or {}) == template_labels
        if not template_labels and label_value(name):
            # Upstream sets these labels when it decodes the stored job, so validation does not check the name.
            inherits = False
        meta = spec.setdefault("template", {}).setdefault("metadata", {})
        labels = meta.setdefault("labels", {})
        for prefix in ("", "batch.kubernetes.io/"):
            labels.setdefault(f"{prefix}job-name", name)
            labels.setdefault(f"{prefix}controller-uid", uid)
        selector = spec.setdefault("selector", {})
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), UID: uid}
        if inherits:
            # A job without labels inherits those of its pod template.
            obj["metadata"]["labels"] = dict(labels)

    def propagation(self, context: Context, obj: JsonObject, requested: str) -> str:
        """Return the requested propagation policy, Orphan by default."""
        finalizers = obj["metadata"].get("finalizers") or ()
        if requested or {"orphan", "foregroundDeletion"} & set(finalizers):
            return requested
        context.warn(_ORPHANS)
        return "Orphan"

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate numbers, selector and template."""
        return list(validate_job(obj))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: selector, completions and template are immutable."""
        return list(validate_job_update(obj, old))

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the status: a finished job stays finished."""
        return list(validate_job_status(obj, old))

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Warn about the name and the template."""
        return list(workload_warnings(obj, old, resource="jobs"))


class CronJobStrategy(GeneratedStrategy):
    """The strategy of CronJobs."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        return list(validate_cron_job(obj))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        return list(validate_cron_job(obj, old))

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Warn about the name and the template."""
        return list(workload_warnings(obj, old, resource="cronjobs", path="spec.jobTemplate.spec.template"))


STRATEGIES: Mapping[str, StrategyFactory] = {
    "batch/jobs": JobStrategy,
    "batch/cronjobs": CronJobStrategy,
}
"""By ``group/resource``."""
