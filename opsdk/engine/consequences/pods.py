"""Pods that restart or go. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.engine.consequences.evidence import WORKLOADS, Evidence
from opsdk.engine.net_changes import NetChange
from opsdk.engine.plan import ChangeAction, Consequence, ConsequenceKind, Severity
from opsdk.structured_merge.value import JsonObject

__all__ = ["pod_consequences"]

_MASS: Final = 10
"""Pods that restart, in all, before the restart is a danger also for Deployments."""
_SHORT_LIVED: Final = frozenset({"Job", "CronJob"})


class _Workload(msgspec.Struct, kw_only=True):
    """The Pods of a workload.

    Attributes:
        obj: the workload.
        before: number of its Pods before the run.
        gone: those of them that were deleted.
        after: number of its Pods at the end.
    """

    obj: JsonObject
    before: int = 0
    gone: int = 0
    after: int = 0


def pod_consequences(evidence: Evidence) -> Iterator[Consequence]:
    """Yield what happens to the Pods of the workloads."""
    workloads = _workloads(evidence)
    restarts = sum(min(each.gone, each.after) for each in workloads.values())
    for workload in workloads.values():
        if _is_deleted(workload.obj, evidence):
            continue
        yield from _of_workload(workload, mass=restarts >= _MASS)
    yield from _deleted_workloads(evidence)


def _workloads(evidence: Evidence) -> dict[str, _Workload]:
    workloads: dict[str, _Workload] = {}

    def of(pod: JsonObject) -> _Workload | None:
        obj = evidence.workload_of(pod)
        if obj["kind"] not in WORKLOADS - _SHORT_LIVED:
            return None
        return workloads.setdefault(subject_of_tree(obj), _Workload(obj=obj))

    for pod in evidence.before("Pod"):
        if (workload := of(pod)) is not None:
            workload.before += 1
            change = evidence.change_of(pod)
            workload.gone += change is not None and (change.after is None or change.replaced)
    for pod in evidence.after("Pod"):
        if (workload := of(pod)) is not None:
            workload.after += 1
    return workloads


def _of_workload(workload: _Workload, *, mass: bool) -> Iterator[Consequence]:
    subject = subject_of_tree(workload.obj)
    restarts = min(workload.gone, workload.after)
    removed = workload.before - workload.after
    stateful = workload.obj["kind"] in ("StatefulSet", "DaemonSet")
    if restarts:
        # A Deployment starts new Pods before it deletes old ones. The others delete first.
        severity = Severity.DANGER if stateful or mass else Severity.WARNING
        yield Consequence(
            kind=ConsequenceKind.PODS_RESTART,
            severity=severity,
            subject=subject,
            message=f"{restarts} of {workload.before} Pods restart",
        )
    if workload.gone and removed > 0:
        none_left = not workload.after
        yield Consequence(
            kind=ConsequenceKind.PODS_REMOVED,
            severity=Severity.DANGER if none_left or stateful else Severity.WARNING,
            subject=subject,
            message=f"no Pod is left of {workload.before}" if none_left else f"{removed} of {workload.before} Pods go",
        )


def _deleted_workloads(evidence: Evidence) -> Iterator[Consequence]:
    for change in evidence.changes.values():
        obj = change.latest
        if obj.get("kind") not in WORKLOADS or change.action is not ChangeAction.DELETE:
            continue
        if not any(_is_deleted(owner, evidence) for owner in evidence.ownership.ancestors(obj)):
            yield Consequence(
                kind=ConsequenceKind.WORKLOAD_DELETED,
                severity=Severity.WARNING if obj["kind"] in _SHORT_LIVED else Severity.DANGER,
                subject=change.subject,
                message=f"it is deleted, with its Pods, by {_writer(change)}",
            )


def _is_deleted(obj: JsonObject, evidence: Evidence) -> bool:
    change = evidence.change_of(obj)
    return change is not None and change.action is ChangeAction.DELETE


def _writer(change: NetChange) -> str:
    return change.manager or "the garbage collector"
