"""Prepares and checks a desired object before any request. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.base.traceparent import TRACEPARENT_ANNOTATION
from opsdk.children.explanation import shown_value
from opsdk.children.field_types import FieldType
from opsdk.children.resolver import ResolvedType
from opsdk.errors import PatchError, UsageError
from opsdk.structured_merge.fieldpath import Path, field_element, format_path
from opsdk.structured_merge.schema import Topology
from opsdk.structured_merge.typed import check_typed, list_element, topology_for
from opsdk.structured_merge.value import JsonObject, JsonValue


def without_trace(tree: JsonObject) -> JsonObject:
    """Return a desired object without a trace context, for example if its annotations are those of the owner.

    A trace context belongs to one write. A copy of it would differ from that of the live object at each comparison.
    """
    metadata = tree["metadata"]
    if TRACEPARENT_ANNOTATION not in (metadata.get("annotations") or {}):
        return tree
    annotations = {name: value for name, value in metadata["annotations"].items() if name != TRACEPARENT_ANNOTATION}
    rest = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**tree, "metadata": {**rest, "annotations": annotations} if annotations else rest}


def with_encoded_strings(tree: JsonObject) -> JsonObject:
    """Return a Secret whose ``stringData`` is in ``data``, as the server writes it; other objects as they are.

    So both spellings are one field for its owners: an apply of ``stringData`` would not own the value in ``data``, and
    would replace that of another manager without a conflict.

    Upstream: k8s.io/kubernetes/pkg/registry/core/secret/strategy.go (v1.36)

    >>> with_encoded_strings({"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "x"}, "data": {"a": "AA=="}})
    {'apiVersion': 'v1', 'kind': 'Secret', 'data': {'a': 'eA=='}}
    """
    if (tree.get("apiVersion"), tree.get("kind")) != ("v1", "Secret") or "stringData" not in tree:
        return tree
    rest = {key: value for key, value in tree.items() if key != "stringData"}
    # Null is the empty string, as Go decodes it.
    strings: Iterable[tuple[str, str | None]] = (tree["stringData"] or {}).items()
    encoded = {key: base64.b64encode((value or "").encode()).decode() for key, value in strings}
    return {**rest, "data": {**(tree.get("data") or {}), **encoded}} if encoded else rest


def check_desired(tree: JsonObject, gvk: GroupVersionKind, key: ObjectKey, resolved: ResolvedType | None) -> None:
    """Check name, namespace, and the types of the fields, if the type is that of the server.

    Raises:
        UsageError: the object cannot be applied. The message names the kind, the field and its value.
    """
    name = f"{gvk.kind} {key}"
    if not key.name:
        raise UsageError(f"{gvk.kind} in namespace {key.namespace!r} has no metadata.name: apply needs a name")
    if tree["metadata"].get("managedFields"):
        raise UsageError(
            f"{name}: metadata.managedFields is set, so the object was read from the server. An apply owns every field"
            " that it sends: pass a new object with only the desired fields"
        )
    if resolved is None:
        return
    if resolved.has_status and tree.get("status") is not None:
        raise UsageError(
            f"{name}: status is set, and the server ignores it there: remove it, and write it with client.status()"
        )
    if not resolved.authoritative:
        return
    if resolved.namespaced and not key.namespace:
        raise UsageError(f"{name}: metadata.namespace is empty, and {gvk.kind} is namespaced: set it")
    if not resolved.namespaced and key.namespace:
        raise UsageError(
            f"{name}: metadata.namespace is {key.namespace!r}, and {gvk.kind} is cluster-scoped: remove it"
        )
    try:
        check_typed(tree, resolved.field_type.schema)
    except PatchError as error:
        raise UsageError(_message(name, gvk, tree, resolved.field_type, error)) from error


def _message(name: str, gvk: GroupVersionKind, tree: JsonObject, field_type: FieldType, error: PatchError) -> str:
    """Return the message of the first error with the value, which the error omits or formats as Go does."""
    text = str(error).removeprefix("errors:").strip().partition("\n")[0]
    path = error.path
    reason = text.removeprefix(f"{path}: ").partition(", got ")[0]
    for element_path, value in _values(tree, field_type, ()):
        if format_path(element_path) == path:
            return f"{name}: {path.removeprefix('.')}: {reason}; the value is {shown_value(gvk, element_path, value)}"
    return f"{name}: {text}"


def _values(value: JsonValue, field_type: FieldType, path: Path) -> Iterator[tuple[Path, JsonValue]]:
    yield path, value
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _values(part, field_type.field(name), (*path, field_element(name)))
    elif isinstance(value, list):
        keyed = topology_for(field_type.schema, value) in (Topology.LIST_MAP, Topology.LIST_SET)
        for index, item in enumerate(value):
            try:
                element = list_element(item, field_type.schema) if keyed else f"i:{index}"
            except PatchError:
                element = f"i:{index}"
            yield from _values(item, field_type.item(), (*path, element))
