"""Bootstrap objects of every cluster.

Upstream: pkg/controlplane (v1.36)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from envtest.core_server import CoreServer
from envtest.data.flowcontrol import GROUP as FLOWS
from envtest.data.flowcontrol import bootstrap_flows
from envtest.data.rbac import GROUP, bootstrap_policy
from envtest.groups.core.defaulting import label_namespace
from envtest.groups.core.strategy.service import ServiceStrategy
from envtest.groups.scheduling.system_classes import system_classes
from envtest.plane.flow_control import condition, with_condition
from opsdk.apiserver.auth.front_proxy import NAME, HeaderNames
from opsdk.apiserver.endpoints.managed_fields import field_manager
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.storage.ports import KeyExistsError, KeyNotFoundError
from opsdk.errors import AlreadyExistsError, NotFoundError
from opsdk.structured_merge.value import JsonObject

SERVER = "kube-apiserver"
"""The field manager of bootstrap objects."""
_OWNED: dict[str, JsonObject] = {}
"""Cache of their managedFields by resource and name: equal for every server, and slow to compute."""
SYSTEM = "kube-system"
TRUST = "extension-apiserver-authentication"
NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")


async def bootstrap(core: CoreServer) -> None:
    """Create the missing bootstrap objects."""
    for name in NAMESPACES:
        await ensure(core, "/namespaces", namespace_object(name))
    ensure_policy(core)
    ensure_flows(core)
    await ensure_itself(core)
    for obj in system_classes():
        await ensure(core, "scheduling.k8s.io/priorityclasses", obj)
    await ensure(core, "/configmaps", trust_object({}), namespace=SYSTEM)


def with_managed_fields(core: CoreServer, resource: str, obj: JsonObject, manager: str = SERVER) -> JsonObject:
    """Return the object with managedFields of the server."""
    meta = obj["metadata"]
    key = f"{resource}/{meta.get('namespace', '')}/{meta['name']}"
    if key not in _OWNED:
        _OWNED[key] = _fields_of(core, resource, obj)
    if not _OWNED[key]:
        return {**obj, "metadata": dict(meta)}
    owner = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": obj["apiVersion"],
        "time": Context().timestamp(),
        "fieldsType": "FieldsV1",
        "fieldsV1": copy_tree(_OWNED[key]),
    }
    return {**obj, "metadata": {**meta, "managedFields": [owner]}}


def _fields_of(core: CoreServer, resource: str, obj: JsonObject) -> JsonObject:
    """Return the fieldsV1 of a new object; empty for a kind that is not served."""
    group, _, name = resource.rpartition("/")
    served = core.resources.find(group, obj["apiVersion"].rpartition("/")[2], name)
    if served is None:
        return {}
    entry = field_manager(served).update(None, obj, manager="-", now="-")
    owners = entry["metadata"].get("managedFields") or [{"fieldsV1": {}}]
    fields: JsonObject = owners[0]["fieldsV1"]
    return fields


def ensure_policy(core: CoreServer) -> None:
    """Create the bootstrap roles and bindings in the storage directly, because they are many."""
    context = Context()
    now = context.timestamp()
    for resource, obj in bootstrap_policy():
        store = core.stores[f"{GROUP}/{resource}"]
        meta = obj["metadata"]
        owner = {**meta["managedFields"][0], "time": now}
        metadata = {**meta, "uid": context.new_uid(), "creationTimestamp": now, "managedFields": [owner]}
        # Changed objects stay unchanged; deleted ones are recreated at the next start.
        with suppress(KeyExistsError):
            store.storage.create_now(store.key(meta.get("namespace", ""), meta["name"]), {**obj, "metadata": metadata})


_PRODUCER = "api-priority-and-fairness-config-producer-v1"


def ensure_flows(core: CoreServer) -> None:
    """Create the bootstrap FlowSchemas and PriorityLevelConfigurations."""
    context = Context()
    now = context.timestamp()
    for resource, obj in bootstrap_flows():
        store = core.stores[f"{FLOWS}/{resource}"]
        obj_owned = with_managed_fields(core, f"{FLOWS}/{resource}", obj, _PRODUCER)
        obj_owned["metadata"] |= {"uid": context.new_uid(), "creationTimestamp": now}
        if resource == "flowschemas":
            level = obj["spec"]["priorityLevelConfiguration"]["name"]
            obj_owned = with_condition(obj_owned, condition(level, now, exists=True)) or obj_owned
        with suppress(KeyExistsError):
            store.storage.create_now(store.key("", obj["metadata"]["name"]), obj_owned)


_PORT = 6443
"""The port in the endpoints of ``kubernetes`` while the server does not listen."""


async def ensure_itself(core: CoreServer) -> None:
    """Create the Service ``kubernetes`` at the first address of the service range."""
    services = core.stores["/services"]
    strategy = services.strategy
    assert isinstance(strategy, ServiceStrategy)
    address = str(strategy.pool.range.network_address + 1)
    labels = {"component": "apiserver", "provider": "kubernetes"}
    service = {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "labels": labels},
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": _PORT}],
            "clusterIP": address,
            "ipFamilyPolicy": "SingleStack",
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
        },
    }
    cidr: JsonObject = {
        "kind": "ServiceCIDR",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [str(strategy.pool.range)]},
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": Context().timestamp()}
    reason_fields = {"reason": "", "message": "Kubernetes default Service CIDR is ready"}
    cidr["status"] = {"conditions": [{**ready, **reason_fields}]}
    _put(core, "networking.k8s.io/servicecidrs", cidr)
    await ensure(core, "/services", service, namespace="default")
    # Written to the storage directly: validation rejects loopback addresses in endpoints.
    for resource, obj in _places(_PORT):
        _put(core, resource, obj, namespace="default")


def _places(port: int) -> Iterator[tuple[str, JsonObject]]:
    """Yield the Endpoints and the EndpointSlice of the server itself."""
    listening = {"name": "https", "port": port, "protocol": "TCP"}
    yield (
        "/endpoints",
        {
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [listening]}],
        },
    )
    yield (
        "discovery.k8s.io/endpointslices",
        {
            "kind": "EndpointSlice",
            "apiVersion": "discovery.k8s.io/v1",
            "metadata": {
                "name": "kubernetes",
                "generation": 1,
                "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
            "ports": [listening],
        },
    )


def _put(core: CoreServer, resource: str, obj: JsonObject, *, namespace: str = "") -> None:
    context = Context(namespace=namespace)
    store = core.stores[resource]
    meta = {"uid": context.new_uid(), "creationTimestamp": context.timestamp()}
    if namespace:
        meta["namespace"] = namespace
    stamped = with_managed_fields(core, resource, obj)
    stamped["metadata"] |= meta
    with suppress(KeyExistsError):
        store.storage.create_now(store.key(namespace, obj["metadata"]["name"]), stamped)


async def publish_server_address(core: CoreServer, port: int) -> None:
    """Update the endpoints of ``kubernetes`` to the server's address; a deleted object stays deleted."""

    async def transform(current: JsonObject | None) -> JsonObject:
        updated: JsonObject = copy_tree(current or {})
        for one in updated["spec"].get("ports") or ():
            if one.get("name") == "https":
                one["targetPort"] = port
        return updated

    with suppress(NotFoundError):
        await core.stores["/services"].update(Context(namespace="default"), "kubernetes", transform)
    for resource, obj in _places(port):
        store = core.stores[resource]
        with suppress(KeyNotFoundError):
            await store.storage.guaranteed_update(store.key("default", "kubernetes"), partial(_moved, obj))


async def _moved(desired: JsonObject, current: JsonObject | None) -> JsonObject:
    if current is None:
        raise KeyNotFoundError(str(desired["metadata"]["name"]))
    return {**current, **{k: v for k, v in desired.items() if k in ("subsets", "endpoints", "ports")}}


def trust_object(data: Mapping[str, str]) -> JsonObject:
    """Return the ConfigMap ``extension-apiserver-authentication``."""
    meta = {"name": TRUST, "namespace": SYSTEM}
    config_map: JsonObject = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta}
    return {**config_map, "data": dict(data)} if data else config_map


def trust_data(clients: bytes, proxies: bytes, names: Sequence[str]) -> dict[str, str]:
    """Return the data of ``extension-apiserver-authentication``: client and proxy CAs, and header names."""
    data = {"client-ca-file": clients.decode()} if clients else {}
    if not proxies:
        return data
    headers = HeaderNames()

    def listed(words: Iterable[str]) -> str:
        return json.dumps([word.title() for word in words], separators=(",", ":"))

    return {
        **data,
        "requestheader-allowed-names": json.dumps(list(names), separators=(",", ":")),
        "requestheader-client-ca-file": proxies.decode(),
        "requestheader-extra-headers-prefix": listed(headers.extra),
        "requestheader-group-headers": listed(headers.group),
        "requestheader-uid-headers": listed(headers.uid),
        "requestheader-username-headers": listed(headers.user),
    }


async def publish_trust(core: CoreServer, *, clients: bytes, proxies: bytes, names: Sequence[str] = (NAME,)) -> None:
    """Write the CAs of clients and proxies into the ConfigMap ``extension-apiserver-authentication``."""
    desired = trust_object(trust_data(clients, proxies, names))

    async def transform(current: JsonObject | None) -> JsonObject:
        updated: JsonObject = copy_tree({**(current or desired), "data": desired.get("data", {})})
        return updated

    context = Context(namespace=SYSTEM)
    await core.stores["/configmaps"].update(context, TRUST, transform, force_create=True)


def namespace_object(name: str) -> JsonObject:
    """Return a bootstrap namespace."""
    obj: JsonObject = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}, "spec": {}, "status": {}}
    label_namespace(obj)
    return obj


async def ensure(core: CoreServer, resource: str, obj: JsonObject, *, namespace: str = "") -> None:
    """Create an object unless it exists."""
    store = core.stores[resource]
    with suppress(KeyNotFoundError):
        store.storage.get_now(store.key(namespace, obj["metadata"]["name"]))
        return
    try:
        stamped = with_managed_fields(core, resource, obj)
        await core.stores[resource].create(Context(namespace=namespace), "", stamped)
    except AlreadyExistsError:
        return
