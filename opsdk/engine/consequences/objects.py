"""Objects that are replaced, data that is deleted, deletions that hang. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.engine.consequences.evidence import Evidence
from opsdk.engine.net_changes import NetChange
from opsdk.engine.ownership import own_fields
from opsdk.engine.plan import ChangeAction, Consequence, ConsequenceKind, Severity
from opsdk.structured_merge.value import JsonObject

__all__ = ["object_consequences"]

_DATA: Final = {
    "PersistentVolumeClaim": "its volume is deleted or released",
    "PersistentVolume": "the volume is deleted",
    "Namespace": "everything in it is deleted",
    "CustomResourceDefinition": "all objects of the kind are deleted",
    "VolumeSnapshot": "the snapshot is deleted",
    "Secret": "its values are lost",
}
_INTERRUPTING: Final = frozenset({
    "StatefulSet",
    "Deployment",
    "DaemonSet",
    "PersistentVolumeClaim",
    "Service",
    "Ingress",
    "Secret",
    "Namespace",
})  # fmt: skip
"""Kinds whose replacement interrupts what they serve, or loses what they hold."""


def object_consequences(evidence: Evidence) -> Iterator[Consequence]:
    """Yield what happens to objects as a whole."""
    for change in evidence.outcome.changes.values():
        if change.action is ChangeAction.REPLACE and change.own:
            yield _replaced(change, evidence)
        elif change.action is ChangeAction.DELETE or _begins_deletion(change):
            if not evidence.is_deleted_by_others(change):
                yield from _deleted(change, evidence)
        elif change.own and change.latest["kind"] == "Secret":
            yield from _secret(change)
    yield from _hanging(evidence)


def _secret(change: NetChange) -> Iterator[Consequence]:
    """Yield the values of a Secret that change: what was made with them, such as a database, has the old ones."""
    before, after = ((obj or {}).get("data") or {} for obj in (change.before, change.after))
    changed = sorted(key for key, value in before.items() if after.get(key) != value)
    if changed:
        message = f"the values of {', '.join(changed)} change"
        yield Consequence(ConsequenceKind.SECRET_CHANGED, Severity.DANGER, change.subject, message)


def _replaced(change: NetChange, evidence: Evidence) -> Consequence:
    immutable = next(
        (refusal.message for refusal in evidence.outcome.refused if refusal.path.endswith(f"/{_name(change)}")), ""
    )
    severity = Severity.DANGER if change.latest["kind"] in _INTERRUPTING else Severity.WARNING
    message = "it is deleted and created again" + (f": {immutable}" if immutable else "")
    return Consequence(ConsequenceKind.REPLACED, severity, change.subject, message)


def _name(change: NetChange) -> str:
    return str(change.latest["metadata"]["name"])


def _begins_deletion(change: NetChange) -> bool:
    """Whether a deletion began, and waits for finalizers."""
    return (
        change.before is not None
        and change.after is not None
        and "deletionTimestamp" in change.after["metadata"]
        and "deletionTimestamp" not in change.before["metadata"]
    )


def _deleted(change: NetChange, evidence: Evidence) -> Iterator[Consequence]:
    obj = change.latest
    reason = _DATA.get(obj["kind"])
    custom = any(
        definition["spec"]["names"]["kind"] == obj["kind"] and obj["apiVersion"].startswith(definition["spec"]["group"])
        for definition in evidence.before("CustomResourceDefinition")
    )
    if reason is None and custom:
        reason = "the custom object is deleted, with what it owns"
    if reason is None or (obj["kind"] == "Secret" and not change.own):
        return
    if obj["kind"] == "PersistentVolumeClaim" and (policy := _reclaim_policy(obj, evidence)):
        reason = "its volume stays (reclaim policy Retain)" if policy == "Retain" else "its volume is deleted"
    yield Consequence(ConsequenceKind.DATA_DELETED, Severity.DANGER, change.subject, reason)


def _reclaim_policy(claim: JsonObject, evidence: Evidence) -> str:
    volume = (claim.get("spec") or {}).get("volumeName")
    for each in evidence.before("PersistentVolume"):
        if each["metadata"]["name"] == volume:
            return str((each.get("spec") or {}).get("persistentVolumeReclaimPolicy", ""))
    return ""


def _hanging(evidence: Evidence) -> Iterator[Consequence]:
    """Yield deletions that wait at the end, and finalizers that the operator set and no longer handles."""
    orphaned: defaultdict[str, list[str]] = defaultdict(list)
    for obj in filter(None, map(evidence.at_end, evidence.outcome.begin.objects)):
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or ()
        subject = subject_of_tree(obj)
        if "deletionTimestamp" in metadata and finalizers:
            message = f"its deletion waits for the finalizer {', '.join(finalizers)}"
            yield Consequence(ConsequenceKind.FINALIZER_HANGS, Severity.DANGER, subject, message)
            continue
        for finalizer in set(finalizers) - evidence.finalizers:
            if _was_set_by_operator(obj, finalizer, evidence):
                orphaned[finalizer].append(subject)
    for finalizer, subjects in sorted(orphaned.items()):
        message = (
            f"the operator set the finalizer {finalizer} on {len(subjects)} objects, and no longer handles it: "
            "their deletion hangs"
        )
        yield Consequence(ConsequenceKind.FINALIZER_HANGS, Severity.DANGER, subjects[0], message)


def _was_set_by_operator(obj: JsonObject, finalizer: str, evidence: Evidence) -> bool:
    own = own_fields(obj, (evidence.operator,))
    return f'v:"{finalizer}"' in own.with_prefix("f:metadata").with_prefix("f:finalizers").members
