# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Priority classes: two belong to the system, the others stay below a billion and never change their value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from envtest.kinds import rules
from envtest.kinds.base import TableStrategy
from envtest.tables.load import Row
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

HIGHEST: Final = 1_000_000_000
"""The highest value that users may give."""
PREFIX: Final = "system-"
SYSTEM: Final[Mapping[str, tuple[int, str]]] = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}
"""Values and descriptions of the classes of the system."""
POLICIES: Final = ("PreemptLowerPriority", "Never")


def system_classes() -> Iterator[JsonObject]:
    """The classes that a fresh cluster has."""
    for name, (value, description) in SYSTEM.items():
        made: JsonObject = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": name}}
        yield {**made, "value": value, "description": description, "preemptionPolicy": POLICIES[0]}


def _not_system(obj: JsonObject, name: str) -> str:
    """Why a class with a reserved name is none of the system's; empty where it is."""
    if name not in SYSTEM:
        return f"{name} is not a known system priority class"
    value = SYSTEM[name][0]
    if obj.get("value", 0) != value:
        return f"value of {name} PriorityClass must be {value}"
    return f"globalDefault of {name} PriorityClass must be false" if obj.get("globalDefault") else ""


class PriorityClassStrategy(TableStrategy):
    """See the module."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def generation_changed(self, obj: JsonObject, old: JsonObject) -> bool:
        """It is counted once, at the start."""
        return False

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Names, values, policies."""
        name, found = obj["metadata"].get("name", ""), list[Cause]()
        if name.startswith(PREFIX):
            why = _not_system(obj, name)
            if why:
                text = f"priority class names with '{PREFIX}' prefix are reserved for system use only. error: {why}"
                found.append(api_errors.not_allowed("metadata.name", text))
        elif obj.get("value", 0) > HIGHEST:
            text = f"maximum allowed value of a user defined priority is {HIGHEST}"
            found.append(api_errors.not_allowed("value", text))
        if obj.get("preemptionPolicy") is not None:
            found.extend(rules.one_of(obj["preemptionPolicy"], POLICIES, "preemptionPolicy"))
        return found

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """What pods were told stays true."""
        found = list[Cause]()
        if obj.get("value", 0) != old.get("value", 0):
            found.append(api_errors.not_allowed("value", "may not be changed in an update."))
        return [*found, *rules.unchanged(obj, old, "preemptionPolicy")]

    def check_delete(self, context: Context, obj: JsonObject) -> None:
        """Those of the system stay."""
        name = obj["metadata"]["name"]
        if name in SYSTEM:
            raise api_errors.forbidden(self.info, name, "this is a system priority class and cannot be deleted")
