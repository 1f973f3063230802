"""Columns of admission policies and their bindings."""

from __future__ import annotations

from typing import Any

from envtest.kinds.printing import AGE, NAME, KindPrinter, age
from opsdk.apiserver.resources import Column, Printer
from opsdk.apiserver.storage.ports import Tree

_UNSET = "<unset>"
_PARAM_KIND = Column(
    name="ParamKind", description="ParamKind specifies the kind of resources used to parameterize this policy"
)
_POLICY_NAME = Column(
    name="PolicyName", description="PolicyName indicates the policy definition which the policy binding binded to"
)
_PARAM_REF = Column(
    name="ParamRef", description="ParamRef indicates the param resource which sets the configuration param"
)


def _policy(name: str, key: str, description: str) -> Printer:
    def cells(obj: Tree, now: float) -> list[Any]:
        spec: Tree = obj.get("spec") or {}
        kind = spec.get("paramKind")
        params = _UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
        return [obj["metadata"].get("name", ""), len(spec.get(key) or ()), params, age(obj, now)]

    count = Column(name=name, type="integer", description=description)
    return KindPrinter([NAME, count, _PARAM_KIND, AGE], cells)


def _binding(obj: Tree, now: float) -> list[Any]:
    spec: Tree = obj.get("spec") or {}
    params = _param_ref(spec.get("paramRef"))
    return [obj["metadata"].get("name", ""), spec.get("policyName", ""), params, age(obj, now)]


def _param_ref(ref: Tree | None) -> str:
    """By name, else by the selector in the server's own writing."""
    if ref is None:
        return _UNSET
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    selector = ref.get("selector")
    return _UNSET if selector is None else _selector(selector)


def _selector(selector: Tree) -> str:
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    parts = "".join(
        f"LabelSelectorRequirement{{Key:{part.get('key', '')},Operator:{part.get('operator', '')},"
        f"Values:[{' '.join(part.get('values') or ())}],}},"
        for part in selector.get("matchExpressions") or ()
    )
    expressions = f"[]LabelSelectorRequirement{{{parts}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:{expressions},}}"


_BINDING = KindPrinter([NAME, _POLICY_NAME, _PARAM_REF, AGE], _binding)

PRINTERS: dict[str, Printer] = {
    "admissionregistration.k8s.io/validatingadmissionpolicies": _policy(
        "Validations",
        "validations",
        "Validations indicates the number of validation rules defined in this configuration",
    ),
    "admissionregistration.k8s.io/mutatingadmissionpolicies": _policy(
        "Mutations", "mutations", "Mutation indicates the number of mutations rules defined in this configuration"
    ),
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": _BINDING,
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings": _BINDING,
}
"""By ``group/resource``."""
