"""Wire admission policies to a control plane: their storage and their params.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence

from envtest.core_server import CoreServer
from envtest.plane.admission_webhooks import GROUP
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.apiserver.admission.policies.matcher import PolicyDependencies
from opsdk.apiserver.admission.policies.plugins import MutatingPolicies, ValidatingPolicies
from opsdk.apiserver.admission.policies.policy_source import PolicySource
from opsdk.apiserver.admission.webhooks.plugins import WebhookDependencies as HookPorts
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.rest import ListQuery, Selection
from opsdk.apiserver.resources import InstalledResource
from opsdk.errors import NotFoundError
from opsdk.structured_merge.value import JsonObject


def install(core: CoreServer, hooks: HookPorts) -> None:
    """Add the plugins of the served kinds to the chain; they match requests as webhooks do.

    Kubernetes 1.35 serves no MutatingAdmissionPolicy by default.
    """
    ports = PolicyDependencies(
        equivalents=hooks.equivalents,
        namespace=hooks.namespace,
        params=ParamKinds(core),
        authorizer=core.authorizer,
    )
    if f"{GROUP}/mutatingadmissionpolicies" in core.stores:
        core.admission.add("MutatingAdmissionPolicy", MutatingPolicies(_configured(core, "mutating"), ports))
    core.admission.add("ValidatingAdmissionPolicy", ValidatingPolicies(_configured(core, "validating"), ports))


def _configured(core: CoreServer, sort: str) -> PolicySource:
    policies = core.stores[f"{GROUP}/{sort}admissionpolicies"]
    bindings = core.stores[f"{GROUP}/{sort}admissionpolicybindings"]

    def load() -> tuple[Sequence[JsonObject], Sequence[JsonObject]]:
        return policies.list_now(), bindings.list_now()

    return PolicySource(core.storage, (policies.prefix, bindings.prefix), load)


class ParamKinds:
    """Finds the resource of a param kind."""

    def __init__(self, core: CoreServer) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<ParamKinds of {self._core.resources!r}>"

    def __call__(self, api_version: str, kind: str) -> StoredParams | None:
        group, _, version = api_version.rpartition("/")
        for served in self._core.served(group, version):
            same = (served.info.kind, served.info.subresource) == (kind, "")
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

    async def select(self, namespace: str, selector: LabelRequirements) -> Sequence[JsonObject]:
        query = ListQuery(selection=Selection(labels=selector))
        return [self._shown(obj) for obj in (await self._store.list(Context(namespace=namespace), query)).items]
