"""Validation of definitions apart from their schemas, and the order of errors."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from server_caller import Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
SPEC: JsonObject = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "number"},
        "l": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
SCHEMA: JsonObject = {"type": "object", "properties": {"spec": SPEC}}


def version(name: str = "v1", **more: Any) -> JsonObject:
    """One version, the stored one if it is the first."""
    schema = {"openAPIV3Schema": copy.deepcopy(SCHEMA)}
    return {"name": name, "served": True, "storage": name == "v1", "schema": schema, **more}


def definition(*versions: JsonObject, **spec: Any) -> JsonObject:
    """A definition of widgets."""
    names = {"plural": "widgets", "kind": "Widget"}
    whole = {"group": "demo.io", "scope": "Namespaced", "names": names, "versions": list(versions), **spec}
    return {"metadata": {"name": "widgets.demo.io"}, "spec": whole}


async def told(body: JsonObject) -> list[tuple[str, str]]:
    """The fields that are wrong, and why."""
    async with Environment() as env:
        answer = await Caller(env)("POST", CRDS, body)
    details = answer.json.get("details") or {}
    return [(cause["field"], cause["message"]) for cause in details.get("causes") or ()]


SELECTABLE = "spec.selectableFields[0].jsonPath"
SCALAR = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (".spec.s", ""),
        (".spec.m.a", ""),
        (".spec.n", SCALAR),
        (".spec.l", SCALAR),
        ("spec.s", "is an invalid path: expected [ or . but got: spec"),
        (".", "is an invalid path: unexpected end of JSON path"),
        (".spec.", "is an invalid path: unexpected end of JSON path"),
        (".spec.zz", "is an invalid path: does not refer to a valid field"),
        (".metadata", "is an invalid path: does not refer to a valid field"),
        (".spec.l[0]", "is an invalid path: array notation is not allowed"),
        (".spec['s']", "is an invalid path: array notation is not allowed"),
    ],
)
async def test_selectable_fields_are_scalars_that_the_schema_knows(path: str, why: str) -> None:
    """Paths may lead into maps, but neither into lists nor anywhere else."""
    expected = [(SELECTABLE, f'Invalid value: "{path}": {why}')] if why else []
    assert await told(definition(version(selectableFields=[{"jsonPath": path}]))) == expected


async def test_versions_share_their_selectable_fields_with_their_schema() -> None:
    """If all versions have the same schema, they need the same selectable fields."""
    fields = [{"jsonPath": ".spec.s"}]
    text = 'Invalid value: "": may only be set when `version.schema.openAPIV3Schema` is not included'
    assert await told(definition(version(selectableFields=fields), version("v2"))) == [
        ("spec.versions[0].selectableFields", text)
    ]
    assert await told(definition(version(selectableFields=fields), version("v2", selectableFields=fields))) == []


WRONG: JsonObject = {
    "deprecationWarning": "",
    "additionalPrinterColumns": [{}],
    "selectableFields": [{}],
    "subresources": {"scale": {}},
}


async def test_the_order_with_one_version() -> None:
    """Errors come in this order: version, names, common fields of the versions, conversion, stored versions."""
    names = {
        "plural": "Foos",
        "kind": "X Y",
        "listKind": "X Y",
        "singular": "_",
        "shortNames": ["_"],
        "categories": ["_"],
    }
    body = definition(
        version("V", **WRONG), group="ex", names=names, conversion={"strategy": "x"}, preserveUnknownFields=True
    )
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "string"}
    columns = "spec.additionalPrinterColumns[0]"
    assert [field for field, _ in await told(body)] == [
        "metadata.name",
        "spec.group",
        "spec.versions[0].name",
        "spec.versions[0].deprecationWarning",
        "spec.versions",
        "spec.version",
        "spec.names.plural",
        "spec.names.singular",
        "spec.names.kind",
        "spec.names.listKind",
        "spec.names.shortNames[0]",
        "spec.names.listKind",
        "spec.names.categories[0]",
        "spec.validation.openAPIV3Schema.type",
        "spec.subresources.scale.specReplicasPath",
        "spec.subresources.scale.statusReplicasPath",
        f"{columns}.name",
        f"{columns}.type",
        f"{columns}.JSONPath",
        "spec.selectableFields[0].jsonPath",
        "spec.conversion.strategy",
        "spec.conversion.strategy",
        "status.storedVersions",
        "spec.preserveUnknownFields",
    ]


async def test_errors_of_one_version_name_it() -> None:
    """Errors in fields that only one version has name that version."""
    other = version("v2", schema={"openAPIV3Schema": {"type": "string"}}, **WRONG)
    fields = [field for field, _ in await told(definition(version(), other))]
    assert fields[0] == "spec.versions[1].deprecationWarning"
    assert fields[1] == "spec.versions[1].schema.openAPIV3Schema.type"
    assert fields[-1] == "spec.versions[1].selectableFields[0].jsonPath"


async def test_names_that_the_server_would_make_up_do_not_fit() -> None:
    """The name is made of the plural and the group, so a prefix is as wrong as another name."""
    body = definition(version())
    body["metadata"]["generateName"] = "a-"
    text = 'Invalid value: "a-": must be spec.names.plural+"."+spec.group'
    assert await told(body) == [("metadata.generateName", text)]


async def test_unknown_schema_fields_have_their_full_path() -> None:
    """Unknown fields of a schema are reported with their path, except below lists and arbitrary maps."""
    inside = {"type": "object", "properties": {"a": {"type": "string", "bogus": 1}}}
    hidden = {"type": "array", "items": {"type": "string", "bogus": 1}}
    body = definition(version())
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = {"x": inside, "y": hidden}
    async with Environment() as env:
        answer = await Caller(env)("POST", f"{CRDS}&fieldValidation=Strict", body)
    path = "spec.versions[0].schema.openAPIV3Schema.properties.x.properties.a.bogus"
    assert answer.status == 400
    assert answer.json["message"].endswith(f'strict decoding error: unknown field "{path}"')


@pytest.mark.parametrize("default", ["", [], 0, False, {}])
async def test_empty_defaults_are_defaults(default: Any) -> None:
    """An empty or zero default is kept."""
    kind = {str: "string", list: "array", int: "integer", bool: "boolean", dict: "object"}[type(default)]
    field = {"type": kind, "default": default, **({"items": {"type": "string"}} if kind == "array" else {})}
    body = definition(version())
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["d"] = field
    async with Environment() as env:
        answer = await Caller(env)("POST", CRDS, body)
    schema = answer.json["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["d"]["default"] == default


async def test_what_was_stored_is_never_forgotten_by_accident() -> None:
    """A status without stored versions has the version that is stored now."""
    async with Environment() as env:
        call = Caller(env)
        url = CRDS.partition("?")[0]
        response = await call("POST", url, definition(version()))
        assert response.json["status"]["storedVersions"] == ["v1"]
        stored = (await call("GET", f"{url}/widgets.demo.io")).json
        answer = await call("PUT", f"{url}/widgets.demo.io/status", {**stored, "status": {}})
        assert answer.json["status"]["storedVersions"] == ["v1"]


async def test_empty_is_not_absent_in_messages() -> None:
    """Messages distinguish empty and null versions; an empty client config counts as present; schemas come first."""
    async with Environment() as env:
        call = Caller(env)
        names = {"plural": "things", "kind": "Thing"}
        spec: JsonObject = {"group": "x.io", "scope": "Cluster", "names": names}
        body = {"metadata": {"name": "things.x.io"}, "spec": spec}
        url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for versions, printed in (([], "[]"), (None, "null")):
            spec["versions"] = versions
            message = (await call("POST", url, body)).json["details"]["causes"][0]["message"]
            assert message == f"Invalid value: {printed}: must have exactly one version marked as storage version"
        spec["versions"] = [{"name": "V"}, {"name": "v1"}]
        fields = [cause["field"] for cause in (await call("POST", url, body)).json["details"]["causes"]]
        assert fields[:3] == [
            "spec.versions[0].schema.openAPIV3Schema",
            "spec.versions[1].schema.openAPIV3Schema",
            "spec.versions[0].name",
        ]
        schema = {"openAPIV3Schema": {"type": "object"}}
        spec["versions"] = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
        for strategy, reason in (
            ("Webhook", "exactly one of url or service is required"),
            ("None", "should not be set"),
        ):
            spec["conversion"] = {"strategy": strategy, "webhook": {"clientConfig": {}}}
            assert reason in (await call("POST", url, body)).json["details"]["causes"][0]["message"]


@pytest.mark.parametrize(
    ("default", "told"),
    [
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}},
            "cannot unmarshal number into Go struct field Ob",
        ),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}}}, 'Invalid value: "a b": name part'),
        ({"apiVersion": "a/b/c", "kind": "Pod"}, 'Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "c"}}}, ""),
    ],
)
async def test_defaults_of_embedded_objects_are_validated_as_objects(default: JsonObject, told: str) -> None:
    """The default of an embedded object has valid type information and metadata."""
    async with Environment() as env:
        call = Caller(env)
        inner = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
        whole = {**inner, "default": default}
        part = {**inner, "properties": {"metadata": {"type": "object", "default": default.get("metadata", {})}}}
        for field in (whole, part):
            schema = {"openAPIV3Schema": {"type": "object", "properties": {"e": field}}}
            version = {"name": "v1", "served": True, "storage": True, "schema": schema}
            names = {"plural": "things", "kind": "Thing"}
            spec = {"group": "x.io", "scope": "Cluster", "names": names, "versions": [version]}
            answer = await call("POST", CRDS, {"metadata": {"name": "things.x.io"}, "spec": spec})
            wrong = bool(told) and (field is whole or "metadata" in default)
            assert (answer.status == 422) is wrong, answer.raw
            assert not wrong or told in answer.json["message"]


async def test_selectable_fields_that_all_versions_share_need_schemas_that_they_share() -> None:
    """Selectable fields that all versions share need a schema that all versions share."""
    async with Environment() as env:
        call = Caller(env)
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
        first = {"name": "v1", "served": True, "storage": True, "schema": schema}
        other = {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
        second = {"name": "v2", "served": True, "storage": False, "schema": other}
        names = {"plural": "things", "kind": "Thing"}
        for both in (True, False):
            fields = [{"jsonPath": ".a"}]
            versions = [{**first, "selectableFields": fields}, {**second, "selectableFields": fields if both else []}]
            spec = {"group": "x.io", "scope": "Cluster", "names": names, "versions": versions}
            answer = await call("POST", CRDS, {"metadata": {"name": "things.x.io"}, "spec": spec})
            assert answer.status == (422 if both else 201), answer.raw
            assert ("may only be set when validations.schema is included" in answer.raw.decode()) is both
