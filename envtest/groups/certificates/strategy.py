"""CertificateSigningRequests: the server sets the requester; approval and status are subresources.

Upstream: pkg/registry/certificates/certificates (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from envtest.data.resources import ServedResourceRow
from envtest.groups.certificates import trust
from envtest.groups.certificates.validation import CERTIFICATE, validate_decisions, validate_signing_request
from envtest.groups.common.strategy import GeneratedStrategy, KindRules, StrategyFactory, ruled
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.strategy import StatusStrategy
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_OWNED: Final = ("spec", "status")
"""Fields that managedFields does not track."""
_USER_FIELDS: Final = ("username", "uid", "groups", "extra")
"""Fields of the spec that the server sets."""


class SigningRequestStrategy(GeneratedStrategy):
    """Sets the requester of a new CertificateSigningRequest, and keeps spec and status of updates."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {trust.SIGNER: trust.signer_of}

    @property
    def reset_fields(self) -> Sequence[str]:
        """Return spec and status: field managers own only metadata."""
        return _OWNED

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Check that the name is a path segment."""
        return validation.path_segment(name, prefix=prefix)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Set username, uid, groups and extra from the user of the request."""
        super().prepare_for_create(context, obj)
        spec = {name: value for name, value in (obj.get("spec") or {}).items() if name not in _USER_FIELDS}
        obj["spec"] = {**spec, **context.user.user_info()}

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore the old spec and status."""
        super().prepare_for_update(context, obj, old)
        obj["spec"] = old["spec"]

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate the request, the signer and the usages."""
        return list(validate_signing_request(obj, None))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: only metadata changes."""
        return list(validate_signing_request(obj, old))


def _stamp(context: Context, obj: JsonObject, old: JsonObject) -> None:
    """Set lastUpdateTime and lastTransitionTime of conditions."""
    status = obj.get("status") or {}
    conditions = status.get("conditions")
    if not conditions:
        return
    now, before = context.timestamp(), (old.get("status") or {}).get("conditions") or ()
    stamped = []
    for condition in conditions:
        same = (c for c in before if all(c.get(k) == condition.get(k) for k in ("type", "status")))
        since = next((c["lastTransitionTime"] for c in same if c.get("lastTransitionTime")), now)
        times = {"lastUpdateTime": condition.get("lastUpdateTime") or now}
        stamped.append({**condition, **times, "lastTransitionTime": condition.get("lastTransitionTime") or since})
    obj["status"] = {**status, "conditions": stamped}


class SignatureStrategy(StatusStrategy):
    """Updates of ``certificatesigningrequests/status``: the certificate is set once."""

    @property
    def reset_fields(self) -> Sequence[str]:
        """Return spec and status: field managers own only metadata."""
        return _OWNED

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore everything except the status, and set the timestamps of conditions."""
        super().prepare_for_update(context, obj, old)
        _stamp(context, obj, old)

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the certificate and the conditions."""
        causes = [*validate_signing_request(obj, old), *validate_decisions(obj, old, fixed=("Approved", "Denied"))]
        before = (old.get("status") or {}).get("certificate")
        if before and (obj.get("status") or {}).get("certificate") != before:
            causes.append(api_errors.not_allowed(CERTIFICATE, "updates may not modify existing certificate content"))
        return causes


class ApprovalStrategy(StatusStrategy):
    """Updates of ``certificatesigningrequests/approval``: only conditions change."""

    @property
    def reset_fields(self) -> Sequence[str]:
        """Return spec and status: field managers own only metadata."""
        return _OWNED

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Restore everything except the conditions, and set their timestamps."""
        super().prepare_for_update(context, obj, old)
        before = {k: v for k, v in (old.get("status") or {}).items() if k != "conditions"}
        conditions = (obj.get("status") or {}).get("conditions")
        obj["status"] = {**({"conditions": conditions} if conditions else {}), **before}
        _stamp(context, obj, old)

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the conditions."""
        return [*validate_signing_request(obj, old), *validate_decisions(obj, old, fixed=())]


STRATEGIES: Mapping[str, StrategyFactory] = {
    "certificates.k8s.io/certificatesigningrequests": SigningRequestStrategy,
    "certificates.k8s.io/clustertrustbundles": ruled(
        KindRules(
            new=trust.validate_bundle,
            changed=trust.validate_bundle_update,
            name=trust.bundle_name,
            selectable={trust.SIGNER: trust.signer_of},
        )
    ),
    "certificates.k8s.io/podcertificaterequests": ruled(
        KindRules(
            new=trust.validate_pod_request,
            changed=trust.validate_pod_request_update,
            selectable={
                trust.SIGNER: trust.signer_of,
                "spec.nodeName": lambda obj: str((obj.get("spec") or {}).get("nodeName", "")),
            },
        )
    ),
}
"""By ``group/resource``."""
