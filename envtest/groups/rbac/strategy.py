"""Strategies of roles and bindings. The authorizer evaluates them.

Upstream: pkg/registry/rbac (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common.strategy import GeneratedStrategy, StrategyFactory
from envtest.groups.rbac.validation import validate_role, validate_role_binding, validate_role_binding_update
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class RoleStrategy(GeneratedStrategy):
    """The strategy of Roles and ClusterRoles."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate the rules."""
        return list(validate_role(obj, namespaced=self.namespaced))


class BindingStrategy(GeneratedStrategy):
    """The strategy of RoleBindings and ClusterRoleBindings."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate the role reference and the subjects."""
        return list(validate_role_binding(obj, namespaced=self.namespaced))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: the role reference is immutable."""
        return list(validate_role_binding_update(obj, old, namespaced=self.namespaced))


STRATEGIES: Mapping[str, StrategyFactory] = {
    "rbac.authorization.k8s.io/roles": RoleStrategy,
    "rbac.authorization.k8s.io/clusterroles": RoleStrategy,
    "rbac.authorization.k8s.io/rolebindings": BindingStrategy,
    "rbac.authorization.k8s.io/clusterrolebindings": BindingStrategy,
}
"""By ``group/resource``."""
