"""OpenAPI v3 documents, and what v2 omits."""

from __future__ import annotations

from typing import Any

import pytest
from server_caller import Caller

from envtest.environment import Environment
from envtest.extensions.openapi import published
from envtest.plane import control_plane
from opsdk.apiserver.endpoints.openapi.v2 import definition
from opsdk.apiserver.endpoints.openapi.v3 import references
from opsdk.apiserver.resources import ResourceInfo
from opsdk.structured_merge.value import JsonObject

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
THING = {
    "metadata": {"name": "things.demo.io"},
    "spec": {
        "group": "demo.io",
        "names": {"plural": "things", "kind": "Thing"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                "selectableFields": [{"jsonPath": ".spec.kind"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"kind": {"type": "string"}}}},
                    }
                },
            }
        ],
    },
}


@pytest.mark.parametrize(
    ("path", "method", "name", "action"),
    [
        ("/api/v1/namespaces/{namespace}/pods", "get", "listCoreV1NamespacedPod", "list"),
        ("/api/v1/namespaces/{namespace}/pods", "delete", "deleteCoreV1CollectionNamespacedPod", "deletecollection"),
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces", "list"),
        ("/api/v1/nodes/{name}", "put", "replaceCoreV1Node", "put"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/status", "patch", "patchCoreV1NamespacedPodStatus", "patch"),
        (
            "/apis/demo.io/v1/namespaces/{namespace}/things/{name}/scale",
            "get",
            "readDemoIoV1NamespacedThingScale",
            "get",
        ),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "post", "createRbacAuthorizationV1ClusterRole", "post"),
    ],
)
async def test_operations_have_the_names_that_generated_clients_know(
    path: str, method: str, name: str, action: str
) -> None:
    """Operation ids and actions are those of generated clients, in both versions."""
    async with Environment(crds=[THING]) as env:
        call = Caller(env)
        document = "/".join(path.split("/")[:3] if path.startswith("/api/") else path.split("/")[:4])
        third = (await call("GET", f"/openapi/v3{document}")).json["paths"][path][method]
        second = (await call("GET", "/openapi/v2")).json["paths"][path][method]
        for operation in (third, second):
            assert (operation["operationId"], operation["x-kubernetes-action"]) == (name, action)


async def test_every_schema_that_is_spoken_of_is_there() -> None:
    """Every referenced schema is in the document, for built-in and custom resources."""
    async with Environment(crds=[THING]) as env:
        call = Caller(env)
        index = (await call("GET", "/openapi/v3")).json["paths"]
        for path in index:
            document = (await call("GET", f"/openapi/v3/{path}")).json
            assert set(references(document)) <= set(document["components"]["schemas"]), path


async def test_lists_of_custom_resources_have_a_schema() -> None:
    """Lists of custom resources have a schema, their items' schema, and selectable fields."""
    async with Environment(crds=[THING]) as env:
        call = Caller(env)
        document = (await call("GET", "/openapi/v3/apis/demo.io/v1")).json
        created = document["components"]["schemas"]["io.demo.v1.ThingList"]
        assert created["properties"]["items"]["items"] == {"$ref": "#/components/schemas/io.demo.v1.Thing"}
        assert created["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.kind"}]
        listed = document["paths"]["/apis/demo.io/v1/things"]["get"]["responses"]["200"]["content"]
        assert listed["application/json"]["schema"] == {"$ref": "#/components/schemas/io.demo.v1.ThingList"}


def test_fields_that_are_named_like_keywords_stay() -> None:
    """Properties whose names are keywords stay."""
    names = ("anyOf", "oneOf", "allOf", "nullable", "default", "not", "type")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    assert set(definition(schema)["properties"]) == set(names)


@pytest.mark.parametrize(
    ("schema", "second"),
    [
        ({"type": "integer", "nullable": True, "minimum": 1}, {"minimum": 1}),
        ({"type": "string", "default": "x", "enum": ["x"]}, {"type": "string", "enum": ["x"]}),
        ({"type": "object", "oneOf": [{"required": ["a"]}]}, {"type": "object"}),
        (
            {"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": True},
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        (
            {"allOf": [{"$ref": f"#/components/schemas/{META}.ObjectMeta"}]},
            {"$ref": f"#/definitions/{META}.ObjectMeta"},
        ),
    ],
)
def test_version_2_says_no_more_than_it_can(schema: Any, second: Any) -> None:
    """v2 omits constraints that would reject what the server accepts."""
    assert definition({"properties": {"x": schema}})["properties"]["x"] == second


def test_extensions_are_also_said_in_common_words() -> None:
    """Extensions are also expressed with standard keywords: metadata of embedded objects, int-or-string."""
    info = ResourceInfo(group="demo.io", version="v1", resource="things", kind="Thing", namespaced=True)
    schema = {
        "type": "object",
        "properties": {
            "inner": {"type": "object", "required": ["spec"], "x-kubernetes-embedded-resource": True},
            "port": {"x-kubernetes-int-or-string": True},
        },
    }
    created = published(info, schema)
    inner = created["properties"]["inner"]
    assert (set(inner["properties"]), inner["required"]) == (
        {"apiVersion", "kind", "metadata"},
        ["spec", "kind", "apiVersion"],
    )
    assert created["properties"]["port"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert "anyOf" not in schema["properties"]["port"]


def defined(number: int, **spec: object) -> dict[str, Any]:
    """Return the definition of a kind; ten kinds share a group."""
    group, names = f"g{number // 10}.demo.io", {"plural": f"k{number}s", "kind": f"K{number}"}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", **spec}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    metadata = {"name": f"k{number}s.{group}"}
    return {"metadata": metadata, "spec": {"group": group, "names": names, "scope": "Cluster", "versions": [version]}}


async def test_each_schema_is_built_once_when_its_document_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index builds none, a document those of its group, and a changed definition its own."""
    built: list[str] = []

    def counted(info: ResourceInfo, *args: Any) -> JsonObject:
        built.append(info.kind)
        return published(info, *args)

    monkeypatch.setattr(control_plane, "published", counted)
    async with Environment() as env:
        call = Caller(env)
        for number in range(30):
            assert (await call("POST", DEFINITIONS, defined(number))).status == 201
        index = (await call("GET", "/openapi/v3")).json["paths"]
        assert built == []
        document = (await call("GET", index["apis/g1.demo.io/v1"]["serverRelativeURL"])).raw
        assert sorted(built) == [f"K{number}" for number in range(10, 20)]
        assert (await call("GET", "/openapi/v3/apis/g1.demo.io/v1")).raw == document
        assert (await call("GET", "/openapi/v2")).raw == (await call("GET", "/openapi/v2")).raw
        assert sorted(built) == sorted(f"K{number}" for number in range(30))
        built.clear()
        changed = defined(11, description="changed")
        changed["metadata"]["resourceVersion"] = (await call("GET", f"{DEFINITIONS}/k11s.g1.demo.io")).json["metadata"][
            "resourceVersion"
        ]
        assert (await call("PUT", f"{DEFINITIONS}/k11s.g1.demo.io", changed)).status == 200
        after = (await call("GET", "/openapi/v3")).json["paths"]
        assert {name for name in index if index[name] != after[name]} == {"apis/g1.demo.io/v1"}
        assert b"changed" in (await call("GET", "/openapi/v3/apis/g1.demo.io/v1")).raw
        assert b"changed" in (await call("GET", "/openapi/v2")).raw
        assert built == ["K11"]
