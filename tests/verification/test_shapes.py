"""Laws of Kubernetes' own shapes and of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from opsdk.apiserver.structural.node import SchemaNode
from opsdk.structured_merge.value import JsonValue
from opsdk.verification.workload.field_values import FieldValues
from opsdk.verification.workload.schema_fields import SchemaField
from opsdk.verification.workload.shapes import Shape, referenced_kind, shape_of
from opsdk.verification.workload.values import FieldValue, ValueClass
from tests.verification.public_definitions import AFFINITY, BACKUP, MESSAGE_BROKER, QUANTITY, RESOURCES, TOLERATIONS

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
CONTAINER = {"type": "object", "properties": {"name": STRING, "image": STRING}}
CLAIM = {
    "type": "object",
    "properties": {
        "accessModes": {"type": "array", "items": STRING},
        "resources": RESOURCES,
        "storageClassName": STRING,
    },
}
PROBE = {
    "type": "object",
    "properties": {
        "exec": {"type": "object", "properties": {"command": {"type": "array", "items": STRING}}},
        "periodSeconds": INTEGER,
    },
}
STRINGS = {"type": "object", "additionalProperties": STRING}


def field(name: str, schema: Mapping[str, Any], parent: str = "spec") -> SchemaField:
    """Return the field with a schema below a parent."""
    root = SchemaField((), SchemaNode({"type": "object", "properties": {parent: {"properties": {name: schema}}}}))
    return root.properties[parent].properties[name]


@pytest.mark.parametrize(
    ("name", "schema", "shape"),
    [
        ("resources", RESOURCES, Shape.RESOURCES),
        ("resources", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, Shape.RESOURCES),
        ("affinity", AFFINITY, Shape.AFFINITY),
        ("tolerations", TOLERATIONS, Shape.TOLERATIONS),
        ("livenessProbe", PROBE, Shape.PROBE),
        ("containers", {"type": "array", "items": CONTAINER}, Shape.CONTAINERS),
        ("volumeClaimTemplate", CLAIM, Shape.CLAIM),
        ("nodeSelector", STRINGS, Shape.NODE_SELECTOR),
        ("podAnnotations", STRINGS, Shape.LABELS),
        ("sidecarImage", STRING, Shape.IMAGE),
        ("readReplicas", INTEGER, Shape.REPLICAS),
        ("metricsPort", INTEGER, Shape.PORT),
        ("serviceType", STRING, Shape.SERVICE_TYPE),
        ("schedule", STRING, Shape.CRON_SCHEDULE),
        ("storageSize", STRING, Shape.STORAGE_SIZE),
        ("memory", QUANTITY, Shape.QUANTITY),
        ("tlsSecretName", STRING, Shape.REFERENCE),
        ("connectTimeout", STRING, Shape.DURATION),
        ("imagePullPolicy", STRING, None),
        ("type", STRING, None),
        ("schedule", {"type": "string", "enum": ["never"]}, None),
    ],
)
def test_shapes_are_recognised(name: str, schema: Mapping[str, Any], shape: Shape | None) -> None:
    """Structure and name decide on the shape."""
    assert shape_of(field(name, schema)) is shape


@pytest.mark.parametrize(
    ("name", "parent", "kind"),
    [
        ("secretName", "spec", "Secret"),
        ("name", "secretRef", "Secret"),
        ("name", "configMapRef", "ConfigMap"),
        ("name", "issuerRef", "Issuer"),
        ("name", "credentials", "Secret"),
        ("storageClassName", "spec", "StorageClass"),
        ("serviceAccountName", "spec", "ServiceAccount"),
        ("name", "user", ""),
        ("secretKey", "spec", ""),
    ],
)
def test_references_have_a_kind(name: str, parent: str, kind: str) -> None:
    """A field that names an object has the kind of it."""
    assert referenced_kind(field(name, STRING, parent)) == kind


def of_class(name: str, schema: Mapping[str, Any], current: JsonValue, value_class: ValueClass) -> list[JsonValue]:
    """Return the values of one class."""
    values: list[FieldValue] = FieldValues().values(field(name, schema), current)
    return [one.value for one in values if one.value_class is value_class]


def test_volumes_grow_and_shrinking_is_a_misoperation() -> None:
    """Values follow from the present size."""
    assert of_class("storageSize", STRING, "10Gi", ValueClass.VALID) == ["20Gi", "11Gi"]
    assert "5Gi" in of_class("storageSize", STRING, "10Gi", ValueClass.MISOPERATION)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    smaller = {**claim, "resources": {"requests": {"storage": "5Gi"}}}
    assert smaller in of_class("claim", CLAIM, claim, ValueClass.MISOPERATION)


def test_replicas_stay_few() -> None:
    """Harmless values scale up and down, to names of two digits; thousands of pods are not proposed."""
    schema = {"type": "integer", "format": "int32"}
    assert of_class("replicas", schema, 1, ValueClass.VALID) == [1, 2, 3, 11]
    assert of_class("replicas", schema, 1, ValueClass.MISOPERATION) == [-1]
    bounds = of_class("replicas", schema, 1, ValueClass.BOUNDARY)[:-1]
    assert all(isinstance(one, int) and one <= 11 for one in bounds)


def test_references_do_harm() -> None:
    """No generated name of a Secret is harmless: no such Secret exists."""
    assert of_class("secretName", STRING, "mine", ValueClass.VALID) == []
    assert of_class("secretName", {**STRING, "format": "uuid"}, "mine", ValueClass.MISOPERATION)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("resources", RESOURCES),
        ("affinity", AFFINITY),
        ("tolerations", TOLERATIONS),
        ("livenessProbe", PROBE),
        ("containers", {"type": "array", "items": CONTAINER}),
        ("claim", CLAIM),
        ("nodeSelector", STRINGS),
        ("image", STRING),
        ("schedule", STRING),
        ("timeout", STRING),
        ("port", INTEGER),
        ("memory", QUANTITY),
        ("serviceType", STRING),
    ],
)
def test_shapes_have_harmless_and_harmful_values(name: str, schema: Mapping[str, Any]) -> None:
    """Each shape has a value of both classes that its usual schema admits."""
    assert of_class(name, schema, None, ValueClass.VALID)
    assert of_class(name, schema, None, ValueClass.MISOPERATION)


@pytest.mark.parametrize("definition", [MESSAGE_BROKER, BACKUP])
def test_reasons_are_unique(definition: Mapping[str, Any]) -> None:
    """The values of a field differ, and so do their reasons."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for one in SchemaField((), SchemaNode(schema)).walk():
        values = FieldValues().values(one, None)
        assert len({value.reason for value in values}) == len({repr(value.value) for value in values}) == len(values)
