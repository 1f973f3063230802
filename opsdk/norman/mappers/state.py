"""``state``, ``transitioning`` and ``transitioningMessage`` of an object of Kubernetes.

Upstream: github.com/rancher/types/mapper/status.go, status/status.go; github.com/rancher/wrangler/pkg/summary
Deviates: there are four states; wrangler's depend on the conditions of each kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.norman.mappers.kubernetes import gvk_of_schema
from opsdk.norman.mappers.pipe import Mappers
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.schema_parts import Field, Filter
from opsdk.recipes.summaries import SummaryState, tree_summary
from opsdk.structured_merge.value import JsonObject

__all__ = ["add_state"]

_STATES: Final[Mapping[SummaryState, str]] = {
    SummaryState.CURRENT: "active",
    SummaryState.IN_PROGRESS: "updating",
    SummaryState.FAILED: "error",
    SummaryState.TERMINATING: "removing",
}
_FIELDS: Final[Mapping[str, Field]] = {
    "state": Field(type="enum", options=tuple(_STATES.values()), create=False, update=False),
    "transitioning": Field(type="enum", options=("yes", "no", "error"), create=False, update=False),
    "transitioningMessage": Field(type="string", create=False, update=False, nullable=True),
}


def add_state(schema: Schema) -> None:
    """Show the state of the objects of a schema with a ``status``, unless a field of it has one of the names.

    Call it when the schema is customized, because the mapper needs the internal object:

    >>> from opsdk.api.core.v1 import Pod
    >>> from opsdk.norman.schema_parts import ApiVersion
    >>> from opsdk.norman.schemas import NormanSchemas
    >>> v3 = ApiVersion(version="v3", path="/v3")
    >>> pod = NormanSchemas.for_kubernetes(v3).import_class(v3, Pod, add_state).schema(v3, "pod")
    >>> tree = {"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    >>> pod.mapper.from_internal(tree); tree["state"], tree["transitioning"]
    ('removing', 'yes')
    """
    internal = schema.internal or schema
    if "status" not in internal.resource_fields or not _FIELDS.keys().isdisjoint(schema.resource_fields):
        return
    schema.resource_fields |= _FIELDS
    schema.collection_filters |= dict.fromkeys(("state", "transitioning"), Filter())
    own = _StateMapper(gvk_of_schema(schema))
    schema.mapper = own if schema.mapper is None else Mappers(own, schema.mapper)


class _StateMapper:
    """Sets the three fields outward, from the internal object, and removes them inward. See `add_state`."""

    def __init__(self, gvk: GroupVersionKind) -> None:
        self._gvk = gvk

    def from_internal(self, data: JsonObject) -> None:
        """Set the fields."""
        # The object may lack ``apiVersion`` and ``kind``, by which the summary chooses its rules.
        names = {"apiVersion": self._gvk.api_version, "kind": self._gvk.kind}
        result = tree_summary({**data, **names, "metadata": data.get("metadata") or {}})
        data["state"] = _STATES[result.state]
        data["transitioning"] = "error" if result.error else "yes" if result.transitioning else "no"
        data["transitioningMessage"] = result.message

    def to_internal(self, data: JsonObject) -> None:
        """Remove the fields."""
        for name in _FIELDS:
            data.pop(name, None)

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change nothing: `add_state` declares the fields."""

    def __repr__(self) -> str:
        return f"<_StateMapper of {self._gvk}>"
