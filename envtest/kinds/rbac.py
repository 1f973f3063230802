# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Roles and bindings: their form. Who may do what is the authorizer's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.kinds.base import TableStrategy
from envtest.tables.load import Row
from opsdk.apiserver import problems
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(TableStrategy):
    """Rules name verbs, and groups and resources or paths."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: Tree) -> Sequence[Cause]:
        """See the class."""
        return [c for index, rule in enumerate(obj.get("rules") or ()) for c in self._rule(rule, f"rules[{index}]")]

    def _rule(self, rule: Tree, field: str) -> Iterator[Cause]:
        if not rule.get("verbs"):
            yield problems.required(f"{field}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            if self.namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                yield problems.invalid_value(f"{field}.nonResourceURLs", rule["nonResourceURLs"], text)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield problems.invalid_value(f"{field}.nonResourceURLs", rule["nonResourceURLs"], text)
            return
        if not rule.get("apiGroups"):
            yield problems.required(f"{field}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield problems.required(f"{field}.resources", "resource rules must supply at least one resource")


class BindingStrategy(TableStrategy):
    """A role that stays, subjects that may change."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: Tree) -> Sequence[Cause]:
        """The reference and each subject."""
        subjects = enumerate(obj.get("subjects") or ())
        return [*self._role(obj.get("roleRef") or {}), *(c for i, s in subjects for c in self._subject(i, s))]

    def _role(self, ref: Tree) -> Iterator[Cause]:
        if ref.get("apiGroup") != _GROUP:
            yield problems.unsupported("roleRef.apiGroup", ref.get("apiGroup", ""), [_GROUP])
        kinds = ["Role", "ClusterRole"] if self.namespaced else ["ClusterRole"]
        if ref.get("kind") not in kinds:
            yield problems.unsupported("roleRef.kind", ref.get("kind", ""), kinds)
        if not ref.get("name"):
            yield problems.required("roleRef.name")

    @staticmethod
    def _subject(index: int, subject: Tree) -> Iterator[Cause]:
        field, kind = f"subjects[{index}]", subject.get("kind", "")
        if not subject.get("name"):
            yield problems.required(f"{field}.name")
        if kind == "ServiceAccount":
            if subject.get("apiGroup"):
                yield problems.unsupported(f"{field}.apiGroup", subject["apiGroup"], [""])
            if not subject.get("namespace"):
                yield problems.required(f"{field}.namespace")
        elif kind in ("User", "Group"):
            if subject.get("apiGroup") != _GROUP:
                yield problems.unsupported(f"{field}.apiGroup", subject.get("apiGroup", ""), [_GROUP])
        else:
            yield problems.unsupported(f"{field}.kind", kind, ["ServiceAccount", "User", "Group"])

    def validate_update(self, context: Context, obj: Tree, old: Tree) -> Sequence[Cause]:
        """The role stays."""
        found = list(self.validate(context, obj))
        if obj.get("roleRef") != old.get("roleRef"):
            found.append(problems.invalid_value("roleRef", obj.get("roleRef"), "cannot change roleRef"))
        return found
