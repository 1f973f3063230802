"""Validation of a conversion webhook's response.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go (v1.36)
"""

from __future__ import annotations

from opsdk.apimachinery.serializer.documents import json_kind
from opsdk.apiserver.registry import metadata
from opsdk.apiserver.webhook_client.review_types import ReviewError, check_field, check_review
from opsdk.http.server.response import encode_json
from opsdk.structured_merge.go_format import go_typename
from opsdk.structured_merge.value import JsonObject, JsonValue

GROUP = "apiextensions.k8s.io"


class WebhookResponseError(Exception):
    """The webhook's response is wrong; the text is the server's message about the webhook."""


class InvalidReviewError(Exception):
    """The webhook's response does not decode; the message does not name the webhook."""


def read_response(answer: JsonObject, uid: str, version: str) -> list[JsonValue]:
    """Return the converted objects of a ConversionReview; `ConversionError` if it reports a failure."""
    try:
        check_review(answer, GROUP, version, "ConversionReview")
        response: JsonObject | None = answer.get("response")
        check_field(response, dict, "ConversionReview.response", f"{version}.ConversionResponse")
        path = "ConversionResponse.response"
        for key, kind, name in _FIELDS:
            check_field((response or {}).get(key), kind, f"{path}.{key}", name)
        for key in ("status", "message"):
            check_field(((response or {}).get("result") or {}).get(key), str, f"Status.response.result.{key}", "string")
    except ReviewError as error:
        raise WebhookResponseError(str(error)) from None
    if version == "v1":
        group, _, got = (answer.get("apiVersion") or "").rpartition("/")
        actual = f"{group}/{got}, Kind={answer.get('kind') or ''}"
        if actual != (expected := f"{GROUP}/v1, Kind=ConversionReview"):
            raise WebhookResponseError(f"expected webhook response of {expected}, got {actual}")
    if response is None:
        raise WebhookResponseError("no response provided")
    if version == "v1" and (response.get("uid") or "") != uid:
        raise WebhookResponseError(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        text = result.get("message") or f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        raise WebhookResponseError(text)
    return list(response.get("convertedObjects") or ())


_FIELDS = (
    ("uid", str, "types.UID"),
    ("convertedObjects", list, "[]runtime.RawExtension"),
    ("result", dict, "v1.Status"),
)


def accept(original: JsonObject, converted: JsonValue, api_version: str) -> JsonObject:
    """Return the converted object with the original metadata; only labels and annotations may differ."""
    if converted is None:
        raise InvalidReviewError("unexpected end of JSON input")
    if not isinstance(converted, dict):
        raise InvalidReviewError(
            f"json: cannot unmarshal {json_kind(converted)} into Go value of type map[string]interface {{}}"
        )
    got, kind = _text(converted.get("apiVersion")), _text(converted.get("kind"))
    if not kind or got.count("/") > 1:
        raise InvalidReviewError(f"Object 'Kind' is missing in '{encode_json(converted).decode()}'")
    if got != api_version:
        raise WebhookResponseError(f"invalid groupVersion (expected {api_version}, received {got})")
    if kind != original["kind"]:
        raise WebhookResponseError(f"invalid kind (expected {original['kind']}, received {kind})")
    before, after = original.get("metadata") or {}, converted.get("metadata")
    metadata = after if isinstance(after, dict) else {}
    for key, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (was := before.get(key) or "") != (now := _text(metadata.get(key))):
            raise WebhookResponseError(f"must have the same {name}: {was} != {now}")
    return {**converted, "metadata": _restored(before, metadata)}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _restored(before: JsonObject, after: JsonObject) -> JsonObject:
    """Return the metadata after a conversion: only labels and annotations may change."""
    meta = dict(before)
    for key in ("labels", "annotations"):
        returned = after.get(key)
        if returned is None:
            meta.pop(key, None)
            continue
        if not isinstance(returned, dict):
            raise WebhookResponseError(f"invalid metadata.{key} of type {go_typename(returned)} in converted object")
        for name, value in returned.items():
            if not isinstance(value, str):
                raise WebhookResponseError(
                    f"metadata.{key}[{name}] must be a string, but is {go_typename(value)} in converted object"
                )
        if returned != before.get(key):
            if key == "labels":
                causes = list(metadata.labels(returned, "metadata.labels"))
            else:
                causes = list(metadata.annotation_causes(returned, "metadata.annotation"))
            if causes:
                messages = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
                raise WebhookResponseError(f"[{messages}]" if len(causes) > 1 else messages)
        meta[key] = returned
    return meta
