"""Finds the permissions that the client's user lacks, and checks an operator's rules at its start.

Upstream: k8s.io/kubectl/pkg/cmd/auth/cani.go (v1.36) sends the same reviews.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from opsdk.api.authorization.v1 import (
    NonResourceAttributes,
    ResourceAttributes,
    SelfSubjectAccessReview,
    SelfSubjectAccessReviewSpec,
    SelfSubjectRulesReview,
    SelfSubjectRulesReviewSpec,
)
from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apimachinery.rest_mapper import RestMapping, StaticMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.client.client import Client
from opsdk.client.direct import DirectClient
from opsdk.errors import ApiError, MissingPermissionsError, OpsdkError
from opsdk.rbac.check import RbacCheck
from opsdk.rbac.permissions import SELECTED_NAMESPACES, Permission, RuleSet
from opsdk.rest.transport import Transport
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["PermissionReviewer", "RuleCheck"]

log = SafeLogger(__name__)

# Reviews in flight at a time: a start must not use up the server's seats for this user.
_CONCURRENCY = 8
# Seconds for all reviews.
_TIMEOUT = 15.0

_GROUP = "authorization.k8s.io"
# The reviews must not depend on discovery, which an unavailable aggregated API would delay.
_REVIEW_MAPPINGS = [
    RestMapping(gvk=kind.gvk, resource=GroupVersionResource(_GROUP, "v1", resource), namespaced=False)
    for kind, resource in (
        (SelfSubjectAccessReview, "selfsubjectaccessreviews"),
        (SelfSubjectRulesReview, "selfsubjectrulesreviews"),
    )
]


class PermissionReviewer:
    """Reviews the permissions of the user that a transport authenticates as.

    The permissions of a namespace take one SelfSubjectRulesReview, whose result may be incomplete. Permissions that it
    does not cover, and those in all namespaces, take one SelfSubjectAccessReview each: a rules review does not show
    whether a rule holds in all namespaces.

    Args:
        transport: sends the reviews.
        scheme: the registry of kinds.
    """

    def __init__(self, transport: Transport, scheme: Scheme) -> None:
        self._client = Client(DirectClient(transport, scheme=scheme, mapper=StaticMapper(_REVIEW_MAPPINGS)))

    async def missing(self, rules: RuleSet) -> RuleSet:
        """Return the permissions that the user lacks. Those in `SELECTED_NAMESPACES` are not reviewed.

        Raises:
            OpsdkError: the server does not review, or cannot be reached.
        """
        unknown: list[Permission] = []
        for namespace in [name for name in rules.namespaces if name != SELECTED_NAMESPACES]:
            part = RuleSet(p for p in rules if p.namespace == namespace)
            unknown += part - await self._rules_review(namespace) if namespace and len(part) > 1 else part
        lacking: list[Permission] = []
        for first in range(0, len(unknown), _CONCURRENCY):
            chunk = unknown[first : first + _CONCURRENCY]
            answers = await asyncio.gather(*map(self._is_allowed, chunk), return_exceptions=True)
            for permission, answer in zip(chunk, answers, strict=True):
                if isinstance(answer, BaseException):
                    raise answer
                lacking += [] if answer else [permission]
        return RuleSet(lacking)

    async def _rules_review(self, namespace: str) -> RuleSet:
        review = SelfSubjectRulesReview(spec=SelfSubjectRulesReviewSpec(namespace=namespace))
        try:
            status = (await self._client.create(review)).status
        except ApiError as error:
            log.debug("permissions in %s are reviewed one by one: %s", namespace, error)
            return RuleSet()
        return RuleSet.from_review(status, namespace)

    async def _is_allowed(self, permission: Permission) -> bool:
        """Whether the client may do this, by a SelfSubjectAccessReview."""
        if permission.path:
            path = NonResourceAttributes(path=permission.path, verb=permission.verb)
            spec = SelfSubjectAccessReviewSpec(non_resource_attributes=path)
        else:
            resource, _, subresource = permission.resource.partition("/")
            attributes = ResourceAttributes(
                verb=permission.verb,
                group=permission.group,
                resource=resource,
                subresource=subresource,
                name=permission.name,
                namespace=permission.namespace,
            )
            spec = SelfSubjectAccessReviewSpec(resource_attributes=attributes)
        return (await self._client.create(SelfSubjectAccessReview(spec=spec))).status.allowed

    def __repr__(self) -> str:
        return f"<PermissionReviewer over {self._client!r}>"


class RuleCheck:
    """A Runnable that reviews an operator's rules once. A server that does not review never stops the operator.

    Args:
        reviewer: sends the reviews.
        rules: the declared permissions.
        mode: ERROR or WARN.
        role: the name of the roles, for the message.
    """

    def __init__(self, reviewer: PermissionReviewer, rules: RuleSet, *, mode: RbacCheck, role: str) -> None:
        self.rules = rules
        self.mode = mode
        self._reviewer = reviewer
        self._role = role
        self._checked = asyncio.Event()

    def needs_leader_election(self) -> bool:
        """Return False: a standby replica needs the same permissions."""
        return False

    async def start(self) -> None:
        """Review the rules. Raises `MissingPermissionsError` in mode ERROR."""
        lacking = RuleSet()
        try:
            async with asyncio.timeout(_TIMEOUT):
                lacking = await self._reviewer.missing(self.rules)
        except (OpsdkError, TimeoutError) as error:
            reason = str(error) or f"no response within {_TIMEOUT:g} s"
            log.warning("the declared RBAC rules cannot be checked: %s", reason)
        if lacking:
            text = describe_missing(lacking, self._role)
            if self.mode is RbacCheck.ERROR:
                raise MissingPermissionsError(text, missing=tuple(map(str, lacking)))
            log.warning("%s", text)
        self._checked.set()

    async def wait_ready(self) -> None:
        """Return when the rules are reviewed; at once in mode WARN."""
        if self.mode is RbacCheck.ERROR:
            await self._checked.wait()

    def __repr__(self) -> str:
        return f"<RuleCheck of {len(self.rules)} permissions>"


def describe_missing(lacking: RuleSet, role: str) -> str:
    """Return a message with the missing permissions, and the role that should grant them.

    >>> print(describe_missing(RuleSet([Permission("list", "", "secrets", namespace="shop")]), "site"))
    missing RBAC permissions: list secrets in namespace shop (add it to Role site in namespace shop)
    """
    parts: list[str] = []
    for namespace in lacking.namespaces:
        part: Sequence[Permission] = [p for p in lacking if p.namespace == namespace]
        pronoun = "it" if len(part) == 1 else "them"
        target = f"Role {role} in namespace {namespace}" if namespace else f"ClusterRole {role}"
        parts.append(f"{', '.join(map(str, part))} (add {pronoun} to {target})")
    return f"missing RBAC permissions: {'; '.join(parts)}"
