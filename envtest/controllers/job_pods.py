"""The pods of a Job: completion index, failure time, pod failure policy and success policy. Pure.

Upstream: pkg/controller/job (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from envtest.controllers.objects import condition_in, conditions_of, deleting, parse_time, phase_of
from opsdk.structured_merge.value import JsonObject

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES, IGNORED = "batch.kubernetes.io/job-index-failure-count", "batch.kubernetes.io/job-index-ignored-failure-count"
UNKNOWN = -1
"""The index of pods that have none."""


# ------------------------------------------------------------------ one pod
def tracked(pod: JsonObject) -> bool:
    """Whether it has not been counted for good yet: its finalizer holds it."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def terminating(pod: JsonObject) -> bool:
    """On its way out, and not finished."""
    return deleting(pod) and phase_of(pod) not in ("Succeeded", "Failed")


def only_failed_are_replaced(job: JsonObject) -> bool:
    """Whether a pod that terminates keeps its place until it has ended."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def is_failed(pod: JsonObject, job: JsonObject) -> bool:
    """Failed, or deleted before it could finish."""
    if phase_of(pod) == "Failed":
        return True
    return not only_failed_are_replaced(job) and deleting(pod) and phase_of(pod) != "Succeeded"


def is_indexed(job: JsonObject) -> bool:
    """Whether each pod has an index."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def limited_per_index(job: JsonObject) -> bool:
    """Whether each index has a limit of its own."""
    return is_indexed(job) and job["spec"].get("backoffLimitPerIndex") is not None


def index_of(pod: JsonObject) -> int:
    """Its completion index."""
    return _number(pod, INDEX, UNKNOWN)


def _number(pod: JsonObject, key: str, default: int) -> int:
    text = str((pod["metadata"].get("annotations") or {}).get(key, ""))
    return int(text) if text.isdigit() else default


def failures_of_index(pod: JsonObject) -> int:
    """How often its index had failed when it was made, as far as that counts."""
    return _number(pod, FAILURES, 0)


def all_failures_of_index(pod: JsonObject) -> int:
    """The same with those that were ignored."""
    return failures_of_index(pod) + _number(pod, IGNORED, 0)


def ended_at(pod: JsonObject) -> datetime:
    """When its last container ended; of a pod that was deleted, when that was asked for; else when it was made."""
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
    """How often its containers were started again."""
    status = pod.get("status") or {}
    keys = ("initContainerStatuses", "containerStatuses")
    return sum(int(c.get("restartCount") or 0) for key in keys for c in status.get(key) or ())


# ------------------------------------------------------------------ indexes
def intervals(numbers: Iterable[int]) -> str:
    """Numbers as a short text.

    >>> intervals({0, 1, 2, 5, 7, 8})
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


def numbers_in(text: str, below: int) -> set[int]:
    """Back again, those below a limit; what is no number is passed over.

    >>> sorted(numbers_in("0-2,5,7", 6))
    [0, 1, 2, 5]
    """
    indexes: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            indexes.update(range(int(first), min(int(last or first), below - 1) + 1))
    return indexes


def valid_index(pod: JsonObject, job: JsonObject) -> bool:
    """Whether its index is one that the job wants."""
    return 0 <= index_of(pod) < int(job["spec"].get("completions") or 0)


def delayed(job: JsonObject, pods: Sequence[JsonObject], settled: Collection[int]) -> dict[int, JsonObject]:
    """By index, the last failed pod that its successor will need to know of; it is held until that is there."""
    held: dict[int, JsonObject] = {}
    for pod in pods:
        index = index_of(pod)
        if not (tracked(pod) and is_failed(pod, job) and valid_index(pod, job)) or index in settled:
            continue
        before = held.get(index)
        if before is None or _later(pod, before):
            held[index] = pod
    return held


def _later(pod: JsonObject, than: JsonObject) -> bool:
    older, newer = all_failures_of_index(than), all_failures_of_index(pod)
    return newer >= older and ended_at(pod) >= ended_at(than)


def repeated(
    job: JsonObject, active: Sequence[JsonObject], order: Callable[[Sequence[JsonObject]], list[JsonObject]]
) -> list[JsonObject]:
    """Active pods whose index is not wanted, or that another one has too."""
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
    """What the failure policy says about a failed pod: an action (``Count`` unless said), and why the job fails."""
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
    """Which rule of the success policy is met; None where none is."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        if _met(rule, succeeded, completions):
            return f"Matched rules at index {number}"
    return None


def _met(rule: JsonObject, succeeded: Collection[int], completions: int) -> bool:
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and len(succeeded) >= count
    indexes = numbers_in(rule["succeededIndexes"], completions)
    reached = len(indexes & set(succeeded))
    return reached >= (len(indexes) if count is None else count)


def new_failures(job: JsonObject, pods: Sequence[JsonObject], recorded: Collection[str]) -> Iterator[JsonObject]:
    """Failed pods that nobody has counted yet."""
    for pod in pods:
        if tracked(pod) and pod["metadata"]["uid"] not in recorded and is_failed(pod, job):
            yield pod
