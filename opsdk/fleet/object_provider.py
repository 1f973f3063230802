"""Cluster providers that follow objects of the management cluster: kubeconfig Secrets, custom resources."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from opsdk.aio.containment import cancellations, contain
from opsdk.aio.waiting import wait_ended
from opsdk.api.core.v1 import Secret
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import KindLike, kind_of
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.object import AnyObject, TypedObject, Unstructured
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.cache.cache import Cache
from opsdk.cache.options import ALL_NAMESPACES, ByObject, CacheOptions
from opsdk.cache.reader import CachedReader
from opsdk.cache.store import Delta
from opsdk.client.client import Client
from opsdk.client.patch import MergeFrom
from opsdk.cluster.cluster import Cluster
from opsdk.controller.status import StatusPatch
from opsdk.errors import ConfigError, NotFoundError, OpsdkError, UsageError
from opsdk.fleet.provider import ClusterEntry, ClusterProvider, Clusters
from opsdk.rbac.rules import RbacRule
from opsdk.recipes.finalizers import is_deleting
from opsdk.rest.config import RestConfig
from opsdk.rest.kubeconfig import config_from_text
from opsdk.telemetry.describe import repr_of
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

T = TypeVar("T", bound=AnyObject)

CONDITION_ANNOTATION = "fleet.opsdk.dev/condition"
"""The state of a cluster on its Secret: a condition as JSON, since Secrets have no status."""

# Seconds before a failed configuration of a cluster is retried: it may depend on other objects.
_RETRY_SECONDS = 10.0
_CLOSE_SECONDS = 5.0


class ObjectClusters(ClusterProvider, Generic[T]):
    """Follows the objects of one kind with an informer of its own. Each object is one cluster.

    A cluster has the object's name; with several namespaces, ``namespace/name``. An object that is being deleted leaves
    the fleet.
    """

    def __init__(self, kind: KindLike[T], *, namespace: str = "", label_selector: str = "") -> None:
        self._kind = kind_of(kind)
        self._namespace = namespace
        self._selector = LabelRequirements.parse(label_selector)
        self._changed_keys: dict[ObjectKey, None] = {}
        self._changed = asyncio.Event()
        self._keys: dict[str, ObjectKey] = {}

    @abstractmethod
    async def config_of(self, obj: T, management: Cluster) -> RestConfig:
        """Return the client configuration of a cluster. Raises an `OpsdkError` with the reason if it is invalid."""

    def namespace_of(self, obj: T) -> str:
        """Return the namespace that the cluster's caches are limited to; empty for all."""
        return ""

    async def start(self, management: Cluster, on_change: Callable[[Clusters], None]) -> None:
        namespaces = [self._namespace] if self._namespace else None
        by_object = ByObject(namespaces=namespaces, label_selector=self._selector)
        cache = management.new_cache(CacheOptions(by_kind={self._kind.gvk: by_object}))
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._add_handler(cache)
            loop = asyncio.get_running_loop()
            tasks.append(loop.create_task(cache.start(), name=f"{self!r}/cache"))
            tasks.append(loop.create_task(self._process_changes(cache, management, on_change), name=f"{self!r}/follow"))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await wait_ended(tasks, _CLOSE_SECONDS)
            await cache.aclose()

    async def _add_handler(self, cache: Cache) -> None:
        """Create the informer; retry while the server does not serve the kind."""
        while cache.existing(self._kind) is None:
            try:
                (await cache.informer_for(self._kind)).add_handler(self._on_delta)
            except OpsdkError as error:
                log.warning("cannot watch the cluster objects %s yet, will retry: %s", self._kind.gvk, error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _process_changes(self, cache: Cache, management: Cluster, on_change: Callable[[Clusters], None]) -> None:
        """Compute the entry of each changed object, and report all clusters."""
        reader = Client(CachedReader(cache))
        await cache.wait_ready()
        clusters: dict[str, ClusterEntry] = {}
        while True:
            self._changed.clear()
            keys, self._changed_keys = self._changed_keys, {}
            before = dict(clusters)
            for key in keys:
                name = key.name if self._namespace or not key.namespace else f"{key.namespace}/{key.name}"
                self._keys[name] = key
                entry = await self._entry(name, key, reader, management)
                if entry is None:
                    clusters.pop(name, None)
                    del self._keys[name]
                else:
                    clusters[name] = entry
            if clusters != before or not keys:
                on_change(dict(clusters))
            await self._changed.wait()

    def _on_delta(self, delta: Delta) -> None:
        entry = delta.new or delta.old
        assert entry is not None
        self._enqueue(entry.key)

    def _enqueue(self, key: ObjectKey) -> None:
        self._changed_keys[key] = None
        self._changed.set()

    async def _entry(self, name: str, key: ObjectKey, reader: Client, management: Cluster) -> ClusterEntry | None:
        """Return the entry of an object's cluster; None if the object is deleted or being deleted."""
        try:
            obj = await reader.get_or_none(self._kind, key)
            if obj is None or is_deleting(obj):
                return None
            config = await self.config_of(obj, management)
            return ClusterEntry(name=name, config=config, namespace=self.namespace_of(obj))
        except OpsdkError as error:
            # The configuration may depend on other objects, which are not watched.
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, lambda: self._enqueue(key))
            return ClusterEntry(name=name, problem=str(error))

    async def key_object(self, management: Cluster, name: str) -> T | None:
        """Return the object that describes a cluster, from the server; None if it does not exist."""
        key = self._keys.get(name)
        return None if key is None else await management.uncached.get_or_none(self._kind, key)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._kind.name} in {self._namespace or 'all namespaces'}>"


class KubeconfigSecrets(ObjectClusters[Secret]):
    """One cluster for each Secret with a kubeconfig.

    The kubeconfig can neither run a credential plugin nor name files: a user who can write the Secret must not gain
    the permissions of the operator's pod. The annotation `CONDITION_ANNOTATION` of the Secret is the cluster's state.

    Args:
        namespace: of the Secrets; empty for all.
        label_selector: of the Secrets.
        key: of the kubeconfig in the data. Cluster API writes ``value``.
    """

    def __init__(self, *, namespace: str, label_selector: str = "", key: str = "kubeconfig") -> None:
        super().__init__(Secret, namespace=namespace, label_selector=label_selector)
        self._key = key
        self.rules = (RbacRule("get list watch patch", Secret, namespaces=[namespace or ALL_NAMESPACES]),)

    async def config_of(self, obj: Secret, management: Cluster) -> RestConfig:
        source = f"Secret {obj.metadata.namespace}/{obj.metadata.name}"
        if not (kubeconfig := obj.data.get(self._key)):
            present = ", ".join(sorted(obj.data)) or "none"
            raise ConfigError(f"{source} has no key {self._key!r} in its data; it has {present}")
        return config_from_text(kubeconfig, source=f"{source}, key {self._key}")

    async def report(self, management: Cluster, name: str, condition: Condition) -> None:
        secret = await self.key_object(management, name)
        text = msgspec.json.encode(condition).decode()
        if secret is None or secret.metadata.annotations.get(CONDITION_ANNOTATION) == text:
            return
        secret.metadata.annotations[CONDITION_ANNOTATION] = text
        try:
            await management.uncached.patch(secret, MergeFrom())
        except NotFoundError:
            log.debug("the Secret of cluster %s no longer exists", name)


class ResourceClusters(ObjectClusters[T]):
    """One cluster for each object of a kind. Its state is a condition in the object's status.

    Args:
        kind: the kind.
        config: returns the client configuration of a cluster. It may read other objects, such as a Secret. An
            `OpsdkError` is shown as the state of the cluster, and the call is retried after 10 s.
        namespace: of the objects; empty for all, and for cluster-scoped kinds.
        label_selector: of the objects.
        condition: the type of the condition; empty to write none.
    """

    def __init__(
        self,
        kind: KindLike[T],
        config: Callable[[T, Cluster], Awaitable[RestConfig]],
        *,
        namespace: str = "",
        label_selector: str = "",
        condition: str = "Ready",
    ) -> None:
        super().__init__(kind, namespace=namespace, label_selector=label_selector)
        self._config = config
        self._condition = condition
        namespaces = [namespace or ALL_NAMESPACES]
        self.rules = (
            RbacRule("get list watch", self._kind.gvk, namespaces=namespaces),
            RbacRule("patch", self._kind.gvk, subresource="status", namespaces=namespaces),
        )

    async def config_of(self, obj: T, management: Cluster) -> RestConfig:
        task = asyncio.current_task()
        before = cancellations(task)
        try:
            return await self._config(obj, management)
        except OpsdkError:
            raise
        except BaseException as error:
            contain(error, task=task, cancelling=before)
            log.exception("the config function of the fleet failed for %s", obj.metadata.name)
            raise UsageError(f"the config function of the fleet raised {repr_of(error)}") from error

    async def report(self, management: Cluster, name: str, condition: Condition) -> None:
        obj = await self.key_object(management, name)
        if not self._condition or not isinstance(obj, TypedObject | Unstructured):
            return
        async with StatusPatch[object](management.uncached, obj) as patch:
            patch.set_condition(self._condition, condition.status, condition.reason, condition.message)
