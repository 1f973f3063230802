"""Reviews on the wire: what decodes, what comes back, and in which version."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webhook_reviews import operations, post, review, site_tree

from opsdk.apimachinery.patch.json_patch import apply_json_patch
from opsdk.errors import AdmissionDeniedError, Cause, Details, InvalidError, OpsdkError, TooLargeError
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.admission import (
    MAX_REQUEST_SIZE,
    AdmissionRequest,
    AdmissionResponse,
    allowed,
    decode_review,
    denied,
    encode_review,
    errored,
    invalid_field,
    patched,
    response_for,
)
from opsdk.webhook.server import WebhookServer
from opsdk.webhook.webhook import AdmissionWebhook


def serving(handle: Any) -> WebhookServer:
    """A server with one handler at ``/w``."""
    server = WebhookServer()
    server.register("/w", AdmissionWebhook(handle))
    return server


async def allow(request: AdmissionRequest) -> AdmissionResponse:
    """Allow every request."""
    return allowed()


@pytest.mark.behaviour(122)
@pytest.mark.parametrize(
    ("body", "content_type", "code", "message"),
    [
        (b"", "application/json", 400, "request body is empty"),
        (review(), "application/yaml", 400, "contentType=application/yaml, expected application/json"),
        (review(), "application/json; charset=utf-8", 400, "expected application/json"),
        (b"{", "application/json", 400, "does not decode"),
        (b'{"request":{"uid":5}}', "application/json", 400, "does not decode"),
        (b"\xff", "application/json", 400, "does not decode"),
        (b"[" * 100_000, "application/json", 400, "does not decode"),
        (b'{"apiVersion":"v1","kind":"Pod"}', "application/json", 400, "is not known"),
        (b" " * MAX_REQUEST_SIZE, "application/json", 413, "request entity is too large; limit is 7340032 bytes"),
    ],
    ids=["empty", "type", "charset", "cut", "field", "utf8", "deep", "kind", "large"],
)
async def test_protocol_errors_stand_in_the_review(body: bytes, content_type: str, code: int, message: str) -> None:
    """HTTP says 200; the review has the code, no uid, and neither apiVersion nor kind."""
    status, answer = await post(serving(allow), "/w", body, content_type)
    assert status == 200
    assert answer.keys() == {"response"}
    response = answer["response"]
    assert (response["allowed"], response["uid"], response["status"]["code"]) == (False, "", code)
    assert message in response["status"]["message"]


@pytest.mark.behaviour(122)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_the_answer_has_the_version_and_uid_of_the_request(version: str) -> None:
    """A review goes back in the version in which it came."""
    _, answer = await post(serving(allow), "/w", review(version=version, uid="x", object=site_tree()))
    assert answer == {
        "kind": "AdmissionReview",
        "apiVersion": f"admission.k8s.io/{version}",
        "response": {"uid": "x", "allowed": True, "status": {"code": 200}},
    }


@pytest.mark.behaviour(122)
async def test_a_review_without_a_version_is_v1() -> None:
    """Absent apiVersion and kind stand for v1."""
    _, answer = await post(serving(allow), "/w", b'{"request":{"uid":"x"}}')
    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["response"]["uid"] == "x"


async def test_a_body_just_below_the_limit_is_read() -> None:
    """A body of exactly the limit is read, and one byte more is refused."""
    body = review(object=site_tree())
    _, answer = await post(serving(allow), "/w", body + b" " * (MAX_REQUEST_SIZE - 1 - len(body)))
    assert answer["response"]["allowed"]


def test_the_limit_holds_without_a_server() -> None:
    """A body of 7 MiB does not decode."""
    with pytest.raises(TooLargeError, match="limit is 7340032 bytes"):
        decode_review(b" " * MAX_REQUEST_SIZE, "application/json")


def test_every_field_of_a_request_is_decoded() -> None:
    """The request has what the API server sends."""
    body = review(
        "UPDATE",
        object=site_tree(),
        oldObject=site_tree(image="old"),
        name="a",
        namespace="default",
        subResource="status",
        requestKind={"group": "demo.opsdk.dev", "version": "v1beta1", "kind": "Site"},
        requestResource={"group": "demo.opsdk.dev", "version": "v1beta1", "resource": "sites"},
        dryRun=True,
        options={"kind": "UpdateOptions", "fieldManager": "kubectl"},
        unknown="member",
    )
    request = decode_review(body, "application/json").request
    assert (request.operation, request.name, request.namespace) == ("UPDATE", "a", "default")
    assert (request.subresource, request.dry_run) == ("status", True)
    assert (str(request.kind), str(request.request_kind)) == (
        "demo.opsdk.dev/v1, Kind=Site",
        "demo.opsdk.dev/v1beta1, Kind=Site",
    )
    assert request.request_resource.version == "v1beta1"
    assert (request.user_info.username, list(request.user_info.groups)) == ("ann", ["devs"])
    assert request.old_object == site_tree(image="old")
    assert request.options == {"kind": "UpdateOptions", "fieldManager": "kubectl"}


@pytest.mark.behaviour(123)
def test_denials_and_errors_have_their_codes() -> None:
    """Denied is 403 Forbidden; an error has its own code; both keep their message and warnings."""
    response = sent(denied("no").with_warnings("a").with_warnings("b"))
    assert response["status"] == {"code": 403, "reason": "Forbidden", "message": "no"}
    assert response["warnings"] == ["a", "b"]
    assert sent(errored(418, "tea"))["status"] == {"code": 418, "message": "tea"}
    assert sent(allowed("fine").with_warnings("a"))["warnings"] == ["a"]


@pytest.mark.behaviour(123)
def test_an_api_error_keeps_its_status() -> None:
    """Reason, code, details and causes of an API error reach the client."""
    details = Details(name="a", kind="Site", causes=[Cause("FieldValueInvalid", "bad", "spec.image")])
    status = sent(response_for(InvalidError("Site a is invalid", details=details)))["status"]
    assert status == {
        "code": 422,
        "reason": "Invalid",
        "message": "Site a is invalid",
        "details": {
            "name": "a",
            "kind": "Site",
            "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec.image"}],
        },
    }


def test_a_denial_names_its_fields() -> None:
    """The causes make the message; the reason makes the code; the error is one of opsdk's."""
    error = AdmissionDeniedError(reason="Invalid", causes=[invalid_field("spec.replicas", -1, "must be positive")])
    assert isinstance(error, OpsdkError)
    response = sent(response_for(error))
    assert response["status"]["code"] == 422
    assert response["status"]["message"] == "spec.replicas: Invalid value: -1: must be positive"
    assert response["status"]["details"]["causes"][0]["field"] == "spec.replicas"


def test_a_denial_carries_no_patch() -> None:
    """The API server gets a patch only with an allowed request."""
    response = AdmissionResponse(allowed=False, patches=({"op": "remove", "path": "/spec"},))
    assert "patch" not in sent(response)
    assert "patch" not in sent(patched({"a": 1}, {"a": 1}))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text("abc", max_size=2), json_values, max_size=4)


@given(objects, objects)
def test_the_patch_leads_to_the_new_object(original: JsonObject, current: JsonObject) -> None:
    """Applying the patch of a response to the request's object gives the handler's object."""
    response = sent(patched(original, current))
    changed = apply_json_patch(original, operations(response)) if "patch" in response else original
    assert changed == current
    assert ("patchType" in response) is ("patch" in response)


@given(st.binary(max_size=60) | objects.map(lambda tree: json.dumps(tree).encode()))
def test_any_body_decodes_or_raises_an_opsdk_error(body: bytes) -> None:
    """Any body decodes, or raises one of opsdk's errors."""
    with suppress(OpsdkError):
        assert decode_review(body, "application/json").api_version == "admission.k8s.io/v1"


def sent(response: AdmissionResponse) -> Any:
    """The response as it is sent."""
    return json.loads(encode_review(response, uid="u", api_version="admission.k8s.io/v1"))["response"]
