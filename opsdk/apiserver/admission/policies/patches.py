"""Applies the result of a mutation expression to an object. Pure.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from opsdk.apiserver.admission.webhooks.admission_review import patched
from opsdk.apiserver.expressions.mutation import as_json, as_tree, check_names
from opsdk.errors import PatchError
from opsdk.structured_merge.schema import Schema, Topology
from opsdk.structured_merge.typed import check_typed, merge
from opsdk.structured_merge.value import JsonObject, JsonValue


# ------------------------------------------------------------------ apply configurations
def apply_configuration(obj: JsonObject, value: JsonValue, shape: Schema) -> JsonObject:
    """Merge an ``Object{...}`` into `obj` as server-side apply does; nothing is removed.

    Raises:
        PatchError: the value does not fit the schema, or sets an atomic list, map or struct.
    """
    check_names(value)
    config: JsonObject = as_tree(value)
    config.update({name: obj[name] for name in ("apiVersion", "kind") if name in obj})
    try:
        check_typed(config, shape)
    except PatchError as error:
        text = f"error applying patch: failed to convert patch object to typed object: {error}"
        raise PatchError(text) from None
    whole = list(atomics(config, shape))
    if whole:
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(whole)}"
        raise PatchError(f"error applying patch: invalid ApplyConfiguration: {text}")
    merged: JsonObject = merge(obj, config, shape)
    return merged


def atomics(value: JsonValue, shape: Schema, path: str = "") -> Iterator[str]:
    """Yield the paths of atomic lists and maps in a value."""
    if isinstance(value, dict):
        if shape.topology is Topology.MAP_ATOMIC:
            yield path
        for name, below in value.items():
            if shape.declares(name):
                yield from atomics(below, shape.field(name), f"{path}.{name}")
    elif isinstance(value, list):
        if shape.topology in (Topology.LIST_ATOMIC, Topology.UNKNOWN):
            yield path
        if shape.topology.is_list:
            for index, below in enumerate(value):
                yield from atomics(below, shape.item(), f"{path}[{index}]")


# ------------------------------------------------------------------ JSON patches
def apply_operations(obj: JsonObject, value: JsonValue) -> JsonObject:
    """Return `obj` after ``[JSONPatch{...}]``; unchanged if a test operation fails.

    Raises:
        PatchError: an operation cannot be applied.
    """
    operations: list[JsonObject] = []
    for one in value:
        fields = one.fields
        operation: JsonObject = {"op": fields.get("op", ""), "path": fields.get("path", "")}
        if fields.get("from"):
            operation["from"] = fields["from"]
        if "value" in fields:
            check_names(fields["value"])
            operation["value"] = as_json(fields["value"])
        operations.append(operation)
    try:
        return patched(obj, operations)
    except PatchError as error:
        if str(error).endswith(": test failed"):
            return obj
        raise PatchError(f"JSON Patch: {error}") from None
