"""Errors for requests that need a kubelet when no responder is set.

Upstream: pkg/registry/core/pod/strategy.go (v1.36)
"""

from __future__ import annotations

from typing import NoReturn

from envtest.groups.core.rest.proxy_location import KUBELET_PORT
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.structured_merge.value import JsonObject


def choose_container(pod: JsonObject, container_name: str) -> str:
    """Return the container of a request; a pod with several containers requires a name."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    containers: dict[str, list[str]] = {
        k: [c["name"] for c in spec.get(k) or ()] for k in ("initContainers", "containers", "ephemeralContainers")
    }
    all_names = [c for names in containers.values() for c in names]
    if container_name:
        if container_name not in all_names:
            raise api_errors.bad_request(f"container {container_name} is not valid for pod {name}")
        return container_name
    if len(all_names) == 1:
        return all_names[0]
    first, *more = (f"[{' '.join(names)}]" for key, names in containers.items() if names and key != "initContainers")
    text = f"a container name must be specified for pod {name}, choose one of: "
    if containers["initContainers"]:
        first = f"[{' '.join([*containers['initContainers'], *containers['containers']])}]"
    suffix = f" or one of the ephemeral containers: {more[0]}" if more else ""
    raise api_errors.bad_request(f"{text}{first}{suffix}")


async def raise_unreachable(nodes: LocalStore, context: Context, pod: JsonObject, path: str) -> NoReturn:
    """Raise the error of a kubelet that refuses connections."""
    address = await kubelet_address(nodes, context, pod)
    raise api_errors.plain(f'Get "https://{address}/{path}": dial tcp {address}: connect: connection refused')


async def kubelet_address(nodes: LocalStore, context: Context, pod: JsonObject) -> str:
    """Return host and port of the kubelet on a pod's node."""
    status = (await nodes.get(context, pod["spec"]["nodeName"])).get("status") or {}
    addresses = status.get("addresses") or []
    if not addresses:
        raise api_errors.plain("no preferred addresses found; known addresses: []")
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or KUBELET_PORT
    return f"{addresses[0].get('address', '')}:{port}"
