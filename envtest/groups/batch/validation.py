"""Validation of jobs and cron jobs, and of their updates.

Upstream: pkg/apis/batch/validation/validation.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from envtest.codec.internal_form import BATCH, TEMPLATE, shown
from envtest.groups.batch.cron_schedule import ScheduleError, parse
from envtest.groups.common import validation
from envtest.groups.common.label_selectors import check_label_selector, is_valid, selects
from envtest.groups.common.validation import domain_path
from envtest.groups.core.validation.pod_template import MISMATCH, template_labels, validate_pod_template
from opsdk.apimachinery.validation import dns_label, qualified_name
from opsdk.apiserver import api_errors
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

UID = "batch.kubernetes.io/controller-uid"
NAME = "batch.kubernetes.io/job-name"
_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_SHAPES = {"podFailurePolicy": f"{BATCH}PodFailurePolicy", "successPolicy": f"{BATCH}SuccessPolicy"}
_IMMUTABLE = "field is immutable"


def validate_job(obj: JsonObject) -> Iterator[Cause]:
    """Validate a Job, with its selector."""
    spec = obj["spec"]
    job_spec = obj["spec"]
    selector = job_spec.get("selector")
    if not (job_spec.get("manualSelector") or selector is None):
        expected = {UID: obj["metadata"]["uid"], NAME: obj["metadata"].get("name", "")}
        expected |= {"controller-uid": expected[UID], "job-name": expected[NAME]}
        labels = template_labels(job_spec)
        for key, value in expected.items():
            if labels.get(key) != value:
                where = f"spec.template.metadata.labels[{key}]"
                if key not in labels:
                    yield api_errors.required(where, f"must be '{value}'")
                else:
                    yield api_errors.invalid_value(where, dict(sorted(labels.items())), f"must be '{value}'")
        if is_valid(selector) and not selects(selector, expected):
            yield api_errors.invalid_value("spec.selector", selector, "`selector` not auto-generated")
    yield from _whole_spec(spec)
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
        last = f"{obj['metadata'].get('name', '')}-{spec['completions'] - 1}"
        if dns_label(last):
            text = f"will not able to create pod with invalid DNS label: {last}"
            yield api_errors.invalid_value("metadata.name", obj["metadata"].get("name", ""), text)


def _whole_spec(spec: JsonObject) -> Iterator[Cause]:
    yield from validate_job_spec(spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        yield api_errors.required("spec.selector")
        return
    yield from check_label_selector(selector or {}, "spec.selector")
    labels = template_labels(spec)
    if is_valid(selector) and not selects(selector, labels):
        rendered = dict(sorted(labels.items())) or None
        yield api_errors.invalid_value("spec.template.metadata.labels", rendered, MISMATCH)


def validate_job_spec(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate a Job spec, also in the template of a CronJob."""
    for key in (*_COUNTS, "backoffLimitPerIndex", "maxFailedIndexes"):
        yield from validation.not_negative(spec.get(key), f"{path}.{key}")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield api_errors.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from validate_manager(spec, path)
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", "Indexed"):
        yield api_errors.unsupported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        if spec.get("completions") is None:
            yield api_errors.required(f"{path}.completions", "when completion mode is Indexed")
        yield from validate_indexed(spec, path)
    else:
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(key) is not None:
                yield api_errors.invalid_value(f"{path}.{key}", spec[key], "requires indexed completion mode")
    yield from validate_job_policies(spec, path)
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in allowed:
        yield api_errors.unsupported(f"{path}.podReplacementPolicy", policy, allowed)
    yield from validate_pod_template(spec.get("template") or {}, f"{path}.template")
    yield from _restart(spec, f"{path}.template.spec.restartPolicy")


def _restart(spec: JsonObject, path: str) -> Iterator[Cause]:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "")
    if policy in ("", "Always"):
        yield api_errors.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield api_errors.unsupported(path, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield api_errors.invalid_value(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def validate_job_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update of a Job: most of the spec is immutable."""
    spec, before = obj["spec"], old["spec"]
    yield from _whole_spec(spec)
    now, then = spec.get("completions"), before.get("completions")
    if now != then:
        if spec.get("completionMode") != "Indexed":
            yield api_errors.invalid_value("spec.completions", now, _IMMUTABLE)
        elif now != spec.get("parallelism") or then != before.get("parallelism"):
            text = "can only be modified in tandem with spec.parallelism"
            yield api_errors.invalid_value("spec.completions", now, text)
    if spec.get("selector") != before.get("selector"):
        yield api_errors.invalid_value("spec.selector", spec.get("selector"), _IMMUTABLE)
    status = old.get("status") or {}
    if not old["spec"].get("suspend"):
        waits = MutableTemplateParts(places=False, amounts=False)
    else:
        idle = _has(old, "Suspended") and not status.get("active")
        waits = MutableTemplateParts(places=idle or not status.get("startTime"), amounts=idle)
    if _fixed_template(spec, waits) != _fixed_template(before, waits):
        yield api_errors.invalid_value("spec.template", shown(TEMPLATE, spec.get("template")), _IMMUTABLE)
    for key in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        if spec.get(key) != before.get(key):
            value = spec.get(key)
            shape = _SHAPES.get(key)
            yield api_errors.invalid_value(f"spec.{key}", shown(shape, value) if shape else value, _IMMUTABLE)


class MutableTemplateParts(NamedTuple):
    """The parts of a suspended Job's template that may change."""

    places: bool
    """Scheduling fields and metadata of its pods."""
    amounts: bool
    """The resources of their containers."""


def _fixed_template(spec: JsonObject, waits: MutableTemplateParts) -> JsonObject:
    """Return the immutable part of the template; a suspended job may change scheduling fields and resources."""
    template: JsonObject = copy_tree(spec.get("template") or {})
    pod = template.get("spec") or {}
    if waits.places:
        for key in ("labels", "annotations"):
            (template.get("metadata") or {}).pop(key, None)
        for key in ("nodeSelector", "tolerations", "schedulingGates"):
            pod.pop(key, None)
        affinity = pod.pop("affinity", None) or {}
        affinity.pop("nodeAffinity", None)
        pod.update({"affinity": affinity} if affinity else {})
    if waits.amounts:
        for key in ("containers", "initContainers"):
            for container in pod.get(key) or ():
                container.pop("resources", None)
    return template


# ------------------------------------------------------------------ status of jobs
def _has(job: JsonObject, kind: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def _finished(job: JsonObject) -> bool:
    return _has(job, "Complete") or _has(job, "Failed")


def _omitted(text: str) -> Cause:
    return Cause(reason="FieldValueInvalid", message=f"Invalid value: {text}", field="status.conditions")


def validate_job_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate a Job status; rules of unchanged fields are skipped."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    changed = {key for key in (*status, *before) if status.get(key) != before.get(key)}
    for key in ("active", "succeeded", "failed", "ready", "terminating"):
        yield from validation.not_negative(status.get(key), f"status.{key}")
    yield from _validate_completion(obj, old, changed)
    yield from _finish(obj, old, changed)
    ready = status.get("ready")
    if changed & {"ready", "active"} and ready is not None and ready > (status.get("active") or 0):
        yield api_errors.invalid_value("status.ready", ready, "cannot set more ready pods than active")
    for kind in ("Failed", "Complete", "FailureTarget"):
        if _has(old, kind) and not _has(obj, kind):
            yield _omitted(f"cannot disable the terminal {kind}=True condition")
    elastic = old["spec"].get("completionMode") == "Indexed" and old["spec"].get("completions") == old["spec"].get(
        "parallelism"
    )
    for key in ("failed",) if elastic else ("failed", "succeeded"):
        if (status.get(key) or 0) < (before.get(key) or 0):
            text = f"cannot decrease the {key} counter"
            yield api_errors.invalid_value(f"status.{key}", status.get(key) or 0, text)
    ended = status.get("completionTime")
    if before.get("completionTime") and ended and ended != before["completionTime"]:
        yield api_errors.invalid_value("status.completionTime", ended, "completionTime cannot be mutated")
    began = before.get("startTime")
    if began and status.get("startTime") != began and not old["spec"].get("suspend") and not _has(old, "Suspended"):
        text = "field is immutable for unsuspended job once set"
        yield api_errors.invalid_value("status.startTime", status.get("startTime"), text)
    yield from _succeeds(obj, old)


def _validate_completion(obj: JsonObject, old: JsonObject, changed: set[str]) -> Iterator[Cause]:
    """Validate conditions that exclude or require each other, and the completion time."""
    status = obj.get("status") or {}
    complete, failed = _has(obj, "Complete"), _has(obj, "Failed")
    completed = complete != _has(old, "Complete")
    if (completed or failed != _has(old, "Failed")) and complete and failed:
        yield _omitted("cannot set Complete=True and Failed=true conditions")
    if completed and complete and _has(obj, "FailureTarget"):
        yield _omitted("cannot set Complete=True and FailureTarget=true conditions")
    ended = status.get("completionTime")
    if completed or "completionTime" in changed:
        if ended and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            yield api_errors.invalid_value("status.completionTime", ended, text)
        elif complete and not ended:
            yield api_errors.required("status.completionTime", "completionTime is required for Complete jobs")
    if changed & {"startTime", "completionTime"} and ended and status.get("startTime") and ended < status["startTime"]:
        text = "completionTime cannot be set before startTime"
        yield api_errors.invalid_value("status.completionTime", ended, text)
    if failed and not _has(old, "Failed") and not _has(obj, "FailureTarget"):
        yield _omitted("cannot set Failed=True condition without the FailureTarget=true condition")
    if complete and completed and not _has(obj, "SuccessCriteriaMet"):
        yield _omitted("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _finish(obj: JsonObject, old: JsonObject, changed: set[str]) -> Iterator[Cause]:
    """Validate a finished job: it has a start time, and no active or uncounted pods."""
    status = obj.get("status") or {}
    if not _finished(obj):
        return
    fresh = not _finished(old)
    for key in ("active", "terminating"):
        if (fresh or key in changed) and (status.get(key) or 0) > 0:
            yield api_errors.invalid_value(f"status.{key}", status[key], f"{key}>0 is invalid for finished job")
    if (fresh or "startTime" in changed) and not status.get("startTime"):
        yield api_errors.required("status.startTime", "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if (fresh or "uncountedTerminatedPods" in changed) and any(uncounted.values()):
        text = "uncountedTerminatedPods needs to be empty for finished job"
        yield api_errors.invalid_value("status.uncountedTerminatedPods", uncounted, text)


def _succeeds(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate that SuccessCriteriaMet is permanent, and set before the job finishes."""
    met, before = _has(obj, "SuccessCriteriaMet"), _has(old, "SuccessCriteriaMet")
    if before and not met:
        yield _omitted("cannot disable the SuccessCriteriaMet=True condition")
    if met and not before and _has(old, "Complete"):
        yield _omitted("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


# ------------------------------------------------------------------ cron jobs
_CONCURRENCY = ("Allow", "Forbid", "Replace")


def _time_zone(name: str, path: str) -> Iterator[Cause]:
    if name.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield api_errors.invalid_value(path, name, text)
    if name == "Local":
        return  # Go's time.LoadLocation accepts this name
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield api_errors.invalid_value(path, name, f"unknown time zone {name}")


def validate_cron_job(obj: JsonObject, old: JsonObject | None = None) -> Iterator[Cause]:
    """Validate a CronJob; an update may keep a time zone in its schedule."""
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    zoned = old is not None and "TZ" in ((old.get("spec") or {}).get("schedule") or "")
    yield from _schedule(spec, "spec.schedule", zoned=zoned)
    yield from validation.not_negative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    time_zone = spec.get("timeZone")
    path = "spec.timeZone"
    if time_zone is not None:
        if not time_zone:
            yield api_errors.invalid_value(path, time_zone, "timeZone must be nil or non-empty string")
        else:
            yield from _time_zone(time_zone, path)
    yield from validation.one_of(spec.get("concurrencyPolicy"), _CONCURRENCY, "spec.concurrencyPolicy")
    yield from _job_template((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from validation.not_negative(spec.get(key), f"spec.{key}")
    if old is None and len(name) > 52:
        yield api_errors.invalid_value("metadata.name", name, "must be no more than 52 characters")


def _job_template(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the job template: it must not have a selector."""
    yield from validate_job_spec(spec, path)
    if spec.get("selector") is not None:
        yield api_errors.invalid_value(f"{path}.selector", spec["selector"], "`selector` will be auto-generated")
    if spec.get("manualSelector"):
        text = 'Unsupported value: true: supported values: "nil", "false"'
        yield Cause(reason="FieldValueNotSupported", message=text, field=f"{path}.manualSelector")


def _schedule(spec: JsonObject, path: str, *, zoned: bool) -> Iterator[Cause]:
    """Yield what is wrong with a schedule; a time zone in it is allowed for stored ones only."""
    text = spec.get("schedule", "")
    if not text:
        yield api_errors.required(path)
        return
    try:
        # The schedule without its time zone prefix.
        parse(text.partition(" ")[2].strip() if text.startswith(("TZ=", "CRON_TZ=")) else text)
    except ScheduleError as error:
        yield api_errors.invalid_value(path, text, str(error))
    if "TZ" not in text:
        return
    if not zoned:
        text_why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield api_errors.invalid_value(path, text, text_why)
    elif spec.get("timeZone") is not None:
        text_why = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield api_errors.invalid_value(path, text, text_why)


_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_MOST_INDEXES: Final = 100_000
_MOST_AT_ONCE: Final = 10_000
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_STATES: Final = ("False", "True", "Unknown")
_OPERATORS: Final = ("In", "NotIn")


def _error_without_value(path: str, text: str) -> Cause:
    """Return an error that does not show the value."""
    return Cause(reason="FieldValueInvalid", message=f"Invalid value: {text}", field=path)


def _word(value: str, allowed: Sequence[str], path: str) -> Iterator[Cause]:
    if not value:
        listed = " ".join(api_errors.quoted(word) for word in allowed)
        yield api_errors.required(path, f"valid values: [{listed}]")
    elif value not in allowed:
        yield api_errors.unsupported(path, value, allowed)


def validate_job_policies(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the pod failure policy and the success policy."""
    if spec.get("podFailurePolicy") is not None:
        rules_path = f"{path}.podFailurePolicy.rules"
        rules = spec["podFailurePolicy"].get("rules") or []
        if len(rules) > _MOST_RULES:
            yield api_errors.too_many(rules_path, len(rules), _MOST_RULES)
        pod = (spec.get("template") or {}).get("spec") or {}
        containers = {c.get("name", "") for key in ("containers", "initContainers") for c in pod.get(key) or ()}
        for index, rule in enumerate(rules):
            yield from _failure(
                rule, f"{rules_path}[{index}]", containers, by_index=spec.get("backoffLimitPerIndex") is not None
            )
    if spec.get("successPolicy") is not None:
        success_policy_path = f"{path}.successPolicy"
        rules = spec["successPolicy"].get("rules") or []
        if spec.get("completionMode") != "Indexed":
            value = shown(f"{BATCH}SuccessPolicy", spec["successPolicy"])
            yield api_errors.invalid_value(success_policy_path, value, "requires indexed completion mode")
            return
        if not rules:
            text = "at least one rules must be specified when the successPolicy is specified"
            yield api_errors.required(f"{success_policy_path}.rules", text)
        elif len(rules) > _MOST_RULES:
            yield api_errors.too_many(f"{success_policy_path}.rules", len(rules), _MOST_RULES)
        for index, rule in enumerate(rules):
            yield from _success(rule, f"{success_policy_path}.rules[{index}]", spec.get("completions"))


def validate_manager(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate ``managedBy``."""
    if spec.get("managedBy") is not None:
        yield from domain_path(spec["managedBy"], f"{path}.managedBy")
        if len(spec["managedBy"]) > 63:
            yield api_errors.too_long(f"{path}.managedBy", 63)


# ------------------------------------------------------------------ pod failure policy


def _failure(rule: JsonObject, path: str, containers: set[str], *, by_index: bool) -> Iterator[Cause]:
    """Yield what is wrong with a rule of a pod failure policy."""
    action = rule.get("action", "")
    if action == "FailIndex" and not by_index:
        yield api_errors.invalid_value(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    yield from _word(action, _ACTIONS, f"{path}.action")
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        yield from _codes(codes, f"{path}.onExitCodes", containers)
    if len(conditions) > _MOST_RULES:
        yield api_errors.too_many(f"{path}.onPodConditions", len(conditions), _MOST_RULES)
    for index, pattern in enumerate(conditions):
        item_path, kind = f"{path}.onPodConditions[{index}]", pattern.get("type", "")
        yield from validation.each(qualified_name(kind), kind, f"{item_path}.type")
        yield from _word(pattern.get("status", ""), _STATES, f"{item_path}.status")
    if codes is not None and conditions:
        yield _error_without_value(path, "specifying both OnExitCodes and OnPodConditions is not supported")
    elif codes is None and not conditions:
        yield _error_without_value(path, "specifying one of OnExitCodes and OnPodConditions is required")


def _codes(on_exit_codes: JsonObject, path: str, containers: set[str]) -> Iterator[Cause]:
    """Yield what is wrong with the exit codes of a rule."""
    operator, values = on_exit_codes.get("operator", ""), on_exit_codes.get("values") or []
    yield from _word(operator, _OPERATORS, f"{path}.operator")
    name = on_exit_codes.get("containerName")
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        yield api_errors.invalid_value(f"{path}.containerName", name, text)
    values_path = f"{path}.values"
    if not values:
        yield api_errors.invalid_value(values_path, values or None, "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield api_errors.too_many(values_path, len(values), _MOST_CODES)
    for index, value in enumerate(values):
        if value == 0 and operator == "In":
            yield api_errors.invalid_value(f"{values_path}[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield api_errors.duplicate(f"{values_path}[{index}]", value)
    if values != sorted(values):
        yield api_errors.invalid_value(values_path, values, "must be ordered")


# ------------------------------------------------------------------ success policy


def _success(rule: JsonObject, path: str, completions: int | None) -> Iterator[Cause]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        yield api_errors.required(path, text)
    if indexes is not None and not re.fullmatch(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*", indexes):
        text = (
            f"error parsing succeededIndexes: cannot convert string to integer for index: {api_errors.quoted(indexes)}"
        )
        yield api_errors.invalid_value(f"{path}.succeededIndexes", indexes, text)
    yield from validation.not_negative(count, f"{path}.succeededCount")
    if count is not None and completions is not None and count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        yield api_errors.invalid_value(f"{path}.succeededCount", count, text)


# ------------------------------------------------------------------ indices
def validate_indexed(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the completions and the parallelism of an Indexed Job."""
    parallel, most = spec.get("parallelism") or 0, spec.get("maxFailedIndexes")
    completions = spec.get("completions")
    if parallel > _MOST_INDEXES:
        text = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        yield api_errors.invalid_value(f"{path}.parallelism", parallel, text)
    if completions is None:
        return
    if most is not None and most > completions:
        yield api_errors.invalid_value(f"{path}.maxFailedIndexes", most, "must be less than or equal to completions")
    if most is not None and most > _MOST_INDEXES:
        text = f"must be less than or equal to {_MOST_INDEXES}"
        yield api_errors.invalid_value(f"{path}.maxFailedIndexes", most, text)
    if completions > _MOST_INDEXES and spec.get("backoffLimitPerIndex") is not None:
        if most is None:
            text = f"must be specified when completions is above {_MOST_INDEXES}"
            yield api_errors.required(f"{path}.maxFailedIndexes", text)
        words = f"when completions are above {_MOST_INDEXES} and used with backoff limit per index"
        for key, value in (("parallelism", parallel), ("maxFailedIndexes", most or 0)):
            if value > _MOST_AT_ONCE:
                text = f"must be less than or equal to {_MOST_AT_ONCE} {words}"
                yield api_errors.invalid_value(f"{path}.{key}", value, text)
