"""The pods of a Job: completion index, failure time, pod failure policy and success policy. Pure.

Upstream: pkg/controller/job (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from envtest.controllers.objects import condition_in, conditions_of, deleting, parse_time, phase_of
from opsdk.apimachinery.integers import parse_int
from opsdk.structured_merge.value import JsonObject

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES, IGNORED = "batch.kubernetes.io/job-index-failure-count", "batch.kubernetes.io/job-index-ignored-failure-count"
UNKNOWN = -1
"""The index of pods without a completion index."""


# ------------------------------------------------------------------ one pod
def has_tracking_finalizer(pod: JsonObject) -> bool:
    """Return whether the pod has the tracking finalizer, so is not counted yet."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def terminating(pod: JsonObject) -> bool:
    """Return whether a pod is deleted and not finished."""
    return deleting(pod) and phase_of(pod) not in ("Succeeded", "Failed")


def only_failed_are_replaced(job: JsonObject) -> bool:
    """Return whether terminating pods are replaced only after they failed."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def is_failed(pod: JsonObject, job: JsonObject) -> bool:
    """Return whether a pod failed, or was deleted before it finished."""
    if phase_of(pod) == "Failed":
        return True
    return not only_failed_are_replaced(job) and deleting(pod) and phase_of(pod) != "Succeeded"


def is_indexed(job: JsonObject) -> bool:
    """Return whether the completion mode is Indexed."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def limited_per_index(job: JsonObject) -> bool:
    """Return whether the job has ``backoffLimitPerIndex``."""
    return is_indexed(job) and job["spec"].get("backoffLimitPerIndex") is not None


def index_of(pod: JsonObject) -> int:
    """Return the completion index of a pod."""
    return _number(pod, INDEX, UNKNOWN)


def _number(pod: JsonObject, key: str, default: int) -> int:
    text = str((pod["metadata"].get("annotations") or {}).get(key, ""))
    number = parse_int(text)
    return default if number is None or number < 0 else number


def failures_of_index(pod: JsonObject) -> int:
    """Return the index failure count of a pod, ignored failures excluded."""
    return _number(pod, FAILURES, 0)


def all_failures_of_index(pod: JsonObject) -> int:
    """Return the index failure count of a pod, ignored failures included."""
    return failures_of_index(pod) + _number(pod, IGNORED, 0)


def finish_time(pod: JsonObject) -> datetime:
    """Return when the last container ended, else when the pod failed, was deleted or was created."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [((s.get("state") or {}).get("terminated") or {}).get("finishedAt") for s in statuses]
    timestamps = [parse_time(e) for e in ends if e]
    if timestamps and len(timestamps) == len(ends):
        return max(timestamps)
    ready = condition_in(conditions_of(pod), "Ready") or {}
    if phase_of(pod) == "Failed" and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    if deleting(pod):
        grace = int(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        return parse_time(pod["metadata"]["deletionTimestamp"]) - timedelta(seconds=grace)
    return parse_time(pod["metadata"]["creationTimestamp"])


def restarts(pod: JsonObject) -> int:
    """Return the restart count of the pod's containers."""
    status = pod.get("status") or {}
    keys = ("initContainerStatuses", "containerStatuses")
    return sum(int(c.get("restartCount") or 0) for key in keys for c in status.get(key) or ())


# ------------------------------------------------------------------ indexes
def format_intervals(numbers: Iterable[int]) -> str:
    """Return numbers as a string of intervals (``1,3-5``).

    >>> format_intervals({0, 1, 2, 5, 7, 8})
    '0-2,5,7,8'
    """
    parts: list[str] = []
    run: list[int] = []
    for number in [*sorted(numbers), -1]:
        if run and number == run[-1] + 1:
            run.append(number)
            continue
        if len(run) > 2:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts.extend(str(n) for n in run)
        run = [number]
    return ",".join(parts)


def parse_intervals(text: str, below: int) -> set[int]:
    """Parse intervals; numbers from the limit on and invalid parts are skipped.

    >>> sorted(parse_intervals("0-2,5,7", 6))
    [0, 1, 2, 5]
    """
    indexes: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = parse_int(first), parse_int(last or first)
        if begin is not None and end is not None and begin >= 0:
            indexes.update(range(begin, min(end, below - 1) + 1))
    return indexes


def valid_index(pod: JsonObject, job: JsonObject) -> bool:
    """Return whether the index is below the completions."""
    return 0 <= index_of(pod) < int(job["spec"].get("completions") or 0)


def delayed(job: JsonObject, pods: Sequence[JsonObject], settled: Collection[int]) -> dict[int, JsonObject]:
    """Return the last failed pod by index; its finalizer stays until its replacement is created."""
    held: dict[int, JsonObject] = {}
    for pod in pods:
        index = index_of(pod)
        if not (has_tracking_finalizer(pod) and is_failed(pod, job) and valid_index(pod, job)) or index in settled:
            continue
        before = held.get(index)
        if before is None or _is_later(pod, before):
            held[index] = pod
    return held


def _is_later(pod: JsonObject, than: JsonObject) -> bool:
    older, newer = all_failures_of_index(than), all_failures_of_index(pod)
    return newer >= older and finish_time(pod) >= finish_time(than)


def duplicate_pods(
    job: JsonObject, active: Sequence[JsonObject], order: Callable[[Sequence[JsonObject]], list[JsonObject]]
) -> list[JsonObject]:
    """Return active pods whose index is not desired, or is taken by another pod."""
    going = [p for p in active if not valid_index(p, job)]
    by_index: dict[int, list[JsonObject]] = {}
    for pod in active:
        if valid_index(pod, job):
            by_index.setdefault(index_of(pod), []).append(pod)
    for same in by_index.values():
        going.extend(order(same)[:-1])
    return going


# ------------------------------------------------------------------ policies
def verdict_on(policy: JsonObject | None, pod: JsonObject) -> tuple[str, str | None]:
    """Return the action of the pod failure policy (``Count`` by default), and the message of FailJob."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        action = str(rule.get("action", "Count"))
        reason = _exit(rule, pod) if rule.get("onExitCodes") else _condition(rule, pod)
        if reason is not None:
            return action, f"{reason} matching {action} rule at index {number}" if action == "FailJob" else None
    return "Count", None


def _exit(rule: JsonObject, pod: JsonObject) -> str | None:
    requirement, status = rule["onExitCodes"], pod.get("status") or {}
    meta = pod["metadata"]
    for key in ("containerStatuses", "initContainerStatuses"):
        for state in status.get(key) or ():
            code = ((state.get("state") or {}).get("terminated") or {}).get("exitCode")
            if not code or requirement.get("containerName") not in (None, state["name"]):
                continue
            if (code in requirement["values"]) == (requirement["operator"] == "In"):
                name = f"{meta['namespace']}/{meta['name']}"
                return f"Container {state['name']} for pod {name} failed with exit code {code}"
    return None


def _condition(rule: JsonObject, pod: JsonObject) -> str | None:
    meta = pod["metadata"]
    for pattern in rule.get("onPodConditions") or ():
        condition = condition_in(conditions_of(pod), pattern["type"])
        if condition is not None and condition.get("status") == pattern.get("status", "True"):
            return f"Pod {meta['namespace']}/{meta['name']} has condition {pattern['type']}"
    return None


def success_by(policy: JsonObject | None, succeeded: Collection[int], completions: int) -> str | None:
    """Return the message of the success policy rule that is met; None if none is."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is None:
            met = count is not None and len(succeeded) >= count
        else:
            indexes = parse_intervals(rule["succeededIndexes"], completions)
            reached = len(indexes & set(succeeded))
            met = reached >= (len(indexes) if count is None else count)
        if met:
            return f"Matched rules at index {number}"
    return None


def new_failures(job: JsonObject, pods: Sequence[JsonObject], recorded: Collection[str]) -> Iterator[JsonObject]:
    """Return failed pods that are not counted yet."""
    for pod in pods:
        if has_tracking_finalizer(pod) and pod["metadata"]["uid"] not in recorded and is_failed(pod, job):
            yield pod
