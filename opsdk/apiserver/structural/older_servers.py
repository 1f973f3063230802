"""Finds what older API servers do not accept in a CustomResourceDefinition. Pure.

Upstream: k8s.io/apiserver/pkg/cel/environment/base.go (v1.36), and the types of k8s.io/apiextensions-apiserver
Deviates: what a newer cel-go adds to a library, such as `first` and `last` of lists, counts as that library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from opsdk.apiserver.expressions.environment import FEATURES, environment_without
from opsdk.apiserver.expressions.schema_types import declare
from opsdk.apiserver.structural.rule import CompiledRule
from opsdk.apiserver.structural.rule_locations import RULES, has_rules
from opsdk.cel.environment import CelEnvironment
from opsdk.errors import UsageError
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject, JsonValue

Schema = Mapping[str, JsonValue]
OLDEST: Final = 25
"""The first minor version whose servers evaluate rules by default."""
_RULE_FIELDS: Final = {"messageExpression": 27, "reason": 28, "fieldPath": 28, "optionalOldSelf": 30}
"""Fields of rules, with the minor version whose servers know them by default.

With `_SELECTABLE_FIELDS`, these are all that k8s.io/apiextensions-apiserver added to a version of a definition from
v0.25.0 to v0.36.0. The types of 1.29 have `optionalOldSelf`; its gate, CRDValidationRatcheting, is on since 1.30.
"""
_SELECTABLE_FIELDS: Final = 31
_EXPRESSIONS: Final = ("rule", "messageExpression")
_VERSION: Final = re.compile(r"v?1\.(?P<minor>\d+)(?:\.\d+)?(?:[-+].*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedPart:
    """A part of a definition that a server does not accept.

    Attributes:
        path: in the definition, such as ``v1.properties[spec].x-kubernetes-validations[0].rule``.
        reason: what it needs.
        minor: the first minor version of Kubernetes that accepts it.
    """

    path: str
    reason: str
    minor: int

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} since Kubernetes 1.{self.minor}"


def parse_minor(version: str) -> int:
    """Return the minor version of Kubernetes.

    Raises:
        UsageError: it is not a version, or older than the first one with rules.

    >>> parse_minor("1.35"), parse_minor("v1.31.2")
    (35, 31)
    """
    match = _VERSION.fullmatch(version.strip())
    if match is None:
        raise UsageError(f"{version!r} is not a version of Kubernetes: write it like 1.35")
    if (minor := int(match["minor"])) < OLDEST:
        raise UsageError(f"Kubernetes 1.{minor} has no rules in definitions: give 1.{OLDEST} or a newer version")
    return minor


def unsupported_parts(definition: JsonObject, minor: int) -> Iterator[UnsupportedPart]:
    """Yield what a server of a minor version does not accept in a valid definition, in the order of the definition."""
    server = environment_without(feature for feature in FEATURES if feature.minor > minor)
    for version in definition["spec"]["versions"]:
        path = FieldPath(version["name"])
        yield from _parts_of(version["schema"]["openAPIV3Schema"], path, minor, server, resource=True)
        if version.get("selectableFields") and minor < _SELECTABLE_FIELDS:
            yield _unknown_field(path.child("selectableFields"), _SELECTABLE_FIELDS)


def _unknown_field(path: FieldPath, minor: int) -> UnsupportedPart:
    return UnsupportedPart(path=str(path), reason="servers know this field", minor=minor)


def _parts_of(
    schema: Schema, path: FieldPath, minor: int, server: CelEnvironment, *, resource: bool = False
) -> Iterator[UnsupportedPart]:
    """Yield the parts of the rules of a schema and below it."""
    declared = declare(schema, "selfType", resource=resource) if schema.get(RULES) else None
    if declared is not None:
        for index, written in enumerate(schema[RULES]):
            rule, place = CompiledRule(written, declared, schema), path.child(RULES).index(index)
            for name, since in _RULE_FIELDS.items():
                if name in written and since > minor:
                    yield _unknown_field(place.child(name), since)
            yield from _expressions_of(rule, replace(rule, base=server), place, minor)
    for below, place in _children(schema, path):
        if has_rules(below):
            yield from _parts_of(below, place, minor, server)


def _children(schema: Schema, path: FieldPath) -> Iterator[tuple[Schema, FieldPath]]:
    for name, below in (schema.get("properties") or {}).items():
        yield below, path.child("properties").key(name)
    for name in ("items", "additionalProperties"):
        if isinstance(below := schema.get(name), Mapping):
            yield below, path.child(name)


def _expressions_of(
    rule: CompiledRule, on_server: CompiledRule, path: FieldPath, minor: int
) -> Iterator[UnsupportedPart]:
    for name, fault in zip(_EXPRESSIONS, _faults(on_server), strict=True):
        if not fault:
            continue
        # A feature is needed if the expression does not compile without it.
        for feature in FEATURES:
            if feature.minor <= minor:
                continue
            alone = replace(rule, base=_environment_lacking(feature.name))
            if _faults(alone)[_EXPRESSIONS.index(name)]:
                reason = f"the expression needs {feature.name}, which servers accept"
                yield UnsupportedPart(path=str(path.child(name)), reason=reason, minor=feature.minor)


@cache
def _environment_lacking(name: str) -> CelEnvironment:
    """Return the environment of a server that lacks one feature."""
    return environment_without(feature for feature in FEATURES if feature.name == name)


def _faults(rule: CompiledRule) -> Sequence[str]:
    return (rule.fault, rule.message_fault)
