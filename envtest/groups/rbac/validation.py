"""Validation of roles and bindings.

Upstream: pkg/apis/rbac/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.groups.common.label_selectors import check_label_selector
from opsdk.apimachinery.validation import dns_subdomain, path_segment
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_GROUP = "rbac.authorization.k8s.io"


def validate_role(obj: JsonObject, *, namespaced: bool) -> Iterator[Cause]:
    """Validate the rules of a Role or ClusterRole, and its aggregation rule."""
    for index, rule in enumerate(obj.get("rules") or ()):
        field = f"rules[{index}]"
        if not rule.get("verbs"):
            yield api_errors.required(f"{field}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                yield api_errors.invalid_value(f"{field}.nonResourceURLs", rule["nonResourceURLs"], text)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield api_errors.invalid_value(f"{field}.nonResourceURLs", rule["nonResourceURLs"], text)
        else:
            if not rule.get("apiGroups"):
                yield api_errors.required(f"{field}.apiGroups", "resource rules must supply at least one api group")
            if not rule.get("resources"):
                yield api_errors.required(f"{field}.resources", "resource rules must supply at least one resource")
    if obj.get("aggregationRule") is not None:
        yield from _aggregation(obj["aggregationRule"])


def _aggregation(rule: JsonObject) -> Iterator[Cause]:
    field, selectors = "aggregationRule.clusterRoleSelectors", rule.get("clusterRoleSelectors") or ()
    if not selectors:
        yield api_errors.required(field, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        causes = list(check_label_selector(selector, f"{field}[{index}]"))
        yield from causes
        if causes:
            yield api_errors.invalid_value(f"{field}[{index}]", None, "invalid label selector.")


def _none_of(field: str, value: str, allowed: Sequence[str]) -> Cause:
    """Return the error for an unsupported value, with the allowed values in the given order."""
    names = ", ".join(api_errors.quoted(v) for v in allowed)
    text = f"Unsupported value: {api_errors.quoted(value)}: supported values: {names}"
    return Cause(reason="FieldValueNotSupported", message=text, field=field)


def validate_role_binding(obj: JsonObject, *, namespaced: bool) -> Iterator[Cause]:
    """Validate the role reference and the subjects of a binding."""
    ref = obj.get("roleRef") or {}
    if ref.get("apiGroup") != _GROUP:
        yield _none_of("roleRef.apiGroup", ref.get("apiGroup", ""), [_GROUP])
    kinds = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]
    if ref.get("kind") not in kinds:
        yield _none_of("roleRef.kind", ref.get("kind", ""), kinds)
    name = ref.get("name", "")
    if not name:
        yield api_errors.required("roleRef.name")
    for text in path_segment(name):
        yield api_errors.invalid_value("roleRef.name", name, text)
    for index, subject in enumerate(obj.get("subjects") or ()):
        field = f"subjects[{index}]"
        kind = subject.get("kind", "")
        if not subject.get("name"):
            yield api_errors.required(f"{field}.name")
        if kind == "ServiceAccount":
            yield from _account(field, subject, namespaced=namespaced)
        elif kind in ("User", "Group"):
            if subject.get("apiGroup") != _GROUP:
                yield _none_of(f"{field}.apiGroup", subject.get("apiGroup", ""), [_GROUP])
        else:
            yield _none_of(f"{field}.kind", kind, ["ServiceAccount", "User", "Group"])


def validate_role_binding_update(obj: JsonObject, old: JsonObject, *, namespaced: bool) -> Iterator[Cause]:
    """Validate an update: the role reference is immutable."""
    yield from validate_role_binding(obj, namespaced=namespaced)
    if obj.get("roleRef") != old.get("roleRef"):
        ref = obj.get("roleRef") or {}
        rendered = {key: ref.get(f"{key[0].lower()}{key[1:]}", "") for key in ("Kind", "Name")}
        value = {"APIGroup": ref.get("apiGroup", ""), **rendered}
        yield api_errors.invalid_value("roleRef", value, "cannot change roleRef")


def _account(field: str, subject: JsonObject, *, namespaced: bool) -> Iterator[Cause]:
    name = subject.get("name", "")
    for text in dns_subdomain(name) if name else ():
        yield api_errors.invalid_value(f"{field}.name", name, text)
    if subject.get("apiGroup"):
        yield _none_of(f"{field}.apiGroup", subject["apiGroup"], [""])
    if not namespaced and not subject.get("namespace"):
        yield api_errors.required(f"{field}.namespace")
