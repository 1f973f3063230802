"""Owners of fields, and types that are inferred from them."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.children.field_types import built_in_type, custom_type
from opsdk.children.ownership import applied_by, fields_to_own, managers_of, owner_of, owns
from opsdk.errors import PatchError
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet


def entry(name: str, fields: dict[str, Any], *, operation: str = "Apply", subresource: str = "", time: str = "") -> Any:
    """An entry of managedFields."""
    fixed = {"manager": name, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    return fixed | ({"subresource": subresource} if subresource else {}) | ({"time": time} if time else {})


def tree(*entries: Any) -> Any:
    """An object with managers."""
    return {"metadata": {"managedFields": list(entries)}}


def test_the_own_entry_is_that_of_applies_to_the_object() -> None:
    """Updates, other managers and applies to subresources do not count."""
    spec, status = {"f:spec": {"f:a": {}}}, {"f:status": {"f:a": {}}}
    managers = managers_of(
        tree(
            entry("me", {}, operation="Update"),
            entry("me", status, subresource="status"),
            entry("you", {}),
            entry("me", spec),
        )
    )
    own = applied_by(managers, "me")
    assert own is not None
    assert own.fields == FieldSet.of(("f:spec", "f:a"))
    assert applied_by(managers, "nobody") is None


@pytest.mark.parametrize("broken", [{}, {"metadata": None}, {"metadata": {"managedFields": None}}, tree("text")])
def test_what_is_not_managed_has_no_managers(broken: Any) -> None:
    """An object without managedFields, such as a stripped one of a cache, has no managers."""
    assert managers_of(broken) == []


def test_a_malformed_entry_owns_nothing() -> None:
    """A malformed entry of managedFields owns nothing, but its manager is known."""
    (manager,) = managers_of(tree(entry("me", {"x": {}})))
    assert (manager.name, manager.fields) == ("me", EMPTY)


def test_the_last_owner_of_a_field_is_found() -> None:
    """The last owner of a field or of one below it is found; the field manager itself is left out."""
    data = {"f:data": {"f:x": {}}}
    early, late = (
        entry("early", data, time="2026-01-01T00:00:00Z"),
        entry("late", data, operation="Update", time="2026-01-02T00:00:00Z"),
    )
    managers = managers_of(tree(early, late, entry("me", data, time="2026-01-03T00:00:00Z")))
    for path in (("f:data",), ("f:data", "f:x")):
        owner = owner_of(managers, path, besides="me")
        assert owner is not None
        assert (owner.name, owner.time) == ("late", "2026-01-02T00:00:00Z")
    assert owner_of(managers, ("f:data", "f:y"), besides="me") is None
    assert not owns(EMPTY, ())


def test_identity_and_status_are_not_owned() -> None:
    """Labels are; keys of list items are; an empty list with keys owns nothing."""
    pod = built_in_type(GroupVersionKind("", "v1", "Pod"))
    assert pod is not None
    desired = {
        "apiVersion": "v1",
        "kind": "Pod",
        "status": {"phase": "x"},
        "metadata": {"name": "a", "namespace": "b", "labels": {"l": ""}, "resourceVersion": "7"},
        "spec": {"containers": [{"name": "c", "args": [], "env": []}]},
    }
    owned = fields_to_own(desired, pod.schema)
    item = 'k:{"name":"c"}'
    assert owned == FieldSet.of(
        ("f:metadata", "f:labels", "f:l"),
        ("f:spec", "f:containers", item),
        ("f:spec", "f:containers", item, "f:name"),
        ("f:spec", "f:containers", item, "f:args"),
    )
    with pytest.raises(PatchError):
        fields_to_own({"spec": {"containers": [7]}}, pod.schema)


def test_a_status_without_subresource_is_owned() -> None:
    """The status counts as owned where the kind has no status subresource."""
    schema = {"type": "object", "properties": {"status": {"type": "string"}}}
    assert fields_to_own({"status": "x"}, custom_type(schema).schema, ignored=EMPTY) == FieldSet.of(("f:status",))
