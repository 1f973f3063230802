"""Policies and bindings: the writer must be able to read the referenced params.

Upstream: pkg/registry/admissionregistration/validatingadmissionpolicy (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envtest.groups.common.rest import CheckedStore
from opsdk.apiserver import api_errors
from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.resources import ResourceInfo
from opsdk.apiserver.storage.ports import KeyNotFoundError, LocalStorage
from opsdk.structured_merge.value import JsonObject

GROUP = "admissionregistration.k8s.io"
GUARDED = frozenset(
    {
        f"{GROUP}/mutatingadmissionpolicies",
        f"{GROUP}/mutatingadmissionpolicybindings",
        f"{GROUP}/validatingadmissionpolicies",
        f"{GROUP}/validatingadmissionpolicybindings",
    }
)
"""Resources of a `PolicyStore`."""
Resolve = Callable[[str, str], str | None]
"""Returns the resource of an apiVersion and a kind; None if it is not served."""


class PolicyStore(CheckedStore):
    """A store of policies or of bindings.

    Args:
        authorizer: checks that the user can read the parameters.
        resolve: returns the resource of the parameter kind.
        stores: the registries by ``group/resource``, for the policies of bindings.
    """

    def __init__(
        self,
        storage: LocalStorage,
        info: ResourceInfo,
        strategy: Strategy,
        *,
        authorizer: Authorizer,
        resolve: Resolve,
        stores: Mapping[str, LocalStore],
    ) -> None:
        super().__init__(storage, info, strategy)
        self._authorizer = authorizer
        self._resolve = resolve
        self._stores = stores
        self._of_bindings = info.resource.endswith("bindings")

    async def check_after_validation(self, context: Context, obj: JsonObject, old: JsonObject | None) -> None:
        """Refuse a policy or binding whose params the user may not read."""
        user = context.user
        key = "paramRef" if self._of_bindings else "paramKind"
        spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
        same = spec.get(key) == before.get(key) and spec.get("policyName") == before.get("policyName")
        if spec.get(key) is None or same or MASTERS in user.groups:
            return
        if (await self._authorizer.authorize(self._attributes(user, spec))).allowed:
            return
        reason = f'user {_shown(user)} does not have "get" permission on the object referenced by paramRef'
        if not self._of_bindings:
            kind = spec[key]
            text = f"kind={kind.get('kind', '')}, apiVersion={kind.get('apiVersion', '')}"
            reason = (
                f'user {_shown(user)} must have "get" permission on all objects of the referenced paramKind ({text})'
            )
        causes = [api_errors.not_allowed(f"spec.{key}", reason)]
        raise api_errors.invalid(self.info.kind, self.info.group, obj["metadata"].get("name", ""), causes)

    def _attributes(self, user: User, spec: JsonObject) -> AuthorizerAttributes:
        kind = self._kind(spec.get("policyName") or "") if self._of_bindings else spec["paramKind"]
        group = version = resource = "*"
        if kind is not None:
            api_version = str(kind.get("apiVersion") or "")
            group, _, version = api_version.rpartition("/")
            resource = self._resolve(api_version, str(kind.get("kind") or "")) or "*"
        ref: JsonObject = spec["paramRef"] if self._of_bindings else {"name": "*", "namespace": "*"}
        name, namespace = ref.get("name") or "", ref.get("namespace") or ""
        return AuthorizerAttributes(
            user=user, verb="get", group=group, version=version, resource=resource, name=name, namespace=namespace
        )

    def _kind(self, policy: str) -> JsonObject | None:
        policies = self._stores[f"{GROUP}/{self.info.resource.removesuffix('bindings')[:-1]}ies"]
        try:
            stored = self.storage.get_now(policies.key("", policy))
        except KeyNotFoundError:
            return None
        kind: JsonObject | None = (stored.get("spec") or {}).get("paramKind")
        return kind


def _shown(user: User) -> str:
    """Format a user as Go prints the struct."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
