"""Custom resources."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from server_caller import MERGE, Caller

from envtest.environment import Environment
from envtest.extensions.jsonpath import find, valid
from envtest.extensions.printer_columns import ColumnPrinter
from opsdk.structured_merge.value import JsonObject

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
URL = "/apis/demo.io/v1/namespaces/default/widgets"
SIZE = {"type": "integer", "minimum": 1, "default": 2}


def definition(**version: Any) -> JsonObject:
    """A definition of widgets; `version` changes its one version."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "default": {}, "properties": {"size": SIZE, "note": {"type": "string"}}},
            "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
        },
    }
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    tree = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
        **version,
    }
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "metadata": {"name": "widgets.demo.io"},
        "spec": {"group": "demo.io", "scope": "Namespaced", "names": names, "versions": [tree]},
    }


def widget(name: str = "w", **spec: Any) -> JsonObject:
    """A widget."""
    return {"apiVersion": "demo.io/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


async def test_a_definition_is_served_at_once() -> None:
    """When the POST returns, the definition is Established and in discovery and OpenAPI, and objects can be created."""
    async with Environment() as env:
        call = Caller(env)
        assert (await call("GET", URL)).raw == b"404 page not found\n"
        assert (await call("POST", CRDS, definition())).status == 201
        stored = (await call("GET", f"{CRDS}/widgets.demo.io")).json
        assert {c["type"]: c["status"] for c in stored["status"]["conditions"]}["Established"] == "True"
        assert [r["name"] for r in (await call("GET", "/apis/demo.io/v1")).json["resources"]] == [
            "widgets",
            "widgets/status",
            "widgets/scale",
        ]
        schemas = (await call("GET", "/openapi/v3/apis/demo.io/v1")).json["components"]["schemas"]
        assert "io.demo.v1.Widget" in schemas
        assert (await call("POST", URL, widget(size=3))).status == 201


async def test_bodies_follow_the_schema() -> None:
    """Unknown fields are pruned, defaults are added, and invalid fields are rejected with their paths."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition())
        stored = (await call("POST", URL, widget(other=1))).json
        assert stored["spec"] == {"size": 2}
        refused = await call("POST", URL, widget("x", size=0))
        assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (422, "spec.size")


async def test_status_and_scale() -> None:
    """The status has its own subresource; scale reads and writes the paths of the definition."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition())
        await call("POST", URL, {**widget(size=3), "status": {"size": 9}})
        status = (await call("PATCH", f"{URL}/w/status", {"status": {"size": 1}}, content_type=MERGE)).json
        assert (status["status"], status["metadata"]["generation"]) == ({"size": 1}, 1)
        scale = (await call("PATCH", f"{URL}/w/scale", {"spec": {"replicas": 7}}, content_type=MERGE)).json
        assert (scale["spec"], scale["status"]) == ({"replicas": 7}, {"replicas": 1})
        assert (await call("GET", f"{URL}/w")).json["spec"]["size"] == 7


async def test_versions_are_views_of_one_object() -> None:
    """Two served versions read and write the same object; only apiVersion differs."""
    async with Environment() as env:
        call = Caller(env)
        crd = definition()
        first = crd["spec"]["versions"][0]
        crd["spec"]["versions"].append({**first, "name": "v2", "storage": False})
        await call("POST", CRDS, crd)
        await call("POST", URL, widget(size=3))
        stored = (await call("GET", URL.replace("/v1/", "/v2/") + "/w")).json
        assert (stored["apiVersion"], stored["spec"]) == ("demo.io/v2", {"size": 3})


async def test_a_changed_definition_takes_effect() -> None:
    """The next request is validated by the new schema, and old watches end."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition())
        path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum"
        async with call.watch(f"{URL}?watch=1") as events:
            patch = [{"op": "add", "path": path, "value": 5}]
            answer = await call("PATCH", f"{CRDS}/widgets.demo.io", patch, content_type="application/json-patch+json")
            assert answer.status == 200
            assert await events.get() is None
        assert (await call("POST", URL, widget(size=6))).status == 422


@pytest.mark.parametrize("status", [{}, {"status": None}, {"status": {}}], ids=str)
async def test_a_stored_definition_needs_no_status(status: JsonObject) -> None:
    """A stored definition without a status can be patched, which sets its status, and can be deleted."""
    async with Environment() as env:
        call = Caller(env)
        stored = (await call("POST", CRDS, definition())).json
        key, url = "apiextensions.k8s.io/customresourcedefinitions/widgets.demo.io", f"{CRDS}/widgets.demo.io"
        stored.pop("status")
        await env.place(key, stored | status)
        patched = await call("PATCH", url, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        assert (patched.status, patched.json["metadata"]["labels"]) == (200, {"a": "b"})
        conditions = (await call("GET", url)).json["status"]["conditions"]
        assert {c["type"]: c["status"] for c in conditions}["Established"] == "True"
        await env.place(key, stored | status)
        assert (await call("DELETE", url)).status == 200


async def test_deleting_a_definition_deletes_its_objects() -> None:
    """A deleted definition stays until the last of its objects with finalizers is gone."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition())
        held = widget("held", size=1)
        held["metadata"]["finalizers"] = ["example.com/x"]
        await call("POST", URL, held)
        await call("POST", URL, widget("free"))
        await call("DELETE", f"{CRDS}/widgets.demo.io")
        assert (await call("GET", f"{URL}/free")).status == 404
        assert (await call("POST", URL, widget("new"))).status == 403
        await call("PATCH", f"{URL}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
        assert (await call("GET", f"{CRDS}/widgets.demo.io")).status == 404
        assert (await call("GET", URL)).raw == b"404 page not found\n"


@pytest.mark.parametrize("policy", ["Foreground", "Orphan", "Background"])
async def test_the_first_deletion_of_a_definition_ignores_the_policy(policy: str) -> None:
    """A deletion adds only the cleanup finalizer to a definition, whatever the propagation policy."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition())
        await call("POST", URL, widget("free"))
        answer = await call("DELETE", f"{CRDS}/widgets.demo.io?propagationPolicy={policy}")
        assert answer.json["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert (await call("GET", f"{CRDS}/widgets.demo.io")).status == 404


def shown(*paths: str) -> list[str]:
    """The names of the columns of a definition with these paths."""
    columns = [{"name": path, "type": "string", "jsonPath": path} for path in paths]
    return [column.name for column in ColumnPrinter(columns).columns]


def test_an_invalid_column_hides_the_columns_after_it() -> None:
    """An invalid JSONPath hides its column and the ones after it; without columns, Age is shown."""
    assert shown() == ["Name", "Age"]
    assert shown(".spec.a", ".spec[", ".spec.b") == ["Name", ".spec.a"]
    assert shown(".spec[") == ["Name"]


def test_cells_of_objects_are_json_with_sorted_keys() -> None:
    """A cell with an object is JSON with sorted keys and escaped HTML characters."""
    printer = ColumnPrinter([{"name": "o", "type": "string", "jsonPath": ".o"}])
    assert printer.cells({"metadata": {"name": "x"}, "o": {"b": "<", "a": [1.0]}}, 0.0)[1] == '{"a":[1],"b":"\\u003c"}'


async def test_columns_of_a_table() -> None:
    """A table has the name and the columns of the definition; missing values are null."""
    async with Environment() as env:
        call = Caller(env)
        columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
        columns.append({"name": "Note", "type": "string", "jsonPath": ".spec.note"})
        await call("POST", CRDS, definition(additionalPrinterColumns=columns))
        await call("POST", URL, widget(size=3))
        table = (await call("GET", URL, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).json
        assert table["rows"][0]["cells"] == ["w", 3, None]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        (".list[0].name", ["x"]),
        (".list[-1].name", ["y"]),
        (".list[*].name", ["x", "y"]),
        ('.list[?(@.name=="y")].on', [True]),
        (".a['b']", [1]),
        (".none.at.all", []),
    ],
)
def test_json_paths(path: str, found: list[Any]) -> None:
    """A path returns every value that it matches."""
    tree = {"a": {"b": 1}, "list": [{"name": "x"}, {"name": "y", "on": True}]}
    assert (valid(path), find(tree, path)) == (True, found)


async def test_what_a_scale_shows_is_checked_whatever_the_schema_says() -> None:
    """Invalid replicas are rejected in an object, its status and its scale, even without a schema for them."""
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition(schema={"openAPIV3Schema": loose}))
        refused = await call("POST", URL, widget(size="x"))
        assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (422, ".spec.size")
        assert (await call("POST", URL, widget(size=1))).status == 201
        message = 'Widget.demo.io "w" is invalid: .spec.size: Invalid value: -1: should be a non-negative integer'
        scaled = await call("PATCH", f"{URL}/w/scale", {"spec": {"replicas": -1}}, content_type=MERGE)
        assert (scaled.status, scaled.json["message"]) == (422, message)
        status = await call("PATCH", f"{URL}/w/status", {"status": {"size": "x"}}, content_type=MERGE)
        assert [cause["field"] for cause in status.json["details"]["causes"]] == [".status.size"]


async def test_objects_that_fit_their_schema_no_more_can_be_mended() -> None:
    """A patch repairs an object that no longer fits its schema, without managedFields; an apply is an error."""
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition(schema={"openAPIV3Schema": loose}, subresources={}))
        stored = (await call("POST", URL, widget(note=[1]))).json
        assert stored["metadata"]["managedFields"]
        result = (await call("GET", f"{CRDS}/widgets.demo.io")).json
        result["spec"] = definition(subresources={})["spec"]
        assert (await call("PUT", f"{CRDS}/widgets.demo.io", result)).status == 200
        misfit = "(default/w; demo.io/v1, Kind=Widget)"
        fault = ".spec.note: expected string, got &value.valueUnstructured{Value:[]interface {}{1}}"
        apply = {"content_type": "application/apply-patch+yaml"}
        applied = await call("PATCH", f"{URL}/w?fieldManager=me", widget(size=2), **apply)
        assert applied.json["message"] == f"failed to create typed live object {misfit}: {fault}"
        labelled = await call("PATCH", f"{URL}/w", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        assert (labelled.status, "managedFields" in labelled.json["metadata"]) == (200, False)
        applied = await call("PATCH", f"{URL}/w?fieldManager=me", widget(size=2), **apply)
        message = "failed to create manager for existing fields: failed to convert new object"
        assert applied.json["message"] == f"{message} {misfit} to smd typed: {fault}"
        mended = await call("PATCH", f"{URL}/w", {"spec": {"note": "n"}}, content_type=MERGE)
        assert mended.json["spec"] == {"note": "n", "size": 2}


async def test_a_definition_that_something_holds_serves_when_its_objects_are_gone() -> None:
    """A held definition accepts no creates during the cleanup of its objects, and serves again afterwards."""
    async with Environment() as env:
        call = Caller(env)
        held = definition()
        held["metadata"]["finalizers"] = ["x.io/y"]
        await call("POST", CRDS, held)
        await call("POST", URL, {**widget(), "metadata": {"name": "w", "finalizers": ["x.io/z"]}})
        assert (await call("DELETE", f"{CRDS}/widgets.demo.io")).status == 200
        assert (await call("POST", URL, widget("other"))).json["message"].endswith("definition is terminating")
        listed = {r["name"]: r["verbs"] for r in (await call("GET", "/apis/demo.io/v1")).json["resources"]}
        assert listed["widgets"] == ["delete", "deletecollection", "get", "list", "watch"]
        assert listed["widgets/status"] == ["get", "patch", "update"]
        await call("PATCH", f"{URL}/w", {"metadata": {"finalizers": None}}, content_type=MERGE)
        stored = (await call("GET", f"{CRDS}/widgets.demo.io")).json
        assert stored["metadata"]["finalizers"] == ["x.io/y"]
        [condition] = [c for c in stored["status"]["conditions"] if c["type"] == "Terminating"]
        assert (condition["status"], condition["reason"]) == ("False", "InstanceDeletionCompleted")
        assert (await call("POST", URL, widget("other"))).status == 201
        async with call.watch(f"{URL}?watch=true&resourceVersion={stored['metadata']['resourceVersion']}") as events:
            assert (await asyncio.wait_for(events.get(), 5))["object"]["metadata"]["name"] == "other"
            await call("PATCH", f"{CRDS}/widgets.demo.io", {"metadata": {"finalizers": None}}, content_type=MERGE)
            assert await asyncio.wait_for(events.get(), 5) is None
        assert (await call("GET", URL)).status == 404


async def test_scales_have_columns_of_their_own_and_must_be_given_replicas() -> None:
    """Tables of scales show desired replicas; a scale patch of an object without replicas must set them."""
    async with Environment() as env:
        call = Caller(env)
        loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        await call("POST", CRDS, definition(schema={"openAPIV3Schema": loose}))
        await call("POST", URL, widget())
        empty = await call("PATCH", f"{URL}/w/scale", {}, content_type=MERGE)
        message = 'the spec replicas field ".spec.size" cannot be empty'
        assert (empty.status, empty.json["message"]) == (400, message)
        assert (await call("PATCH", f"{URL}/w/scale", {"spec": {"replicas": 2}}, content_type=MERGE)).status == 200
        table = await call("GET", f"{URL}/w/scale", accept="application/json;as=Table;g=meta.k8s.io;v=v1")
        assert [c["name"] for c in table.json["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
        assert table.json["rows"][0]["cells"][:3] == ["w", 2, 0]
        binary = await call("GET", f"{URL}/w/scale", accept="application/vnd.kubernetes.protobuf")
        assert binary.status == 406
        put = await call("PUT", f"{URL}/w/scale", {"metadata": {"name": "w"}, "spec": {"replicas": 1.0}})
        assert (put.status, put.json["message"].partition(" in scheme")[0]) == (
            400,
            "no kind is registered for the type v1.Scale",
        )
        kind = await call("PATCH", f"{URL}/w/scale", {"kind": "Other"}, content_type=MERGE)
        assert kind.json["message"].endswith(
            'no kind "Other" is registered for version "autoscaling/v1" in scheme "k8s.io/client-go/scale/util.go:146"'
        )


async def test_a_float_over_a_whole_number_is_a_change() -> None:
    """A float that replaces an equal integer increases the generation, and is stored as the integer."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition(subresources={}))
        stored = (await call("POST", URL, widget(size=3))).json
        changed = await call("PATCH", f"{URL}/w", b'{"spec": {"size": 3.0}}', content_type=MERGE)
        assert changed.json["metadata"]["generation"] == stored["metadata"]["generation"] + 1
        assert b'"size":3}' in changed.raw
