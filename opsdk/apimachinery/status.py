"""``Status``, and the body of DELETE requests.

Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/types.go (v1.36)
"""

from __future__ import annotations

from typing import Literal

import msgspec

from opsdk.apimachinery.model import Model
from opsdk.structured_merge.value import JsonObject

PropagationPolicy = Literal["Background", "Foreground", "Orphan"]


class Preconditions(Model, kw_only=True):
    """Conditions that the object must meet, or the server rejects the deletion."""

    uid: str = ""
    resource_version: str = ""


class DeleteOptions(Model, kw_only=True):
    """The body of a DELETE request (``metav1.DeleteOptions``)."""

    api_version: str = "v1"
    kind: str = "DeleteOptions"
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: PropagationPolicy | None = None
    dry_run: list[str] = msgspec.field(default_factory=list)


class Status(Model, kw_only=True):
    """A response without an object: the result of a deletion, or a failure."""

    api_version: str = "v1"
    kind: str = "Status"
    status: str = ""
    message: str = ""
    reason: str = ""
    details: JsonObject = msgspec.field(default_factory=dict)
    code: int = 0
