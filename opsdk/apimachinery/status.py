"""The server's ``Status`` answer, and DeleteOptions."""

from __future__ import annotations

from typing import Literal

import msgspec

from opsdk.apimachinery.model import Model
from opsdk.structured_merge.value import JsonObject

PropagationPolicy = Literal["Background", "Foreground", "Orphan"]


class Preconditions(Model, kw_only=True):
    """What must hold for a delete to happen."""

    uid: str = ""
    resource_version: str = ""


class MetaV1DeleteOptions(Model, kw_only=True):
    """The body of a delete."""

    api_version: str = "v1"
    kind: str = "DeleteOptions"
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: PropagationPolicy | None = None
    dry_run: list[str] = msgspec.field(default_factory=list)


class Status(Model, kw_only=True):
    """An answer that is no object: success of a delete, or a failure."""

    api_version: str = "v1"
    kind: str = "Status"
    status: str = ""
    message: str = ""
    reason: str = ""
    details: JsonObject = msgspec.field(default_factory=dict)
    code: int = 0
