"""Embedded objects."""

from __future__ import annotations

import pytest

from opsdk.apiserver.structural.embedded import change_embedded, check_embedded, check_types, check_values
from opsdk.apiserver.structural.node import SchemaNode
from opsdk.structured_merge.value import JsonObject

OBJECT: JsonObject = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}
NODE = SchemaNode(
    {
        "type": "object",
        "properties": {
            "a": {**OBJECT, "properties": {"inner": OBJECT}},
            "l": {"type": "array", "items": OBJECT},
            "m": {"type": "object", "additionalProperties": OBJECT},
            "x": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
)


def test_every_object_is_found_at_its_place() -> None:
    """In fields, lists, maps and other objects, from the innermost outwards; nothing else is one."""
    places: list[str] = []

    def note(obj: JsonObject, place: str) -> JsonObject:
        places.append(place)
        return obj

    tree = {"a": {"inner": {}}, "l": [{}, 5, {}], "m": {"k": {}}, "x": {"kind": "K"}}
    assert change_embedded(tree, NODE, note) is tree
    assert places == ["a.inner", "a", "l[0]", "l[2]", "m[k]"]


def test_what_changes_is_copied_and_the_rest_is_shared() -> None:
    """The tree itself stays as it was."""
    tree: JsonObject = {"a": {"inner": {}}, "x": {}}
    created = change_embedded(tree, NODE, lambda obj, place: {**obj, "at": place})
    assert created == {"a": {"inner": {"at": "a.inner"}, "at": "a"}, "x": {}}
    assert tree == {"a": {"inner": {}}, "x": {}}
    assert created["x"] is tree["x"]


@pytest.mark.parametrize(
    ("obj", "field", "start"),
    [
        ({"apiVersion": "", "kind": "K"}, "a.apiVersion", 'Invalid value: "": must not be empty'),
        ({"apiVersion": "a/b/c"}, "a.apiVersion", 'Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'),
        ({"kind": "_"}, "a.kind", 'Invalid value: "_": may have mixed case, but should otherwise match: a DNS-1035'),
        ({"metadata": {"generation": -1}}, "a.metadata.generation", "Invalid value: -1: must be greater"),
        ({"metadata": {"namespace": "_"}}, "a.metadata.namespace", 'Invalid value: "_": a lowercase RFC 1123 label'),
        ({"metadata": {"labels": {"a": "_"}}}, "a.metadata.labels", 'Invalid value: "_": a valid label must be'),
        ({"metadata": {"finalizers": ["_"]}}, "a.metadata.finalizers", 'Invalid value: "_": name part must consist'),
    ],
)
def test_what_holds_for_every_object(obj: JsonObject, field: str, start: str) -> None:
    """The type and the metadata of an embedded object follow the rules of every object."""
    (error,) = check_embedded({"a": {"apiVersion": "v1", "kind": "K", **obj}}, NODE)
    assert error.field == field
    assert error.body.startswith(start)


def test_errors_come_object_by_object() -> None:
    """An invalid value of the first object precedes a missing one of the second."""
    errors = check_embedded({"l": [{"apiVersion": "a/b/c", "kind": "K"}, {"apiVersion": "v1"}, {}]}, NODE)
    assert [str(error) for error in errors] == [
        'l[0].apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
        "l[1].kind: Required value",
        "l[2].apiVersion: Required value",
        "l[2].kind: Required value",
    ]


def test_names_inside_may_be_anything() -> None:
    """The name of an embedded object is not validated, because its kind's rule is unknown."""
    assert check_embedded({"a": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "_"}}}, NODE) == []


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        ({"name": "a/b"}, "metadata.name"),
        ({"name": ".."}, "metadata.name"),
        ({"generateName": "%"}, "metadata.generateName"),
        ({"name": "Any Thing"}, ""),
        ({"managedFields": [{"operation": "Other"}]}, "metadata.managedFields[0].operation"),
        ({"managedFields": [{"operation": "Apply", "fieldsType": "X"}]}, "metadata.managedFields[0].fieldsType"),
    ],
)
def test_metadata_inside_follows_the_rules_of_all_objects(meta: JsonObject, told: str) -> None:
    """A name may be anything that can stand in a path."""
    assert [cause.field for cause in check_values({"metadata": meta})] == ([told] if told else [])


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        ({"apiVersion": 1}, "apiVersion: Invalid value: 1: must be a string"),
        (
            {"metadata": 1},
            "metadata: Invalid value: 1: json: cannot unmarshal number into Go value of type v1.ObjectMeta",
        ),
        (
            {"metadata": {"labels": {"a": 1}}},
            (
                'metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go struct field'
                " ObjectMeta.labels of type string"
            ),
        ),
        ({"kind": "K", "metadata": {"name": "n", "labels": {"a": "b"}, "generation": None}}, ""),
    ],
)
def test_embedded_type_errors_have_the_decoders_text(obj: JsonObject, told: str) -> None:
    """A wrong type in an embedded object's metadata is an error with the decoder's text."""
    assert [f"{cause.field}: {cause.message}" for cause in check_types(obj)] == ([told] if told else [])
