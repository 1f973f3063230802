"""Defaults inside a CRD's schema: they must be what the schema itself allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opsdk.apiserver.field_errors import FieldError, forbidden, invalid
from opsdk.apiserver.structural.node import Node
from opsdk.apiserver.structural.pruning import Pruner
from opsdk.apiserver.structural.rule_places import has_rules
from opsdk.apiserver.structural.validation import Validator
from opsdk.tree.paths import FieldPath


def check_defaults(schema: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    """What is wrong with the defaults in `schema`, whose values are whole objects."""
    yield from _check(schema, path, resource=True, top=True)


def _check(schema: Mapping[str, Any], path: FieldPath, *, resource: bool, top: bool = False) -> Iterator[FieldError]:
    resource = resource or bool(schema.get("x-kubernetes-embedded-resource"))
    default = schema.get("default")
    if default is not None:
        yield from _check_default(schema, default, path.child("default"), resource=resource)
    for name in sorted(schema.get("properties") or {}):
        at, below = path.child("properties").key(name), schema["properties"][name]
        if top and name == "metadata":
            yield from _none_inside(below, at)
        else:
            yield from _check(below, at, resource=False)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            yield from _check(schema[keyword], path.child(keyword), resource=False)


def _none_inside(schema: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    """The server alone fills in metadata."""
    if schema.get("default") is not None:
        yield forbidden(path.child("default"), "must not be set in top-level metadata")
    for name in sorted(schema.get("properties") or {}):
        yield from _none_inside(schema["properties"][name], path.child("properties").key(name))


def _check_default(schema: Mapping[str, Any], default: Any, path: FieldPath, *, resource: bool) -> Iterator[FieldError]:
    node = Node({**schema, "x-kubernetes-embedded-resource": resource})
    pruner = Pruner()
    pruner.prune(default, node, resource=resource)
    if pruner.unknown:
        yield invalid(path, default, "must not have unknown fields")
        return
    errors = Validator(str(path)).validate(default, node, "").errors
    yield from errors
    if not errors and has_rules(schema):
        from opsdk.apiserver.structural.rules import RuleTree  # noqa: PLC0415 - schemas without rules need no CEL

        yield from RuleTree(schema, resource=resource).evaluate(default, default, path, ratchet=False).errors
