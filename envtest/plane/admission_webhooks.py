"""Wire admission webhooks to a control plane: configurations, equivalent versions, Services.

Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook (v1.36)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from envtest.core_server import CoreServer
from envtest.extensions.server import ExtensionServer
from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.webhooks.configuration import WebhookSource
from opsdk.apiserver.admission.webhooks.plugins import (
    Evaluate,
    MutatingWebhooks,
    ValidatingWebhooks,
    WebhookDependencies,
)
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.resources import InstalledResource
from opsdk.apiserver.server import ResourceServer
from opsdk.apiserver.storage.ports import KeyNotFoundError
from opsdk.apiserver.webhook_client.client import WebhookCallError, WebhookClient
from opsdk.structured_merge.value import JsonObject

GROUP = "admissionregistration.k8s.io"
ADDRESS_ANNOTATION = "envtest.opsdk.dev/address"


def install(
    core: CoreServer, extensions: ExtensionServer, client: WebhookClient, evaluate: Evaluate | None = None
) -> WebhookDependencies:
    """Add both plugins to the chain; `evaluate` evaluates match conditions."""
    namespaces = core.stores["/namespaces"]

    def namespace(name: str) -> JsonObject:
        try:
            return core.storage.get_now(namespaces.key("", name))
        except KeyNotFoundError:
            raise api_errors.not_found(namespaces.info, name) from None

    ports = WebhookDependencies(
        client=client,
        equivalents=Versions(core.resources, extensions),
        namespace=namespace,
        evaluate=evaluate,
        metrics=core.admission.metrics,
    )
    for name, resource, listing in (
        ("MutatingAdmissionWebhook", "mutatingwebhookconfigurations", MutatingWebhooks),
        ("ValidatingAdmissionWebhook", "validatingwebhookconfigurations", ValidatingWebhooks),
    ):
        store = core.stores[f"{GROUP}/{resource}"]
        core.admission.add(name, listing(WebhookSource(core.storage, store.prefix, store.list_now).hooks, ports))
    return ports


class Versions:
    """Finds equivalent resources: those that share a storage prefix."""

    def __init__(self, resources: ResourceServer, extensions: ExtensionServer) -> None:
        self._resources = resources
        self._extensions = extensions

    def __repr__(self) -> str:
        return f"<Versions of {self._resources!r}>"

    @cached_property
    def _built_in(self) -> Mapping[tuple[str, str], list[InstalledResource]]:
        """Return the built-in resources by storage prefix and subresource."""
        resources = defaultdict[tuple[str, str], list[InstalledResource]](list)
        for served in self._resources.installed():
            info = served.info
            main = self._resources.find(info.group, info.version, info.resource)
            if main is not None and isinstance(main.storage, LocalStore):
                resources[main.storage.prefix, info.subresource].append(served)
        return resources

    def equivalents(self, served: InstalledResource) -> Sequence[InstalledResource]:
        info = served.info
        main = self._resources.find(info.group, info.version, info.resource)
        if main is None:
            versions = self._extensions.versions_of(info)
        elif isinstance(main.storage, LocalStore):
            versions = self._built_in[main.storage.prefix, info.subresource]
        else:
            return ()
        return [other for other in versions if other is not served]

    async def convert(self, obj: JsonObject, source: InstalledResource, target: InstalledResource) -> JsonObject:
        """Convert an object to another version of its kind."""
        if source.info.kind_api_version == target.info.kind_api_version:
            return obj
        if not source.model.typed:
            return await self._extensions.convert(obj, source.info, target.info)
        stored = source.model.to_storage(obj)
        return {**target.model.from_storage(stored), "apiVersion": target.info.kind_api_version}


class ServiceResolver:
    """Resolves a Service to the address in its annotation, else to one of its endpoints, else to its cluster IP.

    Simulated pods serve nothing, so a program that serves a Service on this machine names its ``HOST:PORT`` in the
    annotation `ADDRESS_ANNOTATION`.
    """

    def __init__(self, stores: Mapping[str, LocalStore]) -> None:
        self._stores = stores

    def __repr__(self) -> str:
        return "<ServiceResolver>"

    def __call__(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        store = self._stores["/services"]
        try:
            service = store.storage.get_now(store.key(namespace, name))
        except KeyNotFoundError:
            raise WebhookCallError(f'service "{name}" not found') from None
        annotations: JsonObject = service["metadata"].get("annotations") or {}
        host, _, number = str(annotations.get(ADDRESS_ANNOTATION, "")).rpartition(":")
        if host and number.isdecimal():
            return host, int(number)
        spec: JsonObject = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return str(spec.get("externalName", "")), port
        port_entry = next((p for p in spec.get("ports") or () if p.get("port") == port), None)
        if port_entry is None:
            raise WebhookCallError(f'no service port {port} found for service "{name}"')
        endpoint = self._endpoint(namespace, name, str(port_entry.get("name") or ""))
        if endpoint is not None:
            return endpoint
        address = str(spec.get("clusterIP") or "")
        return (f"{name}.{namespace}.svc", port) if address in ("", "None") else (address, port)

    def _endpoint(self, namespace: str, name: str, port: str) -> tuple[str, int] | None:
        """Return the address of a ready endpoint of a Service, or None without one."""
        for obj in self._stores["discovery.k8s.io/endpointslices"].list_now(namespace):
            if (obj["metadata"].get("labels") or {}).get("kubernetes.io/service-name") != name:
                continue
            number = _port(obj.get("ports"), port)
            for endpoint in obj.get("endpoints") or ():
                ready = (endpoint.get("conditions") or {}).get("ready") is not False
                if ready and number and endpoint.get("addresses"):
                    return str(endpoint["addresses"][0]), number
        for obj in self._stores["/endpoints"].list_now(namespace):
            if obj["metadata"]["name"] != name:
                continue
            for subset in obj.get("subsets") or ():
                number = _port(subset.get("ports"), port)
                if number and subset.get("addresses"):
                    return str(subset["addresses"][0]["ip"]), number
        return None


def _port(ports: Sequence[JsonObject] | None, name: str) -> int:
    return next((int(p["port"]) for p in ports or () if str(p.get("name") or "") == name and p.get("port")), 0)
