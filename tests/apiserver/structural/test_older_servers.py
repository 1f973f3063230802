"""What older API servers do not accept in a definition."""

from __future__ import annotations

import re

import pytest

from opsdk.apiserver.expressions.environment import FEATURES, ExpressionFeature
from opsdk.apiserver.structural.older_servers import parse_minor, unsupported_parts
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue

# One expression for each feature, which needs no other one.
NEEDS = {
    "comparisons of numbers of different types": "self.size < 1.5",
    "optional values": "self.?name.orValue('') == ''",
    "the quantity library": "quantity(self.name).isInteger()",
    "version 2 of the strings library": "'%s'.format([self.name]) == 'a'",
    "the sets library": "sets.contains([self.name], ['a'])",
    "the IP address library": "isIP(self.name)",
    "the CIDR library": "isCIDR(self.name)",
    "the format library": "!format.dns1123Label().validate(self.name).hasValue()",
    "comprehensions with two variables": "[self.name].all(i, name, i < 1)",
    "the semver library": "isSemver(self.name)",
    "the lists library": "[self.name].distinct().size() == 1",
}


def definition(rules: list[JsonValue], **version: JsonValue) -> JsonObject:
    """Return a definition whose spec has rules."""
    properties = {"name": {"type": "string", "maxLength": 9}, "size": {"type": "integer"}}
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": rules}
    schema = {"type": "object", "properties": {"spec": spec}}
    versions = [{"name": "v1", "schema": {"openAPIV3Schema": schema}, **version}]
    return {"spec": {"versions": versions}}


@pytest.mark.parametrize("feature", FEATURES, ids=[feature.name for feature in FEATURES])
def test_a_feature_is_refused_before_its_version_only(feature: ExpressionFeature) -> None:
    """The sentence has the path, the feature, and the version; servers of that version accept the expression."""
    tree = definition([{"rule": NEEDS[feature.name]}])
    (before,) = (part for part in unsupported_parts(tree, feature.minor - 1) if feature.name in part.reason)
    path = "v1.properties[spec].x-kubernetes-validations[0].rule"
    text = f"the expression needs {feature.name}, which servers accept since Kubernetes 1.{feature.minor}"
    assert str(before) == f"{path}: {text}"
    assert not list(unsupported_parts(tree, 35))
    assert all(feature.name not in part.reason for part in unsupported_parts(tree, feature.minor))


@pytest.mark.parametrize(
    ("rule", "minor"),
    [
        ({"messageExpression": "self.name"}, 27),
        ({"reason": "FieldValueInvalid"}, 28),
        ({"fieldPath": ".name"}, 28),
        ({"rule": "self.size != oldSelf.orValue(self).size", "optionalOldSelf": True}, 30),
    ],
)
def test_a_field_of_a_rule_is_unknown_before_its_version(rule: dict[str, JsonValue], minor: int) -> None:
    """What a server does not know it drops, or refuses with strict field validation."""
    (field,) = rule.keys() - {"rule"}
    tree = definition([{"rule": "self.size < 3", **rule}])
    text = (
        f"v1.properties[spec].x-kubernetes-validations[0].{field}: servers know this field since Kubernetes 1.{minor}"
    )
    assert text in map(str, unsupported_parts(tree, minor - 1))
    assert not list(unsupported_parts(tree, minor))


def test_selectable_fields_are_unknown_before_their_version() -> None:
    """They are beside the schema."""
    tree = definition([], selectableFields=[{"jsonPath": ".spec.name"}])
    assert list(map(str, unsupported_parts(tree, 30))) == [
        "v1.selectableFields: servers know this field since Kubernetes 1.31"
    ]
    assert not list(unsupported_parts(tree, 31))


def test_all_expressions_of_a_schema_are_looked_at() -> None:
    """Those of elements, of entries and of messages too. A rule that needs two features has two sentences."""
    text = {"type": "string", "maxLength": 9}
    items = {**text, "x-kubernetes-validations": [{"rule": "isIP(self) || isCIDR(self)"}]}
    entries = {**text, "x-kubernetes-validations": [{"rule": "self != ''", "messageExpression": "'%s'.format([self])"}]}
    properties = {
        "list": {"type": "array", "maxItems": 9, "items": items},
        "map": {"type": "object", "maxProperties": 9, "additionalProperties": entries},
    }
    schema = {"type": "object", "properties": properties}
    tree: JsonObject = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    rules = "x-kubernetes-validations[0]"
    assert [(part.path, part.minor) for part in unsupported_parts(tree, 28)] == [
        (f"v1.properties[list].items.{rules}.rule", 31),
        (f"v1.properties[list].items.{rules}.rule", 31),
        (f"v1.properties[map].additionalProperties.{rules}.messageExpression", 30),
    ]


@pytest.mark.parametrize(
    ("version", "message"),
    [("new", "'new' is not a version of Kubernetes: write it like 1.35"), ("1.24", "give 1.25 or a newer version")],
)
def test_a_wrong_version_is_one_sentence(version: str, message: str) -> None:
    """It says what to write instead."""
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_minor(version)
