"""Fields that are lost, taken over from others, or fought over. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from opsdk.base.shortened import listed
from opsdk.engine.consequences.evidence import Evidence
from opsdk.engine.net_changes import NetChange
from opsdk.engine.ownership import own_fields
from opsdk.engine.plan import ChangeAction, Consequence, ConsequenceKind, Severity
from opsdk.engine.writes import is_manager_of
from opsdk.structured_merge.fieldpath import FieldSet, format_path
from opsdk.structured_merge.value import JsonObject

__all__ = ["field_consequences", "owners_of"]

_SHOWN: Final = 5


def field_consequences(evidence: Evidence) -> Iterator[Consequence]:
    """Yield what happens to fields."""
    for change in evidence.outcome.changes.values():
        if change.own and change.action is ChangeAction.UPDATE:
            yield from _taken_over(change, evidence)
            yield from _removed(change)
    yield from _pruned(evidence)
    yield from _fights(evidence)


# ------------------------------------------------------------------ owners
def _taken_over(change: NetChange, evidence: Evidence) -> Iterator[Consequence]:
    """Yield the fields that others owned before, and that only the operator owns at the end."""
    assert change.before is not None
    assert change.after is not None
    before, after = owners_of(change.before), owners_of(change.after)
    operators = (evidence.operator,)
    gained = own_fields(change.after, operators).difference(own_fields(change.before, operators))
    for manager, fields in before.items():
        if is_manager_of(manager, operators):
            continue
        lost = fields.difference(after.get(manager, FieldSet())).intersection(gained)
        paths = [format_path(path) for path in lost]
        if paths:
            message = f"the operator takes over {listed(paths, _SHOWN)} from {manager}"
            yield Consequence(ConsequenceKind.FIELD_TAKEN_OVER, Severity.WARNING, change.subject, message)


def owners_of(obj: JsonObject) -> Mapping[str, FieldSet]:
    """Return the fields of each field manager of an object."""
    owners: dict[str, FieldSet] = {}
    for entry in obj["metadata"].get("managedFields") or ():
        fields = FieldSet.from_fields_v1(entry.get("fieldsV1") or {})
        manager = str(entry.get("manager", ""))
        owners[manager] = owners.get(manager, FieldSet()).union(fields)
    return owners


# ------------------------------------------------------------------ removed fields
def _removed(change: NetChange) -> Iterator[Consequence]:
    """Yield the fields of the desired state that are set before and absent at the end."""
    paths = [
        difference.path
        for difference in change.differences
        if difference.new is None and difference.old is not None and not difference.path.startswith("status")
    ]
    if paths:
        message = f"{listed(paths, _SHOWN)} {'is' if len(paths) == 1 else 'are'} removed"
        yield Consequence(ConsequenceKind.FIELD_REMOVED, Severity.WARNING, change.subject, message)


# ------------------------------------------------------------------ definitions
def _pruned(evidence: Evidence) -> Iterator[Consequence]:
    """Yield the fields that objects use, and that the new schema of their version does not have.

    The server drops such a field when the object is next written, and no read shows it.
    """
    for change in evidence.of_kind("CustomResourceDefinition"):
        if change.before is None or change.after is None:
            continue
        schemas = _schemas(change.after)
        names = change.after["spec"]["names"]
        users: defaultdict[str, int] = defaultdict(int)
        for obj in evidence.before(names["kind"]):
            group, _, version = obj["apiVersion"].rpartition("/")
            if group == change.after["spec"]["group"] and version in schemas:
                for path in set(_unknown(obj, schemas[version], "")):
                    users[path] += 1
        for path, count in users.items():
            message = f"{path} is not in the new schema: {count} {names['plural']} lose it"
            yield Consequence(ConsequenceKind.FIELD_PRUNED, Severity.DANGER, change.subject, message)


def _schemas(definition: JsonObject) -> Mapping[str, JsonObject]:
    return {
        version["name"]: (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for version in definition["spec"]["versions"]
        if version.get("served")
    }


_TYPE_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


def _unknown(value: object, schema: JsonObject, path: str) -> Iterator[str]:
    """Yield the paths of a value that a structural schema would prune. Embedded objects keep type and metadata."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        is_object = not path or bool(schema.get("x-kubernetes-embedded-resource"))
        for name, item in value.items():
            below = f"{path}.{name}" if path else str(name)
            if name in _TYPE_FIELDS and is_object:
                continue
            if name in properties:
                yield from _unknown(item, properties[name], below)
            elif isinstance(more, dict):
                yield from _unknown(item, more, f"{path}.*")
            elif more is not True:
                yield below
    elif isinstance(value, list):
        for item in value:
            yield from _unknown(item, schema.get("items") or {}, f"{path}[]")


# ------------------------------------------------------------------ fights
def _fights(evidence: Evidence) -> Iterator[Consequence]:
    """Yield the fields that several writers change in turns."""
    for turns in evidence.outcome.turns:
        change = evidence.outcome.changes.get(turns.key)
        if change is not None and not turns.path.startswith("status"):
            message = f"{' and '.join(turns.writers)} change {turns.path} in turns, {turns.count} times"
            yield Consequence(ConsequenceKind.FIGHT, Severity.DANGER, change.subject, message)
