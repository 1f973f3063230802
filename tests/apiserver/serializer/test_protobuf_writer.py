"""Protobuf responses: round trips, and clients that accept only protobuf."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_caller import Caller

from envtest.data.messages import fields_of, message_for, reader, write_protobuf
from envtest.data.resources import rows
from envtest.environment import Environment
from opsdk.apiserver.serializer.protobuf import ProtobufField, envelope
from opsdk.apiserver.serializer.protobuf_writer import ProtobufWriter, watch_frame
from opsdk.errors import EncodeError
from opsdk.structured_merge.value import JsonObject

PROTOBUF = "application/vnd.kubernetes.protobuf"
PODS = "/api/v1/namespaces/default/pods"
POD: JsonObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"b": "2", "a": "1"}, "creationTimestamp": "2024-02-29T23:59:59Z"},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "100m"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": "web"}},
                "livenessProbe": {"tcpSocket": {"port": 8080}},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "secret": {"secretName": "s", "defaultMode": 420}}],
        "terminationGracePeriodSeconds": 30,
    },
}
DEFINITION: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "a.b.c"},
    "spec": {
        "group": "b.c",
        "versions": [
            {
                "name": "v1",
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "n": {"type": "number", "minimum": -0.5, "default": {"x": [1, None]}, "enum": [1, "2"]},
                            "m": {"type": "object", "additionalProperties": {"type": "string"}},
                            "l": {"type": "array", "items": {"type": "integer", "format": "int64"}},
                        },
                    }
                },
            }
        ],
    },
}

WIDGETS: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
CUSTOM = "/apis/example.com/v1/namespaces/default/widgets"


def read(body: bytes) -> JsonObject:
    """A body as a tree."""
    unknown = envelope(body)
    tree = reader().read(unknown.raw, message_for(unknown.api_version, unknown.kind))
    return {"apiVersion": unknown.api_version, "kind": unknown.kind, **tree}


@pytest.mark.parametrize("obj", [POD, DEFINITION], ids=["pod", "definition"])
def test_what_is_written_is_read_again(obj: JsonObject) -> None:
    """Inline parts, maps, times, quantities, numbers or texts, schemas: all of them come back."""
    assert read(write_protobuf(obj)) == obj


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
    st.lists(st.integers(-(2**31), 2**31 - 1)),
    st.floats(allow_nan=False),
    st.binary(max_size=20),
)
def test_any_value_survives_a_round_trip(texts: dict[str, str], numbers: list[int], number: float, raw: bytes) -> None:
    """Every value survives a protobuf round trip."""
    import base64

    from opsdk.apiserver.serializer.protobuf import ProtobufReader

    fields = {
        1: ProtobufField("texts", "string,string", map=True),
        2: ProtobufField("numbers", "int32", repeated=True),
        3: ProtobufField("number", "double"),
        70_000: ProtobufField("raw", "bytes"),
    }
    messages = {"m": fields}
    tree = {"texts": texts, "numbers": numbers, "number": number, "raw": base64.b64encode(raw).decode()}
    back = ProtobufReader(messages.get, lambda *_: False).read(ProtobufWriter(messages.get).write(tree, "m"), "m")
    assert {"texts": {}, "numbers": [], **back} == tree


def test_what_is_null_in_a_map_is_empty() -> None:
    """A null in a map keeps its key, with Go's zero value."""
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {"a": None, "b": "eA=="}}
    assert read(write_protobuf(secret))["data"] == {"a": "", "b": "eA=="}
    status = {"disruptedPods": {"a": None, "b": "2024-02-29T23:59:59Z"}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "status": status}
    assert read(write_protobuf(budget))["status"] == status


def test_null_among_values_is_no_text() -> None:
    """A null that stands among JSON values is an empty message, as Go has it."""
    schema = {"openAPIV3Schema": {"enum": ["a", None]}}
    body = write_protobuf({**DEFINITION, "spec": {"versions": [{"schema": schema}]}})
    assert b"null" not in body
    assert read(body)["spec"]["versions"][0]["schema"] == schema


def test_json_inside_keeps_its_letters() -> None:
    """JSON within a message is written as Go writes it, without numeric escapes."""
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": {"a": "é世"}}
    body = write_protobuf(revision)
    assert '{"a":"é世"}'.encode() in body
    assert read(body)["data"] == {"a": "é世"}


@pytest.mark.parametrize(("number", "shown"), [(2.0, "2"), (-0.5, "-0.5"), (1e20, "1" + "0" * 20), (1e21, "1e+21")])
def test_whole_numbers_have_no_fraction(number: float, shown: str) -> None:
    """A whole double has no fraction in JSON, until it needs an exponent."""
    schema = {"openAPIV3Schema": {"minimum": number}}
    definition = {**DEFINITION, "spec": {"versions": [{"schema": schema}]}}
    back = read(write_protobuf(definition))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["minimum"]
    assert json.dumps(back) == shown


def test_what_does_not_fit_is_an_error() -> None:
    """A value that does not fit its message is an error that names the field."""
    with pytest.raises(EncodeError, match=r"ObjectMeta\.name cannot be 5"):
        write_protobuf({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}})
    with pytest.raises(EncodeError, match=r"unknown message k8s\.io\.api\.core\.v1\.Nothing"):
        write_protobuf({"apiVersion": "v1", "kind": "Nothing"})


def test_every_built_in_kind_has_its_message() -> None:
    """Every built-in kind has a protobuf message, as does its list."""
    missing = []
    for row in rows():
        info = row.info
        kinds = [info.kind, f"{info.kind}List"] if "list" in row.verbs else [info.kind]
        missing += [kind for kind in kinds if fields_of(message_for(info.kind_api_version, kind)) is None]
    assert not missing


async def test_clients_that_take_nothing_else_get_it() -> None:
    """Clients that accept only protobuf get objects, lists, metadata and errors in it."""
    async with Environment() as env:
        call = Caller(env)
        plain = (await call("POST", PODS, POD)).json
        response = await call("GET", f"{PODS}/p", accept=PROTOBUF)
        assert response.headers["content-type"] == PROTOBUF
        assert shorn(read(response.raw)) == shorn(plain)
        listed = read((await call("GET", PODS, accept=PROTOBUF)).raw)
        assert listed["kind"] == "PodList"
        assert [item["metadata"]["name"] for item in listed["items"]] == ["p"]
        partial = await call("GET", f"{PODS}/p", accept=f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        assert read(partial.raw)["metadata"]["uid"] == plain["metadata"]["uid"]
        lost = await call("GET", f"{PODS}/q", accept=PROTOBUF)
        assert (lost.status, read(lost.raw)["reason"]) == (404, "NotFound")
        table = await call("GET", PODS, accept=f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1")
        assert table.status == 406


async def test_the_order_of_the_client_counts() -> None:
    """Protobuf is used if it comes first; for custom resources only for metadata."""
    async with Environment(crds=[WIDGETS]) as env:
        call = Caller(env)
        for path, accept, media in [
            (PODS, f"{PROTOBUF},application/json", PROTOBUF),
            (PODS, f"{PROTOBUF}, */*", PROTOBUF),
            (PODS, f"application/json,{PROTOBUF}", "application/json"),
            (f"{PODS}/lost", f"{PROTOBUF}, */*", PROTOBUF),
            (f"{PODS}/lost", f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json"),
            (CUSTOM, f"{PROTOBUF}, */*", "application/json"),
            (CUSTOM, f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, */*", PROTOBUF),
            (f"{CUSTOM}/lost", f"{PROTOBUF}, */*", PROTOBUF),
        ]:
            assert (await call("GET", path, accept=accept)).headers["content-type"] == media, (path, accept)


async def test_streams_come_in_frames() -> None:
    """Watch frames have a length of four bytes, then an event with its object."""
    async with Environment() as env:
        call = Caller(env)
        stored = (await call("POST", PODS, POD)).json
        answer = await call("GET", f"{PODS}?watch=1&timeoutSeconds=1", accept=PROTOBUF)
        assert answer.headers["content-type"] == f"{PROTOBUF};stream=watch"
        size = int.from_bytes(answer.raw[:4], "big")
        assert len(answer.raw) == size + 4
        body = answer.raw[answer.raw.index(b"k8s\0") :]
        assert answer.raw == watch_frame("ADDED", body)
        assert shorn(read(body)) == shorn(stored)


def shorn(obj: Any) -> Any:
    """Without empty parts: a message does not tell them from none."""
    if isinstance(obj, list):
        return [shorn(item) for item in obj]
    if not isinstance(obj, dict):
        return obj
    tree = {key: shorn(value) for key, value in obj.items() if key != "managedFields"}
    return json.loads(json.dumps({key: value for key, value in tree.items() if value not in ({}, [], "", 0, False)}))
