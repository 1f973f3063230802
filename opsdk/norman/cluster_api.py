"""An API over a cluster: the usual built-in kinds, and every CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from opsdk.aio.tasks import TaskOwner
from opsdk.api.apiextensions.v1 import CustomResourceDefinition
from opsdk.api.apps.v1 import DaemonSet, Deployment, StatefulSet
from opsdk.api.batch.v1 import CronJob, Job
from opsdk.api.core.v1 import (
    ConfigMap,
    Namespace,
    NamespaceSpec,
    Node,
    PersistentVolumeClaim,
    Pod,
    Secret,
    Service,
    ServiceAccount,
    ServiceSpec,
)
from opsdk.api.networking.v1 import Ingress
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import TypedObject
from opsdk.cache.store import Delta
from opsdk.cluster.cluster import Cluster
from opsdk.norman.collections.access_set_store import AccessSetStore
from opsdk.norman.importing.follow import follow_definitions
from opsdk.norman.mappers.kubernetes import GVK
from opsdk.norman.mappers.moves import Drop, Move
from opsdk.norman.mappers.state import add_state
from opsdk.norman.model import Mapper, Schema
from opsdk.norman.rbac_access import RbacAccess
from opsdk.norman.schema_parts import ApiVersion
from opsdk.norman.schemas import NormanSchemas
from opsdk.norman.server.server import NormanOptions, NormanServer
from opsdk.norman.server.writing import PageRenderer
from opsdk.norman.stores.cached import CachedStore
from opsdk.norman.stores.user_clients import ImpersonatingClients
from opsdk.norman.tokens import token_review

__all__ = ["cluster_api"]

BUILT_IN_KINDS: Sequence[type[TypedObject]] = (
    ConfigMap, CronJob, DaemonSet, Deployment, Ingress, Job, Namespace, Node, PersistentVolumeClaim, Pod, Secret,
    Service, ServiceAccount, StatefulSet,
)  # fmt: skip

# External objects have their own field `type`, and Namespace has finalizers twice. Rancher also renames these fields.
_MAPPERS: Mapping[type, Mapper] = {
    NamespaceSpec: Drop(field="finalizers"),
    Secret: Move(source="type", to="kind"),
    ServiceSpec: Move(source="type", to="serviceKind"),
}


@asynccontextmanager
async def cluster_api(
    cluster: Cluster,
    *,
    version: ApiVersion | None = None,
    kinds: Sequence[type[TypedObject]] = BUILT_IN_KINDS,
    page: PageRenderer | None = None,
    trust_forwarded: bool = False,
) -> AsyncIterator[NormanServer]:
    """Yield a server of the kinds of a cluster, with the permissions of each user.

    Clients authenticate with tokens of the cluster. Requests impersonate their user, so RBAC decides. The cluster's own
    user needs ``impersonate``, ``create`` on ``tokenreviews``, and ``list`` and ``watch`` on the kinds, roles and
    bindings. Lists and watches come from the cluster's cache, reduced to the permissions of the user.

    ::

        async with cluster_api(cluster, page=WebPage()) as server, WebServer(server.app) as web:
            print(web.url)

    Args:
        cluster: its cache must run.
        version: of the schemas; the default is served at ``/v3``.
        kinds: built-in kinds; definitions are followed as well.
        page: the web page for browsers.
        trust_forwarded: see `NormanOptions`.
    """
    version = version or ApiVersion(group="opsdk.dev", version="v3", path="/v3")
    schemas = NormanSchemas.for_kubernetes(version)
    async with AsyncExitStack() as stack:
        clients = await stack.enter_async_context(ImpersonatingClients(cluster))
        access = RbacAccess(await stack.enter_async_context(AccessSetStore(cluster.cache)))
        stores: dict[GroupVersionKind, CachedStore] = {}

        def serve(schema: Schema) -> None:
            gvk = schema.attributes[GVK]
            assert isinstance(gvk, GroupVersionKind)
            if gvk not in stores:
                stores[gvk] = CachedStore(cluster, unstructured_kind(gvk.api_version, gvk.kind), client=clients)
            schema.store = stores[gvk]
            add_state(schema)

        for cls, mapper in _MAPPERS.items():
            schemas.add_mapper_for(version, cls, mapper)
        for kind in kinds:
            schemas.import_class(version, kind, serve)
        stack.push_async_callback(_close, stores)
        tasks = await stack.enter_async_context(TaskOwner("cluster API"))
        definitions = await cluster.cache.informer_for(CustomResourceDefinition)
        registration = definitions.add_handler(lambda delta: _on_definition(cluster, stores, tasks, delta))
        stack.callback(registration.remove)
        await stack.enter_async_context(follow_definitions(schemas, cluster, version, serve))
        authenticate = token_review(cluster.uncached)
        options = NormanOptions(authenticate=authenticate, page=page, trust_forwarded=trust_forwarded)
        yield NormanServer(schemas, access=access, options=options)


def _on_definition(
    cluster: Cluster, stores: dict[GroupVersionKind, CachedStore], tasks: TaskOwner, delta: Delta
) -> None:
    """Close the stores of a kind that is not served any more, and its informers."""
    if delta.new is not None:
        return
    spec = msgspec.json.decode(delta.entry.data)["spec"]
    for gvk in [gvk for gvk in stores if (gvk.group, gvk.kind) == (spec["group"], spec["names"]["kind"])]:
        tasks.start(_forget(cluster, stores.pop(gvk)), name=f"close {gvk}")


async def _forget(cluster: Cluster, store: CachedStore) -> None:
    await store.aclose()
    await cluster.cache.remove_informer(store.kind)


async def _close(stores: dict[GroupVersionKind, CachedStore]) -> None:
    for store in stores.values():
        await store.aclose()
