"""APIServices: local ones are available from the start.

Upstream: k8s.io/kube-aggregator/pkg/registry/apiservice (v1.36)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from envtest.groups.apiregistration.validation import validate_name, validate_spec
from envtest.groups.common.strategy import GeneratedStrategy, StrategyFactory
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.aggregator.api_services import local_status
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

SERVICES = "apiregistration.k8s.io/apiservices"
_STATUSES = ("True", "False", "Unknown")


class ApiServiceStrategy(GeneratedStrategy):
    """The strategy of APIServices; local ones are available immediately.

    Attributes:
        gone: called after the deletion of an APIService.
    """

    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences")
    gone: Callable[[Context], Awaitable[None]] | None = None

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Check that the name is a path segment; `validate` checks the rest."""
        return validation.path_segment(name, prefix=prefix)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Replace the client's status."""
        local = (obj.get("spec") or {}).get("service") is None
        obj["status"] = local_status(context.timestamp()) if local else {}

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate the name, then the spec."""
        return [*validate_name(obj), *validate_spec(obj.get("spec") or {})]

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the conditions."""
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return [
            api_errors.unsupported(
                f"status.conditions[{index}].status", condition.get("status") or "", sorted(_STATUSES)
            )
            for index, condition in enumerate(conditions)
            if condition.get("status") not in _STATUSES
        ]

    async def after_delete(self, context: Context, obj: JsonObject) -> None:
        """Recreate APIServices that are managed automatically."""
        if self.gone is not None:
            await self.gone(context)


STRATEGIES: Mapping[str, StrategyFactory] = {
    SERVICES: lambda row, has_status: ApiServiceStrategy(row, has_status=has_status),
}
"""By ``group/resource``."""
