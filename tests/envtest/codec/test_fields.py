"""Encoded fields: zeros behind pointers, mandatory parts, and no other empty fields."""

from __future__ import annotations

import random
from typing import Any

import pytest
from server_caller import Caller

from envtest.codec.decode_context import DecodeContext
from envtest.codec.decoder import Decoders
from envtest.data.fields import NULL, PLAIN, POINTER, SHOWN, forms, pointers
from envtest.data.messages import fields_of, message_of, reader, write_protobuf
from envtest.data.resources import rows
from envtest.data.schemas import types
from envtest.environment import Environment
from opsdk.apiserver.serializer.protobuf import envelope
from opsdk.structured_merge.value import JsonObject

_REF = "#/components/schemas/"
_PLANS = Decoders(types())
_SPECIAL = {
    "Time": "2024-02-29T23:59:59Z",
    "MicroTime": "2024-02-29T23:59:59.000001Z",
    "Quantity": "1Gi",
    "IntOrString": 0,
    "RawExtension": {"a": [1, None]},
    "FieldsV1": {"f:a": {}},
    "JSON": {"a": ""},
    "JSONSchemaPropsOrBool": False,
    "JSONSchemaPropsOrStringArray": ["a"],
}
"""Values of types with a wire form of their own."""


def read(name: str, tree: JsonObject) -> JsonObject:
    """An object as it is after its body was read."""
    created: JsonObject = _PLANS.struct(name)(tree, DecodeContext())
    return created


def value(schema: JsonObject, rng: random.Random, depth: int) -> Any:
    """Some value of a schema; zeros are common."""
    ref = schema["allOf"][0]["$ref"] if "allOf" in schema else schema.get("$ref", "")
    if ref:
        name = ref.removeprefix(_REF)
        short = name.rpartition(".")[2]
        if short == "JSONSchemaPropsOrArray":
            return instance(name.removesuffix("OrArray"), rng, depth + 1)
        return _SPECIAL[short] if short in _SPECIAL else instance(name, rng, depth + 1)
    match schema.get("type"):
        case "string":
            return rng.choice(["", "eA=="])
        case "boolean":
            return rng.random() < 0.5
        case "integer":
            return rng.choice([0, 0, 7])
        case "number":
            return rng.choice([0, 1.5])
        case "array":
            return [value(schema["items"], rng, depth + 1) for _ in range(rng.randrange(3))]
        case "object" if "additionalProperties" in schema:
            return {key: value(schema["additionalProperties"], rng, depth + 1) for key in "ab"[: rng.randrange(3)]}
    return {"a": 1}


def instance(name: str, rng: random.Random, depth: int = 0) -> JsonObject:
    """Some object of a type, shallower as it goes down."""
    schema = types().schema(name) or {}
    # The kind of an object inside another has no place in protobuf.
    unsaid = ("kind", "apiVersion") if "x-kubernetes-group-version-kind" in schema else ()
    properties = {key: inner for key, inner in schema.get("properties", {}).items() if key not in unsaid}
    chance = 0.7 if depth < 4 else 0.2 if depth < 8 else 0.0
    return {key: value(inner, rng, depth) for key, inner in properties.items() if rng.random() < chance}


KINDS = sorted({name for row in rows() if (name := types().name_of(row.info.group, row.info.version, row.info.kind))})


@pytest.mark.parametrize("name", [name for name in types() if (types().schema(name) or {}).get("properties")])
def test_every_field_has_its_mark(name: str) -> None:
    """The table and the schemas have the same fields, and only fields that can be zero are pointers."""
    schema = types().schema(name) or {}
    marks = forms(name)
    assert set(marks) == set(schema["properties"])
    assert set(marks.values()) <= {PLAIN, POINTER, SHOWN, NULL}
    for field in pointers(name) - {f for f, mark in marks.items() if mark == NULL}:
        assert schema["properties"][field].get("type") not in ("array", "object"), field


@pytest.mark.parametrize("name", KINDS)
def test_reading_twice_changes_nothing(name: str) -> None:
    """Decoding a decoded object changes nothing."""
    for seed in range(20):
        once = read(name, instance(name, random.Random(seed)))
        assert read(name, once) == once


def without_empty_lists(value: Any) -> Any:
    """A tree whose empty lists are not there at all."""
    if isinstance(value, dict):
        return {key: without_empty_lists(part) for key, part in value.items() if part != []}
    return [without_empty_lists(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", [name for name in KINDS if fields_of(message_of(name)) is not None])
def test_both_forms_of_a_body_are_read_alike(name: str) -> None:
    """An object is the same, whether it came as JSON or as protobuf."""
    gvk = (types().schema(name) or {})["x-kubernetes-group-version-kind"][0]
    head = {"kind": gvk["kind"], "apiVersion": f"{gvk['group']}/{gvk['version']}".lstrip("/")}
    for seed in range(20):
        sent = {**instance(name, random.Random(seed)), **head}
        if sent.get("metadata", {}).get("managedFields") == []:
            del sent["metadata"]["managedFields"]  # a wish that protobuf cannot express
        if gvk["kind"] == "CustomResourceDefinition":
            sent = without_empty_lists(sent)  # which protobuf has no way to say
        body = envelope(write_protobuf(sent)).raw
        assert read(name, {**head, **reader().read(body, message_of(name))}) == read(name, sent)


def test_zeros_behind_pointers_stay() -> None:
    """A zero value behind a pointer is kept, because it differs from a missing one."""
    claim = "io.k8s.api.core.v1.PersistentVolumeClaim"
    assert read(claim, {"spec": {"storageClassName": "", "volumeName": ""}})["spec"] == {
        "storageClassName": "",
        "resources": {},
    }
    assert read("io.k8s.api.core.v1.PersistentVolume", {"spec": {"storageClassName": ""}})["spec"] == {}
    spec = read("io.k8s.api.core.v1.ReplicationController", {"spec": {"minReadySeconds": 0, "replicas": 0}})["spec"]
    assert spec == {"replicas": 0}


def test_fields_without_omitempty_are_written() -> None:
    """Fields without omitempty are written as null or as their zero value."""
    driver = read("io.k8s.api.storage.v1.CSINodeDriver", {"name": "a", "nodeID": "b"})
    assert driver == {"name": "a", "nodeID": "b", "topologyKeys": None}
    assert read("io.k8s.api.core.v1.TypedLocalObjectReference", {"kind": "K"}) == {
        "apiGroup": None,
        "kind": "K",
        "name": "",
    }
    assert read("io.k8s.api.core.v1.TCPSocketAction", {}) == {"port": 0}


async def test_a_new_attachment_is_not_attached() -> None:
    """The status of a new VolumeAttachment is ``attached: false``."""
    spec = {"attacher": "a.io", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    async with Environment() as env:
        response = await Caller(env)(
            "POST", "/apis/storage.k8s.io/v1/volumeattachments", {"metadata": {"name": "a"}, "spec": spec}
        )
        assert response.json["status"] == {"attached": False}
