"""Rules of ClusterTrustBundles and PodCertificateRequests, which Kubernetes serves from 1.37 on.

Upstream: pkg/registry/certificates, k8s.io/api/certificates/v1/types.go (v1.37)
Deviates: the signature of a stub request, and the permissions to attest and to sign, are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envtest.groups.certificates.pem import trust_bundle_problem
from envtest.groups.certificates.validation import signer_name
from envtest.groups.common import validation
from opsdk.apimachinery.validation import dns_subdomain
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_SHORTEST: Final = 3_600
_LONGEST: Final = 7_862_400
_REQUIRED: Final = (
    "podName", "podUID", "serviceAccountName", "serviceAccountUID", "nodeName", "nodeUID", "stubPKCS10Request",
)  # fmt: skip
_BUNDLE: Final = "spec.trustBundle"
SIGNER: Final = "spec.signerName"


def signer_of(obj: JsonObject) -> str:
    """Return the name of the signer; empty without one."""
    return str((obj.get("spec") or {}).get("signerName", ""))


def bundle_name(name: str) -> Sequence[str]:
    """Check a bundle's name: a DNS subdomain behind the signer's name, whose slashes are colons."""
    return dns_subdomain(name.rpartition(":")[2])


def validate_bundle(obj: JsonObject) -> Iterator[Cause]:
    """Validate a ClusterTrustBundle."""
    signer, name = signer_of(obj), obj["metadata"].get("name", "")
    if signer:
        yield from signer_name(signer, SIGNER)
        prefix = f"{signer.replace('/', ':')}:"
        if not name.startswith(prefix):
            text = f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
            yield api_errors.invalid_value("metadata.name", name, text)
    elif ":" in name:
        text = "ClusterTrustBundle without signer name must not have ':' in its name"
        yield api_errors.invalid_value("metadata.name", name, text)
    problem = trust_bundle_problem((obj.get("spec") or {}).get("trustBundle", ""))
    if problem:
        yield api_errors.invalid_value(_BUNDLE, "<value omitted>", problem)


def validate_bundle_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the signer is immutable."""
    yield from validate_bundle(obj)
    yield from validation.immutable_field(obj.get("spec") or {}, old.get("spec") or {}, "signerName", SIGNER)


def validate_pod_request(obj: JsonObject) -> Iterator[Cause]:
    """Validate a new PodCertificateRequest."""
    spec = obj.get("spec") or {}
    yield from signer_name(signer_of(obj), SIGNER)
    for key in _REQUIRED:
        yield from validation.required(spec.get(key), f"spec.{key}")
    seconds = spec.get("maxExpirationSeconds")
    if seconds is not None:
        yield from validation.in_range(seconds, _SHORTEST, _LONGEST, "spec.maxExpirationSeconds")


def validate_pod_request_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the spec is immutable."""
    yield from validation.immutable_field(obj, old, "spec")
