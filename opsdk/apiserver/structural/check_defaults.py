"""Defaults inside a CRD's schema: they must be what the schema itself allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opsdk.apiserver.field_errors import OMITTED, FieldError, FieldErrorType, invalid
from opsdk.apiserver.structural.embedded import check_embedded, check_metadata
from opsdk.apiserver.structural.node import Node
from opsdk.apiserver.structural.pruning import Pruner
from opsdk.apiserver.structural.rule_places import has_rules
from opsdk.apiserver.structural.validation import Validator
from opsdk.errors import Cause
from opsdk.tree.paths import FieldPath

Schema = Mapping[str, Any]
_OWNED = frozenset({"apiVersion", "kind", "metadata"})


def check_defaults(schema: Schema, path: FieldPath) -> Iterator[FieldError]:
    """What is wrong with the defaults in `schema`, whose values are whole objects.

    Those of arbitrary entries (``additionalProperties``) are not looked at.
    """
    yield from _check(schema, path, resource=True)


def _check(schema: Schema, path: FieldPath, *, resource: bool = False) -> Iterator[FieldError]:
    resource = resource or bool(schema.get("x-kubernetes-embedded-resource"))
    if schema.get("default") is not None:
        yield from _check_default(schema, path.child("default"), resource=resource)
    for name in sorted(schema.get("properties") or {}):
        if resource and name == "metadata":
            yield from _check_metadata(schema["properties"][name], path.child("properties").key(name).child("default"))
        if not (resource and name in _OWNED):
            yield from _check(schema["properties"][name], path.child("properties").key(name))
    if isinstance(schema.get("items"), Mapping):
        yield from _check(schema["items"], path.child("items"))


def _check_default(schema: Schema, path: FieldPath, *, resource: bool) -> Iterator[FieldError]:
    default = schema["default"]
    node = Node({**schema, "x-kubernetes-embedded-resource": resource}, mixed=True)
    pruner = Pruner()
    pruner.prune(default, node, resource=resource)
    unknown = [place for place in pruner.unknown if not (resource and place.startswith("metadata."))]
    if unknown:
        yield invalid(path, default, "must not have unknown fields")
    errors = Validator(str(path)).validate(default, node, "").errors
    if resource and not errors:
        errors = [_told(cause) for cause in check_embedded(default, node, str(path))]
    nameless = [error for error in errors if resource and _is_type(error, path)]
    yield from nameless or ([] if unknown else errors)
    if not errors and not unknown and has_rules(schema):
        from opsdk.apiserver.structural.rules import RuleTree  # noqa: PLC0415 - schemas without rules need no CEL

        yield from RuleTree(schema, resource=resource).evaluate(default, default, path, ratchet=False).errors


def _check_metadata(schema: Schema, path: FieldPath) -> Iterator[FieldError]:
    default = schema.get("default")
    if isinstance(default, dict):
        for cause in check_metadata(default):
            yield invalid(path, default, f"must result in valid metadata: {cause.field}: {cause.message}")


def _told(cause: Cause) -> FieldError:
    return FieldError(FieldErrorType.INVALID, cause.field, OMITTED, cause.message.removeprefix("Invalid value: "))


def _is_type(error: FieldError, path: FieldPath) -> bool:
    """Whether a whole object does not say what it is: then nothing else is asked of it."""
    return error.type is FieldErrorType.REQUIRED and error.field in (f"{path}.apiVersion", f"{path}.kind")
