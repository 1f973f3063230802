"""Types of fields."""

from __future__ import annotations

import pytest

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.children.field_types import UNTYPED, FieldType, Form, built_in_type, custom_type
from opsdk.structured_merge.schema import Topology


def type_at(root: FieldType | None, path: str) -> FieldType:
    """The type of a field; ``[]`` are the items."""
    assert root is not None
    for name in path.split("."):
        root = root.field(name.removesuffix("[]"))
        if name.endswith("[]"):
            root = root.item()
    return root


@pytest.mark.parametrize(
    ("path", "form", "mark"),
    [
        ("metadata.creationTimestamp", Form.TIME, ""),
        ("metadata.labels", Form.MAP, ""),
        ("spec.containers", Form.LIST, "?"),
        ("spec.containers[].resources.limits", Form.MAP, ""),
        ("spec.containers[].livenessProbe.httpGet.port", Form.INT_OR_STRING, "="),
        ("spec.containers[].env[].value", Form.TEXT, ""),
        ("spec.securityContext.runAsNonRoot", Form.BOOLEAN, "*"),
        ("spec.terminationGracePeriodSeconds", Form.NUMBER, "*"),
        ("spec.volumes[].emptyDir.sizeLimit", Form.QUANTITY, ""),
        ("spec.volumes[]", Form.STRUCT, ""),
    ],
)
def test_fields_have_the_form_and_mark_of_go(path: str, form: Form, mark: str) -> None:
    """Formats and omitempty marks of built-in fields match the server's Go types."""
    field_type = type_at(built_in_type(GroupVersionKind("", "v1", "Pod")), path)
    assert field_type.form is form
    assert field_type.mark in (mark, "*" if form is Form.QUANTITY else mark)


def test_schemas_and_types_go_side_by_side() -> None:
    """Each field has the merge rules of its own place, also where many fields share one type."""
    pod = built_in_type(GroupVersionKind("", "v1", "Pod"))
    assert type_at(pod, "spec.containers").schema.list_keys == ("name",)
    assert type_at(pod, "spec.containers[].args").schema.topology is Topology.LIST_ATOMIC
    assert type_at(pod, "spec.volumes[].projected.sources").schema.topology is Topology.LIST_ATOMIC
    assert type_at(pod, "metadata.ownerReferences").schema.list_keys == ("uid",)


def test_metadata_of_custom_resources_is_built_in() -> None:
    """Metadata is canonicalized also in embedded resources; other fields keep empty values."""
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    root = custom_type({"type": "object", "properties": {"inner": embedded}})
    for metadata in (root.field("metadata"), root.field("inner").field("metadata")):
        assert (metadata.custom, metadata.form) == (False, Form.STRUCT)
        assert metadata.field("labels").form is Form.MAP
    assert root.field("inner").custom
    assert root.field("nothing") is UNTYPED


def test_types_that_contain_themselves_compile() -> None:
    """Each level when it is used."""
    crd = built_in_type(GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"))
    deep = type_at(crd, "spec.versions[].schema.openAPIV3Schema")
    for _ in range(20):
        deep = deep.field("properties").item()
    assert deep.name == "apiextensions.v1.JSONSchemaProps"
