"""Custom resources in several versions: conversion by name and by webhook, losses, field ownership."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from inprocess_webhooks import URL, Hooks
from server_caller import APPLY, MERGE, Caller

from envtest.environment import Environment
from envtest.extensions.conversion import validate_conversion
from envtest.extensions.conversion_review import WebhookResponseError, accept, read_response
from opsdk.structured_merge.value import JsonObject

GROUP = "x.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1, V2 = (f"/apis/{GROUP}/{v}/namespaces/default/things" for v in ("v1", "v2"))


def version(name: str, field: str, **more: Any) -> JsonObject:
    """A version whose spec has one field of its own and one in common."""
    fields = {field: {"type": "integer"}, "note": {"type": "string"}, **more.pop("fields", {})}
    spec = {"type": "object", "properties": fields}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": False, "schema": schema, **more}


def definition(*versions: JsonObject, webhook: bool = False, **conversion: Any) -> JsonObject:
    """A definition; the first version is kept."""
    versions[0]["storage"] = True
    spec: JsonObject = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": list(versions),
    }
    if webhook:
        hook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": f"{URL}/convert"}}
        spec["conversion"] = {"strategy": "Webhook", "webhook": {**hook, **conversion}}
    return {"metadata": {"name": f"things.{GROUP}"}, "spec": spec}


def thing(name: str, version: str, **spec: Any) -> JsonObject:
    """An object."""
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def convert(_: str, request: JsonObject) -> JsonObject:
    """The field ``size`` of v1 is ``replicas`` in v2."""
    tree = copy.deepcopy(request["objects"])
    for obj in tree:
        old, new = ("size", "replicas") if request["desiredAPIVersion"].endswith("v2") else ("replicas", "size")
        if old in obj["spec"]:
            obj["spec"][new] = obj["spec"].pop(old)
        obj["apiVersion"] = request["desiredAPIVersion"]
    return {"convertedObjects": tree, "result": {"status": "Success"}}


@asynccontextmanager
async def served(answer: Callable[[str, JsonObject], Any] = convert) -> AsyncIterator[tuple[Caller, Hooks]]:
    """A server with two versions and a webhook between them."""
    async with Environment() as env:
        hooks, call = Hooks(answer), Caller(env)
        hooks.join(env)
        response = await call("POST", CRDS, definition(version("v1", "size"), version("v2", "replicas"), webhook=True))
        assert response.status == 201, response.json
        yield call, hooks


async def test_every_verb_converts() -> None:
    """Create, get, list, patch, apply, put and delete work in the version that is not kept."""
    async with served() as (call, _):
        assert (await call("POST", V2, thing("a", "v2", replicas=1, note="n"))).json["spec"] == {
            "note": "n",
            "replicas": 1,
        }
        assert (await call("GET", f"{V1}/a")).json["spec"] == {"note": "n", "size": 1}
        patched = await call("PATCH", f"{V2}/a", {"spec": {"replicas": 2}}, content_type=MERGE)
        assert patched.json["spec"]["replicas"] == 2
        assert patched.json["metadata"]["generation"] == 2
        applied = await call("PATCH", f"{V2}/b?fieldManager=me", thing("b", "v2", replicas=3), content_type=APPLY)
        assert (applied.status, applied.json["apiVersion"]) == (201, f"{GROUP}/v2")
        put = await call("PUT", f"{V2}/a", {**patched.json, "spec": {"replicas": 5}})
        assert put.json["spec"] == {"replicas": 5}
        listed = (await call("GET", V1)).json["items"]
        assert [obj["spec"] for obj in listed] == [{"size": 5}, {"size": 3}]
        assert (await call("DELETE", f"{V2}/a")).json["status"] == "Success"


async def test_a_list_is_converted_in_one_call() -> None:
    """One conversion review holds all objects of a list without resource versions, and the response has them again."""
    async with served() as (call, hooks):
        for name in ("a", "b", "c"):
            await call("POST", V1, thing(name, "v1", size=1))
        assert not hooks.asked
        items = (await call("GET", V2)).json["items"]
        [(_, request)] = hooks.asked
        assert len(request["objects"]) == 3
        assert all("resourceVersion" not in obj["metadata"] for obj in request["objects"])
        assert all(obj["metadata"]["resourceVersion"] for obj in items)


async def test_watchers_of_each_version_see_their_own() -> None:
    """Events are converted one by one, once for all watchers."""
    async with served() as (call, hooks):
        async with call.watch(f"{V2}?watch=true") as first, call.watch(f"{V2}?watch=true") as second:
            await call("POST", V1, thing("a", "v1", size=4))
            for events in (first, second):
                event = await asyncio.wait_for(events.get(), 5)
                assert (event["type"], event["object"]["spec"]) == ("ADDED", {"replicas": 4})
        assert len(hooks.asked) == 1


async def test_a_conversion_that_fails_fails_the_request() -> None:
    """Reads and writes of the other version are a 500 with the webhook's words; its definition can go."""
    failing = {"result": {"status": "Failed", "message": "cannot"}}
    async with served(lambda _, __: failing) as (call, _):
        await call("POST", V1, thing("a", "v1", size=1))
        message = f"conversion webhook for {GROUP}/v1, Kind=Thing failed: cannot"
        for answer in (
            await call("GET", f"{V2}/a"),
            await call("GET", V2),
            await call("PATCH", f"{V2}/a", {}, content_type=MERGE),
            await call("DELETE", f"{V2}/a"),
            await call("GET", f"{V2}?watch=true"),
        ):
            assert (answer.status, answer.json["message"]) == (500, message)
        assert (await call("DELETE", f"{CRDS}/things.{GROUP}")).status == 200
        assert (await call("GET", f"{CRDS}/things.{GROUP}")).status == 404


async def test_a_watch_waits_for_the_webhook() -> None:
    """While an object cannot be converted, a watch waits; it skips no event, and keeps their order."""
    broken = True

    def answer(path: str, request: JsonObject) -> JsonObject:
        return {"result": {"status": "Failure"}} if broken else convert(path, request)

    async with served(answer) as (call, hooks), call.watch(f"{V2}?watch=true") as events:
        for name in ("a", "b"):
            await call("POST", V1, thing(name, "v1", size=1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(events.get(), 3)
        assert 2 <= len(hooks.asked) <= 5
        broken = False
        result = [await asyncio.wait_for(events.get(), 5) for _ in "ab"]
        assert [(e["type"], e["object"]["metadata"]["name"]) for e in result] == [("ADDED", "a"), ("ADDED", "b")]


async def test_what_was_converted_is_remembered_by_lists_and_writes() -> None:
    """Lists, watches and the start of a write know what was converted before; a get and a deletion ask anew."""
    async with served() as (call, hooks):
        for name in ("a", "b"):
            await call("POST", V1, thing(name, "v1", size=1))
        for _ in range(2):
            assert [o["spec"] for o in (await call("GET", V2)).json["items"]] == [{"replicas": 1}] * 2
        assert [len(request["objects"]) for _, request in hooks.asked] == [2]
        await call("PATCH", f"{V2}/a", {"spec": {"note": "n"}}, content_type=MERGE)
        del hooks.asked[:]
        assert (await call("GET", V2)).json["items"][0]["spec"] == {"replicas": 1, "note": "n"}
        assert not hooks.asked
        await call("GET", f"{V2}/a")
        await call("DELETE", f"{V2}/a")
        assert len(hooks.asked) == 2


async def test_nulls_that_a_webhook_leaves_are_not_there() -> None:
    """A null in a field that is not nullable means that the field is absent, also in what a webhook made."""

    def answer(path: str, request: JsonObject) -> JsonObject:
        converted = convert(path, request)
        for obj in converted["convertedObjects"]:
            obj["spec"].update(note=None)
        return converted

    async with served(answer) as (call, _):
        await call("POST", V1, thing("a", "v1", size=1, note="n"))
        assert (await call("GET", f"{V2}/a")).json["spec"] == {"replicas": 1}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda o: o["metadata"].update(name="z"), "returned invalid object: must have the same name: a != z"),
        (lambda o: o["metadata"].update(uid="z"), "returned invalid object: must have the same UID"),
        (lambda o: o.pop("metadata"), "returned invalid object: must have the same name: a != "),
        (lambda o: o["metadata"].update(name=1), "returned invalid object: must have the same name: a != "),
        (lambda o: o.pop("kind"), "Object 'Kind' is missing in '{\""),
        (lambda o: o.update(apiVersion="a/b/c"), "Object 'Kind' is missing in '{\""),
        (lambda o: o.update(apiVersion=1), "invalid groupVersion (expected x.example.com/v2, received )"),
        (lambda o: o.update(apiVersion="v9"), "invalid groupVersion (expected x.example.com/v2, received v9)"),
        (lambda o: o.update(kind="Other"), "invalid kind (expected Thing, received Other)"),
        (lambda o: o["metadata"].update(labels={"a": 1}), "metadata.labels[a] must be a string, but is int64"),
        (lambda o: o["metadata"].update(labels={"a b": "c"}), "metadata.labels"),
        (lambda o: o["metadata"].update(labels=["a"]), "invalid metadata.labels of type []interface {}"),
        (lambda o: o["metadata"].update(annotations={"a b": "c"}), 'metadata.annotation: Invalid value: "a b"'),
    ],
)
async def test_what_a_conversion_may_not_change(change: Callable[[JsonObject], Any], why: str) -> None:
    """Name, uid, kind and version are checked; of the metadata only labels and annotations may differ."""

    def answer(path: str, request: JsonObject) -> JsonObject:
        converted = convert(path, request)
        for obj in converted["convertedObjects"]:
            change(obj)
        return converted

    async with served(answer) as (call, _):
        await call("POST", V1, thing("a", "v1", size=1))
        response = await call("GET", f"{V2}/a")
        assert response.status == 500
        assert why in response.json["message"]


def test_converted_metadata_keeps_all_but_labels_and_annotations() -> None:
    """A conversion webhook can change only labels and annotations of the metadata."""
    before = {"kind": "T", "metadata": {"name": "a", "uid": "u", "finalizers": ["f/g"], "labels": {"a": "b"}}}
    after = {"kind": "T", "apiVersion": "g/v2", "metadata": {"name": "a", "uid": "u", "annotations": {"c": "d"}}}
    meta = accept(before, after, "g/v2")["metadata"]
    assert meta == {"name": "a", "uid": "u", "finalizers": ["f/g"], "annotations": {"c": "d"}}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({}, "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind="),
        ({"response": {"uid": "x"}}, 'expected response.uid="u", got "x"'),
        ({"response": None}, "no response provided"),
        ({"response": {"uid": "u"}}, "response.result.status was '', not 'Success'"),
        ({"kind": "Other"}, 'no kind "Other" is registered for version "apiextensions.k8s.io/v1" in scheme'),
        ({"apiVersion": "x/v1"}, 'no kind "ConversionReview" is registered for version "x/v1" in scheme'),
        (
            {"apiVersion": "apiextensions.k8s.io/v1beta1"},
            "converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
        ),
        ({"apiVersion": "v1", "kind": "Status"}, "converting (v1.Status) to (v1.ConversionReview): unknown conversion"),
        (
            {"response": "x"},
            "json: cannot unmarshal string into Go struct field ConversionReview.response of type v1.Conv",
        ),
        (
            {"response": {"uid": "u", "convertedObjects": 1}},
            "json: cannot unmarshal number into Go struct field ConversionResponse.response.convertedObjects of type",
        ),
        (
            {"response": {"uid": "u", "result": "Success"}},
            "json: cannot unmarshal string into Go struct field ConversionResponse.response.result of type v1.Status",
        ),
    ],
)
def test_an_answer_that_is_no_review_is_refused(answer: JsonObject, why: str) -> None:
    """Kind, uid and result are checked in this order."""
    review = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", **answer} if answer else answer
    with pytest.raises(WebhookResponseError, match="^" + re.escape(why)):
        read_response(review, "u", "v1")


async def test_without_a_webhook_versions_differ_in_name_and_schema() -> None:
    """Without conversion, each version prunes by its own schema, and defaults come from the writing version."""
    old = version("v1", "size", fields={"mode": {"type": "string", "default": "one"}})
    new = version("v2", "size", fields={"color": {"type": "string", "default": "grey"}})
    async with Environment() as env:
        call = Caller(env)
        assert (await call("POST", CRDS, definition(old, new))).status == 201
        await call("POST", V1, thing("a", "v1", size=1))
        assert (await call("GET", f"{V2}/a")).json["spec"] == {"size": 1}
        response = await call("POST", V2, thing("b", "v2", size=2, color="red"))
        assert response.json["spec"] == {"size": 2}
        assert (await call("GET", f"{V1}/b")).json["spec"] == {"size": 2, "mode": "one"}


async def test_managed_fields_survive_a_change_of_version() -> None:
    """A forced apply in another version takes exactly the converted field from its former manager."""
    async with served() as (call, _):
        await call("PATCH", f"{V1}/a?fieldManager=one", thing("a", "v1", size=1, note="n"), content_type=APPLY)
        taken = await call("PATCH", f"{V2}/a?fieldManager=two", thing("a", "v2", replicas=2), content_type=APPLY)
        assert (taken.status, taken.json["reason"]) == (409, "Conflict")
        url = f"{V2}/a?fieldManager=two&force=true"
        forced = await call("PATCH", url, thing("a", "v2", replicas=2), content_type=APPLY)
        assert forced.status == 200, forced.json
        owners = {e["manager"]: (e["apiVersion"][-2:], e["fieldsV1"]) for e in forced.json["metadata"]["managedFields"]}
        assert owners == {"one": ("v1", {"f:spec": {"f:note": {}}}), "two": ("v2", {"f:spec": {"f:replicas": {}}})}


async def test_a_new_storage_version_takes_over_with_the_next_write() -> None:
    """Old objects are read as before; a write keeps them in the new version, which the definition remembers."""
    async with served() as (call, hooks):
        await call("POST", V1, thing("a", "v1", size=1))
        swap = [{"op": "replace", "path": f"/spec/versions/{i}/storage", "value": bool(i)} for i in (0, 1)]
        changed = await call("PATCH", f"{CRDS}/things.{GROUP}", swap, content_type="application/json-patch+json")
        assert changed.json["status"]["storedVersions"] == ["v1", "v2"]
        assert (await call("GET", f"{V1}/a")).json["spec"] == {"size": 1}
        assert not hooks.asked
        await call("PATCH", f"{V1}/a", {"spec": {"size": 2}}, content_type=MERGE)
        hooks.asked.clear()
        assert (await call("GET", f"{V2}/a")).json["spec"] == {"replicas": 2}
        assert not hooks.asked
        gone = [{"op": "remove", "path": "/spec/versions/0"}]
        refused = await call("PATCH", f"{CRDS}/things.{GROUP}", gone, content_type="application/json-patch+json")
        assert refused.status == 422
        assert "v1 was previously a storage version" in refused.json["message"]


async def test_a_deprecated_version_warns_and_names_a_better_one() -> None:
    """The warning recommends the best served version that is not deprecated; a custom warning replaces it."""
    old = version("v1beta1", "size", deprecated=True)
    own = version("v1alpha1", "size", deprecated=True, deprecationWarning="use v1")
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition(version("v1", "size"), old, own))
        warned = await call("GET", f"/apis/{GROUP}/v1beta1/things")
        text = f"{GROUP}/v1beta1 Thing is deprecated; use {GROUP}/v1 Thing"
        assert warned.headers["warning"] == f'299 - "{text}"'
        assert (await call("GET", f"/apis/{GROUP}/v1alpha1/things")).headers["warning"] == '299 - "use v1"'
        assert "warning" not in (await call("GET", f"/apis/{GROUP}/v1/things")).headers


@pytest.mark.parametrize(
    ("conversion", "fields"),
    [
        ({"strategy": "None"}, []),
        ({"strategy": "Magic"}, ["strategy"]),
        ({"strategy": "Webhook"}, ["webhookClientConfig", "conversionReviewVersions"]),
        ({"strategy": "None", "webhook": {"clientConfig": {"url": "https://a"}}}, ["webhookClientConfig"]),
        (
            {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1", "v1"], "clientConfig": {"url": "http://a"}},
            },
            ["webhookClientConfig.url", "conversionReviewVersions[1]"],
        ),
    ],
)
def test_conversion_errors_name_the_field(conversion: JsonObject, fields: list[str]) -> None:
    """Each invalid field of a conversion is an error at its path."""
    assert [cause.field for cause in validate_conversion(conversion, "c")] == [f"c.{field}" for field in fields]


def test_the_webhook_of_these_tests_is_its_own_inverse() -> None:
    """The conversion webhook of these tests is its own inverse; otherwise they would prove nothing."""
    obj = thing("a", "v1", size=1)
    there = convert("", {"objects": [obj], "desiredAPIVersion": f"{GROUP}/v2"})["convertedObjects"]
    back = convert("", {"objects": there, "desiredAPIVersion": f"{GROUP}/v1"})["convertedObjects"]
    assert json.dumps(back) == json.dumps([obj])


async def test_a_bad_bundle_is_refused_once_the_definition_is_served() -> None:
    """An invalid caBundle is allowed on create, and cannot replace a valid one."""
    hook = {"clientConfig": {"url": f"{URL}/convert"}}
    bad = {"clientConfig": {"url": f"{URL}/convert", "caBundle": "bm9uZQ=="}}
    change = {"spec": {"conversion": {"webhook": bad}}}
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition(version("v1", "size"), version("v2", "size"), webhook=True, **hook))
        refused = await call("PATCH", f"{CRDS}/things.{GROUP}", change, content_type=MERGE)
        assert refused.status == 422
        assert refused.json["details"]["causes"][0]["field"] == "spec.conversion.webhookClientConfig.caBundle"
    async with Environment() as env:
        call = Caller(env)
        response = await call(
            "POST", CRDS, definition(version("v1", "size"), version("v2", "size"), webhook=True, **bad)
        )
        assert response.status == 201
        response_to_patch = await call("PATCH", f"{CRDS}/things.{GROUP}", change, content_type=MERGE)
        assert response_to_patch.status == 200
        await call("POST", V1, thing("a", "v1", size=1))
        message = (await call("GET", f"{V2}/a")).json["message"]
        assert message == "unable to load root certificates: unable to parse bytes as PEM block"
