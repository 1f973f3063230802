"""The one line of each write."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.children.comparison import ApplyComparison, ApplyDifference, DifferenceKind
from opsdk.children.explanation import REDACTED, ApplyReason, Explanation, explain, shown_value
from opsdk.children.ownership import OwnerEntry
from opsdk.structured_merge.fieldpath import FieldSet
from opsdk.structured_merge.typed import ABSENT

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
SECRET = GroupVersionKind("", "v1", "Secret")
KEY = ObjectKey("default", "web")
REPLICAS = ("f:spec", "f:replicas")
TIME = "2026-01-02T03:04:05Z"


def entry(name: str, *paths: Any) -> OwnerEntry:
    """A manager that owns these paths."""
    wire = FieldSet.of(*paths).to_fields_v1()
    return OwnerEntry(name=name, operation="Apply", api_version="apps/v1", time=TIME, subresource="", wire=wire)


def explained(
    *differences: ApplyDifference, own: OwnerEntry | None = None, other: OwnerEntry | None = None, **options: Any
) -> Explanation:
    """Explain differences."""
    managers = [manager for manager in (own, other) if manager is not None]
    comparison = ApplyComparison(tuple(differences), managers, own, options.pop("owners_known", True))
    return explain(comparison, options.pop("gvk", DEPLOYMENT), KEY, field_owner="me", **options)


def value(live: Any, desired: Any, path: Any = REPLICAS) -> ApplyDifference:
    """A difference of values."""
    return ApplyDifference(DifferenceKind.VALUE, path, live, desired)


@pytest.mark.parametrize(
    ("explanation", "reason", "line"),
    [
        (
            explained(value(5, 3), own=entry("me", ("f:spec", "f:paused")), other=entry("kubectl-scale", REPLICAS)),
            ApplyReason.DRIFT,
            f"Deployment default/web: spec.replicas 5 -> 3 (kubectl-scale changed it at {TIME})",
        ),
        (
            explained(
                value(5, 3), own=entry("me"), other=entry("helm", REPLICAS), previous=FieldSet.of(("f:spec", "f:a"))
            ),
            ApplyReason.TAKEN_OVER,
            "Deployment default/web: spec.replicas 5 -> 3 (taken over from helm)",
        ),
        (
            explained(value(5, 3), own=entry("me", REPLICAS)),
            ApplyReason.CHANGED,
            "Deployment default/web: spec.replicas 5 -> 3",
        ),
        (
            explained(value(ABSENT, 3), own=entry("me")),
            ApplyReason.ADDED,
            "Deployment default/web: spec.replicas added: 3",
        ),
        (
            explained(value(ABSENT, 3), own=entry("me"), previous=FieldSet.of(REPLICAS)),
            ApplyReason.DRIFT,
            "Deployment default/web: spec.replicas (missing) -> 3 (drift)",
        ),
        (
            explained(ApplyDifference(DifferenceKind.OWNED_BEFORE, REPLICAS), own=entry("me", REPLICAS)),
            ApplyReason.REMOVED,
            "Deployment default/web: spec.replicas removed",
        ),
        (
            explained(ApplyDifference(DifferenceKind.SHARED, REPLICAS), own=entry("me"), other=entry("you", REPLICAS)),
            ApplyReason.TAKEN_OVER,
            "Deployment default/web: spec.replicas (taken over from you)",
        ),
        (
            explained(ApplyDifference(DifferenceKind.VERSION, (), "apps/v1beta1", "apps/v1"), own=entry("me")),
            ApplyReason.CHANGED,
            'Deployment default/web: apiVersion "apps/v1beta1" -> "apps/v1"',
        ),
        (
            explained(value(5, 3), owners_known=False),
            ApplyReason.DRIFT,
            "Deployment default/web: spec.replicas 5 -> 3 (drift)",
        ),
        (
            explained(owners_known=False),
            ApplyReason.REFRESH,
            "Deployment default/web: applied, the owners of its fields are unknown",
        ),
        (
            Explanation(gvk=DEPLOYMENT, key=KEY, reason=ApplyReason.PRUNED),
            ApplyReason.PRUNED,
            "Deployment default/web: deleted, it is no longer desired",
        ),
    ],
)
def test_each_reason_has_its_words(explanation: Explanation, reason: ApplyReason, line: str) -> None:
    """The reason is a value, and the text is one line with the field, both values, and who changed it when."""
    assert explanation.reason is reason
    assert str(explanation) == line


def test_the_line_is_short() -> None:
    """A difference is logged in one line that names five fields, counts the rest and cuts long values."""
    differences = [value(number, "x" * 500, ("f:spec", f"f:field{number}")) for number in range(9)]
    explanation = explained(*differences, own=entry("me"))
    assert len(explanation.changes) == 9
    assert str(explanation).endswith("; 4 more")
    assert len(str(explanation)) < 800
    assert "\n" not in str(explanation)


def test_values_of_secrets_are_redacted() -> None:
    """Below data and stringData, as a whole and alone; the last applied configuration everywhere."""
    for path in (("f:data",), ("f:data", "f:a"), ("f:stringData", "f:a")):
        change = explained(value({"a": "cw=="}, "s", path), own=entry("me"), gvk=SECRET).changes[0]
        assert (change.live, change.desired) == (REDACTED, REDACTED)
    assert shown_value(SECRET, ("f:type",), "Opaque") == '"Opaque"'
    assert shown_value(GroupVersionKind("", "v1", "ConfigMap"), ("f:data",), {"a": "b"}) == '{"a":"b"}'
    annotation = ("f:metadata", "f:annotations", "f:kubectl.kubernetes.io/last-applied-configuration")
    assert shown_value(DEPLOYMENT, annotation, "{...}") == REDACTED
