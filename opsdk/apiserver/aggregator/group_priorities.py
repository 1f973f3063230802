"""Orders groups and versions in discovery by the priorities of APIServices. Pure.

Upstream: k8s.io/kube-aggregator/pkg/apiserver/handler_apis.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from opsdk.apiserver.endpoints.discovery import ServedVersion
from opsdk.structured_merge.value import JsonObject

_FIRST = 1 << 20


class GroupPriorities:
    """The priorities of each group version."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[str, str]] = {}
        self._numbers: dict[str, dict[str, tuple[int, int]]] = {}

    def __repr__(self) -> str:
        return f"<GroupPriorities of {len(self._numbers)} groups>"

    def put(self, name: str, obj: JsonObject | None) -> None:
        """Add or replace an ``APIService``; None removes it."""
        before = self._by_name.pop(name, None)
        if before is not None:
            group, version = before
            self._numbers[group].pop(version, None)
            if not self._numbers[group]:
                del self._numbers[group]
        if obj is not None:
            spec = obj.get("spec") or {}
            group, version = self._by_name[name] = (spec.get("group") or "", spec.get("version") or "")
            numbers = (spec.get("groupPriorityMinimum") or 0, spec.get("versionPriority") or 0)
            self._numbers.setdefault(group, {})[version] = numbers

    def sort_key(self, group: str) -> tuple[int, str]:
        """Return the sort key of a group: its highest priority, then its name. A group without priority comes first."""
        numbers = self._numbers.get(group)
        return (-max(priority for priority, _ in numbers.values()) if numbers else -_FIRST), group

    def sorted(self, group: str, versions: Iterable[ServedVersion]) -> list[ServedVersion]:
        """Sort the versions of a group, the preferred one first."""
        numbers = self._numbers.get(group, {})
        return sorted(versions, key=lambda served: -numbers.get(served.version, (0, 0))[1])
