"""Expose a local port as a Service, because the embedded cluster has no pod network."""

from __future__ import annotations

from envtest.plane.bootstrap import ensure, namespace_object
from envtest.plane.control_plane import ControlPlane
from opsdk.apiserver.aggregator.availability import SLICE_OF
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import Remove
from opsdk.errors import ConfigError
from opsdk.http.asgi_types import App
from opsdk.structured_merge.value import JsonObject


async def expose(
    plane: ControlPlane, service: str, *, host: str, port: int, service_port: int, app: App | None
) -> None:
    """Create the namespace, the Service and an EndpointSlice with this address if missing; see `Environment`."""
    namespace, _, name = service.partition("/")
    if not namespace or not name:
        raise ConfigError(f"{service!r} names no Service: write it like default/greeter")
    if app is not None:
        plane.webhook_client.apps[f"{name}.{namespace}.svc:{service_port}"] = app
    await ensure(plane.core, "/namespaces", namespace_object(namespace))
    desired: JsonObject = {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "spec": {
            "ports": [{"protocol": "TCP", "port": service_port, "targetPort": port}],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
        },
    }
    await ensure(plane.core, "/services", desired, namespace=namespace)
    # Write the slice to the storage directly, because validation refuses loopback addresses in EndpointSlices.
    context = Context(namespace=namespace)
    store = plane.stores["discovery.k8s.io/endpointslices"]
    meta = {"name": name, "namespace": namespace, "labels": {SLICE_OF: name}}
    part: JsonObject = {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "", "port": port, "protocol": "TCP"}],
    }

    async def put(current: JsonObject | None) -> JsonObject | Remove:
        metadata = {"uid": context.new_uid(), "creationTimestamp": context.timestamp()}
        return {**part, "metadata": {**(metadata if current is None else current["metadata"]), **meta}}

    await store.storage.guaranteed_update(store.key(namespace, name), put)
