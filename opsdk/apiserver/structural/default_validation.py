"""Validates the defaults of a CRD's schema.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from opsdk.apiserver.field_errors import OMITTED, FieldError, FieldErrorType, invalid
from opsdk.apiserver.structural.embedded import change_embedded, check_object, check_types, check_values
from opsdk.apiserver.structural.node import SchemaNode
from opsdk.apiserver.structural.pruning import Pruner
from opsdk.apiserver.structural.rule_locations import has_rules
from opsdk.apiserver.structural.validation import SchemaValidator
from opsdk.errors import Cause
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject, JsonValue

Schema = Mapping[str, JsonValue]
_OWNED = frozenset({"apiVersion", "kind", "metadata"})


def check_defaults(schema: Schema, path: FieldPath) -> Iterator[FieldError]:
    """Yield the errors in the defaults of an object's `schema`.

    Defaults below ``additionalProperties`` are not validated.
    """
    yield from _check(schema, path, resource=True)


def _check(
    schema: Schema, path: FieldPath, *, resource: bool = False, wrap: Callable[[JsonValue], JsonValue] | None = None
) -> Iterator[FieldError]:
    """`wrap` builds an object around a part of its apiVersion, kind or metadata."""
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    resource = resource or embedded
    if schema.get("default") is not None:
        if wrap is None:
            yield from _check_default(schema, path.child("default"), resource=resource)
        else:
            yield from _check_part(schema, path.child("default"), wrap)
    for name in sorted(schema.get("properties") or {}):
        if embedded and name in _OWNED:
            yield from _check(schema["properties"][name], path.child("properties").key(name), wrap=_wrap_in(name))
        elif not (resource and name in _OWNED):
            above = None if wrap is None else _wrap_in(name, wrap)
            yield from _check(schema["properties"][name], path.child("properties").key(name), wrap=above)
    if isinstance(schema.get("items"), Mapping):
        above = None if wrap is None else (lambda value: wrap([value]))
        yield from _check(schema["items"], path.child("items"), wrap=above)


def _wrap_in(name: str, wrap: Callable[[JsonValue], JsonValue] | None = None) -> Callable[[JsonValue], JsonValue]:
    return lambda value: {name: value} if wrap is None else wrap({name: value})


def _check_part(schema: Schema, path: FieldPath, wrap: Callable[[JsonValue], JsonValue]) -> Iterator[FieldError]:
    default = schema["default"]
    obj = wrap(default)
    causes = list(check_types(obj)) or list(check_values(obj))
    for cause in causes:
        yield invalid(path, default, f"must result in valid metadata: {cause.field}: {cause.message}")
    if not causes:
        yield from SchemaValidator(str(path)).validate(default, SchemaNode(schema, mixed=True), "").errors


def _check_default(schema: Schema, path: FieldPath, *, resource: bool) -> Iterator[FieldError]:
    """Yield what is wrong with the default of a schema: it must be valid, and have no unknown fields."""
    default = schema["default"]
    node = SchemaNode({**schema, "x-kubernetes-embedded-resource": resource}, mixed=True)
    objects: JsonObject = {}
    pruned = change_embedded(default, node, lambda obj, place: _record_object(obj, place, objects), str(path))
    pruner = Pruner()
    pruner.prune(pruned, node, resource=resource)
    if pruner.unknown:
        yield invalid(path, pruned, "must not have unknown fields")
    if mistyped := [cause for place, obj in objects.items() for cause in check_types(obj, place)]:
        yield from map(_without_label, mistyped)
        return
    errors = SchemaValidator(str(path)).validate(default, node, "").errors
    # Errors of an embedded object hide those of its schema.
    causes = [error for place, obj in objects.items() for error in check_object(obj, place)]
    if causes or pruner.unknown:
        yield from causes
        return
    yield from errors
    if not errors and has_rules(schema):
        from opsdk.apiserver.structural.rules import CompiledRules  # noqa: PLC0415 - CEL is slow to import

        yield from CompiledRules(schema, resource=resource).evaluate(default, default, path, ratchet=False).errors


def _record_object(obj: JsonObject, path: str, objects: JsonObject) -> JsonObject:
    """Record an object without unknown metadata fields."""
    pruned_object: JsonObject = obj
    if isinstance(obj.get("metadata"), dict):
        pruned = Pruner().prune({"metadata": obj["metadata"]}, None, resource=True)
        pruned_object = {**obj, "metadata": pruned["metadata"]}
    objects[path] = pruned_object
    return pruned_object


def _without_label(cause: Cause) -> FieldError:
    return FieldError(FieldErrorType.INVALID, cause.field, OMITTED, cause.message.removeprefix("Invalid value: "))
