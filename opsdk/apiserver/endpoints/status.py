"""Encodes errors as ``Status`` objects.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/status.go (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver.api_errors import EMPTY, NONE
from opsdk.errors import ApiError, Details
from opsdk.http.server.response import HttpResponse, json_response
from opsdk.structured_merge.value import JsonObject


def status_of(error: ApiError) -> JsonObject:
    """The object that tells of an error."""
    status: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    if error.message:
        status["message"] = error.message
    if error.reason:
        status["reason"] = error.reason
    details = _details(error.details)
    if details or error.details is EMPTY or (error.reason == "Invalid" and error.details is not NONE):
        status["details"] = details
    status["code"] = error.code
    return status


def _details(details: Details) -> JsonObject:
    causes = ({"reason": c.reason, "message": c.message, "field": c.field} for c in details.causes)
    fields: JsonObject = {}
    for key, value in (
        ("name", details.name),
        ("group", details.group),
        ("kind", details.kind),
        ("uid", details.uid),
        ("causes", [{k: v for k, v in cause.items() if v} for cause in causes]),
        ("retryAfterSeconds", details.retry_after_seconds),
    ):
        if value:
            fields[key] = value
    return fields


def success(group: str, resource: str, name: str, uid: str) -> JsonObject:
    """What a DELETE answers where it does not return the object."""
    details = {"name": name, "group": group, "kind": resource, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {k: v for k, v in details.items() if v},
    }


def error_response(error: ApiError) -> HttpResponse:
    """The HTTP answer for an error."""
    response = json_response(status_of(error), status=error.code)
    if error.retry_after:
        response.add_header("retry-after", str(int(error.retry_after)))
    return response
