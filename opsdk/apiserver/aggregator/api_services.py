"""Reads the spec and the conditions of an ``APIService``. Pure.

Upstream: k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper (v1.36).
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

import msgspec

from opsdk.structured_merge.value import JsonObject

GROUP = "apiregistration.k8s.io"
AVAILABLE = "Available"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteService:
    """An ``APIService`` that refers to a Service.

    Attributes:
        name: of the object, ``version.group``.
        ca: PEM certificates to trust; empty for the system's.
        available: whether the Available condition is True.
        priority: ``groupPriorityMinimum``; the highest of the group's versions counts.
        rank: ``versionPriority``.
    """

    name: str
    group: str
    version: str
    namespace: str
    service: str
    port: int
    ca: bytes = field(default=b"", repr=False)
    insecure: bool = False
    available: bool = False
    priority: int = 0
    rank: int = 0

    @property
    def root(self) -> str:
        """The path prefix of the group version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def host(self) -> str:
        """The DNS name that its certificate must have."""
        return f"{self.service}.{self.namespace}.svc"


def remote_of(obj: JsonObject) -> RemoteService | None:
    """Return the remote server of an ``APIService``; None if the group version is served locally."""
    spec = obj.get("spec") or {}
    service = spec.get("service")
    if service is None:
        return None
    condition = available(obj)
    bundle = spec.get("caBundle") or ""
    try:
        ca = base64.b64decode(bundle, validate=True)
    except (binascii.Error, ValueError):
        ca = bundle.encode()  # the connection reports an invalid bundle
    return RemoteService(
        name=obj["metadata"]["name"],
        group=spec.get("group") or "",
        version=spec.get("version") or "",
        namespace=service.get("namespace") or "",
        service=service.get("name") or "",
        port=service.get("port") or 443,
        ca=ca,
        insecure=bool(spec.get("insecureSkipTLSVerify")),
        available=condition is not None and condition.get("status") == "True",
        priority=spec.get("groupPriorityMinimum") or 0,
        rank=spec.get("versionPriority") or 0,
    )


def available(obj: JsonObject) -> JsonObject | None:
    """Return the Available condition, or None."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == AVAILABLE), None)


class Availability(msgspec.Struct, frozen=True):
    """The Available condition of an ``APIService``."""

    status: str
    reason: str
    message: str

    @property
    def is_available(self) -> bool:
        """Whether requests may be proxied."""
        return self.status == "True"


LOCAL = Availability("True", "Local", "Local APIServices are always available")
PASSED = Availability("True", "Passed", "all checks passed")


def judged(status: JsonObject, verdict: Availability, now: str) -> JsonObject:
    """Return the status with this condition; lastTransitionTime changes only with the condition's status."""
    new = {
        "type": AVAILABLE,
        "status": verdict.status,
        "lastTransitionTime": now,
        "reason": verdict.reason,
        "message": verdict.message,
    }
    conditions, placed = [], False
    for old in status.get("conditions") or ():
        if old.get("type") != AVAILABLE:
            conditions.append(old)
            continue
        placed = True
        same = old.get("status") == verdict.status
        conditions.append({**new, "lastTransitionTime": old.get("lastTransitionTime", now)} if same else new)
    return {**status, "conditions": conditions if placed else [*conditions, new]}


def local_status(now: str) -> JsonObject:
    """Return the status of a local ``APIService``."""
    return judged({}, LOCAL, now)
