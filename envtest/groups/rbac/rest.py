"""Privilege escalation checks for roles and bindings.

Upstream: pkg/registry/rbac (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from opsdk.apiserver import api_errors
from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes
from opsdk.apiserver.auth.rbac import PolicyRule, escalation
from opsdk.apiserver.auth.rbac_authorizer import RbacAuthorizer
from opsdk.apiserver.auth.rule_resolver import RbacPolicy
from opsdk.apiserver.auth.user import MASTERS
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import Transform, UpdateArguments, Validate, accept
from opsdk.apiserver.registry.store import GenericStore
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.resources import ResourceInfo
from opsdk.apiserver.storage.ports import Storage
from opsdk.errors import ApiError
from opsdk.structured_merge.value import JsonObject

GROUP = "rbac.authorization.k8s.io"
_EVERYTHING = (PolicyRule(verbs=("*",), groups=("*",), resources=("*",)), PolicyRule(verbs=("*",), paths=("*",)))
_KINDS = {"Role": "roles", "ClusterRole": "clusterroles"}
_GC_FIELDS = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion"})


class GuardedStore(GenericStore):
    """A store of roles or bindings, with rules on who may write which.

    Args:
        authorizer: asked whether somebody may ``escalate`` or ``bind``.
        rbac: knows what everybody has.
    """

    def __init__(
        self, storage: Storage, info: ResourceInfo, strategy: Strategy, *, authorizer: Authorizer, rbac: RbacAuthorizer
    ) -> None:
        super().__init__(storage, info, strategy)
        self._authorizer = authorizer
        self._rbac = rbac

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        """See `Creater`."""
        await self._guard(context, "", obj, None)
        return await super().create(context, name, obj, validate)

    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        validate: Validate = accept,
        **arguments: Unpack[UpdateArguments],
    ) -> tuple[JsonObject, bool]:
        """See `Updater`."""

        async def guarded(current: JsonObject | None) -> JsonObject:
            desired = await transform(current)
            await self._guard(context, name, desired, current)
            return desired

        return await super().update(context, name, guarded, validate, **arguments)

    async def _guard(self, context: Context, name: str, obj: JsonObject, old: JsonObject | None) -> None:
        # Whether a write changes nothing but what the garbage collector changes.
        if MASTERS in context.user.groups or (old is not None and (_rest(obj) == _rest(old))):
            return
        if "roleRef" in obj or self.info.resource.endswith("bindings"):
            await self._guard_binding(context, obj)
        elif not await self._may(context, "escalate", self.info.resource, name, context.namespace):
            self._covered(context, obj, [PolicyRule.of(r) for r in obj.get("rules") or ()])
            # Who aggregates can gather anything.
            if (_aggregates(obj) or _aggregates(old or {})) and self._lacks(context, _EVERYTHING):
                raise self._refused(obj, "must have cluster-admin privileges to use the aggregationRule")

    async def _guard_binding(self, context: Context, obj: JsonObject) -> None:
        ref = obj.get("roleRef") or {}
        kind, name = ref.get("kind", ""), ref.get("name", "")
        if kind not in _KINDS:
            raise api_errors.plain(f'unsupported role reference kind: "{kind}"')
        if await self._may(context, "bind", _KINDS[kind], name, context.namespace):
            return
        rules = self._policy.role(context.namespace if kind == "Role" else "", name)
        if rules is None:
            raise api_errors.not_found(self.info, name)
        self._covered(context, obj, rules)

    @property
    def _policy(self) -> RbacPolicy:
        return self._rbac.policy

    async def _may(self, context: Context, verb: str, resource: str, name: str, namespace: str) -> bool:
        attributes = AuthorizerAttributes(
            user=context.user,
            verb=verb,
            group=GROUP,
            version="*",
            resource=resource,
            name=name,
            namespace=namespace,
        )
        return (await self._authorizer.authorize(attributes)).allowed

    def _lacks(self, context: Context, wanted: Sequence[PolicyRule]) -> str | None:
        owned, errors = self._policy.rules_for(context.user, context.namespace)
        return escalation(context.user, owned, wanted, errors)

    def _covered(self, context: Context, obj: JsonObject, wanted: Sequence[PolicyRule]) -> None:
        reason = self._lacks(context, wanted)
        if reason is not None:
            raise self._refused(obj, reason)

    def _refused(self, obj: JsonObject, why: str) -> ApiError:
        return api_errors.forbidden(self.info, (obj.get("metadata") or {}).get("name", ""), why)


def _aggregates(role: JsonObject) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _rest(obj: JsonObject) -> JsonObject:
    meta = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _GC_FIELDS}
    return {**obj, "metadata": meta}
