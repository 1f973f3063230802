"""Decides when certificates are issued and CAs replaced. Pure: the caller passes the time, and writes the result.

A CA is replaced in three steps. `ADD_NEXT_CA`: the ``caBundle`` gets a second CA. `SWITCH_CA`: it signs the serving
certificate. `DROP_OLD_CA`: the first one leaves the ``caBundle``. Between two steps, the state must have been in every
``caBundle`` for `SelfSigned.overlap` seconds. Each replica measures them with its own monotonic clock, from when it saw
the state; times written by other replicas are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from opsdk.errors import ConfigError
from opsdk.webhook.certificates.bundle import CertificateBundle, serving_fault
from opsdk.webhook.certificates.issuing import (
    create_authority,
    encoded_certificate,
    is_authority,
    is_issued_by,
    issue_serving,
    last_moment,
    load_certificate,
    load_certificates,
    names_of,
)
from opsdk.webhook.certificates.options import SelfSigned


class RotationStep(Enum):
    """A change of the Secret."""

    KEEP = "keep"
    """Nothing is due."""
    CREATE = "create"
    """Create a CA and a serving certificate: there is no usable CA."""
    ISSUE_SERVING = "issue a serving certificate"
    """Issue a serving certificate with the current CA."""
    ADD_NEXT_CA = "add the next CA"
    """Add a CA that is trusted, but does not sign yet."""
    SWITCH_CA = "switch to the next CA"
    """Sign a new serving certificate with the next CA; the old CA stays trusted."""
    DROP_OLD_CA = "drop the old CA"
    """Remove the old CA: no replica serves its certificates any more."""


class RenewalRequest(Enum):
    """A renewal before its time, as the annotation `RENEW_ANNOTATION` of the Secret requests it."""

    NONE = ""
    SERVING = "serving"
    CA = "ca"


RENEW_ANNOTATION = "opsdk.dev/renew"
"""Its value is that of a `RenewalRequest`; the replica that begins the renewal removes it."""


def decide(
    bundle: CertificateBundle | None,
    options: SelfSigned,
    *,
    now: datetime,
    published_for: float | None,
    request: RenewalRequest = RenewalRequest.NONE,
) -> RotationStep:
    """Return the next step.

    Args:
        bundle: the content of the Secret; None if it is missing or unusable.
        options: names and times.
        now: the wall clock.
        published_for: seconds since this replica saw this bundle in every ``caBundle``, see `Publication`; None if some
            lack it.
        request: a renewal before its time.
    """
    if bundle is None:
        return RotationStep.CREATE
    overlapped = published_for is not None and published_for >= options.overlap
    if now >= load_certificate(bundle.authority.cert).not_valid_after_utc:
        # Calls fail with the old CA anyway, so no overlap is needed.
        successor = bundle.next_authority
        usable = successor is not None and now < load_certificate(successor.cert).not_valid_after_utc
        return RotationStep.SWITCH_CA if usable else RotationStep.CREATE
    if serving_fault(bundle, options.server_names(), now):
        return RotationStep.ISSUE_SERVING
    if bundle.next_authority is not None and overlapped:
        return RotationStep.SWITCH_CA
    if bundle.next_authority is None and bundle.previous and overlapped:
        # Another client may have written a certificate that the old CA signed.
        renewed = is_issued_by(load_certificate(bundle.serving.cert), load_certificate(bundle.authority.cert))
        return RotationStep.DROP_OLD_CA if renewed else RotationStep.ISSUE_SERVING
    settled = bundle.next_authority is None and not bundle.previous
    if settled and (request is RenewalRequest.CA or is_authority_due(bundle, options, now)):
        return RotationStep.ADD_NEXT_CA
    if request is RenewalRequest.SERVING or is_serving_due(bundle, options, now):
        return RotationStep.ISSUE_SERVING
    return RotationStep.KEEP


def fulfils(step: RotationStep, request: RenewalRequest) -> bool:
    """Whether a step carries out a renewal request, so that the request can be removed.

    >>> fulfils(RotationStep.SWITCH_CA, RenewalRequest.SERVING), fulfils(RotationStep.SWITCH_CA, RenewalRequest.CA)
    (True, False)
    """
    match request:
        case RenewalRequest.CA:
            return step in (RotationStep.CREATE, RotationStep.ADD_NEXT_CA)
        case RenewalRequest.SERVING:
            return step in (RotationStep.CREATE, RotationStep.ISSUE_SERVING, RotationStep.SWITCH_CA)
        case RenewalRequest.NONE:
            return True


def is_authority_due(bundle: CertificateBundle, options: SelfSigned, now: datetime) -> bool:
    """Whether the CA ends before a serving certificate that it would issue, or is not valid yet."""
    certificate = load_certificate(bundle.authority.cert)
    ends_early = certificate.not_valid_after_utc < now + timedelta(seconds=options.validity)
    return ends_early or now < certificate.not_valid_before_utc


def is_serving_due(bundle: CertificateBundle, options: SelfSigned, now: datetime) -> bool:
    """Whether the serving certificate ends within `renew_before`, and a new one would last longer."""
    ends = load_certificate(bundle.serving.cert).not_valid_after_utc
    if ends - now >= timedelta(seconds=options.renew_before):
        return False
    return last_moment(bundle.authority, now, options.validity).replace(microsecond=0) > ends


def advance(
    bundle: CertificateBundle | None, step: RotationStep, options: SelfSigned, now: datetime
) -> CertificateBundle:
    """Return the bundle after a step of `decide`. Generates keys if the step needs them."""
    names, validity = options.server_names(), options.validity
    if bundle is None or step is RotationStep.CREATE:
        authority = create_authority(now, options.ca_validity)
        return CertificateBundle(authority=authority, serving=issue_serving(authority, names, now, validity))
    match step:
        case RotationStep.ISSUE_SERVING:
            every_name = tuple(dict.fromkeys([*names, *names_to_keep(bundle, options, now)]))
            return replace(bundle, serving=issue_serving(bundle.authority, every_name, now, validity))
        case RotationStep.ADD_NEXT_CA:
            return replace(bundle, next_authority=create_authority(now, options.ca_validity))
        case RotationStep.SWITCH_CA:
            assert bundle.next_authority is not None  # `decide` sees it
            return CertificateBundle(
                authority=bundle.next_authority,
                serving=issue_serving(bundle.next_authority, names, now, validity),
                previous=(*bundle.previous, bundle.authority.cert),
            )
        case RotationStep.DROP_OLD_CA:
            return replace(bundle, previous=())
        case RotationStep.KEEP:
            return bundle


def with_inherited(bundle: CertificateBundle, trusted: bytes, now: datetime) -> CertificateBundle:
    """Return a new bundle that also trusts the CAs of an earlier ``caBundle`` (PEM), until the overlap has passed.

    Other replicas may still serve certificates of them: of a Secret that was deleted, or of another issuer. Text that
    does not parse, expired CAs and certificates that are not CAs are left out.
    """
    try:
        certificates = load_certificates(trusted)
    except ConfigError:
        return bundle
    usable = [c for c in certificates if is_authority(c) and now < c.not_valid_after_utc]
    inherited = [pem for pem in dict.fromkeys(map(encoded_certificate, usable)) if pem != bundle.authority.cert]
    return replace(bundle, previous=tuple(inherited))


def names_to_keep(bundle: CertificateBundle, options: SelfSigned, now: datetime) -> list[str]:
    """Return the names of a certificate that is valid, and only lacks names.

    During an update of the operator, replicas need different names. Each adds its own names and keeps those of the
    others.
    """
    if serving_fault(bundle, (), now) or not serving_fault(bundle, options.server_names(), now):
        return []
    return sorted(names_of(load_certificate(bundle.serving.cert)))


def is_outdated(bundle: CertificateBundle, options: SelfSigned, now: datetime, age: float) -> bool:
    """Whether other replicas may have dropped the CA of this bundle since it was read, `age` seconds ago.

    That takes an overlap after the first sight of a rotation, or after the CA is due. Half of it is left for readiness
    probes. A replica without access to the API server stays in use at all other times: its certificate is good.
    """
    if age <= options.overlap / 2:
        return False
    rotating = bundle.next_authority is not None or bool(bundle.previous)
    return rotating or is_authority_due(bundle, options, now)


@dataclass(slots=True)
class Publication:
    """Since when a bundle has been in every ``caBundle``, by one replica's monotonic clock."""

    bundle: CertificateBundle | None = None
    since: float | None = None

    def observe(self, bundle: CertificateBundle, now: float, *, changed: bool) -> None:
        """Report the bundle of the Secret, now that every ``caBundle`` has its CAs.

        Args:
            bundle: the content of the Secret.
            now: the monotonic clock.
            changed: some ``caBundle`` has been set only now.
        """
        if changed or self.bundle != bundle or self.since is None:
            self.bundle, self.since = bundle, now

    def interrupt(self) -> None:
        """Report that it is unknown whether every ``caBundle`` has the CAs."""
        self.since = None

    def seconds(self, bundle: CertificateBundle | None, now: float) -> float | None:
        """Return for how long `bundle` has been published; None if it is not."""
        return None if self.since is None or bundle != self.bundle else now - self.since
