"""Where the debug pages are: an address, a Pod, or the leading Pod of a Deployment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Pod
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.selectors import as_selector
from opsdk.cli.target import TargetCluster
from opsdk.cli.top.client import DebugClient, check_url
from opsdk.cli.top.untrusted import mapping
from opsdk.cluster.cluster import Cluster
from opsdk.errors import NotFoundError, OpsdkError, UsageError
from opsdk.pods.port_forward import PortForward
from opsdk.rest.config import RestConfig
from opsdk.rest.transport import Transport

# Pods of a Deployment whose leadership is read to find the leader.
_MAX_PODS = 10


def client_of(url: str) -> DebugClient:
    """Return the client for an address. Raises `UsageError`."""
    checked = check_url(url)

    @asynccontextmanager
    async def open_url() -> AsyncIterator[str]:
        yield checked

    return DebugClient(checked, open_url)


class ForwardedClient:
    """Makes clients for the operators of a cluster, each through a port-forward.

    Args:
        config: returns the address of the cluster.
        port: of the debug pages in the Pod.
    """

    def __init__(self, config: Callable[[], RestConfig], port: int) -> None:
        self._config = config
        self._port = port
        self._forward: PortForward | None = None

    def pod(self, key: str) -> DebugClient:
        """Return the client for a Pod. Raises `UsageError`."""
        namespace, name = _key(key, "--pod")

        @asynccontextmanager
        async def open_url() -> AsyncIterator[str]:
            async with self._forwarding(namespace, name) as forward:
                yield forward.url

        return DebugClient(f"pod {key}", open_url, explain=self._explain)

    def deployment(self, key: str) -> DebugClient:
        """Return the client for the Pod of a Deployment that leads. Raises `UsageError`.

        Without leader election, it is the first Pod that is ready. After a lost connection the choice is made again.
        """
        namespace, name = _key(key, "--deployment")

        @asynccontextmanager
        async def open_url() -> AsyncIterator[str]:
            pods = await ready_pods(self._config(), ObjectKey(namespace, name))
            leader = await self._leader(namespace, pods) if len(pods) > 1 else pods[0]
            async with self._forwarding(namespace, leader) as forward:
                yield forward.url

        return DebugClient(f"deployment {key}", open_url, explain=self._explain)

    @asynccontextmanager
    async def _forwarding(self, namespace: str, pod: str) -> AsyncIterator[PortForward]:
        async with (
            Transport(self._config()) as transport,
            PortForward(transport, ObjectKey(namespace, pod), self._port) as forward,
        ):
            self._forward = forward
            yield forward

    async def _leader(self, namespace: str, pods: list[str]) -> str:
        """Return the first Pod that leads or has no election; the first one if none does."""
        for pod in pods[:_MAX_PODS]:
            try:
                async with self._forwarding(namespace, pod) as forward, client_of(forward.url) as client:
                    lead = mapping((await client.pages(["leadership"])).get("leadership"))
            except OpsdkError:
                continue
            if lead.get("leading") is True:
                return pod
        return pods[0]

    def _explain(self) -> str:
        """Return the error of the Pod's side of the port-forward."""
        error = self._forward.last_error if self._forward is not None else None
        return str(error) if error is not None else ""


async def ready_pods(config: RestConfig, key: ObjectKey) -> list[str]:
    """Return the names of the ready Pods of a Deployment, the oldest first. Raises `NotFoundError` without one."""
    async with Cluster(config) as cluster:
        deployment = await cluster.uncached.get(Deployment, key)
        selector = as_selector(deployment.spec.selector)
        pods = await cluster.uncached.list(Pod, namespace=key.namespace, label_selector=selector)
    ready = [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions or ())
    ]
    if not ready:
        raise NotFoundError(f"deployment {key} has no Pod that is ready: name one of its {len(pods)} Pods with --pod")
    ready.sort(key=lambda pod: (str(pod.metadata.creation_timestamp), pod.metadata.name))
    return [pod.metadata.name for pod in ready]


def _key(key: str, option: str) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    if not namespace or not name or "/" in namespace:
        raise UsageError(f"{option} is {key!r}: write NAMESPACE/NAME")
    return namespace, name


def config_of(cluster: TargetCluster) -> Callable[[], RestConfig]:
    """Return a function that loads the configuration of a cluster, once."""
    loaded: list[RestConfig] = []

    def config() -> RestConfig:
        if not loaded:
            loaded.append(cluster.to_read())
        return loaded[0]

    return config
