"""Wire admission policies to a control plane: their storage and their params.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from envtest.plane.admission_webhooks import GROUP, WebhookPlane
from opsdk.apimachinery.selectors import Selector
from opsdk.apiserver.admission.policies.matcher import PolicyDependencies
from opsdk.apiserver.admission.policies.plugins import MutatingPolicies, ValidatingPolicies
from opsdk.apiserver.admission.policies.policy_source import PolicySource
from opsdk.apiserver.admission.webhooks.plugins import WebhookDependencies as HookPorts
from opsdk.apiserver.auth.authorization import Authorizer
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.rest import ListQuery, Selection
from opsdk.apiserver.resources import InstalledResource
from opsdk.errors import NotFoundError
from opsdk.structured_merge.value import JsonObject


def install(plane: WebhookPlane, hooks: HookPorts, authorizer: Authorizer) -> None:
    """Add both plugins to the chain; they match requests as webhooks do."""
    ports = PolicyDependencies(
        equivalents=hooks.equivalents, namespace=hooks.namespace, params=ParamKinds(plane), authorizer=authorizer
    )
    plane.admission.add("MutatingAdmissionPolicy", MutatingPolicies(_configured(plane, "mutating"), ports))
    plane.admission.add("ValidatingAdmissionPolicy", ValidatingPolicies(_configured(plane, "validating"), ports))


def _configured(plane: WebhookPlane, sort: str) -> PolicySource:
    policies = plane.stores[f"{GROUP}/{sort}admissionpolicies"]
    bindings = plane.stores[f"{GROUP}/{sort}admissionpolicybindings"]

    def load() -> tuple[Sequence[JsonObject], Sequence[JsonObject]]:
        return policies.list_now(), bindings.list_now()

    return PolicySource(plane.storage, (policies.prefix, bindings.prefix), load)


class ParamKinds:
    """Finds the resource of a param kind."""

    def __init__(self, plane: WebhookPlane) -> None:
        self._plane = plane

    def __repr__(self) -> str:
        return f"<ParamKinds of {self._plane!r}>"

    def __call__(self, api_version: str, kind: str) -> StoredParams | None:
        group, _, version = api_version.rpartition("/")
        for served in (
            *self._plane.core.installed(),
            *[
                served
                for served_group in self._plane.extensions.groups()
                if served_group.group == group
                for one in served_group.versions
                if one.version == version
                for served in one.resources
            ],
        ):
            info = served.info
            same = (info.group, info.version, info.kind, info.subresource) == (group, version, kind, "")
            if same and isinstance(served.storage, LocalStore):
                return StoredParams(served, served.storage)
        return None

    def resource(self, api_version: str, kind: str) -> str | None:
        """Return the resource of a kind; None if it is not served."""
        resource = self(api_version, kind)
        return None if resource is None else resource.resource


class StoredParams:
    """Reads the params of one resource."""

    def __init__(self, served: InstalledResource, store: LocalStore) -> None:
        self._served = served
        self._store = store

    def __repr__(self) -> str:
        return f"<StoredParams of {self._served.info.path}>"

    @property
    def resource(self) -> str:
        """The name of the resource in request paths."""
        return self._served.info.resource

    @property
    def namespaced(self) -> bool:
        return self._served.info.namespaced

    def _shown(self, obj: JsonObject) -> JsonObject:
        info = self._served.info
        return {**self._served.model.from_storage(obj), "apiVersion": info.kind_api_version, "kind": info.kind}

    async def get(self, namespace: str, name: str) -> JsonObject | None:
        try:
            return self._shown(await self._store.get(Context(namespace=namespace), name))
        except NotFoundError:
            return None

    async def select(self, namespace: str, selector: Selector) -> Sequence[JsonObject]:
        query = ListQuery(selection=Selection(labels=selector))
        return [self._shown(obj) for obj in (await self._store.list(Context(namespace=namespace), query)).items]
