"""The access sets of a live cluster, from informers of the four RBAC kinds.

Upstream: github.com/rancher/steve/pkg/accesscontrol/access_store.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import msgspec

from opsdk.aio.closing import Closing
from opsdk.api.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from opsdk.apiserver.auth.rbac import PolicyRule, RbacBinding
from opsdk.apiserver.auth.user import User
from opsdk.cache.cache import Cache
from opsdk.cache.cached_kind import KindRegistration
from opsdk.cache.store import Delta, DeltaType
from opsdk.norman.collections.access_index import AccessIndex
from opsdk.norman.collections.access_set import AccessSet

__all__ = ["AccessSetStore"]


class AccessSetStore(Closing):
    """The permissions of users, kept up to date. An async context manager over a running cache.

    Args:
        cache: of a started cluster, whose user may list and watch roles and bindings.
        max_users: the number of access sets that are kept.
    """

    def __init__(self, cache: Cache, *, max_users: int = 1000) -> None:
        self._cache = cache
        self._index = AccessIndex(max_users=max_users)
        self._registrations: list[KindRegistration] = []

    async def __aenter__(self) -> Self:
        """Read all roles and bindings. Raises `CacheError` if the server denies them."""
        for role in (Role, ClusterRole):
            await self._add(role, self._on_role)
        for binding in (RoleBinding, ClusterRoleBinding):
            await self._add(binding, self._on_binding)
        return self

    async def _add(self, kind: type, handler: Callable[[Delta], None]) -> None:
        cached = await self._cache.informer_for(kind)
        self._registrations.append(registration := cached.add_handler(handler))
        await cached.wait_synced(fail_fast=True)
        await registration.wait_synced()

    def _on_role(self, delta: Delta) -> None:
        rules = None
        if delta.change is not DeltaType.DELETED:
            rules = [PolicyRule.of(rule) for rule in msgspec.json.decode(delta.entry.data).get("rules") or ()]
        self._index.put_role(*delta.entry.key, rules)

    def _on_binding(self, delta: Delta) -> None:
        gone = delta.change is DeltaType.DELETED
        binding = None if gone else RbacBinding.of(msgspec.json.decode(delta.entry.data))
        self._index.put_binding(*delta.entry.key, binding)

    def access_for(self, user: User) -> AccessSet:
        """Return the present permissions of a user."""
        return self._index.access_for(user)

    async def aclose(self) -> None:
        """Stop following roles and bindings. Idempotent. The informers stay with the cache."""
        for registration in self._registrations:
            registration.remove()
        self._registrations.clear()

    def __repr__(self) -> str:
        return f"<AccessSetStore by {self._index!r}>"
