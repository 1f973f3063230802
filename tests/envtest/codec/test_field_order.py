"""The order of fields, and the format of response bodies."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from server_caller import Caller

from envtest.codec.field_order import arranger
from envtest.data.fields import forms
from envtest.data.schemas import types
from envtest.environment import Environment
from opsdk.apiserver.endpoints.response import compact
from opsdk.structured_merge.value import JsonObject

POD = "io.k8s.api.core.v1.Pod"
PODS = "/api/v1/namespaces/default/pods"
WIDGETS: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
CUSTOM = "/apis/example.com/v1/namespaces/default/widgets"


def shuffled(value: Any, rng: random.Random) -> Any:
    """The same, with the fields of every object in some order."""
    if isinstance(value, list):
        return [shuffled(item, rng) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: shuffled(value[key], rng) for key in rng.sample(sorted(value), len(value))}


FULL: JsonObject = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "1", "b": "2"}},
    "spec": {
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}], "resources": {}}],
        "restartPolicy": "Always",
        "nodeSelector": {"x": "", "y": ""},
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
    "status": {"phase": "Pending", "qosClass": "BestEffort"},
}


@pytest.mark.parametrize("seed", range(10))
def test_any_order_becomes_that_of_the_type(seed: int) -> None:
    """Fields come in the order of their type, keys of maps sorted, whatever the order they came in."""
    unordered = shuffled(FULL, random.Random(seed))
    before = json.dumps(unordered)
    assert json.dumps(arranger(POD)(unordered)) == json.dumps(FULL)
    assert json.dumps(unordered) == before, "nothing is changed in place"


@pytest.mark.parametrize("name", [name for name in types() if forms(name)])
def test_complete_objects_follow_the_field_order(name: str) -> None:
    """A complete object is written in the order of the generated table."""
    places = list(forms(name))
    assert list(arranger(name)(dict.fromkeys(sorted(places)))) == places


async def test_built_in_objects_are_written_in_the_order_of_their_types() -> None:
    """After a create, an update and a patch, fields are in the order of the type, with apiVersion in its place."""
    spec = {"containers": [{"image": "i", "name": "c"}]}
    async with Environment() as env:
        call = Caller(env)
        response = await call("POST", PODS, {"spec": spec, "metadata": {"labels": {"b": "", "a": ""}, "name": "p"}})
        await call("PATCH", f"{PODS}/p", b'{"metadata":{"annotations":{"x":"y"}}}', content_type=MERGE)
        for answer in (response, await call("GET", f"{PODS}/p")):
            stored = answer.json
            assert json.dumps(arranger(POD)(stored)) == json.dumps(stored)
        assert [*stored["metadata"]][:5] == ["name", "namespace", "uid", "resourceVersion", "generation"]


MERGE = "application/merge-patch+json"


async def test_custom_objects_are_sorted() -> None:
    """Custom objects are written with sorted keys; only their metadata follows the type."""
    async with Environment(crds=[WIDGETS]) as env:
        call = Caller(env)
        await call(
            "POST",
            CUSTOM,
            {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}, "b": 1, "a": 2},
        )
        for path in (CUSTOM, f"{CUSTOM}/w", f"{CUSTOM}?watch=1&resourceVersion=0&timeoutSeconds=1"):
            answer = await call("GET", path)
            document = json.loads(answer.raw)
            document = document.get("object", document)
            assert json.dumps(document) == json.dumps(document, sort_keys=True)
        meta = (
            await call("GET", f"{CUSTOM}/w", accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        ).json
        assert [*meta] == ["kind", "apiVersion", "metadata"]


async def test_a_body_for_machines_is_one_line() -> None:
    """Compact objects, lists and errors are one line with a newline; pretty output has no final newline."""
    async with Environment() as env:
        call = Caller(env)
        for path in (PODS, f"{PODS}/lost", "/api/v1"):
            assert (await call("GET", path)).raw.endswith(b"}\n")
            assert (await call("GET", path)).raw.count(b"\n") == 1
        assert (await call("GET", f"{PODS}?pretty=1")).raw.endswith(b"\n}")


def test_html_characters_are_escaped() -> None:
    """HTML characters and line separators are escaped in JSON, as Go's encoder does."""
    text = "<a&b>\u2028\u2029é"
    raw = compact({"t": text})
    assert raw == rb'{"t":"\u003ca\u0026b\u003e\u2028\u2029' + 'é"}'.encode()
    assert json.loads(raw) == {"t": text}


async def test_definitions_are_in_order_with_their_status() -> None:
    """The status that the server writes into a CustomResourceDefinition follows the field order too."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with Environment(crds=[WIDGETS]) as env:
        stored = (await Caller(env)("GET", f"{path}/widgets.example.com")).json
        name = types().name_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition") or ""
        assert [*stored["status"]["acceptedNames"]] == ["plural", "singular", "kind", "listKind"]
        assert json.dumps(arranger(name)(stored)) == json.dumps(stored)
