"""Columns of the group rbac.authorization.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import KindPrinter, age, kind_printers, name_of
from opsdk.structured_merge.value import JsonObject, JsonValue


def _binding(obj: JsonObject, now: float) -> list[JsonValue]:
    role = obj.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        by_kind.setdefault(subject.get("kind", ""), []).append(name)
    subjects = (", ".join(by_kind[k]) for k in ("User", "Group", "ServiceAccount"))
    return [name_of(obj), f"{role.get('kind', '')}/{role.get('name', '')}", age(obj, now), *subjects]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "rbac.authorization.k8s.io/rolebindings": _binding,
        "rbac.authorization.k8s.io/clusterrolebindings": _binding,
    }
)
"""By ``group/resource``."""
