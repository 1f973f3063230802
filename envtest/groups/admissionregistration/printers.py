"""Columns of the group admissionregistration.k8s.io.

Upstream: pkg/printers/internalversion/printers.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping

from envtest.groups.common.printing import UNSET, Cells, KindPrinter, age, kind_printers, name_of
from opsdk.structured_merge.value import JsonObject, JsonValue


def _policy(key: str) -> Cells:
    def cells(obj: JsonObject, now: float) -> list[JsonValue]:
        spec: JsonObject = obj.get("spec") or {}
        kind = spec.get("paramKind")
        params = UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
        return [obj["metadata"].get("name", ""), len(spec.get(key) or ()), params, age(obj, now)]

    return cells


def _binding(obj: JsonObject, now: float) -> list[JsonValue]:
    spec: JsonObject = obj.get("spec") or {}
    ref = spec.get("paramRef")
    if ref is None:
        params = UNSET
    elif ref.get("name"):
        params = f"{ref.get('namespace') or '*'}/{ref['name']}"
    else:
        selector = ref.get("selector")
        params = UNSET if selector is None else _selector(selector)
    return [obj["metadata"].get("name", ""), spec.get("policyName", ""), params, age(obj, now)]


def _selector(selector: JsonObject) -> str:
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    parts = "".join(
        f"LabelSelectorRequirement{{Key:{part.get('key', '')},Operator:{part.get('operator', '')},"
        f"Values:[{' '.join(part.get('values') or ())}],}},"
        for part in selector.get("matchExpressions") or ()
    )
    expressions = f"[]LabelSelectorRequirement{{{parts}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:{expressions},}}"


def _webhooks(obj: JsonObject, now: float) -> list[JsonValue]:
    return [name_of(obj), len(obj.get("webhooks") or []), age(obj, now)]


PRINTERS: Mapping[str, KindPrinter] = kind_printers(
    {
        "admissionregistration.k8s.io/validatingwebhookconfigurations": _webhooks,
        "admissionregistration.k8s.io/mutatingwebhookconfigurations": _webhooks,
        "admissionregistration.k8s.io/validatingadmissionpolicies": _policy("validations"),
        "admissionregistration.k8s.io/mutatingadmissionpolicies": _policy("mutations"),
        "admissionregistration.k8s.io/validatingadmissionpolicybindings": _binding,
        "admissionregistration.k8s.io/mutatingadmissionpolicybindings": _binding,
    }
)
"""By ``group/resource``."""
