"""The table of types for `opsdk.children`."""

from __future__ import annotations

import pytest

from tools.generate.children import render_children, short_name

_REF = "#/components/schemas/"
_THING = "io.example.api.demo.v1.Thing"
_PART = "io.example.api.demo.v1.Part"
_KIND = [{"group": "demo", "version": "v1", "kind": "Thing"}]
SCHEMAS = {
    _THING: {
        "x-kubernetes-group-version-kind": _KIND,
        "properties": {
            "parts": {
                "type": "array",
                "items": {"$ref": _REF + _PART},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-strategy": "merge",
            },
            "status": {"$ref": _REF + "io.example.api.demo.v1.ThingStatus"},
        },
    },
    _PART: {"properties": {"name": {"type": "string", "default": ""}, "status": {"type": "string", "enum": ["a"]}}},
    "io.example.api.demo.v1.ThingStatus": {"properties": {"ready": {"type": "boolean"}}},
    "io.example.api.demo.v1.Unused": {"properties": {}},
}
ROWS = [
    {
        "group": "demo",
        "version": "v1",
        "resource": "things",
        "kind": "Thing",
        "verbs": ["get", "patch"],
        "namespaced": 1,
    },
    {
        "group": "demo",
        "version": "v1",
        "resource": "things",
        "kind": "Thing",
        "verbs": ["get"],
        "subresource": "status",
    },
    {"group": "demo", "version": "v1", "resource": "reviews", "kind": "Review", "verbs": ["create"], "namespaced": 0},
]
FIELDS = f"{_THING} TypeMeta/kind parts status=\n{_PART} embedded/name:v1.Name= status*\n"


def test_the_table_has_what_decides_about_an_apply() -> None:
    """Kinds that can be applied, their types without statuses, merging, defaults and marks; nothing else."""
    merging = '"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"]'
    parts = '{"type":"array","items":{"$ref":"demo.v1.Part"},' + merging + "}"
    assert render_children(SCHEMAS, ROWS, [FIELDS]).splitlines() == [
        "kind demo/v1/Thing demo.v1.Thing namespaced status",
        'type demo.v1.Part {"name":{"type":"string","default":"","x-go":"="},"status":{"type":"string","x-go":"*"}}',
        'type demo.v1.Thing {"parts":' + parts + ',"status":{"type":"object","x-go":"="}}',
    ]


def test_short_names_are_unique() -> None:
    """Two types that would have one name are an error of the generator, not one type."""
    twin = "org.example.other.demo.v1.Part"
    schemas = {**SCHEMAS, twin: SCHEMAS[_PART]}
    schemas[_THING] = {**SCHEMAS[_THING], "properties": {"a": {"$ref": _REF + _PART}, "b": {"$ref": _REF + twin}}}
    assert short_name(_PART) == short_name(twin)
    with pytest.raises(ValueError, match="same short name"):
        render_children(schemas, ROWS, [FIELDS])
