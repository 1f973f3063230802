"""``clusterrole-aggregation``: fill in the rules of aggregated ClusterRoles.

Upstream: pkg/controller/clusterroleaggregation (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from envtest.controllers.controller import ControllerContext, ObjectController
from envtest.controllers.index import ObjectIndex
from envtest.controllers.writes import CLUSTER_ROLES, UpdateWrite
from envtest.groups.common.label_selectors import selects
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject

_ROLES = ("aggregated",)
"""The index value of the roles with an aggregation rule."""


# ------------------------------------------------------------------ core
def selectors_of(role: JsonObject) -> list[JsonObject]:
    """Return the selectors of the aggregation rule; none for other roles."""
    selectors: list[JsonObject] = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    return selectors


def aggregated_rules(role: JsonObject, others: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the aggregated rules: distinct, selector by selector, in the order of the role names."""
    own = role["metadata"]["name"]
    roles = sorted((o for o in others if o["metadata"]["name"] != own), key=lambda o: str(o["metadata"]["name"]))
    rules: dict[bytes, JsonObject] = {}
    for selector in selectors_of(role):
        chosen = (o for o in roles if selects(selector, o["metadata"].get("labels") or {}))
        for rule in (rule for other in chosen for rule in other.get("rules") or ()):
            rules.setdefault(msgspec.json.encode(rule, order="deterministic"), rule)
    return list(rules.values())


# ------------------------------------------------------------------ shell
class ClusterRoleController(ObjectController):
    """Updates the rules of ClusterRoles with an ``aggregationRule``."""

    name = "clusterrole-aggregation"
    resource = CLUSTER_ROLES

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._aggregated = ObjectIndex[str]()

    def add_event_handlers(self) -> None:
        """Watch ClusterRoles; each one may be part of any other."""
        self.informers.add_event_handler(CLUSTER_ROLES, self._changed)

    def _changed(self, change: StorageChange) -> None:
        before, after = (_ROLES if obj and selectors_of(obj) else () for obj in (change.previous, change.current))
        self._aggregated.update(change.key, before, after)
        for key in self._aggregated.keys(*_ROLES):
            self.queue.add(key)

    async def sync(self, obj: JsonObject) -> float | None:
        if not selectors_of(obj):
            return None
        rules = aggregated_rules(obj, self.informers.all(CLUSTER_ROLES).values())
        if rules != (obj.get("rules") or []):
            await self.context.api.write(UpdateWrite(CLUSTER_ROLES, {**obj, "rules": rules}))
        return None
