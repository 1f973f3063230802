"""Defaults of the group batch. Each function fills in an object that the caller owns.

Upstream: pkg/apis/batch/v1/defaults.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.defaulting import Defaults, put
from envtest.groups.core.defaulting import template
from opsdk.structured_merge.value import JsonObject


def job(obj: JsonObject) -> None:
    """Default to one completion, parallelism 1 and a backoff limit of 6."""
    job_spec(obj.setdefault("spec", {}))
    labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        put(obj.setdefault("metadata", {}), labels=dict(labels))


def job_spec(spec: JsonObject) -> None:
    """Default the spec of a Job, also in the template of a CronJob."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        put(spec, completions=1, parallelism=1)
    put(spec, parallelism=1)
    put(spec, backoffLimit=6 if spec.get("backoffLimitPerIndex") is None else 2147483647)
    put(spec, completionMode="NonIndexed", suspend=False)
    put(spec, podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    _patterns(spec)
    template(spec)


def _patterns(spec: JsonObject) -> None:
    """Default the status of ``onPodConditions`` patterns to True."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def cron_job(obj: JsonObject) -> None:
    """Default to concurrent jobs and history limits of 3 and 1."""
    spec = obj.setdefault("spec", {})
    put(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    # A Job's top-level defaults are set when the Job is created; only those of its parts are set here.
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    _patterns(inner)
    template(inner)


DEFAULTS: Mapping[str, Defaults] = {
    "batch/jobs": job,
    "batch/cronjobs": cron_job,
}
"""By ``group/resource``."""
