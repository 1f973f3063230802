# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Roles and bindings: their form. Who may do what is the authorizer's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.kinds.base import TableStrategy
from envtest.kinds.selector_rules import check_label_selector
from envtest.tables.load import Row
from opsdk.apimachinery import validation as names
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(TableStrategy):
    """Rules name verbs, and groups and resources or paths."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """See the class."""
        found = [c for index, rule in enumerate(obj.get("rules") or ()) for c in self._rule(rule, f"rules[{index}]")]
        aggregation = obj.get("aggregationRule")
        return found if aggregation is None else [*found, *_aggregation(aggregation)]

    def _rule(self, rule: JsonObject, field: str) -> Iterator[Cause]:
        if not rule.get("verbs"):
            yield api_errors.required(f"{field}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            if self.namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                yield api_errors.invalid_value(f"{field}.nonResourceURLs", rule["nonResourceURLs"], text)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield api_errors.invalid_value(f"{field}.nonResourceURLs", rule["nonResourceURLs"], text)
            return
        if not rule.get("apiGroups"):
            yield api_errors.required(f"{field}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield api_errors.required(f"{field}.resources", "resource rules must supply at least one resource")


def _aggregation(rule: JsonObject) -> Iterator[Cause]:
    field, selectors = "aggregationRule.clusterRoleSelectors", rule.get("clusterRoleSelectors") or ()
    if not selectors:
        yield api_errors.required(field, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        found = list(check_label_selector(selector, f"{field}[{index}]"))
        yield from found
        if found:
            yield api_errors.invalid_value(f"{field}[{index}]", None, "invalid label selector.")


def _none_of(field: str, value: str, allowed: Sequence[str]) -> Cause:
    """The value is not one of a few, which are told in this order."""
    names = ", ".join(api_errors.quoted(v) for v in allowed)
    text = f"Unsupported value: {api_errors.quoted(value)}: supported values: {names}"
    return Cause(reason="FieldValueNotSupported", message=text, field=field)


class BindingStrategy(TableStrategy):
    """A role that stays, subjects that may change."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """The reference and each subject."""
        subjects = enumerate(obj.get("subjects") or ())
        return [*self._role(obj.get("roleRef") or {}), *(c for i, s in subjects for c in self._subject(i, s))]

    def _role(self, ref: JsonObject) -> Iterator[Cause]:
        if ref.get("apiGroup") != _GROUP:
            yield _none_of("roleRef.apiGroup", ref.get("apiGroup", ""), [_GROUP])
        kinds = ["Role", "ClusterRole"] if self.namespaced else ["ClusterRole"]
        if ref.get("kind") not in kinds:
            yield _none_of("roleRef.kind", ref.get("kind", ""), kinds)
        name = ref.get("name", "")
        if not name:
            yield api_errors.required("roleRef.name")
        for text in names.path_segment(name):
            yield api_errors.invalid_value("roleRef.name", name, text)

    def _subject(self, index: int, subject: JsonObject) -> Iterator[Cause]:
        field, kind = f"subjects[{index}]", subject.get("kind", "")
        if not subject.get("name"):
            yield api_errors.required(f"{field}.name")
        if kind == "ServiceAccount":
            yield from self._account(field, subject)
        elif kind in ("User", "Group"):
            if subject.get("apiGroup") != _GROUP:
                yield _none_of(f"{field}.apiGroup", subject.get("apiGroup", ""), [_GROUP])
        else:
            yield _none_of(f"{field}.kind", kind, ["ServiceAccount", "User", "Group"])

    def _account(self, field: str, subject: JsonObject) -> Iterator[Cause]:
        name = subject.get("name", "")
        for text in names.dns_subdomain(name) if name else ():
            yield api_errors.invalid_value(f"{field}.name", name, text)
        if subject.get("apiGroup"):
            yield _none_of(f"{field}.apiGroup", subject["apiGroup"], [""])
        if not self.namespaced and not subject.get("namespace"):
            yield api_errors.required(f"{field}.namespace")

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """The role stays."""
        found = list(self.validate(context, obj))
        if obj.get("roleRef") != old.get("roleRef"):
            ref = obj.get("roleRef") or {}
            shown = {key: ref.get(f"{key[0].lower()}{key[1:]}", "") for key in ("Kind", "Name")}
            value = {"APIGroup": ref.get("apiGroup", ""), **shown}
            found.append(api_errors.invalid_value("roleRef", value, "cannot change roleRef"))
        return found
