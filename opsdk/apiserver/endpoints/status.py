"""Encodes errors as ``Status`` objects.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/status.go (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver.api_errors import EMPTY, NONE
from opsdk.errors import ApiError
from opsdk.http.server.response import HttpResponse, json_response
from opsdk.structured_merge.value import JsonObject


def status_of(error: ApiError) -> JsonObject:
    """Return the Status object of an error."""
    status: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    if error.message:
        status["message"] = error.message
    if error.reason:
        status["reason"] = error.reason
    causes = ({"reason": c.reason, "message": c.message, "field": c.field} for c in error.details.causes)
    members: JsonObject = {
        "name": error.details.name,
        "group": error.details.group,
        "kind": error.details.kind,
        "uid": error.details.uid,
        "causes": [{key: value for key, value in cause.items() if value} for cause in causes],
        "retryAfterSeconds": error.details.retry_after_seconds,
    }
    details = {key: value for key, value in members.items() if value}
    if details or error.details is EMPTY or (error.reason == "Invalid" and error.details is not NONE):
        status["details"] = details
    status["code"] = error.code
    return status


def success(group: str, resource: str, name: str, uid: str) -> JsonObject:
    """Return the Status of a DELETE that does not return the object."""
    details = {"name": name, "group": group, "kind": resource, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {k: v for k, v in details.items() if v},
    }


def error_response(error: ApiError) -> HttpResponse:
    """Return the HTTP response of an error."""
    response = json_response(status_of(error), status=error.code)
    if error.retry_after:
        response.add_header("retry-after", str(int(error.retry_after)))
    return response
