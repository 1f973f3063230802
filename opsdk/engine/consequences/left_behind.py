"""Children that a new version has forgotten, such as those with the former names. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.engine.consequences.evidence import Evidence
from opsdk.engine.ownership import entries_of
from opsdk.engine.plan import Consequence, ConsequenceKind, Severity
from opsdk.engine.shadow.decisions import created_by
from opsdk.structured_merge.value import JsonObject

__all__ = ["left_behind_consequences"]


def left_behind_consequences(evidence: Evidence) -> Iterator[Consequence]:
    """Yield the children that the operator made, and that no reconcile of their owner looked at.

    An owner counts only if its reconcile wrote another object: one that found nothing to do may have looked at none.
    """
    writers = _writers(evidence)
    for obj in evidence.outcome.begin.objects:
        owner = next(evidence.ownership.ancestors(obj), None)
        if owner is None or not (controllers := writers.get(subject_of_tree(owner))):
            continue
        if _stays(owner, evidence) and _is_forgotten(obj, controllers, evidence):
            message = f"this version neither writes nor deletes it, and its owner, the {owner['kind']}, stays"
            yield Consequence(ConsequenceKind.LEFT_BEHIND, Severity.WARNING, subject_of_tree(obj), message)


def _writers(evidence: Evidence) -> Mapping[str, Collection[str]]:
    """Return the controllers that wrote other objects than the reconciled one, by the reconciled object."""
    writers: defaultdict[str, set[str]] = defaultdict(set)
    for change in evidence.outcome.changes.values():
        if not change.own or change.source is None or change.source.subject == change.subject:
            continue
        if (change.source.controller, change.source.subject) not in evidence.outcome.incomplete:
            writers[change.source.subject].add(change.source.controller)
    return writers


def _stays(obj: JsonObject, evidence: Evidence) -> bool:
    current = evidence.at_end(obj)
    return current is not None and "deletionTimestamp" not in current["metadata"]


def _is_forgotten(obj: JsonObject, controllers: Collection[str], evidence: Evidence) -> bool:
    """Whether the operator made an object, and nothing happened to it."""
    subject, change = subject_of_tree(obj), evidence.change_of(obj)
    if subject in evidence.touched or (change is not None and change.own) or not _stays(obj, evidence):
        return False
    # Another controller of the operator may have made it, and may have found nothing to do.
    own = {str(entry.get("manager", "")) for entry in entries_of(obj, (evidence.operator,))}
    writing = {evidence.operator, *(f"{evidence.operator}/{name}" for name in controllers)}
    return own <= writing and created_by(obj, own)
