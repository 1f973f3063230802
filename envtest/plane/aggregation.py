"""Wire the aggregator to a control plane: resolve Services to endpoints.

Upstream: k8s.io/kube-aggregator/pkg/apiserver (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.core_server import CoreServer
from envtest.extensions.server import ExtensionServer
from envtest.groups.apiregistration.strategy import SERVICES, ApiServiceStrategy
from envtest.plane.admission_webhooks import ServiceResolver
from envtest.plane.auto_registration import AutoRegistration
from opsdk.apiserver.aggregator.availability import SLICE_OF, Network
from opsdk.apiserver.aggregator.server import Aggregator, AggregatorDependencies
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.storage.ports import KeyNotFoundError
from opsdk.apiserver.webhook_client.connection_pools import ConnectionPools
from opsdk.structured_merge.value import JsonObject

_NETWORK = ("/services", "discovery.k8s.io/endpointslices", "/endpoints")


def aggregate(core: CoreServer, pools: ConnectionPools) -> Aggregator:
    """Return the aggregator in front of the server; it calls aggregated servers through `pools`."""
    group, _, resource = SERVICES.partition("/")
    served = core.resources.find(group, "v1", resource)
    assert served is not None
    dependencies = AggregatorDependencies(
        network=lambda namespace, name: network(core.stores, namespace, name),
        resolve=ServiceResolver(core.stores),
        watched=[core.stores[name].prefix for name in _NETWORK],
    )
    return Aggregator(served, core.resources, dependencies, pools)


def register(core: CoreServer, extensions: ExtensionServer) -> AutoRegistration:
    """Return the registration of the locally served APIServices."""
    store = core.stores[SERVICES]
    registration = AutoRegistration(store, extensions.group_versions)
    extensions.on_group_versions_changed = registration.sync
    assert isinstance(store.strategy, ApiServiceStrategy)
    store.strategy.gone = registration.on_deleted
    return registration


def network(stores: Mapping[str, LocalStore], namespace: str, name: str) -> Network:
    """Return a Service with its EndpointSlices and Endpoints."""
    slices = [
        endpoint_slice
        for endpoint_slice in stores["discovery.k8s.io/endpointslices"].list_now(namespace)
        if (endpoint_slice["metadata"].get("labels") or {}).get(SLICE_OF) == name
    ]
    return Network(
        service=_find(stores["/services"], namespace, name),
        slices=slices,
        endpoints=_find(stores["/endpoints"], namespace, name),
    )


def _find(store: LocalStore, namespace: str, name: str) -> JsonObject | None:
    try:
        return store.storage.get_now(store.key(namespace, name))
    except KeyNotFoundError:
        return None
