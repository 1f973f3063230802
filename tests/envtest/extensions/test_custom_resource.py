"""Bodies and patches of custom resources: errors and warnings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from server_caller import APPLY, MERGE, Answer, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

JSON_PATCH = "application/json-patch+json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
URL = "/apis/demo.io/{}/namespaces/default/widgets"
WIDGETS = URL.format("v1")
TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
CANNOT = 'Widget in version "v1" cannot be handled as a Widget: '
UNRECOGNIZED = "the object provided is unrecognized (must be of type Widget): "


PORT = {"x-kubernetes-int-or-string": True}


def definition() -> JsonObject:
    """Widgets in two versions, with a status and a scale."""
    spec = {"size": {"type": "integer"}, "part": {"type": "object", "properties": {"a": {"type": "string"}}}}
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {**spec, "port": PORT, "any": {"x-kubernetes-preserve-unknown-fields": True}},
            },
            "status": {"type": "object", "properties": {"size": {"type": "integer"}, "word": {"type": "string"}}},
        },
    }
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    version = {"served": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}, "scale": scale}}
    versions = [{"name": "v1", "storage": True, **version}, {"name": "v2", "storage": False, **version}]
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "metadata": {"name": "widgets.demo.io"},
        "spec": {"group": "demo.io", "scope": "Namespaced", "names": names, "versions": versions},
    }


def widget(name: str = "w", version: str = "v1", **spec: Any) -> JsonObject:
    """A widget."""
    return {"apiVersion": f"demo.io/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


@asynccontextmanager
async def serving() -> AsyncIterator[Caller]:
    """A server with widgets, of which one is ``w``."""
    async with Environment() as env:
        call = Caller(env)
        assert (await call("POST", CRDS, definition())).status == 201
        assert (await call("POST", WIDGETS, widget())).status == 201
        yield call


def refusal(answer: Answer) -> tuple[int, str]:
    """Code and message."""
    return answer.status, answer.json.get("message", "")


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"{}", 400, f"{UNRECOGNIZED}Object 'Kind' is missing in '{{}}' ({{}})"),
        (b"null", 400, f"{UNRECOGNIZED}Object 'Kind' is missing in 'null' (6e756c6c)"),
        (b'{"Kind":"Widget"}', 400, """Object 'Kind' is missing in '{"Kind":"Widget"}' ({"Kind":"Widget"})"""),
        (b"[]", 400, f"json: cannot unmarshal array into Go value of type {TYPE_META} (5b5d)"),
        (b'{"kind":"Widget"}', 400, "the API version in the data () does not match the expected API version"),
        (b'{"kind":"Widget","apiVersion":"/"}', 400, "the API version in the data () does not match"),
        (
            b'{"kind":"Gadget","apiVersion":"demo.io/v1"}',
            422,
            'Gadget.demo.io "" is invalid: kind: Invalid value: "Gadget": must be Widget',
        ),
        (
            b'{"kind":"Widget","apiVersion":"demo.io/v1","metadata":[]}',
            400,
            f"{CANNOT}json: cannot unmarshal array into Go value of type v1.ObjectMeta",
        ),
        (
            b'{"kind":"Widget","apiVersion":"demo.io/v1","metadata":{"labels":{"a":1}}}',
            400,
            f"{CANNOT}json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            b'{"kind":"Widget","apiVersion":"demo.io/v1","metadata":{"uid":1}}',
            400,
            f"{CANNOT}json: cannot unmarshal number into Go struct field ObjectMeta.uid of type types.UID",
        ),
        (
            b'{"kind":"Widget","apiVersion":"demo.io/v1","spec":{"size":1e400}}',
            400,
            f"{CANNOT}json: cannot unmarshal number 1e400 into Go value of type float64",
        ),
    ],
)
async def test_bodies_of_another_kind_are_refused(body: bytes, code: int, message: str) -> None:
    """A custom object without apiVersion and kind, or with those of another kind, is refused before anything else."""
    async with serving() as call:
        errors = refusal(await call("POST", WIDGETS, body))
        assert errors[0] == code
        assert message in errors[1]


@pytest.mark.parametrize(
    ("api_version", "unknown"),
    [("demo.io/v2", "more"), ("demo.io/v3", "spec"), ("other.io/v1", "")],
)
async def test_a_body_of_another_version_is_decoded_before_it_is_refused(api_version: str, unknown: str) -> None:
    """The schema of the body's version has the unknown fields; an undefined version has no fields at all."""
    async with serving() as call:
        body = {**widget(), "apiVersion": api_version, "more": 1} if unknown == "more" else widget()
        body["apiVersion"] = api_version
        warned = await call("POST", WIDGETS, body)
        assert warned.status == 400
        assert "does not match the expected API version (demo.io/v1)" in warned.json["message"]
        assert warned.headers.get("warning", "") == (f'299 - "unknown field \\"{unknown}\\""' if unknown else "")
        strict = await call("POST", f"{WIDGETS}?fieldValidation=Strict", body)
        assert ("strict decoding error" in strict.json["message"]) is bool(unknown)


async def test_numbers_without_fractions_are_integers() -> None:
    """A number without a fraction is an integer in any notation, in JSON, YAML and patches."""
    async with serving() as call:
        for body, expected in (
            (b"2.0", "2"),
            (b"1e3", "1000"),
            (b"-0.0", "0"),
            (b"2.5", "2.5"),
            (b"1e18", "1" + "0" * 18),
        ):
            patch = b'{"spec":{"any":' + body + b"}}"
            for answer in (
                await call("PATCH", f"{WIDGETS}/w", patch, content_type=MERGE),
                await call("GET", f"{WIDGETS}/w"),
            ):
                assert f'"any":{expected}'.encode() in answer.raw
            name = f"n{len(expected)}{expected[0]}".replace("-", "m")
            config = b'{"apiVersion":"demo.io/v1","kind":"Widget","spec":{"any":' + body + b"},"
            config += b'"metadata":{"name":"' + name.encode() + b'"}}'
            applied = await call("PATCH", f"{WIDGETS}/{name}?fieldManager=m", config, content_type=APPLY)
            assert f'"any":{expected}'.encode() in applied.raw


async def test_nulls_that_are_applied_are_refused() -> None:
    """An apply with a null for a non-nullable field is rejected; other writes drop the null."""
    async with serving() as call:
        created = widget("n", part={"a": None})
        errors = refusal(await call("PATCH", f"{WIDGETS}/n?fieldManager=m", created, content_type=APPLY))
        reason = 'spec.part.a: Invalid value: "null": spec.part.a in body must be of type string: "null"'
        assert errors == (422, f'Widget.demo.io "n" is invalid: {reason}')
        assert (await call("POST", WIDGETS, created)).json["spec"] == {"part": {}}


@pytest.mark.parametrize(("port", "kind"), [([1], "array"), ({"a": 1}, "object"), (True, "boolean"), (1.5, "number")])
async def test_what_is_neither_number_nor_text_is_no_fault_of_the_server(port: object, kind: str) -> None:
    """An apply accepts a value of a wrong type, and validation reports it."""
    async with serving() as call:
        response = await call("PATCH", f"{WIDGETS}/p?fieldManager=m", widget("p", port=port), content_type=APPLY)
        reason = f'spec.port: Invalid value: "{kind}": spec.port in body must be of type integer,string: "{kind}"'
        assert refusal(response) == (422, f'Widget.demo.io "p" is invalid: {reason}')


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"metadata": {"name": None}}, 400, "the name of the object (w based on URL) was undeterminable"),
        ({"apiVersion": None}, 500, "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiV"),
        ({"kind": None}, 422, ': Object \'Kind\' is missing in \'{"apiVersion":"demo.io/v1","metadata":{'),
        ({"kind": 7}, 422, "version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind"),
        ({"kind": "X"}, 422, 'X.demo.io "w" is invalid: kind: Invalid value: "X": must be Widget'),
        ({"metadata": 1, "spec": {"any": "<"}}, 422, '{\\"any\\":\\"\\\\u003c\\"}}": json: cannot unmarshal number'),
    ],
)
async def test_patches_with_an_invalid_result_are_rejected(patch: Any, code: int, message: str) -> None:
    """The result of a patch is decoded like a body; the error shows it with sorted keys."""
    async with serving() as call:
        errors = refusal(await call("PATCH", f"{WIDGETS}/w", patch, content_type=MERGE))
        assert errors[0] == code
        assert message in errors[1]


async def test_duplicate_keys_of_a_patch_warn_or_fail() -> None:
    """Duplicate keys in a patch give a warning, and an error with strict field validation."""
    async with serving() as call:
        twice = b'{"spec":{"size":1,"size":2}}'
        answer = await call("PATCH", f"{WIDGETS}/w", twice, content_type=MERGE)
        assert answer.headers["warning"] == '299 - "duplicate field \\"spec.size\\""'
        errors = refusal(await call("PATCH", f"{WIDGETS}/w?fieldValidation=Strict", twice, content_type=MERGE))
        assert errors[0] == 422
        assert errors[1].endswith('strict decoding error: duplicate field "spec.size"')


@pytest.mark.parametrize(("operation", "kind"), [(b"1", "number"), (b"[]", "array"), (b'"x"', "string")])
async def test_operations_that_are_no_objects(operation: bytes, kind: str) -> None:
    """A JSON patch operation that is not an object is the decoder's error; null is an operation without name."""
    async with serving() as call:
        errors = refusal(await call("PATCH", f"{WIDGETS}/w", b"[" + operation + b"]", content_type=JSON_PATCH))
        text = f"error decoding patch: json: cannot unmarshal {kind} into Go value of type handlers.jsonPatchOp"
        assert errors == (400, text)
        assert (await call("PATCH", f"{WIDGETS}/w", b"[null]", content_type=JSON_PATCH)).status == 422


async def test_patches_are_read_when_there_is_an_object() -> None:
    """An invalid patch of a missing object is a 404."""
    async with serving() as call:
        assert (await call("PATCH", f"{WIDGETS}/none", b"{", content_type=JSON_PATCH)).status == 404


async def test_finalizers_without_a_domain_are_warned_of() -> None:
    """A finalizer without a domain is a warning for custom objects; a malformed one is a single error."""
    async with serving() as call:
        answer = await call("PATCH", f"{WIDGETS}/w", {"metadata": {"finalizers": ["x"]}}, content_type=MERGE)
        assert answer.status == 200
        assert 'finalizers: \\"x\\": prefer a domain-qualified finalizer name to avoid' in answer.headers["warning"]
        answer = await call("PATCH", f"{WIDGETS}/w", {"metadata": {"finalizers": ["!"]}}, content_type=MERGE)
        assert len(answer.json["details"]["causes"]) == 1
        answer = await call("PATCH", f"{WIDGETS}/w", {"metadata": {"labels": {"a": "!"}}}, content_type=MERGE)
        assert len(answer.json["details"]["causes"]) == 3


async def test_duplicate_owner_references_are_merged() -> None:
    """Duplicate owner references become one, with a warning that says whether the request or admission added them."""
    async with serving() as call:
        owner = {"apiVersion": "v1", "kind": "A", "name": "x", "uid": "u"}
        metadata = {"ownerReferences": [owner, owner, {**owner, "uid": "v"}]}
        response = await call("POST", WIDGETS, {**widget(), "metadata": {"name": "o", **metadata}})
        patched = await call("PATCH", f"{WIDGETS}/w", {"metadata": metadata}, content_type=MERGE)
        tail = (
            "; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24;"
            ' please fix your requests; duplicate UID(s) observed: u"'
        )
        for answer, when in ((response, ""), (patched, " after mutating admission happens")):
            assert len(answer.json["metadata"]["ownerReferences"]) == 2
            start = f'299 - ".metadata.ownerReferences contains duplicate entries{when}'
            assert answer.headers["warning"] == start + tail


async def test_a_scale_of_zero_has_no_field_manager() -> None:
    """A Scale omits zero, so its writer manages no field; an object without replicas can be scaled."""
    async with serving() as call:
        scale = {"metadata": {"name": "w"}, "spec": {"replicas": 3}}
        assert (await call("GET", f"{WIDGETS}/w/scale")).status == 500
        assert (await call("PUT", f"{WIDGETS}/w/scale?fieldManager=l", scale)).json["spec"] == {"replicas": 3}
        assert (await call("PATCH", f"{WIDGETS}/w", {"spec": {"size": 2}}, content_type=MERGE)).status == 200
        assert (await call("PUT", f"{WIDGETS}/w/scale?fieldManager=m", scale)).json["spec"] == {"replicas": 3}
        owners = (await call("GET", f"{WIDGETS}/w")).json["metadata"]["managedFields"]
        assert [o["manager"] for o in owners if o.get("subresource") == "scale"] == ["m"]
        scale["spec"] = {"replicas": 0}
        assert (await call("PUT", f"{WIDGETS}/w/scale?fieldManager=m", scale)).json["spec"] == {}
        stored = (await call("GET", f"{WIDGETS}/w")).json
        assert stored["spec"]["size"] == 0
        assert not any(o.get("subresource") == "scale" for o in stored["metadata"]["managedFields"])


async def test_status_managers_of_another_version_are_lost() -> None:
    """A write of the main resource keeps only status managers that wrote in the request's version."""
    async with serving() as call:
        for version, expected in (("v1", True), ("v2", False)):
            status = {**widget(), "status": {"word": "x"}}
            del status["spec"]
            path = f"{WIDGETS}/w/status?fieldManager=s&force=true"
            assert (await call("PATCH", path, status, content_type=APPLY)).status == 200
            current = (await call("GET", f"{URL.format(version)}/w")).json
            current.pop("status")
            put = await call("PUT", f"{URL.format(version)}/w?fieldManager=m", {**current, "spec": {"size": 1}})
            owners = put.json["metadata"]["managedFields"]
            assert any(o.get("subresource") == "status" for o in owners) is expected
            assert put.json["status"] == {"word": "x"}


async def test_applying_a_scale() -> None:
    """The server cannot convert what an apply makes of the scale of a widget; one that changes nothing is fine."""
    async with serving() as call:
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 3}}
        url = f"{WIDGETS}/w/scale?force=true&fieldManager=m"
        reason = "proper version: request to convert CR to an invalid group/version: autoscaling/v1"
        live = "failed to create manager for existing fields: failed to convert live object"
        assert refusal(await call("PATCH", url, scale, content_type=APPLY)) == (
            500,
            f"{live} (/; autoscaling/v1, Kind=Scale) to {reason}",
        )
        await call("PATCH", f"{WIDGETS}/w", {"spec": {"size": 3}}, content_type=MERGE)
        assert (await call("PATCH", url, scale, content_type=APPLY)).status == 200
        scale["spec"] = {"replicas": 4}
        assert refusal(await call("PATCH", url, scale, content_type=APPLY)) == (
            500,
            f"failed to convert new object (default/w; autoscaling/v1, Kind=Scale) to {reason}",
        )


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"generateName": "X-"}, 201),
        ({"generateName": "-"}, 422),
        ({"resourceVersion": "0"}, 201),
        ({"resourceVersion": "x"}, 201),
        ({"resourceVersion": "1"}, 500),
        ({"finalizers": [None]}, 422),
        ({"ownerReferences": [{"apiVersion": "a/b/c", "kind": "A", "name": "n", "uid": "u"}]}, 422),
        ({"managedFields": [{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": "x"}]}, 201),
    ],
)
async def test_unusual_metadata_is_validated_or_ignored(metadata: JsonObject, code: int) -> None:
    """Each unusual metadata field is validated or ignored as in kube-apiserver."""
    async with serving() as call:
        assert (await call("POST", WIDGETS, {**widget(), "metadata": {"name": "m", **metadata}})).status == code


async def test_an_apply_reports_the_missing_manager_first() -> None:
    """An apply without fieldManager reports that error first, and then those of its other options."""
    async with serving() as call:
        errors = refusal(await call("PATCH", f"{WIDGETS}/w?dryRun=x", widget(), content_type=APPLY))
        first = "fieldManager: Required value: is required for apply patch"
        second = 'dryRun: Unsupported value: ["x"]: supported values: "All"'
        assert errors == (422, f'PatchOptions.meta.k8s.io "" is invalid: [{first}, {second}]')


@pytest.mark.parametrize(
    ("method", "path", "code", "message"),
    [
        ("PUT", "", 400, "name must be provided"),
        ("PATCH", "", 400, "name must be provided"),
        ("OPTIONS", "", 405, ' is not supported on resources of kind "widgets.demo.io"'),
        ("OPTIONS", "/w/scale", 405, ' is not supported on resources of kind "widgets.demo.io"'),
        ("POST", "/w/scale", 405, 'create is not supported on resources of kind "widgets.demo.io"'),
        ("GET", "/w/nope", 404, 'widgets.demo.io "w" not found'),
        ("GET", "/w/status/more", 200, ""),
        ("POST", "/other", 201, ""),
    ],
)
async def test_custom_resources_dispatch_by_verb(method: str, path: str, code: int, message: str) -> None:
    """Custom resources share one handler that dispatches by verb, so unsupported methods have other errors."""
    async with serving() as call:
        answer = await call(method, f"{WIDGETS}{path}", widget("x"), content_type=MERGE if method == "PATCH" else "")
        assert refusal(answer) == (code, message)


async def test_a_missing_page_is_plain_text() -> None:
    """A 404 page has the header ``X-Content-Type-Options: nosniff``."""
    async with serving() as call:
        answer = await call("GET", f"{WIDGETS}s")
        assert (answer.status, answer.headers["x-content-type-options"]) == (404, "nosniff")
