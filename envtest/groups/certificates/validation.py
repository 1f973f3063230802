"""Validation of CertificateSigningRequests.

Upstream: pkg/apis/certificates/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envtest.groups.certificates.pem import certificate_problem, request_organizations
from envtest.groups.common import validation
from opsdk.apimachinery.validation import dns_label, dns_subdomain
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue

LEGACY: Final = "kubernetes.io/legacy-unknown"
_VERDICTS: Final = frozenset({"Approved", "Denied"})
_DECIDED: Final = ("Approved", "Denied", "Failed")
_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
CERTIFICATE: Final = "status.certificate"
_CONDITIONS: Final = "status.conditions"


def validate_signing_request(obj: JsonObject, old: JsonObject | None) -> Iterator[Cause]:
    """Validate a CertificateSigningRequest; ratcheting accepts errors that the `old` object already had."""
    spec = obj.get("spec") or {}
    if old is None:
        yield from _request(spec)
    conditions = (obj.get("status") or {}).get("conditions") or ()
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        item_path, kind, status = f"{_CONDITIONS}[{index}]", condition.get("type", ""), condition.get("status", "")
        yield from validation.required(kind, f"{item_path}.type")
        yield from validation.one_of(
            status, ("True",) if kind in _DECIDED else ("False", "True", "Unknown"), f"{item_path}.status"
        )
        if kind in _VERDICTS and types & (_VERDICTS - {kind}):
            yield api_errors.invalid_value(_CONDITIONS, kind, "Approved and Denied conditions are mutually exclusive")
        if kind in types:
            yield api_errors.duplicate(f"{item_path}.type", kind)
        types.add(kind)
    certificate = (obj.get("status") or {}).get("certificate")
    if certificate and certificate != ((old or {}).get("status") or {}).get("certificate"):
        problem = certificate_problem(certificate)
        if problem:
            yield api_errors.invalid_value(CERTIFICATE, "<certificate data>", problem)


def _request(spec: JsonObject) -> Iterator[Cause]:
    """Yield what is wrong with the spec of a CertificateSigningRequest."""
    try:
        request_organizations(spec.get("request", ""))
    except ValueError as error:
        yield api_errors.invalid_value("spec.request", spec.get("request"), str(error))
    usages = spec.get("usages") or []
    yield from validation.required(usages, "spec.usages")
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            yield api_errors.unsupported(f"spec.usages[{index}]", usage, _USAGES)
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            yield api_errors.duplicate(f"spec.usages[{index}]", usage)
    signer = spec.get("signerName", "")
    if signer == LEGACY:
        text = "the legacy signerName is not allowed via this API version"
        yield api_errors.invalid_value("spec.signerName", signer, text)
    else:
        yield from signer_name(signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        yield api_errors.invalid_value("spec.expirationSeconds", seconds, text)


def signer_name(name: str, path: str) -> Iterator[Cause]:
    """Validate the name of a signer: a domain and a path."""
    if not name:
        yield api_errors.required(path)
        return
    if name.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield api_errors.invalid_value(path, name, text)
        return
    domain, _, last = name.partition("/")
    if len(domain) > 253:
        yield api_errors.too_long(path, 253)
    for part, rule in ((domain, dns_label), (last, dns_subdomain)):
        wrong = next(((label, problems) for label in part.split(".") if (problems := rule(label))), None)
        if wrong is not None:
            for text in wrong[1]:
                yield api_errors.invalid_value(path, part, f"validating label {api_errors.quoted(wrong[0])}: {text}")
        if part is domain and "." not in domain:
            text = "should be a domain with at least two segments separated by dots"
            yield api_errors.invalid_value(path, domain, text)


# ------------------------------------------------------------------ conditions
def _of_kind(obj: JsonObject, kind: str) -> list[tuple[JsonValue, ...]]:
    """Return the conditions of a type without timestamps."""
    keys = ("status", "reason", "message")
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return [tuple(c.get(key) or "" for key in keys) for c in conditions if c.get("type") == kind]


def validate_decisions(obj: JsonObject, old: JsonObject, *, fixed: Sequence[str]) -> Iterator[Cause]:
    """Validate the conditions: decisions are permanent; those that are `fixed` cannot be added here."""
    for kind in _DECIDED:
        new, before = _of_kind(obj, kind), _of_kind(old, kind)
        verb = ""
        if len(new) < len(before):
            verb = "remove"
        elif kind in fixed and len(new) > len(before):
            verb = "add"
        elif kind in fixed and new != before:
            verb = "modify"
        if verb:
            yield api_errors.not_allowed(_CONDITIONS, f'updates may not {verb} a condition of type "{kind}"')
