"""Columns of the group batch.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import (
    NOTHING,
    KindPrinter,
    age,
    human_duration,
    images,
    kind_printers,
    label_selector,
    meta_of,
    name_of,
    seconds_of,
    since,
    spec_of,
    status_of,
    yes,
)
from opsdk.structured_merge.value import JsonObject, JsonValue

_JOB_WORDS = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""Conditions and their status text; the first true one applies. The entry without a type means a deletion."""


def _job_done(obj: JsonObject) -> str:
    spec, done = spec_of(obj), status_of(obj).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallel = spec.get("parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job(obj: JsonObject, now: float) -> list[JsonValue]:
    """Return the cells of a Job."""
    spec = spec_of(obj)
    true = {c.get("type") for c in status_of(obj).get("conditions") or () if c.get("status") == "True"}
    if meta_of(obj).get("deletionTimestamp"):
        true.add("")
    status = status_of(obj)
    began = seconds_of(status.get("startTime") or "")
    if began is None:
        duration = ""
    else:
        ended = seconds_of(status.get("completionTime") or "")
        duration = human_duration((now if ended is None else ended) - began)
    words = [
        next((word for kind, word in _JOB_WORDS if kind in true), "Running"),
        _job_done(obj),
        duration,
        age(obj, now),
    ]
    return [name_of(obj), *words, *images(spec.get("template") or {}), label_selector(spec.get("selector"))]


def _cron_job(obj: JsonObject, now: float) -> list[JsonValue]:
    """Return the cells of a CronJob."""
    spec, status = spec_of(obj), status_of(obj)
    last = status.get("lastScheduleTime")
    job = spec_of(spec.get("jobTemplate") or {})
    return [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NOTHING,
        yes(spec.get("suspend")),
        len(status.get("active") or []),
        since(last, now) if last else NOTHING,
        age(obj, now),
        *images(job.get("template") or {}),
        label_selector(job.get("selector")),
    ]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "batch/jobs": _job,
        "batch/cronjobs": _cron_job,
    }
)
"""By ``group/resource``."""
