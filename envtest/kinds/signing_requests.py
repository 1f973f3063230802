# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Requests for certificates: who asks is who asked, and approval and signature have resources of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from envtest.kinds import rules
from envtest.kinds.base import TableStrategy
from envtest.kinds.pem import certificate_problem, request_organizations
from envtest.tables.load import Row
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.strategy import StatusStrategy
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

LEGACY: Final = "kubernetes.io/legacy-unknown"
_VERDICTS: Final = frozenset({"Approved", "Denied"})
_OWNED: Final = ("spec", "status")
"""What nobody is named as the owner of, wherever it is written."""
_DECIDED: Final = ("Approved", "Denied", "Failed")
_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_CERTIFICATE: Final = "status.certificate"
_CONDITIONS: Final = "status.conditions"


class SigningRequestStrategy(TableStrategy):
    """See the module."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {"spec.signerName": lambda obj: str((obj.get("spec") or {}).get("signerName", ""))}

    @property
    def reset_fields(self) -> Sequence[str]:
        """Nobody owns anything but metadata."""
        return _OWNED

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Any name that can stand in a path."""
        return validation.path_segment(name, prefix=prefix)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """The user is the one who asks."""
        super().prepare_for_create(context, obj)
        user = context.user
        who: JsonObject = {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        spec = {k: v for k, v in (obj.get("spec") or {}).items() if k not in who}
        obj["spec"] = {**spec, **{key: value for key, value in who.items() if value}}

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """What was asked for stays."""
        super().prepare_for_update(context, obj, old)
        obj["spec"] = old["spec"]

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """The request and what it is for."""
        return list(_problems(obj, None))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Nothing but metadata changes here."""
        return list(_problems(obj, old))


def _problems(obj: JsonObject, old: JsonObject | None) -> Iterator[Cause]:
    """`old` excuses what was there before."""
    spec = obj.get("spec") or {}
    if old is None:
        yield from _request(spec)
    yield from _conditions((obj.get("status") or {}).get("conditions") or ())
    certificate = (obj.get("status") or {}).get("certificate")
    if certificate and certificate != ((old or {}).get("status") or {}).get("certificate"):
        why = certificate_problem(certificate)
        if why:
            yield api_errors.invalid_value(_CERTIFICATE, "<certificate data>", why)


def _request(spec: JsonObject) -> Iterator[Cause]:
    try:
        request_organizations(spec.get("request", ""))
    except ValueError as error:
        yield api_errors.invalid_value("spec.request", spec.get("request"), str(error))
    usages = spec.get("usages") or []
    yield from rules.needed(usages, "spec.usages")
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
        yield from _signer(signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        yield api_errors.invalid_value("spec.expirationSeconds", seconds, text)


def _signer(name: str, path: str) -> Iterator[Cause]:
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
    for part, rule in ((domain, validation.dns_label), (last, validation.dns_subdomain)):
        wrong = next(((label, found) for label in part.split(".") if (found := rule(label))), None)
        if wrong is not None:
            for text in wrong[1]:
                yield api_errors.invalid_value(path, part, f"validating label {api_errors.quoted(wrong[0])}: {text}")
        if part is domain and "." not in domain:
            text = "should be a domain with at least two segments separated by dots"
            yield api_errors.invalid_value(path, domain, text)


def _conditions(conditions: Sequence[JsonObject]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at, kind, status = f"{_CONDITIONS}[{index}]", condition.get("type", ""), condition.get("status", "")
        yield from rules.needed(kind, f"{at}.type")
        yield from rules.one_of(status, ("True",) if kind in _DECIDED else ("False", "True", "Unknown"), f"{at}.status")
        if kind in _VERDICTS and seen & (_VERDICTS - {kind}):
            yield api_errors.invalid_value(_CONDITIONS, kind, "Approved and Denied conditions are mutually exclusive")
        if kind in seen:
            yield api_errors.duplicate(f"{at}.type", kind)
        seen.add(kind)


# ------------------------------------------------------------------ parts of the status
def _of_kind(obj: JsonObject, kind: str) -> list[tuple[Any, ...]]:
    """The decisions of a kind, as far as they matter."""
    keys = ("status", "reason", "message")
    found = (obj.get("status") or {}).get("conditions") or ()
    return [tuple(c.get(key) or "" for key in keys) for c in found if c.get("type") == kind]


def _decisions(obj: JsonObject, old: JsonObject, *, fixed: Sequence[str]) -> Iterator[Cause]:
    """Decisions are not taken back; those that are `fixed` are not made here either."""
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


def _stamp(context: Context, obj: JsonObject, old: JsonObject) -> None:
    """Conditions tell when they were written, and since when they hold."""
    status = obj.get("status") or {}
    conditions = status.get("conditions")
    if not conditions:
        return
    now, before = context.timestamp(), (old.get("status") or {}).get("conditions") or ()
    made = []
    for condition in conditions:
        same = (c for c in before if all(c.get(k) == condition.get(k) for k in ("type", "status")))
        since = next((c["lastTransitionTime"] for c in same if c.get("lastTransitionTime")), now)
        times = {"lastUpdateTime": condition.get("lastUpdateTime") or now}
        made.append({**condition, **times, "lastTransitionTime": condition.get("lastTransitionTime") or since})
    obj["status"] = {**status, "conditions": made}


class SignatureStrategy(StatusStrategy):
    """Updates of ``certificatesigningrequests/status``: the certificate, once."""

    @property
    def reset_fields(self) -> Sequence[str]:
        """Nobody owns anything but metadata."""
        return _OWNED

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """See the class."""
        super().prepare_for_update(context, obj, old)
        _stamp(context, obj, old)

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """See the class."""
        found = [*_problems(obj, old), *_decisions(obj, old, fixed=("Approved", "Denied"))]
        before = (old.get("status") or {}).get("certificate")
        if before and (obj.get("status") or {}).get("certificate") != before:
            found.append(api_errors.not_allowed(_CERTIFICATE, "updates may not modify existing certificate content"))
        return found


class ApprovalStrategy(StatusStrategy):
    """Updates of ``certificatesigningrequests/approval``: conditions."""

    @property
    def reset_fields(self) -> Sequence[str]:
        """Nobody owns anything but metadata."""
        return _OWNED

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """See the class."""
        super().prepare_for_update(context, obj, old)
        before = {k: v for k, v in (old.get("status") or {}).items() if k != "conditions"}
        conditions = (obj.get("status") or {}).get("conditions")
        obj["status"] = {**({"conditions": conditions} if conditions else {}), **before}
        _stamp(context, obj, old)

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """See the class."""
        return [*_problems(obj, old), *_decisions(obj, old, fixed=())]
