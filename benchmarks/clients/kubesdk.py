"""kubesdk: a typed client with a watch; cache, queue and workers are the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kube_models import K8sResourceList, Loadable
from kube_models.api_v1.io.k8s.api.core.v1 import ConfigMap, Pod
from kube_models.api_v1.io.k8s.apimachinery.pkg.apis.meta.v1 import ObjectMeta
from kubesdk import (
    K8sQueryParams,
    KubeConfig,
    create_k8s_resource,
    from_root_,
    get_k8s_resource,
    login,
    path_,
    update_k8s_resource,
    watch_k8s_resources,
)
from kubesdk.crd import CustomK8sResource

from benchmarks.clients.peer import Peer, Put, workloads
from benchmarks.objects import GROUP, KIND, PLURAL, VERSION, config_map
from benchmarks.protocol import run_client


@dataclass(kw_only=True, frozen=True, slots=True)
class TypedWidgetSpec(Loadable):
    """See `benchmarks.objects.widget_definition`."""

    value: int = 0
    text: str | None = None


@dataclass(kw_only=True, frozen=True, slots=True)
class TypedWidgetStatus(Loadable):
    """See `benchmarks.objects.widget_definition`."""

    observed: int | None = None


@dataclass(kw_only=True, frozen=True, slots=True)
class TypedWidget(CustomK8sResource):
    """The reconciled kind."""

    is_namespaced_ = True
    group_ = GROUP
    plural_ = PLURAL
    apiVersion = f"{GROUP}/{VERSION}"  # noqa: N815 - kubesdk's name
    kind = KIND

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: TypedWidgetSpec
    status: TypedWidgetStatus | None = None


WidgetList = K8sResourceList[TypedWidget]
"""Known to kubesdk by being named."""
KINDS = {"configmaps": ConfigMap, "pods": Pod, "widgets": TypedWidget}


class Kubesdk(Peer):
    """See `Peer`."""

    async def connect(self) -> None:
        """Log in, which takes a second: kubesdk looks once a second whether it is done."""
        await login(KubeConfig(path=self.kubeconfig))

    async def feed(self, kind: str, put: Put, forget: Callable[[str], None], synced: Callable[[], None]) -> None:
        """List in pages, then watch from the list's resource version."""
        params = K8sQueryParams(limit=500)
        while True:
            page = await get_k8s_resource(KINDS[kind], namespace=self.namespace, params=params)
            for item in page.items:
                # The items of a list of a custom kind stay dicts.
                obj = KINDS[kind].from_dict(item) if isinstance(item, dict) else item
                put(obj.metadata.name, obj)
            token = getattr(page.metadata, "continue_", None) or getattr(page.metadata, "_continue", None)
            if not token:
                break
            params = K8sQueryParams(limit=500, _continue=token)
        synced()
        params = K8sQueryParams(resourceVersion=page.metadata.resourceVersion)
        async for event in watch_k8s_resources(KINDS[kind], namespace=self.namespace, params=params):
            item = event.object
            if event.type == "DELETED":
                forget(item.metadata.name)
            else:
                put(item.metadata.name, item)

    def value_of(self, widget: Any) -> int:
        """Return ``spec.value``."""
        value: int = widget.spec.value
        return value

    def observed_of(self, widget: Any) -> int | None:
        """Return ``status.observed``."""
        observed: int | None = widget.status.observed if widget.status is not None else None
        return observed

    async def write_status(self, widget: Any, value: int) -> None:
        """Patch the status. kubesdk has no status writes; a name that ends with ``/status`` reaches the subresource."""
        changed = replace(widget, status=TypedWidgetStatus(observed=value))
        name = f"{widget.metadata.name}/status"
        await update_k8s_resource(changed, name=name, built_from_latest=widget)

    async def create(self, number: int) -> None:
        """Create a ConfigMap."""
        tree = config_map(self.namespace, number)
        await create_k8s_resource(ConfigMap(metadata=ObjectMeta(**tree["metadata"]), data=tree["data"]))

    async def get(self, name: str) -> None:
        """Read a ConfigMap."""
        await get_k8s_resource(ConfigMap, name, self.namespace)

    async def patch(self, name: str, value: str) -> None:
        """Patch the data of a ConfigMap."""
        meta = ObjectMeta(name=name, namespace=self.namespace)
        changed = ConfigMap(metadata=meta, data={"value": value})
        await update_k8s_resource(changed, paths=[path_(from_root_(ConfigMap).data)])


if __name__ == "__main__":
    run_client(workloads(Kubesdk))
