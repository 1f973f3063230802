"""A client that impersonates another user. Its writes are visible in cached reads of the cluster.

Upstream: github.com/rancher/wrangler/pkg/generic/controller.go (WithImpersonation)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from opsdk.cache.write_recorder import WriteRecorder
from opsdk.client.client import Client
from opsdk.client.direct import DirectClient
from opsdk.cluster.cluster import Cluster
from opsdk.rest.config import Impersonate
from opsdk.rest.transport import Transport


@asynccontextmanager
async def impersonating(cluster: Cluster, user: str, *, groups: tuple[str, ...] = ()) -> AsyncIterator[Client]:
    """Yield a client whose requests are authorized as `user`.

    It reads from the server, because the cache is filled with the program's permissions. Cached reads of the cluster
    see its writes. The program needs the permission ``impersonate``.

    >>> async def delete_as(cluster: Cluster, user: str, name: str) -> None:
    ...     async with impersonating(cluster, user) as client:
    ...         await client.delete(ConfigMap, f"default/{name}")

    Args:
        cluster: has the address, the credentials and the mapper.
        user: name of the user, or ``system:serviceaccount:<namespace>:<name>``.
        groups: of the user. The server adds those of a service account.

    Raises:
        ConfigError: the user is empty, or the groups are not valid.
    """
    config = replace(cluster.config, impersonate=Impersonate(user=user, groups=groups))
    async with Transport(config) as transport:
        observer = WriteRecorder(cluster.cache)
        yield Client(DirectClient(transport, scheme=cluster.scheme, mapper=cluster.mapper, observer=observer))
