"""Wire the aggregator to a control plane: resolve Services to endpoints.

Upstream: k8s.io/kube-aggregator/pkg/apiserver (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from envtest.extensions.server import ExtensionServer
from envtest.groups.apiregistration.strategy import SERVICES, ApiServiceStrategy
from envtest.plane.admission_webhooks import ServiceResolver
from envtest.plane.auto_registration import AutoRegistration
from opsdk.apiserver.aggregator.availability import SLICE_OF, Network
from opsdk.apiserver.aggregator.server import Aggregator, AggregatorDependencies
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.server import ResourceServer
from opsdk.apiserver.storage.ports import KeyNotFoundError
from opsdk.apiserver.webhook_client.client import WebhookClient
from opsdk.apiserver.webhook_client.connection_pools import ClientCertificate, ConnectionPools
from opsdk.structured_merge.value import JsonObject

_NETWORK = ("/services", "discovery.k8s.io/endpointslices", "/endpoints")


class AggregatedPlane(Protocol):
    """The protocol of a control plane with an aggregator."""

    stores: dict[str, LocalStore]
    core: ResourceServer
    extensions: ExtensionServer
    webhook_client: WebhookClient


def aggregate(plane: AggregatedPlane, identity: Callable[[], ClientCertificate] | None) -> Aggregator:
    """Return the aggregator in front of the server; `identity` is the proxy's client certificate."""
    group, _, resource = SERVICES.partition("/")
    served = plane.core.find(group, "v1", resource)
    assert served is not None
    dependencies = AggregatorDependencies(
        network=lambda namespace, name: network(plane.stores, namespace, name),
        resolve=ServiceResolver(plane.stores),
        watched=[plane.stores[name].prefix for name in _NETWORK],
    )
    pools = ConnectionPools(plane.webhook_client.apps, identity=identity)
    return Aggregator(served, plane.core, dependencies, pools)


def register(plane: AggregatedPlane) -> AutoRegistration:
    """Return the registration of the locally served APIServices."""
    store = plane.stores[SERVICES]
    registration = AutoRegistration(store, plane.extensions.group_versions)
    plane.extensions.on_group_versions_changed = registration.sync
    assert isinstance(store.strategy, ApiServiceStrategy)
    store.strategy.gone = registration.on_deleted
    return registration


def network(stores: dict[str, LocalStore], namespace: str, name: str) -> Network:
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
