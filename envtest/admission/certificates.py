"""``CertificateApproval``, ``CertificateSigning``, ``CertificateSubjectRestriction``: permission checks for CSRs.

Upstream: plugin/pkg/admission/certificates (v1.36)
"""

from __future__ import annotations

from typing import Final

from envtest.groups.certificates.pem import request_organizations
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.errors import refused
from opsdk.apiserver.admission.plugin import Plugin, writes
from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes
from opsdk.apiserver.auth.user import MASTERS
from opsdk.structured_merge.value import JsonObject

GROUP: Final = "certificates.k8s.io"
_REQUESTS: Final = f"{GROUP}/certificatesigningrequests"
_CLIENTS: Final = "kubernetes.io/kube-apiserver-client"


def _signer(obj: JsonObject | None) -> str:
    return str(((obj or {}).get("spec") or {}).get("signerName", ""))


class SignerPermission(Plugin):
    """Checks that the user has a permission on the signer, or on all signers of its domain.

    Args:
        path: the resource whose updates are checked.
        verb: the RBAC verb that the user needs on the signer.
    """

    def __init__(self, authorizer: Authorizer, *, path: str, verb: str) -> None:
        self._authorizer = authorizer
        self.resources = (path,)
        self._path, self._verb = path, verb

    async def validate(self, attributes: Attributes) -> None:
        """Raise `ForbiddenError` if the user has the permission neither on the signer nor on its domain."""
        if not writes(attributes, self._path, "UPDATE") or not self._applies_to(attributes):
            return
        signer = _signer(attributes.old)
        wildcard = f"{signer.rpartition('/')[0]}/*"
        if not (await self._may(attributes, signer) or await self._may(attributes, wildcard)):
            raise refused(attributes, f'user not permitted to {self._verb} requests with signerName "{signer}"')

    def _applies_to(self, attributes: Attributes) -> bool:
        if self._verb != "sign":
            return True
        new, old = ((obj or {}).get("status") or {} for obj in (attributes.obj, attributes.old))
        return any(new.get(key) != old.get(key) for key in ("certificate", "conditions"))

    async def _may(self, review: Attributes, name: str) -> bool:
        attributes = AuthorizerAttributes(
            user=review.user, verb=self._verb, group=GROUP, version="*", resource="signers", name=name
        )
        return (await self._authorizer.authorize(attributes)).allowed


def approval(authorizer: Authorizer) -> SignerPermission:
    """Return the plugin CertificateApproval."""
    return SignerPermission(authorizer, path=f"{_REQUESTS}/approval", verb="approve")


def signing(authorizer: Authorizer) -> SignerPermission:
    """Return the plugin CertificateSigning."""
    return SignerPermission(authorizer, path=f"{_REQUESTS}/status", verb="sign")


class CertificateSubjectRestriction(Plugin):
    """Refuses client certificates of the group ``system:masters``."""

    resources = (_REQUESTS,)

    async def validate(self, attributes: Attributes) -> None:
        """Check new CSRs for the signer of API client certificates."""
        if not writes(attributes, _REQUESTS, "CREATE") or _signer(attributes.obj) != _CLIENTS:
            return
        try:
            groups = request_organizations(((attributes.obj or {}).get("spec") or {}).get("request", ""))
        except ValueError as error:
            raise refused(attributes, f"failed to parse CSR: {error}") from None
        if MASTERS in groups:
            raise refused(attributes, f"use of {_CLIENTS} signer with {MASTERS} group is not allowed")
