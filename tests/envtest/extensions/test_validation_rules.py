"""Validation rules of custom resources, through the server."""

from __future__ import annotations

from typing import Any

from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
URL = "/apis/demo.io/v1/namespaces/default/widgets"
SPEC = f"{CRDS}/widgets.demo.io"
INTEGER = {"type": "integer"}


def definition(spec: JsonObject, status: JsonObject) -> JsonObject:
    """A definition of widgets with these schemas."""
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "metadata": {"name": "widgets.demo.io"},
        "spec": {
            "group": "demo.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


def with_rules(*rules: str, **properties: Any) -> JsonObject:
    """An object's schema with rules."""
    tree: JsonObject = {"type": "object", "properties": properties}
    return {**tree, "x-kubernetes-validations": [{"rule": rule} for rule in rules]} if rules else tree


def widget(**spec: Any) -> JsonObject:
    """A widget."""
    return {"apiVersion": "demo.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


async def test_rules_hold_for_every_write() -> None:
    """Creates, patches and writes of the status all check the rules of the schema."""
    spec = with_rules("self.min <= self.max", min=INTEGER, max=INTEGER)
    status = with_rules("!has(oldSelf.size) || self.size >= oldSelf.size", size=INTEGER)
    async with Environment() as env:
        call = Caller(env)
        assert (await call("POST", CRDS, definition(spec, status))).status == 201
        refused = await call("POST", URL, widget(min=2, max=1))
        assert refused.status == 422
        message = "spec: Invalid value: failed rule: self.min <= self.max"
        assert refused.json["message"] == f'Widget.demo.io "w" is invalid: {message}'
        assert (await call("POST", URL, widget(min=1, max=2))).status == 201
        assert (await call("PATCH", f"{URL}/w", {"spec": {"min": 3}}, content_type=MERGE)).status == 422
        assert (await call("PATCH", f"{URL}/w/status", {"status": {"size": 2}}, content_type=MERGE)).status == 200
        assert (await call("PATCH", f"{URL}/w/status", {"status": {"size": 1}}, content_type=MERGE)).status == 422


async def test_new_rules_leave_old_objects_alone() -> None:
    """An object that violates a new rule may stay, with a warning, while its fields are unchanged."""
    async with Environment() as env:
        call = Caller(env)
        loose = with_rules(min=INTEGER, max=INTEGER)
        assert (await call("POST", CRDS, definition(loose, with_rules()))).status == 201
        assert (await call("POST", URL, widget(min=2, max=1))).status == 201
        strict = definition(with_rules("self.min <= self.max", min=INTEGER, max=INTEGER), with_rules())
        current = (await call("GET", SPEC)).json
        current["spec"]["versions"] = strict["spec"]["versions"]
        assert (await call("PUT", SPEC, current)).status == 200
        eased = await call("PATCH", f"{URL}/w", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        assert eased.status == 200
        assert "spec: Invalid value: failed rule: self.min <= self.max" in eased.headers["warning"]
        assert (await call("PATCH", f"{URL}/w", {"spec": {"min": 3}}, content_type=MERGE)).status == 422


async def test_rules_that_do_not_compile_are_no_definition() -> None:
    """A definition with a rule that does not compile is rejected with the position, and nothing is served."""
    async with Environment() as env:
        call = Caller(env)
        answer = await call("POST", CRDS, definition(with_rules("self.nope"), with_rules()))
        assert answer.status == 422
        (cause,) = answer.json["details"]["causes"]
        assert cause["field"] == "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
        assert "undefined field 'nope'" in cause["message"]
        assert (await call("GET", URL)).status == 404


async def test_what_the_schema_no_longer_knows_does_not_count_as_a_change() -> None:
    """Stored objects are pruned before the comparison, so their invalid parts stay allowed."""
    loose: JsonObject = {"type": "object", "properties": {"p": {"x-kubernetes-preserve-unknown-fields": True}}}
    strict = with_rules(p={"type": "object", "required": ["c"], "properties": {"c": {"type": "string"}}}, q=INTEGER)
    async with Environment() as env:
        call = Caller(env)
        assert (await call("POST", CRDS, definition(loose, with_rules()))).status == 201
        assert (await call("POST", URL, widget(p={"z": 1}))).status == 201
        stored = (await call("GET", SPEC)).json
        stored["spec"]["versions"][0]["schema"] = definition(strict, with_rules())["spec"]["versions"][0]["schema"]
        assert (await call("PUT", SPEC, stored)).status == 200
        labelled = await call("PATCH", f"{URL}/w", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        assert labelled.status == 200
        assert labelled.json["metadata"]["generation"] == 1
        assert labelled.json["spec"] == {"p": {}}
        assert (await call("PATCH", f"{URL}/w", {"spec": {"q": 2}}, content_type=MERGE)).status == 200
        refused = await call("PATCH", f"{URL}/w", {"spec": {"p": {"c": 1}}}, content_type=MERGE)
        assert refused.status == 422


async def test_whole_floats_are_kept_as_integers() -> None:
    """A whole float is shown as an integer, however it was written."""
    spec = {"type": "object", "properties": {"n": {"type": "number"}}, "x-kubernetes-preserve-unknown-fields": True}
    async with Environment() as env:
        call = Caller(env)
        assert (await call("POST", CRDS, definition(spec, with_rules()))).status == 201
        response = await call("POST", URL, widget(n=7.0, other=[1e3, 1.5]))
        assert response.status == 201
        assert repr(response.json["spec"]) == "{'n': 7, 'other': [1000, 1.5]}"


async def test_embedded_objects_have_valid_metadata() -> None:
    """Invalid metadata of an embedded object is rejected before validation, and empty metadata is dropped."""
    inner = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    async with Environment() as env:
        call = Caller(env)
        assert (await call("POST", CRDS, definition(with_rules(a=inner), with_rules()))).status == 201
        typed = {"apiVersion": "v1", "kind": "K"}
        wrong, field = "json: cannot unmarshal", "ObjectMeta.name of type string"
        for obj, message in (
            ({**typed, "kind": 5}, "spec.a.kind: Invalid value: 5: must be a string"),
            (
                {**typed, "metadata": {"name": 1}},
                f'spec.a.metadata: Invalid value: {{"name":1}}: {wrong} number into Go struct field {field}',
            ),
            (
                {**typed, "metadata": "x"},
                f'spec.a.metadata: Invalid value: "x": {wrong} string into Go value of type v1.ObjectMeta',
            ),
        ):
            refused = await call("POST", URL, widget(a=obj))
            assert (refused.status, refused.json["message"]) == (
                400,
                f'Widget in version "v1" cannot be handled as a Widget: {message}',
            )
        response = await call("POST", URL, widget(a={**typed, "metadata": {"labels": None, "annotations": {}}}))
        assert response.json["spec"]["a"] == {**typed, "metadata": {}}
