"""Error codes: one per error."""

from __future__ import annotations

import pytest

from opsdk.errors import (
    AlreadyExistsError,
    ApiError,
    CacheSyncError,
    ConflictError,
    ConnectError,
    ForbiddenError,
    GoneError,
    MethodNotAllowedError,
    NotFoundError,
    UsageError,
)
from opsdk.norman.codes import as_norman_error, revision_too_old
from opsdk.norman.errors import NormanError
from opsdk.norman.server.writing import error_to_wire


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NormanError("bad", status=422, code="InvalidFormat", field_name="name"), 422, "InvalidFormat"),
        (ForbiddenError("no"), 403, "PermissionDenied"),
        (MethodNotAllowedError("no"), 405, "MethodNotAllow"),
        (NotFoundError("no"), 404, "NotFound"),
        (AlreadyExistsError("no"), 409, "AlreadyExists"),
        (ConflictError("no"), 409, "Conflict"),
        (GoneError("too old"), 410, "Gone"),
        (revision_too_old(), 410, "Gone"),
        (ApiError("strange", code=418, reason=""), 418, "ServerError"),
        (ConnectError("refused"), 503, "ClusterUnavailable"),
        (CacheSyncError("the list is denied"), 503, "ClusterUnavailable"),
        (UsageError("a defect"), 500, "ServerError"),
        (ZeroDivisionError("a defect"), 500, "ServerError"),
    ],
)
def test_an_error_has_one_status_and_code(error: Exception, status: int, code: str) -> None:
    """Every error has a status and a code; a defect tells the client nothing."""
    body = error_to_wire(as_norman_error(error))
    assert (body["status"], body["code"]) == (status, code)
    assert "defect" not in body["message"]
