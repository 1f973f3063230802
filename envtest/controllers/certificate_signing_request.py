"""CSR controllers: approve node requests, sign approved requests, delete old ones.

Upstream: pkg/controller/certificates (v1.36)
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from envtest.controllers.controller import ObjectController
from envtest.controllers.objects import conditions_of, deleting, is_true, parse_time, stamp, with_condition, with_status
from envtest.controllers.writes import SIGNING_REQUESTS, DeleteWrite, UpdateWrite
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject, JsonValue

_CLIENT, _KUBELET = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet"
_SERVING, _LEGACY = "kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"
_SIGNERS = (_CLIENT, _KUBELET, _SERVING, _LEGACY)
_NODES, _NODE = "system:nodes", "system:node:"
_BASE = frozenset({"digital signature", "key encipherment"})
_HOUR = 3600.0
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class RequestedCertificate:
    """The parsed contents of a certificate request."""

    name: str
    organizations: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """The subject alternative names of types that the checks reject: e-mail addresses and URIs."""

    @classmethod
    def read(cls, pem: bytes) -> RequestedCertificate:
        """Parse a PEM request; `ValueError` if it does not parse."""
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        request = x509.load_pem_x509_csr(pem)
        names = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        organizations = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        alternatives: list[JsonValue] = []
        with suppress(x509.ExtensionNotFound):
            alternatives.extend(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)

        def kind(*kinds: JsonValue) -> tuple[str, ...]:
            return tuple(str(n.value) for n in alternatives if isinstance(n, kinds))

        return cls(
            str(names[0].value) if names else "",
            tuple(str(o.value) for o in organizations),
            kind(x509.DNSName),
            kind(x509.IPAddress),
            kind(x509.RFC822Name, x509.UniformResourceIdentifier),
        )


# ------------------------------------------------------------------ core
def refusal(signer: str, certificate: RequestedCertificate, usages: Sequence[str]) -> str:
    """Return why the signer refuses a request; empty if it signs."""
    usage = "server auth" if signer == _SERVING else "client auth"
    if signer != _LEGACY and (usage not in usages or not set(usages) <= _BASE | {usage}):
        return f"usages did not match [{usage} digital signature key encipherment]"
    if signer in (_KUBELET, _SERVING):
        if certificate.organizations != (_NODES,):
            return "subject organization is not system:nodes"
        if not certificate.name.startswith(_NODE):
            return "subject common name does not begin with system:node:"
        if certificate.others:
            return "email and URI subject alternative names are not allowed"
        if signer == _KUBELET and (certificate.dns or certificate.addresses):
            return "DNS and IP subject alternative names are not allowed"
        if signer == _SERVING and not (certificate.dns or certificate.addresses):
            return "DNS or IP subjectAltName is required"
        return ""
    return ""


def is_decided(request: JsonObject) -> bool:
    """Return whether a request is approved, denied or failed."""
    return any(is_true(conditions_of(request), kind) for kind in ("Approved", "Denied", "Failed"))


def with_decision(request: JsonObject, kind: str, reason: str, message: str, now: datetime) -> JsonObject:
    """Return the request with a condition added."""
    when = stamp(now)
    new = {"type": kind, "status": "True", "reason": reason, "message": message, "lastUpdateTime": when}
    conditions = with_condition(conditions_of(request), {**new, "lastTransitionTime": when})
    return with_status(request, {**(request.get("status") or {}), "conditions": conditions})


def seconds_left(request: JsonObject, now: datetime) -> float:
    """Return the seconds until a request expires: an hour after its decision, a day without one."""
    conditions = conditions_of(request)
    times = [c["lastUpdateTime"] for c in conditions if c.get("lastUpdateTime")]
    created = request["metadata"]["creationTimestamp"]
    denied = is_true(conditions, "Denied") or is_true(conditions, "Failed")
    issued = is_true(conditions, "Approved") and (request.get("status") or {}).get("certificate")
    since = max(times, default=created) if denied or issued else created
    limit = _HOUR if denied or issued else 24 * _HOUR
    return limit - (now - parse_time(since)).total_seconds()


def pem_of(request: JsonObject) -> bytes:
    """Return the PEM of the request."""
    return base64.b64decode(request["spec"]["request"])


# ------------------------------------------------------------------ shells
class _Requests(ObjectController):
    resource = SIGNING_REQUESTS

    def add_event_handlers(self) -> None:
        """Watch certificate signing requests."""
        self.informers.add_event_handler(SIGNING_REQUESTS, self._changed)

    def _changed(self, change: StorageChange) -> None:
        if change.current is not None and not deleting(change.current):
            self.queue.add(change.key)


class SigningController(_Requests):
    """``certificatesigningrequest-signing``: signs approved requests of Kubernetes' own signers."""

    name = "certificatesigningrequest-signing"

    async def sync(self, obj: JsonObject) -> float | None:
        """Sign an approved request."""
        if obj["spec"].get("signerName") not in _SIGNERS:
            return None
        conditions, status = conditions_of(obj), obj.get("status") or {}
        if not is_true(conditions, "Approved") or is_true(conditions, "Failed") or status.get("certificate"):
            return None
        spec = obj["spec"]
        reason = refusal(spec["signerName"], RequestedCertificate.read(pem_of(obj)), spec.get("usages") or ())
        if reason:
            changed = with_decision(obj, "Failed", "SignerValidationFailure", reason, self.context.now())
        else:
            certificate = self.context.certify(pem_of(obj), spec.get("usages") or (), spec.get("expirationSeconds"))
            encoded = base64.b64encode(certificate).decode()
            changed = with_status(obj, {**status, "certificate": encoded})
        await self.write([UpdateWrite(SIGNING_REQUESTS, changed, "status")])
        return None


class ApprovingController(_Requests):
    """``certificatesigningrequest-approving``: approves requests of nodes that are authorized for them."""

    name = "certificatesigningrequest-approving"

    async def sync(self, obj: JsonObject) -> float | None:
        """Approve a request of a node that has the permission."""
        if is_decided(obj) or obj["spec"].get("signerName") != _KUBELET:
            return None
        attributes, spec = RequestedCertificate.read(pem_of(obj)), obj["spec"]
        if refusal(_KUBELET, attributes, spec.get("usages") or ()):
            return None
        own = attributes.name == spec.get("username")
        for part, text, fits in (
            ("selfnodeclient", "self kubelet client", own),
            ("nodeclient", "kubelet client", True),
        ):
            if fits and await self._is_allowed(spec, part):
                message = f"Auto approving {text} certificate after SubjectAccessReview."
                changed = with_decision(obj, "Approved", "AutoApproved", message, self.context.now())
                await self.write([UpdateWrite(SIGNING_REQUESTS, changed, "approval")])
                return None
        return None

    async def _is_allowed(self, spec: JsonObject, part: str) -> bool:
        """Whether the requesting user may create this subresource, by a SubjectAccessReview."""
        where = {"group": SIGNING_REQUESTS.group, "resource": SIGNING_REQUESTS.plural, "subresource": part}
        review = {
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": {
                "user": spec.get("username", ""),
                "uid": spec.get("uid", ""),
                "groups": spec.get("groups") or [],
                "extra": spec.get("extra") or {},
                "resourceAttributes": {**where, "version": "*", "verb": "create"},
            },
        }
        answer = await self.context.api.send("POST", _REVIEWS, review)
        return bool((answer.get("status") or {}).get("allowed"))


class CleaningController(_Requests):
    """``certificatesigningrequest-cleaner``: deletes finished and expired requests."""

    name = "certificatesigningrequest-cleaner"

    async def sync(self, obj: JsonObject) -> float | None:
        """Delete a request after its time; else return the seconds until then."""
        remaining = seconds_left(obj, self.context.now())
        if remaining > 0:
            return remaining
        await self.write([DeleteWrite(SIGNING_REQUESTS, obj)])
        return None
