"""Pods that restart or end, and workloads that go. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.base.shortened import listed
from opsdk.engine.consequences.evidence import WORKLOADS, Evidence
from opsdk.engine.net_changes import NetChange
from opsdk.engine.plan import ChangeAction, Consequence, ConsequenceKind, Severity
from opsdk.structured_merge.value import JsonObject

__all__ = ["pod_consequences"]

_MASS: Final = 10
"""Pods that restart, in all, before the restart is a danger also for Deployments."""
_SHORT_LIVED: Final = frozenset({"Job", "CronJob"})
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_MAX_PLACES: Final = 3


class _Workload(msgspec.Struct, kw_only=True):
    """The running Pods of a workload.

    Attributes:
        obj: the workload.
        before: those before the run.
        after: those at the end.
    """

    obj: JsonObject
    before: list[JsonObject] = msgspec.field(default_factory=list)
    after: list[JsonObject] = msgspec.field(default_factory=list)

    def fates(self) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the Pods that restart, and those that end.

        A Pod restarts if a new one takes its place: its name in a StatefulSet, its node in a DaemonSet, any place
        in another workload.
        """
        before, after = ({pod["metadata"].get("uid") for pod in pods} for pods in (self.before, self.after))
        places = Counter(self.place(pod) for pod in self.after if pod["metadata"].get("uid") not in before)
        restarting, ending = list[JsonObject](), list[JsonObject]()
        for pod in self.before:
            if pod["metadata"].get("uid") in after:
                continue
            place = self.place(pod)
            (restarting if places[place] > 0 else ending).append(pod)
            places[place] -= 1
        return restarting, ending

    def place(self, pod: JsonObject) -> str:
        """Return the place of a Pod in its workload; empty if all places are equal."""
        kind, name = self.obj["kind"], str(pod["metadata"]["name"])
        if kind == "DaemonSet":
            return str((pod.get("spec") or {}).get("nodeName", ""))
        if kind == "StatefulSet":
            return name
        # A custom resource gives its Pods the names that it will look for again, unless the server makes them.
        return "" if kind in WORKLOADS or "generateName" in pod["metadata"] else name


def pod_consequences(evidence: Evidence) -> Iterator[Consequence]:
    """Yield what happens to the Pods of the workloads."""
    fates = [(each, *each.fates()) for each in _workloads(evidence) if not _goes_with_its_pods(each, evidence)]
    is_mass = sum(len(restarting) for _, restarting, _ in fates) >= _MASS
    for workload, restarting, ending in fates:
        if restarting:
            yield _restart(workload, restarting, is_mass=is_mass)
        if ending:
            yield _end(workload, ending)
    yield from _deleted_workloads(evidence)


def _workloads(evidence: Evidence) -> Sequence[_Workload]:
    workloads: dict[str, _Workload] = {}

    def of(pod: JsonObject) -> _Workload | None:
        obj = evidence.workload_of(pod)
        is_short_lived = obj["kind"] in _SHORT_LIVED or (pod.get("status") or {}).get("phase") in _FINISHED
        if is_short_lived or "deletionTimestamp" in pod["metadata"] or (obj is pod and not _is_written(pod, evidence)):
            return None
        return workloads.setdefault(subject_of_tree(obj), _Workload(obj=obj))

    for pod in evidence.before("Pod"):
        if (workload := of(pod)) is not None:
            workload.before.append(pod)
    for pod in evidence.after("Pod"):
        if (workload := of(pod)) is not None:
            workload.after.append(pod)
    return list(workloads.values())


def _is_written(pod: JsonObject, evidence: Evidence) -> bool:
    """Whether the operator or the user writes a Pod. The owner of another one may be missing in the snapshot."""
    change = evidence.change_of(pod)
    return change is not None and bool(change.own)


def _goes_with_its_pods(workload: _Workload, evidence: Evidence) -> bool:
    """Whether the workload itself is deleted, which is a consequence of its own. A Pod without one is no workload."""
    return workload.obj["kind"] != "Pod" and evidence.is_deleted(workload.obj)


def _restart(workload: _Workload, pods: Sequence[JsonObject], *, is_mass: bool) -> Consequence:
    # A Deployment starts new Pods before it deletes old ones. The others delete first.
    is_danger = is_mass or workload.obj["kind"] in ("StatefulSet", "DaemonSet")
    message = f"{len(pods)} of {len(workload.before)} Pods restart{_places(workload, pods)}"
    severity = Severity.DANGER if is_danger else Severity.WARNING
    return Consequence(ConsequenceKind.PODS_RESTART, severity, subject_of_tree(workload.obj), message)


def _end(workload: _Workload, pods: Sequence[JsonObject]) -> Consequence:
    is_danger = not workload.after or workload.obj["kind"] in ("StatefulSet", "DaemonSet")
    message = f"{len(pods)} of {len(workload.before)} Pods end{_places(workload, pods)}"
    if workload.obj["kind"] == "Pod":
        message = "it ends, and no workload starts it again"
    elif not workload.after:
        message = f"no Pod is left of {len(workload.before)}"
    severity = Severity.DANGER if is_danger else Severity.WARNING
    return Consequence(ConsequenceKind.PODS_REMOVED, severity, subject_of_tree(workload.obj), message)


def _places(workload: _Workload, pods: Sequence[JsonObject]) -> str:
    """Return where Pods are, if they are some of several and their places differ."""
    places = sorted(filter(None, map(workload.place, pods)))
    if len(pods) == len(workload.before) or not places:
        return ""
    where = " on " if workload.obj["kind"] == "DaemonSet" else ": "
    return where + listed(places, _MAX_PLACES)


def _deleted_workloads(evidence: Evidence) -> Iterator[Consequence]:
    for change in evidence.outcome.changes.values():
        obj = change.latest
        if obj.get("kind") not in WORKLOADS or change.action is not ChangeAction.DELETE:
            continue
        if not any(evidence.is_deleted(owner) for owner in evidence.ownership.ancestors(obj)):
            message = f"it is deleted, with its Pods, by {_writer(change)}"
            severity = Severity.WARNING if obj["kind"] in _SHORT_LIVED else Severity.DANGER
            yield Consequence(ConsequenceKind.WORKLOAD_DELETED, severity, change.subject, message)


def _writer(change: NetChange) -> str:
    return change.manager or "the garbage collector"
